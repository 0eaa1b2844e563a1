//! Rewrites the addresses of a packet and updates its checksums.

use std::net::{IpAddr, SocketAddr};

use super::checksum::{self, Change};
use super::packet::{Headers, ICMP_V6, TCP, UDP};

/// Sets the addresses of a packet, and its ports if it has any. If the address family differs, the packet is unchanged.
///
/// An IPv4 UDP datagram without checksum stays without (RFC 768). Fragments need no more than this: the checksum of the
/// datagram is in the first one, and changes by the same amount wherever the octets are.
pub fn set_ends(packet: &mut [u8], headers: &Headers, source: SocketAddr, destination: SocketAddr) {
    let mut addresses = Change::default();
    let at = if headers.source.is_ipv4() { [12, 16] } else { [8, 24] };
    if source.is_ipv4() != headers.source.is_ipv4() || destination.is_ipv4() != headers.source.is_ipv4() {
        return;
    }
    put_address(packet, at[0], source.ip(), &mut addresses);
    put_address(packet, at[1], destination.ip(), &mut addresses);
    if headers.source.is_ipv4() {
        update(packet, 10, addresses);
    }
    let mut change = addresses;
    if headers.ports.is_some() {
        put(packet, headers.transport, &source.port().to_be_bytes(), &mut change);
        put(packet, headers.transport + 2, &destination.port().to_be_bytes(), &mut change);
    }
    if !headers.is_later_fragment() {
        update_transport(packet, headers, change);
    }
}

/// Sets the addresses of the packet quoted by an ICMP error at `at`, as [`set_ends`] does, and updates the error's checksum.
pub fn set_quoted_ends(packet: &mut [u8], headers: &Headers, at: usize, source: SocketAddr, destination: SocketAddr) {
    let end = headers.length.min(packet.len());
    let Some(quoted) = packet.get_mut(at..end) else { return };
    let Ok(inner) = Headers::parse_quoted(quoted) else { return };
    let before = checksum::sum(quoted);
    set_ends(quoted, &inner, source, destination);
    let mut change = Change::default();
    change.replace_sum(before, checksum::sum(quoted));
    update(packet, headers.transport + 2, change);
}

fn put_address(packet: &mut [u8], at: usize, address: IpAddr, change: &mut Change) {
    match address {
        IpAddr::V4(v4) => put(packet, at, &v4.octets(), change),
        IpAddr::V6(v6) => put(packet, at, &v6.octets(), change),
    }
}

fn put(packet: &mut [u8], at: usize, new: &[u8], change: &mut Change) {
    let Some(old) = packet.get_mut(at..at + new.len()) else { return };
    change.replace(old, new);
    old.copy_from_slice(new);
}

/// The transport checksums that cover the addresses (RFC 768, RFC 9293 §3.1, RFC 4443 §2.3).
fn update_transport(packet: &mut [u8], headers: &Headers, change: Change) {
    let at = headers.transport;
    match headers.protocol {
        UDP if headers.source.is_ipv4() && packet.get(at + 6..at + 8) == Some(&[0, 0]) => {}
        UDP => {
            update(packet, at + 6, change);
            if let Some(sum @ [0, 0]) = packet.get_mut(at + 6..at + 8) {
                // Zero would mean that there is none.
                sum.fill(0xff);
            }
        }
        TCP => update(packet, at + 16, change),
        ICMP_V6 => update(packet, at + 2, change),
        _ => {}
    }
}

