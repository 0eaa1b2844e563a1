//! A network namespace whose only way out is a TUN device read by this program.

use std::fs;
use std::io;
use std::net::IpAddr;

use crate::interfaces::DEVICE;
use crate::namespace::Namespace;
use crate::netlink::{Netlink, Rule, TABLE_LOCAL};
use crate::rights::NetError;
use crate::settings;
use crate::tun::{Tun, TunError};

/// The routing table that holds the way to the device where it is not the main one.
pub(crate) const TABLE_WIRE: u8 = 53;
const TABLE_MAIN: u8 = 254;
/// Packets that wait in the device until they are read. More are dropped by the kernel, which counts them.
const QUEUE: u32 = 16_384;

/// Kernel settings, written before the device is made: IPv6 on and silent, so that no packet is sent that no program asked for.
pub(crate) const BEFORE: [(&str, &str); 7] = [
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("net/ipv6/conf/lo/disable_ipv6", "0"),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
];
/// And after: a packet may come from an address that is local here, too, as every address may be.
const AFTER: [(&str, &str); 3] = [
    ("net/ipv4/conf/all/accept_local", "1"),
    ("net/ipv4/conf/wire0/accept_local", "1"),
    ("net/ipv4/conf/wire0/rp_filter", "0"),
];

/// How a namespace is wired.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// Addresses of the device itself.
    pub addresses: Vec<IpAddr>,
    /// Whether every address is local to what arrives and may be the source of what leaves (AnyIP). Packets from inside
    /// still leave by the wire, but for those to loopback and to the addresses of the device.
    pub any_ip: bool,
    /// Octets of the longest packet, 1280 to 65,535.
    pub mtu: u16,
    /// Queues of the device, 1 or more.
    pub queues: usize,
}

/// What keeps a namespace from being wired. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// There is no TUN device to be had.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The namespace cannot be entered or set up.
    #[error(transparent)]
    Net(#[from] NetError),
}

impl Wiring {
    /// Makes the device in `namespace` and routes everything to it. Packets leave the namespace by the returned queues only.
    ///
    /// # Errors
    /// What the system refused.
    pub fn connect(&self, namespace: &Namespace) -> Result<Vec<Tun>, WiringError> {
        let inside = namespace.run(|| self.connect_here());
        inside.map_err(|error| WiringError::Net(NetError::Namespace(error)))?
    }

    fn connect_here(&self) -> Result<Vec<Tun>, WiringError> {
        apply(&BEFORE);
        let tuns = match self.queues {
            0 | 1 => vec![Tun::open(DEVICE)?],
            queues => Tun::open_queues(DEVICE, queues)?,
        };
        // Missing settings are reported by `doctor`; the testbed works without them.
        let _ = settings::apply_settings();
        apply(&AFTER);
        self.route().map_err(|(what, source)| NetError::Routing { what, source })?;
        Ok(tuns)
    }

    fn route(&self) -> Result<(), (&'static str, io::Error)> {
        let netlink = Netlink::open().map_err(|error| ("netlink", error))?;
        netlink.claim().map_err(|error| ("loopback", error))?;
        let index = netlink.index(DEVICE).map_err(|error| ("the TUN device", error))?;
        netlink.interface_up(index, self.mtu.into(), QUEUE).map_err(|error| ("the TUN device", error))?;
        let with_v6 = settings::has_ipv6();
        for &address in self.addresses.iter().filter(|address| with_v6 || address.is_ipv4()) {
            netlink.add_address(index, address).map_err(|error| ("the addresses of the TUN device", error))?;
        }
        let table = if self.any_ip { TABLE_WIRE } else { TABLE_MAIN };
        for v6 in [false, true].into_iter().filter(|&v6| with_v6 || !v6) {
            netlink.default_route(v6, index, table).map_err(|error| ("the route to the TUN device", error))?;
            if self.any_ip {
                netlink.any_ip(v6).map_err(|error| ("local routes", error))?;
                rules(&netlink, v6, &self.addresses).map_err(|error| ("routing rules", error))?;
            }
        }
        Ok(())
    }
}

