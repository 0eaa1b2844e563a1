//! The curves of figures, each with a key for programs and a legend for people.

use ldplayer_core::{Answer, Transport};
use serde::{Serialize, Serializer};

use crate::telemetry::{Figure, Side};
use crate::{rcode, words};

/// What both ends used, as the legends of figures call it.
const SAMPLED: [(Side, Figure, &str); 31] = [
    (Side::Client, Figure::ConnectionsOpen, "open"),
    (Side::Client, Figure::TcpTimeWait, "TIME_WAIT"),
    (Side::Client, Figure::ConnectionsOpened, "new"),
    (Side::Client, Figure::ConnectionsResumed, "of them resumed"),
    (Side::Client, Figure::ConnectionsFailed, "failed"),
    (Side::Client, Figure::ConnectionsClosedByClient, "closed by clients"),
    (Side::Client, Figure::ConnectionsClosedByServer, "closed by the server"),
    (Side::Server, Figure::CpuSeconds, "server"),
    (Side::Client, Figure::CpuSeconds, "client"),
    (Side::Server, Figure::RssBytes, "server, resident (RSS)"),
    (Side::Server, Figure::PssBytes, "server, shared memory once (PSS)"),
    (Side::Client, Figure::RssBytes, "client, resident"),
    (Side::Client, Figure::TcpMemoryBytes, "kernel, TCP buffers"),
    (Side::Client, Figure::UdpMemoryBytes, "kernel, UDP buffers"),
    (Side::Client, Figure::TcpSlabBytes, "kernel, TCP sockets (slab)"),
    (Side::Server, Figure::UdpSocketDrops, "server: datagrams dropped by its sockets"),
    (Side::Server, Figure::AcceptQueueOverflows, "server: connections lost, accept queue full"),
    (Side::Server, Figure::ListenDrops, "server: connections lost while listening"),
    (Side::Server, Figure::UdpReceiveBufferErrors, "server's namespace: datagrams dropped by anybody"),
    (Side::Server, Figure::TcpRetransmitted, "server's namespace: segments sent again"),
    (Side::Client, Figure::UdpReceiveBufferErrors, "client's namespace: datagrams dropped by anybody"),
    (Side::Client, Figure::UdpSendBufferErrors, "client's namespace: datagrams not sent"),
    (Side::Client, Figure::TcpRetransmitted, "client's namespace: segments sent again"),
    (Side::Server, Figure::InBytes, "server, in"),
    (Side::Server, Figure::OutBytes, "server, out"),
    (Side::Client, Figure::InBytes, "client, in"),
    (Side::Client, Figure::OutBytes, "client, out"),
    (Side::Server, Figure::VoluntarySwitches, "server, it waited"),
    (Side::Server, Figure::InvoluntarySwitches, "server, core taken away"),
    (Side::Client, Figure::VoluntarySwitches, "client, it waited"),
    (Side::Client, Figure::InvoluntarySwitches, "client, core taken away"),
];
/// How the figures of sockets by state begin.
const SOCKETS: &str = "sockets_";

