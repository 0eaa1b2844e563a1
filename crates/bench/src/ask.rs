//! The limit of an answered replay: one socket, a window, matched IDs, no recording.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail, ensure};
use ldplayer_core::time::Span;
use ldplayer_net::poll::Poll;
use ldplayer_net::udp::{BATCH, Datagram, ReceiveBatch, SendBatch, UdpOptions, UdpSocket};
use ldplayer_net::{clock, pin};
use serde_json::json;

use crate::make;

/// How long answers are waited for before the window counts as lost, in nanoseconds.
const PATIENCE: i64 = 200_000_000;

/// What a refusal means.
const REFUSED: &str = "nothing listens there; start a server";

/// Options of `bare-ask`.
#[derive(clap::Args)]
pub struct Args {
    /// Server address and port
    #[arg(long)]
    to: SocketAddr,
    /// Maximum outstanding queries
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u16).range(1..))]
    window: u16,
    /// Number of answers to wait for
    #[arg(long, default_value = "2000000")]
    count: u64,
    /// Give up when no answer arrives for this long
    #[arg(long, default_value = "5s")]
    timeout: Span,
    /// Ask the kernel for the local address of each answer, as a replay from many addresses must
    #[arg(long)]
    packet_info: bool,
    /// Query the names in this file, one per line, with type A and DO, instead of names below `example`
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// Core to run on
    #[arg(long)]
    core: Option<usize>,
}

impl Args {
    fn queries(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let Some(file) = &self.names else { return Ok((0..1_000).map(make::message).collect()) };
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let queries: Vec<_> = text.lines().filter_map(|line| make::question(line.split_whitespace().next()?)).collect();
        ensure!(!queries.is_empty(), "{}: the file has no names", file.display());
        Ok(queries)
    }
}

/// Asks and prints the rate.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(core) = args.core {
        pin::pin_to(core)?;
    }
    let mut asker = Asker::new(args)?;
    let begun = clock::monotonic_ns();
    let mut heard = begun;
    while asker.answered < args.count {
        let now_answered = asker.turn().with_context(|| format!("bare-ask: {}", args.to))?;
        // The clock is read only where nothing came, so that it costs nothing at full speed.
        if now_answered > 0 {
            heard = 0;
        } else if heard == 0 {
            heard = clock::monotonic_ns();
        } else if clock::monotonic_ns() - heard > args.timeout.ns() {
            let (seconds, got) = (args.timeout.ns() as f64 / 1e9, asker.answered);
            bail!(
                "bare-ask: no answer from {} for {seconds} s, after {got} of {}; is a server up there?",
                args.to,
                args.count
            );
        }
    }
    let (answered, seconds) = (asker.answered, (clock::monotonic_ns() - begun) as f64 / 1e9);
    println!("{}", json!({ "part": "bare-ask", "answered": answered, "per_second": answered as f64 / seconds }));
    Ok(())
}

/// One connected socket and its outstanding queries.
struct Asker {
    socket: UdpSocket,
    poll: Poll,
    queries: Vec<Vec<u8>>,
    send: SendBatch,
    receive: ReceiveBatch,
    outstanding: Vec<bool>,
    window: usize,
    next: u64,
    open: usize,
    answered: u64,
}

impl Asker {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let bind = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let mut socket =
            UdpSocket::open(&UdpOptions { bind, buffer: 16 << 20, freebind: false, packet_info: args.packet_info })?;
        socket.connect(args.to)?;
        let poll = Poll::new()?;
        poll.add(&socket, 0)?;
        Ok(Self {
            socket,
            poll,
            queries: args.queries()?,
            send: SendBatch::new(),
            receive: ReceiveBatch::new(),
            outstanding: vec![false; 1 << 16],
            window: usize::from(args.window),
            next: 0,
            open: 0,
            answered: 0,
        })
    }

    /// Fills the window or waits, takes what arrived, and returns how many queries that answered.
    fn turn(&mut self) -> anyhow::Result<u64> {
        let room = self.window - self.open;
        if room >= BATCH.min(self.window) {
            self.ask(room.min(BATCH))?;
        } else {
            let ready = self.poll.wait(PATIENCE)?.next();
            match ready {
                // The kernel tells the end of a batch of a refusal and forgets it; the error queue keeps it.
                Some(ready) if ready.error => bail!(REFUSED),
                Some(_) => {}
                None => self.open = 0,
            }
        }
        let before = self.answered;
        self.receive.receive(&self.socket, BATCH).map_err(explain)?;
        self.matched();
        Ok(self.answered - before)
    }

    fn ask(&mut self, count: usize) -> anyhow::Result<()> {
        let (first, queries) = (self.next, &self.queries);
        let datagrams = (0..count).map(|at| {
            let number = first + at as u64;
            let tail = &queries[number as usize % queries.len()][2..];
            Datagram { head: (number as u16).to_be_bytes(), tail, source: None, peer: None }
        });
        let sent = self.send.send(&self.socket, datagrams).map_err(explain)?;
        (first..first + sent as u64).for_each(|number| self.outstanding[usize::from(number as u16)] = true);
        self.next += sent as u64;
        self.open += sent;
        Ok(())
    }

    fn matched(&mut self) {
        for answer in self.receive.iter().filter(|answer| answer.octets.len() >= 12) {
            let id = u16::from_be_bytes([answer.octets[0], answer.octets[1]]);
            if std::mem::take(&mut self.outstanding[usize::from(id)]) {
                self.answered += 1;
                self.open = self.open.saturating_sub(1);
            }
        }
    }
}

fn explain(error: io::Error) -> anyhow::Error {
    if error.kind() == ErrorKind::ConnectionRefused { anyhow!(REFUSED) } else { error.into() }
}
