//! The timed replay engine: one worker per core, from due queries to outcomes.
//!
//! ```text
//!           Query, in batches                                       Outcome, in batches
//!   Feed ──► reader ══════════► worker ─┬─ Udp ──────────┐ ══════════════► Drain
//!           (thread)   by shard  (thread │   Connections ─┼── sockets, clock   (thread of the caller)
//!                                a core) └─ Quic ─────────┘
//! ```
//!
//! # The contract of a machine
//!
//! A transport is a state machine without sockets and without a clock: `Udp`, `Connections` (TCP, TLS, HTTP/2) and `Quic`
//! (DoQ, HTTP/3). Its driver changes it by one `handle_…` at a time, each with the time of the event: a due query,
//! octets that arrived, a send that the kernel accepted or refused, a timeout. It never calls
//! back. Its outputs are polled: datagrams (`poll_transmit`) or actions on connections (`poll_action`), rows
//! (`outcomes`), and the next timeout (`poll_timeout`). Polling late loses nothing.
//!
//! # What a worker does
//!
//! Round after round, without a lock and without an allocation for each query:
//!
//! 1. It hands due queries to their machines, at most a batch of them, and the datagrams to the kernel. A
//!    query is due at run time 0 plus its offset, so that one late query does not delay later ones.
//! 2. If something is overdue, it first reads everything that had arrived by then, so that an answer is judged by the kernel's timestamp and
//!    not by when it was read.
//! 3. It executes the actions of connections: opens, writes and closes them, and sends QUIC datagrams.
//! 4. It waits for the next event, first sleeping and then spinning, as [`Precision`] allows, and reads: at least as
//!    much as it has sent.
//! 5. From time to time, or when there are enough of them, it hands over its rows.
//!
//! When the run is stopped ([`Monitor::stop`]), queries that have reached a worker and were not sent are recorded as such, and
//! outstanding answers are awaited for a second; after [`Monitor::abort`] they are not. Each query has one row in any case.
//!
//! # Limitations
//!
//! - The time of an answer over TCP is that of the last segment in its read: answers that the kernel coalesces before
//!   they are read have the same time.
//! - If a run is interrupted while its reader blocks on input, the reader is left behind until that input comes or the process ends.
//! - Only Linux, as `ldplayer_net` is.
//!
//! # Example
//!
//! A server that answers on loopback, and one query to it:
//!
//! ```
//! use bytes::Bytes;
//! use ldplayer_core::{Expected, Outcome, Policy, Query, RunTime, Status, Transport};
//! use ldplayer_replay::{
//!     DohSettings, Drain, Feed, LinkError, Monitor, NetworkPath, Precision, Settings, Sources, Targets, run,
//! };
//!
//! struct One(Option<Query>);
//!
//! impl Feed for One {
//!     fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
//!         batch.extend(self.0.take());
//!         Ok(false)
//!     }
//! }
//!
//! struct Rows(Vec<Outcome>);
//!
//! impl Drain for Rows {
//!     fn outcomes(&mut self, _shard: usize, rows: &[Outcome]) -> Result<(), LinkError> {
//!         self.0.extend_from_slice(rows);
//!         Ok(())
//!     }
//! }
//!
//! let server = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! let address = server.local_addr()?;
//! let answering = std::thread::spawn(move || -> std::io::Result<()> {
//!     let mut message = [0; 512];
//!     let (length, client) = server.recv_from(&mut message)?;
//!     message[2] |= 0x80;
//!     server.send_to(&message[..length], client).map(|_| ())
//! });
//! // A query for the root's name servers.
//! let wire = Bytes::from_static(b"\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01");
//! let query = Query {
//!     index: 0,
//!     due: RunTime(0),
//!     client: "192.0.2.1".parse()?,
//!     client_port: 0,
//!     server: address,
//!     transport: Transport::Udp,
//!     class: None,
//!     expected: Expected::Nothing,
//!     dependency: None,
//!     wire,
//! };
//! let settings = Settings {
//!     path: NetworkPath::Sockets,
//!     sources: Sources::Ports,
//!     targets: Targets::Fixed(vec![address]),
//!     workers: 1,
//!     cores: Vec::new(),
//!     precision: Precision::Low,
//!     query_timeout: 5_000_000_000,
//!     max_lag: None,
//!     fast: false,
//!     window: 1,
//!     max_sockets: 16,
//!     policy: Policy::default(),
//!     classes: Vec::new(),
//!     tls: None,
//!     tls_port: 853,
//!     doh_port: 443,
//!     doh: DohSettings::default(),
//!     count_segments: false,
//!     seed: 1,
//! };
//! let (monitor, mut rows) = (Monitor::new(settings.workers), Rows(Vec::new()));
//! let (ended, _feed) = run(&settings, One(Some(query)), &mut rows, &monitor)?;
//! answering.join().map_err(|_| "the server failed")??;
//! assert_eq!((ended.trace_queries, rows.0[0].status), (1, Status::Answered));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//!
//! The engine. A worker (`worker.rs`) does what each round is made of, with parts that own their state, in `worker/`: `intake.rs` (which
//! queries are to come), `window.rs` (of replays without times), `clients.rs` (where queries go, and `pairs.rs`: to two servers),
//! `schedule.rs` (sleeping and spinning), `load.rs` (whether there is any rest), `hand_over.rs` (rows), `transports.rs` (the machines) and
//! `network.rs`: the kernel's sockets (`network/sockets.rs`, of connections `streams.rs`, what the kernel refuses `refused.rs`) or frames
//! on an interface (`network/frames.rs`, over `frames.rs`), behind one face. `engine.rs` has the threads and
//! `engine/reader.rs` the reader; `route.rs` says from where a query goes, and `targets.rs` where to. `chains.rs` has queries that wait for answers, `lookups.rs` the clients that react, whose attempts are
//! queries to the machines. `udp.rs`, `connections.rs` and `quic.rs` are state machines that have time as an argument. The latter two are about connections, and say only what each
//! does in its own way. `table.rs` holds the requests and connections of both; `table/machine.rs` decides which connection
//! carries a query, when one is opened and closed and what becomes of queries whose connection ended, by the policy and
//! `table/timeouts.rs`. `table/parked.rs` keeps idle connections without sockets in short, each in one record for the table and
//! for TCP. `connections.rs` is the machine over TCP: what is written and read; `connections/tls.rs` is TLS without sockets
//! (handshakes are rustls's, `tls/records.rs` carries on what is up); `connections/http2.rs` is the part of HTTP/2 that clients
//! of DNS over HTTPS need (`http2/`: frames, header blocks, requests), and `connections/doh.rs` joins it to queries.
//! `quic.rs` is the machine of connections over QUIC, around that of
//! quinn-proto: `quic/exchange.rs` (queries onto streams, answers off them), `quic/failure.rs` (why connections end) and
//! `quic/tls.rs`, `quic/doq.rs` (what is on a stream), `quic/doh3.rs` and `quic/http3/` (requests, responses and control of
//! HTTP/3); `doh.rs` is what requests of HTTP/2 and HTTP/3 are made of. `budget.rs` says what a server may send that answers no query, and `strays.rs` which of it has rows. `response_sink.rs`
//! compares responses and keeps them; `slab.rs` holds what is on its way, threaded on lists that are sorted by deadline. It knows
//! neither files nor Parquet: queries come from a `Feed` and outcomes go to a `Drain`.

