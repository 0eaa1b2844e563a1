//! Benchmarks against the bare limits of the machine: the parts that `scripts/bench.sh` combines.
//!
//! ```text
//!  make-trace, make-upstream ─► ldplayer replay, or a bare sender with nothing but system calls (bare-send, bare-frames, bare-ask, bare-tcp,
//!                               bare-connect, bare-spin) ─► a responder (echo, echo-tcp, echo-quic, reflect, hole) ─► receive: kernel stamps
//! ```
//!
//! Contract: a part does one thing on one core, prints one line of JSON, and ends with exit status 0, or 3 when it cannot do its work here. A
//! responder says `listening on ADDRESS` first and costs nothing while nobody asks, so that parts can be measured one after the other.
//! Limitations: responders answer with the query itself and know no zones; a figure is valid only beside its limit from the same run, on a
//! machine without other work.
//!
//! ```sh
//! ldplayer-bench echo --listen 127.0.0.1:5300 --seconds 60 &
//! ldplayer-bench bare-ask --to 127.0.0.1:5300 --window 1000 --count 1000000
//! ```

#![forbid(unsafe_code)]

mod ask;
mod connections;
mod echo;
mod frames;
mod fresh;
mod make;
mod quantiles;
mod quic;
mod receive;
mod reflect;
mod responder;
mod send;
mod spin;
mod stream;
mod upstream;
mod wire;

use std::process::ExitCode;

use clap::Parser;

/// Parts of the benchmarks; each prints one line of JSON.
#[derive(Parser)]
#[command(name = "ldplayer-bench", max_term_width = 100)]
enum Part {
    /// Echo every query over UDP, as fast as the kernel allows
    Echo(echo::Args),
    /// Echo every query over TCP or TLS
    EchoTcp(stream::Args),
    /// Echo every query over QUIC (DoQ)
    EchoQuic(quic::Args),
    /// Hold a socket open without reading it
    Hole(echo::HoleArgs),
    /// Answer every query over UDP on an interface, without a socket: a server faster than sockets allow
    Reflect(reflect::Args),
    /// Send from many addresses with nothing but sendmmsg: the limit of a replay
    BareSend(send::Args),
    /// Send frames from many addresses that were made beforehand: the limit of a replay by packet sockets
    BareFrames(frames::Args),
    /// Query through one socket with a window: the limit of an answered replay
    BareAsk(ask::Args),
    /// Open very many connections and query over random ones: the limit of a replay over TCP
    BareTcp(connections::Args),
    /// Open a connection for each query: the limit of a replay with one query per connection
    BareConnect(fresh::Args),
    /// Wait for due times in a bare loop: the effect of the host on timing
    BareSpin(spin::Args),
    /// Write a trace of unique names
    MakeTrace(make::Args),
    /// Write a capture of a resolver's upstream traffic
    MakeUpstream(upstream::Args),
    /// Receive a replayed trace of unique names and compare kernel timestamps with its schedule
    Receive(receive::Args),
    /// Measure the packet rate of a testbed's wire
    WireRate(wire::RateArgs),
    /// Measure the delays of a testbed's wire
    WireDelay(wire::DelayArgs),
}

/// Exit status when a part cannot do its work here.
const ENVIRONMENT: u8 = 3;

fn main() -> ExitCode {
    let done = match Part::parse() {
        Part::Echo(args) => echo::run(&args),
        Part::EchoTcp(args) => stream::run(&args),
        Part::EchoQuic(args) => quic::run(&args),
        Part::Hole(args) => echo::hole(&args),
        Part::Reflect(args) => reflect::run(&args),
        Part::BareSend(args) => send::run(&args),
        Part::BareFrames(args) => frames::run(&args),
        Part::BareAsk(args) => ask::run(&args),
        Part::BareTcp(args) => connections::run(&args),
        Part::BareConnect(args) => fresh::run(&args),
        Part::BareSpin(args) => spin::run(&args),
        Part::MakeTrace(args) => make::run(&args),
        Part::MakeUpstream(args) => upstream::run(&args),
        Part::Receive(args) => receive::run(&args),
        Part::WireRate(args) => wire::rate(&args),
        Part::WireDelay(args) => wire::delay(&args),
    };
    if let Err(error) = done {
        eprintln!("ldplayer-bench: {error:#}");
        return ExitCode::from(ENVIRONMENT);
    }
    ExitCode::SUCCESS
}
