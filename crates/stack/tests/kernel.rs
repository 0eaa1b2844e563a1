//! Our TCP against that of Linux: a listener in a namespace of its own, and our client on the TUN device that is its only
//! way out.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use ldplayer_core::RunTime;
use ldplayer_net::clock;
use ldplayer_net::namespace::Namespace;
use ldplayer_net::poll::Poll;
use ldplayer_net::tun::Tun;
use ldplayer_net::wiring::Wiring;
use ldplayer_stack::frame::{Check, Content, Link, Transport, ethernet};
use ldplayer_stack::tcp::{Config, Counts, Event, Failure, Handle, OpenOptions, Tcp};

const SERVER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 53));
const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 53));
/// Octets before a request: its length, that of the response, and who closes first.
const HEAD: usize = 9;
const MS: i64 = 1_000_000;

/// What one client asks for.
#[derive(Clone, Copy, Debug)]
struct Ask {
    request: u32,
    response: u32,
    server_closes: bool,
}

impl Ask {
    fn octets(self) -> Vec<u8> {
        let mut octets = Vec::new();
        octets.extend(self.request.to_be_bytes());
        octets.extend(self.response.to_be_bytes());
        octets.push(self.server_closes.into());
        octets.extend((0..self.request).map(pattern));
        octets
    }
}

fn pattern(place: u32) -> u8 {
    (place.wrapping_mul(2_654_435_761) >> 24) as u8
}

/// Answers one connection; returns how many octets of its request were wrong.
fn serve(mut stream: TcpStream) {
    let mut head = [0; HEAD];
    if stream.read_exact(&mut head).is_err() {
        return;
    }
    let [a, b, c, d, e, f, g, h, closes] = head;
    let (request, response) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    let mut octets = vec![0; request as usize];
    if stream.read_exact(&mut octets).is_err() || !octets.iter().copied().eq((0..request).map(pattern)) {
        // Without a response, the client never comes to its end.
        return;
    }
    let response: Vec<u8> = (0..response).map(pattern).collect();
    if stream.write_all(&response).is_ok() && closes == 0 {
        let _ = stream.read(&mut head);
    }
}

/// A namespace with a listener of each family that answers for ever.
struct Server {
    tun: Tun,
    _namespace: Namespace,
}

impl Server {
    fn start() -> Self {
        let namespace = Namespace::create().unwrap();
        let wiring = Wiring { addresses: Vec::new(), any_ip: true, mtu: 1_500, queues: 1 };
        let tun = wiring.connect(&namespace).unwrap().remove(0);
        let listeners = namespace.run(|| {
            // Fast Open for clients and servers, and for all listeners.
            std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "1027").unwrap();
            [SERVER_V4, SERVER_V6].map(|server| TcpListener::bind((server, 53)).unwrap())
        });
        for listener in listeners.unwrap() {
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    thread::spawn(move || serve(stream));
                }
            });
        }
        Self { tun, _namespace: namespace }
    }
}

/// One connection of the client.
struct Asker {
    ask: Ask,
    request: Vec<u8>,
    written: usize,
    /// How much of the request is written so far at most: half of it until the connection has rested, where that is told.
    allowed: usize,
    received: u32,
}

/// Our side.
struct Client {
    tcp: Tcp,
    server: Server,
    poll: Poll,
    askers: HashMap<Handle, Asker>,
    failed: Vec<Failure>,
    done: usize,
    tells_rest: bool,
    parked: usize,
    /// Every so many packets, one is lost; never if 0.
    loses: u64,
    packets: u64,
}

impl Client {
    fn new(config: Config, loses: u64) -> Self {
        let server = Server::start();
        let poll = Poll::new().unwrap();
        poll.add(&server.tun, 0).unwrap();
        let (tcp, askers, tells_rest) = (Tcp::new(config), HashMap::new(), config.tells_rest);
        Self { tcp, server, poll, askers, failed: Vec::new(), done: 0, tells_rest, parked: 0, loses, packets: 0 }
    }

    fn now() -> RunTime {
        RunTime(clock::monotonic_ns())
    }

    fn ask(&mut self, client: IpAddr, port: u16, ask: Ask, fast_open: bool) {
        let server = if client.is_ipv4() { SERVER_V4 } else { SERVER_V6 };
        let request = ask.octets();
        let data = &request[..if fast_open { request.len() } else { 0 }];
        let options = OpenOptions { nagle: false, fast_open, data };
        let (at, _) = self.tcp.open(Self::now(), client, SocketAddr::new(server, port), &options).unwrap();
        let written = data.len();
        let allowed = if self.tells_rest { request.len() / 2 } else { request.len() };
        self.askers.insert(at, Asker { ask, request, written, allowed, received: 0 });
    }

