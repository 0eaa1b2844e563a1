//! A namespace whose only way out is a virtual Ethernet link, with clients at its far end that are no hosts: this program
//! makes their frames.
//!
//! ```text
//!  frames of clients ──► queries0 (TAP) ─────────────► server
//!  or, by AF_PACKET ───► clients0 ══ veth ══ wire0 ──► server
//!  FrameRings ◄───────── answers0 ◄─────────────────── server
//! ```
//!
//! Every address is local to what arrives by the link, and everything that is sent inside leaves to one neighbour that
//! stands for all clients: the kernel keeps neither a route nor a neighbour for each. The far end is in the same namespace.
//! Frames to clients have a MAC address that no interface has, so the kernel takes them for another host's, and neither
//! answers nor refuses them.
//!
//! A frame that is written into the TAP device ([`QUERIES`]) is received by the host at once, where a veth pair first puts it into a queue
//! and then wakes the receiver. The pair is for AF_XDP, for stamps, and for kernels without what the device needs.
//!
//! What the server sends leaves by an interface that drops everything ([`ANSWERS`]), and is read there as it leaves: the
//! server's core is spared the kernel's reception of a frame that no kernel wants. A program that binds to the interface of a query
//! sends by the pair, as do all where the kernel has no such interface; so both are read. What would leave by the TAP device is led to
//! the pair, too.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;

use crate::interfaces::{self, DEVICE};
use crate::namespace::Namespace;
use crate::netlink::{Netlink, Rule, TABLE_LOCAL, VethEnd};
use crate::packets::Interface;
use crate::rights::NetError;
use crate::settings::{self, Shortfall};
use crate::tun::Tun;
use crate::wiring::{self, TABLE_WIRE};

/// The interface on which the frames of clients are sent, and received.
pub const CLIENTS: &str = "clients0";
/// The TAP device through which clients' frames reach the host without crossing the link, if the kernel supports it.
pub const QUERIES: &str = "queries0";
/// The interface through which the server's packets leave, if the kernel has a device for it.
pub const ANSWERS: &str = "answers0";
/// The kind of interfaces that drop all they are given, and do not tell the sender so. The kernel may load a module for it.
const SINK: &str = "dummy";
/// The kind to use if the kernel lacks the first. Loading its module adds two more interfaces to the host.
const OTHER_SINK: &str = "ifb";
/// The MAC address of the host, on the link and on [`QUERIES`].
pub const HOST_MAC: [u8; 6] = [0x02, b'l', b'd', b'p', 0, 1];
/// The MAC address of the interface of the clients' end, to which nothing is sent.
const FAR_MAC: [u8; 6] = [0x02, b'l', b'd', b'p', 0, 2];
/// The MAC address that all clients have.
pub const CLIENT_MAC: [u8; 6] = [0x02, b'l', b'd', b'p', 0, 3];
/// The MAC address of [`ANSWERS`].
const ANSWERS_MAC: [u8; 6] = [0x02, b'l', b'd', b'p', 0, 4];
/// Octets of the longest packet on a link: Ethernet's MTU.
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

/// Settings of the host's interfaces: packets may come from addresses that are local, too, or to which another interface leads, and go to
/// loopback's. Of two for the source's route, that of all interfaces and an interface's own, the stricter holds.
const HOST: [(&str, &str); 7] = [
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/wire0/rp_filter", "0"),
    ("net/ipv4/conf/queries0/rp_filter", "0"),
    ("net/ipv4/conf/wire0/accept_local", "1"),
    ("net/ipv4/conf/queries0/accept_local", "1"),
    // Of the device that answers leave by, too, which is made later.
    ("net/ipv4/conf/all/route_localnet", "1"),
    ("net/ipv4/conf/all/accept_local", "1"),
];
/// Settings of the clients' end: the kernel sends nothing there of its own.
const FAR: [(&str, &str); 2] =
    [("net/ipv6/conf/clients0/disable_ipv6", "1"), ("net/ipv4/conf/clients0/arp_ignore", "8")];

/// Whether the network namespace of the calling thread has no other way out than such a link.
pub fn is_here() -> bool {
    interfaces::has_only(&[DEVICE, CLIENTS], &[ANSWERS, QUERIES])
}

/// The name of the TAP device through which clients' frames may arrive, if the calling thread's network namespace has one that is up. Only
/// one program at a time can open its queue ([`Tun::open_tap`]).
pub fn queries() -> Option<&'static str> {
    is_up(QUERIES).then_some(QUERIES)
}

/// The name of the interface through which the server's packets leave, if the calling thread's network namespace has one that is up.
pub fn answers() -> Option<&'static str> {
    is_up(ANSWERS).then_some(ANSWERS)
}

fn is_up(name: &str) -> bool {
    Interface::find(name).is_ok_and(|interface| interface.is_up)
}

/// Frames that were lost on the link since it was made, in either direction: the kernel had no room for them. What leaves by [`ANSWERS`] can
/// be lost only in a ring.
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
    let shortfalls = settings::apply_settings();
    link(mtu).map_err(|(what, source)| NetError::Routing { what, source })?;
    Ok(shortfalls)
}

