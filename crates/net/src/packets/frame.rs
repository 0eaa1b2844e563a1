//! Frames as they are received, and what is said of how they are sent.

/// Frames in one batch at most.
pub const BATCH: usize = 64;

/// One frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its octets from the Ethernet header on, without the VLAN tag that is in [`Self::vlan`].
    pub octets: &'a [u8],
    /// How many it has: more than `octets` where the kernel had no room for all of them.
    pub length: usize,
    /// When it arrived, in nanoseconds since 1970 (CLOCK_REALTIME): the kernel's stamp as the frame got in. Where there is none (the
    /// first frames after the ring was opened, and TCP that a kernel on this machine sent by a veth pair) it is that of the ring, into
    /// which the same soft interrupt puts the frame when its turn comes in the backlog.
    pub stamp_ns: i64,
    /// Priority, drop eligibility and number of its outermost VLAN (802.1Q §9.6), if it has one.
    pub vlan: Option<u16>,
    /// What the kernel knows of its transport checksum.
    pub checksum: Checksum,
    /// Whether this host sent it. A ring of what arrives leaves such frames out, but on kernels that cannot (PACKET_IGNORE_OUTGOING).
    pub is_outgoing: bool,
}

/// What the kernel knows of the transport checksum of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It was not computed, as the frame has been on no wire: the octets are right, what is in the field is not.
    NotReady,
    /// It is right.
    Valid,
    /// Nobody has looked.
    Unknown,
}

/// Socket type used to send frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderKind {
    /// AF_PACKET: `sendmmsg`, past the queueing discipline. Any number of workers.
    Packet,
    /// AF_XDP in copy mode: faster. Each sender takes a transmit queue of the interface for its own, the first that is free; a veth pair
    /// has one unless it was made with more (`ip link add … numtxqueues 4`).
    Xdp,
}

/// Which offloads are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// TCP segments are cut by the device (TSO).
    pub tso: bool,
    /// Segments and datagrams are cut as late as possible (GSO).
    pub gso: bool,
    /// Segments that arrive are joined (GRO).
    pub gro: bool,
    /// The device computes the checksums of sent packets.
    pub tx_checksum: bool,
}