fn update(packet: &mut [u8], at: usize, change: Change) {
    let Some(place) = packet.get_mut(at..at + 2) else { return };
    let sum = change.apply(u16::from_be_bytes([place[0], place[1]]));
    place.copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::test_packet::{self, TestPacket};
    use proptest::prelude::*;

    fn of_family(like: SocketAddr, ends: (SocketAddr, SocketAddr)) -> (SocketAddr, SocketAddr) {
        let map = |end: SocketAddr| match (like, end) {
            (SocketAddr::V4(_), SocketAddr::V6(v6)) => {
                let octets = v6.ip().octets();
                ([octets[0], octets[1], octets[2], octets[3]], v6.port()).into()
            }
            (SocketAddr::V6(_), SocketAddr::V4(v4)) => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
            _ => end,
        };
        (map(ends.0), map(ends.1))
    }

    proptest! {
        #[test]
        fn checksums_are_those_of_a_packet_made_with_the_new_ends(made in test_packet::any_packet(), ends in test_packet::any_ends()) {
            let (source, destination) = of_family(made.source, ends);
            let mut packet = made.packet();
            let headers = Headers::parse(&packet).unwrap();
            set_ends(&mut packet, &headers, source, destination);
            prop_assert_eq!(packet, TestPacket { source, destination, ..made }.packet());
        }

        #[test]
        fn quoted_packets_change_within_a_sound_error(made in test_packet::any_packet(), ends in test_packet::any_ends()) {
            let (source, destination) = of_family(made.source, ends);
            let mut error = test_packet::unreachable(made.destination.ip(), made.source.ip(), &made.packet());
            let headers = Headers::parse(&error).unwrap();
            let at = headers.quote(&error).unwrap();
            set_quoted_ends(&mut error, &headers, at, source, destination);
            let expected = TestPacket { source, destination, ..made.clone() }.packet();
            prop_assert_eq!(error, test_packet::unreachable(made.destination.ip(), made.source.ip(), &expected));
        }

        #[test]
        fn fragments_put_together_are_the_packet_with_new_ends(made in test_packet::any_packet(), ends in test_packet::any_ends()) {
            prop_assume!(made.source.is_ipv4());
            let (source, destination) = of_family(made.source, ends);
            let made = TestPacket { payload: [made.payload, vec![7; 50]].concat(), ..made };
            let mut whole = Vec::new();
            for mut fragment in test_packet::fragments(&made.packet(), 9, 24) {
                let headers = Headers::parse(&fragment).unwrap();
                set_ends(&mut fragment, &headers, source, destination);
                whole.extend_from_slice(&fragment[20..]);
            }
            prop_assert_eq!(&whole[..], &TestPacket { source, destination, ..made }.packet()[20..]);
        }

        #[test]
        fn any_octets_are_rewritten_without_a_panic(packet in proptest::collection::vec(any::<u8>(), 20..120), six in any::<bool>()) {
            let mut packet = packet;
            packet[0] = if six { 0x60 } else { 0x45 };
            let ends = if six { ["[::1]:1", "[::2]:2"] } else { ["192.0.2.1:1", "192.0.2.2:2"] };
            let [source, destination] = ends.map(|end| end.parse().unwrap());
            if let Ok(headers) = Headers::parse_quoted(&packet) {
                if let Some(at) = headers.quote(&packet) {
                    set_quoted_ends(&mut packet, &headers, at, source, destination);
                }
                set_ends(&mut packet, &headers, source, destination);
            }
        }
    }

    #[test]
    fn an_error_that_quotes_a_cut_packet_stays_sound() {
        let quoted = TestPacket::udp("198.41.0.4:4000", "10.53.0.3:53", b"question").packet();
        let mut error =
            test_packet::unreachable("10.53.0.3".parse().unwrap(), "198.41.0.4".parse().unwrap(), &quoted[..28]);
        let headers = Headers::parse(&error).unwrap();
        let (source, destination) = ("10.53.0.2:4000".parse().unwrap(), "198.41.0.4:53".parse().unwrap());
        set_quoted_ends(&mut error, &headers, 28, source, destination);
        set_ends(&mut error, &headers, destination, source);
        assert!(test_packet::is_sound(&error));
        assert_eq!(Headers::parse_quoted(&error[28..]).unwrap().ports, Some((4_000, 53)));
    }
}
