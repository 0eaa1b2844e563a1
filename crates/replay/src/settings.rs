//! The settings of a replay.

use crate::connections::TlsSettings;
use crate::doh::DohSettings;
use crate::path::NetworkPath;
use crate::route::Sources;
use crate::table::Policy;
use crate::targets::{Ports, Targets};
use ldplayer_core::client::ClientModel;
use ldplayer_net::pace::Precision;

/// The resolved settings of a replay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How packets reach the network.
    pub path: NetworkPath,
    /// Source addresses of the clients.
    pub sources: Sources,
    /// Target servers.
    pub targets: Targets,
    /// Number of worker threads.
    pub workers: usize,
    /// Core of each worker; empty for any.
    pub cores: Vec<usize>,
    /// How much CPU time to spend on timing.
    pub precision: Precision,
    /// Query timeout, in nanoseconds.
    pub query_timeout: i64,
    /// Queries overdue by more than this many nanoseconds are not sent.
    pub max_lag: Option<i64>,
    /// Unpaced: send as soon as the window has room, whatever the times in the trace.
    pub fast: bool,
    /// Maximum outstanding queries per worker when `fast`.
    pub window: usize,
    /// Maximum number of sockets per worker if each client has its own, and of concurrent connections per worker.
    pub max_sockets: u32,
    /// Connection policy of clients.
    pub policy: Policy,
    /// Connection policies of client classes, by the number in queries; empty without classes.
    pub classes: Vec<Policy>,
    /// TLS settings; `None` if no query uses TLS.
    pub tls: Option<TlsSettings>,
    /// Port of the servers for DNS over TLS and QUIC.
    pub tls_port: u16,
    /// Port of the servers for DNS over HTTPS.
    pub doh_port: u16,
    /// Settings of DNS over HTTPS.
    pub doh: DohSettings,
    /// Whether to read the kernel's segment counters of TCP connections (`segments` of the rows), with a system call per read.
    pub count_segments: bool,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Settings {
    /// Ports of the servers for encrypted DNS.
    pub const fn ports(&self) -> Ports {
        Ports { tls: self.tls_port, doh: self.doh_port }
    }

    /// The same with clients that ask each question once.
    #[must_use]
    pub fn asking_once(self) -> Self {
        let once = |policy: Policy| Policy { client: ClientModel::Open, ..policy };
        Self { policy: once(self.policy), classes: self.classes.into_iter().map(once).collect(), ..self }
    }
}
