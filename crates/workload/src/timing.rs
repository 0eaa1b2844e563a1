//! Timing modes: their syntax and due times.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ldplayer_core::RunTime;
use ldplayer_core::random::{draw, subkey, unit};
use ldplayer_core::time::{NS_PER_S, Span};

/// Separates the draws of gaps from others with the same seed.
const KEY: u64 = 0x6172_7269_7661_6c73;

/// When queries are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// As recorded, divided by a speed (1 is the recorded one).
    Scaled(f64),
    /// At even gaps, in queries per second, in the recorded order.
    Rate(f64),
    /// At random gaps with this mean rate, in queries per second, in the recorded order: arrivals of many independent clients.
    Poisson(f64),
    /// At a rate that changes linearly, and then stays.
    Ramp(Ramp),
    /// As fast as answers arrive.
    Fast,
}

/// A linear ramp, followed by a constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// Queries per second at the start; 0 or more.
    pub from: f64,
    /// Queries per second at the end of the ramp, and from there on; above 0.
    pub to: f64,
    /// Duration of the ramp in nanoseconds; above 0.
    pub within: i64,
}

impl Timing {
    /// As recorded.
    pub const ORIGINAL: Self = Self::Scaled(1.0);
}

/// An invalid timing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown timing `{0}`: use original, scaled:2 (twice as fast), rate:20k (queries per second at constant gaps), poisson:20k (at random gaps), ramp:1k-50k/60s (from the first rate to the second in 60 s, then constant) or fast"
)]
pub struct UnknownTiming(String);

impl FromStr for Timing {
    type Err = UnknownTiming;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let (kind, value) = word.split_once(':').unwrap_or((word, ""));
        let timing = match kind {
            "original" if value.is_empty() => Some(Self::ORIGINAL),
            "fast" if value.is_empty() => Some(Self::Fast),
            "scaled" => value.parse().ok().filter(is_positive).map(Self::Scaled),
            "rate" => parse_rate(value).filter(is_positive).map(Self::Rate),
            "poisson" => parse_rate(value).filter(is_positive).map(Self::Poisson),
            "ramp" => parse_ramp(value).map(Self::Ramp),
            _ => None,
        };
        timing.ok_or_else(|| UnknownTiming(word.to_owned()))
    }
}

/// In the syntax that is parsed.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scaled(1.0) => f.write_str("original"),
            Self::Scaled(speed) => write!(f, "scaled:{speed}"),
            Self::Rate(qps) => write!(f, "rate:{qps}"),
            Self::Poisson(qps) => write!(f, "poisson:{qps}"),
            Self::Ramp(Ramp { from, to, within }) => {
                let within = Span(Duration::from_nanos(within.unsigned_abs()));
                write!(f, "ramp:{from}-{to}/{within}")
            }
            Self::Fast => f.write_str("fast"),
        }
    }
}

fn is_positive(number: &f64) -> bool {
    *number > 0.0 && number.is_finite()
}

/// A rate in queries per second; above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Qps(pub f64);

/// An invalid rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no rate: give queries per second, such as 500, 20k or 1.5M")]
pub struct BadQps(String);

impl FromStr for Qps {
    type Err = BadQps;

    fn from_str(word: &str) -> Result<Self, BadQps> {
        parse_rate(word).filter(is_positive).map(Self).ok_or_else(|| BadQps(word.to_owned()))
    }
}

impl fmt::Display for Qps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

ldplayer_core::serde_as_text!(Qps);

/// Parses queries per second, such as 500, 20k or 1.5M.
fn parse_rate(word: &str) -> Option<f64> {
    let scales = [('k', 1e3), ('K', 1e3), ('M', 1e6)];
    let scaled = scales.iter().find_map(|(suffix, scale)| Some((word.strip_suffix(*suffix)?, *scale)));
    let (number, scale) = scaled.unwrap_or((word, 1.0));
    let is_plain = number.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    number.trim_end().parse::<f64>().ok().filter(|number| is_plain && number.is_finite()).map(|number| number * scale)
}