/// Asks the table of local addresses for packets that arrive by the device only: those from inside go to the wire, but for
/// loopback and `own` addresses.
pub(crate) fn rules(netlink: &Netlink, v6: bool, own: &[IpAddr]) -> io::Result<()> {
    let loopback: (IpAddr, u8) = if v6 { ([0, 0, 0, 0, 0, 0, 0, 1].into(), 128) } else { ([127, 0, 0, 0].into(), 8) };
    let own = own.iter().filter(|address| address.is_ipv6() == v6);
    let own = own.map(|&address| (address, if v6 { 128 } else { 32 }));
    netlink.remove_rule(v6, &Rule { table: TABLE_LOCAL, ..Rule::default() })?;
    let arriving = Rule { from: Some(DEVICE), to: None, table: TABLE_LOCAL, priority: 10 };
    netlink.add_rule(v6, &arriving)?;
    for (to, priority) in std::iter::once(loopback).chain(own).zip(20..) {
        netlink.add_rule(v6, &Rule { from: None, to: Some(to), table: TABLE_LOCAL, priority })?;
    }
    netlink.add_rule(v6, &Rule { from: None, to: None, table: TABLE_WIRE, priority: 30_000 })
}

/// Writes kernel settings of the current network namespace.
pub(crate) fn apply(settings: &[(&str, &str)]) {
    for (name, value) in settings {
        // A kernel may lack a setting; the testbed then has its default.
        let _ = fs::write(format!("/proc/sys/{name}"), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::{dropped_here, is_wired};
    use crate::netns;
    use std::net::UdpSocket;

    #[test]
    fn a_wired_host_with_any_address_may_send_from_each() {
        for any_ip in [false, true] {
            let namespace = Namespace::create().unwrap();
            assert!(!namespace.run(is_wired).unwrap());
            let _tuns = Wiring { addresses: Vec::new(), any_ip, mtu: 1_500, queues: 1 }.connect(&namespace).unwrap();
            assert!(namespace.run(is_wired).unwrap());
            assert_eq!(namespace.run(netns::has_any_ip).unwrap(), any_ip);
        }
    }

    #[test]
    fn what_is_sent_inside_comes_out_of_the_device_from_any_source() {
        for (source, destination) in [("192.0.2.7:0", "198.41.0.4:53"), ("[2001:db8::7]:0", "[2001:503:ba3e::2:30]:53")]
        {
            let wiring = Wiring { addresses: Vec::new(), any_ip: true, mtu: 1_500, queues: 1 };
            let namespace = Namespace::create().unwrap();
            let tuns = wiring.connect(&namespace).unwrap();
            namespace.run(|| UdpSocket::bind(source).unwrap().send_to(b"hello", destination).unwrap()).unwrap();
            let mut buffer = [0; 2_000];
            let version = if source.starts_with('[') { 6 } else { 4 };
            let length = loop {
                let length = tuns[0].read(&mut buffer).unwrap().expect("the packet is in the device's queue");
                if buffer[0] >> 4 == version && buffer[..length].ends_with(b"hello") {
                    break length;
                }
            };
            assert_eq!(length, 8 + 5 + if version == 6 { 40 } else { 20 });
            assert_eq!(namespace.run(dropped_here).unwrap(), 0);
        }
    }

    #[test]
    fn what_is_written_arrives_at_any_address() {
        let namespace = Namespace::create().unwrap();
        let tuns = Wiring { addresses: Vec::new(), any_ip: true, mtu: 1_500, queues: 2 }.connect(&namespace).unwrap();
        let socket = namespace.run(|| UdpSocket::bind("203.0.113.9:53").unwrap()).unwrap();
        // From 192.0.2.1:1 to 203.0.113.9:53, three octets, without UDP checksum.
        let mut packet = vec![0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 203, 0, 113, 9];
        packet.extend_from_slice(&[0, 1, 0, 53, 0, 11, 0, 0, b'a', b'b', b'c']);
        let sum: u32 = packet[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        tuns[1].write(&packet).unwrap();
        let mut buffer = [0; 10];
        socket.set_nonblocking(true).unwrap();
        assert_eq!(socket.recv_from(&mut buffer).unwrap(), (3, "192.0.2.1:1".parse().unwrap()));
    }
}
