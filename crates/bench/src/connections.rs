//! The limit of a replay over very many connections: each thread queries random ones of its own and counts answers.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;

use anyhow::{Context, anyhow, ensure};
use ldplayer_core::time::Span;
use ldplayer_net::poll::Poll;
use ldplayer_net::{clock, limits, tcp};
use serde_json::json;

use crate::make;

/// How often the end is looked for while no answer comes, in nanoseconds.
const LOOK: i64 = 100_000_000;

/// Options of `bare-tcp`.
#[derive(clap::Args)]
pub struct Args {
    /// Server address and port
    #[arg(long)]
    to: SocketAddr,
    /// Number of connections, each from its own address
    #[arg(long, default_value = "1000")]
    connections: u64,
    /// Number of threads; each has the whole limit of open files
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    threads: u64,
    /// Time over which to open the connections
    #[arg(long, default_value = "1s")]
    opening: Span,
    /// Outstanding queries per thread, normally on different connections
    #[arg(long, default_value = "100")]
    window: usize,
    /// How long to send queries
    #[arg(long, default_value = "10s")]
    seconds: Span,
}

/// Opens, asks and prints the rate.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let _ = limits::raise_nofile()?;
    let all_open = Barrier::new(args.threads as usize);
    let answered: u64 = thread::scope(|scope| {
        let all_open = &all_open;
        let threads: Vec<_> =
            (0..args.threads).map(|thread| scope.spawn(move || ask(args, thread, all_open))).collect();
        let counts = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
        counts.sum::<anyhow::Result<u64>>()
    })?;
    let per_second = answered as f64 / (args.seconds.ns() as f64 / 1e9);
    println!(
        "{}",
        json!({ "part": "bare-tcp", "connections": args.connections, "answered": answered, "per_second": per_second })
    );
    Ok(())
}

/// The work of one thread: answers counted.
fn ask(args: &Args, thread: u64, all_open: &Barrier) -> anyhow::Result<u64> {
    let opened = open(args, thread);
    // Whoever failed lets the others go on, and is heard at the end.
    all_open.wait();
    let (mut poll, streams) = opened.with_context(|| format!("bare-tcp: {}", args.to))?;
    ensure!(!streams.is_empty(), "more threads than connections");
    let query = make::framed(thread);
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ thread;
    let mut send = || -> anyhow::Result<()> {
        let place = (make::uniform(&mut state) * streams.len() as f64) as usize;
        Ok((&streams[place]).write_all(&query)?)
    };
    (0..args.window).try_for_each(|_| send())?;
    let (mut answered, mut buffer) = (0, vec![0; 64 << 10]);
    let mut ready = Vec::new();
    let end = clock::monotonic_ns() + args.seconds.ns();
    while clock::monotonic_ns() < end {
        ready.clear();
        ready.extend(poll.wait(LOOK)?.filter(|ready| ready.readable).map(|ready| ready.token));
        for &token in &ready {
            // Answers are as long as their queries.
            let count = received(&streams[token as usize], &mut buffer)?.div_ceil(query.len());
            answered += count as u64;
            (0..count).try_for_each(|_| send())?;
        }
    }
    Ok(answered)
}

/// The connections of one thread, opened one after another over the time given.
fn open(args: &Args, thread: u64) -> anyhow::Result<(Poll, Vec<TcpStream>)> {
    limits::own_descriptors()?;
    let (mut poll, mut streams) = (Poll::new()?, Vec::new());
    let begun = clock::monotonic_ns();
    for number in (thread..args.connections).step_by(args.threads as usize) {
        clock::sleep_until(begun + (args.opening.ns() as f64 * number as f64 / args.connections as f64) as i64);
        let source = Some(make::client(number).into());
        let stream = tcp::connect(args.to, &tcp::ConnectOptions { source, nagle: false, fast_open: false })?;
        poll.add_edge(&stream, streams.len() as u64)?;
        streams.push(stream);
    }
    // Those that are up and have been told of are not told of again before an answer is there.
    let mut up = 0;
    while up < streams.len() {
        let told = poll.wait(LOOK)?.filter(|ready| ready.writable).count();
        up += told;
        ensure!(
            told > 0 || clock::monotonic_ns() < begun + 2 * args.opening.ns() + 30_000_000_000,
            "connections that could not be opened: {}",
            streams.len() - up
        );
    }
    Ok((poll, streams))
}

/// Octets that have arrived on a connection, which are not looked at.
fn received(stream: &TcpStream, buffer: &mut [u8]) -> anyhow::Result<usize> {
    match tcp::receive(stream, buffer) {
        Ok((count, _)) => Ok(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error.into()),
    }
}
