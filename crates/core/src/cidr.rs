//! Blocks of addresses in prefix notation (RFC 4632 §3.1, RFC 4291 §2.3).
//!
//! IPv4-mapped addresses (`::ffff:192.0.2.17`) are IPv4 (RFC 4291 §2.5.5.2), and so are blocks of them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A block of addresses, such as `192.0.2.0/24`; a bare address is a block of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    first: IpAddr,
    prefix: u8,
}

/// A text that is no block of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address block such as 192.0.2.0/24 or 2001:db8::/32")]
pub struct BadCidr(String);

/// Bits that all IPv4-mapped addresses have in common.
const MAPPED: u8 = 96;

/// An address with its port, IPv4 if it is IPv4-mapped.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), address.port()),
        // With its scope.
        IpAddr::V6(_) => address,
    }
}

impl Cidr {
    /// The block that `address` lies in; `prefix` counts for the whole width where it is longer. A block of IPv4-mapped addresses
    /// is one of IPv4.
    pub const fn new(address: IpAddr, prefix: u8) -> Self {
        let (address, prefix) = match address.to_canonical() {
            v4 @ IpAddr::V4(_) if address.is_ipv6() && prefix >= MAPPED => (v4, prefix - MAPPED),
            _ => (address, prefix),
        };
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = if prefix < width { prefix } else { width };
        let block = Self { first: address, prefix };
        let first = match address {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & block.mask_v4())),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & block.mask_v6())),
        };
        Self { first, prefix }
    }

    /// Whether `address` lies in the block.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => (first.to_bits() ^ address.to_bits()) & self.mask_v4() == 0,
            (IpAddr::V6(first), IpAddr::V6(address)) => (first.to_bits() ^ address.to_bits()) & self.mask_v6() == 0,
            _ => false,
        }
    }

    /// Addresses in the block, at most `u64::MAX`.
    pub fn size(&self) -> u64 {
        let width = if self.first.is_ipv4() { 32 } else { 128 };
        1_u64.checked_shl(u32::from(width - self.prefix)).unwrap_or(u64::MAX)
    }

    /// The address at `offset` from the first of the block, counting around at its end.
    pub fn nth(&self, offset: u64) -> IpAddr {
        let offset = offset % self.size();
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() | offset as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() | u128::from(offset)).into(),
        }
    }

    /// The first address of the block.
    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// Bits that the addresses of the block have in common: 0 to 32 or 128.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether the block is of IPv4 addresses.
    pub const fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    const fn mask_v4(&self) -> u32 {
        match self.prefix {
            0 => 0,
            prefix => u32::MAX << (32 - prefix),
        }
    }

    const fn mask_v6(&self) -> u128 {
        match self.prefix {
            0 => 0,
            prefix => u128::MAX << (128 - prefix),
        }
    }
}

impl FromStr for Cidr {
    type Err = BadCidr;

    /// Host bits are cleared, as `ip route` does.
    fn from_str(text: &str) -> Result<Self, BadCidr> {
        let bad = || BadCidr(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(width), |prefix| prefix.parse().map_err(|_| bad()))?;
        if prefix > width {
            return Err(bad());
        }
        Ok(Self::new(address, prefix))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

crate::serde_as_text!(Cidr);

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn membership_follows_the_prefix() {
        assert!(block("192.0.2.77/24").contains(ip("192.0.2.255")));
        assert!(!block("192.0.2.0/24").contains(ip("192.0.3.0")));
        assert!(block("0.0.0.0/0").contains(ip("255.1.2.3")) && !block("0.0.0.0/0").contains(ip("::1")));
        assert!(block("2001:db8::/32").contains(ip("2001:db8:ffff::1")));
        assert!(block("::1").contains(ip("::1")) && !block("::1").contains(ip("::2")));
    }

    #[test]
    fn blocks_of_ipv4_mapped_addresses_are_ipv4() {
        for (mapped, plain) in [
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("::ffff:192.0.2.77/120", "192.0.2.0/24"),
            ("::ffff:c000:211", "192.0.2.17/32"),
            ("::FFFF:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(block(mapped), block(plain), "{mapped}");
            assert_eq!(block(mapped).to_string(), plain);
        }
        // A shorter prefix has other addresses, too.
        assert!(!block("::ffff:0:0/95").is_ipv4() && !block("::/0").is_ipv4());
        assert!(
            block("192.0.2.0/24").contains(ip("::ffff:192.0.2.7")) && !block("192.0.2.0/24").contains(ip("::c000:207"))
        );
        for bad in ["::ffff:192.0.2.0/129", "::ffff:192.0.2.0/"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
        let canonical = |text: &str| canonical(text.parse().unwrap()).to_string();
        assert_eq!(canonical("[::ffff:192.0.2.17]:53"), "192.0.2.17:53");
        assert_eq!(canonical("[fe80::1%3]:53"), "[fe80::1%3]:53");
    }

    #[test]
    fn addresses_are_counted_from_the_first() {
        assert_eq!((block("192.0.2.0/24").size(), block("::/0").size(), block("10.0.0.1").size()), (256, u64::MAX, 1));
        assert_eq!(block("192.0.2.0/24").nth(255), ip("192.0.2.255"));
        assert_eq!(block("192.0.2.0/24").nth(256), ip("192.0.2.0"));
        assert_eq!(block("2001:db8::/64").nth(10), ip("2001:db8::a"));
        assert_eq!(block("0.0.0.0/0").nth(1 << 31), ip("128.0.0.0"));
    }

    #[test]
    fn bad_blocks_are_refused() {
        for bad in ["", "192.0.2.0/33", "192.0.2/24", "::/129", "x/8", "192.0.2.0/", "192.0.2.0/-1"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
        assert_eq!(block("192.0.2.9/24").to_string(), "192.0.2.0/24");
    }
}
