//! Datagrams on their way out and in, and what a socket for them is asked for.

use std::net::{IpAddr, SocketAddr};

/// Datagrams moved by one system call at most.
pub const BATCH: usize = 64;

/// What a socket is asked for.
#[derive(Clone, Copy, Debug)]
pub struct UdpOptions {
    /// Local address; unspecified with port 0 lets the kernel choose.
    pub bind: SocketAddr,
    /// Octets of the kernel's receive and send buffers; beyond the system's limit only with the right to.
    pub buffer: usize,
    /// Allows a local address that no interface has (IP_FREEBIND).
    pub freebind: bool,
    /// Tells the local address of each received datagram; needless where only one is possible.
    pub packet_info: bool,
}

/// One datagram to be sent: two parts, so that a shared message can have an ID of its own without a copy.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The first octets (the message ID).
    pub head: [u8; 2],
    /// The rest of the message.
    pub tail: &'a [u8],
    /// The address to send from; `None` leaves the choice to the kernel.
    pub source: Option<IpAddr>,
    /// The peer; `None` on a connected socket.
    pub peer: Option<SocketAddr>,
}

/// When a datagram was handed to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendStamp {
    /// The number of the datagram among those sent by the socket, from 0; wraps around after 2^32.
    pub number: u32,
    /// Nanoseconds of CLOCK_REALTIME.
    pub ns: i64,
}

/// One received datagram, or one entry of the error queue.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The payload; from the error queue: that of the datagram that failed.
    pub octets: &'a [u8],
    /// Who sent it; from the error queue: whom it was sent to.
    pub peer: Option<SocketAddr>,
    /// The local address it was sent to.
    pub local: Option<IpAddr>,
    /// When the kernel received it, in nanoseconds of CLOCK_REALTIME.
    pub stamp_ns: Option<i64>,
    /// From the error queue: when the kernel sent a datagram, by its number; see [`crate::udp::UdpSocket::stamp_sends`].
    pub sent: Option<SendStamp>,
}