#![forbid(unsafe_code)]

mod answered;
mod budget;
mod chains;
mod connections;
mod counts;
mod doh;
mod engine;
mod frames;
mod ids;
#[doc(hidden)]
pub mod internals;
mod lookups;
mod matching;
mod monitor;
mod padding;
mod path;
mod pending;
mod quic;
mod response_sink;
mod route;
mod settings;
mod slab;
mod sockets;
mod stage;
mod stamps;
mod strays;

mod table;
mod targets;
#[cfg(test)]
mod test;
mod udp;
mod worker;

pub use connections::{TlsError, TlsSettings, TlsTrust, http2};
pub use counts::Counts;
pub use doh::{BadPath, DohMethod, DohSettings, HTTPS_PORT, UnknownMethod};
pub use engine::{Drain, Ended, Feed, LinkError, Ready, ReplayError, RunStart, prepare, run};
pub use frames::{FrameCounts, FramesError, LinkCounts};
pub use ldplayer_net::pace::{Precision, UnknownPrecision};
pub use ldplayer_stack::frame::BadFrame;
pub use monitor::{Gauge, Monitor};
pub use path::{NetworkPath, NextHop, OnLink, Packets, PathChoice, UnknownPath};
pub use route::{BadSources, Route, Router, SHARED_SOCKETS, SocketKey, Sources};
pub use settings::Settings;
pub use strays::Strays;
pub use table::ConnectionCounts;
pub use targets::{BadMapping, Mapping, Ports, Targets};
pub use udp::{Arrival, Transmit, Udp, UdpConfig};
pub use worker::{Reference, ReferenceCounts, Saturation, WorkerEnd};