    /// Runs until all connections have come to their end.
    fn run(&mut self) -> Counts {
        while !self.askers.is_empty() {
            self.send();
            let timeout = self.tcp.poll_timeout().map_or(1_000 * MS, |next| next - Self::now());
            let _ = self.poll.wait(timeout.clamp(0, 1_000 * MS)).unwrap().count();
            self.receive();
            self.tcp.handle_timeout(Self::now());
            self.handle_events();
        }
        self.send();
        *self.tcp.counts()
    }

    fn is_lost(&mut self) -> bool {
        self.packets += 1;
        self.loses > 0 && self.packets.is_multiple_of(self.loses)
    }

    fn send(&mut self) {
        let mut packet = [0; 2_000];
        while let Some(out) = self.tcp.poll_transmit(Self::now()) {
            let length = out.write(&mut packet, &Link::none()).unwrap();
            if !self.is_lost() {
                self.server.tun.write(&packet[..length]).unwrap();
            }
        }
    }

    fn receive(&mut self) {
        let mut packet = [0; 2_000];
        while let Some(length) = self.server.tun.read(&mut packet).unwrap() {
            if self.is_lost() {
                continue;
            }
            let ethertype = if packet[0] >> 4 == 4 { ethernet::IPV4 } else { ethernet::IPV6 };
            let content = Content::read(ethertype, &packet[..length], Check::Verify);
            if let Ok(Content::Transport(source, destination, Transport::Tcp(segment))) = content {
                let from = SocketAddr::new(source, segment.source_port);
                let to = SocketAddr::new(destination, segment.destination_port);
                if let Some(input) = self.tcp.handle_segment(Self::now(), from, to, &segment) {
                    self.take(input.at, input.octets);
                }
                self.handle_events();
            }
        }
    }

    fn take(&mut self, at: Handle, octets: &[u8]) {
        let asker = self.askers.get_mut(&at).expect("data comes to connections that are not closed");
        let expected = (asker.received..).map(pattern).take(octets.len());
        assert!(octets.iter().copied().eq(expected), "the response at {}", asker.received);
        asker.received += octets.len() as u32;
        if asker.received == asker.ask.response && !asker.ask.server_closes {
            self.end(at);
        }
    }

    fn end(&mut self, at: Handle) {
        let asker = self.askers.remove(&at).unwrap();
        assert_eq!(asker.received, asker.ask.response);
        self.tcp.close(at, Self::now());
        self.done += 1;
    }

    fn write(&mut self, at: Handle) {
        let Some(asker) = self.askers.get_mut(&at) else { return };
        asker.written += self.tcp.write(at, Self::now(), &asker.request[asker.written..asker.allowed]);
    }

    /// Takes a connection out of the machine and puts it back, if it still rests: it has a new handle then. The rest of the request follows.
    fn park_for_a_moment(&mut self, at: Handle) {
        let (Some((local, server)), Some(parked)) = (self.tcp.tuple(at), self.tcp.park(at)) else { return };
        let mut asker = self.askers.remove(&at).unwrap();
        asker.allowed = asker.request.len();
        let again = self.tcp.resume(local.ip(), server, &parked).unwrap();
        self.askers.insert(again, asker);
        self.parked += 1;
        self.write(again);
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.tcp.poll_event() {
            match event {
                Event::Opened(at) | Event::Writable(at) => self.write(at),
                Event::Closed(at) => self.end(at),
                Event::Data(at) => {
                    let mut octets = vec![0; 200_000];
                    let count = self.tcp.read(at, &mut octets);
                    self.take(at, &octets[..count]);
                }
                Event::Reset(at) => panic!("{:?} was reset", self.askers.remove(&at).map(|asker| asker.ask)),
                Event::Failed(at, failure) => {
                    self.askers.remove(&at);
                    self.failed.push(failure);
                }
                Event::Rests(at) => self.park_for_a_moment(at),
            }
        }
    }
}

fn client(number: u32) -> IpAddr {
    if number.is_multiple_of(2) {
        Ipv4Addr::from_bits(0xc000_0200 + number).into()
    } else {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64 | 1).into()
    }
}

#[test]
fn a_thousand_connections_of_both_families_carry_from_one_octet_to_200_kilobytes_both_ways() {
    carry_a_thousand(Config::default());
}

