//! TCP of clients: whatever segments, errors and calls come in whatever order, what is handed over is the stream that was sent, the
//! bounds hold, the machine comes to rest after each, and a dead handle does nothing.
#![no_main]

use std::net::{IpAddr, SocketAddr};

use ldplayer_core::RunTime;
use ldplayer_stack::frame::segment::Timestamps;
use ldplayer_stack::frame::{Cookie, Flags, Options, Segment};
use ldplayer_stack::tcp::{Config, Event, Failure, Handle, OpenOptions, Tcp};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// Connections at once.
const MOST: usize = 4;
/// Segments that a single step may give rise to: a full send buffer in the least segments, and more.
const ENOUGH: usize = 3_000;

#[derive(Arbitrary, Debug)]
enum Step {
    Open { v6: bool, nagle: bool, fast_open: bool, data: u8 },
    Write { which: u8, octets: u16 },
    Close { which: u8 },
    Abort { which: u8 },
    Segment { which: u8, from: i8, offset: i32, ack: i32, flags: u8, window: u16, length: u16, options: u8, stamp: i16 },
    Unreachable { which: u8, offset: i16 },
    TooBig { which: u8, offset: i16, mtu: u16 },
    Pass { ms: u16 },
    PassLong { s: u16 },
}

/// The caller's side of a connection.
struct Ours {
    at: Handle,
    local: SocketAddr,
    server: SocketAddr,
    /// The first sequence number that was seen of the client, and what it has sent last.
    start: Option<u32>,
    sent: u32,
    /// The server's initial sequence number, and what the client expects.
    server_start: u32,
    expected: u32,
    received: u32,
    closed: bool,
    dead: bool,
}

struct World {
    tcp: Tcp,
    now: RunTime,
    ours: Vec<Ours>,
    stamp: u32,
}

/// The octet of the server's stream at a sequence number.
fn octet(sequence: u32) -> u8 {
    (sequence.wrapping_mul(2_654_435_761) >> 24) as u8
}

impl World {
    fn step(&mut self, step: Step) {
        match step {
            Step::Open { v6, nagle, fast_open, data } => self.open(v6, nagle, fast_open, data),
            Step::Write { which, octets } => {
                if let Some(at) = self.which(which) {
                    let count = self.tcp.write(at, self.now, &vec![7; octets.into()]);
                    assert!(count <= octets.into() && self.tcp.unacknowledged(at) <= 10_000);
                }
            }
            Step::Close { which } => self.end(which, Tcp::close),
            Step::Abort { which } => self.end(which, Tcp::abort),
            Step::Segment { .. } => self.segment(&step),
            Step::Unreachable { which, offset } => {
                if let Some(ours) = self.any(which) {
                    let sequence = ours.sent.wrapping_add(offset as u32);
                    let (local, server) = (ours.local, ours.server);
                    self.tcp.handle_unreachable(local, server, sequence, Failure::Unreachable);
                }
            }
            Step::TooBig { which, offset, mtu } => {
                if let Some(ours) = self.any(which) {
                    let sequence = ours.sent.wrapping_add(offset as u32);
                    let (local, server) = (ours.local, ours.server);
                    self.tcp.handle_too_big(local, server, sequence, mtu.into());
                }
            }
            Step::Pass { ms } => self.pass(i64::from(ms) * 1_000_000),
            Step::PassLong { s } => self.pass(i64::from(s) * 1_000_000_000),
        }
        self.settle();
    }

    fn pass(&mut self, ns: i64) {
        self.now = self.now + ns;
        self.tcp.handle_timeout(self.now);
    }

    fn any(&self, which: u8) -> Option<&Ours> {
        self.ours.get(usize::from(which) % self.ours.len().max(1))
    }

    fn which(&self, which: u8) -> Option<Handle> {
        self.any(which).map(|ours| ours.at)
    }

    fn end(&mut self, which: u8, end: fn(&mut Tcp, Handle, RunTime)) {
        let count = self.ours.len().max(1);
        let Some(ours) = self.ours.get_mut(usize::from(which) % count) else { return };
        end(&mut self.tcp, ours.at, self.now);
        ours.dead = true;
        assert_eq!(self.tcp.write(ours.at, self.now, b"x"), 0, "a dead handle takes nothing");
    }

    fn open(&mut self, v6: bool, nagle: bool, fast_open: bool, data: u8) {
        if self.ours.len() >= 16 {
            return;
        }
        let (client, server) = if v6 {
            (IpAddr::from([1_u16; 8]), SocketAddr::from(([2_u16; 8], 53)))
        } else {
            (IpAddr::from([192, 0, 2, 1]), SocketAddr::from(([198, 51, 100, 53], 53)))
        };
        let data = vec![7; data.into()];
        let Ok((at, port)) = self.tcp.open(self.now, client, server, &OpenOptions { nagle, fast_open, data: &data })
        else {
            return;
        };
        let local = SocketAddr::new(client, port);
        let server_start = 0xffff_ff00;
        self.ours.push(Ours {
            at,
            local,
            server,
            start: None,
            sent: 0,
            server_start,
            expected: server_start.wrapping_add(1),
            received: 0,
            closed: false,
            dead: false,
        });
    }

