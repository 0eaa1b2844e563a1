//! Faults that a server makes on purpose: what is not answered, late, wrong or cut, by zone, name, type, address, transport, share and time.
//!
//! The rules stand in a TOML file ([`Faults::read`]). Of the rules that fit a query, the first applies. A query that fits none has the
//! answer that it would have without rules, octet by octet.

mod change;
mod edits;
mod file;
mod invented;
mod records;

use std::net::IpAddr;
use std::sync::Arc;

use change::Case;
use ldplayer_core::Cidr;
use ldplayer_core::random::{draw, subkey, unit};
use ldplayer_core::transport::Transport;
use ldplayer_link::Rtt;

pub use file::FaultsError;

use super::counters::level_of;

/// The rules of a file.
#[derive(Debug)]
pub struct Faults {
    rules: Vec<Rule>,
    seed: u64,
}

/// Queries, and what is wrong with their answers.
#[derive(Debug)]
struct Rule {
    name: String,
    when: Conditions,
    answer: Option<Answer>,
    /// More records of the additional section.
    add: Vec<records::Any>,
    delay: Option<Rtt>,
    /// Nanoseconds from octet to octet of an answer over TCP or TLS.
    pace_ns: Option<i64>,
}

/// What a query must be. Empty lists and `None` ask for nothing.
#[derive(Debug)]
struct Conditions {
    /// Apexes of zones that answer, in wire format.
    zones: Vec<Vec<u8>>,
    /// The level of the zone that answers, as a place in [`LEVELS`].
    level: Option<usize>,
    /// The name is one of these, or below.
    under: Vec<Vec<u8>>,
    types: Vec<u16>,
    /// Blocks of the address that is asked, and of the one that asks.
    servers: Vec<Cidr>,
    clients: Vec<Cidr>,
    transport: Option<Transport>,
    edns: Option<bool>,
    /// The answer without faults has more octets.
    above: usize,
    /// The share of these queries, from 0 to 1.
    share: f64,
    /// Nanoseconds since the server began.
    after_ns: i64,
    until_ns: i64,
}

/// What is answered in place of the answer.
#[derive(Clone, Debug)]
enum Answer {
    /// Nothing. A connection stays.
    None,
    /// Nothing, and the connection is reset. Nothing over UDP.
    Reset,
    /// The question with this code.
    Code(u16),
    /// The question with TC.
    Truncated,
    /// The question without AA, NOERROR, as of a server that does not know the zone.
    Lame,
    /// FORMERR without OPT for queries with it (RFC 6891 §7).
    NoEdns,
    /// BADVERS for queries with EDNS.
    BadVersion,
    /// The answer to the query without OPT.
    EdnsIgnored,
    /// The answer with another ID.
    WrongId,
    /// The answer to a question that was not asked.
    WrongQuestion,
    /// The answer to the query without DO: no signature, no DS in referrals, no proof.
    Unsigned,
    /// The answer without its additional section.
    WithoutGlue,
    /// The answer with signatures whose time is over.
    Expired,
    /// The answer with signatures whose time is to come.
    NotYetValid,
    /// The answer with one bit of each signature flipped.
    Bogus,
    /// The answer, from another port.
    WrongPort,
    /// The answer without the options of its OPT record.
    WithoutOptions,
    /// The answer with other addresses in its additional section.
    WrongGlue,
    /// The answer without DS records and their signatures.
    WithoutDs,
    /// The answer without NSEC and NSEC3 records and their signatures.
    WithoutDenial,
    /// The denial of another name.
    WrongDenial,
    /// The answer with one name server of each zone.
    FewerServers,
    /// An alias whose alias is the name.
    AliasLoop,
    /// So many aliases before what is answered.
    AliasChain(u16),
    /// A referral to a server below a zone that is referred to a server below this one.
    DelegationLoop,
    /// A referral to so many servers without addresses, below a name.
    ManyServers { count: u16, target: Vec<u8> },
}

impl Answer {
    /// What becomes of an answer that is not changed.
    const fn fate(&self) -> Option<Fate> {
        match self {
            Self::None => Some(Fate::Dropped),
            Self::Reset => Some(Fate::Reset),
            Self::WrongPort => Some(Fate::SentElsewhere),
            _ => None,
        }
    }
}

