//! Which header frames to a server begin with: one for all servers, or one for each.

use std::net::IpAddr;

use hashbrown::HashMap;
use ldplayer_stack::frame::{Link, Mac};

/// Headers of frames from clients to servers.
#[derive(Clone, Debug)]
pub struct Links {
    /// The next hop of servers that are not in the table.
    first: Link,
    /// Those of several next hops; empty where there is one.
    of: HashMap<IpAddr, Link, foldhash::fast::FixedState>,
}

impl Links {
    /// All servers are behind one MAC address.
    pub fn one(mac: Mac, next_hop: Mac) -> Self {
        Self { first: Link::new(mac, next_hop, None), of: HashMap::default() }
    }

    /// Each of these servers is behind a MAC address of its own, which may be the same.
    pub fn each(mac: Mac, servers: &[(IpAddr, Mac)]) -> Self {
        let first = servers.first().map_or(mac, |&(_, hop)| hop);
        let links = Self::one(mac, first);
        if servers.iter().all(|&(_, hop)| hop == first) {
            return links;
        }
        let of = servers.iter().map(|&(server, hop)| (server, links.first.to(hop))).collect();
        Self { of, ..links }
    }

    /// The header of frames to a server.
    pub fn to(&self, server: IpAddr) -> &Link {
        if self.of.is_empty() {
            return &self.first;
        }
        self.of.get(&server).unwrap_or(&self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Mac = [2, 0, 0, 0, 0, 1];
    const HOPS: [Mac; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];

    fn servers() -> [IpAddr; 3] {
        ["192.0.2.1", "2001:db8::1", "192.0.2.2"].map(|address| address.parse().unwrap())
    }

    #[test]
    fn servers_behind_one_neighbour_need_no_table() {
        let links = Links::each(OURS, &servers().map(|server| (server, HOPS[0])));
        assert!(links.of.is_empty());
        assert_eq!(*links.to(servers()[1]), Link::new(OURS, HOPS[0], None));
    }

    #[test]
    fn servers_behind_several_neighbours_have_each_the_header_of_its_own() {
        let [a, b, c] = servers();
        let links = Links::each(OURS, &[(a, HOPS[0]), (b, HOPS[1]), (c, HOPS[1])]);
        for (server, hop) in [(a, HOPS[0]), (b, HOPS[1]), (c, HOPS[1])] {
            assert_eq!(*links.to(server), Link::new(OURS, hop, None), "{server}");
        }
    }
}
