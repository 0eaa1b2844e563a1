//! Idle connections without sockets, each in one record for both machines: of TCP, and of the connection table.
//!
//! A million clients have a connection each, of which few are in use at a time. In the two machines an idle one takes some 120 octets, with its places in
//! their indexes. Here it takes 64: 60 of the record and 4 of one index, by client and server. So a client has one parked connection to a
//! server at most. Lists by class are sorted by the time at which connections became idle.

use std::net::{IpAddr, SocketAddr};

use ldplayer_core::random::draw;
use ldplayer_core::{RunTime, Transport};
use ldplayer_stack::tcp::{self, Blocks, Chained, Index, NONE};

use super::clients::Client;
use super::{Connection, ConnectionTable, Key, State, Terms, place};
use crate::slab::Slot;

/// Where a parked connection is among them.
pub type ParkedSlot = u32;

/// How far a list is searched for the place of a connection: parked ones are among the last of those parked, and those put back have been idle for longer
/// than nearly all others. One that is not is closed by its timeout as late as the last of those looked at.
const SEARCHED: usize = 64;
/// Units of `since`, in nanoseconds: in six octets that is nine years.
const SINCE_NS: i64 = 1_000;

/// A connection. Numbers are as short as they may be, and not aligned.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed)]
struct Entry {
    /// The next of the same bucket of the index, or the next free place.
    chained: ParkedSlot,
    /// The one before it on the list of its class …
    earlier: ParkedSlot,
    /// … and the one behind it.
    later: ParkedSlot,
    client: Client,
    server: [u8; 3],
    stream: tcp::Parked,
    number: [u8; 5],
    /// When it became idle, in [`SINCE_NS`], rounded up: it is closed no sooner than it may be.
    since: [u8; 6],
    taken: u32,
    class: u8,
    own: u16,
}

impl Entry {
    /// The record of a connection; `None` if a number in it is too long for that.
    fn of<C: Terms>(connection: &Connection<C>, own: u16, stream: tcp::Parked) -> Option<Self> {
        let since = u64::try_from(connection.since.0).ok()?.div_ceil(SINCE_NS as u64);
        Some(Self {
            chained: NONE,
            earlier: NONE,
            later: NONE,
            client: connection.client,
            server: short(connection.server.into())?,
            stream,
            number: short(connection.number)?,
            since: short(since)?,
            taken: connection.taken,
            class: place(connection.class) as u8,
            own,
        })
    }

    fn server(&self) -> u32 {
        long(self.server) as u32
    }

    fn since(&self) -> RunTime {
        RunTime(long(self.since) as i64 * SINCE_NS)
    }

    fn is_of(&self, client: Client, server: u32) -> bool {
        self.client == client && self.server() == server
    }
}

/// The last octets of a number; `None` if it has others.
fn short<const LENGTH: usize>(number: u64) -> Option<[u8; LENGTH]> {
    let octets = number.to_le_bytes();
    let (low, high) = octets.split_first_chunk()?;
    high.iter().all(|&octet| octet == 0).then_some(*low)
}

fn long<const LENGTH: usize>(short: [u8; LENGTH]) -> u64 {
    let mut octets = [0; 8];
    octets[..LENGTH].copy_from_slice(&short);
    u64::from_le_bytes(octets)
}

fn hash(client: Client, server: u32) -> u64 {
    let (number, is_v6) = match client {
        Client::V4(address) => (address.to_bits(), 0),
        Client::V6(number) => (u32::from_ne_bytes(number), 1),
    };
    draw(u64::from(number) << 32 | u64::from(server), is_v6)
}

#[derive(Debug, Default)]
struct Entries(Blocks<Entry>);

impl Chained for Entries {
    fn hash(&self, at: ParkedSlot) -> u64 {
        let entry = &self.0[at];
        hash(entry.client, entry.server())
    }
    fn next(&self, at: ParkedSlot) -> ParkedSlot {
        self.0[at].chained
    }
    fn set_next(&mut self, at: ParkedSlot, next: ParkedSlot) {
        self.0[at].chained = next;
    }
}

