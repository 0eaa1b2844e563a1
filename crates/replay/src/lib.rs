//! The timed replay engine: one worker per core, from due queries to outcomes.
//!
//! # The one contract
//!
//! A transport is a state machine without sockets and without a clock. The worker mutates it by exactly one of
//! `handle_query`, `handle_datagram`, `handle_timeout` and their like, then drains `poll_transmit`, `outcomes` and
//! `poll_timeout`, and only then mutates it again. Time is an argument, so that tests move the clock and never sleep.

#![forbid(unsafe_code)]

mod connections;
mod counts;
mod doh;
mod engine;
#[doc(hidden)]
pub mod internals;
mod matching;
mod monitor;
mod padding;
mod pending;
mod quic;
mod route;
mod settings;
mod slab;
mod sockets;
mod stage;
mod streams;
mod table;
mod targets;
#[cfg(test)]
mod test;
mod udp;
mod worker;

pub use connections::{TlsError, TlsSettings, TlsTrust, http2};
pub use counts::Counts;
pub use doh::{BadPath, DohMethod, DohSettings, HTTPS_PORT};
pub use engine::{Drain, Ended, Feed, LinkError, Ready, ReplayError, RunStart, prepare, run};
pub use ldplayer_net::pace::{Precision, UnknownPrecision};
pub use monitor::{Gauge, Monitor};
pub use route::{Route, Router, SHARED_SOCKETS, SocketKey, Sources};
pub use settings::Settings;
pub use table::ConnectionCounts;
pub use targets::{BadMapping, Mapping, Ports, Targets};
pub use udp::{Arrival, Transmit, Udp, UdpConfig};
pub use worker::WorkerEnd;