/// The words for answers in a file, but for response codes and answers that have more keys.
const ANSWERS: [(&str, Answer); 23] = [
    ("none", Answer::None),
    ("reset", Answer::Reset),
    ("truncated", Answer::Truncated),
    ("lame", Answer::Lame),
    ("no-edns", Answer::NoEdns),
    ("bad-version", Answer::BadVersion),
    ("edns-ignored", Answer::EdnsIgnored),
    ("wrong-id", Answer::WrongId),
    ("wrong-question", Answer::WrongQuestion),
    ("unsigned", Answer::Unsigned),
    ("without-glue", Answer::WithoutGlue),
    ("expired", Answer::Expired),
    ("not-yet-valid", Answer::NotYetValid),
    ("bogus", Answer::Bogus),
    ("wrong-port", Answer::WrongPort),
    ("without-options", Answer::WithoutOptions),
    ("wrong-glue", Answer::WrongGlue),
    ("without-ds", Answer::WithoutDs),
    ("without-denial", Answer::WithoutDenial),
    ("wrong-denial", Answer::WrongDenial),
    ("fewer-servers", Answer::FewerServers),
    ("alias-loop", Answer::AliasLoop),
    ("delegation-loop", Answer::DelegationLoop),
];

/// A query as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The apex of the zone that answers, if there is one.
    pub zone: Option<&'a [u8]>,
    /// QNAME, in any case.
    pub name: &'a [u8],
    /// QTYPE.
    pub qtype: u16,
    /// The address that is asked.
    pub local: IpAddr,
    /// The address that asks.
    pub peer: IpAddr,
    /// The transport.
    pub transport: Transport,
    /// Whether the query has an OPT record.
    pub edns: bool,
    /// Octets of the answer without faults.
    pub length: usize,
    /// Nanoseconds since the server began.
    pub at_ns: i64,
}

impl Faults {
    /// The zones that rules name, each with the name of its rule.
    pub fn zones(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.rules.iter().flat_map(|rule| rule.when.zones.iter().map(|zone| (&*rule.name, &**zone)))
    }

    /// The names of the rules.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| &*rule.name)
    }
}

impl Conditions {
    /// Whether a query is one of these; `draws` says whether it is one of the share.
    fn fit(&self, asked: &Asked<'_>, draws: impl FnOnce(f64) -> bool) -> bool {
        let is_in = |blocks: &[Cidr], address| blocks.is_empty() || blocks.iter().any(|block| block.contains(address));
        let is_zone = |apex: &Vec<u8>| asked.zone.is_some_and(|zone| zone.eq_ignore_ascii_case(apex));
        let level = || asked.zone.map(level_of);
        (self.zones.is_empty() || self.zones.iter().any(is_zone))
            && (self.level.is_none() || self.level == level())
            && (self.under.is_empty() || self.under.iter().any(|top| is_under(asked.name, top)))
            && (self.types.is_empty() || self.types.contains(&asked.qtype))
            && is_in(&self.servers, asked.local)
            && is_in(&self.clients, asked.peer)
            && self.transport.is_none_or(|transport| transport == asked.transport)
            && self.edns.is_none_or(|edns| edns == asked.edns)
            && (self.above == 0 || asked.length > self.above)
            && (self.after_ns..self.until_ns).contains(&asked.at_ns)
            && (self.share >= 1.0 || draws(self.share))
    }
}

/// Whether a name in wire format is another one or below it, in any case.
fn is_under(mut name: &[u8], top: &[u8]) -> bool {
    while name.len() > top.len() {
        let label = usize::from(name[0]) + 1;
        match name.get(label..) {
            Some(rest) => name = rest,
            None => return false,
        }
    }
    name.eq_ignore_ascii_case(top)
}

/// The faults of one worker of a server: its draws and counts.
#[derive(Debug)]
pub struct Maker {
    faults: Arc<Faults>,
    /// When the server began, in nanoseconds of CLOCK_MONOTONIC.
    begun_ns: i64,
    /// Another sequence of draws for each worker and rule.
    key: u64,
    /// Draws of each rule.
    drawn: Vec<u64>,
    /// Queries that each rule was the first to fit.
    met: Vec<u64>,
    /// How often each rule made its fault since it was last asked for. Where the answer has nothing to be changed, it does not.
    applied: Vec<u64>,
    changed: Vec<u8>,
    before: Vec<u8>,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is sent so many nanoseconds later than otherwise.
    Sent {
        /// 0 for at once.
        later_ns: i64,
    },
    /// It is sent octet by octet, with so many nanoseconds between them.
    SentSlowly {
        /// More than 0.
        every_ns: i64,
    },
    /// It is sent from another port.
    SentElsewhere,
    /// It is not sent.
    Dropped,
    /// It is not sent, and its connection is reset.
    Reset,
}

