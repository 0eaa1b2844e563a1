//! The specification of a run: every key that has a meaning for it, typed, and as TOML or JSON.

mod read;
mod words;

use std::net::SocketAddr;
use std::path::PathBuf;

use ldplayer_core::time::Span;
use ldplayer_core::{Cidr, IgnoreRule, PolicyOverrides};
use ldplayer_net::pace::Precision;
use ldplayer_replay::{DohMethod, DohSettings, Mapping, Sources};
use ldplayer_results::Expectation;
use ldplayer_trace::Role;
use ldplayer_workload::{ClientClass, Passes, Qps, RulesFile, Timing};
use serde::{Deserialize, Serialize};

pub use read::BadSpec;
pub(crate) use words::DNS_PORT;
pub use words::{BadServer, Lag, Server, TransportChoice};
use words::{one_or_many, text};

/// The version of the specification that this release writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// What a run is. Every way to ask for one makes a value of this type: options of `ldplayer replay`, a file, an earlier run.
///
/// Keys are the long names of the options of `ldplayer replay` with underscores. The keys of the connection policy
/// ([`PolicyOverrides`]) stand among them. A key that is not known is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSpec {
    /// [`VERSION`].
    pub version: u32,
    /// The trace: files, `-` for standard input, `unix:PATH`; several are merged by time.
    #[serde(deserialize_with = "one_or_many")]
    pub trace: Vec<String>,
    /// The servers asked.
    #[serde(deserialize_with = "one_or_many")]
    pub server: Vec<Server>,
    /// What takes the place of recorded servers, where queries go to those.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "text::list")]
    pub map: Vec<Mapping>,
    /// Files of rules that change the queries on their way, one after the other.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RulesFile>,
    /// When queries are due.
    #[serde(with = "text")]
    pub timing: Timing,
    /// Speed of the trace's clock; the same as `timing = "scaled:X"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// The same rate for all of it; the same as `timing = "rate:QPS"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Qps>,
    /// So much of the trace is left out at its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// The trace ends after so much of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// How often the trace is gone through; `None` is once.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none", with = "text::option")]
    pub passes: Option<Passes>,
    /// The run ends after so long, on the clock of the wall.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Only so many clients of the trace: those that ask first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
    /// Transport of the queries.
    pub transport: TransportChoice,
    /// File of classes of clients; its classes take its place when the run is prepared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport_shares: Option<PathBuf>,
    /// Addresses of the clients; `None` is original where every address is local, ports elsewhere.
    #[serde(skip_serializing_if = "Option::is_none", with = "text::option")]
    pub sources: Option<Sources>,
    /// How long an answer is waited for.
    pub query_timeout: Span,
    /// Worker threads; `None` is one less than there are cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
    /// Cores that the workers are pinned to.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<usize>,
    /// CPU time spent on timing.
    #[serde(with = "text")]
    pub precision: Precision,
    /// Queries overdue by more than this are not sent. A number without a unit is in milliseconds.
    pub max_lag: Lag,
    /// In-flight queries of each worker, where queries have no times.
    pub max_outstanding: usize,
    /// Record when the kernel sent each query over UDP.
    pub stamp_sends: bool,
    /// Record in how many TCP segments each response came, and how many were sent again.
    pub count_segments: bool,
    /// Blocks of addresses outside of this host that may be sent to.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub allow_target: Vec<Cidr>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Ports that carry DNS in captures.
    #[serde(alias = "port", deserialize_with = "one_or_many")]
    pub capture_port: Vec<u16>,
    /// Roles whose messages are taken from dnstap and C-DNS; all if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "text::list")]
    pub role: Vec<Role>,
    /// Command of a server that is started in a namespace of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_server: Option<String>,
    /// Process whose CPU time and memory are recorded, with its children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_pid: Option<u32>,
    /// The systemd unit whose processes are recorded so instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_unit: Option<String>,
    /// How often telemetry is taken: 100 ms to 1 s.
    pub telemetry_interval: Span,
    /// Where figures of the run are served to Prometheus while it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    /// What is expected of the server; any that does not hold fails the run.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Expectation>,
    /// What answers are compared with: those recorded in the trace, or those of another server that is asked the same at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare_answers: Option<Server>,
    /// What the comparison leaves out, beside what it always does.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub compare_ignore: Vec<IgnoreRule>,
    /// Keep what the server said, as a trace.
    pub keep_responses: bool,
    /// PEM file of trusted certificates; `None` is what the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// Trust any server.
    pub tls_insecure: bool,
    /// Name that the server's certificate must have; `None` is the address asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_name: Option<String>,
    /// Port for DNS over TLS, QUIC and HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_port: Option<u16>,
    /// Port for DNS over HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doh_port: Option<u16>,
    /// How queries are put into HTTPS requests.
    #[serde(with = "text")]
    pub doh_method: DohMethod,
    /// Path of HTTPS requests.
    pub doh_path: String,
    /// Classes of clients, each with its share, its transport and how it uses connections.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<ClientClass>,
    /// How clients use connections.
    #[serde(flatten)]
    pub policy: PolicyOverrides,
}

impl Default for RunSpec {
    fn default() -> Self {
        Self {
            version: VERSION,
            trace: Vec::new(),
            server: Vec::new(),
            map: Vec::new(),
            rules: Vec::new(),
            timing: Timing::ORIGINAL,
            speed: None,
            rate: None,
            start: None,
            stop: None,
            passes: None,
            duration: None,
            clients: None,
            transport: TransportChoice::AsRecorded,
            transport_shares: None,
            sources: None,
            query_timeout: Span::from_ns(5_000_000_000),
            workers: None,
            cores: Vec::new(),
            precision: Precision::default(),
            max_lag: Lag(Span::from_ns(1_000_000_000)),
            max_outstanding: 1_000,
            stamp_sends: false,
            count_segments: false,
            allow_target: Vec::new(),
            seed: 1,
            capture_port: vec![53],
            role: Vec::new(),
            start_server: None,
            watch_pid: None,
            watch_unit: None,
            telemetry_interval: Span::from_ns(500_000_000),
            metrics: None,
            expect: Vec::new(),
            compare_answers: None,
            compare_ignore: Vec::new(),
            keep_responses: false,
            tls_ca: None,
            tls_insecure: false,
            tls_name: None,
            tls_port: None,
            doh_port: None,
            doh_method: DohMethod::default(),
            doh_path: DohSettings::PATH.to_owned(),
            class: Vec::new(),
            policy: PolicyOverrides::default(),
        }
    }
}

impl RunSpec {
    /// Timing with the speed or the rate in it.
    pub fn timing(&self) -> Timing {
        let rate = self.rate.map(|Qps(qps)| Timing::Rate(qps));
        rate.or_else(|| self.speed.map(Timing::Scaled)).unwrap_or(self.timing)
    }
}
