//! Doubts about a run, each with what the user can do about it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a warning is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// How the run was made.
    #[default]
    Replay,
    /// What the server did.
    Server,
}

/// What to do where little or nothing was answered.
const CHECK_SERVER: &str =
    "see that the server runs, serves these names, and listens on this address, port and transport";
/// What to do where the kernel drops what arrives.
pub const RECEIVE_BUFFER: &str =
    "lower the rate or, unless with --path packets, raise net.core.rmem_max: sysctl -w net.core.rmem_max=33554432";

/// Makes the codes of warnings from one table: variant, word for programs, what it is about, when it is given (a sentence of
/// docs/report.md), what to do. The remedy is empty where it depends on what was seen.
macro_rules! codes {
    ($($variant:ident $word:literal $about:ident $when:literal $remedy:expr,)*) => {
        /// What a warning says, as a stable word for programs such as `fell_behind`.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum WarningCode {
            $(#[doc = $when] $variant,)*
            /// A code of another release, in a run that it made.
            Other(String),
        }

        impl WarningCode {
            /// Those of this release, each with when it is given.
            pub const ALL: &[(Self, &str)] = &[$((Self::$variant, $when),)*];

            /// Its word for programs.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }

            /// What it is about.
            pub const fn about(&self) -> About {
                match self {
                    $(Self::$variant => About::$about,)*
                    Self::Other(_) => About::Replay,
                }
            }

            /// What to do about it; empty if that depends on the observation.
            pub const fn remedy(&self) -> &'static str {
                match self {
                    $(Self::$variant => $remedy,)*
                    Self::Other(_) => "",
                }
            }
        }
    };
}

codes! {
    NoAnswers "no_answers" Server "none of the queries was answered"
        CHECK_SERVER,
    ManyUnanswered "many_unanswered" Server "a tenth of the queries or more were not answered"
        CHECK_SERVER,
    ErrorAnswers "error_answers" Server "most answers are errors (neither NOERROR nor NXDOMAIN), and not so in the trace"
        "see that the server has the zones, or may recurse, for these names and these clients",
    RcodesDiffer "rcodes_differ" Server "the trace has recorded answers, and the share of a response code differs from theirs by 1 % of the answers or more, and by more than counts so small explain (two proportions, 99 %)"
        "see that the server has the data of the time of the recording",
    ClientBottleneck "client_bottleneck" Replay "the client held the run up (below)"
        "",
    FellBehind "fell_behind" Replay "a query was more than 100 ms late"
        "use more --workers, lower the rate, stop other load on this machine, or read the trace from a faster disk",
    CpuStolen "cpu_stolen" Replay "the host took processor time from this machine, or a spinning worker lost its core"
        "compare timing only with a bare loop on this host, or use a dedicated machine with idle cores",
    ManyTimeouts "many_timeouts" Replay "1 to 10 % of the queries were not answered in time"
        "check that the server serves these names at this rate; raise --query-timeout if it is slow",
    RateLimited "rate_limited" Replay "over UDP some queries were dropped and others answered truncated without data, as a server with response rate limiting does: a possibility, no proof"
        "if it has a limit, turn it off or exempt the clients' addresses, and repeat the run",
    DelayedAck "delayed_ack" Replay "answers over TCP, DoT or HTTP/2 came 40 ms behind the others, as if a segment waited for a delayed acknowledgement: a step of 0.5 % of them or more, where the quickest take less than 20 ms"
        "unless the server asks others that are 40 ms away, turn Nagle's algorithm off in it (TCP_NODELAY), or let fewer queries wait on a connection (--max-outstanding, pipeline)",
    FailedQueries "failed_queries" Replay "queries failed, by reason"
        "",
    NotSent "not_sent" Replay "queries were not sent, by reason"
        "",
    LateResponses "late_responses" Replay "responses came after the query timeout"
        "raise --query-timeout to count them as answers",
    StrayResponses "stray_responses" Replay "responses belong to no query; with the addresses that most came from, and how many have no row"
        "",
    Flooded "flooded" Replay "connections were closed since the server sent [too much that answers no query](transports.md#servers-that-send-too-much)"
        "",
    KernelDrops "kernel_drops" Replay "the kernel dropped packets to this run, for lack of buffer"
        RECEIVE_BUFFER,
    HostDrops "host_drops" Replay "datagrams were dropped in the network namespace, on other sockets than those of this run"
        "see `ss -uamp` for the sockets; give a server on this host larger receive buffers, or lower the rate",
    LinkLosses "link_losses" Replay "the kernel lost frames between clients and server ([packets](packet-path.md))"
        "lower the rate, or raise the kernel's queue: sysctl -w net.core.netdev_max_backlog=100000",
    FramesDamaged "frames_damaged" Replay "frames arrived that could not be used ([packets](packet-path.md))"
        "see them with tcpdump on the interface; if they are cut short, switch off offloads: ethtool -K IFACE tso off gso off gro off",
    LinkFull "link_full" Replay "frames were dropped since too many were on the link of `--rtt` at once"
        "lower the rate or the round-trip time, or use more --workers",
    LinkLate "link_late" Replay "frames left the link of `--rtt` later than its delay"
        "lower the rate, give the workers cores of their own, or use more --workers",
    SendBufferFull "send_buffer_full" Replay "the kernel's send buffer was full"
        "lower the rate, or raise net.core.wmem_max: sysctl -w net.core.wmem_max=33554432",
    SendRefused "send_refused" Replay "the kernel refused to send a query"
        "make sure that this host has a route to the server and may send from the clients' addresses",
    SharedPorts "shared_ports" Replay "clients shared the UDP ports of others"
        "widen net.ipv4.ip_local_port_range, raise the limit of open files (ulimit -n), or use --sources original in a testbed",
    NoIpv6 "no_ipv6" Replay "IPv6 is disabled in the kernel, and a server or clients need it"
        "boot without ipv6.disable=1, or replay only IPv4",
    Forwarding "forwarding" Replay "this host is a router on the interface of the packets"
        "",
    TestbedSetting "testbed_setting" Replay "a setting of the testbed could not be made"
        "mount /proc/sys writable, or run as root",
    SlowTrace "slow_trace" Replay "queries were read from the trace after they were due"
        "convert the trace to Parquet, or put it on a faster disk",
    SlowRecorder "slow_recorder" Replay "workers waited for results to be written"
        "write the run to a faster disk with -o, or leave a core free with --workers",
    TraceOutOfOrder "trace_out_of_order" Replay "transactions of the trace come too early to be sorted in"
        "sort the trace by time; these queries were sent late, one after the other",
    TraceCutShort "trace_cut_short" Replay "reading the trace ended early"
        "repair the trace; everything read before the error was replayed",
    NothingCompared "nothing_compared" Replay "the trace has no responses to [compare](compare-answers.md) with"
        "record responses with the queries, or replay the output of an earlier run with --keep-responses",
    ReferenceUnanswered "reference_unanswered" Replay "the reference server left queries unanswered, which are not compared"
        "make sure that it can answer at this rate, or lower the rate",
    NotAskedAgain "not_asked_again" Replay "queries with unexpected answers could not be asked again"
        "read the trace from a file, and make sure that the run directory is writable",
    ResponsesLost "responses_lost" Replay "responses could not be kept"
        "free some space or choose another directory with -o, then repeat the run; its figures are complete",
    RowsLost "rows_lost" Replay "rows could not be written"
        "free space or give another directory with -o, then repeat the run",
    RowsMissing "rows_missing" Replay "the run never ended: which rows are there"
        "rows of the last seconds before the end were not saved yet; all others are in queries/*.parquet",
    RowsUnreadable "rows_unreadable" Replay "row files are damaged"
        "check the disk, and repeat the run",
    IncompleteRun "incomplete_run" Replay "the run never ended, or is going now"
        "wait for it, or repeat it; end a run early with Ctrl-C to keep everything",
    AgentLost "agent_lost" Replay "an [agent](agents.md) was lost"
        "its results may still be on its host: `ldplayer agent` prints their place when it ends",
    AgentEndedEarly "agent_ended_early" Replay "an agent ended early"
        "fix the error on its host, and repeat the run",
    AgentBehind "agent_behind" Replay "an agent had queries for less than a second ahead"
        "use more agents or a faster connection to the NATS server, or let agents read the trace themselves with --local",
    ServerNotWatched "server_not_watched" Replay "the controller that watched the server ended early"
        "repeat the run if you need it",
    NoTelemetryOfAgents "no_telemetry_of_agents" Replay "what the agents used could not be put together"
        "see agents/NAME/telemetry.parquet for each agent",
}

