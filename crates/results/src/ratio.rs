//! The TCP/UDP ratio study: pairs of queries of one client, one over UDP and one over a connection, what the second takes more than
//! the first, and why.
//!
//! ```text
//! rows of a run ──pairs──► Vec<Pair> ──figures──► Line (ratios, histogram, failures, parts) ──diagnosis──► Findings
//!                                                                       Study of all lines ──► ratio.json
//! ```
//!
//! The method is that of RIPE Atlas (October 2012), with what it left out: queries without an answer stay in, since a server that
//! drops TCP would look better by it.

mod diagnosis;
pub mod figures;
mod pairs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ldplayer_core::Transport;
use serde::Serialize;

pub use self::diagnosis::Finding;
pub use self::pairs::{Exchange, Pair, read_pairs};

/// What `ratio.json` says it is.
const FORMAT: &str = "ldplayer-ratio";
/// Version of the layout; raised when a reader of the old one would be wrong.
const VERSION: u32 = 1;
/// Pairs that are kept as points of a line at most, evenly chosen.
pub const MAX_POINTS: usize = 20_000;

/// A study: its settings, and a line for each server and transport. `ratio.json` has it, and `ratio --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    format: &'static str,
    version: u32,
    /// The release that made it.
    pub ldplayer: &'static str,
    /// When the first query was due (RFC 3339).
    pub started: String,
    /// The command, where there was one.
    pub command_line: Vec<String>,
    /// The name whose SOA record was asked for.
    pub zone: String,
    /// Clients that asked.
    pub clients: u32,
    /// How often each of them asked each server over each transport.
    pub rounds: u32,
    /// From one round to the next, in seconds.
    pub interval_s: f64,
    /// How long an answer was waited for, in seconds.
    pub query_timeout_s: f64,
    /// Round-trip time of the wire as it was given; `None` where the network was a real one.
    pub rtt: Option<String>,
    /// The figures, a line for each server and transport.
    pub lines: Vec<Line>,
}

/// What a study is of.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// When the first query was due (RFC 3339).
    pub started: String,
    /// The command, where there was one.
    pub command_line: Vec<String>,
    /// The name whose SOA record was asked for.
    pub zone: String,
    /// Clients that asked.
    pub clients: u32,
    /// How often each of them asked each server over each transport.
    pub rounds: u32,
    /// From one round to the next, in nanoseconds.
    pub interval: i64,
    /// How long an answer was waited for, in nanoseconds.
    pub query_timeout: i64,
    /// Round-trip time of the wire as it was given; `None` where the network was a real one.
    pub rtt: Option<String>,
}

/// One server over one transport beside UDP.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The server.
    pub server: String,
    /// The transport beside UDP.
    pub transport: &'static str,
    /// Round trips that a query over it takes: 2 over TCP (RFC 9293 §3.5), 3 with TLS 1.3 (RFC 8446 §2), 2 over QUIC (RFC 9001 §4.1).
    pub expected: f64,
    /// What became of the pairs.
    pub pairs: Counts,
    /// Why queries failed, by transport and reason.
    pub failures: BTreeMap<&'static str, BTreeMap<String, u64>>,
    /// Response codes that were not NOERROR, by transport and number.
    pub rcodes: BTreeMap<&'static str, BTreeMap<u16, u64>>,
    /// Response time over this transport ÷ that over UDP, of the pairs with both.
    pub ratio: Quantiles,
    /// The same with the pairs in which UDP was answered and this transport was not: as endless.
    pub ratio_with_failures: Quantiles,
    /// Where most ratios are: the densest window of a width of 0.2, and the share of the pairs in it.
    pub peak: Option<Peak>,
    /// Share of the pairs with both answers whose ratio is above 10.
    pub above_10_percent: f64,
    /// The ratios in bins of 1/100: lower end of the bin, and percentage of the pairs with both answers.
    pub histogram: Vec<(f64, f64)>,
    /// By the client's round-trip time, which is its median response time over UDP.
    pub rtt_classes: Vec<RttClass>,
    /// Response times in milliseconds: over UDP, over this transport, and the parts of the latter.
    pub parts_ms: BTreeMap<&'static str, Quantiles>,
    /// What was seen of segments and connections.
    pub wire: Wire,
    /// Response time over this transport by that over UDP; `null` where clients have nearly the same.
    pub fit: Option<Fit>,
    /// What all this says, the most telling first.
    pub findings: Vec<Finding>,
    /// Each pair (of very many, evenly chosen ones): seconds into the run, milliseconds over UDP and over this transport; `null` for what
    /// was not answered.
    pub points: Vec<Point>,
    /// What was unfaithful about the replay that made the pairs; empty where nothing was.
    pub replay: Vec<String>,
}

