//! Cookies of Fast Open: a server gives each client another one, made of its address (RFC 7413 section 4.1.2).

use std::net::IpAddr;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::frame::Cookie;

/// A cookie, and the maximum segment size that came with it (RFC 7413 section 4.1.3).
pub type StoredCookie = (Cookie, u16);

type Key = (IpAddr, u32);
type Map = HashMap<Key, StoredCookie, RandomState>;

/// The cookies by client and server. When there are too many, those that were not used for long are forgotten: they move from
/// the young to the old, and back when they are used.
#[derive(Debug)]
pub struct Cookies {
    young: Map,
    old: Map,
    most: usize,
}

impl Cookies {
    /// Room for `most` cookies.
    pub fn new(most: u32) -> Self {
        Self { young: Map::default(), old: Map::default(), most: most as usize }
    }

    /// The cookie that a server gave to a client.
    pub fn get(&mut self, client: IpAddr, server: u32) -> Option<StoredCookie> {
        let key = (client, server);
        if let Some(kept) = self.young.get(&key) {
            return Some(*kept);
        }
        let kept = self.old.remove(&key)?;
        self.insert(client, server, kept);
        Some(kept)
    }

    /// Keeps a cookie.
    pub fn insert(&mut self, client: IpAddr, server: u32, kept: StoredCookie) {
        if self.young.len() >= self.most.div_ceil(2) {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        if self.most > 0 {
            self.young.insert((client, server), kept);
        }
    }

    /// Forgets a cookie that the server does not take any more.
    pub fn remove(&mut self, client: IpAddr, server: u32) {
        self.young.remove(&(client, server));
        self.old.remove(&(client, server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_that_are_used_stay_and_there_are_never_too_many() {
        let mut cookies = Cookies::new(10);
        let client = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..100 {
            cookies.insert(client(number), 1, (Cookie::default(), 9));
            assert!(cookies.get(client(0), 1).is_some() && cookies.young.len() + cookies.old.len() <= 10);
        }
        assert!(cookies.get(client(1), 1).is_none() && cookies.get(client(0), 2).is_none());
        cookies.remove(client(0), 1);
        assert_eq!(cookies.get(client(0), 1), None);
        let mut none = Cookies::new(0);
        none.insert(client(0), 1, (Cookie::default(), 9));
        assert_eq!(none.get(client(0), 1), None);
    }
}
