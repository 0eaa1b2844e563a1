//! The subnet of a client, as a resolver passes it on to a server, and a server says what its answer depends on (RFC 7871 §6).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cidr::Cidr;

/// Code of the EDNS option.
pub const CLIENT_SUBNET: u16 = 8;
/// Octets of the option's value before the address.
const FIXED: usize = 4;
/// Where among them the scope is.
pub const SCOPE_AT: usize = 3;

/// The value of the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSubnet {
    /// The subnet, with the SOURCE PREFIX-LENGTH.
    pub subnet: Cidr,
    /// The SCOPE PREFIX-LENGTH: 0 in queries, and in answers that are the same for all.
    pub scope: u8,
}

impl ClientSubnet {
    /// Reads the value; `None` for one that is not well-formed: an unknown family, a prefix longer than an address of the family, too few or
    /// too many octets, or bits behind the prefix.
    pub fn read(value: &[u8]) -> Option<Self> {
        let (&[high, low, source, scope], octets) = value.split_first_chunk::<FIXED>()?;
        let width = match u16::from_be_bytes([high, low]) {
            1 => 32,
            2 => 128,
            _ => return None,
        };
        if source > width || scope > width || octets.len() != usize::from(source).div_ceil(8) {
            return None;
        }
        let mut address = [0; 16];
        address[..octets.len()].copy_from_slice(octets);
        let address = match width {
            32 => IpAddr::from(Ipv4Addr::new(address[0], address[1], address[2], address[3])),
            _ => IpAddr::from(Ipv6Addr::from(address)),
        };
        let subnet = Cidr::new(address, source);
        // An IPv4-mapped address is another family's, and its first address is compared as that.
        (subnet.first() == address.to_canonical()).then_some(Self { subnet, scope })
    }

    /// The subnet that an answer is for: as long as the scope says, but no longer than the subnet of the query.
    pub fn answered(&self) -> Cidr {
        Cidr::new(self.subnet.first(), self.scope.min(self.subnet.prefix()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_with_its_subnet_and_scope() {
        let read = ClientSubnet::read(&[0, 1, 24, 20, 192, 0, 2]).unwrap();
        assert_eq!((read.subnet.to_string(), read.scope), ("192.0.2.0/24".to_owned(), 20));
        assert_eq!(read.answered().to_string(), "192.0.0.0/20");
        let v6 = ClientSubnet::read(&[0, 2, 33, 0, 0x20, 1, 0xd, 0xb8, 0x80]).unwrap();
        assert_eq!(v6.subnet.to_string(), "2001:db8:8000::/33");
        assert_eq!(ClientSubnet::read(&[0, 1, 0, 0]).unwrap().subnet.to_string(), "0.0.0.0/0");
    }

    #[test]
    fn values_that_are_not_well_formed_are_none() {
        let wrong: [&[u8]; 7] = [
            &[],
            &[0, 1, 24],
            &[0, 3, 0, 0],
            &[0, 1, 33, 0, 1, 2, 3, 4, 5],
            &[0, 1, 24, 0, 192, 0],
            &[0, 1, 24, 0, 192, 0, 2, 1],
            &[0, 1, 23, 0, 192, 0, 3],
        ];
        assert!(wrong.iter().all(|value| ClientSubnet::read(value).is_none()));
    }
}