fn link(mtu: u16) -> Result<(), (&'static str, io::Error)> {
    let netlink = Netlink::open().map_err(|error| ("netlink", error))?;
    netlink.claim().map_err(|error| ("loopback", error))?;
    // AF_XDP has a queue for each worker. The server's answers have one, or the kernel would hash the addresses of each to choose.
    let queues = thread::available_parallelism().map_or(1, |cores| cores.get().min(QUEUES) as u32);
    let ends = [VethEnd { name: DEVICE, mac: HOST_MAC, queues: 1 }, VethEnd { name: CLIENTS, mac: FAR_MAC, queues }];
    netlink.add_veth(ends).map_err(|error| ("a pair of veth interfaces", error))?;
    let tap = Tun::make_tap(QUERIES);
    wiring::apply(&HOST);
    wiring::apply(&FAR);
    let mut indexes = [0; 2];
    for (index, end) in indexes.iter_mut().zip(ends) {
        *index = netlink.index(end.name).map_err(|error| ("a veth interface", error))?;
        netlink.interface_up(*index, mtu.into(), QUEUE).map_err(|error| ("a veth interface", error))?;
    }
    let [host, _] = indexes;
    let sink = add_sink(&netlink, mtu);
    let tap = tap.ok().and_then(|()| bring_up_tap(&netlink, mtu, host).ok());
    let with_v6 = settings::has_ipv6();
    for gateway in GATEWAYS.into_iter().filter(|gateway| with_v6 || gateway.is_ipv4()) {
        let ways = [sink, Some(host), tap].into_iter().zip(1..);
        for (index, metric) in ways.filter_map(|(index, metric)| Some((index?, metric))) {
            netlink.add_neighbour(index, gateway, CLIENT_MAC).map_err(|error| ("the clients' neighbour", error))?;
            let routed = netlink.default_via(gateway, index, TABLE_WIRE, metric);
            routed.map_err(|error| ("the route to the clients", error))?;
        }
        netlink.any_ip(gateway.is_ipv6()).map_err(|error| ("local routes", error))?;
        wiring::rules(&netlink, gateway.is_ipv6(), &[]).map_err(|error| ("routing rules", error))?;
        let arriving = Rule { from: Some(QUERIES), to: None, table: TABLE_LOCAL, priority: 9 };
        netlink.add_rule(gateway.is_ipv6(), &arriving).map_err(|error| ("routing rules", error))?;
    }
    Ok(())
}

/// Has what would leave by the TAP device leave by the link, so that nothing waits for a reader, and returns its index. The device stays
/// down where the kernel cannot do that.
fn bring_up_tap(netlink: &Netlink, mtu: u16, host: u32) -> io::Result<u32> {
    let index = netlink.index(QUERIES)?;
    netlink.set_mac(index, HOST_MAC)?;
    netlink.redirect(index, host)?;
    netlink.interface_up(index, mtu.into(), QUEUE)?;
    Ok(index)
}

/// Creates the interface through which the server's frames leave, and returns its index; `None` if the kernel lacks the device kinds for
/// it.
fn add_sink(netlink: &Netlink, mtu: u16) -> Option<u32> {
    let add = |kind| netlink.add_interface(kind, ANSWERS, ANSWERS_MAC);
    add(SINK).or_else(|error| if needs_no_module(OTHER_SINK) { add(OTHER_SINK) } else { Err(error) }).ok()?;
    let index = netlink.index(ANSWERS).ok()?;
    // Without a queue, which only costs the sender time.
    let _ = netlink.set_discipline(index, "noqueue");
    netlink.interface_up(index, mtu.into(), QUEUE).ok().map(|()| index)
}

/// Whether a module is loaded, or this kernel loads none.
fn needs_no_module(name: &str) -> bool {
    fs::read_to_string("/proc/modules").map_or(true, |modules| is_loaded(&modules, name))
}

