//! What a user expects of the server: `answered >= 99 %`, `servfail <= 1 %`, `p99 <= 20ms`.
//!
//! One expectation is a quantity, a relation and a bound:
//!
//! ```text
//! answered timed_out failed not_sent truncated        %, or so many `queries`; 0 needs no unit
//! any RCODE: noerror servfail refused nxdomain …      % of the answers, or so many `answers`
//! match better worse changed                          % of the compared answers, or so many `answers`
//! p50 p90 p95 p99 p999 max                            ns us ms s m h, from sent; p99(intended): from due
//! drift                                               % by which the median latency changed over the run
//! cpu                                                 processor time of the server for each query sent
//! memory                                              B kB MB GB: most that the server had resident; memory(pss): shared once
//! cores qps                                           cores that the server used, queries sent per second
//! lookup_p50 … lookup_max lookup_failed attempts      of clients that react: from the first attempt to the answer; %; for each lookup
//! ```
//!
//! A bound like `1.10 x` or `1.00 x +- 0.1 %` is a multiple of what another run has, for comparisons.
//!
//! ```
//! use ldplayer_results::{Expectation, Summary};
//! let expected: Expectation = "p99(intended) <= 20 ms".parse()?;
//! assert_eq!(expected.to_string(), "p99(intended) <= 20ms");
//! // Nothing was measured, so nothing can be confirmed.
//! assert!(!expected.judge(&Summary::default()).ok);
//! assert_eq!("answred >= 1 %".parse::<Expectation>().unwrap_err().to_string(),
//!     "column 1: `answred` is no quantity; did you mean `answered`?");
//! # Ok::<(), ldplayer_results::ExpectError>(())
//! ```

mod parse;

use std::fmt;
use std::str::FromStr;

use ldplayer_core::Answer;
use serde::{Deserialize, Serialize};

use crate::rcode;
pub use parse::ExpectError;

/// One thing expected of the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expectation {
    /// What is measured.
    pub quantity: Quantity,
    /// How it must be to the bound.
    pub relation: Relation,
    /// What it is held against.
    pub bound: Bound,
}

/// What is measured of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Queries answered in time, of those sent.
    Answered,
    /// Queries without an answer in time, of those sent.
    TimedOut,
    /// Queries that failed otherwise, of those sent.
    Failed,
    /// Queries that were not sent, of those in the trace.
    NotSent,
    /// Answers with TC set, of all answers.
    Truncated,
    /// Answers with this response code, of all answers.
    Rcode(u16),
    /// Answers that compare so with the recorded ones, of those compared.
    Compared(Answer),
    /// A latency over all queries sent, where an unanswered one counts as endless.
    Latency {
        /// Which of the sorted latencies.
        quantile: Quantile,
        /// From when on.
        from: Origin,
    },
    /// How much the median latency from sent changed from the run's beginning to its end, in percent of it.
    Drift,
    /// Processor time of the server's processes for each query sent.
    Cpu,
    /// Highest memory of the server's processes.
    Memory(Resident),
    /// Cores that the server's processes used.
    Cores,
    /// Queries sent per second.
    Qps,
    /// How long lookups of clients that react took, where one that failed is endless.
    Lookup(Quantile),
    /// Lookups whose client gave up, of those asked.
    LookupFailed,
    /// Attempts for each lookup.
    Attempts,
}

/// How memory is counted that several processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resident {
    /// In each of them: the resident set size.
    Rss,
    /// Once: the proportional set size.
    Pss,
}

/// A quantile of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are called what they are")]
pub enum Quantile {
    P50,
    P90,
    P95,
    P99,
    P999,
    Max,
}

/// From when on a latency counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From when the query was sent: what the server took.
    Sent,
    /// From when it was due: what a client would have felt.
    Intended,
}

/// How a quantity must be to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `<`
    Below,
    /// `=`
    Equal,
}

/// What a quantity is held against. Figures are finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A share, in percent.
    Percent(f64),
    /// A duration, in nanoseconds.
    Time(u64),
    /// So many octets.
    Octets(u64),
    /// So many queries or answers.
    Count(f64),
    /// A rate, a number of cores, or 0.
    Number(f64),
    /// A multiple of what another run has, give or take so many percent of it.
    Times {
        /// The multiple.
        factor: f64,
        /// The tolerance in percent.
        tolerance: f64,
    },
}

impl Expectation {
    /// Whether it can be judged only against another run.
    pub const fn is_relative(&self) -> bool {
        matches!(self.bound, Bound::Times { .. })
    }
}

