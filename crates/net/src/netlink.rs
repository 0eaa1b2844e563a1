//! The few rtnetlink(7) requests that a testbed needs, so that no `ip` binary is required.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

use crate::system::{NetlinkOf, name_to_index, netlink_socket};

/// Index of the loopback interface, the first of every namespace.
pub const LOOPBACK: u32 = 1;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
pub(crate) const RTM_NEWQDISC: u16 = 36;
const NLMSG_ERROR: u16 = 2;
/// Request with acknowledgement.
pub(crate) const REQUEST_ACK: u16 = 0x0001 | 0x0004;
/// Replace or create.
const REPLACE_CREATE: u16 = 0x0100 | 0x0400;
/// Create, and fail when it is there already.
pub(crate) const CREATE_NEW: u16 = 0x0200 | 0x0400;
const IFF_UP: u32 = 1;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
/// The entry of a neighbour neither ages nor is asked for.
const NUD_PERMANENT: u16 = 0x80;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// No duplicate address detection: the address can be used at once.
const IFA_F_NODAD: u8 = 0x02;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
/// The table of addresses that are this host's own.
pub const TABLE_LOCAL: u8 = 255;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
const RT_SCOPE_HOST: u8 = 254;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
/// The gateway is on the link, though no address of the interface says so.
const RTNH_F_ONLINK: u32 = 4;
const FRA_DST: u16 = 1;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FR_ACT_TO_TABLE: u8 = 1;
pub(crate) const TCA_KIND: u16 = 1;
/// The discipline of a whole device, under no other.
const TC_H_ROOT: u32 = u32::MAX;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// What the loopback interface of a namespace is called that this program made (`ip link show lo` prints it as `alias`).
const MARK: &[u8] = b"ldplayer testbed";
/// Octets of a message header (`struct nlmsghdr`).
const HEADER: usize = 16;
/// Octets of `struct ifinfomsg`.
const IFINFO: usize = 16;

/// What a routing rule asks of a packet; with nothing set, it takes all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule<'a> {
    /// The interface it came in by.
    pub from: Option<&'a str>,
    /// The block that its destination lies in: an address of it, and the length of its prefix.
    pub to: Option<(IpAddr, u8)>,
    /// The table that routes it.
    pub table: u8,
    /// Rules are asked from the lowest priority up.
    pub priority: u32,
}

/// One end of a pair of virtual Ethernet interfaces.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its address on the link.
    pub mac: [u8; 6],
    /// Its queues for what it sends, 1 to 4,096. The other end has as many for what it receives.
    pub queues: u32,
}