/// Makes the curves that need no more than a name from one table: variant, key, legend.
macro_rules! curves {
    ($($variant:ident $key:literal $legend:literal,)*) => {
        /// A curve of a figure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Curve {
            $(#[doc = $legend] $variant,)*
            /// Answers with a response code.
            Rcode(u16),
            /// Queries by how their answers compare with the expected ones.
            Compared(Answer),
            /// Queries over a transport.
            Over(Transport),
            /// Queries over a transport by how they came by their connection, a key of [`words::CONNECTIONS`].
            Connection(Transport, &'static str),
            /// Queries of clients of an activity, a key of [`words::CLIENTS`].
            Clients(&'static str),
            /// What was sampled of an end.
            Sampled(Side, Figure),
        }

        impl Curve {
            /// The curves that need no more than a name.
            const PLAIN: &[(Self, &'static str, &'static str)] = &[$((Self::$variant, $key, $legend),)*];
        }
    };
}

curves! {
    Lookups "lookups" "lookups: first attempt to answer",
    Attempts "attempts" "attempts, each by itself",
    FirstAttempts "first_attempts" "first attempts",
    Retries "retries" "retries",
    Sent "sent" "queries sent",
    Answers "answers" "answers",
    Queries "queries" "queries",
    Responses "responses" "responses",
    OtherRcodes "other_codes" "other codes",
    TimedOut "timed_out" "timed out",
    Failed "failed" "failed",
    NotSent "not_sent" "not sent",
    Median "p50" "median",
    P90 "p90" "90th percentile",
    P99 "p99" "99th percentile",
    FromSent "from_sent" "from sent",
    FromDue "from_due" "from due",
    Error "error" "sent − due",
    Recorded "recorded" "recorded",
    Replayed "replayed" "replayed",
    Seconds "1_s" "1-s windows",
    Tenths "0_1_s" "0.1-s windows",
}

impl Curve {
    /// What programs tell it apart by; of one figure, no two curves have the same.
    pub fn key(self) -> String {
        match self {
            Self::Rcode(code) => rcode::name(code),
            Self::Compared(answer) => answer.as_str().to_owned(),
            Self::Over(transport) => transport.as_str().to_owned(),
            Self::Connection(transport, connection) => format!("{}_{connection}", transport.as_str()),
            Self::Clients(activity) => activity.to_owned(),
            Self::Sampled(side, figure) => format!("{}_{}", side.as_str(), figure.as_str()),
            plain => plain.named().map(|(key, _)| key.to_owned()).unwrap_or_default(),
        }
    }

    /// What people read.
    pub fn legend(self) -> String {
        match self {
            Self::Rcode(_) | Self::Compared(_) => self.key(),
            Self::Over(transport) => words::transport(transport.as_str()).to_owned(),
            Self::Connection(transport, connection) => words::over(transport, connection),
            Self::Clients(activity) => words::clients(activity),
            Self::Sampled(side, figure) => sampled(side, figure),
            plain => plain.named().map(|(_, legend)| legend.to_owned()).unwrap_or_default(),
        }
    }

    fn named(self) -> Option<(&'static str, &'static str)> {
        Self::PLAIN.iter().find(|(curve, ..)| *curve == self).map(|&(_, key, legend)| (key, legend))
    }
}

/// What a figure of an end is called; sockets are by their state.
fn sampled(side: Side, figure: Figure) -> String {
    let known = SAMPLED.iter().find(|&&(of, what, _)| (of, what) == (side, figure));
    known.map_or_else(|| figure.as_str().trim_start_matches(SOCKETS).to_uppercase(), |&(.., legend)| legend.to_owned())
}

/// By its key.
impl Serialize for Curve {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_has_a_key_and_a_legend_of_its_own() {
        let plain = Curve::PLAIN.iter().map(|&(curve, ..)| curve);
        let sampled = SAMPLED.iter().map(|&(side, figure, _)| Curve::Sampled(side, figure));
        let all: Vec<Curve> = plain.chain(sampled).chain([Curve::Rcode(3), Curve::Over(Transport::Dot)]).collect();
        let distinct = |of: fn(Curve) -> String| {
            let mut names: Vec<String> = all.iter().map(|&curve| of(curve)).collect();
            names.sort_unstable();
            names.dedup();
            names.iter().filter(|name| !name.is_empty()).count()
        };
        // Connections and queries may both fail.
        assert_eq!((distinct(Curve::key), distinct(Curve::legend)), (all.len(), all.len() - 1));
        assert_eq!(Curve::Sampled(Side::Server, Figure::SocketsTimeWait).legend(), "TIME_WAIT");
        assert_eq!(Curve::Connection(Transport::Tcp, "fresh").legend(), "TCP, new connection");
    }
}
