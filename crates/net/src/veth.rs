//! A namespace whose only way out is a virtual Ethernet link, with clients at its far end that are no hosts: this program
//! makes their frames.
//!
//! Every address is local to what arrives by the link, and everything that is sent inside leaves by it, to one neighbour
//! that stands for all clients: the kernel keeps neither a route nor a neighbour for each. The far end is in the same
//! namespace. Frames to clients have a MAC address that no interface has, so the kernel takes them for another host's, and
//! neither answers nor refuses them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;

use crate::interfaces::{self, DEVICE};
use crate::namespace::Namespace;
use crate::netlink::{Netlink, Rule, TABLE_LOCAL, VethEnd};
use crate::netns::{self, Shortfall};
use crate::rights::NetError;
use crate::wiring::{self, TABLE_WIRE};

/// The interface on which the frames of clients are sent and received.
pub const CLIENTS: &str = "clients0";
/// The MAC address of the host's end.
pub const HOST_MAC: [u8; 6] = [0x02, b'l', b'd', b'p', 0, 1];
/// The MAC address of the interface of the clients' end, to which nothing is sent.
const FAR_MAC: [u8; 6] = [0x02, b'l', b'd', b'p', 0, 2];
/// The MAC address that all clients have.
pub const CLIENT_MAC: [u8; 6] = [0x02, b'l', b'd', b'p', 0, 3];
/// Octets of the longest packet on a link: that of Ethernet.
pub const MTU: u16 = 1_500;
/// The neighbours that stand for all clients.
const GATEWAYS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(169, 254, 53, 1)), IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x53))];
/// Queues of the link at most.
const QUEUES: usize = 256;
/// Frames that wait in a device. A veth device hands them over at once.
const QUEUE: u32 = 1_000;

/// Priority of the rules of [`Reach`]: before the one that leads everything else to clients.
const REACHED: u32 = 25_000;

/// Settings of the host's end: packets may come from addresses that are local, too, and go to loopback's.
const HOST: [(&str, &str); 4] = [
    ("net/ipv4/conf/wire0/rp_filter", "0"),
    ("net/ipv4/conf/wire0/accept_local", "1"),
    ("net/ipv4/conf/wire0/route_localnet", "1"),
    ("net/ipv4/conf/all/accept_local", "1"),
];
/// Settings of the clients' end: the kernel sends nothing there of its own.
const FAR: [(&str, &str); 2] =
    [("net/ipv6/conf/clients0/disable_ipv6", "1"), ("net/ipv4/conf/clients0/arp_ignore", "8")];

/// Whether the network namespace of the calling thread has no other way out than such a link.
pub fn is_here() -> bool {
    interfaces::has_only(&[DEVICE, CLIENTS])
}

/// Frames that were lost on the link since it was made, in either direction: the kernel had no room for them.
pub fn lost() -> u64 {
    [DEVICE, CLIENTS].into_iter().map(interfaces::dropped_at).sum()
}

/// Lets the namespace's own programs reach one of its addresses, as long as this value lasts: whoever waits for a server there.
/// Without it, packets from inside to any address but loopback's go to clients.
pub struct Reach {
    netlink: Netlink,
    address: IpAddr,
}

impl Reach {
    /// Such a value where the namespace of the calling thread has a link and `address` is not loopback's.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace.
    pub fn to(address: IpAddr) -> io::Result<Option<Self>> {
        if address.is_loopback() || !is_here() {
            return Ok(None);
        }
        let reach = Self { netlink: Netlink::open()?, address };
        reach.netlink.add_rule(address.is_ipv6(), &reach.rule())?;
        Ok(Some(reach))
    }

    fn rule(&self) -> Rule<'static> {
        let length = if self.address.is_ipv6() { 128 } else { 32 };
        Rule { from: None, to: Some((self.address, length)), table: TABLE_LOCAL, priority: REACHED }
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        // It fails only when somebody else has removed the rule, and then it is gone, too.
        let _ = self.netlink.remove_rule(self.address.is_ipv6(), &self.rule());
    }
}

/// Makes the link in `namespace`, which has nothing but loopback so far, for packets of up to `mtu` octets.
///
/// # Errors
/// What the system refused.
pub fn connect(namespace: &Namespace, mtu: u16) -> Result<(), NetError> {
    let inside = namespace.run(|| connect_here(mtu).map(drop));
    inside.map_err(NetError::Namespace)?
}