/// A connection to the kernel's routing of the current network namespace.
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// Opens one.
    ///
    /// # Errors
    /// When the kernel has no route netlink or the process no descriptors.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: netlink_socket(NetlinkOf::Routes)? })
    }

    /// Brings the loopback interface up.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace.
    pub fn loopback_up(&self) -> io::Result<()> {
        let mut body = loopback();
        body[8..].copy_from_slice(&[IFF_UP.to_ne_bytes(), IFF_UP.to_ne_bytes()].concat());
        self.request(RTM_NEWLINK, REQUEST_ACK, &body).map(drop)
    }

    /// Marks the namespace as one that this program made, and brings its loopback interface up.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace.
    pub fn claim(&self) -> io::Result<()> {
        let mut body = loopback();
        attribute(&mut body, IFLA_IFALIAS, MARK);
        self.request(RTM_NEWLINK, REQUEST_ACK, &body)?;
        self.loopback_up()
    }

    /// Whether this program made the namespace ([`Self::claim`]).
    ///
    /// # Errors
    /// When the kernel does not say what the loopback interface is like.
    pub fn is_claimed(&self) -> io::Result<bool> {
        let answer = self.request(RTM_GETLINK, 0x0001, &loopback())?;
        let mut rest = answer.get(HEADER + IFINFO..).unwrap_or_default();
        while let Some((kind, value)) = next_attribute(&mut rest) {
            if kind == IFLA_IFALIAS {
                return Ok(value.strip_suffix(&[0]).unwrap_or(value) == MARK);
            }
        }
        Ok(false)
    }

    /// The index of an interface.
    ///
    /// # Errors
    /// There is no interface of that name.
    pub fn index(&self, name: &str) -> io::Result<u32> {
        let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        Ok(name_to_index(&any, name)?)
    }

    /// Brings an interface up with this MTU and transmit queue length.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or when the interface refuses the MTU.
    pub fn interface_up(&self, index: u32, mtu: u32, queue: u32) -> io::Result<()> {
        let mut body = vec![0; 4];
        for word in [index, IFF_UP, IFF_UP] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        attribute(&mut body, IFLA_MTU, &mtu.to_ne_bytes());
        attribute(&mut body, IFLA_TXQLEN, &queue.to_ne_bytes());
        self.request(RTM_NEWLINK, REQUEST_ACK, &body).map(drop)
    }

    /// Makes a pair of virtual Ethernet interfaces (veth(4)), both in this namespace and down.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, without veth in the kernel, or when one of the names is taken.
    pub fn add_veth(&self, [one, other]: [VethEnd<'_>; 2]) -> io::Result<()> {
        let mut peer = vec![0; IFINFO];
        other.describe(one.queues, &mut peer);
        let mut data = Vec::new();
        attribute(&mut data, VETH_INFO_PEER, &peer);
        let mut info = Vec::new();
        attribute(&mut info, IFLA_INFO_KIND, b"veth");
        attribute(&mut info, IFLA_INFO_DATA, &data);
        let mut body = vec![0; IFINFO];
        one.describe(other.queues, &mut body);
        attribute(&mut body, IFLA_LINKINFO, &info);
        self.request(RTM_NEWLINK, REQUEST_ACK | CREATE_NEW, &body).map(drop)
    }

    /// Makes an Ethernet interface of a kind that has no settings of its own, down.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, where the kernel knows no such kind, or when the name is taken.
    pub fn add_interface(&self, kind: &str, name: &str, mac: [u8; 6]) -> io::Result<()> {
        let mut info = Vec::new();
        attribute(&mut info, IFLA_INFO_KIND, kind.as_bytes());
        let mut body = vec![0; IFINFO];
        attribute(&mut body, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        attribute(&mut body, IFLA_ADDRESS, &mac);
        attribute(&mut body, IFLA_LINKINFO, &info);
        self.request(RTM_NEWLINK, REQUEST_ACK | CREATE_NEW, &body).map(drop)
    }

    /// Gives an interface another Ethernet address.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or where the interface is up and does not change it then.
    pub fn set_mac(&self, index: u32, mac: [u8; 6]) -> io::Result<()> {
        let mut body = vec![0; 4];
        for word in [index, 0, 0] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        attribute(&mut body, IFLA_ADDRESS, &mac);
        self.request(RTM_NEWLINK, REQUEST_ACK, &body).map(drop)
    }

    /// Gives an interface a queueing discipline (tc(8)) with the settings that its kind has by default.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or where the kernel knows no such kind.
    pub fn set_discipline(&self, index: u32, kind: &str) -> io::Result<()> {
        // struct tcmsg: family, padding, index, handle, parent, info
        let mut body = vec![0; 4];
        for word in [index, 0, TC_H_ROOT, 0] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        attribute(&mut body, TCA_KIND, &[kind.as_bytes(), &[0]].concat());
        self.request(RTM_NEWQDISC, REQUEST_ACK | REPLACE_CREATE, &body).map(drop)
    }

    /// Moves an interface into another namespace, where it is down.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in both namespaces, or when there is one of its name.
    pub fn move_to(&self, index: u32, namespace: &impl AsFd) -> io::Result<()> {
        let mut body = vec![0; 4];
        for word in [index, 0, 0] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        attribute(&mut body, IFLA_NET_NS_FD, &namespace.as_fd().as_raw_fd().to_ne_bytes());
        self.request(RTM_NEWLINK, REQUEST_ACK, &body).map(drop)
    }

    /// Brings an interface down.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace.
    pub fn interface_down(&self, index: u32) -> io::Result<()> {
        let mut body = vec![0; 4];
        for word in [index, 0, IFF_UP] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        self.request(RTM_NEWLINK, REQUEST_ACK, &body).map(drop)
    }

    /// Tells the kernel where a neighbour is, for good.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace.
    pub fn add_neighbour(&self, index: u32, address: IpAddr, mac: [u8; 6]) -> io::Result<()> {
        let (family, _, octets) = parts(address);
        // struct ndmsg: family, padding, index, state, flags, type
        let mut body = vec![family, 0, 0, 0];
        body.extend_from_slice(&index.to_ne_bytes());
        body.extend_from_slice(&NUD_PERMANENT.to_ne_bytes());
        body.extend_from_slice(&[0, 0]);
        attribute(&mut body, NDA_DST, &octets);
        attribute(&mut body, NDA_LLADDR, &mac);
        self.request(RTM_NEWNEIGH, REQUEST_ACK | REPLACE_CREATE, &body).map(drop)
    }

    /// Sends all of a gateway's family to it: `ip route add default via … dev … onlink table … metric …`. Of several such routes the
    /// one with the lowest metric holds, but for programs that bind to an interface.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or when the interface is down.
    pub fn default_via(&self, gateway: IpAddr, index: u32, table: u8, metric: u32) -> io::Result<()> {
        let (family, _, octets) = parts(gateway);
        let mut body = vec![family, 0, 0, 0, table, RTPROT_STATIC, RT_SCOPE_UNIVERSE, RTN_UNICAST];
        body.extend_from_slice(&RTNH_F_ONLINK.to_ne_bytes());
        attribute(&mut body, RTA_GATEWAY, &octets);
        attribute(&mut body, RTA_OIF, &index.to_ne_bytes());
        attribute(&mut body, RTA_PRIORITY, &metric.to_ne_bytes());
        self.request(RTM_NEWROUTE, REQUEST_ACK | REPLACE_CREATE, &body).map(drop)
    }

    /// Gives an interface an address, alone in its block.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or when the address is there already.
    pub fn add_address(&self, index: u32, address: IpAddr) -> io::Result<()> {
        let (family, length, octets) = parts(address);
        // struct ifaddrmsg: family, prefix length, flags, scope, index
        let mut body = vec![family, length, IFA_F_NODAD, 0];
        body.extend_from_slice(&index.to_ne_bytes());
        attribute(&mut body, IFA_LOCAL, &octets);
        attribute(&mut body, IFA_ADDRESS, &octets);
        self.request(RTM_NEWADDR, REQUEST_ACK | CREATE_NEW, &body).map(drop)
    }

    /// Sends all of a family through an interface: `ip route add default dev … table …`.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or when the interface is down.
    pub fn default_route(&self, v6: bool, index: u32, table: u8) -> io::Result<()> {
        let mut body = vec![family(v6), 0, 0, 0, table, RTPROT_STATIC, RT_SCOPE_LINK, RTN_UNICAST, 0, 0, 0, 0];
        attribute(&mut body, RTA_OIF, &index.to_ne_bytes());
        self.request(RTM_NEWROUTE, REQUEST_ACK | REPLACE_CREATE, &body).map(drop)
    }

    /// Adds a routing rule (ip-rule(8)).
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or without policy routing in the kernel.
    pub fn add_rule(&self, v6: bool, rule: &Rule<'_>) -> io::Result<()> {
        self.request(RTM_NEWRULE, REQUEST_ACK | CREATE_NEW, &rule.body(v6)).map(drop)
    }

    /// Removes the first rule that has what this one says.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or when there is no such rule.
    pub fn remove_rule(&self, v6: bool, rule: &Rule<'_>) -> io::Result<()> {
        self.request(RTM_DELRULE, REQUEST_ACK, &rule.body(v6)).map(drop)
    }

    /// Makes every IPv4 or IPv6 address local: `ip route add local default dev lo`.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or without the family in the kernel.
    pub fn any_ip(&self, v6: bool) -> io::Result<()> {
        let family = family(v6);
        // struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags
        let mut body = vec![family, 0, 0, 0, TABLE_LOCAL, RTPROT_STATIC, RT_SCOPE_HOST, RTN_LOCAL, 0, 0, 0, 0];
        attribute(&mut body, RTA_OIF, &LOOPBACK.to_ne_bytes());
        self.request(RTM_NEWROUTE, REQUEST_ACK | REPLACE_CREATE, &body).map(drop)
    }

    /// Whether packets to `address` are delivered to this namespace itself. Sends nothing.
    ///
    /// # Errors
    /// When there is no route at all, among others.
    pub fn is_local(&self, address: IpAddr) -> io::Result<bool> {
        let (family, length, octets) = parts(address);
        let mut body = vec![family, length, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        attribute(&mut body, RTA_DST, &octets);
        let answer = self.request(RTM_GETROUTE, 0x0001, &body)?;
        Ok(answer.get(HEADER + 7) == Some(&RTN_LOCAL))
    }

    /// Sends one request and returns the kernel's answer; an error message becomes an error.
    pub(crate) fn request(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&[0; 8]); // sequence number and port: one request at a time needs neither
        message.extend_from_slice(body);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = vec![0; 8_192];
        let (length, _) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
        answer.truncate(length);
        match status(&answer) {
            0 => Ok(answer),
            code => Err(io::Error::from_raw_os_error(-code)),
        }
    }
}

impl VethEnd<'_> {
    fn describe(&self, received: u32, body: &mut Vec<u8>) {
        attribute(body, IFLA_IFNAME, &[self.name.as_bytes(), &[0]].concat());
        attribute(body, IFLA_ADDRESS, &self.mac);
        attribute(body, IFLA_NUM_TX_QUEUES, &self.queues.to_ne_bytes());
        attribute(body, IFLA_NUM_RX_QUEUES, &received.to_ne_bytes());
    }
}