impl Quantity {
    /// Those that have a word of their own; response codes have their names besides.
    const NAMED: [(&'static str, Self); 15] = [
        ("answered", Self::Answered),
        ("timed_out", Self::TimedOut),
        ("failed", Self::Failed),
        ("not_sent", Self::NotSent),
        ("truncated", Self::Truncated),
        ("match", Self::Compared(Answer::Match)),
        ("better", Self::Compared(Answer::Better)),
        ("worse", Self::Compared(Answer::Worse)),
        ("changed", Self::Compared(Answer::Changed)),
        ("drift", Self::Drift),
        ("cpu", Self::Cpu),
        ("cores", Self::Cores),
        ("qps", Self::Qps),
        ("lookup_failed", Self::LookupFailed),
        ("attempts", Self::Attempts),
    ];
    const MEMORY: &'static str = "memory";
    /// What stands before the quantile of lookups.
    const LOOKUP: &'static str = "lookup_";
}

impl Resident {
    const NAMED: [(&'static str, Self); 2] = [("rss", Self::Rss), ("pss", Self::Pss)];
}

impl Quantile {
    const NAMED: [(&'static str, Self); 6] = [
        ("p50", Self::P50),
        ("p90", Self::P90),
        ("p95", Self::P95),
        ("p99", Self::P99),
        ("p999", Self::P999),
        ("max", Self::Max),
    ];
    /// Those that carry a mark.
    pub const MARKED: [Self; 5] = [Self::P50, Self::P90, Self::P95, Self::P99, Self::P999];
}

impl Origin {
    const NAMED: [(&'static str, Self); 2] = [("sent", Self::Sent), ("intended", Self::Intended)];
}

impl Relation {
    /// In an order in which no sign is the beginning of a later one.
    const NAMED: [(&'static str, Self); 5] =
        [(">=", Self::AtLeast), ("<=", Self::AtMost), (">", Self::Above), ("<", Self::Below), ("=", Self::Equal)];
}

/// The word of a value in a table of words.
fn word<T: PartialEq>(named: &[(&'static str, T)], value: &T) -> &'static str {
    named.iter().find(|(_, named)| named == value).map_or("", |&(word, _)| word)
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.quantity, self.relation, self.bound)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rcode(code) => f.write_str(&rcode::name(*code).to_ascii_lowercase()),
            Self::Memory(Resident::Rss) => f.write_str(Self::MEMORY),
            Self::Memory(counted) => write!(f, "{}({})", Self::MEMORY, word(&Resident::NAMED, counted)),
            Self::Lookup(quantile) => write!(f, "{}{}", Self::LOOKUP, word(&Quantile::NAMED, quantile)),
            Self::Latency { quantile, from: Origin::Sent } => f.write_str(word(&Quantile::NAMED, quantile)),
            Self::Latency { quantile, from } => {
                write!(f, "{}({})", word(&Quantile::NAMED, quantile), word(&Origin::NAMED, from))
            }
            named => f.write_str(word(&Self::NAMED, named)),
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(&Self::NAMED, self))
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Percent(percent) => write!(f, "{percent} %"),
            Self::Count(count) => write!(f, "{count} queries"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Times { factor, tolerance: 0.0 } => write!(f, "{factor} x"),
            Self::Times { factor, tolerance } => write!(f, "{factor} x +- {tolerance} %"),
            Self::Time(ns) => whole(f, ns, &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")]),
            Self::Octets(octets) => {
                whole(f, octets, &[(1_000_000_000, " GB"), (1_000_000, " MB"), (1_000, " kB"), (1, " B")])
            }
        }
    }
}

/// A number in the largest unit that divides it; the last unit is the number's own.
fn whole(f: &mut fmt::Formatter<'_>, number: u64, units: &[(u64, &str)]) -> fmt::Result {
    let (length, unit) = units.iter().find(|(length, _)| number.is_multiple_of(*length)).unwrap_or(&(1, ""));
    write!(f, "{}{unit}", number / length)
}

impl FromStr for Expectation {
    type Err = ExpectError;

    fn from_str(text: &str) -> Result<Self, ExpectError> {
        parse::expectation(text)
    }
}

impl TryFrom<String> for Expectation {
    type Error = ExpectError;

    fn try_from(text: String) -> Result<Self, ExpectError> {
        text.parse()
    }
}

impl From<Expectation> for String {
    fn from(expectation: Expectation) -> Self {
        expectation.to_string()
    }
}

#[cfg(test)]
mod tests;
