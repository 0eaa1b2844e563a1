//! Packet sockets: Ethernet frames out of and into a named interface, for clients that have no socket in the kernel.
//!
//! ```text
//!  room, commit, flush ──► FrameSender ──► sendmmsg (AF_PACKET), or a ring of AF_XDP ──► interface
//!                          FrameSender ──► writes by io_uring ──► TAP device, as if they had arrived
//!  read_stamps         ◄── FrameSender ◄── error queue (AF_PACKET only)              ◄── interface
//!  read, wait          ◄── FrameRings  ◄── FrameRing: TPACKET_V2, memory shared with the kernel ◄── Filter ◄── interface
//! ```
//!
//! [`Interface::find`] names the interface in the network namespace of the calling thread; sockets stay in that namespace,
//! wherever they are used. They need CAP_NET_RAW there, which whoever made the namespace has (packet(7)).
//!
//! Each worker has rings with a [`Filter`] of its own. Fanout groups are not used: the kernel would choose a worker by a hash,
//! but the worker that owns a client is known by the port that the client sends from.
//!
//! # Limitations
//!
//! The kernel of the namespace sees the frames as well, and answers those to a hardware address or an IP address of its own: give
//! clients a hardware address that nobody has. A device with a wire may let in none but its own (it is not made promiscuous).
//!
//! Offloads of the other end of a veth pair show here: frames longer than the MTU, and checksums that nobody computed
//! ([`Checksum::NotReady`]). [`switch_off_offloads`] ends both, at the cost of the sending host. Frames that the kernel dropped
//! before the ring (its backlog, `net.core.netdev_max_backlog`) are not among [`FrameRing::drops`].
//!
//! # Example
//!
//! ```no_run
//! use ldplayer_net::packets::{Filter, FrameRing, FrameSender, Interface, SenderKind};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let interface = Interface::find("veth0")?;
//! let mut ring = FrameRing::open(&interface, &Filter::of_worker(0, 2), 16 << 20)?;
//! let mut sender = FrameSender::open(&interface, SenderKind::Packet)?;
//! let frame = [0xff; 60];
//! if let Some(room) = sender.room() {
//!     room[..frame.len()].copy_from_slice(&frame);
//!     sender.commit(frame.len());
//! }
//! sender.flush()?;
//! ring.read(64, |frame| println!("{} octets at {} ns", frame.length, frame.stamp_ns));
//! # Ok(())
//! # }
//! ```

mod frame;
mod interface;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/packets.rs")]
mod sockets;

use std::io;

pub use frame::{BATCH, Checksum, Frame, Offloads, SenderKind};
pub use interface::Interface;
pub use sockets::{Filter, FrameRing, FrameRings, FrameSender, offloads, switch_off_offloads};

/// Octets of an Ethernet header with one 802.1Q tag: what a frame is longer than the MTU.
pub const ETHERNET: usize = 18;

/// What keeps frames from being sent or received on an interface. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// There is no such interface in the network namespace.
    #[error("there is no network interface `{name}` here; `ip link` lists them")]
    NoInterface {
        /// The name that was asked for.
        name: String,
    },
    /// The interface is down.
    #[error("the network interface {name} is down; bring it up: ip link set {name} up")]
    Down {
        /// Its name.
        name: String,
    },
    /// The interface carries no Ethernet frames.
    #[error("the network interface {name} carries no Ethernet frames; use a veth, a TAP or an Ethernet device")]
    NotEthernet {
        /// Its name.
        name: String,
    },
    /// The right to do it is missing.
    #[error(
        "cannot {what}: {source}; this needs {right} in the network namespace: run as root, give the program the right (setcap {right}+ep PROGRAM), or use a namespace of your own (unshare --user --map-root-user --net)"
    )]
    NoRight {
        /// What was tried.
        what: &'static str,
        /// The capability that it needs.
        right: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel was built without AF_XDP (CONFIG_XDP_SOCKETS).
    #[error("this kernel has no AF_XDP sockets; send by AF_PACKET instead")]
    NoXdp,
    /// A frame of the interface does not fit a buffer of AF_XDP.
    #[error("the MTU of {name} is {mtu}, but AF_XDP sends frames of a page at most: ip link set {name} mtu {most}")]
    MtuTooLarge {
        /// The interface.
        name: String,
        /// Its MTU, in octets.
        mtu: u16,
        /// The largest MTU that can be used, in octets.
        most: usize,
    },
    /// Each transmit queue of the interface has an AF_XDP socket already, of which it can have one.
    #[error(
        "all {queues} transmit queues of {name} have an AF_XDP socket already; give it more (ethtool -L), or send by AF_PACKET"
    )]
    QueuesTaken {
        /// The interface.
        name: String,
        /// How many queues it has.
        queues: u32,
    },
    /// AF_XDP locks its buffers in memory, which the limit of the process forbids.
    #[error("AF_XDP locks {octets} bytes of memory, which is above the limit of this process: ulimit -l")]
    LockedMemory {
        /// How many octets it needs.
        octets: usize,
    },
    /// Anything else that the system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl PacketError {
    /// The error for what the system refused of a socket.
    fn of_socket(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::refused(what, "cap_net_raw", source)
    }

    fn refused(what: &'static str, right: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NoRight { what, right, source },
            _ => Self::System { what, source },
        }
    }
}
