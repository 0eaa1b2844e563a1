//! What a connection is while it is idle: 40 octets.

use std::num::NonZeroU16;

use ldplayer_core::random::draw;

use super::blocks::Blocks;
use super::index::{Chained, NONE};

/// What a connection is doing (RFC 9293 section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The slot is not in use.
    Free,
    /// SYN was sent, or is to be.
    SynSent,
    Established,
    /// The server has closed; we have not.
    CloseWait,
    /// We have closed; our FIN is not acknowledged.
    FinWait1,
    /// Our FIN is acknowledged; the server has not closed.
    FinWait2,
    /// Both have closed at once; our FIN is not acknowledged.
    Closing,
    /// The server has closed, then we; our FIN is not acknowledged.
    LastAck,
    /// The tuple is not to be used yet.
    TimeWait,
    /// It was in TIME_WAIT, and its tuple is used again: the slot is free when its time is over.
    Replaced,
}

/// Which connection: its slot, and how often the slot was used. An `Option` of it takes no more memory: callers hold a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    pub(super) slot: u32,
    pub(super) generation: NonZeroU16,
}

impl Handle {
    /// The slot, counted from 0, for tables of the caller's: no two connections that the caller has not closed have the same,
    /// and slots are used again.
    pub const fn slot(self) -> u32 {
        self.slot
    }
}

/// The client's address is of IPv6.
pub const V6: u8 = 1;
/// Timestamps were agreed upon.
pub const TIMESTAMPS: u8 = 2;
/// Selective acknowledgements were agreed upon.
pub const SACK: u8 = 4;
/// Nagle's algorithm is on.
pub const NAGLE: u8 = 8;
/// The caller has closed it and hears no more of it.
pub const ORPHAN: u8 = 16;
/// Fast Open is to be used.
pub const FAST_OPEN: u8 = 32;
/// Neither side scales its windows.
pub const UNSCALED: u8 = 64;
/// TIME_WAIT began anew: its place in the order is not right any more.
pub const EXTENDED: u8 = 128;

/// A connection. What is only there while something is in flight is in [`super::active::Active`].
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// The client: its IPv4 address, or the number of its IPv6 address.
    pub local: u32,
    /// The number of the server.
    pub server: u32,
    /// The next of the same bucket of the index, or the next free slot.
    pub next: u32,
    /// The active part, or none. In TIME_WAIT, the millisecond in which it ends.
    pub active: u32,
    /// SND.NXT: the next octet to send.
    pub sent: u32,
    /// RCV.NXT: the next octet expected.
    pub received: u32,
    /// TS.Recent: the timestamp to be echoed.
    pub recent: u32,
    /// The local port.
    pub port: u16,
    /// How often the slot was used.
    pub generation: NonZeroU16,
    /// The server's window as in its header. In TIME_WAIT with `mss`: the next that ends.
    pub window: u16,
    /// Octets of data in a segment, timestamps taken off.
    pub mss: u16,
    /// The round trip when it was active last, in units of 2^16 ns; 0 if it is not known.
    pub rtt: u16,
    state_and_scale: u8,
    /// Of the constants above.
    pub flags: u8,
}

impl Connection {
    /// A connection of this identity that is about to send SYN.
    pub const fn new(local: u32, server: u32, port: u16, flags: u8) -> Self {
        Self {
            local,
            server,
            next: NONE,
            active: NONE,
            sent: 0,
            received: 0,
            recent: 0,
            port,
            generation: NonZeroU16::MIN,
            window: 0,
            mss: 0,
            rtt: 0,
            state_and_scale: State::SynSent as u8,
            flags,
        }
    }

    /// Its state.
    pub const fn state(&self) -> State {
        match self.state_and_scale & 15 {
            1 => State::SynSent,
            2 => State::Established,
            3 => State::CloseWait,
            4 => State::FinWait1,
            5 => State::FinWait2,
            6 => State::Closing,
            7 => State::LastAck,
            8 => State::TimeWait,
            9 => State::Replaced,
            _ => State::Free,
        }
    }

    /// Sets its state.
    pub fn set_state(&mut self, state: State) {
        self.state_and_scale = self.state_and_scale & 0xf0 | state as u8;
    }

    /// Sets the shift of the server's windows, 0 to 14.
    pub fn set_scale(&mut self, scale: u8) {
        self.state_and_scale = self.state_and_scale & 15 | scale << 4;
    }

    /// The shift of the server's windows.
    pub const fn scale(&self) -> u8 {
        self.state_and_scale >> 4
    }

    /// The server's window in octets.
    pub const fn window(&self) -> u32 {
        (self.window as u32) << (self.state_and_scale >> 4)
    }

    /// The largest window that the server can have.
    pub const fn largest_window(&self) -> u32 {
        (u16::MAX as u32) << (self.state_and_scale >> 4)
    }

    /// Whether all of `flags` are set.
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Whether it has an active part.
    pub fn is_active(&self) -> bool {
        self.active != NONE && !matches!(self.state(), State::TimeWait | State::Replaced | State::Free)
    }