    fn segment(&mut self, step: &Step) {
        let Step::Segment { which, from, offset, ack, flags, window, length, options, stamp } = *step else { return };
        let Some(ours) = self.any(which) else { return };
        let (at, local, server) = (ours.at, ours.local, ours.server);
        // Mostly near what the client expects, and now and then anywhere.
        let near = |value: i32| if value % 3 == 0 { value } else { value % 2_000 };
        let base = if from % 4 == 0 { ours.server_start } else { ours.expected };
        let sequence = base.wrapping_add(if from % 2 == 0 { 0 } else { near(offset) as u32 });
        let acknowledgement = ours.sent.wrapping_add(if ack % 2 == 0 { 0 } else { near(ack) as u32 });
        let some = |bit: u8| options & (1 << bit) != 0;
        let is_syn = flags & Flags::SYN.0 != 0;
        let first = sequence.wrapping_add(u32::from(is_syn));
        let payload: Vec<u8> = (0..u32::from(length % 3_000)).map(|at| octet(first.wrapping_add(at))).collect();
        self.stamp = self.stamp.wrapping_add(stamp.max(-3) as u32);
        let mut all = Options {
            mss: some(0).then_some(window),
            window_scale: some(1).then_some(options % 15),
            sack_permitted: some(2),
            timestamps: some(3).then_some(Timestamps { value: self.stamp, echo: 0 }),
            fast_open: some(4).then(|| Cookie::new(&[1; 8]).unwrap_or_default()),
            ..Options::default()
        };
        if some(5) {
            all.sack.push((acknowledgement.wrapping_add(100), acknowledgement.wrapping_add(200)));
        }
        let segment = Segment {
            source_port: server.port(),
            destination_port: local.port(),
            sequence,
            acknowledgement,
            flags: Flags(flags),
            window,
            options: all,
            payload: &payload,
        };
        let input = self.tcp.handle_segment(self.now, server, local, &segment);
        if let Some(input) = input {
            assert_eq!(input.at.slot(), at.slot());
            let octets = input.octets.to_vec();
            self.take(input.at, &octets, is_syn.then_some(sequence));
        }
    }

    /// Data is handed over in order, once, and only to who has not closed.
    fn take(&mut self, at: Handle, octets: &[u8], opening: Option<u32>) {
        // Handles are those of connections that were opened here.
        let ours = self.ours.iter_mut().find(|ours| ours.at == at).expect("data is of a connection");
        assert!(!ours.dead && !ours.closed && !octets.is_empty());
        if let Some(sequence) = opening {
            // Data that comes with the server's SYN.
            assert_eq!(ours.received, 0);
            ours.expected = sequence.wrapping_add(1);
        }
        for &got in octets {
            assert_eq!(got, octet(ours.expected), "octet {} of the stream", ours.received);
            ours.expected = ours.expected.wrapping_add(1);
            ours.received += 1;
        }
    }

    /// Handles events and sends until the machine is at rest.
    fn settle(&mut self) {
        self.handle_events();
        let mut sent = 0;
        while let Some(out) = self.tcp.poll_transmit(self.now) {
            sent += 1;
            assert!(sent < ENOUGH, "segments without end");
            let (from, segment) = (out.from, out.segment);
            assert!(segment.payload.len() <= 1_460 && segment.options.len() <= 40);
            let end = segment.sequence.wrapping_add(segment.length());
            let mine = self.ours.iter_mut().rev().find(|ours| ours.local == from);
            if let Some(ours) = mine {
                if segment.flags.has(Flags::SYN) {
                    ours.start.get_or_insert(segment.sequence);
                }
                ours.sent = end;
                if segment.flags.has(Flags::ACK) && !segment.flags.has(Flags::RST) && ours.received == 0 {
                    ours.expected = segment.acknowledgement;
                }
            }
        }
        self.handle_events();
        assert!(self.tcp.len() <= MOST && self.tcp.active() <= self.tcp.len());
        assert!(self.tcp.poll_timeout().is_some() || self.tcp.poll_transmit(self.now).is_none());
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.tcp.poll_event() {
            match event {
                Event::Opened(_) | Event::Writable(_) | Event::Rests(_) => {}
                Event::Data(at) => {
                    let mut octets = [0; 700];
                    loop {
                        let count = self.tcp.read(at, &mut octets);
                        assert!(count <= octets.len());
                        if count == 0 {
                            break;
                        }
                        self.take(at, &octets[..count], None);
                    }
                }
                Event::Closed(at) => self.mark(at, |ours| {
                    assert!(!ours.closed, "closed once");
                    ours.closed = true;
                }),
                Event::Reset(at) | Event::Failed(at, _) => {
                    assert_eq!(self.tcp.write(at, self.now, b"x"), 0);
                    self.mark(at, |ours| ours.dead = true);
                }
            }
        }
    }

    fn mark(&mut self, at: Handle, mark: impl FnOnce(&mut Ours)) {
        if let Some(ours) = self.ours.iter_mut().find(|ours| ours.at == at) {
            mark(ours);
        }
    }
}

fuzz_target!(|input: (u8, Vec<Step>)| {
    let (settings, steps) = input;
    let config = Config {
        max_connections: MOST as u32,
        send_buffer: 10_000,
        timestamps: settings & 1 != 0,
        sack: settings & 2 != 0,
        window: if settings & 4 != 0 { 5_000 } else { 100_000 },
        retransmits: 4,
        ..Config::default()
    };
    let mut world = World { tcp: Tcp::new(config), now: RunTime(0), ours: Vec::new(), stamp: 5 };
    for step in steps {
        world.step(step);
    }
    // Everything ends: what is silent is given up, what was closed is forgotten.
    for ours in 0..world.ours.len() {
        world.end(ours as u8, Tcp::close);
    }
    world.settle();
    for _ in 0..400 {
        let Some(next) = world.tcp.poll_timeout() else { break };
        world.now = world.now.max(next);
        world.tcp.handle_timeout(world.now);
        world.settle();
    }
    assert!(world.tcp.is_empty(), "{} of {:?}", world.tcp.len(), world.tcp.counts());
});
