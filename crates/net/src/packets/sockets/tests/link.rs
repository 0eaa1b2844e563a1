//! A pair of joined devices, and frames made by hand.

use std::fs;
use std::net::IpAddr;
use std::thread;

use super::super::{BATCH, Checksum, FrameRing, FrameSender, Interface};
use crate::namespace::Namespace;
use crate::netlink::{Netlink, attribute};
use crate::poll::Poll;

const RTM_NEWLINK: u16 = 16;
const CREATE: u16 = 0x0001 | 0x0004 | 0x0200 | 0x0400;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFF_UP: u32 = 1;

/// The names of the ends.
pub const ENDS: [&str; 2] = ["ours", "theirs"];

/// Two namespaces with an end of a veth pair each, up and without IPv6, so that no packet is sent that no test asked for.
pub struct Link {
    pub ends: [Namespace; 2],
}

impl Link {
    pub fn new(mtu: u32) -> Self {
        Self::with_queues(mtu, 1)
    }

    /// With so many transmit queues at each end.
    pub fn with_queues(mtu: u32, queues: u32) -> Self {
        let ends = [Namespace::create().unwrap(), Namespace::create().unwrap()];
        for end in &ends {
            end.run(|| {
                for device in ["all", "default"] {
                    // A kernel without IPv6 has no such setting.
                    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1");
                }
            })
            .unwrap();
        }
        ends[0]
            .run(|| Netlink::open().unwrap().request(RTM_NEWLINK, CREATE, &pair(&ends[1], queues)).unwrap())
            .unwrap();
        for (end, name) in ends.iter().zip(ENDS) {
            end.run(|| {
                let netlink = Netlink::open().unwrap();
                netlink.interface_up(netlink.index(name).unwrap(), mtu, 1_000).unwrap();
            })
            .unwrap();
        }
        Self { ends }
    }

    /// Gives both ends an address, and a route to the other.
    pub fn addressed(self, addresses: [IpAddr; 2]) -> Self {
        for ((end, name), address) in self.ends.iter().zip(ENDS).zip(addresses) {
            end.run(|| {
                let netlink = Netlink::open().unwrap();
                let index = netlink.index(name).unwrap();
                netlink.add_address(index, address).unwrap();
                netlink.default_route(false, index, 254).unwrap();
            })
            .unwrap();
        }
        self
    }

    /// Does something on one end, with its interface.
    pub fn on<T: Send>(&self, end: usize, work: impl FnOnce(&Interface) -> T + Send) -> T {
        self.ends[end].run(|| work(&Interface::find(ENDS[end]).unwrap())).unwrap()
    }

    /// Takes an end down.
    pub fn down(&self, end: usize) {
        self.on(end, |interface| {
            let mut body = vec![0; 4];
            for word in [interface.index, 0, IFF_UP] {
                body.extend_from_slice(&word.to_ne_bytes());
            }
            Netlink::open().unwrap().request(RTM_NEWLINK, 0x0001 | 0x0004, &body).unwrap();
        });
    }
}

/// The request for a pair whose second end is in another namespace.
fn pair(other: &Namespace, queues: u32) -> Vec<u8> {
    let name = |name: &str| [name.as_bytes(), &[0]].concat();
    let queues = queues.to_ne_bytes();
    let mut peer = vec![0; 16];
    attribute(&mut peer, IFLA_IFNAME, &name(ENDS[1]));
    attribute(&mut peer, IFLA_NUM_TX_QUEUES, &queues);
    attribute(&mut peer, IFLA_NUM_RX_QUEUES, &queues);
    attribute(&mut peer, IFLA_NET_NS_FD, &other.number().to_ne_bytes());
    let mut data = Vec::new();
    attribute(&mut data, VETH_INFO_PEER, &peer);
    let mut info = Vec::new();
    attribute(&mut info, IFLA_INFO_KIND, b"veth");
    attribute(&mut info, IFLA_INFO_DATA, &data);
    let mut body = vec![0; 16];
    attribute(&mut body, IFLA_IFNAME, &name(ENDS[0]));
    attribute(&mut body, IFLA_NUM_TX_QUEUES, &queues);
    attribute(&mut body, IFLA_NUM_RX_QUEUES, &queues);
    attribute(&mut body, IFLA_LINKINFO, &info);
    body
}

