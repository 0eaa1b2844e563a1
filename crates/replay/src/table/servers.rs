//! Numbers the servers, so that a connection holds four octets instead of an address.

use std::net::SocketAddr;

use hashbrown::HashMap;

/// The servers asked so far.
#[derive(Debug, Default)]
pub struct Servers {
    addresses: Vec<SocketAddr>,
    numbers: HashMap<SocketAddr, u32, foldhash::fast::FixedState>,
    /// The one asked last, which most often is the next, too.
    last: u32,
}

impl Servers {
    /// The number of a server, which it keeps.
    pub fn number(&mut self, server: SocketAddr) -> u32 {
        if self.addresses.get(self.last as usize) == Some(&server) {
            return self.last;
        }
        let next = self.addresses.len() as u32;
        let number = *self.numbers.entry(server).or_insert(next);
        if number == next {
            self.addresses.push(server);
        }
        self.last = number;
        number
    }

    /// The number of a server that was asked.
    pub fn find(&self, server: SocketAddr) -> Option<u32> {
        self.numbers.get(&server).copied()
    }

    /// The server with a number that was given out here.
    pub fn address(&self, number: u32) -> SocketAddr {
        self.addresses[number as usize]
    }
}
