//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use super::BadFrame;
use super::ethernet::{ARP, BROADCAST, Link, Mac};

/// Hardware type Ethernet, protocol IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: u16 = 1;
const REPLY: u16 = 2;
/// Octets of a message.
const LENGTH: usize = 28;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Whether it is a reply; a request otherwise.
    pub is_reply: bool,
    /// MAC address of the sender.
    pub sender: Mac,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// MAC address of who is asked or told; nobody's in a request.
    pub target: Mac,
    /// The target address of a request, or of the host that is answered.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// Reads a message.
    ///
    /// # Errors
    /// If it is cut short, not about IPv4 over Ethernet, or neither request nor reply.
    pub fn read(octets: &[u8]) -> Result<Self, BadFrame> {
        let octets: &[u8; LENGTH] = octets.first_chunk().ok_or(BadFrame::Arp)?;
        let (kind, rest) = octets.split_first_chunk::<6>().ok_or(BadFrame::Arp)?;
        let operation = u16::from_be_bytes([rest[0], rest[1]]);
        if *kind != KIND || !matches!(operation, REQUEST | REPLY) {
            return Err(BadFrame::Arp);
        }
        let mac = |at: usize| std::array::from_fn(|octet| octets[at + octet]);
        let ip = |at: usize| Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|octet| octets[at + octet]));
        Ok(Self { is_reply: operation == REPLY, sender: mac(8), sender_ip: ip(14), target: mac(18), target_ip: ip(24) })
    }

    /// Who has `target_ip`?
    pub const fn request(sender: Mac, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        Self { is_reply: false, sender, sender_ip, target: [0; 6], target_ip }
    }

    /// The reply to this request from `mac`, which has the address asked for.
    pub const fn reply(&self, mac: Mac) -> Self {
        Self { is_reply: true, sender: mac, sender_ip: self.target_ip, target: self.sender, target_ip: self.sender_ip }
    }

    /// Writes the frame, to everybody if it is a request; returns its length.
    pub fn write(&self, frame: &mut [u8], link: &Link) -> Option<usize> {
        let link = link.to(if self.is_reply { self.target } else { BROADCAST });
        let at = link.write(frame, ARP)?;
        let octets: &mut [u8; LENGTH] = frame.get_mut(at..)?.first_chunk_mut()?;
        octets[..6].copy_from_slice(&KIND);
        octets[6..8].copy_from_slice(&if self.is_reply { REPLY } else { REQUEST }.to_be_bytes());
        octets[8..14].copy_from_slice(&self.sender);
        octets[14..18].copy_from_slice(&self.sender_ip.octets());
        octets[18..24].copy_from_slice(&self.target);
        octets[24..].copy_from_slice(&self.target_ip.octets());
        Some(at + LENGTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Ethernet;

    #[test]
    fn a_request_goes_to_everybody_and_its_reply_to_who_asked() {
        let (asker, ours) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]);
        let request = Arp::request(asker, Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 9));
        for (message, to, from) in [(request, BROADCAST, asker), (request.reply(ours), asker, ours)] {
            let mut frame = [0; 60];
            let length = message.write(&mut frame, &Link::new(from, [0; 6], Some(5))).unwrap();
            let ethernet = Ethernet::read(&frame).unwrap();
            assert_eq!((ethernet.destination, ethernet.source, ethernet.vlan), (to, from, Some(5)));
            assert_eq!((Arp::read(ethernet.payload), length), (Ok(message), 46));
        }
        assert_eq!(request.reply(ours).sender_ip, request.target_ip);
    }

    #[test]
    fn other_messages_are_bad() {
        let mut frame = [0; 42];
        Arp::request([1; 6], Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST)
            .write(&mut frame, &Link::new([1; 6], [2; 6], None));
        for at in [14, 16, 18, 19, 21] {
            let mut frame = frame;
            frame[at] ^= 0x40;
            assert_eq!(Arp::read(&frame[14..]), Err(BadFrame::Arp), "{at}");
        }
        assert_eq!(Arp::read(&frame[14..41]), Err(BadFrame::Arp));
    }
}