/// The answer of a worker to a query that is another one than was asked: appends it to the octets.
pub type Answering<'a> = &'a mut dyn FnMut(&[u8], &mut Vec<u8>);

impl Maker {
    /// For one worker of a server that begins now.
    pub fn new(faults: Arc<Faults>, worker: usize, begun_ns: i64) -> Self {
        let rules = faults.rules.len();
        let key = subkey(faults.seed, worker as u64);
        let zeros = || vec![0; rules];
        let (drawn, met, applied) = (zeros(), zeros(), zeros());
        Self { faults, begun_ns, key, drawn, met, applied, changed: Vec::new(), before: Vec::new() }
    }

    /// Applies the first rule that fits a query to its answer in `out`; `again` answers another query.
    pub fn apply(&mut self, asked: Asked<'_>, query: &[u8], out: &mut Vec<u8>, again: Answering<'_>) -> Fate {
        let Self { faults, key, drawn, .. } = self;
        let mut fits = |(at, rule): &(usize, &Rule)| {
            let mut draws = |share: f64| {
                drawn[*at] += 1;
                unit(draw(subkey(*key, *at as u64), drawn[*at])) < share
            };
            let can = rule.answer.as_ref().is_none_or(|answer| change::can(answer, &asked));
            let is_slow = rule.pace_ns.is_none() || matches!(asked.transport, Transport::Tcp | Transport::Dot);
            can && is_slow && rule.when.fit(&asked, &mut draws)
        };
        let Some((at, rule)) = faults.rules.iter().enumerate().find(|found| fits(found)) else {
            return Fate::Sent { later_ns: 0 };
        };
        self.met[at] += 1;
        let (key, number) = (subkey(*key, at as u64), self.met[at]);
        if let Some(fate) = rule.answer.as_ref().and_then(Answer::fate) {
            self.applied[at] += 1;
            return fate;
        }
        self.before.clone_from(out);
        if let Some(answer) = &rule.answer {
            let case = Case { asked: &asked, query, chance: draw(key, number) };
            change::change(answer, &case, &mut self.changed, out, again);
        }
        if !rule.add.is_empty() {
            edits::add(out, &rule.add);
        }
        change::fit(&asked, self.before.len(), out);
        let later_ns = rule.delay.as_ref().map_or(0, |delay| late(delay, key, number));
        let is_made = rule.delay.is_some() || rule.pace_ns.is_some() || self.before != *out;
        self.applied[at] += u64::from(is_made);
        match rule.pace_ns {
            Some(every_ns) => Fate::SentSlowly { every_ns },
            None => Fate::Sent { later_ns },
        }
    }

    /// Nanoseconds since the server began.
    pub const fn since_begun(&self, now_ns: i64) -> i64 {
        now_ns - self.begun_ns
    }

    /// How often each rule made its fault since the last call, by the names of the rules.
    pub fn take_applied(&mut self) -> Vec<(String, u64)> {
        let names = self.faults.names().map(str::to_owned);
        names.zip(self.applied.iter_mut().map(std::mem::take)).collect()
    }

    /// Makes other faults from now on, at times since the server began. Take the counts before.
    pub fn renew(&mut self, faults: &Arc<Faults>) {
        if !Arc::ptr_eq(&self.faults, faults) {
            let Self { begun_ns, key, .. } = *self;
            *self = Self { key, ..Self::new(Arc::clone(faults), 0, begun_ns) };
        }
    }
}

/// A delay in nanoseconds.
fn late(delay: &Rtt, key: u64, number: u64) -> i64 {
    match delay {
        Rtt::Constant(ns) => *ns,
        Rtt::Drawn(distribution) => distribution.sample(draw(!key, 2 * number), draw(!key, 2 * number + 1)).max(0),
        Rtt::Prefixes(_) => 0,
    }
}

#[cfg(test)]
mod tests;
