//! Shares of clients or queries: drawn from the seed, and exact to within one at every point of the trace.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hashbrown::HashTable;
use ldplayer_core::random::draw;
use ldplayer_core::shard::client_hash;

/// The unit of shares, nine decimals, so that rounding errors do not add up.
const WHOLE: u64 = 1_000_000_000;
/// The bit of a table entry that says whether the client was drawn; the others are its hash.
const DRAWN: u64 = 1;

/// A part of a whole, from 0 to 1, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct Share(u64);

/// An invalid share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadShare {
    /// Not a number.
    #[error("`{0}` is not a share such as \"70 %\" or 0.7")]
    Form(String),
    /// A number that could be a percentage or all.
    #[error("`{0}` could be 1 % or all: write \"1 %\" or \"100 %\"")]
    Unit(String),
    /// Below 0 or above 1.
    #[error("the share {0} is not between 0 % and 100 %")]
    Range(String),
}

impl Share {
    /// 1: everything.
    pub const ALL: Self = Self(WHOLE);

    /// From a number between 0 and 1.
    ///
    /// # Errors
    /// When it is outside.
    pub fn of(part: f64) -> Result<Self, BadShare> {
        match part {
            0.0..=1.0 => Ok(Self((part * WHOLE as f64).round() as u64)),
            _ => Err(BadShare::Range(format!("{} %", part * 100.0))),
        }
    }

    /// Whether it is 0.
    pub const NONE: Self = Self(0);

    /// The sum; `None` if above 1.
    pub fn plus(self, other: Self) -> Option<Self> {
        Some(Self(self.0 + other.0)).filter(|sum| *sum <= Self::ALL)
    }

    /// This share in relation to what remains after `taken`, at most 1.
    pub(crate) fn of_the_rest(self, taken: Self) -> Self {
        let rest = WHOLE.saturating_sub(taken.0);
        let part = (u128::from(self.0) * u128::from(WHOLE)).checked_div(u128::from(rest));
        Self(part.map_or(WHOLE, |part| part.min(u128::from(WHOLE)) as u64))
    }

    /// As a number between 0 and 1.
    pub fn part(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }
}

impl FromStr for Share {
    type Err = BadShare;

    /// Reads `70 %`, `70%` or `0.7`.
    fn from_str(text: &str) -> Result<Self, BadShare> {
        let bad = || BadShare::Form(text.to_owned());
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None if text.trim() == "1" => return Err(BadShare::Unit(text.trim().to_owned())),
            None => (text.trim(), 1.0),
        };
        let number: f64 = number.parse().map_err(|_| bad())?;
        Self::of(number / scale).map_err(|_| BadShare::Range(text.to_owned()))
    }
}

/// In percent, as it is read back.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0 as f64 / 1e7)
    }
}

ldplayer_core::serde_as_text!(Share);

/// The unit of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Per {
    /// Of the clients, all of whose queries go the same way.
    #[default]
    Client,
    /// Of the queries.
    Query,
}

/// Draws a share of a sequence.
///
/// After the n-th item, the number drawn is p·n, or one of the two integers around it, with probabilities such that every item is
/// equally likely to be drawn. The length of the sequence need not be known.
#[derive(Debug)]
pub(crate) struct Even {
    share: Share,
    count: u64,
    drawn: u64,
}

impl Even {
    /// The number of items so far.
    pub(crate) fn new(share: Share) -> Self {
        Self { share, count: 0, drawn: 0 }
    }

    /// The number drawn.
    pub(crate) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// Decides about the next item with a random number.
    pub(crate) fn next(&mut self, random: u64) -> bool {
        let Share(part) = self.share;
        let sum = u128::from(self.count) * u128::from(part);
        let (floor, fraction) = ((sum / u128::from(WHOLE)) as u64, (sum % u128::from(WHOLE)) as u64);
        let is_ahead = self.drawn > floor;
        let carries = fraction + part >= WHOLE;
        let drawn = match (carries, is_ahead) {
            (false, true) => false,
            (false, false) => happens(random, part, WHOLE - fraction),
            (true, false) => true,
            (true, true) => happens(random, fraction + part - WHOLE, fraction),
        };
        self.count += 1;
        self.drawn += u64::from(drawn);
        drawn
    }
}

