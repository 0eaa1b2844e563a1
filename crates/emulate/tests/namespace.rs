//! Stock servers in a namespace, where the root servers have their own addresses and nothing can leave. Without the
//! test harness: it runs tests in threads, and only a process with one thread may make a user namespace.

#[allow(dead_code, reason = "this test needs a part of it")]
mod common;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use common::{QUESTION, SERIAL, ask_tcp, ask_udp, ask_udp_from, end, free_v4, root_zone, write};
use ldplayer_emulate::stock::{Kind, StockServer, StockSettings, Zone};
use ldplayer_net::netns::Testbed;

/// a.root-servers.net and the other twelve in that zone.
const ROOT_SERVERS: [&str; 13] = [
    "198.41.0.4",
    "192.228.79.201",
    "192.33.4.12",
    "199.7.91.13",
    "192.203.230.10",
    "192.5.5.241",
    "192.112.36.4",
    "198.97.190.53",
    "192.36.148.17",
    "192.58.128.30",
    "193.0.14.129",
    "199.7.83.42",
    "202.12.27.33",
];

fn main() {
    Testbed::enter().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let zone = Zone::new(".", root_zone(directory.path()));
    servers_start_without_privileges(&zone);
    unbound_resolves_from_its_root_hints(directory.path(), zone);
}

fn servers_start_without_privileges(zone: &Zone) {
    let zones = || vec![zone.clone()];
    let all: [&StockServer; 3] =
        [&Kind::NSD.serving(zones()), &Kind::KNOT.serving(zones()), &Kind::BIND.serving(zones())];
    for stock in all {
        let address = free_v4();
        let server = stock.start(&[address]).unwrap();
        let answer = ask_udp_from(IpAddr::from([203, 0, 113, 9]), address, &QUESTION);
        assert!(answer.windows(4).any(|octets| octets == SERIAL.to_be_bytes()), "the serial in {answer:?}");
        end(server);
    }
}

fn unbound_resolves_from_its_root_hints(directory: &Path, zone: Zone) {
    let roots: Vec<SocketAddr> = ROOT_SERVERS.map(|root| (root.parse::<IpAddr>().unwrap(), 53).into()).into();
    let authority = Kind::NSD.serving(vec![zone]).start(&roots).unwrap();
    let hints = b". 3600 NS a.root-servers.net.\na.root-servers.net. 3600 A 198.41.0.4\n";
    let root_hints = Some(write(directory, "hints", hints));
    for qname_minimisation in [true, false] {
        let unbound = Kind::UNBOUND.with(StockSettings {
            root_hints: root_hints.clone(),
            qname_minimisation,
            ipv6: false,
            ..StockSettings::default()
        });
        let address = free_v4();
        let server = unbound.start(&[address]).unwrap();
        let mut question = QUESTION;
        question[2] = 1; // RD
        for answer in [ask_udp(address, &question), ask_tcp(address, &question)] {
            assert_eq!((answer[2] & 0x81, answer[3] & 0x8f), (0x81, 0x80), "a resolver's NOERROR: {answer:?}");
            assert!(answer.windows(4).any(|octets| octets == SERIAL.to_be_bytes()), "the serial in {answer:?}");
        }
        end(server);
    }
    end(authority);
}
