//! Which connection each client uses. The table holds slots alone, since a connection knows its client: a million idle ones
//! would otherwise have their clients' addresses in memory twice.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::{Connection, Key};
use crate::slab::{Slab, Slot};

/// The current connection of each client. All of them are in the slab, which is passed in where needed.
#[derive(Debug, Default)]
pub struct Clients {
    slots: HashTable<Slot>,
    hashes: FixedState,
}

impl Clients {
    /// The current connection of a client.
    pub fn get<C>(&self, key: &Key, connections: &Slab<Connection<C>>) -> Option<Slot> {
        self.slots.find(self.hashes.hash_one(key), |&at| is_of(at, key, connections)).copied()
    }

    /// Makes this connection its client's current one.
    pub fn set<C>(&mut self, at: Slot, connections: &Slab<Connection<C>>) {
        let Some(key) = connections.get(at).map(Connection::key) else { return };
        let hash = |&at: &Slot| connections.get(at).map_or(0, |one| self.hashes.hash_one(one.key()));
        let same = |&other: &Slot| is_of(other, &key, connections);
        self.slots.entry(self.hashes.hash_one(key), same, hash).insert(at);
    }

    /// Removes this connection, which is about to leave the slab.
    pub fn forget<C>(&mut self, at: Slot, connections: &Slab<Connection<C>>) {
        let Some(key) = connections.get(at).map(Connection::key) else { return };
        if let Ok(entry) = self.slots.find_entry(self.hashes.hash_one(key), |&other| other == at) {
            entry.remove();
        }
    }

    /// Whether no client has a connection.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

fn is_of<C>(at: Slot, key: &Key, connections: &Slab<Connection<C>>) -> bool {
    connections.get(at).is_some_and(|connection| connection.key() == *key)
}
