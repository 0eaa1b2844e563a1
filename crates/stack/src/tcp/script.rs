//! Scripts of segments in the manner of packetdrill, for tests: what the server sends, and what the client must do.
//!
//! A line is one step; numbers count from the initial sequence numbers of either side.
//!
//! | line | meaning |
//! |---|---|
//! | `> P. 1:6 ack 1` | the client sends this next: flags (`S`, `F`, `R`, `P` and `.` for ACK), octets, acknowledgement |
//! | `> -` | the client has nothing to send |
//! | `< P. 1:6 ack 6 win 9` | the server sends this; `win`, `mss`, `scale`, `sackok`, `sack 9:12`, `ts 1 2` and `fo 01020304` may follow |
//! | `= 1:6` | what was handed over from the last segment of the server |
//! | `read 6:9` | what waits to be read |
//! | `write 100`, `wrote 50` | that many octets are written, and the last write took that many |
//! | `close`, `abort` | the connection is closed |
//! | `! opened` | the next event |
//! | `! -` | there is no event |
//! | `+ 40` | the client has nothing to send, and so many milliseconds pass |

use std::net::{IpAddr, SocketAddr};

use ldplayer_core::RunTime;

use super::{Config, Event, Failure, Handle, OpenOptions, Tcp};
use crate::frame::segment::Outgoing;
use crate::frame::{Cookie, Flags, Options, Segment, Timestamps};

/// The server's initial sequence number: it wraps soon.
pub const SERVER_START: u32 = u32::MAX - 20;
const MS: i64 = 1_000_000;

/// A script that is being run.
pub struct Script {
    pub tcp: Tcp,
    pub now: RunTime,
    pub at: Handle,
    pub local: SocketAddr,
    pub server: SocketAddr,
    /// The client's initial sequence number.
    pub start: u32,
    input: Option<Vec<u8>>,
    wrote: usize,
    written: u32,
}

/// What most scripts have: no options, to be short.
pub fn plain() -> Config {
    Config { timestamps: false, sack: false, ..Config::default() }
}

/// The octet of a stream at a place.
fn octet(place: u32) -> u8 {
    (place.wrapping_mul(2_654_435_761) >> 24) as u8
}

/// The octets of a stream from one place to another, counted from 1.
pub fn stream(first: u32, end: u32) -> Vec<u8> {
    (first..end).map(octet).collect()
}

/// What the client sends, as a script says it.
fn described(sent: &Outgoing<'_>, start: u32) -> String {
    let segment = &sent.segment;
    let names = [(Flags::SYN, 'S'), (Flags::FIN, 'F'), (Flags::RST, 'R'), (Flags::PSH, 'P'), (Flags::ACK, '.')];
    let mut text: String = names.iter().filter(|(flag, _)| segment.flags.has(*flag)).map(|(_, name)| *name).collect();
    let first = segment.sequence.wrapping_sub(start);
    text += &format!(" {first}");
    if !segment.payload.is_empty() {
        let end = first.wrapping_add(segment.payload.len() as u32);
        text += &format!(":{end}");
        let from = first + u32::from(segment.flags.has(Flags::SYN));
        assert_eq!(segment.payload, stream(from, from + segment.payload.len() as u32), "{text}");
    }
    if segment.flags.has(Flags::ACK) {
        text += &format!(" ack {}", segment.acknowledgement.wrapping_sub(SERVER_START));
    }
    for (from, to) in segment.options.sack.blocks() {
        text += &format!(" sack {}:{}", from.wrapping_sub(SERVER_START), to.wrapping_sub(SERVER_START));
    }
    if let Some(cookie) = segment.options.fast_open {
        text += " fo ";
        cookie.octets().iter().for_each(|octet| text += &format!("{octet:02x}"));
    }
    text.trim_end().to_owned()
}

fn flags(text: &str) -> Flags {
    text.chars().fold(Flags::default(), |flags, name| {
        flags
            | match name {
                'S' => Flags::SYN,
                'F' => Flags::FIN,
                'R' => Flags::RST,
                'P' => Flags::PSH,
                '.' => Flags::ACK,
                other => panic!("no flag: {other}"),
            }
    })
}

fn range(text: &str) -> (u32, u32) {
    let (first, end) = text.split_once(':').unwrap_or((text, text));
    (first.parse().unwrap(), end.parse().unwrap())
}

impl Script {
    /// A client that has opened a connection.
    pub fn new(config: Config, options: &OpenOptions<'_>) -> Self {
        Self::at(Tcp::new(config), RunTime(0), options)
    }

    /// The same with a machine that has done something before.
    pub fn at(mut tcp: Tcp, now: RunTime, options: &OpenOptions<'_>) -> Self {
        let (client, server) = (IpAddr::from([192, 0, 2, 1]), SocketAddr::from(([198, 51, 100, 53], 53)));
        let (at, port) = tcp.open(now, client, server, options).unwrap();
        let start = tcp.connections[at.slot].sent;
        let local = SocketAddr::new(client, port);
        let written = options.data.len() as u32;
        Self { tcp, now, at, local, server, start, input: None, wrote: 0, written }
    }

    /// The same with the plain settings, up to an open connection with segments of 1,000 octets.
    pub fn opened() -> Self {
        let mut script = Self::new(plain(), &OpenOptions::default());
        script.run("> S 0\n< S. 0 ack 1 win 60000 mss 1000\n! opened\n> . 1 ack 1\n> -");
        script
    }

