//! The network stack of emulated clients: millions of them in one process, each with its own address, whose packets are made
//! here and not by sockets.
//!
//! ```text
//!                    ┌───────────────── frame ─────────────────┐
//!   frames in  ────► │ Ethernet ► Content ► Packet ► Transport │ ────► Datagram     (UDP: the caller's)
//!   (a ring)         └───┬─────────────┬───────────────────┬───┘       Segment ──► Tcp ──► Input, Event
//!                      Arp, Discovery  └► fragments        └► IcmpError ──────────► Tcp
//!                        └► neighbours
//!   frames out ◄──── QueryTemplate, Fragmenter (UDP), Outgoing::write (TCP), answer_arp, Neighbour (who is next)
//! ```
//!
//! # The contract
//!
//! - No I/O and no clock: time is an argument, nanoseconds as [`ldplayer_core::RunTime`], and never goes back.
//! - Readers take any octets. What is bad has a reason, a [`frame::BadFrame`], which the caller counts. Checksums are verified
//!   unless the caller says that they are not complete ([`frame::Check`]).
//! - Writers write into buffers of the caller's. On the way of a packet nothing is allocated, once buffers are there.
//! - Everything that grows has a bound, in [`tcp::Config`], [`fragments::Limits`] and [`neighbours::Asking`]; what is dropped is
//!   counted.
//!
//! # Example
//!
//! ```
//! use ldplayer_core::RunTime;
//! use ldplayer_stack::frame::{Link, QueryTemplate};
//! use ldplayer_stack::tcp::{Config, OpenOptions, Tcp};
//!
//! let link = Link::new([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], None);
//! let mut frame = [0; 1_514];
//!
//! // A query over UDP: its ID, and the rest of the message.
//! let template = QueryTemplate::new(&link, "198.51.100.53".parse()?, 53);
//! assert_eq!(template.write(&mut frame, "192.0.2.7".parse()?, 40_000, ([0, 7], &[0; 28])), Some(14 + 20 + 8 + 30));
//!
//! // The first segment of a connection.
//! let mut tcp = Tcp::new(Config::default());
//! let (at, port) = tcp.open(RunTime(0), "192.0.2.7".parse()?, "198.51.100.53:53".parse()?, &OpenOptions::default())?;
//! let syn = tcp.poll_transmit(RunTime(0)).ok_or("SYN")?;
//! assert_eq!(syn.from.port(), port);
//! assert_eq!(syn.write(&mut frame, &link), Some(14 + 20 + 20 + 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//!
//! The network of emulated clients without kernel sockets, sans-I/O, with time as an argument. `frame.rs` and `frame/` read and
//! write what is on the wire (Ethernet, ARP, IP, UDP, TCP, ICMP, neighbour discovery) in buffers of the caller's; `fragments.rs`
//! cuts datagrams and puts them together, `neighbours.rs` answers for our addresses and asks for next hops. `tcp.rs` is the
//! client side of TCP: what a connection is while idle (`tcp/connection.rs`, 40 octets in a slot of `blocks.rs`, found by
//! `index.rs`) and what it has besides while something is in flight (`active.rs`, `reassembly.rs`, `rtt.rs`); `opening.rs`,
//! `input.rs`, `acknowledge.rs`, `output.rs`, `timers.rs` (over `wheel.rs`), `closing.rs` and `icmp.rs` are each one part of RFC
//! 9293. `script.rs` and `simulation.rs` are its tests' language and network.

#![forbid(unsafe_code)]

pub mod fragments;
pub mod frame;
pub mod neighbours;
pub mod tcp;
