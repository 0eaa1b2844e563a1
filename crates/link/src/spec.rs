//! The syntax of link properties: round-trip time, jitter, loss and rate.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ldplayer_core::time::{BadTime, Span};

use crate::prefixes::{BadPrefixes, LONGEST, Prefixes};

/// Default queue length of a limited rate, in nanoseconds.
const QUEUE: i64 = 100_000_000;

/// An invalid link property.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// Not a round-trip time.
    #[error(
        "`{0}` is not a round-trip time: use 20ms, normal:20ms,5ms, uniform:10ms,30ms, lognormal:20ms,0.5 (median, sigma), pareto:10ms,2 (minimum, shape) or FILE.csv (lines prefix,ms), at most 60s"
    )]
    Rtt(String),
    /// A number that could be milliseconds or seconds.
    #[error(transparent)]
    Unit(BadTime),
    /// Not a jitter.
    #[error(
        "`{0}` is not a jitter: use 2ms (uniform from -2ms to 2ms), normal:0ms,2ms, uniform:0ms,5ms, lognormal:1ms,0.5 or pareto:1ms,2; append ,reorder to let packets overtake each other"
    )]
    Jitter(String),
    /// Not a loss.
    #[error(
        "`{0}` is not a loss: use 1%, 0.01 or ge:P,R[,LOSS-IN-BAD[,LOSS-IN-GOOD]] (Gilbert-Elliott: P from good to bad, R from bad to good), each from 0% to 100%, or a number such as 0.01"
    )]
    Loss(String),
    /// Not a rate.
    #[error(
        "`{0}` is not a rate: use bits per second such as 10Mbit, 512kbit or 1.5Gbit, with the queue limit if it is not 100ms: 10Mbit,50ms"
    )]
    Rate(String),
    /// The file of round-trip times cannot be read.
    #[error("{}: {source}; expected a file of round-trip times with lines `prefix,ms`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line of it is wrong.
    #[error("{}: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line and the error.
        source: BadPrefixes,
    },
}

/// A distribution of times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Mean and standard deviation.
    Normal(f64, f64),
    /// Minimum and maximum.
    Uniform(f64, f64),
    /// Median, and the standard deviation of the logarithm.
    LogNormal(f64, f64),
    /// Minimum, and the shape (the larger, the thinner the tail).
    Pareto(f64, f64),
}

/// The round-trip time of each client.
#[derive(Clone, Debug, PartialEq)]
pub enum Rtt {
    /// The same for all clients, in nanoseconds.
    Constant(i64),
    /// Drawn once per client, from its address.
    Drawn(Distribution),
    /// By the longest prefix of the client's address; no delay without a match.
    Prefixes(Prefixes),
}

/// How the delay varies from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Added to the one-way delay, which never falls below zero.
    pub spread: Distribution,
    /// Whether packets of one flow may overtake each other.
    pub reorder: bool,
}

/// Packet loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Independent loss with this probability.
    Each(f64),
    /// Bursty loss, as a Markov chain of a good and a bad state (Gilbert and Elliott).
    Bursts {
        /// Probability per packet of a change from good to bad.
        to_bad: f64,
        /// Probability per packet of a change from bad to good.
        to_good: f64,
        /// Loss in the bad state.
        in_bad: f64,
        /// Loss in the good state.
        in_good: f64,
    },
}

/// A limited rate with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bits per second of whole IP packets, at least 1.
    pub bits_per_s: u64,
    /// Maximum queue length, in nanoseconds of sending; packets beyond it are dropped.
    pub queue_ns: i64,
}

impl FromStr for Rtt {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text, |path| fs::read_to_string(path))
    }
}

impl Rtt {
    /// Parses a round-trip time; `read` returns the text of a file named in it.
    ///
    /// # Errors
    /// One line with the error, and its place in the file.
    pub fn parse(text: &str, read: impl FnOnce(&Path) -> io::Result<String>) -> Result<Self, SpecError> {
        let bad = || SpecError::Rtt(text.to_owned());
        if let Some(path) = table_of(text) {
            return Self::of_file(Path::new(path), read);
        }
        match text.split_once(':') {
            Some((kind, rest)) => distribution(kind, rest).map(Self::Drawn).ok_or_else(bad),
            None => time(text).map(|ns| Self::Constant(ns as i64)).ok_or_else(|| of_unit(text).unwrap_or_else(bad)),
        }
    }

    /// That of a file with lines `prefix,ms`, whose text `read` returns.
    pub(crate) fn of_file(path: &Path, read: impl FnOnce(&Path) -> io::Result<String>) -> Result<Self, SpecError> {
        match read(path).map(|table| table.parse()) {
            Ok(Ok(prefixes)) => Ok(Self::Prefixes(prefixes)),
            Ok(Err(source)) => Err(SpecError::Line { path: path.to_owned(), source }),
            Err(source) => Err(SpecError::File { path: path.to_owned(), source }),
        }
    }