/// Makes the link in the network namespace of the calling thread, which has nothing but loopback so far, for packets of up
/// to `mtu` octets. Returns the kernel settings that could not be made.
///
/// # Errors
/// What the system refused.
pub(crate) fn connect_here(mtu: u16) -> Result<Vec<Shortfall>, NetError> {
    wiring::apply(&wiring::BEFORE);
    let shortfalls = netns::apply_settings();
    link(mtu).map_err(|(what, source)| NetError::Routing { what, source })?;
    Ok(shortfalls)
}

fn link(mtu: u16) -> Result<(), (&'static str, io::Error)> {
    let netlink = Netlink::open().map_err(|error| ("netlink", error))?;
    netlink.loopback_up().map_err(|error| ("loopback", error))?;
    // AF_XDP has a queue for each worker. The server's answers have one, or the kernel would hash the addresses of each to choose.
    let queues = thread::available_parallelism().map_or(1, |cores| cores.get().min(QUEUES) as u32);
    let ends = [VethEnd { name: DEVICE, mac: HOST_MAC, queues: 1 }, VethEnd { name: CLIENTS, mac: FAR_MAC, queues }];
    netlink.add_veth(ends).map_err(|error| ("a pair of veth interfaces", error))?;
    wiring::apply(&HOST);
    wiring::apply(&FAR);
    let mut indexes = [0; 2];
    for (index, end) in indexes.iter_mut().zip(ends) {
        *index = netlink.index(end.name).map_err(|error| ("a veth interface", error))?;
        netlink.interface_up(*index, mtu.into(), QUEUE).map_err(|error| ("a veth interface", error))?;
    }
    let [host, _] = indexes;
    let with_v6 = netns::has_ipv6();
    for gateway in GATEWAYS.into_iter().filter(|gateway| with_v6 || gateway.is_ipv4()) {
        netlink.add_neighbour(host, gateway, CLIENT_MAC).map_err(|error| ("the clients' neighbour", error))?;
        netlink.default_via(gateway, host, TABLE_WIRE).map_err(|error| ("the route to the clients", error))?;
        netlink.any_ip(gateway.is_ipv6()).map_err(|error| ("local routes", error))?;
        wiring::rules(&netlink, gateway.is_ipv6(), &[]).map_err(|error| ("routing rules", error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::net::UdpSocket;

    fn linked() -> Namespace {
        let namespace = Namespace::create().unwrap();
        connect(&namespace, 1_500).unwrap();
        namespace
    }

    #[test]
    fn a_namespace_with_such_a_link_is_known_from_others() {
        assert!(linked().run(is_here).unwrap());
        assert!(!Namespace::create().unwrap().run(is_here).unwrap());
    }

    #[test]
    fn a_server_may_have_any_address_and_reaches_clients_by_the_link_alone() {
        for (server, client) in [("203.0.113.9:53", "192.0.2.7:4000"), ("[2001:db8::53]:53", "[2001:db8:1::7]:4000")] {
            let before_and_after = linked().run(|| {
                let sent = || frames_sent(&fs::read_to_string("/proc/thread-self/net/dev").unwrap());
                let before = sent();
                UdpSocket::bind(server).unwrap().send_to(b"answer", client).unwrap();
                (before, sent())
            });
            let (before, after) = before_and_after.unwrap();
            assert_eq!(after - before, 1, "{server}");
        }
    }

    #[test]
    fn a_server_inside_is_reached_from_inside_for_as_long_as_it_is_waited_for() {
        linked()
            .run(|| {
                let server = UdpSocket::bind("203.0.113.9:53").unwrap();
                server.set_nonblocking(true).unwrap();
                let ask = || UdpSocket::bind("203.0.113.9:0").unwrap().send_to(b"there?", "203.0.113.9:53").unwrap();
                ask();
                assert!(server.recv(&mut [0; 9]).is_err(), "it went to a client");
                let reach = Reach::to("203.0.113.9".parse().unwrap()).unwrap();
                ask();
                assert_eq!(server.recv(&mut [0; 9]).unwrap(), 6);
                drop(reach);
                ask();
                assert!(server.recv(&mut [0; 9]).is_err());
                assert!(Reach::to("127.0.0.1".parse().unwrap()).unwrap().is_none());
            })
            .unwrap();
    }

    /// The tenth column of a line: frames that the host's end has sent.
    fn frames_sent(interfaces: &str) -> u64 {
        let line = interfaces.lines().find(|line| line.trim().starts_with(DEVICE)).unwrap();
        line.split_once(':').unwrap().1.split_whitespace().nth(9).unwrap().parse().unwrap()
    }
}