/// A line through the durations of clients with different round-trip times: duration = constant + slope · response time over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// What does not depend on the round-trip time, in milliseconds.
    pub constant_ms: f64,
    /// Round trips.
    pub slope: f64,
    /// The tenth and the ninetieth percentile of the response times over UDP, in milliseconds.
    pub from_ms: f64,
    /// See `from_ms`.
    pub to_ms: f64,
}

/// One pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point(pub f64, pub Option<f64>, pub Option<f64>);

/// Pairs by the outcomes of their two queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Pairs that were to be made.
    pub asked: u64,
    /// Both were answered: a ratio.
    pub valid: u64,
    /// UDP was answered, the other was not.
    pub only_udp: u64,
    /// The other was answered, UDP was not.
    pub only_other: u64,
    /// Neither was answered.
    pub neither: u64,
    /// One or both were not sent, as when a run is interrupted.
    pub not_sent: u64,
    /// Answers over UDP that were truncated.
    pub udp_truncated: u64,
    /// Answers that came only on a second connection, since the first one ended before.
    pub second_connection: u64,
}

/// Quantiles; `None` for one that is endless or of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// How many figures there are, endless ones included.
    pub n: u64,
    /// The 10th percentile.
    pub p10: Option<f64>,
    /// The 25th percentile.
    pub p25: Option<f64>,
    /// The 50th percentile.
    pub p50: Option<f64>,
    /// The 75th percentile.
    pub p75: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
}

/// Where most ratios are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// The middle of the window.
    pub at: f64,
    /// Share of the pairs with both answers that are in it.
    pub percent: f64,
}

/// Clients of about the same round-trip time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RttClass {
    /// From (inclusive), in milliseconds.
    pub from_ms: f64,
    /// To (exclusive), in milliseconds; `None` for no end, and of clients without an answer over UDP.
    pub to_ms: Option<f64>,
    /// Clients in it.
    pub clients: u64,
    /// Pairs in which UDP was answered.
    pub pairs: u64,
    /// Of these, the pairs in which the other transport was not.
    pub failed: u64,
    /// The ratios of the others.
    pub ratio: Quantiles,
}

/// What was seen of segments and connections, in connections unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Wire {
    /// Those on which a response came.
    pub answered: u64,
    /// Of these, how many the kernel counted the segments of.
    pub counted: u64,
    /// Of the counted: those whose response would have fitted in one segment and came in two or more.
    pub several_segments: u64,
    /// The response's two octets of length were read before any of the response.
    pub length_apart: u64,
    /// Of these: median of how much later the response was whole, in milliseconds.
    pub rest_later_ms: Option<f64>,
    /// The same by the response time over UDP; `null` where clients have nearly the same.
    pub rest_fit: Option<Fit>,
    /// This host sent a segment again before the answer was there, the first one (SYN) or another.
    pub resent_segments: u64,
    /// They took 0.9 s longer to come up than a response over UDP or more, as when a SYN is sent again after 1 s (RFC 6298 §2).
    pub slow_to_connect: u64,
    /// They came up at once, and the answer came more than half a second and ten round trips later.
    pub slow_to_answer: u64,
}

impl Study {
    /// A study with these lines.
    pub fn new(about: About, lines: Vec<Line>) -> Self {
        let seconds = |ns: i64| ns as f64 / 1e9;
        Self {
            format: FORMAT,
            version: VERSION,
            ldplayer: env!("CARGO_PKG_VERSION"),
            started: about.started,
            command_line: about.command_line,
            zone: about.zone,
            clients: about.clients,
            rounds: about.rounds,
            interval_s: seconds(about.interval),
            query_timeout_s: seconds(about.query_timeout),
            rtt: about.rtt,
            lines,
        }
    }
}

impl Line {
    /// The figures of a server's pairs over UDP and another transport. `replay` has the failed checks of the run that made them.
    pub fn new(server: String, transport: Transport, pairs: &[Pair], replay: Vec<String>) -> Self {
        let mut line = figures::line(server, transport, pairs);
        line.replay = replay;
        line.findings = diagnosis::findings(&line);
        line
    }
}

/// Round trips that a query over a new connection takes.
pub(crate) const fn round_trips(transport: Transport) -> f64 {
    match transport {
        Transport::Udp => 1.0,
        Transport::Tcp | Transport::Doq | Transport::Doh3 => 2.0,
        Transport::Dot | Transport::Doh2 => 3.0,
    }
}
