//! What a replay runs against: a whole DNS hierarchy in one process, stock servers, and a wire and a testbed to reach them.
//!
//! ```text
//!  zone files ── sources ─► check                     hosts in namespaces (testbed), each with a TUN device
//!        │                                             clients ──┐
//!        └─► serve: set ─► index ─► workers            resolver ─┼─ wire: delay, loss, rates, the paper's proxies
//!            (which zone answers is told by            internet ─┘
//!             the address that was asked)              stock: NSD, Knot DNS, BIND; Unbound, BIND, Knot Resolver,
//!                                                              PowerDNS Recursor, each with its configuration
//!        └─► views: the same as a BIND configuration   harvest: a resolver asked for what zones are made of
//! ```
//!
//! # Contract
//!
//! [`serve::Server`] answers as the zones' own servers would, in its own threads; a reload loses no query, and a client
//! that does not read its
//! answers costs nothing. [`wire::Wire`] and the connections of the server take time as an argument and can be tested without a device.
//! Everything started ends with its owner: threads when their value is dropped, processes also when this one is killed.
//!
//! # Limitations
//!
//! The server speaks UDP, TCP, TLS, HTTPS and QUIC; it transfers whole zones, takes no updates, and holds the whole set in memory. A wire has at most 16
//! hosts and one thread. Links connect addresses; there are no alternative routes.
//!
//! # Example
//!
//! A link of 20 ms between two hosts, with a simulated clock:
//!
//! ```
//! use ldplayer_emulate::wire::{Fate, Host, HostId, LinkSpec, WirePath, Settings, Wire};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = |name: &str, block: &str| -> Result<Host, Box<dyn std::error::Error>> {
//!     Ok(Host { name: name.to_owned(), owns: vec![block.parse()?], learns: false })
//! };
//! let link = LinkSpec { rtt: "20ms".parse()?, ..LinkSpec::default() };
//! let hosts = vec![host("clients", "192.0.2.0/24")?, host("server", "198.51.100.0/24")?];
//! let paths = vec![WirePath { far: HostId(0), near: HostId(1), link }];
//! let mut wire = Wire::new(&Settings { hosts, paths, ..Settings::default() });
//!
//! // An IPv4 header without payload, from 192.0.2.1 to 198.51.100.1.
//! let mut packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
//! assert_eq!(wire.handle_packet(0, HostId(0), &mut packet), Fate::Wait);
//! assert_eq!(wire.poll_timeout(), Some(10_000_000), "half of the round-trip time, in nanoseconds");
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//!
//! What a replay runs against. `serve/`: the meta-DNS-server. `set.rs` reads a directory of zone files, `index.rs` says which of
//! them an address serves and `lame.rs` which not, `responder.rs` joins both with the zone store for one query, and looks ahead
//! for a batch of them so that their waits for memory coincide; `forecast.rs` does so before anybody asks. A worker (`worker.rs`)
//! owns the sockets of one thread; `udp.rs` moves batches, `tcp.rs` is a machine that has time as an argument. Workers share a
//! set of zones behind an `Arc` (`shared.rs`) and hand over what they counted when they are called (`sums.rs`), which is how a
//! reload loses nothing; `coverage.rs` makes the report of it. `faults/`: what it answers wrongly, late or not at all on purpose (`file.rs`: how rules are written;
//! `change.rs`: what they make of an answer). `answers.rs` says which versions of record sets answers have, and what the recording is at that
//! they are from; `versions.rs` reads and signs them. TLS is in `stream.rs`, below the connections, with a certificate of `identity.rs` and the
//! options of `options.rs`; `transfer.rs` gives zones to secondaries, `history.rs` says what changed in them, and `notify.rs` tells the secondaries. `views.rs`: the same hierarchy as a BIND configuration. `check/`:
//! what is wrong with a set. `harvest.rs`: asks a resolver for what zones are made of. `stock/`: stock servers, each described
//! once in a file of its name: its program, what it can be told, the template of its configuration, its complaints (`kind.rs` is
//! the list, `server.rs` renders and starts); one piece of code starts them in a scratch directory, waits for answers and ends
//! them with their owner. `wire/`: delay, loss, rates, address rewriting and counts between hosts. `Wire` has time as an argument
//! and knows no device; `forwarder.rs` is the thin loop around it: one thread that reads and writes TUN devices. `testbed/`:
//! hosts in namespaces of their own that only the wire joins, and the files by which a testbed outlives its command (`state.rs`);
//! a namespace for one command (`alone.rs`); the processes in either, found and ended (`inside.rs`).

#![forbid(unsafe_code)]

pub mod check;
pub mod harvest;
pub mod serve;
pub mod sources;
pub mod stock;
pub mod testbed;
pub mod views;
pub mod wire;