impl Rule<'_> {
    /// struct fib_rule_hdr (family, destination length, source length, tos, table, two reserved, action, flags) and its attributes.
    fn body(&self, v6: bool) -> Vec<u8> {
        let length = self.to.map_or(0, |(_, length)| length);
        let mut body = vec![family(v6), length, 0, 0, self.table, 0, 0, FR_ACT_TO_TABLE, 0, 0, 0, 0];
        if let Some((address, _)) = self.to {
            attribute(&mut body, FRA_DST, &parts(address).2);
        }
        if let Some(name) = self.from {
            attribute(&mut body, FRA_IIFNAME, &[name.as_bytes(), &[0]].concat());
        }
        if self.priority > 0 {
            attribute(&mut body, FRA_PRIORITY, &self.priority.to_ne_bytes());
        }
        body
    }
}

const fn family(v6: bool) -> u8 {
    if v6 { AF_INET6 } else { AF_INET }
}

/// Family, length in bits and octets of an address.
fn parts(address: IpAddr) -> (u8, u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (AF_INET, 32, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6, 128, v6.octets().to_vec()),
    }
}

/// `struct ifinfomsg` of the loopback interface: family, pad, type, index, flags, change.
fn loopback() -> Vec<u8> {
    [[0; 4], LOOPBACK.to_ne_bytes(), [0; 4], [0; 4]].concat()
}

/// Takes the next attribute off a message: its type and value.
fn next_attribute<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
    let value = rest.get(4..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, value))
}

/// The error code of an acknowledgement, 0 for success and for other messages.
fn status(answer: &[u8]) -> i32 {
    let kind = answer.get(4..6).and_then(|octets| octets.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(HEADER..HEADER + 4).and_then(|octets| octets.try_into().ok()).map(i32::from_ne_bytes);
    if kind == Some(NLMSG_ERROR) { code.unwrap_or(0) } else { 0 }
}

/// Appends an attribute: length, type, value, padded to four octets.
pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_local_and_documentation_addresses_are_not() {
        let netlink = Netlink::open().unwrap();
        assert!(netlink.is_local("127.0.0.1".parse().unwrap()).unwrap());
        // Without any route the kernel says so with an error, which also means: not local.
        assert!(!netlink.is_local("203.0.113.1".parse().unwrap()).unwrap_or(false));
    }
}
