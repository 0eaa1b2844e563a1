//! A template for UDP queries to one server: the constant part of all frames is written and summed once.

use std::net::IpAddr;

use super::checksum::Sum;
use super::ethernet::Link;
use super::ip::{Header, UDP, V4_HEADER, V6_HEADER};
use super::udp::HEADER;

/// Longest prefix: Ethernet with a tag, IPv6, UDP.
const LONGEST: usize = super::ethernet::LONGEST + V6_HEADER + HEADER;

/// Frames with UDP datagrams to one server, over one link.
#[derive(Clone, Copy, Debug)]
pub struct QueryTemplate {
    /// All headers, with zeros where frames differ.
    octets: [u8; LONGEST],
    /// Where the IP header begins.
    ip: usize,
    /// Where the payload begins.
    payload: usize,
    is_ipv4: bool,
    /// Of the IPv4 header, without its length and source.
    ip_sum: Sum,
    /// Of the pseudo-header and the server's port, without length, source and its port.
    udp_sum: Sum,
}

impl QueryTemplate {
    /// Frames over `link` to `server`.
    pub fn new(link: &Link, server: IpAddr, port: u16) -> Self {
        let nobody = match server {
            IpAddr::V4(_) => IpAddr::from([0; 4]),
            IpAddr::V6(_) => IpAddr::from([0_u16; 8]),
        };
        let header = Header::new(nobody, server, UDP);
        let mut octets = [0; LONGEST];
        // The array has room for the longest headers.
        let ip = link.write(&mut octets, header.ethertype()).unwrap_or_default();
        header.write(&mut octets[ip..], 0);
        let udp = ip + header.len();
        octets[udp + 2..udp + 4].copy_from_slice(&port.to_be_bytes());
        if server.is_ipv4() {
            // Length and checksum, which differ.
            octets[ip + 2..ip + 4].fill(0);
            octets[ip + 10..ip + 12].fill(0);
        }
        Self {
            ip,
            payload: udp + HEADER,
            is_ipv4: server.is_ipv4(),
            ip_sum: Sum::default().octets(&octets[ip..ip + V4_HEADER]),
            udp_sum: Sum::default().pseudo_header(nobody, server, UDP).word(port),
            octets,
        }
    }

    /// Octets of a frame besides its payload.
    pub const fn overhead(&self) -> usize {
        self.payload
    }

    /// Writes a frame from a client with a message of two parts: its ID, which each query has anew, and the rest. Returns its length;
    /// `None` if it does not fit, is too long for UDP, or the client is of the other family.
    pub fn write(&self, frame: &mut [u8], client: IpAddr, port: u16, (id, rest): ([u8; 2], &[u8])) -> Option<usize> {
        let end = self.payload + id.len() + rest.len();
        let frame = frame.get_mut(..end)?;
        let length = u16::try_from(HEADER + id.len() + rest.len()).ok()?;
        let (headers, body) = frame.split_at_mut(self.payload);
        headers.copy_from_slice(&self.octets[..self.payload]);
        body[..2].copy_from_slice(&id);
        body[2..].copy_from_slice(rest);
        let source = match client {
            IpAddr::V4(client) if self.is_ipv4 => self.finish_v4(headers, client.octets(), length)?,
            IpAddr::V6(client) if !self.is_ipv4 => self.finish_v6(headers, client.octets(), length),
            _ => return None,
        };
        let udp = self.payload - HEADER;
        headers[udp..udp + 2].copy_from_slice(&port.to_be_bytes());
        headers[udp + 4..udp + 6].copy_from_slice(&length.to_be_bytes());
        // The length is in the pseudo-header and in the header.
        let sum = self.udp_sum.octets(&source.0[..source.1]).word(port).word(length).word(length);
        let sum = sum.octets(&id).octets(rest);
        headers[udp + 6..udp + 8].copy_from_slice(&sum.finish_udp());
        Some(end)
    }

    fn finish_v4(&self, headers: &mut [u8], source: [u8; 4], length: u16) -> Option<([u8; 16], usize)> {
        let total = length.checked_add(V4_HEADER as u16)?;
        let ip = headers.get_mut(self.ip..)?;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[12..16].copy_from_slice(&source);
        let checksum = self.ip_sum.word(total).octets(&source).finish();
        ip[10..12].copy_from_slice(&checksum);
        let mut octets = [0; 16];
        octets[..4].copy_from_slice(&source);
        Some((octets, 4))
    }

    fn finish_v6(&self, headers: &mut [u8], source: [u8; 16], length: u16) -> ([u8; 16], usize) {
        let ip = &mut headers[self.ip..];
        ip[4..6].copy_from_slice(&length.to_be_bytes());
        ip[8..24].copy_from_slice(&source);
        (source, 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::udp;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_are_those_that_are_written_without_a_template(
            v6: bool, client: u128, server: u128, ports: [u16; 2], vlan in prop::option::of(0_u16..4_096),
            payload in prop::collection::vec(any::<u8>(), 2..300),
        ) {
            let message = ([payload[0], payload[1]], &payload[2..]);
            let address = |bits: u128| if v6 { IpAddr::from(bits.to_be_bytes()) } else { IpAddr::from((bits as u32).to_be_bytes()) };
            let (client, server) = (address(client), address(server));
            let link = Link::new([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], vlan);
            let template = QueryTemplate::new(&link, server, ports[1]);
            let [mut fast, mut plain] = [[0xaa; 400]; 2];
            let length = template.write(&mut fast, client, ports[0], message);
            let expected = udp::write(&mut plain, &link, (client, ports[0]), (server, ports[1]), &payload);
            prop_assert_eq!(length, expected);
            prop_assert_eq!(&fast[..], &plain[..]);
            prop_assert_eq!(length, Some(template.overhead() + payload.len()));
            let other = if v6 { IpAddr::from([192, 0, 2, 1]) } else { IpAddr::from([0_u16; 8]) };
            prop_assert_eq!(template.write(&mut fast, other, 1, message), None);
            prop_assert_eq!(template.write(&mut fast[..length.unwrap() - 1], client, 1, message), None);
        }
    }

    #[test]
    fn what_is_too_long_for_ip_is_refused() {
        let template = QueryTemplate::new(&Link::none(), IpAddr::from([192, 0, 2, 53]), 53);
        let (mut frame, client) = (vec![0; 70_000], IpAddr::from([192, 0, 2, 1]));
        assert_eq!(template.write(&mut frame, client, 1, ([0; 2], &vec![0; 65_505])), Some(65_535));
        assert_eq!(template.write(&mut frame, client, 1, ([0; 2], &vec![0; 65_506])), None);
    }
}