/// Parses `FROM-TO/DURATION`.
fn parse_ramp(word: &str) -> Option<Ramp> {
    let (rates, within) = word.split_once('/')?;
    let (from, to) = rates.split_once('-')?;
    let within = within.parse::<Span>().ok()?.ns();
    let to = parse_rate(to).filter(is_positive)?;
    (within > 0).then_some(Ramp { from: parse_rate(from)?, to, within })
}

impl Ramp {
    /// The due time of query `number` in nanoseconds: when the integral of the rate reaches that number.
    fn due(&self, number: f64) -> f64 {
        let (seconds, steeper) = (self.within as f64 / 1e9, (self.to - self.from) / 2.0);
        let on_ramp = (self.from + steeper) * seconds;
        let due = if number >= on_ramp {
            seconds + (number - on_ramp) / self.to
        } else if number <= 0.0 {
            0.0
        } else {
            // The solution of from·t + steeper/seconds·t² = number in a form without cancellation.
            let root = (self.from * self.from + 4.0 * steeper / seconds * number).max(0.0).sqrt();
            2.0 * number / (self.from + root)
        };
        due * 1e9
    }
}

/// Computes the due times of queries.
#[derive(Debug)]
pub(crate) struct Schedule {
    timing: Timing,
    /// Number of queries so far.
    count: u64,
    /// With random gaps: the next due time in nanoseconds, and the key of the gaps.
    next: f64,
    key: u64,
}

impl Schedule {
    /// From the start, random gaps from `seed`.
    pub fn new(timing: Timing, seed: u64) -> Self {
        Self { timing, count: 0, next: 0.0, key: subkey(seed, KEY) }
    }

    /// The due time of the next query, recorded `elapsed` nanoseconds after the start.
    pub fn next(&mut self, elapsed: i64) -> RunTime {
        let number = self.count as f64;
        let due = match self.timing {
            Timing::Scaled(1.0) => return self.count_one(elapsed),
            Timing::Scaled(speed) => elapsed as f64 / speed,
            Timing::Rate(qps) => number * NS_PER_S as f64 / qps,
            Timing::Poisson(qps) => self.random(qps),
            Timing::Ramp(ramp) => ramp.due(number),
            Timing::Fast => 0.0,
        };
        self.count_one(due.round() as i64)
    }

    fn count_one(&mut self, due: i64) -> RunTime {
        self.count += 1;
        RunTime(due)
    }

