//! Testbeds with real namespaces: what programs in them see, and that nothing leaves them.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options, Server};
use ldplayer_emulate::stock::{Kind, StockSettings};
use ldplayer_emulate::testbed::{CLIENTS, INTERNET, Plan, RESOLVER, Testbed, TestbedError};
use ldplayer_emulate::wire::{Forwarder, Host, HostId, LinkSpec, Precision, ProxySettings, Settings, Wire, WirePath};
use ldplayer_net::namespace::Namespace;
use ldplayer_net::wiring::Wiring;

/// A test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

fn plan(rtt: &str) -> Plan {
    let link = LinkSpec { rtt: rtt.parse().unwrap(), ..LinkSpec::default() };
    let paths = vec![
        WirePath { far: CLIENTS, near: RESOLVER, link: link.clone() },
        WirePath { far: CLIENTS, near: INTERNET, link },
    ];
    Plan { paths, ..Plan::default() }
}

/// A UDP socket on a host.
fn udp(testbed: &Testbed, host: &str, address: &str) -> UdpSocket {
    let socket = testbed.run(host, || UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 65_535];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    buffer.truncate(length);
    (buffer, from)
}

#[test]
fn delays_are_exact_in_the_time_of_the_wire() {
    const MS: i64 = 1_000_000;
    let host = |name: &str, own: &str, learns| Host { name: name.into(), owns: vec![own.parse().unwrap()], learns };
    let link = LinkSpec { rtt: "20ms".parse().unwrap(), ..LinkSpec::default() };
    let settings = Settings {
        hosts: vec![host("clients", "10.53.0.1", true), host("server", "198.51.100.1", false)],
        paths: vec![WirePath { far: HostId(0), near: HostId(1), link }],
        ..Settings::default()
    };
    let wiring = Wiring { addresses: Vec::new(), any_ip: true, mtu: 1_500, queues: 1 };
    let namespaces = [Namespace::create().unwrap(), Namespace::create().unwrap()];
    let tuns = namespaces.iter().map(|namespace| wiring.connect(namespace).unwrap()).collect();
    let mut forwarder = Forwarder::new(Wire::new(&settings), tuns, Precision::Normal, None);
    let socket = |at: usize, address: &str| {
        let socket = namespaces[at].run(|| UdpSocket::bind(address).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let (client, server) = (socket(0, "192.0.2.7:4000"), socket(1, "198.51.100.1:53"));
    let mut buffer = [0; 100];
    client.send_to(b"ping", "198.51.100.1:53").unwrap();
    for (time, arrives) in [(1_000, false), (999 + 10 * MS, false), (1_000 + 10 * MS, true)] {
        forwarder.turn(&|| time).unwrap();
        assert_eq!(server.recv_from(&mut buffer).is_ok(), arrives, "{time}");
    }
    server.send_to(b"pong", "192.0.2.7:4000").unwrap();
    let sent = 1_000 + 15 * MS;
    for (time, arrives) in [(sent, false), (sent + 10 * MS - 1, false), (sent + 10 * MS, true)] {
        forwarder.turn(&|| time).unwrap();
        assert_eq!(client.recv_from(&mut buffer).is_ok(), arrives, "{time}");
    }
    assert_eq!(forwarder.poll_timeout(), None);
}

#[test]
fn udp_and_tcp_pass_from_any_client_to_any_address_and_back() {
    let testbed = Testbed::up(&plan("2ms")).unwrap();
    for (host, server, client) in [
        ("internet", "198.51.100.1:53", "203.0.113.7:0"),
        ("internet", "[2001:db8::53]:53", "[2001:db8:1::7]:0"),
        ("resolver", "10.53.0.2:53", "192.0.2.7:0"),
        ("resolver", "[fd53::2]:53", "[2001:db8::7]:0"),
    ] {
        let (echo, asker) = (udp(&testbed, host, server), udp(&testbed, "clients", client));
        asker.send_to(b"question", server).unwrap();
        assert_eq!(receive(&echo), (b"question".to_vec(), asker.local_addr().unwrap()));
        echo.send_to(b"answer", asker.local_addr().unwrap()).unwrap();
        assert_eq!(receive(&asker), (b"answer".to_vec(), server.parse().unwrap()), "{server}");

        let listener = testbed.run(host, || TcpListener::bind(server)).unwrap().unwrap();
        let mut stream = testbed.run("clients", || TcpStream::connect(server)).unwrap().unwrap();
        let (mut accepted, peer) = listener.accept().unwrap();
        assert_eq!(peer, stream.local_addr().unwrap());
        let octets: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
        let expected = octets.clone();
        let writer = std::thread::spawn(move || stream.write_all(&octets).map(|()| stream));
        let mut read = vec![0; expected.len()];
        accepted.set_read_timeout(Some(PATIENCE)).unwrap();
        accepted.read_exact(&mut read).unwrap();
        assert!(read == expected);
        writer.join().unwrap().unwrap();
    }
    let report = testbed.down().unwrap();
    assert_eq!(
        (report.wire.dropped.total() - report.wire.dropped.link_local, report.unread),
        (0, vec![0, 0, 0]),
        "{:?}",
        report.wire
    );
    assert!(report.wire.tcp_segments > 4 * 200_000 / 1_500);
}

#[test]
fn a_long_datagram_passes_in_fragments() {
    let testbed = Testbed::up(&plan("1ms")).unwrap();
    for (server, client, each) in [("198.51.100.1:53", "192.0.2.7:0", 3), ("[2001:db8::53]:53", "[2001:db8:1::7]:0", 3)]
    {
        let (server_socket, asker) = (udp(&testbed, "internet", server), udp(&testbed, "clients", client));
        let before = testbed.report().unwrap().wire.fragments;
        let long: Vec<u8> = (0..4_000_u32).map(|number| (number * 7) as u8).collect();
        asker.send_to(&long, server).unwrap();
        assert_eq!(receive(&server_socket).0, long);
        server_socket.send_to(&long, asker.local_addr().unwrap()).unwrap();
        assert_eq!(receive(&asker).0, long);
        assert_eq!(testbed.report().unwrap().wire.fragments - before, 2 * each, "{server}");
    }
}

#[test]
fn what_is_sent_outside_is_counted_as_a_leak_and_goes_nowhere() {
    let testbed = Testbed::up(&Plan::default()).unwrap();
    let outside = ["8.8.8.8:53", "[2001:4860:4860::8888]:53", "1.1.1.1:443"];
    for host in ["clients", "resolver", "internet"] {
        for (address, own) in outside.into_iter().zip(["0.0.0.0:0", "[::]:0", "0.0.0.0:0"]) {
            udp(&testbed, host, own).send_to(b"leak", address).unwrap();
        }
        // A loopback and the wire: there is no third way.
        let devices = testbed.run(host, || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
        let mut names: Vec<&str> = devices.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
        names.sort_unstable();
        assert_eq!(names, ["lo", "wire0"], "{host}");
    }
    let report = testbed.down().unwrap();
    let mut leaks: Vec<(String, String, u64)> = report
        .wire
        .leaks
        .iter()
        .map(|leak| {
            let destination = SocketAddr::new(leak.destination, leak.port.unwrap());
            (leak.host.clone(), destination.to_string(), leak.count)
        })
        .collect();
    leaks.sort_unstable();
    let mut expected: Vec<(String, String, u64)> = ["clients", "resolver", "internet"]
        .iter()
        .flat_map(|host| outside.map(|address| ((*host).to_owned(), address.to_owned(), 1)))
        .collect();
    expected.sort_unstable();
    assert_eq!(leaks, expected);
    assert_eq!((report.wire.dropped.leaked, report.wire.delivered()), (9, 0));
}

#[test]
fn a_leak_to_an_address_that_a_client_had_is_a_leak() {
    let testbed = Testbed::up(&Plan::default()).unwrap();
    // A recorded client that is a public resolver in the world outside.
    let recorded = udp(&testbed, "clients", "8.8.8.8:53");
    let resolver = udp(&testbed, "resolver", "10.53.0.2:53");
    recorded.send_to(b"question", "10.53.0.2:53").unwrap();
    let (question, client) = receive(&resolver);
    let response = [&[0, 0, 0x80], &question[..]].concat();
    let forwards = |from: &str| udp(&testbed, "resolver", from).send_to(&[0; 20], "8.8.8.8:53").unwrap();
    forwards("10.53.0.2:4000");
    drop(resolver);
    forwards("10.53.0.2:53");
    let connect = || TcpStream::connect_timeout(&"8.8.8.8:53".parse().unwrap(), Duration::from_millis(1));
    assert!(testbed.run("resolver", connect).unwrap().is_err());
    udp(&testbed, "resolver", "10.53.0.2:53").send_to(&response, client).unwrap();
    assert_eq!(receive(&recorded).0, response);
    let wire = testbed.down().unwrap().wire;
    let leaks: Vec<(String, u8, Option<u16>)> =
        wire.leaks.iter().map(|leak| (leak.destination.to_string(), leak.protocol, leak.port)).collect();
    assert_eq!(leaks, [17, 6].map(|protocol| ("8.8.8.8".to_owned(), protocol, Some(53))));
    assert_eq!((wire.leaks[0].count, wire.hosts[0].delivered.packets), (2, 1));
}

#[test]
fn two_resolvers_reach_one_server_through_the_proxies() {
    let mut plan = Plan::default();
    plan.hosts[1].addresses.extend(["10.53.0.22", "fd53::22"].map(|address| address.parse::<IpAddr>().unwrap()));
    let peers = vec!["10.53.0.3".parse().unwrap(), "fd53::3".parse().unwrap()];
    // Root servers are the Internet's.
    let roots = ["198.41.0.4", "192.33.4.12", "2001:503:ba3e::2:30"];
    plan.hosts[2].owns.extend(roots.map(|root| root.parse::<ldplayer_core::Cidr>().unwrap()));
    plan.proxies = Some(ProxySettings { resolver: RESOLVER, server: INTERNET, peers, port: 53 });
    let testbed = Testbed::up(&plan).unwrap();
    for (server, root, resolvers) in [
        ("10.53.0.3:53", "198.41.0.4:53", ["10.53.0.2:4000", "10.53.0.22:4000"]),
        ("[fd53::3]:53", "[2001:503:ba3e::2:30]:53", ["[fd53::2]:4000", "[fd53::22]:4000"]),
    ] {
        let root: SocketAddr = root.parse().unwrap();
        let authoritative = udp(&testbed, "internet", server);
        let askers = resolvers.map(|resolver| udp(&testbed, "resolver", resolver));
        for (asker, name) in askers.iter().zip(resolvers) {
            asker.send_to(name.as_bytes(), root).unwrap();
        }
        for _ in resolvers {
            let (question, client) = receive(&authoritative);
            assert_eq!(client.ip(), root.ip(), "the server sees the address that was asked");
            // An answer that is sent in fragments, to see that they find the right resolver.
            authoritative.send_to(&question.repeat(200), client).unwrap();
        }
        for (asker, name) in askers.iter().zip(resolvers) {
            assert_eq!(receive(asker), (name.as_bytes().repeat(200), root));
        }
        let listener = testbed.run("internet", || TcpListener::bind(server)).unwrap().unwrap();
        let mut stream = testbed.run("resolver", || TcpStream::connect(root)).unwrap().unwrap();
        let (mut accepted, client) = listener.accept().unwrap();
        assert_eq!((client.ip(), stream.peer_addr().unwrap()), (root.ip(), root));
        accepted.write_all(b"answer").unwrap();
        drop(accepted);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"answer");
    }
    // Nobody listens: the resolver hears so from the address that it asked.
    let asker = udp(&testbed, "resolver", "10.53.0.2:4001");
    asker.connect("192.33.4.12:53").unwrap();
    asker.send(b"question").unwrap();
    assert_eq!(asker.recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_capture_has_all_that_was_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.pcap");
    let testbed = Testbed::up(&Plan { capture: Some(path.clone()), ..plan("1ms") }).unwrap();
    let (server, asker) = (udp(&testbed, "internet", "198.51.100.1:53"), udp(&testbed, "clients", "192.0.2.7:0"));
    for _ in 0..10 {
        asker.send_to(b"question", "198.51.100.1:53").unwrap();
        receive(&server);
    }
    let report = testbed.down().unwrap();
    let capture = std::fs::read(path).unwrap();
    let packets = report.captured.unwrap();
    assert_eq!(packets, report.wire.delivered());
    let octets: u64 = report.wire.hosts.iter().map(|host| host.delivered.bytes).sum();
    assert_eq!(capture.len() as u64, 24 + 16 * packets + octets);
}

#[test]
fn a_plan_with_too_many_hosts_is_refused() {
    let mut plan = Plan::default();
    plan.hosts = vec![plan.hosts[0].clone(); 17];
    assert!(matches!(Testbed::up(&plan), Err(TestbedError::TooManyHosts(17))));
}

#[test]
fn an_unknown_host_is_told_with_those_there_are() {
    let testbed = Testbed::up(&Plan::default()).unwrap();
    let error = testbed.namespace("root").unwrap_err().to_string();
    assert_eq!(error, "no host `root` in the testbed; its hosts are clients, resolver, internet");
    let said = testbed.command("resolver", "cat").unwrap().arg("/proc/net/dev").output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("wire0"));
}

/// A zone set of a root and of zones below it, each with one name server and `www`.
fn zones(directory: &Path, children: &[(&str, &str)]) -> ZoneSet {
    let mut root =
        ". 60 SOA a. b. 1 2 3 4 60\n. 60 NS a.root-servers.net.\na.root-servers.net. 60 A 198.41.0.4\n".to_owned();
    for (child, address) in children {
        root += &format!("{child}. 60 NS ns.{child}.\nns.{child}. 60 A {address}\n");
        let text = format!("$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A {address}\nwww A 192.0.2.80\n");
        std::fs::write(directory.join(format!("{child}.zone")), text).unwrap();
    }
    std::fs::write(directory.join("root.zone"), root).unwrap();
    ZoneSet::load(directory).unwrap()
}

/// What the Internet owns is what the zones' name servers have.
fn owning(set: &ZoneSet) -> Plan {
    let mut plan = Plan::default();
    plan.hosts[usize::from(INTERNET.0)].owns =
        set.addresses().iter().map(|address| address.to_string().parse().unwrap()).collect();
    plan
}

/// Response code and number of answers that the resolver gives a client for an address record.
fn resolve(testbed: &Testbed, name: &str) -> (u8, u8) {
    let asker = udp(testbed, "clients", "0.0.0.0:0");
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    ldplayer_core::name::parse(name, &mut query).unwrap();
    query.extend_from_slice(&[0, 1, 0, 1]);
    asker.send_to(&query, "10.53.0.2:53").unwrap();
    let (answer, _) = receive(&asker);
    (answer[3] & 0x0f, answer[7])
}

#[test]
fn a_reload_makes_new_name_servers_reachable_and_lets_go_of_old_ones() {
    let (folder, [old, new]) = (tempfile::tempdir().unwrap(), ["203.0.113.1", "203.0.113.2"]);
    let set = zones(folder.path(), &[("first", old)]);
    let testbed = Testbed::up(&owning(&set)).unwrap();
    let server = testbed.run("internet", || Server::start(set, &Options::default())).unwrap().unwrap();
    let work = || {
        let unbound = Kind::UNBOUND.with(StockSettings { qname_minimisation: false, ..StockSettings::default() });
        let running = unbound.start(&["10.53.0.2:53".parse().unwrap()]).unwrap();
        assert_eq!(resolve(&testbed, "www.first."), (0, 1));
        std::fs::remove_file(folder.path().join("first.zone")).unwrap();
        let set = zones(folder.path(), &[("second", new)]);
        let plan = owning(&set);
        server.replace(set, None);
        testbed.replace_owners(&plan).unwrap();
        assert_eq!(resolve(&testbed, "www.second."), (0, 1));
        drop(running);
    };
    testbed.run("resolver", work).unwrap();
    // Nobody has heard of this server, however often the resolver asked it before.
    udp(&testbed, "resolver", "0.0.0.0:0").send_to(b"anybody there?", (old, 53)).unwrap();
    let wire = testbed.down().unwrap().wire;
    let leaks: Vec<String> = wire.leaks.iter().map(|leak| leak.destination.to_string()).collect();
    assert_eq!((leaks, wire.dropped.leaked), (vec![old.to_owned()], 1));
    server.stop();
}
