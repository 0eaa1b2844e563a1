//! The life of requests and connections, which the machines of all transports with connections share.

mod connection;
mod counts;
mod policy;
mod request;

use std::net::IpAddr;

use ldplayer_core::Transport;

pub use self::connection::{Connection, State};
pub use self::counts::ConnectionCounts;
pub use self::policy::{PIPELINE_MOST, Policy};
pub use self::request::{Request, Stage};

/// Limits and times of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How connections are used.
    pub policy: Policy,
    /// How long an answer is waited for, in nanoseconds.
    pub query_timeout: i64,
    /// How much longer a late answer is recognised, in nanoseconds.
    pub linger: i64,
    /// Connections at once; one that is idle makes room for a new one.
    pub most: u32,
    /// Where the IDs start.
    pub seed: u64,
    /// Number of the first connection …
    pub first: u64,
    /// … and the distance to the next one's, so that workers number theirs apart.
    pub step: u64,
}

/// How a connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By the client, for being idle.
    Idle,
    /// By the client, after its last query.
    Spent,
    /// By the client, to make room for another.
    Room,
    /// By the server, in order.
    Closed,
    /// By the server or the network, by a reset or an error.
    Reset,
}

/// Which client uses a connection, and for what.
pub type Key = (IpAddr, Transport);

/// The place of a class in the tables of them.
pub fn place(class: Option<u8>) -> usize {
    usize::from(class.unwrap_or_default())
}
