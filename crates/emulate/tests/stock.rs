//! Real servers, started with the bundled root zone on loopback.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{QUESTION, SERIAL, ask_tcp, ask_udp, ask_udp_from, end, free, free_v4, resolvers, root_zone, runs, write};
use ldplayer_emulate::stock::{Kind, StockError, StockServer, StockSettings, Zone};

/// Tells a test of this file to start this server and wait to be killed.
const ROLE: &str = "LDPLAYER_TEST_SERVER";

/// An IPv4 address, and an IPv6 one where this host has any.
fn free_addresses() -> Vec<SocketAddr> {
    let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
    let has_v6 = UdpSocket::bind((v6, 0)).is_ok();
    std::iter::once(free_v4()).chain(has_v6.then(|| free(v6))).collect()
}

fn authoritative(name: &str, zones: Vec<Zone>) -> StockServer {
    match name {
        "nsd" => Kind::NSD.serving(zones),
        "knot" => Kind::KNOT.serving(zones),
        "bind" => Kind::BIND.serving(zones),
        _ => panic!("{name}: no such server"),
    }
}

fn serves_the_root_zone(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let stock = authoritative(name, vec![Zone::new(".", root_zone(directory.path()))]);
    let addresses = free_addresses();
    let server = stock.start(&addresses).unwrap();
    for &address in &addresses {
        for answer in [ask_udp(address, &QUESTION), ask_tcp(address, &QUESTION)] {
            assert_eq!(answer[..2], [0, 1]);
            assert_eq!(answer[2] & 0x84, 0x84, "an authoritative answer");
            assert_eq!(answer[3] & 0x0f, 0, "NOERROR");
            assert!(answer.windows(4).any(|octets| octets == SERIAL.to_be_bytes()), "the serial in {answer:?}");
        }
    }
    end(server);
}

fn tells_of_a_broken_zone(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let text = "$TTL 3600\n@ SOA ns.example. mail.example. 1 2 3 4 5\n@ NS ns\nns A 192.0.2.999\n";
    let good = write(directory.path(), "good.zone", text.replace("999", "9").as_bytes());
    let broken = write(directory.path(), "broken.zone", text.as_bytes());
    let zones = vec![Zone::new("example.", good), Zone::new("example.net.", &broken)];
    let error = authoritative(name, zones).start(&free_addresses()).unwrap_err();
    let StockError::Zone { reason, .. } = &error else { panic!("{error}") };
    assert!(reason.contains(broken.to_str().unwrap()) && reason.contains('4'), "file and line: {error}");
    assert!(!error.to_string().contains('\n'), "{error}");
}

