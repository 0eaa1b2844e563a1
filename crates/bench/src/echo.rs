//! A responder that answers every query with itself, and a hole that answers none.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ldplayer_net::poll::Poll;
use ldplayer_net::udp::{BATCH, Datagram, ReceiveBatch, SendBatch, UdpOptions, UdpSocket};
use ldplayer_net::{clock, pin};

/// Octets of the kernel's buffers.
const BUFFER: usize = 16 << 20;
/// How often the end is looked for, in nanoseconds.
const LOOK: i64 = 100_000_000;

/// Options of `echo`.
#[derive(clap::Args)]
pub struct Args {
    /// Address and port to answer on
    #[arg(long)]
    listen: SocketAddr,
    /// Core to run on
    #[arg(long)]
    core: Option<usize>,
    /// End after so many seconds
    #[arg(long, default_value = "3600")]
    seconds: f64,
    /// Answer with seven octets of the query
    #[arg(long)]
    garbage: bool,
    /// Answer twice
    #[arg(long)]
    twice: bool,
    /// Answer another question
    #[arg(long)]
    wrong_question: bool,
    /// Leave so many in a hundred unanswered
    #[arg(long, default_value = "0")]
    drop: u64,
}

/// Options of `hole`.
#[derive(clap::Args)]
pub struct HoleArgs {
    /// Address and port to hold
    #[arg(long)]
    listen: SocketAddr,
    /// End after so many seconds
    #[arg(long, default_value = "3600")]
    seconds: f64,
}

/// Holds the socket.
pub fn hole(args: &HoleArgs) -> anyhow::Result<()> {
    let _socket =
        UdpSocket::open(&UdpOptions { bind: args.listen, buffer: 4_096, freebind: false, packet_info: true })?;
    println!("listening on {}", args.listen);
    let (stop, begun) = (stop_flag()?, clock::monotonic_ns());
    while !ended(&stop, begun, args.seconds) {
        Poll::new()?.wait(LOOK)?.for_each(drop);
    }
    Ok(())
}

/// Answers until it is told to end.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(core) = args.core {
        pin::pin_to(core)?;
    }
    let socket = UdpSocket::open(&UdpOptions {
        bind: args.listen,
        buffer: BUFFER,
        freebind: false,
        packet_info: args.listen.ip().is_unspecified(),
    })?;
    let mut poll = Poll::new()?;
    poll.add(&socket, 0)?;
    println!("listening on {}", socket.local());
    let (stop, begun) = (stop_flag()?, clock::monotonic_ns());
    let (mut receive, mut answers) = (ReceiveBatch::new(), Answers::new());
    while !ended(&stop, begun, args.seconds) {
        if poll.wait(LOOK)?.count() == 0 {
            continue;
        }
        // Only an error of an earlier datagram can be told here; the next call gives what waits.
        if receive.receive(&socket, BATCH).is_ok() {
            answers.take(&receive, args);
            answers.send(&socket);
        } else {
            let _ = receive.receive_errors(&socket);
        }
    }
    Ok(())
}

struct Answer {
    octets: Vec<u8>,
    peer: Option<SocketAddr>,
    source: Option<IpAddr>,
}

/// Answers of one batch, with their buffers.
struct Answers {
    all: Vec<Answer>,
    used: usize,
    seen: u64,
    batch: SendBatch,
}

impl Answers {
    fn new() -> Self {
        let empty = || Answer { octets: Vec::with_capacity(2_048), peer: None, source: None };
        Self { all: std::iter::repeat_with(empty).take(2 * BATCH).collect(), used: 0, seen: 0, batch: SendBatch::new() }
    }

    fn take(&mut self, received: &ReceiveBatch, args: &Args) {
        self.used = 0;
        for query in received.iter() {
            self.seen += 1;
            if self.seen % 100 < args.drop || query.octets.len() < 12 {
                continue;
            }
            for _ in 0..1 + usize::from(args.twice) {
                let answer = &mut self.all[self.used];
                answer.octets.clear();
                answer.octets.extend_from_slice(if args.garbage { &query.octets[..7] } else { query.octets });
                answer.octets[2] |= 0x80;
                if args.wrong_question && query.octets.len() > 13 {
                    answer.octets[13] ^= 1;
                }
                (answer.peer, answer.source) = (query.peer, query.local);
                self.used += 1;
            }
        }
    }

    fn send(&mut self, socket: &UdpSocket) {
        let mut done = 0;
        while done < self.used {
            let datagrams = self.all[done..self.used].iter().map(|answer| Datagram {
                head: [answer.octets[0], answer.octets[1]],
                tail: &answer.octets[2..],
                source: answer.source,
                peer: answer.peer,
            });
            // What the kernel does not take is lost, as on any network.
            done += self.batch.send(socket, datagrams).unwrap_or(1);
        }
    }
}

fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

fn ended(stop: &AtomicBool, begun: i64, seconds: f64) -> bool {
    stop.load(Ordering::Relaxed) || (clock::monotonic_ns() - begun) as f64 > seconds * 1e9
}
