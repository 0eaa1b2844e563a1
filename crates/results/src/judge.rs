//! Holding an expectation against the figures of a run.

use crate::expect::{Bound, Expectation, Origin, Quantile, Quantity, Relation, Resident};
use crate::model::{Check, Lookups, SideUsage, Summary, Tail};
use crate::numbers::{fixed, grouped, in_bytes};
use crate::rcode;

/// Why figures of a server that was watched are not known.
const NO_CPU: &str = "the server's processor time was not read often enough";
const NO_RSS: &str = "the server's memory was not read";
const NO_PSS: &str = "the server's memory without what is shared was not read";

/// What a run has of a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measurement {
    /// So many of so many.
    Part { part: u64, whole: u64 },
    /// A duration in milliseconds; `None` is endless.
    Milliseconds(Option<f64>),
    /// A change in percent.
    Change(f64),
    /// Microseconds of processor time for each query.
    Microseconds(f64),
    /// Octets of memory.
    Octets(u64),
    /// Cores.
    Cores(f64),
    /// Queries per second.
    Rate(f64),
    /// Attempts for each lookup.
    Attempts(f64),
}

impl Measurement {
    /// As a figure: a share or a change in percent, a latency in milliseconds, infinite where it is endless.
    pub fn figure(self) -> f64 {
        match self {
            Self::Part { part, whole } => part as f64 * 100.0 / whole as f64,
            Self::Milliseconds(took) => took.unwrap_or(f64::INFINITY),
            Self::Octets(octets) => octets as f64,
            Self::Change(value)
            | Self::Microseconds(value)
            | Self::Cores(value)
            | Self::Rate(value)
            | Self::Attempts(value) => value,
        }
    }
}

impl Bound {
    /// A duration in seconds; `None` of any other bound.
    pub fn time_s(self) -> Option<f64> {
        match self {
            Self::Time(ns) => Some(ns as f64 / 1e9),
            _ => None,
        }
    }

    /// As a figure of the quantity that it is fit for; `None` of a multiple.
    pub(crate) fn figure(self, quantity: Quantity) -> Option<f64> {
        match self {
            Self::Percent(figure) | Self::Count(figure) | Self::Number(figure) => Some(figure),
            Self::Time(ns) if quantity == Quantity::Cpu => Some(ns as f64 / 1e3),
            Self::Time(ns) => Some(ns as f64 / 1e6),
            Self::Octets(octets) => Some(octets as f64),
            Self::Times { .. } => None,
        }
    }
}

impl Expectation {
    /// Whether a run with these figures is as expected. What cannot be judged is not: the check fails, and says why.
    pub fn judge(&self, summary: &Summary) -> Check {
        let limit = format!("{} {}", self.relation, self.bound);
        let check = |ok, value: String, note| Check {
            name: self.quantity.to_string(),
            limit,
            value,
            ok,
            note,
            harmless: false,
        };
        match self.quantity.measure(summary).and_then(|found| Ok((self.holds(&found)?, found))) {
            Ok((ok, found)) => check(ok, found.to_string(), None),
            Err(why) => check(false, "n/a".to_owned(), Some(why.to_owned())),
        }
    }

    fn holds(&self, found: &Measurement) -> Result<bool, &'static str> {
        let (value, bound) = match (*found, self.bound) {
            (Measurement::Part { part, .. }, Bound::Count(count) | Bound::Number(count)) => (part as f64, count),
            (_, Bound::Times { .. }) => return Err("it is relative to another run, and there is none"),
            (found, bound) => match bound.figure(self.quantity) {
                Some(figure) => (found.figure(), figure),
                None => return Err("the bound is of another kind than the quantity"),
            },
        };
        Ok(match self.relation {
            Relation::AtLeast => value >= bound,
            Relation::AtMost => value <= bound,
            Relation::Above => value > bound,
            Relation::Below => value < bound,
            Relation::Equal => value == bound,
        })
    }
}

