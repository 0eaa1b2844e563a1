//! A network namespace in which every address is local and that no packet can leave.
//!
//! Emulated clients keep their recorded addresses in it without any interface configuration: the route
//! `local default dev lo` (AnyIP) makes each IPv4 and IPv6 address one of this host. There is no interface but loopback.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};

use crate::interfaces;
use crate::netlink::Netlink;
use crate::rights::{NetError, enter_user_namespace};
use crate::settings::{Shortfall, apply_settings, has_ipv6};
use crate::system::{self, Kind};
use crate::udp::{Datagram, ReceiveBatch, SendBatch, UdpOptions, UdpSocket};
use crate::veth;

/// Addresses that no host has (RFC 5737, RFC 3849), two of each family: local here only by AnyIP.
const PAIRS: [[IpAddr; 2]; 2] = [
    [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), IpAddr::V4(Ipv4Addr::new(203, 0, 113, 2))],
    [
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)),
    ],
];

/// The namespace that the calling thread is in; threads and processes that it starts from now on are in it, too.
#[derive(Debug)]
pub struct Testbed {
    rootless: bool,
    shortfalls: Vec<Shortfall>,
}

impl Testbed {
    /// Puts the caller into a new namespace. It must be the only thread of its process, as a new user namespace asks for.
    ///
    /// # Errors
    /// What the system refused, with the way to allow it.
    pub fn enter() -> Result<Self, NetError> {
        let rootless = separate()?;
        let with_v6 = has_ipv6();
        let shortfalls = apply_settings();
        let netlink = Netlink::open().map_err(|source| NetError::Routing { what: "netlink", source })?;
        let routing = |what| move |source| NetError::Routing { what, source };
        netlink.claim().map_err(routing("loopback"))?;
        netlink.any_ip(false).map_err(routing("local IPv4 routes"))?;
        if with_v6 {
            netlink.any_ip(true).map_err(routing("local IPv6 routes"))?;
        }
        PAIRS.iter().filter(|pair| with_v6 || pair[0].is_ipv4()).try_for_each(exchange).map_err(NetError::Unusable)?;
        Ok(Self { rootless, shortfalls })
    }

    /// Puts the caller into a new namespace whose only way out is a link to clients at its far end, whose frames this program
    /// makes ([`crate::veth`]); packets have up to `mtu` octets. It must be the only thread of its process, as for [`Self::enter`].
    ///
    /// # Errors
    /// What the system refused, with the way to allow it.
    pub fn enter_with_link(mtu: u16) -> Result<Self, NetError> {
        let rootless = separate()?;
        Ok(Self { rootless, shortfalls: veth::connect_here(mtu)? })
    }

    /// Whether it was made without privileges, in a user namespace.
    pub const fn is_rootless(&self) -> bool {
        self.rootless
    }

    /// The kernel settings that could not be made.
    pub fn shortfalls(&self) -> &[Shortfall] {
        &self.shortfalls
    }
}

/// Sends a datagram from the first address to the second, which loopback delivers before the call returns.
fn exchange(&[from, to]: &[IpAddr; 2]) -> io::Result<()> {
    let open = |address| {
        UdpSocket::open(&UdpOptions {
            bind: SocketAddr::new(address, 0),
            buffer: 4_096,
            freebind: true,
            packet_info: false,
        })
    };
    let (mut sender, receiver) = (open(from)?, open(to)?);
    sender.connect(receiver.local())?;
    let datagram = Datagram { head: [0; 2], tail: &[0; 10], source: None, peer: None };
    SendBatch::new().send(&sender, std::iter::once(datagram))?;
    let received = ReceiveBatch::new().receive(&receiver, 1)?;
    if received == 1 { Ok(()) } else { Err(io::Error::other(format!("from {from} to {to}"))) }
}

/// Whether this program made the current namespace, and nothing but the emulated network is reached from it: load may go to every
/// address.
pub fn is_emulated() -> bool {
    is_claimed() && (interfaces::is_wired() || veth::is_here() || has_any_ip())
}

/// Whether this program made the current namespace. That addresses are local proves nothing: a proxy makes them so, too.
fn is_claimed() -> bool {
    Netlink::open().and_then(|netlink| netlink.is_claimed()).unwrap_or(false)
}

/// Whether this program made the current namespace and every address of the kernel's families is local in it: a program can send from any
/// address and receives what is sent to it.
pub fn has_any_ip() -> bool {
    if !is_claimed() {
        return false;
    }
    if interfaces::is_wired() {
        // Routes lead to the wire there, but the kernel binds to no IPv4 address that is not local.
        return StdSocket::bind((PAIRS[0][0], 0)).is_ok();
    }
    // Beside another way out, that route would make local only what no other one leads to.
    if !interfaces::is_alone() {
        return false;
    }
    let Ok(netlink) = Netlink::open() else { return false };
    let is_local = |address| netlink.is_local(address).unwrap_or(false);
    PAIRS.iter().all(|[probe, _]| is_local(*probe) || (probe.is_ipv6() && !has_ipv6()))
}

/// Leaves the network namespace; enters a new user namespace if that right is missing. Returns whether it was.
fn separate() -> Result<bool, NetError> {
    if system::leave(&[Kind::Network]).is_ok() {
        return Ok(false);
    }
    enter_user_namespace(&[Kind::User, Kind::Network])?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;

    #[test]
    fn addresses_that_are_local_in_a_namespace_of_others_permit_nothing() {
        let namespace = Namespace::create().unwrap();
        let all_local = || {
            let netlink = Netlink::open().unwrap();
            netlink.loopback_up().unwrap();
            netlink.any_ip(false).unwrap();
            assert!(!has_ipv6() || netlink.any_ip(true).is_ok());
            let before = (netlink.is_local(PAIRS[0][0]).unwrap(), has_any_ip(), is_emulated());
            netlink.claim().unwrap();
            (before, has_any_ip(), is_emulated())
        };
        assert_eq!(namespace.run(all_local).unwrap(), ((true, false, false), true, true));
        assert!(!is_emulated(), "the host's own");
    }
}
