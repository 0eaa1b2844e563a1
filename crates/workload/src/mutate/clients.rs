//! Changes client addresses: merges, splits, renumbers or anonymises clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hashbrown::HashTable;
use ldplayer_core::Cidr;
use ldplayer_core::cidr::BadCidr;
use ldplayer_core::random::{draw, subkey};
use ldplayer_core::shard::client_hash;

use super::anonymise::CryptoPan;
use super::edit::EditError;

/// How clients are renumbered.
#[derive(Debug)]
pub enum Remap {
    /// Merges all clients into this many addresses.
    Merge(u32, Pools),
    /// Splits each client into this many, by its port.
    Split(u32, Numbers),
    /// Numbers clients from a pool in order of appearance.
    Renumber(Numbers),
    /// Prefix-preserving pseudonyms.
    Anonymise(Box<CryptoPan>),
}

impl Remap {
    /// The new address of a client with source port `port`.
    pub fn apply(&mut self, client: IpAddr, port: u16, key: u64) -> Result<IpAddr, EditError> {
        match self {
            Self::Merge(count, pools) => Ok(pools.of(client).nth(draw(key, client_hash(client)) % u64::from(*count))),
            Self::Split(count, numbers) => {
                let hash = client_hash(client);
                match draw(subkey(key, hash), u64::from(port)) % u64::from(*count) {
                    0 => Ok(client),
                    part => numbers.address(client, subkey(hash, part)),
                }
            }
            Self::Renumber(numbers) => numbers.address(client, client_hash(client)),
            Self::Anonymise(pan) => Ok(pan.pseudonym(client)),
        }
    }
}

/// A block of addresses for each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    /// For clients of IPv4.
    pub v4: Cidr,
    /// For clients of IPv6.
    pub v6: Cidr,
}

impl Default for Pools {
    /// 10.0.0.0/8 (RFC 1918) and fd6c:6470::/32 (RFC 4193).
    fn default() -> Self {
        Self {
            v4: Cidr::new(Ipv4Addr::new(10, 0, 0, 0).into(), 8),
            v6: Cidr::new(Ipv6Addr::new(0xfd6c, 0x6470, 0, 0, 0, 0, 0, 0).into(), 32),
        }
    }
}

impl Pools {
    /// Reads one block or two, separated by a comma; the family that has none keeps the default.
    ///
    /// # Errors
    /// The invalid block.
    pub fn parse(text: &str) -> Result<Self, BadCidr> {
        let mut pools = Self::default();
        for word in text.split(',') {
            let block: Cidr = word.trim().parse()?;
            *(if block.is_ipv4() { &mut pools.v4 } else { &mut pools.v6 }) = block;
        }
        Ok(pools)
    }

    /// The block of the client's family.
    pub fn of(&self, client: IpAddr) -> &Cidr {
        if client.is_ipv4() { &self.v4 } else { &self.v6 }
    }
}

/// Assigns addresses to clients in order of appearance.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    pools: Pools,
    given: HashTable<(u64, u32)>,
    next: [u32; 2],
}

impl Numbers {
    /// Uses these pools without their first address, which often denotes the block.
    pub fn new(pools: Pools) -> Self {
        Self { pools, ..Self::default() }
    }

    /// The address for the client with `hash`, in the family of `client`.
    pub fn address(&mut self, client: IpAddr, hash: u64) -> Result<IpAddr, EditError> {
        let pool = *self.pools.of(client);
        let next = &mut self.next[usize::from(client.is_ipv6())];
        let number = match self.given.find(hash, |&(known, _)| known == hash) {
            Some(&(_, number)) => number,
            None if u64::from(*next) + 1 >= pool.size() => return Err(EditError::NoAddress),
            None => {
                *next += 1;
                self.given.insert_unique(hash, (hash, *next), |&(known, _)| known);
                *next
            }
        };
        Ok(pool.nth(u64::from(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn clients(count: u32) -> impl Iterator<Item = IpAddr> {
        (0..count).map(|number| Ipv4Addr::from_bits(0xc000_0200 + number).into())
    }

    #[test]
    fn numbers_are_given_in_the_order_of_appearance() {
        let mut remap = Remap::Renumber(Numbers::default());
        let mut to = |client: &str| remap.apply(client.parse().unwrap(), 1, 0).unwrap().to_string();
        assert_eq!(
            (to("192.0.2.9"), to("192.0.2.1"), to("192.0.2.9")),
            ("10.0.0.1".into(), "10.0.0.2".into(), "10.0.0.1".into())
        );
        assert_eq!(to("2001:db8::1"), "fd6c:6470::1");
    }

    #[test]
    fn a_pool_that_is_used_up_is_a_reason() {
        let pools = Pools { v4: "198.51.100.0/30".parse().unwrap(), ..Pools::default() };
        let mut remap = Remap::Renumber(Numbers::new(pools));
        let given: Vec<_> = clients(5).map(|client| remap.apply(client, 1, 0)).collect();
        assert!(given[..3].iter().all(Result::is_ok));
        assert_eq!(given[3..], [Err(EditError::NoAddress), Err(EditError::NoAddress)]);
    }

    #[test]
    fn merged_clients_share_so_many_addresses() {
        let mut remap = Remap::Merge(8, Pools::default());
        let merged: HashSet<IpAddr> = clients(200).map(|client| remap.apply(client, 1, 3).unwrap()).collect();
        assert_eq!(merged.len(), 8);
    }

    #[test]
    fn split_clients_keep_one_address_a_port() {
        let mut remap = Remap::Split(4, Numbers::default());
        let mut of_port = |port: u16| remap.apply("192.0.2.1".parse().unwrap(), port, 3).unwrap();
        let first: Vec<IpAddr> = (0..400).map(&mut of_port).collect();
        let again: Vec<IpAddr> = (0..400).map(&mut of_port).collect();
        assert_eq!(first, again);
        let distinct: HashSet<&IpAddr> = first.iter().collect();
        assert!(distinct.len() == 4 && distinct.contains(&IpAddr::from([192, 0, 2, 1])), "{distinct:?}");
    }
}
