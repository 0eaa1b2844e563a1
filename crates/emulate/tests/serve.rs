//! The meta-DNS-server on loopback: zones by address, UDP and TCP, reloads, what it counts.

#[path = "common/mod.rs"]
#[allow(dead_code)]
mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{PATIENCE, ask_tcp, ask_udp, free};
use ldplayer_core::{Message, name};
use ldplayer_emulate::serve::coverage::Coverage;
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options, ServeError, Server, everything};

const A: u16 = 1;
const DS: u16 = 43;
const NOERROR: u16 = 0;
const NXDOMAIN: u16 = 3;
const REFUSED: u16 = 5;

/// A parent and its child on one address, the child on another one and on IPv6, too, and an unrelated zone.
const ZONES: [(&str, &str); 3] = [
    (
        "example",
        "@ NS ns\nns A 127.0.0.2\nsub NS ns\nsub NS ns.sub\nns.sub A 127.0.0.3\nns.sub AAAA ::1\nsub DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000000",
    ),
    ("sub.example", "@ NS ns.example.\n@ NS ns\nns A 127.0.0.3\nns AAAA ::1\nwww A 192.0.2.1\nnever A 192.0.2.2"),
    ("other.test", "@ NS ns\nns A 127.0.0.4\n*.wild A 192.0.2.3"),
];

fn write(directory: &Path, zones: &[(&str, &str)]) {
    for (apex, text) in zones {
        let text = format!("$TTL 60\n$ORIGIN {apex}.\n@ SOA ns hostmaster 1 3600 900 604800 60\n{text}\n");
        fs::write(directory.join(format!("{apex}.zone")), text).unwrap();
    }
}

fn set(zones: &[(&str, &str)]) -> ZoneSet {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), zones);
    ZoneSet::load(directory.path()).unwrap()
}

/// A server of [`ZONES`] and its port.
fn server(options: Options) -> (Server, u16) {
    let port = free([0; 4].into()).port();
    let server = Server::start(set(&ZONES), &Options { listen: everything(port), ..options }).unwrap();
    (server, port)
}

fn query(id: u16, qname: &str, qtype: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    name::parse(qname, &mut message).unwrap();
    message.extend_from_slice(&[&qtype.to_be_bytes()[..], &[0, 1]].concat());
    message
}

/// Response code, AA, and records of the answer section.
fn shown(answer: &[u8]) -> (u16, bool, u16) {
    let message = Message::new(answer).unwrap();
    (message.rcode(), message.has(0x0400), message.counts()[1])
}

/// The answer over UDP, which must be that over TCP.
fn ask(server: SocketAddr, qname: &str, qtype: u16) -> (u16, bool, u16) {
    let question = query(7, qname, qtype);
    let (udp, tcp) = (ask_udp(server, &question), ask_tcp(server, &question));
    assert_eq!(udp, tcp, "{qname} at {server}");
    shown(&udp)
}

#[test]
fn the_address_says_which_zones_answer() {
    let (server, port) = server(Options { workers: 2, ..Options::default() });
    for (address, qname, qtype, expected) in [
        ("127.0.0.2", "www.sub.example", A, (NOERROR, true, 1)),
        ("127.0.0.2", "missing.example", A, (NXDOMAIN, true, 0)),
        ("127.0.0.2", "sub.example", DS, (NOERROR, true, 1)),
        ("127.0.0.3", "www.sub.example", A, (NOERROR, true, 1)),
        ("127.0.0.3", "sub.example", DS, (NOERROR, true, 0)),
        ("127.0.0.3", "example", A, (REFUSED, false, 0)),
        ("::1", "www.sub.example", A, (NOERROR, true, 1)),
        ("127.0.0.4", "a.wild.other.test", A, (NOERROR, true, 1)),
        ("127.0.0.4", "www.sub.example", A, (REFUSED, false, 0)),
        ("127.0.0.5", "www.sub.example", A, (REFUSED, false, 0)),
    ] {
        let asked = SocketAddr::new(address.parse().unwrap(), port);
        assert_eq!(ask(asked, qname, qtype), expected, "{qname} {qtype} at {address}");
    }
    let coverage = server.stop();
    assert_eq!((coverage.queries, coverage.transports["udp"], coverage.transports["tcp"]), (20, 10, 10));
    assert_eq!((coverage.rcodes["NOERROR"], coverage.rcodes["REFUSED"], coverage.ignored), (12, 6, 0));
    assert_eq!((coverage.levels["none"]["REFUSED"], coverage.levels["tld"]["NXDOMAIN"]), (6, 2));
    let unknown: Vec<_> =
        coverage.unknown.iter().map(|one| (one.name.as_str(), one.qtype.as_str(), one.count)).collect();
    assert_eq!(unknown, [("www.sub.example.", "A", 4), ("example.", "A", 2)]);
}

#[test]
fn everywhere_means_every_zone_at_every_address() {
    let (server, port) = server(Options { everywhere: true, ..Options::default() });
    for (qname, rcode) in [("www.sub.example", NOERROR), ("x.other.test", NXDOMAIN), ("test", REFUSED)] {
        assert_eq!(ask(SocketAddr::new([127, 0, 0, 9].into(), port), qname, A).0, rcode, "{qname}");
    }
    drop(server);
}