/// The parked connections of a table.
#[derive(Debug)]
pub struct Parked {
    entries: Entries,
    index: Index,
    free: ParkedSlot,
    length: usize,
    /// First and last of each class.
    lists: Vec<(ParkedSlot, ParkedSlot)>,
}

impl Default for Parked {
    fn default() -> Self {
        Self { entries: Entries::default(), index: Index::default(), free: NONE, length: 0, lists: Vec::new() }
    }
}

impl Parked {
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// The connection of a client to a server.
    fn find(&self, client: Client, server: u32) -> Option<ParkedSlot> {
        let is = |at| self.entries.0[at].is_of(client, server);
        self.index.find(&self.entries, hash(client, server), is)
    }

    /// The one of a class that has been idle for longest, and since when.
    pub fn first(&self, class: usize) -> Option<(RunTime, ParkedSlot)> {
        let &(first, _) = self.lists.get(class).filter(|list| list.0 != NONE)?;
        Some((self.entries.0[first].since(), first))
    }

    /// Adds a record, unless it would be far from the end of its list.
    fn insert(&mut self, entry: Entry) -> bool {
        let class = usize::from(entry.class);
        if self.lists.len() <= class {
            self.lists.resize(class + 1, (NONE, NONE));
        }
        let Some(earlier) = self.place_by(class, entry.since()) else { return false };
        let at = self.store(entry);
        self.link(class, at, earlier);
        self.index.insert(&mut self.entries, at);
        self.length += 1;
        true
    }

    /// The last of a class that became idle no later than `since`, or none; `None` if it is not among the last ones.
    fn place_by(&self, class: usize, since: RunTime) -> Option<ParkedSlot> {
        let mut earlier = self.lists[class].1;
        for _ in 0..SEARCHED {
            if earlier == NONE || self.entries.0[earlier].since() <= since {
                return Some(earlier);
            }
            earlier = self.entries.0[earlier].earlier;
        }
        None
    }

    fn store(&mut self, entry: Entry) -> ParkedSlot {
        if self.free == NONE {
            return self.entries.0.push(entry);
        }
        let at = self.free;
        self.free = std::mem::replace(&mut self.entries.0[at], entry).chained;
        at
    }

    /// Puts a record onto the list of its class behind another.
    fn link(&mut self, class: usize, at: ParkedSlot, earlier: ParkedSlot) {
        let (first, last) = &mut self.lists[class];
        let later = if earlier == NONE { *first } else { self.entries.0[earlier].later };
        self.entries.0[at].earlier = earlier;
        self.entries.0[at].later = later;
        match earlier {
            NONE => *first = at,
            _ => self.entries.0[earlier].later = at,
        }
        match later {
            NONE => *last = at,
            _ => self.entries.0[later].earlier = at,
        }
    }

    /// Takes a record out; there must be one.
    fn take(&mut self, at: ParkedSlot) -> Entry {
        self.index.remove(&mut self.entries, at);
        let entry = self.entries.0[at];
        let Entry { earlier, later, class, .. } = entry;
        let (first, last) = &mut self.lists[usize::from(class)];
        match earlier {
            NONE => *first = later,
            _ => self.entries.0[earlier].later = later,
        }
        match later {
            NONE => *last = earlier,
            _ => self.entries.0[later].earlier = earlier,
        }
        self.entries.0[at].chained = std::mem::replace(&mut self.free, at);
        self.length -= 1;
        entry
    }
}

