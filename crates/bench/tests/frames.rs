//! The parts that send and answer frames, on a link of their own.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ldplayer_net::namespace::Namespace;
use ldplayer_net::packets::{Filter, FrameRing, FrameSender, Interface, SenderKind};
use ldplayer_net::poll::Poll;
use ldplayer_net::tun::Tun;
use ldplayer_net::veth::{self, CLIENT_MAC, CLIENTS};
use ldplayer_stack::frame::{Check, Content, Ethernet, Link, Transport, udp};

const SERVER: &str = "203.0.113.9:5300";
/// Only a fault makes a test wait for so long, in nanoseconds.
const LONG: i64 = 30_000_000_000;
/// The options of a part for each kind of packet socket.
const KINDS: [&[&str]; 2] = [&[], &["--xdp"]];

fn linked() -> Namespace {
    let namespace = Namespace::create().unwrap();
    veth::connect(&namespace, veth::MTU).unwrap();
    namespace
}

fn part(namespace: &Namespace, arguments: &[&str], kind: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer-bench"));
    command.args(arguments).args(kind).stdout(Stdio::piped()).stderr(Stdio::piped());
    namespace.start_in(&mut command).unwrap();
    command
}

fn text(output: &Output) -> (String, String) {
    let [out, err] = [&output.stdout, &output.stderr].map(|octets| String::from_utf8(octets.clone()).unwrap());
    (out, err)
}

/// A responder that answers until this value is dropped.
struct Reflector(Child);

impl Reflector {
    fn start(namespace: &Namespace, kind: &[&str]) -> Self {
        let mut child =
            part(namespace, &["reflect", "--interface", "wire0", "--also", "queries0"], kind).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening on wire0\n");
        Self(child)
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn frames_reach_a_socket_from_every_source_in_turn() {
    for kind in KINDS.into_iter().chain([&["--tap"][..]]) {
        let namespace = linked();
        let server = namespace.run(|| UdpSocket::bind(SERVER).unwrap()).unwrap();
        server.set_read_timeout(Some(Duration::from_nanos(LONG as u64))).unwrap();
        let arguments = ["bare-frames", "--to", SERVER, "--sources", "10", "--count", "100"];
        let (out, err) = text(&part(&namespace, &arguments, kind).output().unwrap());
        // Whole batches.
        assert!(out.contains("\"sent\":128") && out.contains("\"dropped\":0"), "{out}{err}");
        let mut sources = HashSet::new();
        for number in 0..128 {
            let mut query = [0; 200];
            let (length, from) = server.recv_from(&mut query).unwrap();
            let expected = IpAddr::from([10, 0, 0, number % 10]);
            assert_eq!(from.ip(), expected, "{kind:?}");
            assert!(
                query[..length]
                    .windows(17)
                    .any(|part| part == format!("q0000000{}\x07example", number % 10).as_bytes())
            );
            sources.insert(from);
        }
        assert_eq!(sources.len(), 10, "all are from the same port");
    }
}

#[test]
fn a_query_comes_back_as_its_answer() {
    for (kind, is_tap) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let namespace = linked();
        let _reflector = Reflector::start(&namespace, kind);
        let (mut sender, mut ring) = namespace
            .run(|| {
                let interface = Interface::find(CLIENTS).unwrap();
                let sender = if is_tap {
                    let tap = Arc::new(Tun::open_tap(veth::QUERIES).unwrap());
                    FrameSender::open_tap(&Interface::find(veth::QUERIES).unwrap(), tap).unwrap()
                } else {
                    FrameSender::open(&interface, SenderKind::Packet).unwrap()
                };
                (sender, FrameRing::open(&interface, &Filter::all(), 1 << 20).unwrap())
            })
            .unwrap();
        // To nobody, so that the kernel does not answer as well.
        let link = Link::new(CLIENT_MAC, [2, 0, 0, 0, 0, 9], None);
        let server: SocketAddr = SERVER.parse().unwrap();
        let client = (IpAddr::from([192, 0, 2, 7]), 4_000);
        let query = *b"\0\x09\x01\0\0\x01\0\0\0\0\0\0\x01x\0\0\x01\0\x01";
        let length = udp::write(sender.room().unwrap(), &link, client, (server.ip(), server.port()), &query).unwrap();
        sender.commit(length);
        assert_eq!(sender.flush().unwrap(), 1);
        let mut poll = Poll::new().unwrap();
        poll.add(&ring, 0).unwrap();
        assert_eq!(poll.wait(LONG).unwrap().count(), 1, "{kind:?}");
        let count = ring.read(9, |frame| {
            let ethernet = Ethernet::read(frame.octets).unwrap();
            let content = Content::read(ethernet.ethertype, ethernet.payload, Check::Verify).unwrap();
            let Content::Transport(from, to, Transport::Udp(datagram)) = content else { panic!("{content:?}") };
            assert_eq!((from, datagram.source_port), (server.ip(), server.port()));
            assert_eq!((to, datagram.destination_port), client);
            let mut answer = query;
            answer[2] |= 0x80;
            assert_eq!(datagram.payload, answer);
        });
        assert_eq!(count, 1);
    }
}

#[test]
fn without_the_interface_a_part_says_which_is_missing() {
    let namespace = Namespace::create().unwrap();
    for arguments in [&["bare-frames", "--to", SERVER][..], &["reflect", "--interface", "clients0"]] {
        let output = part(&namespace, arguments, &[]).output().unwrap();
        let (_, err) = text(&output);
        assert_eq!(output.status.code(), Some(3), "{err}");
        assert!(err.contains("no network interface `clients0`"), "{err}");
    }
}