/// Whether a random number selects an event of probability `part / whole`.
fn happens(random: u64, part: u64, whole: u64) -> bool {
    (u128::from(random) * u128::from(whole)) >> 64 < u128::from(part)
}

/// The draws of one rule.
#[derive(Debug)]
pub struct Draws {
    per: Per,
    key: u64,
    even: Even,
    /// Hashes of the clients seen, with [`DRAWN`] as their lowest bit. Among a million clients, the probability that two share a
    /// hash, and so a decision, is one in ten million.
    clients: HashTable<u64>,
}

impl Draws {
    /// The draws of the sequence `key`.
    pub fn new(share: Share, per: Per, key: u64) -> Self {
        Self { per, key, even: Even::new(share), clients: HashTable::new() }
    }

    /// Whether a query of this client is drawn.
    pub fn next(&mut self, client: IpAddr) -> bool {
        match (self.even.share, self.per) {
            (Share::ALL, _) => true,
            (_, Per::Query) => self.even.next(draw(self.key, self.even.count)),
            (_, Per::Client) => self.next_client(client_hash(client)),
        }
    }

    fn next_client(&mut self, hash: u64) -> bool {
        let known = |entry: &u64| (entry ^ hash) & !DRAWN == 0;
        if let Some(entry) = self.clients.find(hash & !DRAWN, known) {
            return entry & DRAWN != 0;
        }
        let drawn = self.even.next(draw(self.key, hash));
        let entry = hash & !DRAWN | u64::from(drawn);
        self.clients.insert_unique(hash & !DRAWN, entry, |entry| entry & !DRAWN);
        drawn
    }

    /// Clients or queries seen, and those drawn; `None` if the share is 1.
    pub fn counts(&self) -> (u64, u64) {
        (self.even.count, self.even.drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn share(text: &str) -> Share {
        text.parse().unwrap()
    }

    fn client(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn shares_are_read_in_percent_or_as_parts() {
        assert_eq!(share("70 %"), share("0.7"));
        assert_eq!((share("100%"), share("12.5 %").part()), (Share::ALL, 0.125));
        assert!(matches!("101 %".parse::<Share>(), Err(BadShare::Range(_))));
        assert!(matches!("-1 %".parse::<Share>(), Err(BadShare::Range(_))));
        assert!(matches!("70".parse::<Share>(), Err(BadShare::Range(_))));
        assert!(matches!("nan".parse::<Share>(), Err(BadShare::Range(_))));
        assert!(matches!("1".parse::<Share>(), Err(BadShare::Unit(_))), "it could be 1 %");
        assert_eq!(("1.0".parse(), "1 %".parse::<Share>().unwrap().part()), (Ok(Share::ALL), 0.01));
        assert!(matches!("most".parse::<Share>(), Err(BadShare::Form(_))));
    }

    proptest! {
        #[test]
        fn the_share_is_exact_to_within_one_at_every_point(billionths in 0..=WHOLE, seed: u64) {
            let mut even = Even { share: Share(billionths), count: 0, drawn: 0 };
            for count in 1..=400_u64 {
                even.next(draw(seed, count));
                let wanted = billionths as f64 * count as f64 / WHOLE as f64;
                prop_assert!((even.drawn as f64 - wanted).abs() < 1.0, "{} of {count}", even.drawn);
            }
        }
    }

    #[test]
    fn a_client_always_goes_the_same_way() {
        let mut draws = Draws::new(share("30 %"), Per::Client, 7);
        let first: Vec<bool> = (0..10_000).map(|number| draws.next(client(number))).collect();
        let again: Vec<bool> = (0..10_000).map(|number| draws.next(client(number))).collect();
        assert_eq!(first, again);
        assert_eq!(draws.counts(), (10_000, 3_000));
    }

    #[test]
    fn each_is_as_likely_as_any_other() {
        let mut times = [0; 10];
        for seed in 0..20_000 {
            let mut draws = Draws::new(share("30 %"), Per::Client, seed);
            (0..10).for_each(|number| times[number as usize] += u32::from(draws.next(client(number))));
        }
        assert!(times.iter().all(|&count| (5_700..6_300).contains(&count)), "{times:?}");
    }

    #[test]
    fn queries_are_drawn_one_by_one() {
        let mut draws = Draws::new(share("25 %"), Per::Query, 1);
        let drawn = (0..1_000).filter(|_| draws.next(client(1))).count();
        assert_eq!(drawn, 250);
    }
}
