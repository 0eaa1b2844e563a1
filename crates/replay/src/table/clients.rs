//! Which connection each client uses. The table holds slots alone, since a connection knows its client: a million idle ones
//! would otherwise have their clients' addresses in memory twice.

use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use ldplayer_core::Transport;
use ldplayer_stack::tcp::Addresses;

use super::{Connection, Key, Terms};
use crate::slab::{Slab, Slot};

/// The address of a client, in five octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    V4(Ipv4Addr),
    /// The number of its address, not aligned.
    V6([u8; 4]),
}

/// A [`Key`] with the short form of its client.
type ShortKey = (Client, Transport, u32);

/// The current connection of each client. All of them are in the slab, which is passed in where needed.
#[derive(Debug, Default)]
pub struct Clients {
    slots: HashTable<Slot>,
    hashes: FixedState,
    /// IPv6 addresses of clients with connections.
    addresses: Addresses,
}

impl Clients {
    /// The short form of an address, for one more connection.
    pub fn acquire(&mut self, address: IpAddr) -> Client {
        match address {
            IpAddr::V4(address) => Client::V4(address),
            IpAddr::V6(address) => Client::V6(self.addresses.acquire(address).to_ne_bytes()),
        }
    }

    /// One connection less has this client, after [`Self::forget`].
    pub fn release(&mut self, client: Client) {
        if let Client::V6(number) = client {
            self.addresses.release(u32::from_ne_bytes(number));
        }
    }

    /// The address of a client that has a connection.
    pub fn address(&self, client: Client) -> IpAddr {
        match client {
            Client::V4(address) => address.into(),
            Client::V6(number) => self.addresses.address(u32::from_ne_bytes(number)).into(),
        }
    }

    /// The short form of an address, if its client has a connection.
    pub fn short(&self, address: IpAddr) -> Option<Client> {
        match address {
            IpAddr::V4(address) => Some(Client::V4(address)),
            IpAddr::V6(address) => self.addresses.find(address).map(|number| Client::V6(number.to_ne_bytes())),
        }
    }

    /// The current connection of a client.
    pub fn get<C: Terms>(&self, key: &Key, connections: &Slab<Connection<C>>) -> Option<Slot> {
        let key = (self.short(key.client)?, key.transport, key.server);
        self.slots.find(self.hashes.hash_one(key), |&at| is_of(at, key, connections)).copied()
    }

    /// Makes this connection its client's current one.
    pub fn set<C: Terms>(&mut self, at: Slot, connections: &Slab<Connection<C>>) {
        let Some(key) = connections.get(at).map(short_key) else { return };
        let hash = |&at: &Slot| connections.get(at).map_or(0, |one| self.hashes.hash_one(short_key(one)));
        let same = |&other: &Slot| is_of(other, key, connections);
        self.slots.entry(self.hashes.hash_one(key), same, hash).insert(at);
    }

    /// Removes this connection, which is about to leave the slab.
    pub fn forget<C: Terms>(&mut self, at: Slot, connections: &Slab<Connection<C>>) {
        let Some(key) = connections.get(at).map(short_key) else { return };
        if let Ok(entry) = self.slots.find_entry(self.hashes.hash_one(key), |&other| other == at) {
            entry.remove();
        }
    }

    /// Whether no client has a connection, or an address that is remembered.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.addresses.is_empty()
    }
}

const fn short_key<C: Terms>(connection: &Connection<C>) -> ShortKey {
    (connection.client, connection.transport, connection.server)
}

fn is_of<C: Terms>(at: Slot, key: ShortKey, connections: &Slab<Connection<C>>) -> bool {
    connections.get(at).is_some_and(|connection| short_key(connection) == key)
}
