//! What was run and where: `config` and `environment` of `run.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ldplayer_core::policy::{KEYS, Key, Scope, ValueKind};
use ldplayer_core::{Policy, Transport};
use ldplayer_net::machine::Facts;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The options of a run as they were resolved on this machine, and at its end as far as they were used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunConfig {
    /// The program and its arguments.
    pub command_line: Vec<String>,
    /// Inputs as the user named them.
    pub trace: Vec<String>,
    /// Files of rules that changed the queries.
    pub rules: Vec<PathBuf>,
    /// Servers asked, each with its port.
    pub servers: Vec<String>,
    /// When queries were due: `original`, `scaled:2`, `rate:1000`, `fast` and so on.
    pub timing: String,
    /// Seconds of the trace left out at its start.
    pub start_s: f64,
    /// Seconds of the trace after which the run ended.
    pub stop_s: Option<f64>,
    /// The transport of all queries, `as-recorded`, or `by-class` where the classes of clients say it.
    pub transport: String,
    /// The file of classes.
    pub transport_shares: Option<PathBuf>,
    /// Classes of clients; empty where all are alike.
    pub classes: Vec<ClassConfig>,
    /// How clients use connections.
    pub connections: ConnectionConfig,
    /// Port for DNS over TLS and QUIC; `null` where neither can be used.
    pub tls_port: Option<u16>,
    /// Port for DNS over HTTPS; `null` where it cannot be used.
    pub doh_port: Option<u16>,
    /// Addresses of the clients: `original`, `ports` or `pool:CIDR,…`.
    pub sources: String,
    /// How packets of clients reached the network: `sockets`, `packets` or `packets:xdp`.
    pub path: String,
    /// How long an answer was waited for, in seconds.
    pub query_timeout_s: f64,
    /// Number of workers.
    pub workers: usize,
    /// Cores that workers were pinned to.
    pub cores: Vec<usize>,
    /// `low`, `normal` or `high`.
    pub precision: String,
    /// Lateness in milliseconds from which on queries were not sent.
    pub max_lag_ms: Option<f64>,
    /// Queries outstanding at once in each worker of a run without times.
    pub max_outstanding: Option<usize>,
    /// Ports taken for DNS in captures.
    pub ports: Vec<u16>,
    /// Command of the server that was started.
    pub start_server: Option<String>,
    /// What answers were compared with: `recorded`, or the address of a server; `null` where they were not.
    pub compare_answers: Option<String>,
    /// What the comparison left out, beside what it always does.
    pub compare_ignore: Vec<String>,
    /// Whether responses were kept.
    pub keep_responses: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// Keys of the specification that are not the defaults, with their values, but for trace and servers; `null` in runs of versions that
    /// did not say.
    pub changed: Option<BTreeMap<String, Value>>,
}

/// The connection policy that was used; the TLS settings are `null` if no encrypted transport was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedPolicy {
    /// The policy.
    pub policy: Policy,
    /// Whether an encrypted transport was used.
    pub with_tls: bool,
}

/// How clients use connections, and how TLS and HTTPS are spoken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionConfig {
    /// What is the same for all clients, unless their class says otherwise.
    #[serde(flatten)]
    pub policy: UsedPolicy,
    /// File of trusted certificates.
    pub tls_ca: Option<PathBuf>,
    /// Whether any certificate was taken.
    pub tls_insecure: bool,
    /// Name asked for in place of the address.
    pub tls_name: Option<String>,
    /// `post` or `get`; `null` where no HTTPS was used.
    pub doh_method: Option<String>,
    /// Path of HTTPS requests; `null` where no HTTPS was used.
    pub doh_path: Option<String>,
}

/// A class of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassConfig {
    /// Its name.
    pub name: String,
    /// Share of the clients that it was given, in percent.
    pub share_percent: f64,
    /// Its transport, or `as-recorded`.
    pub transport: String,
    /// How its clients use connections.
    #[serde(flatten)]
    pub policy: UsedPolicy,
}

/// The machine of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// What it is.
    #[serde(flatten)]
    pub machine: Facts,
    /// Whether its cores were kept from sleeping during the run.
    pub cpu_dma_latency: String,
}

impl RunConfig {
    /// How long an answer was waited for, in nanoseconds.
    pub(crate) fn query_timeout_ns(&self) -> i64 {
        (self.query_timeout_s * 1e9) as i64
    }

    /// Drops the settings of transports that no query used: nobody resumed a session in a run over UDP.
    pub(crate) fn keep_used(&mut self, sent_by_transport: &BTreeMap<String, u64>) {
        let used = |wanted: fn(Transport) -> bool| {
            let transports = sent_by_transport.iter().filter(|&(_, &sent)| sent > 0);
            transports.filter_map(|(name, _)| name.parse().ok()).any(wanted)
        };
        if !used(Transport::is_https) {
            (self.doh_port, self.connections.doh_method, self.connections.doh_path) = (None, None, None);
        }
        if !used(Transport::is_encrypted) {
            self.tls_port = None;
            let classes = self.classes.iter_mut().map(|class| &mut class.policy);
            classes.chain([&mut self.connections.policy]).for_each(|policy| policy.with_tls = false);
        }
        let plain = |class: &&mut ClassConfig| class.transport.parse().is_ok_and(|of: Transport| !of.is_encrypted());
        self.classes.iter_mut().filter(plain).for_each(|class| class.policy.with_tls = false);
    }
}

/// Whether run.json has `null` for a policy key when no query used TLS. It keeps the handshake timeout.
fn is_of_tls(key: &Key) -> bool {
    matches!(key.scope, Scope::Encrypted | Scope::TlsOverTcp) && !matches!(key.kind, ValueKind::Span { .. })
}

impl UsedPolicy {
    /// A policy of which nothing is left out.
    pub const fn all(policy: Policy) -> Self {
        Self { policy, with_tls: true }
    }
}

impl Serialize for UsedPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut keys = serde_json::to_value(self.policy).map_err(serde::ser::Error::custom)?;
        KEYS.iter().filter(|key| !self.with_tls && is_of_tls(key)).for_each(|key| keys[key.name] = Value::Null);
        keys.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for UsedPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keys = serde_json::Map::deserialize(deserializer)?;
        let is_told = |key: &Key| is_of_tls(key) && keys.get(key.name).is_some_and(|value| !value.is_null());
        let with_tls = KEYS.iter().any(is_told);
        let policy = serde_json::from_value(Value::Object(keys)).map_err(serde::de::Error::custom)?;
        Ok(Self { policy, with_tls })
    }
}
