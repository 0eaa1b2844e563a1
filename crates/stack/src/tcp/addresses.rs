//! IPv6 addresses of clients, each stored once: connections have its number of four octets.

use std::net::Ipv6Addr;

use ldplayer_core::random::draw;

use super::blocks::Blocks;
use super::index::{Chained, Index, NONE};

/// An address takes 24 octets and four of the index, however many connections it has.
#[derive(Debug)]
struct Interned {
    octets: [u8; 16],
    /// Connections that have it.
    count: u32,
    next: u32,
}

#[derive(Debug, Default)]
struct Table(Blocks<Interned>);

impl Chained for Table {
    fn hash(&self, at: u32) -> u64 {
        hash(self.0[at].octets)
    }
    fn next(&self, at: u32) -> u32 {
        self.0[at].next
    }
    fn set_next(&mut self, at: u32, next: u32) {
        self.0[at].next = next;
    }
}

fn hash(octets: [u8; 16]) -> u64 {
    let bits = u128::from_ne_bytes(octets);
    draw((bits >> 64) as u64, bits as u64)
}

/// IPv6 addresses by number, each as long as it has connections: 28 octets each, and four for each number of it.
#[derive(Debug)]
pub struct Addresses {
    table: Table,
    index: Index,
    /// First of the places to be used again, chained.
    free: u32,
}

impl Default for Addresses {
    fn default() -> Self {
        Self { table: Table::default(), index: Index::default(), free: NONE }
    }
}

impl Addresses {
    /// The number of an address, if it has a connection.
    pub fn find(&self, address: Ipv6Addr) -> Option<u32> {
        let octets = address.octets();
        self.index.find(&self.table, hash(octets), |at| self.table.0[at].octets == octets)
    }

    /// The number of an address for one more connection.
    pub fn acquire(&mut self, address: Ipv6Addr) -> u32 {
        if let Some(at) = self.find(address) {
            self.table.0[at].count += 1;
            return at;
        }
        let interned = Interned { octets: address.octets(), count: 1, next: NONE };
        let at = self.free;
        let at = if at == NONE {
            self.table.0.push(interned)
        } else {
            self.free = std::mem::replace(&mut self.table.0[at], interned).next;
            at
        };
        self.index.insert(&mut self.table, at);
        at
    }

    /// One connection less has the address.
    pub fn release(&mut self, at: u32) {
        self.table.0[at].count -= 1;
        if self.table.0[at].count == 0 {
            self.index.remove(&mut self.table, at);
            self.table.0[at].next = std::mem::replace(&mut self.free, at);
        }
    }

    /// Whether no address has a connection.
    pub const fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The address of a number.
    pub fn address(&self, at: u32) -> Ipv6Addr {
        self.table.0[at].octets.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_there_as_long_as_it_has_connections() {
        let mut addresses = Addresses::default();
        let [one, two] = [Ipv6Addr::from_bits(1), Ipv6Addr::from_bits(2)];
        let at = addresses.acquire(one);
        assert_eq!((addresses.acquire(one), addresses.find(one), addresses.address(at)), (at, Some(at), one));
        addresses.release(at);
        assert_eq!(addresses.find(one), Some(at));
        addresses.release(at);
        assert!(addresses.is_empty());
        assert_eq!((addresses.find(one), addresses.acquire(two), addresses.find(two)), (None, at, Some(at)));
        assert!(!addresses.is_empty());
    }
}