    /// Whether no client has any delay.
    pub fn is_zero(&self) -> bool {
        *self == Self::Constant(0)
    }
}

impl FromStr for Jitter {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (spec, reorder) = match text.strip_suffix(",reorder") {
            Some(spec) => (spec, true),
            None => (text, false),
        };
        let spread = match spec.split_once(':') {
            Some((kind, rest)) => distribution(kind, rest),
            None => time(spec).map(|most| Distribution::Uniform(-most, most)),
        };
        let bad = || of_unit(spec).unwrap_or_else(|| SpecError::Jitter(text.to_owned()));
        spread.map(|spread| Self { spread, reorder }).ok_or_else(bad)
    }
}

impl FromStr for Loss {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let loss = match text.strip_prefix("ge:") {
            Some(rest) => {
                rest.split(',').map(chance).collect::<Option<Vec<f64>>>().and_then(|chances| bursts(&chances))
            }
            None => chance(text).map(Self::Each),
        };
        loss.ok_or_else(|| SpecError::Loss(text.to_owned()))
    }
}

impl FromStr for Rate {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (rate, queue) = match text.split_once(',') {
            Some((rate, queue)) => (rate, time(queue)),
            None => (text, Some(QUEUE as f64)),
        };
        let rate = bits_per_s(rate).zip(queue);
        let rate = rate.map(|(bits_per_s, queue)| Self { bits_per_s, queue_ns: queue as i64 });
        rate.ok_or_else(|| SpecError::Rate(text.to_owned()))
    }
}

/// The file named by a round-trip time.
pub(crate) fn table_of(text: &str) -> Option<&str> {
    text.strip_prefix("csv:").or_else(|| text.ends_with(".csv").then_some(text))
}

fn distribution(kind: &str, rest: &str) -> Option<Distribution> {
    let (first, second) = rest.split_once(',')?;
    let first = time(first)?;
    Some(match kind {
        "normal" => Distribution::Normal(first, time(second)?),
        "uniform" => Distribution::Uniform(first, time(second).filter(|&most| most >= first)?),
        "lognormal" => Distribution::LogNormal(first, number(second)?),
        "pareto" => Distribution::Pareto(first, number(second).filter(|&shape| shape > 0.0)?),
        _ => return None,
    })
}

fn bursts(chances: &[f64]) -> Option<Loss> {
    let (&to_bad, &to_good, rest) = match chances {
        [to_bad, to_good, rest @ ..] if rest.len() <= 2 => (to_bad, to_good, rest),
        _ => return None,
    };
    let at = |place: usize, default| rest.get(place).copied().unwrap_or(default);
    Some(Loss::Bursts { to_bad, to_good, in_bad: at(0, 1.0), in_good: at(1, 0.0) })
}

/// The error of a text that is a time but for its unit.
fn of_unit(text: &str) -> Option<SpecError> {
    Span::with_unit(text).err().filter(|error| matches!(error, BadTime::Unit(_))).map(SpecError::Unit)
}

/// A time of at most [`LONGEST`], in nanoseconds.
fn time(text: &str) -> Option<f64> {
    let ns = Span::with_unit(text).ok()?.ns();
    (ns <= LONGEST).then_some(ns as f64)
}

/// A probability from 0 to 1, or in percent.
fn chance(text: &str) -> Option<f64> {
    let chance = match text.trim().strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        // 1 could be all or one percent.
        None if text.trim() == "1" => return None,
        None => number(text)?,
    };
    (chance <= 1.0).then_some(chance)
}

/// A non-negative number.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

