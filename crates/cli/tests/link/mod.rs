//! Hosts in network namespaces of their own, joined by Ethernet, with DNS servers on sockets of the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use ldplayer_net::namespace::Namespace;
use ldplayer_net::netlink::{Netlink, VethEnd};
use serde_json::Value;

/// The table that routes what no other does.
const MAIN: u8 = 254;
/// The interface of the clients' host.
pub const CLIENTS: &str = "eth0";
/// Of the other end.
pub const FAR: &str = "far0";

/// The addresses that have asked a server.
pub type Asked = Arc<Mutex<BTreeSet<IpAddr>>>;

/// A host.
pub struct Host(pub Namespace);

impl Host {
    /// One that forwards nothing, whatever the settings of this machine are.
    pub fn new() -> Self {
        let namespace = Namespace::create().unwrap();
        namespace.run(|| Netlink::open().unwrap().loopback_up().unwrap()).unwrap();
        let host = Self(namespace);
        for family in ["ipv4", "ipv6"] {
            host.set(&format!("{family}/conf/all/forwarding"), "0");
            host.set(&format!("{family}/conf/default/forwarding"), "0");
        }
        host.set("ipv4/conf/all/rp_filter", "0");
        host.set("ipv4/conf/default/rp_filter", "0");
        host
    }

    /// Makes a setting of the kernel, below `net`.
    pub fn set(&self, name: &str, value: &str) {
        self.0.run(|| fs::write(format!("/proc/sys/net/{name}"), value).unwrap()).unwrap();
    }

    /// Does something with an interface of the host, by its index.
    pub fn on(&self, name: &str, work: impl FnOnce(&Netlink, u32) + Send) {
        let inside = || {
            let netlink = Netlink::open().unwrap();
            let index = netlink.index(name).unwrap();
            work(&netlink, index);
        };
        self.0.run(inside).unwrap();
    }

    /// Gives an interface an address.
    pub fn address(&self, name: &str, address: &str) {
        self.on(name, |netlink, index| netlink.add_address(index, address.parse().unwrap()).unwrap());
    }

    /// Takes all addresses of both families for neighbours on the interface, each of which is asked for.
    pub fn all_on_link(&self, name: &str) {
        self.on(name, |netlink, index| {
            [false, true].into_iter().for_each(|v6| netlink.default_route(v6, index, MAIN).unwrap());
        });
    }

    /// Sends all of the gateway's family to it.
    pub fn route_via(&self, name: &str, gateway: &str) {
        self.on(name, |netlink, index| netlink.default_via(gateway.parse().unwrap(), index, MAIN, 0).unwrap());
    }

    /// Answers DNS queries to an address of the host over UDP and TCP with themselves, and notes who asked.
    pub fn serve(&self, address: &str) -> Asked {
        let address = SocketAddr::new(address.parse().unwrap(), 53);
        let (udp, tcp) =
            self.0.run(|| (UdpSocket::bind(address).unwrap(), TcpListener::bind(address).unwrap())).unwrap();
        let asked = Asked::default();
        let (of_udp, of_tcp) = (Arc::clone(&asked), Arc::clone(&asked));
        thread::spawn(move || {
            let mut message = [0; 4_096];
            while let Ok((length, client)) = udp.recv_from(&mut message) {
                of_udp.lock().unwrap().insert(client.ip());
                message[2] |= 0x80;
                udp.send_to(&message[..length], client).unwrap();
            }
        });
        thread::spawn(move || {
            for stream in tcp.incoming() {
                let (stream, asked) = (stream.unwrap(), Arc::clone(&of_tcp));
                thread::spawn(move || answer(stream, &asked));
            }
        });
        asked
    }

    /// Runs ldplayer on the host in a folder.
    pub fn ldplayer(&self, folder: &std::path::Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.current_dir(folder).args(arguments);
        self.0.start_in(&mut command).unwrap();
        command.output().unwrap()
    }
}

/// Answers over a connection until its client closes it.
fn answer(mut stream: TcpStream, asked: &Asked) {
    asked.lock().unwrap().insert(stream.peer_addr().unwrap().ip());
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut message).unwrap();
        message[2] |= 0x80;
        stream.write_all(&[&length[..], &message].concat()).unwrap();
    }
}

/// Joins interfaces of two hosts, which are up.
pub fn join(ends: [(&Host, &str); 2], mtu: u32, number: u8) {
    let [(one, near), (other, far)] = ends;
    one.0
        .run(|| {
            let netlink = Netlink::open().unwrap();
            let mac = |end| [2, 0, 0, 0, number, end];
            netlink
                .add_veth([
                    VethEnd { name: near, mac: mac(1), queues: 1 },
                    VethEnd { name: far, mac: mac(2), queues: 1 },
                ])
                .unwrap();
            netlink.move_to(netlink.index(far).unwrap(), &other.0).unwrap();
        })
        .unwrap();
    for (host, name) in ends {
        host.on(name, |netlink, index| netlink.interface_up(index, mtu, 1_000).unwrap());
    }
}

/// Writes a trace of queries over UDP and TCP in turn, of 40 clients of each family.
pub fn trace(folder: &std::path::Path) {
    let line = |number: usize| {
        let (time, host) = (number as f64 / 500.0, number / 2 % 40 + 1);
        let client = if number.is_multiple_of(2) { format!("10.9.0.{host}") } else { format!("2001:db8:9::{host}") };
        let transport = if (number / 2).is_multiple_of(2) { "udp" } else { "tcp" };
        format!("{time:.6}\t{client}\t{transport}\tq{number}.example.\tA\n")
    };
    let lines: String = (0..320).map(line).collect();
    fs::write(folder.join("trace.tsv"), format!("time\tsrc\ttransport\tqname\tqtype\n{lines}")).unwrap();
}

/// The document of the run in a folder.
pub fn report(folder: &std::path::Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("run/run.json")).unwrap()).unwrap()
}
