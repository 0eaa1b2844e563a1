//! The specification of a run: all keys, typed, in TOML and JSON.

mod read;
mod words;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ldplayer_core::size::Size;
use ldplayer_core::time::Span;
use ldplayer_core::{Cidr, IgnoreRule, PolicyOverrides};
use ldplayer_net::pace::Precision;
use ldplayer_replay::{DohMethod, DohSettings, Mapping, PathChoice, Sources};
use ldplayer_results::Expectation;
use ldplayer_trace::Role;
use ldplayer_workload::{ClientClass, Passes, Qps, RulesFile, Timing};
use serde::{Deserialize, Serialize};

pub use read::BadSpec;
pub(crate) use words::DNS_PORT;
pub use words::{BadServer, Lag, Server, TransportChoice};
use words::{one_or_many, text};

/// The version that this release writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// A run specification. All ways to request a run produce this type: options of `ldplayer replay`, a file, an earlier run.
///
/// Keys are the long options of `ldplayer replay` with underscores, and include those of the connection policy
/// ([`PolicyOverrides`]). Unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSpec {
    /// [`VERSION`].
    pub version: u32,
    /// The trace: files, `-` for standard input, or `unix:PATH`; several are merged by time.
    #[serde(deserialize_with = "one_or_many")]
    pub trace: Vec<String>,
    /// The target servers.
    #[serde(deserialize_with = "one_or_many")]
    pub server: Vec<Server>,
    /// Replacements for recorded servers.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "text::list")]
    pub map: Vec<Mapping>,
    /// Rule files that change the queries, applied in order.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RulesFile>,
    /// When queries are due.
    #[serde(with = "text")]
    pub timing: Timing,
    /// Speed factor; the same as `timing = "scaled:X"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// The same rate for all of it; the same as `timing = "rate:QPS"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Qps>,
    /// So much of the trace is left out at its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// Ends the trace after this much of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// How often to replay the trace; `None` is once.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none", with = "text::option")]
    pub passes: Option<Passes>,
    /// Ends the run after this long.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Maximum number of clients: those that send the first queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
    /// Transport of the queries.
    pub transport: TransportChoice,
    /// Class file; its classes replace it when the run is prepared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport_shares: Option<PathBuf>,
    /// Source addresses of the clients; `None` is original where every address is local, ports elsewhere.
    #[serde(skip_serializing_if = "Option::is_none", with = "text::option")]
    pub sources: Option<Sources>,
    /// How packets of clients reach the network.
    #[serde(with = "text")]
    pub path: PathChoice,
    /// The interface of frames, where that is not the one of a namespace made for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Routers on the link of the interface that lead to the servers, one for a family; servers of a family without are on the link.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub next_hop: Vec<IpAddr>,
    /// With frames: round-trip time of each client, as text ([`ldplayer_link::Rtt`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<String>,
    /// … jitter of that ([`ldplayer_link::Jitter`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// … loss in each direction ([`ldplayer_link::Loss`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
    /// … bandwidth of each client in each direction ([`ldplayer_link::Rate`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<String>,
    /// Query timeout.
    pub query_timeout: Span,
    /// Worker threads; `None` is one less than the number of cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
    /// Cores to pin the workers to.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<usize>,
    /// How much CPU time to spend on timing.
    #[serde(with = "text")]
    pub precision: Precision,
    /// Queries overdue by more than this are not sent. A number without a unit is in milliseconds.
    pub max_lag: Lag,
    /// In-flight queries of each worker, where queries have no times.
    pub max_outstanding: usize,
    /// Whether to record kernel send times of queries over UDP.
    pub stamp_sends: bool,
    /// Whether to record the TCP segments and retransmissions of each response.
    pub count_segments: bool,
    /// Address blocks outside this host that may be sent load.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub allow_target: Vec<Cidr>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Ports that carry DNS in captures.
    #[serde(alias = "port", deserialize_with = "one_or_many")]
    pub capture_port: Vec<u16>,
    /// Roles whose messages are taken from dnstap and C-DNS; all if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "text::list")]
    pub role: Vec<Role>,
    /// Whether to leave out datagrams that a capture has twice.
    pub drop_duplicates: bool,
    /// The most that is read of a trace, decompressed; a larger one ends the run with an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input: Option<Size>,
    /// Command of a server to start in a namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_server: Option<String>,
    /// Process whose CPU time and memory are recorded, including its children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_pid: Option<u32>,
    /// Systemd unit whose processes are recorded instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_unit: Option<String>,
    /// Telemetry interval: 100 ms to 1 s.
    pub telemetry_interval: Span,
    /// Address of the Prometheus endpoint during the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    /// Expectations of the server; any that fails fails the run.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Expectation>,
    /// What to compare answers with: recorded answers, or those of a reference server that gets the same queries at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare_answers: Option<Server>,
    /// What to ignore in comparisons, in addition to what is always ignored.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub compare_ignore: Vec<IgnoreRule>,
    /// Whether to keep the responses, as a trace.
    pub keep_responses: bool,
    /// PEM file of trusted certificates; `None` for those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// Whether to trust any certificate.
    pub tls_insecure: bool,
    /// Name required in the server's certificate; `None` for its address.
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
    /// Client classes, each with its share, transport and connection policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<ClientClass>,
    /// Connection policy of all clients.
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
            path: PathChoice::default(),
            interface: None,
            next_hop: Vec::new(),
            rtt: None,
            jitter: None,
            loss: None,
            bandwidth: None,
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
            drop_duplicates: false,
            max_input: None,
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
    /// The client classes, once files are embedded; empty if all clients are alike.
    pub fn classes(&self) -> &[ClientClass] {
        match &self.transport {
            TransportChoice::Shares(classes) if self.class.is_empty() => classes,
            _ => &self.class,
        }
    }

    /// Timing with the speed or the rate in it.
    pub fn timing(&self) -> Timing {
        let rate = self.rate.map(|Qps(qps)| Timing::Rate(qps));
        rate.or_else(|| self.speed.map(Timing::Scaled)).unwrap_or(self.timing)
    }
}
