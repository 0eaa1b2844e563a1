//! Root hints: the addresses of the root servers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of the root servers as IANA publishes them (named.root of December 2023): what root hints hold.
pub const ROOT_V4: [Ipv4Addr; 13] = [
    Ipv4Addr::new(198, 41, 0, 4),
    Ipv4Addr::new(170, 247, 170, 2),
    Ipv4Addr::new(192, 33, 4, 12),
    Ipv4Addr::new(199, 7, 91, 13),
    Ipv4Addr::new(192, 203, 230, 10),
    Ipv4Addr::new(192, 5, 5, 241),
    Ipv4Addr::new(192, 112, 36, 4),
    Ipv4Addr::new(198, 97, 190, 53),
    Ipv4Addr::new(192, 36, 148, 17),
    Ipv4Addr::new(192, 58, 128, 30),
    Ipv4Addr::new(193, 0, 14, 129),
    Ipv4Addr::new(199, 7, 83, 42),
    Ipv4Addr::new(202, 12, 27, 33),
];
/// The same for IPv6.
pub const ROOT_V6: [Ipv6Addr; 13] = [
    Ipv6Addr::new(0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30),
    Ipv6Addr::new(0x2801, 0x1b8, 0x10, 0, 0, 0, 0, 0xb),
    Ipv6Addr::new(0x2001, 0x500, 2, 0, 0, 0, 0, 0xc),
    Ipv6Addr::new(0x2001, 0x500, 0x2d, 0, 0, 0, 0, 0xd),
    Ipv6Addr::new(0x2001, 0x500, 0xa8, 0, 0, 0, 0, 0xe),
    Ipv6Addr::new(0x2001, 0x500, 0x2f, 0, 0, 0, 0, 0xf),
    Ipv6Addr::new(0x2001, 0x500, 0x12, 0, 0, 0, 0, 0xd0d),
    Ipv6Addr::new(0x2001, 0x500, 1, 0, 0, 0, 0, 0x53),
    Ipv6Addr::new(0x2001, 0x7fe, 0, 0, 0, 0, 0, 0x53),
    Ipv6Addr::new(0x2001, 0x503, 0xc27, 0, 0, 0, 2, 0x30),
    Ipv6Addr::new(0x2001, 0x7fd, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0x500, 0x9f, 0, 0, 0, 0, 0x42),
    Ipv6Addr::new(0x2001, 0xdc3, 0, 0, 0, 0, 0, 0x35),
];

/// All of them.
pub fn addresses() -> impl Iterator<Item = IpAddr> {
    ROOT_V4.iter().map(|&v4| v4.into()).chain(ROOT_V6.iter().map(|&v6| v6.into()))
}
