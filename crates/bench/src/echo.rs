//! A responder that echoes every query, and a sink that answers none.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use ldplayer_core::time::Span;
use ldplayer_net::clock;
use ldplayer_net::poll::Poll;
use ldplayer_net::udp::{BATCH, Datagram, ReceiveBatch, SendBatch, UdpOptions, UdpSocket};

use crate::responder::{BUFFER, LOOK, Responder};

/// Answers that wait for their time at most; what comes beyond is lost, as in a full router.
const WAITING: usize = 1 << 20;
/// How long before an answer's time sleeping ends and spinning begins, in nanoseconds.
const GUARD: i64 = 100_000;

/// Options of `echo`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    responder: Responder,
    /// Answer with only seven bytes of the query
    #[arg(long)]
    garbage: bool,
    /// Answer each query twice
    #[arg(long)]
    twice: bool,
    /// Answer with a different question
    #[arg(long)]
    wrong_question: bool,
    /// Percentage of queries to leave unanswered
    #[arg(long, default_value = "0")]
    drop: u64,
    /// Delay answers by this much, in order
    #[arg(long, default_value = "0s")]
    delay: Span,
}

/// Options of `hole`.
#[derive(clap::Args)]
pub struct HoleArgs {
    #[command(flatten)]
    responder: Responder,
}

/// Holds the socket.
pub fn hole(args: &HoleArgs) -> anyhow::Result<()> {
    args.responder.pin()?;
    let socket = UdpSocket::open(&UdpOptions {
        bind: args.responder.listen,
        buffer: 4_096,
        freebind: false,
        packet_info: true,
    })?;
    println!("listening on {}", socket.local());
    let term = args.responder.begin()?;
    while !term.is_over() {
        Poll::new()?.wait(LOOK)?.for_each(drop);
    }
    Ok(())
}

/// Answers until `end` is set.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.responder.pin()?;
    let mut echo = Echo::open(args)?;
    println!("listening on {}", echo.socket.local());
    let term = args.responder.begin()?;
    while !term.is_over() {
        echo.turn(args, LOOK)?;
    }
    Ok(())
}

/// The responder: its socket and its answers.
struct Echo {
    socket: UdpSocket,
    poll: Poll,
    receive: ReceiveBatch,
    answers: Answers,
    delayed: Option<Delayed>,
}

impl Echo {
    fn open(args: &Args) -> anyhow::Result<Self> {
        let socket = UdpSocket::open(&UdpOptions {
            bind: args.responder.listen,
            buffer: BUFFER,
            freebind: false,
            packet_info: args.responder.listen.ip().is_unspecified(),
        })?;
        // A client that is gone refuses its answers; what is kept of that would keep the socket ready for ever.
        socket.ignore_refusals()?;
        let poll = Poll::new()?;
        poll.add(&socket, 0)?;
        let delayed = (args.delay.ns() > 0).then(|| Delayed::new(args.delay.ns()));
        Ok(Self { socket, poll, receive: ReceiveBatch::new(), answers: Answers::new(), delayed })
    }

    /// Waits for queries, no longer than `longest`, and answers; whether the socket was ready.
    fn turn(&mut self, args: &Args, longest: i64) -> anyhow::Result<bool> {
        let wait = self.delayed.as_ref().map_or(longest, |delayed| delayed.wait().min(longest));
        let is_ready = self.poll.wait(wait)?.count() > 0;
        if is_ready {
            self.receive.receive(&self.socket, BATCH)?;
            self.answers.take(&self.receive, args);
            match &mut self.delayed {
                Some(delayed) => delayed.keep(&mut self.answers),
                None => self.answers.send(&self.socket),
            }
        }
        if let Some(delayed) = &mut self.delayed {
            delayed.send_due(&mut self.answers, &self.socket);
        }
        Ok(is_ready)
    }
}

/// Answers on their way, in the order of their times.
struct Delayed {
    delay: i64,
    waiting: VecDeque<(i64, Answer)>,
    spare: Vec<Answer>,
}

impl Delayed {
    fn new(delay: i64) -> Self {
        Self { delay, waiting: VecDeque::new(), spare: Vec::new() }
    }

    /// How long may be waited for queries until an answer is due.
    fn wait(&self) -> i64 {
        let due = self.waiting.front().map(|(due, _)| due - clock::monotonic_ns());
        due.map_or(LOOK, |left| (left - GUARD).clamp(0, LOOK))
    }

    /// Keeps the answers just made until their time, counted from the kernel's stamp of the query.
    fn keep(&mut self, answers: &mut Answers) {
        let (now, offset) = (clock::monotonic_ns(), clock::realtime_offset_ns());
        for answer in &mut answers.all[..answers.used] {
            if self.waiting.len() == WAITING {
                break;
            }
            let arrived = answer.stamp_ns.map_or(now, |stamp| (stamp - offset).min(now));
            // A step of the wall clock must not change the order.
            let due = self.waiting.back().map_or(0, |(due, _)| *due).max(arrived + self.delay);
            let empty = self.spare.pop().unwrap_or_else(Answer::empty);
            self.waiting.push_back((due, std::mem::replace(answer, empty)));
        }
        answers.used = 0;
    }

    /// Sends at most a batch of the answers that are due.
    fn send_due(&mut self, answers: &mut Answers, socket: &UdpSocket) {
        let now = clock::monotonic_ns();
        answers.used = 0;
        while answers.used < BATCH && self.waiting.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, answer)) = self.waiting.pop_front() else { break };
            self.spare.push(std::mem::replace(&mut answers.all[answers.used], answer));
            answers.used += 1;
        }
        answers.send(socket);
    }
}

struct Answer {
    octets: Vec<u8>,
    peer: Option<SocketAddr>,
    source: Option<IpAddr>,
    /// When the query came.
    stamp_ns: Option<i64>,
}

impl Answer {
    fn empty() -> Self {
        Self { octets: Vec::new(), peer: None, source: None, stamp_ns: None }
    }
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
        let all = std::iter::repeat_with(Answer::empty).take(2 * BATCH).collect();
        Self { all, used: 0, seen: 0, batch: SendBatch::new() }
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
                (answer.peer, answer.source, answer.stamp_ns) = (query.peer, query.local, query.stamp_ns);
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

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as Plain;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// It was kept busy: the refusals of its answers stayed in the error queue, and the socket was ready for ever.
    #[test]
    fn a_client_that_goes_without_reading_costs_no_turns() {
        let args = Line::parse_from(["echo", "--listen", "127.0.0.1:0"]).args;
        let mut echo = Echo::open(&args).unwrap();
        let ask = |count: usize| {
            let client = Plain::bind("127.0.0.1:0").unwrap();
            for _ in 0..count {
                client.send_to(&[0; 20], echo.socket.local()).unwrap();
            }
            client
        };
        drop(ask(300));
        let stays = ask(1);
        let busy = (0..100).take_while(|_| echo.turn(&args, 0).unwrap()).count();
        assert!((1..=6).contains(&busy), "{busy} turns for 301 queries");
        // And who stays has its answer.
        assert_eq!(stays.recv(&mut [0; 99]).unwrap(), 20);
        assert!(!echo.turn(&args, 0).unwrap());
    }
}
