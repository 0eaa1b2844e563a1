//! How a replay is to be made.

use crate::connections::TlsSettings;
use crate::doh::DohSettings;
use crate::route::Sources;
use crate::table::Policy;
use crate::targets::{Ports, Targets};
use ldplayer_net::pace::Precision;

/// The options of a replay, resolved.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How clients get their addresses.
    pub sources: Sources,
    /// The servers asked.
    pub targets: Targets,
    /// Worker threads.
    pub workers: usize,
    /// Core of each worker; empty leaves them to the scheduler.
    pub cores: Vec<usize>,
    /// CPU time spent on timing.
    pub precision: Precision,
    /// How long an answer is waited for, in nanoseconds.
    pub query_timeout: i64,
    /// Queries overdue by more than this many nanoseconds are not sent.
    pub max_lag: Option<i64>,
    /// Send as soon as there is room in the window, whatever the trace's times.
    pub fast: bool,
    /// Queries outstanding at once in each worker when `fast`.
    pub window: usize,
    /// Sockets of a worker when each client has its own, and connections of a worker at once.
    pub max_sockets: u32,
    /// How clients use connections.
    pub policy: Policy,
    /// The same for each class of clients, as queries name theirs; empty where there are no classes.
    pub classes: Vec<Policy>,
    /// How clients use TLS; `None` where no query goes over it.
    pub tls: Option<TlsSettings>,
    /// The port of the servers for DNS over TLS and QUIC.
    pub tls_port: u16,
    /// The port of the servers for DNS over HTTPS.
    pub doh_port: u16,
    /// How clients ask over HTTPS.
    pub doh: DohSettings,
    /// Ask the kernel what it counts of each connection over TCP (`segments` of the rows), a system call for each read.
    pub count_segments: bool,
    /// Seed of every random choice.
    pub seed: u64,
}

impl Settings {
    /// The ports of the servers for DNS in encryption.
    pub const fn ports(&self) -> Ports {
        Ports { tls: self.tls_port, doh: self.doh_port }
    }
}