    /// Whether the caller knows of it.
    pub fn is_known(&self) -> bool {
        !self.has(ORPHAN) && !matches!(self.state(), State::TimeWait | State::Replaced | State::Free)
    }

    /// In TIME_WAIT: the one that ends next.
    pub const fn next_waiting(&self) -> u32 {
        (self.mss as u32) << 16 | self.window as u32
    }

    /// Sets the one that ends next.
    pub const fn set_next_waiting(&mut self, next: u32) {
        self.window = next as u16;
        self.mss = (next >> 16) as u16;
    }
}

/// A key of connections: client, server, port, and whether the client's address is of IPv6.
pub type Key = (u32, u32, u16, bool);

/// The hash of a key.
pub fn hash((local, server, port, is_v6): Key) -> u64 {
    draw(u64::from(local) << 32 | u64::from(server), u64::from(port) << 1 | u64::from(is_v6))
}

/// All connections, with slots that are free chained.
#[derive(Debug)]
pub struct Connections {
    slots: Blocks<Connection>,
    free: u32,
    used: u32,
}

impl Default for Connections {
    fn default() -> Self {
        Self { slots: Blocks::default(), free: NONE, used: 0 }
    }
}

impl Connections {
    /// Puts a connection into a slot.
    pub fn insert(&mut self, mut connection: Connection) -> u32 {
        self.used += 1;
        if self.free == NONE {
            return self.slots.push(connection);
        }
        let slot = self.free;
        self.free = self.slots[slot].next;
        connection.generation = self.slots[slot].generation;
        self.slots[slot] = connection;
        slot
    }

    /// Frees a slot.
    pub fn remove(&mut self, slot: u32) {
        let connection = &mut self.slots[slot];
        connection.set_state(State::Free);
        connection.generation = connection.generation.checked_add(1).unwrap_or(NonZeroU16::MIN);
        connection.next = std::mem::replace(&mut self.free, slot);
        self.used -= 1;
    }

    /// How many there are.
    pub const fn len(&self) -> u32 {
        self.used
    }

    /// The slot of a handle, if it is still the connection that it was given for and the caller has not closed it.
    pub fn slot(&self, at: Handle) -> Option<u32> {
        let connection = self.slots.get(at.slot)?;
        (connection.generation == at.generation && connection.is_known()).then_some(at.slot)
    }

    /// The handle of a slot.
    pub fn handle(&self, slot: u32) -> Handle {
        Handle { slot, generation: self.slots[slot].generation }
    }

    /// The key of a connection.
    pub fn key(&self, slot: u32) -> Key {
        let connection = &self.slots[slot];
        (connection.local, connection.server, connection.port, connection.has(V6))
    }
}

impl std::ops::Index<u32> for Connections {
    type Output = Connection;
    fn index(&self, slot: u32) -> &Connection {
        &self.slots[slot]
    }
}

impl std::ops::IndexMut<u32> for Connections {
    fn index_mut(&mut self, slot: u32) -> &mut Connection {
        &mut self.slots[slot]
    }
}

impl Chained for Connections {
    fn hash(&self, at: u32) -> u64 {
        hash(self.key(at))
    }
    fn next(&self, at: u32) -> u32 {
        self.slots[at].next
    }
    fn set_next(&mut self, at: u32, next: u32) {
        self.slots[at].next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_takes_40_octets_and_its_handle_8() {
        assert_eq!((size_of::<Connection>(), size_of::<Option<Handle>>()), (40, 8));
    }

    #[test]
    fn state_scale_and_the_next_in_time_wait_keep_apart() {
        let mut connection = Connection::new(1, 2, 3, V6 | SACK);
        connection.set_scale(14);
        connection.window = 3;
        let states = [State::Free, State::SynSent, State::Established, State::CloseWait, State::FinWait1];
        let more = [State::FinWait2, State::Closing, State::LastAck, State::TimeWait, State::Replaced];
        for state in states.into_iter().chain(more) {
            connection.set_state(state);
            assert_eq!((connection.state(), connection.window()), (state, 3 << 14));
        }
        connection.set_next_waiting(0xdead_beef);
        assert_eq!((connection.next_waiting(), connection.state()), (0xdead_beef, State::Replaced));
        assert!(connection.has(V6) && !connection.has(V6 | NAGLE));
    }

    #[test]
    fn a_handle_is_of_one_connection_though_its_slot_is_used_again() {
        let mut connections = Connections::default();
        let slot = connections.insert(Connection::new(1, 2, 3, 0));
        let at = connections.handle(slot);
        assert_eq!(connections.slot(at), Some(slot));
        connections.remove(slot);
        assert_eq!((connections.slot(at), connections.len()), (None, 0));
        assert_eq!(connections.insert(Connection::new(1, 2, 4, 0)), slot);
        assert_eq!(connections.slot(at), None);
        assert_ne!(connections.handle(slot), at);
    }
}