impl<C: Terms, R: Default> ConnectionTable<C, R> {
    /// Takes an idle connection over TCP out of the table and keeps it in short, with two octets of what its machine adds to it and what its
    /// stream is. Returns whether it was taken: not if its server wants it closed sooner than its client, or if its client would use another next.
    pub fn park(&mut self, at: Slot, own: u16, stream: tcp::Parked) -> bool {
        let Some(connection) = self.connections.get(at).filter(|it| self.may_park(it)) else { return false };
        let entry = Entry::of(connection, own, stream);
        let is_current = self.current(&self.key(connection)) == Some(at);
        if !is_current || !entry.is_some_and(|entry| self.parked.insert(entry)) {
            return false;
        }
        self.leave_idle(at);
        self.current.forget(at, &self.connections);
        // The address of its client is still needed.
        self.connections.remove(at);
        true
    }

    fn may_park(&self, connection: &Connection<C>) -> bool {
        connection.state == State::Idle
            && connection.transport == Transport::Tcp
            && connection.active.is_none()
            && self.server_idle_timeout(connection).is_none()
    }

    /// The parked connection of a client to a server.
    pub fn find_parked(&self, key: &Key) -> Option<ParkedSlot> {
        if self.parked.len() == 0 || key.transport != Transport::Tcp {
            return None;
        }
        self.parked.find(self.current.short(key.client)?, key.server)
    }

    /// The same of the connection between these addresses.
    pub fn find_parked_tuple(&self, client: SocketAddr, server: SocketAddr) -> Option<ParkedSlot> {
        let key = Key { client: client.ip(), transport: Transport::Tcp, server: self.servers.find(server)? };
        self.find_parked(&key).filter(|&at| self.parked.entries.0[at].stream.port() == client.port())
    }

    /// Puts a parked connection back, with what its machine adds made from the two octets of that. Returns its slot and what its stream is.
    pub fn unpark(&mut self, parked: ParkedSlot, own: impl FnOnce(u16) -> C) -> (Slot, tcp::Parked) {
        let entry = self.parked.take(parked);
        let (stream, class) = (entry.stream, Some(entry.class));
        let at = self.connections.insert(Connection {
            number: long(entry.number),
            since: entry.since(),
            client: entry.client,
            port: stream.port(),
            transport: Transport::Tcp,
            server: entry.server(),
            class,
            state: State::Idle,
            taken: entry.taken,
            active: None,
            own: own(entry.own),
        });
        let since = entry.since();
        let idle = &mut self.classes[place(class)].idle;
        self.connections.insert_sorted(idle, at, SEARCHED, |other| other.since <= since);
        self.current.set(at, &self.connections);
        (at, stream)
    }

    /// Removes a parked connection, and returns the addresses of its client and server and the state of its stream; `None` if none is left.
    pub fn take_parked(&mut self) -> Option<(IpAddr, SocketAddr, tcp::Parked)> {
        let (_, place) = self.longest_parked()?;
        let entry = self.parked.take(place);
        let client = self.current.address(entry.client);
        self.current.release(entry.client);
        Some((client, self.servers.address(entry.server()), entry.stream))
    }

    /// The parked connection that has been idle for longest, and since when.
    pub(super) fn longest_parked(&self) -> Option<(RunTime, ParkedSlot)> {
        (0..self.classes.len()).filter_map(|class| self.parked.first(class)).min_by_key(|first| first.0)
    }

    /// The parked connection that is idle for long enough first, and when it is.
    pub(super) fn first_parked(&self) -> Option<(RunTime, ParkedSlot)> {
        let classes = self.classes.iter().enumerate();
        let firsts = classes.filter_map(|(at, class)| {
            self.parked.first(at).map(|(since, place)| (since + class.policy.idle_timeout, place))
        });
        firsts.min_by_key(|first| first.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_60_octets() {
        assert_eq!((size_of::<Entry>(), align_of::<Entry>()), (60, 1));
    }

    #[test]
    fn numbers_are_kept_whole_or_not_at_all() {
        assert_eq!(short::<3>(0xff_ffff).map(long), Some(0xff_ffff));
        assert_eq!(short::<3>(0x100_0000), None);
        assert_eq!(short::<6>(u64::MAX), None);
    }
}