/// Whether a module is in the kernel's list, where its name begins a line (proc_modules(5)).
fn is_loaded(modules: &str, name: &str) -> bool {
    modules.lines().any(|line| line.split(' ').next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{Filter, FrameRings, FrameSender, SenderKind};
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use socket2::Socket;

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
    fn a_server_may_have_any_address_and_its_answers_leave_by_the_link_only_where_there_is_no_better_way() {
        for (server, client) in ENDS {
            let inside = linked().run(|| {
                let before = frames_sent(DEVICE);
                UdpSocket::bind(server).unwrap().send_to(b"answer", client).unwrap();
                (frames_sent(DEVICE) - before, answers())
            });
            let (by_link, answers) = inside.unwrap();
            assert_eq!(by_link, u64::from(answers.is_none()), "{server}");
        }
    }

    #[test]
    fn answers_are_read_by_whatever_way_they_leave_with_their_own_time() {
        for (server, client) in ENDS {
            linked()
                .run(|| {
                    let clients = Interface::find(CLIENTS).unwrap();
                    let mut rings = FrameRings::open(&clients, answers(), &Filter::all(), 1 << 16).unwrap();
                    let by_tap = queries().map(|name| (Some(name), &b"by the TAP device"[..]));
                    let others = [(None, &b"by route"[..]), (Some(DEVICE), b"by the link")];
                    for (bound, answer) in others.into_iter().chain(by_tap) {
                        let socket = Socket::from(UdpSocket::bind(server).unwrap());
                        socket.bind_device(bound.map(str::as_bytes)).unwrap();
                        let before = wall();
                        socket.send_to(answer, &client.parse::<SocketAddr>().unwrap().into()).unwrap();
                        assert!(rings.wait(1_000_000_000).unwrap(), "{server} {bound:?}");
                        let mut seen = Vec::new();
                        rings.read(9, |frame| seen.push((frame.octets.to_vec(), frame.stamp_ns)));
                        let [(octets, stamp_ns)] = &seen[..] else { panic!("{server} {bound:?}: {seen:?}") };
                        assert!(octets.starts_with(&CLIENT_MAC) && octets.ends_with(answer));
                        assert!((before..=wall()).contains(stamp_ns));
                    }
                    assert_eq!((rings.drops(), lost()), (0, 0));
                })
                .unwrap();
        }
    }

    #[test]
    fn answers_leave_by_the_link_where_the_kernel_has_nothing_better() {
        for (server, client) in ENDS {
            linked()
                .run(|| {
                    // A kernel with neither kind of interface is as one where it is down: its routes are gone.
                    let netlink = Netlink::open().unwrap();
                    if let Some(name) = answers() {
                        netlink.interface_down(netlink.index(name).unwrap()).unwrap();
                    }
                    assert_eq!(answers(), None);
                    let clients = Interface::find(CLIENTS).unwrap();
                    let mut rings = FrameRings::open(&clients, answers(), &Filter::all(), 1 << 16).unwrap();
                    UdpSocket::bind(server).unwrap().send_to(b"answer", client).unwrap();
                    assert!(rings.wait(1_000_000_000).unwrap(), "{server}");
                    assert_eq!(rings.read(9, |frame| assert!(frame.octets.ends_with(b"answer"))), 1);
                })
                .unwrap();
        }
    }

    #[test]
    fn a_module_is_loaded_only_if_its_own_name_is_listed() {
        let modules = "act_mirred 20480 0 - Live 0x0\nifb 16384 0 - Live 0x0\nifbx 1 1 ifc, Live 0x0\n";
        assert!(is_loaded(modules, "ifb") && is_loaded(modules, "ifbx"));
        assert!(!is_loaded(modules, "if") && !is_loaded(modules, "ifc") && !is_loaded("", "ifb"));
    }

    /// The default of many distributions, which a new namespace has from the host.
    #[test]
    fn a_server_is_reached_where_the_kernel_looks_for_the_way_back_to_a_source() {
        let namespace = Namespace::create().unwrap();
        namespace.run(|| fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1").unwrap()).unwrap();
        connect(&namespace, MTU).unwrap();
        namespace
            .run(|| {
                let server = UdpSocket::bind("203.0.113.9:53").unwrap();
                server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                for mut sender in senders() {
                    let frame = frame_to_server();
                    sender.room().unwrap()[..frame.len()].copy_from_slice(&frame);
                    sender.commit(frame.len());
                    assert_eq!(sender.flush().unwrap(), 1);
                    assert_eq!(server.recv_from(&mut [0; 9]).unwrap(), (3, "192.0.2.1:1".parse().unwrap()));
                }
            })
            .unwrap();
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

    /// A server and a client of each family.
    const ENDS: [(&str, &str); 2] =
        [("203.0.113.9:53", "192.0.2.7:4000"), ("[2001:db8::53]:53", "[2001:db8:1::7]:4000")];

    /// One by the link, and one by the TAP device.
    fn senders() -> [FrameSender; 2] {
        let [clients, tap] = [CLIENTS, queries().unwrap()].map(|name| Interface::find(name).unwrap());
        let queue = Arc::new(Tun::open_tap(QUERIES).unwrap());
        [FrameSender::open(&clients, SenderKind::Packet).unwrap(), FrameSender::open_tap(&tap, queue).unwrap()]
    }

    /// From 192.0.2.1:1 to 203.0.113.9:53, three octets, without a UDP checksum.
    fn frame_to_server() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 203, 0, 113, 9];
        let sum: u32 = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend_from_slice(&[0, 1, 0, 53, 0, 11, 0, 0, b'a', b'b', b'c']);
        [&HOST_MAC[..], &CLIENT_MAC, &[8, 0], &packet].concat()
    }

    fn wall() -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
    }

    /// The tenth column of a line: frames that an interface has sent.
    fn frames_sent(interface: &str) -> u64 {
        let interfaces = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = interfaces.lines().find(|line| line.trim().starts_with(interface)).unwrap();
        line.split_once(':').unwrap().1.split_whitespace().nth(9).unwrap().parse().unwrap()
    }
}