    /// Does the steps.
    pub fn run(&mut self, steps: &str) -> &mut Self {
        for (number, line) in steps.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let context = format!("step {}: {line}", number + 1);
            match word {
                ">" => assert_eq!(self.sent(), rest, "{context}"),
                "<" => self.receive(rest),
                "=" => self.check_input(rest, &context),
                "!" => assert_eq!(self.event(), rest, "{context}"),
                "+" => self.pass(rest.parse().unwrap()),
                "read" => self.read(rest, &context),
                "write" => self.write(rest.parse().unwrap()),
                "wrote" => assert_eq!(self.wrote.to_string(), rest, "{context}"),
                "close" => self.tcp.close(self.at, self.now),
                "abort" => self.tcp.abort(self.at, self.now),
                _ => panic!("{context}"),
            }
        }
        self
    }

    /// Runs until no timer is pending; returns the time that took in milliseconds, and the segments sent.
    pub fn exhaust(&mut self) -> (i64, usize) {
        assert!(self.next().is_none());
        let (since, mut sent) = (self.now, 0);
        while let Some(next) = self.tcp.poll_timeout().filter(|_| sent < 10_000) {
            self.now = self.now.max(next);
            self.tcp.handle_timeout(self.now);
            sent += std::iter::from_fn(|| self.next().map(|_| ())).count();
        }
        ((self.now - since) / MS, sent)
    }

    /// The next segment of the client.
    pub fn next(&mut self) -> Option<Outgoing<'_>> {
        self.tcp.poll_transmit(self.now)
    }

    fn sent(&mut self) -> String {
        let (start, addresses) = (self.start, (self.local, self.server));
        let sent = self.tcp.poll_transmit(self.now);
        sent.map_or("-".to_owned(), |sent| {
            assert_eq!((sent.from, sent.to), addresses);
            described(&sent, start)
        })
    }

    fn receive(&mut self, text: &str) {
        let mut words = text.split_ascii_whitespace();
        let flags = flags(words.next().unwrap());
        let (first, end) = range(words.next().unwrap());
        let payload = stream(first, end);
        let mut segment = Segment {
            source_port: self.server.port(),
            destination_port: self.local.port(),
            sequence: SERVER_START.wrapping_add(first),
            acknowledgement: 0,
            flags,
            window: 60_000,
            options: Options::default(),
            payload: &payload,
        };
        let options = &mut segment.options;
        while let Some(word) = words.next() {
            let mut number = || words.next().unwrap();
            match word {
                "ack" => segment.acknowledgement = self.start.wrapping_add(number().parse().unwrap()),
                "win" => segment.window = number().parse().unwrap(),
                "mss" => options.mss = Some(number().parse().unwrap()),
                "scale" => options.window_scale = Some(number().parse().unwrap()),
                "sackok" => options.sack_permitted = true,
                "sack" => {
                    let (first, end) = range(number());
                    options.sack.push((self.start.wrapping_add(first), self.start.wrapping_add(end)));
                }
                "ts" => {
                    let [value, echo] = [number(), number()].map(|text| text.parse().unwrap());
                    options.timestamps = Some(Timestamps { value, echo });
                }
                "fo" => {
                    let digits = number().as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
                    let octets: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
                    options.fast_open = Cookie::new(&octets);
                }
                other => panic!("no option: {other}"),
            }
        }
        let input = self.tcp.handle_segment(self.now, self.server, self.local, &segment);
        self.input = input.map(|input| {
            assert_eq!(input.at, self.at);
            input.octets.to_vec()
        });
    }

    fn check_input(&mut self, text: &str, context: &str) {
        let expected = (text != "-").then(|| {
            let (first, end) = range(text);
            stream(first, end)
        });
        assert_eq!(self.input.take(), expected, "{context}");
    }

    fn read(&mut self, text: &str, context: &str) {
        let mut octets = vec![0; 100_000];
        let count = self.tcp.read(self.at, &mut octets);
        let (first, end) = range(text);
        assert_eq!(octets[..count], stream(first, end), "{context}");
    }

    fn write(&mut self, count: u32) {
        let octets = stream(1 + self.written, 1 + self.written + count);
        self.wrote = self.tcp.write(self.at, self.now, &octets);
        self.written += self.wrote as u32;
    }

    /// Time passes, and everything that is due is handled in time.
    fn pass(&mut self, ms: i64) {
        assert_eq!(self.sent(), "-", "before {ms} ms pass");
        let end = self.now + ms * MS;
        while let Some(next) = self.tcp.poll_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.tcp.handle_timeout(self.now);
        }
        self.now = end;
        self.tcp.handle_timeout(end);
    }

    fn event(&mut self) -> &'static str {
        let Some(event) = self.tcp.poll_event() else { return "-" };
        let (at, name) = match event {
            Event::Opened(at) => (at, "opened"),
            Event::Data(at) => (at, "data"),
            Event::Writable(at) => (at, "writable"),
            Event::Closed(at) => (at, "closed"),
            Event::Reset(at) => (at, "reset"),
            Event::Failed(at, Failure::Refused) => (at, "refused"),
            Event::Failed(at, Failure::Unreachable) => (at, "unreachable"),
            Event::Failed(at, Failure::TimedOut) => (at, "timed out"),
            Event::Failed(at, Failure::ZeroWindow) => (at, "zero window"),
            Event::Rests(at) => (at, "rests"),
        };
        assert_eq!(at, self.at);
        name
    }
}