fn refuses_a_taken_port(stock: &StockServer) {
    let (address, other) = (free_v4(), free_v4());
    // The other server answers all along, and so could pass for this one.
    let foreign = Kind::NSD.serving(Vec::new()).start(&[address]).unwrap();
    let error = stock.start(&[other, address]).unwrap_err();
    assert!(matches!(error, StockError::Taken { transport: "UDP", .. }), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert_eq!(ask_udp(address, &QUESTION)[..2], [0, 1], "the other server is left alone");
    end(foreign);
}

/// In a process of its own that is killed: see `a_server_for_a_process_that_is_killed`.
fn ends_with_a_killed_parent(name: &str) {
    // Nobody removes what a killed process leaves behind but this one.
    let scratch = tempfile::tempdir().unwrap();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_for_a_process_that_is_killed", "--nocapture"])
        .env(ROLE, name)
        .env("TMPDIR", scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The harness may have begun the line with the test's name.
    let told = lines.filter_map(|line| line.split_once("pids:").map(|(_, pids)| pids.to_owned())).next().unwrap();
    let pids: Vec<u32> = told.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(!pids.is_empty());
    parent.kill().unwrap();
    parent.wait().unwrap();
    // A server that lived on would hang the test here, which says so.
    while let Some(pid) = pids.iter().find(|&&pid| runs(pid)) {
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        std::thread::yield_now();
    }
}

/// Nothing by itself: the other side of `ends_with_a_killed_parent`.
#[test]
fn a_server_for_a_process_that_is_killed() {
    let Ok(name) = std::env::var(ROLE) else { return };
    let server = match name.as_str() {
        name if name.parse::<Kind>().is_ok() => {
            name.parse::<Kind>().unwrap().with(StockSettings::default()).start(&free_addresses())
        }
        name => authoritative(name, Vec::new()).start(&free_addresses()),
    };
    let pids: Vec<_> = server.as_ref().unwrap().ids().iter().map(u32::to_string).collect();
    println!("pids:{}", pids.join(" "));
    // Until the other side kills this process, or ends itself.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

macro_rules! tests_of {
    ($($server:ident),*) => {$(
        mod $server {
            #[test]
            fn serves_the_root_zone() {
                super::serves_the_root_zone(stringify!($server));
            }
            #[test]
            fn tells_of_a_broken_zone() {
                super::tells_of_a_broken_zone(stringify!($server));
            }
            #[test]
            fn refuses_a_taken_port() {
                super::refuses_a_taken_port(&super::authoritative(stringify!($server), Vec::new()));
            }
            #[test]
            fn ends_with_a_killed_parent() {
                super::ends_with_a_killed_parent(stringify!($server));
            }
        }
    )*};
}
tests_of!(nsd, knot, bind);

#[test]
fn nsd_has_workers_that_are_known() {
    let server = Kind::NSD.serving(Vec::new()).start(&free_addresses()).unwrap();
    assert!(server.ids().len() > 1 && server.ids()[0] == server.id(), "{:?}", server.ids());
    end(server);
}

#[test]
fn bind_takes_views() {
    let directory = tempfile::tempdir().unwrap();
    let zone = root_zone(directory.path());
    let address = free_v4();
    let view = |name: &str, who: &str, zone: &str| format!("view {name} {{ match-clients {{ {who}; }}; {zone} }};\n");
    let root = format!("zone \".\" {{ type primary; file \"{}\"; }};", zone.display());
    let text = Kind::BIND.head(Path::new("."), &[address]).unwrap()
        + &view("first", "127.0.0.2", &root)
        + &view("second", "any", "");
    let server = Kind::BIND.configured(text, Vec::new()).start(&[address]).unwrap();
    let rcode_for = |source| ask_udp_from(IpAddr::from(source), address, &QUESTION)[3] & 0x0f;
    assert_eq!(rcode_for([127, 0, 0, 1]), 5, "REFUSED in the view without the zone");
    // A zone answers SERVFAIL until it is loaded, and a complete configuration names none to wait for.
    while rcode_for([127, 0, 0, 2]) == 2 {}
    assert_eq!(rcode_for([127, 0, 0, 2]), 0);
    end(server);
}

#[test]
fn resolvers_refuse_a_taken_port() {
    for kind in resolvers() {
        refuses_a_taken_port(&kind.with(StockSettings::default()));
    }
}

#[test]
fn resolvers_end_with_a_killed_parent() {
    resolvers().iter().for_each(|kind| ends_with_a_killed_parent(kind.name()));
}

#[test]
fn resolvers_whose_configuration_is_nonsense_are_quoted() {
    for kind in resolvers().into_iter().filter(|&kind| kind != Kind::UNBOUND) {
        let told = StockSettings { extra: "no-such-option = 1 +".to_owned(), ..StockSettings::default() };
        let error = kind.with(told).start(&free_addresses()).unwrap_err().to_string();
        assert!(error.contains("ended (exit status: 1)") && !error.contains('\n'), "{error}");
        assert!(error.contains("no-such-option") || error.contains("configuration"), "{error}");
    }
}

#[test]
fn unbound_tells_of_its_root_hints() {
    let missing =
        Kind::UNBOUND.with(StockSettings { root_hints: Some("no/such.hints".into()), ..StockSettings::default() });
    let error = missing.start(&free_addresses()).unwrap_err().to_string();
    assert!(error.starts_with("no/such.hints: "), "{error}");
    let nonsense = Kind::UNBOUND
        .with(StockSettings { extra: "server:\n  no-such-option: 1".to_owned(), ..StockSettings::default() });
    let error = nonsense.start(&free_addresses()).unwrap_err().to_string();
    assert!(error.contains("ended (exit status: 1)") && error.contains("configuration"), "{error}");
}

#[test]
fn a_work_directory_that_is_given_stays() {
    let directory = tempfile::tempdir().unwrap();
    end(Kind::KNOT.serving(Vec::new()).start_in(&free_addresses(), directory.path()).unwrap());
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(log.contains("Knot DNS"), "{log}");
    assert!(directory.path().join("configuration").is_file());
}
