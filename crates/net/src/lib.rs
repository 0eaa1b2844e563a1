//! The interface to Linux: the only crate with unsafe code.
//!
//! ```text
//!  time       clock  pace (sleep, then spin)          a run      signals  limits  pin  awake
//!  sockets    udp  tcp  poll (epoll_pwait2)           looked at  machine  process  programs (where they are)
//!                                                                watched  processes  usage (of one)  counters  inet_diag
//!  networks   namespace  rights  netns (AnyIP)  wiring (a TUN device as the only way out)  tun  interfaces
//!             veth (a link to clients whose frames are made)
//!             names (nothing of how the host resolves them)
//!  frames     packets (AF_PACKET, AF_XDP or a TAP device out, a ring in)
//!  memory     ahead (hints of what is read next)
//! ```
//!
//! # Contract
//!
//! Everything is safe to call; what needs a right says in its error which, and how to give it. Nothing blocks but [`poll::Poll::wait`], and
//! sockets move datagrams in batches that are allocated once. Nothing here knows DNS, and no state is kept between calls but what a value
//! owns; process-wide is only what the kernel has so: limits, signals, the namespace of a thread.
//!
//! # Limitations
//!
//! Linux from 5.11 on (`epoll_pwait2`), on 64 bits. On other systems it compiles: `elsewhere/` declares the same
//! functions and types, and whatever makes a value fails with one error. Kernel stamps are of CLOCK_REALTIME, a schedule is of CLOCK_MONOTONIC, and
//! [`clock::realtime_offset_ns`] leads from one to the other. A new user namespace is only given to a process of one thread.
//!
//! # Example
//!
//! ```
//! use ldplayer_net::poll::Poll;
//! use ldplayer_net::udp::{BATCH, Datagram, ReceiveBatch, SendBatch, UdpOptions, UdpSocket};
//!
//! # fn main() -> std::io::Result<()> {
//! let options = UdpOptions { bind: "127.0.0.1:0".parse().unwrap(), buffer: 1 << 16, freebind: false, packet_info: true };
//! let (client, server) = (UdpSocket::open(&options)?, UdpSocket::open(&options)?);
//! let query = Datagram { head: [0, 7], tail: b"query", source: None, peer: Some(server.local()) };
//! SendBatch::new().send(&client, std::iter::once(query))?;
//!
//! let mut poll = Poll::new()?;
//! poll.add(&server, 0)?;
//! assert_eq!(poll.wait(1_000_000_000)?.count(), 1);
//! let mut batch = ReceiveBatch::new();
//! batch.receive(&server, BATCH)?;
//! assert_eq!(batch.iter().next().and_then(|datagram| datagram.peer), Some(client.local()));
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//!
//! What is asked of Linux, and the only crate with `unsafe`: `epoll_pwait2`, batches of `sendmmsg` and `recvmmsg` with source
//! addresses and kernel stamps, namespaces with AnyIP or with a TUN device as the only way out and without the host's names,
//! pinning, limits, facts of the machine, hints to the processor of what is read next (`ahead.rs`). `watched.rs` finds the
//! processes of a unit, `usage.rs` reads what one process uses, `processes.rs` what several do whatever of them comes and goes,
//! `system.rs` has the calls of Linux that several of these make; `addresses.rs` tells this host's addresses; `veth.rs` is a namespace with a TAP device and a virtual Ethernet link for clients
//! whose frames are made (`redirect.rs` leads from one to the other); `cpu_quota.rs` gives a process so much processor time; `counters.rs` what the kernel counts of a namespace, and
//! `inet_diag.rs` which sockets there are. `packets.rs` is Ethernet frames of an interface without sockets of the kernel:
//! `packets/sender.rs` sends them (`batch.rs` by `sendmmsg`, with the kernel's `stamps.rs`, `xdp.rs` by AF_XDP, `tap.rs` into a
//! TAP device; `buffers.rs` holds what the first and the last send), `ring.rs` receives those that a `filter.rs` lets in.
//! `pace.rs` decides between sleeping and spinning, for the engine and for the wire; `signals.rs` is the one place where signals
//! are caught.

pub mod addresses;
pub mod ahead;
pub mod awake;
pub mod clock;
mod connection;
pub mod counters;
pub mod cpu_quota;
mod datagram;
pub mod disk;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
pub mod inet_diag;
pub mod interfaces;
mod kinds;
pub mod limits;
pub mod machine;
pub mod names;
pub mod namespace;
pub mod netlink;
pub mod netns;
pub mod output;
pub mod pace;
pub mod packets;
pub mod pin;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/poll.rs")]
pub mod poll;
pub mod ports;
pub mod process;
pub mod processes;
pub mod programs;
mod ready;
mod redirect;
pub mod refusal;
pub mod rights;
pub mod settings;
pub mod signals;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/system.rs")]
mod system;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/tcp.rs")]
pub mod tcp;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/tun.rs")]
pub mod tun;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/udp.rs")]
pub mod udp;
pub mod usage;
pub mod veth;
pub mod wakeups;
pub mod watched;
pub mod wiring;