#[test]
fn what_is_never_asked_for_is_listed_across_a_reload() {
    let (server, port) = server(Options { marks: true, ..Options::default() });
    let asked = SocketAddr::new([127, 0, 0, 3].into(), port);
    let names = |coverage: &Coverage| -> Vec<String> {
        let unasked = coverage.unasked.as_ref().unwrap().iter();
        unasked.filter(|one| one.zone == "sub.example.").map(|one| format!("{} {}", one.name, one.rtype)).collect()
    };
    let all = [
        "sub.example. NS",
        "sub.example. SOA",
        "never.sub.example. A",
        "ns.sub.example. A",
        "ns.sub.example. AAAA",
        "www.sub.example. A",
    ];
    let mut before = names(&server.coverage());
    before.sort_unstable();
    let mut expected = all.map(str::to_owned).to_vec();
    expected.sort_unstable();
    assert_eq!(before, expected);
    ask(asked, "www.sub.example", A);
    // Another order of records, so that they have other places.
    let changed = ZONES.map(|(apex, text)| (apex, format!("{text}\naaa TXT new")));
    server.replace(set(&changed.each_ref().map(|(apex, text)| (*apex, text.as_str()))), None);
    let after = names(&server.coverage());
    assert!(!after.contains(&"www.sub.example. A".to_owned()), "{after:?}");
    assert!(
        after.contains(&"never.sub.example. A".to_owned()) && after.contains(&"aaa.sub.example. TXT".to_owned()),
        "{after:?}"
    );
}

#[test]
fn no_query_is_lost_while_zones_are_read_anew() {
    const RELOADS: usize = 30;
    let (server, port) = server(Options { workers: 2, ..Options::default() });
    let asked = SocketAddr::new([127, 0, 0, 3].into(), port);
    let done = AtomicBool::new(false);
    let lockstep = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(PATIENCE).unwrap();
        socket.connect(asked).unwrap();
        let mut stream = TcpStream::connect(asked).unwrap();
        stream.set_read_timeout(PATIENCE).unwrap();
        let (mut count, mut answer) = (0_u64, [0; 512]);
        while !done.load(Ordering::Relaxed) {
            let question = query(count as u16, "www.sub.example", A);
            socket.send(&question).unwrap();
            let framed = [&(question.len() as u16).to_be_bytes()[..], &question].concat();
            stream.write_all(&framed).unwrap();
            let length = socket.recv(&mut answer).unwrap();
            assert_eq!((&answer[..2], shown(&answer[..length])), (&question[..2], (NOERROR, true, 1)));
            let mut prefix = [0; 2];
            stream.read_exact(&mut prefix).unwrap();
            let length = usize::from(u16::from_be_bytes(prefix));
            stream.read_exact(&mut answer[..length]).unwrap();
            assert_eq!(shown(&answer[..length]), (NOERROR, true, 1));
            count += 2;
        }
        count
    };
    let total: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(lockstep)).collect();
        for _ in 0..RELOADS {
            server.replace(set(&ZONES), None);
        }
        done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let coverage = server.stop();
    assert_eq!((coverage.queries, coverage.zones.iter().map(|zone| zone.queries).sum::<u64>()), (total, total));
    assert!(coverage.tcp.accepted == 3 && coverage.unknown.is_empty());
}

#[test]
fn a_thousand_pipelined_queries_are_answered_in_one_go() {
    let (_server, port) = server(Options::default());
    let mut stream = TcpStream::connect((IpAddr::from([127, 0, 0, 3]), port)).unwrap();
    stream.set_read_timeout(PATIENCE).unwrap();
    let asked: Vec<u8> = (0..1_000_u16)
        .flat_map(|id| {
            let question = query(id, "www.sub.example", A);
            [&(question.len() as u16).to_be_bytes()[..], &question].concat()
        })
        .collect();
    stream.write_all(&asked).unwrap();
    for id in 0..1_000_u16 {
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!((&answer[..2], shown(&answer).0), (&id.to_be_bytes()[..], NOERROR));
    }
}

#[test]
fn messages_that_are_no_queries_are_left_alone() {
    let (server, port) = server(Options::default());
    let asked = SocketAddr::new([127, 0, 0, 3].into(), port);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(asked).unwrap();
    let mut response = query(1, "www.sub.example", A);
    response[2] |= 0x80;
    for message in [&response[..], &[0; 11], &[]] {
        socket.send(message).unwrap();
    }
    assert_eq!(ask(asked, "www.sub.example", A).0, NOERROR);
    let mut stream = TcpStream::connect(asked).unwrap();
    stream.set_read_timeout(PATIENCE).unwrap();
    stream.write_all(&[&[0, response.len() as u8], &response[..]].concat()).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "the connection is closed");
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 9]).is_err());
    let coverage = server.stop();
    // Each worker reads its own socket: the one with the three datagrams may have been stopped before it read them.
    assert!((1..=4).contains(&coverage.ignored), "{}", coverage.ignored);
}

#[test]
fn a_taken_port_is_told() {
    let address = free([127, 0, 0, 1].into());
    let options = Options { listen: vec![address], ..Options::default() };
    let first = Server::start(set(&ZONES), &options).unwrap();
    let error = Server::start(set(&ZONES), &options).err().unwrap();
    assert!(matches!(error, ServeError::Taken(_)), "{error}");
    assert!(error.to_string().contains(&address.to_string()) && error.to_string().contains("--listen"), "{error}");
    drop(first);
    Server::start(set(&ZONES), &options).unwrap();
}
