//! How a connection is made, and what the kernel counts of it.

use std::net::IpAddr;

/// How a client's connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// The address to open it from, which no interface needs to have; `None` leaves the choice to the kernel.
    pub source: Option<IpAddr>,
    /// Let small segments wait for the acknowledgement of earlier ones.
    pub nagle: bool,
    /// Send what is written first with the first segment, where the server has given a cookie (RFC 7413).
    pub fast_open: bool,
}

/// What the kernel has counted of a connection (tcp(7), `TCP_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments with data that arrived. Several that the device or the kernel joined on their way up are counted one by one.
    pub data_segments_in: u32,
    /// Segments that were sent again, the first one (SYN) included.
    pub retransmits: u32,
}