impl Quantity {
    /// What the run has; or why that is not known.
    pub(crate) fn measure(self, summary: &Summary) -> Result<Measurement, &'static str> {
        let queries = &summary.queries;
        let of = |part: u64, whole: u64, none| match whole {
            0 => Err(none),
            whole => Ok(Measurement::Part { part, whole }),
        };
        let of_sent = |part| of(part, queries.sent, "no query was sent");
        let of_answers = |part| of(part, queries.answered, "no query was answered");
        match self {
            Self::Answered => of_sent(queries.answered),
            Self::TimedOut => of_sent(queries.timed_out),
            Self::Failed => of_sent(queries.failed),
            Self::NotSent => of(queries.not_sent, queries.trace.unwrap_or(0), "the queries of the trace are not known"),
            Self::Truncated => of_answers(summary.responses.truncated),
            Self::Rcode(code) => of_answers(summary.rcodes.get(&rcode::name(code)).copied().unwrap_or(0)),
            Self::Compared(answer) => {
                let part = summary.answers.get(answer.as_str()).copied().unwrap_or(0);
                of(part, summary.answers.values().sum(), "no answer was compared with an expected one")
            }
            Self::Latency { quantile, from } => {
                let latency = &summary.latency_ms;
                let tail = if from == Origin::Sent { &latency.from_sent } else { &latency.from_intended };
                quantile.of(tail)
            }
            Self::Drift => {
                let drift = summary.latency_ms.drift_percent.map(Measurement::Change);
                drift.ok_or("too little was answered to see how latency changed")
            }
            Self::Cpu => of_server(summary, NO_CPU, |side| side.cpu_us_per_query.map(Measurement::Microseconds)),
            Self::Cores => of_server(summary, NO_CPU, |side| side.cores_mean.map(Measurement::Cores)),
            Self::Memory(Resident::Rss) => {
                of_server(summary, NO_RSS, |side| side.rss_peak_bytes.map(Measurement::Octets))
            }
            Self::Memory(Resident::Pss) => {
                of_server(summary, NO_PSS, |side| side.pss_peak_bytes.map(Measurement::Octets))
            }
            Self::Qps => summary
                .rate
                .sent_qps
                .or(summary.rate.qps_mean)
                .map(Measurement::Rate)
                .ok_or("queries of one moment have no rate"),
            Self::Lookup(quantile) => of_lookups(summary).and_then(|lookups| quantile.of(&lookups.time_ms)),
            Self::LookupFailed => of_lookups(summary).map(|of| Measurement::Part { part: of.failed, whole: of.asked }),
            Self::Attempts => of_lookups(summary).map(|lookups| Measurement::Attempts(lookups.attempts)),
        }
    }
}

/// The lookups; or why there are none.
fn of_lookups(summary: &Summary) -> Result<&Lookups, &'static str> {
    let lookups = summary.lookups.as_ref().ok_or("no client reacts: --client");
    lookups.and_then(|lookups| if lookups.asked == 0 { Err("no query was sent") } else { Ok(lookups) })
}

/// What the server used; or why that is not known.
fn of_server(
    summary: &Summary,
    unread: &'static str,
    figure: fn(&SideUsage) -> Option<Measurement>,
) -> Result<Measurement, &'static str> {
    let Some(server) = &summary.telemetry.server else {
        return Err("no process of the server was watched: --start-server, --watch-pid or --watch-unit");
    };
    figure(server).ok_or(unread)
}

impl Quantile {
    /// Whether the host of the run cannot have changed it; `None` where nobody judged that.
    pub(crate) fn mark(self, tail: &Tail) -> Option<bool> {
        let good = tail.good?;
        match self {
            Self::P50 => good.p50,
            Self::P90 => good.p90,
            Self::P95 => good.p95,
            Self::P99 => good.p99,
            Self::P999 => good.p999,
            Self::Max => None,
        }
    }

    /// What the queries have; or why that is not known.
    fn of(self, tail: &Tail) -> Result<Measurement, &'static str> {
        let ms = match self {
            Self::P50 => tail.p50,
            Self::P90 => tail.p90,
            Self::P95 => tail.p95,
            Self::P99 => tail.p99,
            Self::P999 => tail.p999,
            Self::Max => tail.max,
        };
        match self {
            _ if tail.queries == 0 => Err("no query was sent"),
            Self::P95 if ms.is_none() && tail.p99.is_some() => Err("the run is of a version that did not keep it"),
            _ => Ok(Measurement::Milliseconds(ms)),
        }
    }
}

impl std::fmt::Display for Measurement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Part { part, whole } => {
                let percent = part as f64 * 100.0 / whole as f64;
                write!(f, "{percent:.2} % ({} of {})", grouped(part), grouped(whole))
            }
            Self::Milliseconds(Some(ms)) => write!(f, "{ms:.3} ms"),
            Self::Milliseconds(None) => f.write_str("unanswered"),
            Self::Change(percent) => {
                let (sign, percent) = (if percent < 0.0 { "" } else { "+" }, fixed(percent, 1));
                write!(f, "{sign}{percent} %")
            }
            Self::Microseconds(us) => write!(f, "{us:.2} µs a query"),
            Self::Octets(octets) => f.write_str(&in_bytes(octets)),
            Self::Cores(cores) => write!(f, "{cores:.2} cores"),
            Self::Rate(rate) => write!(f, "{} queries/s", fixed(rate, 1)),
            Self::Attempts(attempts) => write!(f, "{attempts:.3} a lookup"),
        }
    }
}
