//! Connections that are taken out of the machine while they are idle: what a caller must keep of one to go on with it later.

use std::net::{IpAddr, SocketAddr};

use super::connection::{Connection, Key, State, V6};
use super::{Handle, Tcp};

/// What an idle connection is, without its addresses: 22 octets, which need no alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct Parked {
    sent: u32,
    received: u32,
    recent: u32,
    port: u16,
    window: u16,
    mss: u16,
    rtt: u16,
    scale: u8,
    flags: u8,
}

impl Parked {
    /// The local port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Tcp {
    /// Takes a connection out of the machine that is open in both directions and has nothing in flight; the caller keeps what is returned, and the handle
    /// is dead. From then on the machine does not know it, and would reset it if a segment came: [`Self::resume`] first. `None` if it is not idle.
    pub fn park(&mut self, at: Handle) -> Option<Parked> {
        let slot = self.connections.slot(at)?;
        let connection = &self.connections[slot];
        if connection.is_active() || connection.state() != State::Established {
            return None;
        }
        let &Connection { sent, received, recent, port, window, mss, rtt, flags, .. } = connection;
        let parked = Parked { sent, received, recent, port, window, mss, rtt, scale: connection.scale(), flags };
        self.free(slot);
        Some(parked)
    }

    /// Puts a connection back that was parked: `client` is its local address and `server` the other one, as [`Self::tuple`] had them. `None` if there is
    /// another of this tuple by now.
    pub fn resume(&mut self, client: IpAddr, server: SocketAddr, parked: &Parked) -> Option<Handle> {
        let number = self.servers.number(server, self.config.mtu)?;
        let local = match client {
            IpAddr::V4(v4) => v4.to_bits(),
            IpAddr::V6(v6) => self.addresses.acquire(v6),
        };
        let key = (local, number, parked.port, client.is_ipv6());
        if self.find_key(key).is_some() {
            if client.is_ipv6() {
                self.addresses.release(local);
            }
            return None;
        }
        let slot = self.connections.insert(parked.connection(key));
        self.index.insert(&mut self.connections, slot);
        Some(self.connections.handle(slot))
    }

    /// Whether there is a connection between two addresses, in any state.
    pub fn knows(&self, local: SocketAddr, server: SocketAddr) -> bool {
        self.find(local, server).is_some()
    }
}

impl Parked {
    fn connection(&self, (local, server, port, is_v6): Key) -> Connection {
        debug_assert_eq!(self.flags & V6 != 0, is_v6, "the family of its client");
        let mut connection = Connection::new(local, server, port, self.flags);
        (connection.sent, connection.received, connection.recent) = (self.sent, self.received, self.recent);
        (connection.window, connection.mss, connection.rtt) = (self.window, self.mss, self.rtt);
        connection.set_state(State::Established);
        connection.set_scale(self.scale);
        connection
    }
}