fn bits_per_s(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    let (count, unit) = text.split_at(unit_at);
    let scale = match unit.to_ascii_lowercase().trim_end_matches("/s") {
        "" | "bit" | "bps" => 1.0,
        "k" | "kbit" | "kbps" => 1e3,
        "m" | "mbit" | "mbps" => 1e6,
        "g" | "gbit" | "gbps" => 1e9,
        _ => return None,
    };
    let rate = number(count)? * scale;
    (1.0..=1e15).contains(&rate).then_some(rate as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: f64 = 1e6;

    fn rtt(text: &str) -> Result<Rtt, SpecError> {
        Rtt::parse(text, |_| Ok("prefix,ms\n192.0.2.0/24,10\n".to_owned()))
    }

    #[test]
    fn round_trip_times() {
        assert_eq!(rtt("20ms").unwrap(), Rtt::Constant(20_000_000));
        assert_eq!(rtt("0.5 s").unwrap(), Rtt::Constant(500_000_000));
        assert_eq!(rtt("0").unwrap(), Rtt::Constant(0));
        assert_eq!(rtt("normal:20ms,5ms").unwrap(), Rtt::Drawn(Distribution::Normal(20.0 * MS, 5.0 * MS)));
        assert_eq!(rtt("uniform:10ms,30ms").unwrap(), Rtt::Drawn(Distribution::Uniform(10.0 * MS, 30.0 * MS)));
        assert_eq!(rtt("lognormal:20ms,0.5").unwrap(), Rtt::Drawn(Distribution::LogNormal(20.0 * MS, 0.5)));
        assert_eq!(rtt("pareto:10ms,2").unwrap(), Rtt::Drawn(Distribution::Pareto(10.0 * MS, 2.0)));
        assert!(matches!(rtt("rtt.csv").unwrap(), Rtt::Prefixes(_)));
        assert!(matches!(rtt("csv:rtt").unwrap(), Rtt::Prefixes(_)));
        for bad in [
            "",
            "fast",
            "-1ms",
            "2h",
            "normal:20ms",
            "uniform:30ms,10ms",
            "pareto:1ms,0",
            "gauss:1ms,1ms",
            "normal:1ms,2ms,3ms",
        ] {
            assert!(matches!(rtt(bad), Err(SpecError::Rtt(_))), "{bad}");
        }
    }

    /// `--rtt 50` delayed by 50 seconds what was meant to be delayed by 50 ms; `--loss 1` lost everything.
    #[test]
    fn numbers_without_units_are_asked_for_them() {
        let asked = "`50` has no unit: write 50ms or 50s";
        assert_eq!(rtt("50").unwrap_err().to_string(), asked);
        assert_eq!("50".parse::<Jitter>().unwrap_err().to_string(), asked);
        assert_eq!("50,reorder".parse::<Jitter>().unwrap_err().to_string(), asked);
        assert!(rtt("normal:20,5").unwrap_err().to_string().contains("normal:20ms,5ms"));
        assert_eq!(rtt("50 ms").unwrap(), Rtt::Constant(50_000_000));
        assert!("1".parse::<Loss>().unwrap_err().to_string().contains("use 1%"));
        assert_eq!("1 %".parse::<Loss>().unwrap(), Loss::Each(0.01));
        assert!("10Mbit,50".parse::<Rate>().is_err());
    }

    #[test]
    fn a_bad_file_is_named_with_its_line() {
        let error = Rtt::parse("rtt.csv", |_| Ok("192.0.2.0/24,10\n192.0.2.0,x\n".to_owned())).unwrap_err();
        assert_eq!(error.to_string().split_inclusive("line 2").next().unwrap(), "rtt.csv: line 2");
        let error = Rtt::parse("rtt.csv", |_| Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(matches!(error, SpecError::File { .. }) && !error.to_string().contains('\n'));
    }

    #[test]
    fn jitter_loss_and_rate() {
        let jitter = |text: &str| text.parse::<Jitter>();
        assert_eq!(
            jitter("2ms").unwrap(),
            Jitter { spread: Distribution::Uniform(-2.0 * MS, 2.0 * MS), reorder: false }
        );
        assert_eq!(
            jitter("normal:0ms,1ms,reorder").unwrap(),
            Jitter { spread: Distribution::Normal(0.0, MS), reorder: true }
        );
        assert!(jitter("reorder").is_err());
        assert_eq!("1%".parse::<Loss>().unwrap(), Loss::Each(0.01));
        assert_eq!("0.5".parse::<Loss>().unwrap(), Loss::Each(0.5));
        let bursts = Loss::Bursts { to_bad: 0.01, to_good: 0.25, in_bad: 1.0, in_good: 0.0 };
        assert_eq!("ge:1%,25%".parse::<Loss>().unwrap(), bursts);
        let bursts = Loss::Bursts { to_bad: 0.01, to_good: 0.25, in_bad: 0.9, in_good: 0.001 };
        assert_eq!("ge:0.01,0.25,90%,0.1%".parse::<Loss>().unwrap(), bursts);
        for bad in ["", "5", "101%", "-1%", "ge:1%", "ge:1,2", "ge:1,1,1,1,1", "NaN"] {
            assert!(bad.parse::<Loss>().is_err(), "{bad}");
        }
        assert_eq!("10Mbit".parse::<Rate>().unwrap(), Rate { bits_per_s: 10_000_000, queue_ns: QUEUE });
        assert_eq!("1.5kbit/s,20ms".parse::<Rate>().unwrap(), Rate { bits_per_s: 1_500, queue_ns: 20_000_000 });
        for bad in ["", "0", "10MB", "x", "10Mbit,", "1Tbit"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_one_line(text in "[a-z:,.0-9%-]{0,20}") {
            let errors = [
                rtt(&text).err(),
                text.parse::<Jitter>().err(),
                text.parse::<Loss>().err(),
                text.parse::<Rate>().err(),
            ];
            prop_assert!(errors.iter().flatten().all(|error| !error.to_string().contains('\n')));
        }
    }
}
