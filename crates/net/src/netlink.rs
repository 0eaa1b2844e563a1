//! The few requests of route netlink that a testbed needs (rtnetlink(7)), written by hand: no `ip` binary required.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

/// Index of the loopback interface, the first of every namespace.
const LOOPBACK: u32 = 1;

const RTM_NEWLINK: u16 = 16;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLMSG_ERROR: u16 = 2;
/// Request with acknowledgement.
const REQUEST_ACK: u16 = 0x0001 | 0x0004;
/// Replace or create.
const REPLACE_CREATE: u16 = 0x0100 | 0x0400;
const IFF_UP: u32 = 1;
const RTN_LOCAL: u8 = 2;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// Octets of a message header (`struct nlmsghdr`).
const HEADER: usize = 16;

/// A connection to the kernel's routing of the current network namespace.
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// Opens one (protocol 0 is NETLINK_ROUTE).
    ///
    /// # Errors
    /// When the kernel has no route netlink or the process no descriptors.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: socket(AddressFamily::NETLINK, SocketType::RAW, None)? })
    }

    /// Brings the loopback interface up.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace.
    pub fn loopback_up(&self) -> io::Result<()> {
        // struct ifinfomsg: family, pad, type, index, flags, change
        let mut body = vec![0; 4];
        for word in [LOOPBACK, IFF_UP, IFF_UP] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        self.request(RTM_NEWLINK, REQUEST_ACK, &body).map(drop)
    }

    /// Makes every IPv4 or IPv6 address local: `ip route add local default dev lo`.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or without the family in the kernel.
    pub fn any_ip(&self, v6: bool) -> io::Result<()> {
        let family = if v6 { AF_INET6 } else { AF_INET };
        // struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags
        let mut body = vec![family, 0, 0, 0, RT_TABLE_LOCAL, RTPROT_STATIC, RT_SCOPE_HOST, RTN_LOCAL, 0, 0, 0, 0];
        attribute(&mut body, RTA_OIF, &LOOPBACK.to_ne_bytes());
        self.request(RTM_NEWROUTE, REQUEST_ACK | REPLACE_CREATE, &body).map(drop)
    }

    /// Whether packets to `address` are delivered to this namespace itself. Sends nothing.
    ///
    /// # Errors
    /// When there is no route at all, among others.
    pub fn is_local(&self, address: IpAddr) -> io::Result<bool> {
        let (family, length, octets) = match address {
            IpAddr::V4(v4) => (AF_INET, 32, v4.octets().to_vec()),
            IpAddr::V6(v6) => (AF_INET6, 128, v6.octets().to_vec()),
        };
        let mut body = vec![family, length, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        attribute(&mut body, RTA_DST, &octets);
        let answer = self.request(RTM_GETROUTE, 0x0001, &body)?;
        Ok(answer.get(HEADER + 7) == Some(&RTN_LOCAL))
    }

    /// Sends one request and returns the kernel's answer; an error message becomes an error.
    fn request(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<u8>> {
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

/// The error code of an acknowledgement, 0 for success and for other messages.
fn status(answer: &[u8]) -> i32 {
    let kind = answer.get(4..6).and_then(|octets| octets.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(HEADER..HEADER + 4).and_then(|octets| octets.try_into().ok()).map(i32::from_ne_bytes);
    if kind == Some(NLMSG_ERROR) { code.unwrap_or(0) } else { 0 }
}

/// Appends an attribute: length, type, value, padded to four octets.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
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