    /// Exponential gaps; the first query is due at the start.
    fn random(&mut self, qps: f64) -> f64 {
        let due = self.next;
        self.next -= unit(draw(self.key, self.count)).ln() * NS_PER_S as f64 / qps;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dues(timing: Timing, seed: u64, count: usize) -> Vec<i64> {
        let mut schedule = Schedule::new(timing, seed);
        (0..count).map(|_| schedule.next(0).0).collect()
    }

    #[test]
    fn words_of_the_command_line() {
        assert_eq!("original".parse(), Ok(Timing::ORIGINAL));
        assert_eq!("scaled:2.5".parse(), Ok(Timing::Scaled(2.5)));
        assert_eq!("rate:20000".parse(), Ok(Timing::Rate(20_000.0)));
        assert_eq!("rate:20k".parse(), Ok(Timing::Rate(20_000.0)));
        assert_eq!("poisson:1.5M".parse(), Ok(Timing::Poisson(1_500_000.0)));
        assert_eq!("fast".parse(), Ok(Timing::Fast));
        let ramp = Ramp { from: 1_000.0, to: 50_000.0, within: 60 * NS_PER_S };
        assert_eq!("ramp:1k-50k/60s".parse(), Ok(Timing::Ramp(ramp)));
        assert_eq!("ramp:1000-50k/1min".parse(), Ok(Timing::Ramp(ramp)));
        for bad in [
            "",
            "slow",
            "scaled",
            "scaled:0",
            "scaled:2k",
            "rate:-1",
            "rate:nan",
            "rate:inf",
            "rate:20G",
            "fast:3",
            "original:1",
            "poisson",
            "poisson:0",
            "ramp:",
            "ramp:1k-50k",
            "ramp:1k/60s",
            "ramp:1k-0/60s",
            "ramp:-1-2/3s",
            "ramp:1-2/0s",
            "ramp:1-2/-3s",
        ] {
            let error = bad.parse::<Timing>().unwrap_err().to_string();
            assert!(error.contains("ramp:1k-50k/60s") && error.contains("poisson:20k"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_ramp_rises_and_holds() {
        // 0 to 100 queries per second within 2 s are 100 queries; then one each 10 ms.
        let ramp = Timing::Ramp(Ramp { from: 0.0, to: 100.0, within: 2 * NS_PER_S });
        let dues = dues(ramp, 1, 151);
        assert_eq!((dues[0], dues[25], dues[100], dues[150]), (0, NS_PER_S, 2 * NS_PER_S, 2_500_000_000));
    }

    #[test]
    fn random_gaps_are_exponential() {
        let dues = dues(Timing::Poisson(1_000.0), 7, 200_001);
        let gaps: Vec<f64> = dues.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.01 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        let longer = gaps.iter().filter(|&&gap| gap > 3.0).count() as f64 / gaps.len() as f64;
        assert!((longer - (-3.0_f64).exp()).abs() < 0.002, "{longer}");
    }

    fn timings() -> impl Strategy<Value = Timing> {
        let rate = || 1.0..1e6;
        prop_oneof![
            (0.01..100.0).prop_map(Timing::Scaled),
            rate().prop_map(Timing::Rate),
            rate().prop_map(Timing::Poisson),
            (prop_oneof![Just(0.0), rate()], rate(), 1..100 * NS_PER_S)
                .prop_map(|(from, to, within)| Timing::Ramp(Ramp { from, to, within })),
            Just(Timing::Fast),
        ]
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(timing in timings()) {
            prop_assert_eq!(timing.to_string().parse(), Ok(timing));
        }

        #[test]
        fn due_times_never_go_back_and_depend_on_the_seed_alone(timing in timings(), seed: u64) {
            let dues = dues(timing, seed, 500);
            prop_assert_eq!(dues[0], 0);
            prop_assert!(dues.is_sorted());
            prop_assert_eq!(&self::dues(timing, seed, 500), &dues);
            let is_random = matches!(timing, Timing::Poisson(_));
            prop_assert_eq!(self::dues(timing, seed ^ 1, 500) != dues, is_random);
        }

        #[test]
        fn a_ramp_has_the_queries_of_its_integral(from in 0.0..1e4_f64, to in 1.0..1e4_f64, seconds in 1..20_i64) {
            let dues = dues(Timing::Ramp(Ramp { from, to, within: seconds * NS_PER_S }), 1, 20_000);
            let half = seconds * NS_PER_S / 2;
            for (at, expected) in [
                (half, (0.75 * from + 0.25 * to) * seconds as f64 / 2.0),
                (2 * half, (from + to) / 2.0 * seconds as f64),
                (4 * half, (from + 3.0 * to) / 2.0 * seconds as f64),
            ] {
                let due = dues.partition_point(|&due| due < at);
                prop_assert!(due == dues.len() || (due as f64 - expected).abs() <= 1.5, "{} for {}", due, expected);
            }
        }

        #[test]
        fn what_is_no_timing_is_an_error(word in "\\PC{0,12}|ramp:\\PC{0,10}") {
            if let Ok(timing) = word.parse::<Timing>() {
                prop_assert_eq!(timing.to_string().parse(), Ok(timing));
            }
        }
    }
}
