//! The limit of a replay with one connection per query: connect, query, read the answer, close.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use anyhow::{Context, ensure};
use ldplayer_net::poll::Poll;
use ldplayer_net::{clock, limits, pin, tcp};
use serde_json::json;

use crate::make;

/// How long nothing may happen, in nanoseconds.
const PATIENCE: i64 = 5_000_000_000;

/// Options of `bare-connect`.
#[derive(clap::Args)]
pub struct Args {
    /// Server address and port
    #[arg(long)]
    to: SocketAddr,
    /// Maximum concurrent connections
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u16).range(1..))]
    window: u16,
    /// Number of answers to wait for
    #[arg(long, default_value = "50000")]
    count: u64,
    /// First address of 65,536 clients that take turns; without it, there is one client
    #[arg(long)]
    from: Option<Ipv4Addr>,
    /// Core to run on
    #[arg(long)]
    core: Option<usize>,
}

/// Asks and prints the rate.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(core) = args.core {
        pin::pin_to(core)?;
    }
    let _ = limits::raise_nofile()?;
    let begun = clock::monotonic_ns();
    let answered = ask(args).with_context(|| format!("bare-connect: {}", args.to))?;
    let per_second = answered as f64 / ((clock::monotonic_ns() - begun) as f64 / 1e9);
    println!("{}", json!({ "part": "bare-connect", "answered": answered, "per_second": per_second }));
    Ok(())
}

fn ask(args: &Args) -> anyhow::Result<u64> {
    let mut poll = Poll::new()?;
    let query = make::framed(0);
    let mut opened = 0;
    let mut open = |poll: &Poll, place: usize| -> anyhow::Result<TcpStream> {
        let source = args.from.map(|first| Ipv4Addr::from_bits(first.to_bits() + (opened & 0xffff)).into());
        opened += 1;
        let stream = tcp::connect(args.to, &tcp::ConnectOptions { source, nagle: false, fast_open: false })?;
        poll.add_edge(&stream, place as u64)?;
        Ok(stream)
    };
    let streams = (0..usize::from(args.window)).map(|place| open(&poll, place));
    let mut streams = streams.map(|stream| Ok((stream?, false))).collect::<anyhow::Result<Vec<_>>>()?;
    let (mut answered, mut ready, mut buffer) = (0, Vec::new(), vec![0; 4096]);
    while answered < args.count {
        ready.clear();
        ready.extend(poll.wait(PATIENCE)?);
        ensure!(!ready.is_empty(), "no progress for {} s; answers so far: {answered}", PATIENCE / 1_000_000_000);
        for it in &ready {
            let (stream, is_asked) = &mut streams[it.token as usize];
            if !*is_asked && it.writable {
                stream.write_all(&query)?;
                *is_asked = true;
            } else if it.readable && has_answer(stream, &mut buffer)? {
                answered += 1;
                streams[it.token as usize] = (open(&poll, it.token as usize)?, false);
            }
        }
    }
    Ok(answered)
}

/// Whether an answer has come; it is not looked at.
fn has_answer(stream: &TcpStream, buffer: &mut [u8]) -> anyhow::Result<bool> {
    match tcp::receive(stream, buffer) {
        Ok((count, _)) => {
            ensure!(count > 0, "the server closed a connection without answering");
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error.into()),
    }
}