#[test]
fn linux_cannot_tell_connections_that_were_parked_whenever_they_rested() {
    assert!(carry_a_thousand(Config { tells_rest: true, ..Config::default() }) >= 1_000);
}

/// Returns how often a connection was parked.
fn carry_a_thousand(config: Config) -> usize {
    let mut network = Client::new(config, 0);
    let sizes = [1, 2, 100, 1_448, 1_449, 5_000];
    for number in 0..1_000_u32 {
        let [request, response] = match number % 50 {
            0 => [200_000, 1],
            1 => [1, 200_000],
            2 | 3 => [70_000, 70_000],
            _ => [sizes[number as usize % 6], sizes[number as usize / 6 % 6]],
        };
        network.ask(client(number), 53, Ask { request, response, server_closes: number % 3 == 0 }, false);
        if number % 100 == 99 {
            let counts = network.run();
            assert_eq!(counts.established, u64::from(number) + 1);
        }
    }
    let counts = network.run();
    assert_eq!((network.done, network.failed.len()), (1_000, 0));
    assert_eq!((counts.unknown, counts.bad_acknowledgements, counts.paws, counts.challenge_acks), (0, 0, 0, 0));
    assert_eq!((counts.data_after_close, counts.dropped_octets), (0, 0));
    network.parked
}

#[test]
fn streams_are_whole_where_every_eleventh_packet_is_lost() {
    let plain = Config { sack: false, timestamps: false, ..Config::default() };
    for config in [Config::default(), plain, Config { tells_rest: true, ..Config::default() }] {
        let mut network = Client::new(config, 11);
        for number in 0..40 {
            let ask =
                Ask { request: number * 1_000, response: 40_000 - number * 1_000, server_closes: number % 3 == 0 };
            network.ask(client(number), 53, ask, false);
        }
        let counts = network.run();
        assert_eq!((network.done, network.failed.len()), (40, 0), "{counts:?}");
        assert!(counts.retransmitted > 0 && counts.out_of_order > 0 && counts.fast_retransmits > 0, "{counts:?}");
    }
}

#[test]
fn rfc_7413_linux_gives_a_cookie_and_takes_data_with_syn() {
    let mut network = Client::new(Config::default(), 0);
    for number in [2, 3] {
        network.ask(client(number), 53, Ask { request: 100, response: 100, server_closes: false }, true);
        network.run();
    }
    assert_eq!(network.tcp.counts().fast_opens, 0);
    // A cookie is for a client's address (RFC 7413 section 4.1.2): others ask for their own.
    for number in [4, 5] {
        network.ask(client(number), 53, Ask { request: 100, response: 100, server_closes: false }, true);
    }
    assert_eq!(network.run().fast_opens, 0);
    for round in 1..=2 {
        for number in [2, 3, 4, 5] {
            network.ask(client(number), 53, Ask { request: 100, response: 100, server_closes: false }, true);
        }
        let counts = network.run();
        assert_eq!((counts.fast_opens, counts.fast_opens_accepted), (4 * round, 4 * round));
    }
    assert_eq!(network.done, 12);
}

#[test]
fn linux_refuses_a_port_where_nothing_listens() {
    let mut network = Client::new(Config::default(), 0);
    for number in [2, 3] {
        network.ask(client(number), 54, Ask { request: 1, response: 1, server_closes: false }, false);
    }
    network.run();
    assert_eq!(network.failed, [Failure::Refused; 2]);
    assert!(network.tcp.is_empty());
}

#[test]
fn rfc_9293_section_3_5_1_a_tuple_of_which_linux_has_an_older_connection_is_opened_all_the_same() {
    let mut network = Client::new(Config::default(), 0);
    let ask = Ask { request: 100, response: 100, server_closes: false };
    let mut addresses = Vec::new();
    for _ in 0..2 {
        // A machine that begins anew draws the same port, and knows nothing of what the one before has left open.
        network.tcp = Tcp::new(Config::default());
        network.ask(client(2), 53, ask, false);
        let &at = network.askers.keys().next().unwrap();
        addresses.push(network.tcp.tuple(at));
        if addresses.len() == 1 {
            while network.tcp.counts().established == 0 {
                network.send();
                let _ = network.poll.wait(100 * MS).unwrap().count();
                network.receive();
            }
            network.send();
            network.askers.clear();
        }
    }
    let counts = network.run();
    assert_eq!((network.done, addresses[0]), (1, addresses[1]));
    assert!(counts.bad_acknowledgements >= 1 && counts.resets_out >= 1, "{counts:?}");
}