/// A frame that was received, kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub octets: Vec<u8>,
    pub length: usize,
    pub stamp_ns: i64,
    pub vlan: Option<u16>,
    pub checksum: Checksum,
    pub is_outgoing: bool,
}

/// Reads frames until `count` came, or none for ten seconds.
pub fn receive(ring: &mut FrameRing, count: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut poll = Poll::new().unwrap();
    poll.add(&*ring, 0).unwrap();
    while seen.len() < count && poll.wait(10_000_000_000).unwrap().count() == 1 {
        read(ring, count - seen.len(), &mut seen);
    }
    seen
}

/// Reads the frames that are there.
pub fn read(ring: &mut FrameRing, most: usize, seen: &mut Vec<Seen>) -> usize {
    ring.read(most, |frame| {
        seen.push(Seen {
            octets: frame.octets.to_vec(),
            length: frame.length,
            stamp_ns: frame.stamp_ns,
            vlan: frame.vlan,
            checksum: frame.checksum,
            is_outgoing: frame.is_outgoing,
        });
    })
}

/// Sends frames, in as many batches as it takes.
pub fn send<'a>(sender: &mut FrameSender, frames: impl IntoIterator<Item = &'a Vec<u8>>) {
    for frame in frames {
        add(sender, frame);
        if sender.queued() == BATCH {
            drain(sender);
        }
    }
    drain(sender);
}

/// Adds one frame.
pub fn add(sender: &mut FrameSender, frame: &[u8]) {
    sender.room().unwrap()[..frame.len()].copy_from_slice(frame);
    sender.commit(frame.len());
}

/// Flushes until nothing is queued.
pub fn drain(sender: &mut FrameSender) {
    while sender.queued() > 0 {
        if sender.flush().unwrap() == 0 {
            thread::yield_now();
        }
    }
}

/// Frames made by hand. All have what a test looks for at their end.
pub mod frames {
    /// An Ethernet frame from and to addresses that nobody has.
    pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 7][..], &kind.to_be_bytes(), payload].concat()
    }

    /// An Ethernet frame with a VLAN tag.
    pub fn tagged(kind: u16, tag: u16, frame: &[u8]) -> Vec<u8> {
        [&frame[..12], &kind.to_be_bytes(), &tag.to_be_bytes(), &frame[12..]].concat()
    }

    /// An IPv4 packet with `options` words of options.
    pub fn ipv4(protocol: u8, fragment: u16, options: u8, payload: &[u8]) -> Vec<u8> {
        let length = 20 + 4 * u16::from(options) + payload.len() as u16;
        let mut packet = vec![0x45 + options, 0];
        packet.extend_from_slice(&length.to_be_bytes());
        packet.extend_from_slice(&[0, 1]);
        packet.extend_from_slice(&fragment.to_be_bytes());
        packet.extend_from_slice(&[64, protocol, 0, 0, 192, 0, 2, 7, 192, 0, 2, 9]);
        packet.extend(std::iter::repeat_n(1, 4 * usize::from(options)));
        packet.extend_from_slice(payload);
        ethernet(0x0800, &packet)
    }

    /// An IPv6 packet.
    pub fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[next, 64]);
        packet.extend_from_slice(&[0x20; 32]);
        packet.extend_from_slice(payload);
        ethernet(0x86dd, &packet)
    }

    /// The beginning of a UDP or TCP header, to a port.
    pub fn ports(to: u16, rest: &[u8]) -> Vec<u8> {
        [&53_u16.to_be_bytes(), &to.to_be_bytes(), rest].concat()
    }
}
