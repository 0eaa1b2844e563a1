//! Replays by frames on an interface of this host: on a link with a server, behind a router, and what is refused.

mod link;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use ldplayer_core::Cidr;
use ldplayer_net::netlink::Rule;
use ldplayer_net::programs;
use link::{Asked, CLIENTS, FAR, Host, join, report, trace};

const SERVERS: [&str; 2] = ["192.0.2.53", "2001:db8::53"];
const POOL: &str = "198.18.5.0/24,2001:db8:5::/120";

/// The table of a router that leads to the server behind it.
const BEHIND: u8 = 100;

/// A host of clients and one of servers on the same link, from which every address is a neighbour.
fn pair(mtu: u32) -> [Host; 2] {
    let [clients, servers] = [Host::new(), Host::new()];
    join([(&clients, CLIENTS), (&servers, FAR)], mtu, 1);
    if mtu >= 1_280 {
        SERVERS.into_iter().for_each(|address| servers.address(FAR, address));
        servers.all_on_link(FAR);
    }
    [clients, servers]
}

/// Replays the trace from a host to the servers, and returns the exit status and what was said.
fn replay(host: &Host, folder: &Path, servers: &[&str], more: &[&str]) -> (Option<i32>, String) {
    trace(folder);
    let mut arguments = vec!["replay", "trace.tsv", "-o", "run", "--force"];
    for default in [["--path", "packets"], ["--interface", CLIENTS]] {
        if !more.contains(&default[0]) {
            arguments.extend(default);
        }
    }
    arguments.extend(servers.iter().flat_map(|server| ["--server", server, "--allow-target", server]));
    arguments.extend(["--workers", "2", "--precision", "low"].into_iter().chain(more.iter().copied()));
    let output = host.ldplayer(folder, &arguments);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// All queries were answered, with these servers, and the addresses that asked each are in the pool or out of it.
fn assert_answered(folder: &Path, said: &(Option<i32>, String), asked: &[Asked], is_client: impl Fn(&IpAddr) -> bool) {
    assert!(matches!(said.0, Some(0 | 1)), "{}", said.1);
    let report = report(folder);
    let count = |key: &str| report["summary"]["queries"][key].as_u64();
    assert_eq!([count("trace"), count("answered")], [Some(320); 2], "{}", report["summary"]["queries"]);
    for asked in asked {
        let asked: BTreeSet<IpAddr> = asked.lock().unwrap().clone();
        assert!(asked.len() > 20 && asked.iter().all(&is_client), "{asked:?}");
    }
}

fn in_pool(address: &IpAddr) -> bool {
    POOL.split(',').any(|block| block.parse::<Cidr>().unwrap().contains(*address))
}

#[test]
fn clients_of_a_pool_are_found_on_the_link_by_the_kernel_of_the_server() {
    let [clients, servers] = pair(1_500);
    let asked = SERVERS.map(|address| servers.serve(address));
    let folder = tempfile::tempdir().unwrap();
    let said = replay(&clients, folder.path(), &SERVERS, &["--sources", &format!("pool:{POOL}")]);
    assert_answered(folder.path(), &said, &asked, in_pool);
    assert!(!said.1.contains("router"), "{}", said.1);
}

#[test]
fn servers_are_reached_by_a_router_and_on_the_link_in_one_run() {
    let [clients, router, server] = [Host::new(), Host::new(), Host::new()];
    join([(&clients, CLIENTS), (&router, FAR)], 1_500, 1);
    join([(&server, "up0"), (&router, "down0")], 1_500, 2);
    router.set("ipv4/conf/all/forwarding", "1");
    router.address(FAR, "192.0.2.1");
    router.address(FAR, SERVERS[1]);
    router.all_on_link(FAR);
    router.on("down0", |netlink, index| {
        netlink.add_address(index, "203.0.113.1".parse().unwrap()).unwrap();
        netlink.default_route(false, index, BEHIND).unwrap();
        let to = Some(("203.0.113.53".parse().unwrap(), 32));
        netlink.add_rule(false, &Rule { from: None, to, table: BEHIND, priority: 100 }).unwrap();
    });
    server.address("up0", "203.0.113.53");
    server.route_via("up0", "203.0.113.1");
    let asked = [server.serve("203.0.113.53"), router.serve(SERVERS[1])];
    let folder = tempfile::tempdir().unwrap();
    let more = ["--next-hop", "192.0.2.1", "--sources", &format!("pool:{POOL}")];
    let said = replay(&clients, folder.path(), &["203.0.113.53", SERVERS[1]], &more);
    assert_answered(folder.path(), &said, &asked, in_pool);
}

#[test]
fn clients_with_their_own_addresses_need_a_route_back_and_nothing_is_claimed() {
    let [clients, servers] = pair(1_500);
    let asked = SERVERS.map(|address| servers.serve(address));
    servers.on(FAR, |netlink, index| {
        for gateway in ["192.0.2.9", "2001:db8::9"] {
            // Asked for, nobody would say that these are the host of the clients.
            netlink.add_neighbour(index, gateway.parse().unwrap(), [2, 0, 0, 0, 1, 1]).unwrap();
            netlink.default_via(gateway.parse().unwrap(), index, 254, 0).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let said = replay(&clients, folder.path(), &SERVERS, &["--sources", "original"]);
    let trace: [Cidr; 2] = ["10.9.0.0/24", "2001:db8:9::/64"].map(|block| block.parse().unwrap());
    assert_answered(folder.path(), &said, &asked, |address| trace.iter().any(|block| block.contains(*address)));
}

#[test]
fn a_host_that_forwards_is_warned_of() {
    let [clients, servers] = pair(1_500);
    servers.serve(SERVERS[0]);
    clients.set(&format!("ipv4/conf/{CLIENTS}/forwarding"), "1");
    let folder = tempfile::tempdir().unwrap();
    let (_, said) = replay(&clients, folder.path(), &SERVERS[..1], &["--sources", &format!("pool:{POOL}")]);
    let report = report(folder.path());
    let codes: Vec<_> = report["warnings"].as_array().unwrap().iter().map(|warning| &warning["code"]).collect();
    assert!(codes.iter().any(|code| *code == "forwarding"), "{codes:?} {said}");
}

/// The last line of what was said, with the exit status, must be of the environment.
fn refusal((status, said): (Option<i32>, String), expected: i32) -> String {
    assert_eq!(status, Some(expected), "{said}");
    let line = said.lines().find(|line| line.starts_with("ldplayer: ") || line.starts_with("error: "));
    line.unwrap_or(&said).to_owned()
}

#[test]
fn interfaces_that_carry_no_frames_are_refused_each_in_one_line() {
    let [clients, _servers] = pair(1_500);
    let folder = tempfile::tempdir().unwrap();
    let on = |interface: &str, servers: &[&str]| {
        refusal(replay(&clients, folder.path(), servers, &["--interface", interface]), 3)
    };
    let mtu = |mtu| clients.on(CLIENTS, |netlink, index| netlink.interface_up(index, mtu, 1_000).unwrap());
    assert!(on("none0", &SERVERS).contains("--interface none0: there is no network interface `none0` here"));
    assert!(on("lo", &SERVERS).contains("--interface lo: the network interface lo carries no Ethernet frames"));
    mtu(1_279);
    assert!(on(CLIENTS, &SERVERS).contains("--interface eth0: its MTU is 1279, and IPv6 needs 1280 bytes"));
    mtu(575);
    assert!(on(CLIENTS, &SERVERS[..1]).contains("--interface eth0: its MTU is 575, and IPv4 needs 576 bytes"));
    clients.on(CLIENTS, |netlink, index| netlink.interface_down(index).unwrap());
    assert!(on(CLIENTS, &SERVERS).contains("--interface eth0: the network interface eth0 is down"));
}

#[test]
fn a_neighbour_that_does_not_answer_is_named_with_its_interface() {
    let [clients, servers] = pair(1_500);
    servers.serve(SERVERS[0]);
    let folder = tempfile::tempdir().unwrap();
    for (server, router) in [("192.0.2.99", None), ("2001:db8::99", None), (SERVERS[0], Some("192.0.2.99"))] {
        let router = router.map_or(vec![], |router| vec!["--next-hop", router]);
        let more = [&["--sources", "pool:198.18.5.0/24,2001:db8:5::/120"][..], &router].concat();
        let said = refusal(replay(&clients, folder.path(), &[server], &more), 3);
        let silent = if router.is_empty() { server } else { "192.0.2.99" };
        assert!(said.contains(&format!("--path packets: {silent} does not answer on eth0")), "{said}");
    }
}

#[test]
fn addresses_that_hosts_have_are_no_clients_and_no_servers_of_frames() {
    let [clients, _servers] = pair(1_500);
    clients.address(CLIENTS, "198.18.5.7");
    let folder = tempfile::tempdir().unwrap();
    let with = |server: &str, pool: &str| {
        refusal(replay(&clients, folder.path(), &[server], &["--sources", &format!("pool:{pool}")]), 3)
    };
    assert!(with(SERVERS[0], "198.18.5.0/24").contains("--sources pool: 198.18.5.7 is an address of this host"));
    assert!(with(SERVERS[0], "192.0.2.0/24").contains("--sources pool: 192.0.2.53 is the address of the server"));
    let own = with("198.18.5.7", "198.18.6.0/24");
    assert!(own.contains("--interface eth0: 198.18.5.7 is an address of this host"), "{own}");
}

#[test]
fn options_of_an_interface_need_the_path_of_packets() {
    let [clients, _servers] = pair(1_500);
    let folder = tempfile::tempdir().unwrap();
    let refused = |more: &[&str]| refusal(replay(&clients, folder.path(), &SERVERS, more), 2);
    let sockets = refused(&["--path", "sockets"]);
    assert!(sockets.contains("--interface: needs --path packets"), "{sockets}");
    let started = refused(&["--start-server", "true"]);
    assert!(started.contains("--interface: a server of --start-server"), "{started}");
    let two = refused(&["--next-hop", "192.0.2.1,192.0.2.2"]);
    assert!(two.contains("--next-hop: give one address of IPv4"), "{two}");
}

#[test]
fn without_the_right_to_packet_sockets_the_right_is_named() {
    let [clients, servers] = pair(1_500);
    servers.serve(SERVERS[0]);
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path());
    let setpriv = programs::find("setpriv").unwrap();
    let mut command = std::process::Command::new(setpriv);
    command.current_dir(folder.path()).args(["--bounding-set", "-net_raw", env!("CARGO_BIN_EXE_ldplayer")]);
    command.args(["replay", "trace.tsv", "-o", "run", "--path", "packets", "--interface", CLIENTS]);
    command.args(["--server", SERVERS[0], "--allow-target", SERVERS[0], "--sources", "pool:198.18.5.0/24"]);
    clients.0.start_in(&mut command).unwrap();
    let output = command.output().unwrap();
    let said = refusal((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()), 3);
    assert!(said.contains("--path packets: ") && said.contains("cap_net_raw"), "{said}");
}
