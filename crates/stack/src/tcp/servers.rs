//! What is remembered of servers: their number, the path's MTU, and whether Fast Open gets through.

use std::net::{IpAddr, SocketAddr};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::frame::ip::{V4_HEADER, V6_HEADER};
use crate::frame::segment::HEADER;

/// Maximum number of servers.
pub const SERVERS: usize = 1 << 20;
/// The least MTU that is believed: RFC 1191 section 3 has 68, where a segment would hold almost nothing; Linux has 552.
const LEAST_V4: u16 = 552;
/// RFC 8200 section 5.
const LEAST_V6: u16 = 1_280;

/// A server.
#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    /// Octets of the longest IP packet to it.
    pub mtu: u16,
    /// Whether SYNs with Fast Open get lost on the way (RFC 7413 section 4.1.3).
    pub is_fast_open_lost: bool,
}

impl Server {
    /// Octets of data in a segment without options.
    pub fn mss(&self) -> u16 {
        mss(self.address.ip(), self.mtu)
    }

    /// Takes the MTU of a link on the way; returns whether it is news.
    pub fn lower_mtu(&mut self, mtu: u32) -> bool {
        let least = if self.address.is_ipv4() { LEAST_V4 } else { LEAST_V6 };
        let mtu = (mtu.min(u16::MAX.into()) as u16).max(least);
        let is_news = mtu < self.mtu;
        self.mtu = self.mtu.min(mtu);
        is_news
    }
}

/// Octets of data in a segment without options to this family, in packets of `mtu` octets.
pub fn mss(address: IpAddr, mtu: u16) -> u16 {
    let header = if address.is_ipv4() { V4_HEADER } else { V6_HEADER };
    mtu.saturating_sub((header + HEADER) as u16)
}

/// The servers, which are never forgotten.
#[derive(Debug, Default)]
pub struct Servers {
    list: Vec<Server>,
    numbers: HashMap<SocketAddr, u32, RandomState>,
}

impl Servers {
    /// The number of a server, if anything was sent to it.
    pub fn find(&self, address: SocketAddr) -> Option<u32> {
        self.numbers.get(&address).copied()
    }

    /// The number of a server; `None` if there are too many.
    pub fn number(&mut self, address: SocketAddr, mtu: u16) -> Option<u32> {
        if let Some(number) = self.find(address) {
            return Some(number);
        }
        let number = self.list.len();
        if number == SERVERS {
            return None;
        }
        self.list.push(Server { address, mtu, is_fast_open_lost: false });
        self.numbers.insert(address, number as u32);
        Some(number as u32)
    }

    /// A server by its number.
    pub fn get(&self, number: u32) -> &Server {
        &self.list[number as usize]
    }

    /// A server by its number, to be changed.
    pub fn get_mut(&mut self, number: u32) -> &mut Server {
        &mut self.list[number as usize]
    }
}