impl fmt::Display for WarningCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for WarningCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for WarningCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let known = Self::ALL.iter().find(|(code, _)| code.as_str() == word);
        Ok(known.map_or(Self::Other(word), |(code, _)| code.clone()))
    }
}

/// A doubt about the run, with what the user can do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Which of them.
    pub code: WarningCode,
    /// The agent that says so of its part; `None` of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What was seen.
    pub text: String,
    /// What to do; empty where nothing need be done.
    pub remedy: String,
    /// What it is about.
    #[serde(default)]
    pub about: About,
}

impl Warning {
    /// A warning with the remedy of its code.
    pub fn new(code: WarningCode, text: impl Into<String>) -> Self {
        let remedy = code.remedy();
        Self::with_remedy(code, text, remedy)
    }

    /// A warning whose remedy depends on the observation.
    pub fn with_remedy(code: WarningCode, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        let about = code.about();
        Self { code, agent: None, text: text.into(), remedy: remedy.into(), about }
    }
}

/// The observation, with its agent if there is one.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.agent.iter().try_for_each(|agent| write!(f, "agent {agent}: "))?;
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints the table, to be put there, where the documentation has another.
    #[test]
    fn the_documentation_has_the_warnings() {
        let page = include_str!("../../../docs/report.md");
        let table = |about: About| {
            let of = WarningCode::ALL.iter().filter(|(code, _)| code.about() == about);
            let rows: String = of.map(|(code, when)| format!("| `{code}` | {when} |\n")).collect();
            format!("| warning | is given when |\n|---|---|\n{rows}")
        };
        for table in [About::Server, About::Replay].map(table) {
            assert!(page.contains(&table), "docs/report.md lacks this table:\n{table}");
        }
    }

    #[test]
    fn a_code_of_another_release_is_kept() {
        let read = |text: &str| serde_json::from_str::<Warning>(text).unwrap();
        let old = read(r#"{"code": "gone", "text": "seen", "remedy": ""}"#);
        assert_eq!((old.code.as_str(), old.to_string().as_str()), ("gone", "seen"));
        let known = read(r#"{"code": "no_answers", "agent": "a", "text": "seen", "remedy": "", "about": "server"}"#);
        assert_eq!((&known.code, known.to_string().as_str()), (&WarningCode::NoAnswers, "agent a: seen"));
        assert_eq!(serde_json::to_value(&known).unwrap()["code"], "no_answers");
    }
}
