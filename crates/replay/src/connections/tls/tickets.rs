//! Session tickets, kept per client and server, so that no client uses or reveals another's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

use crate::table::Key;

/// Tickets kept of one client for one server at most; servers give two with each handshake (RFC 8446 §4.6.1 leaves it to them).
const TICKETS: usize = 2;

/// The tickets of a worker's clients. Whose are meant is set before each call into a session: rustls asks for tickets by the
/// server's name only, which several servers may have.
#[derive(Debug, Default)]
pub struct Tickets(Mutex<Store>);

#[derive(Debug, Default)]
struct Store {
    key: Option<Key>,
    /// Octets of early data that the ticket taken last allows.
    early: u32,
    kept: HashMap<Key, ServerTickets, foldhash::fast::FixedState>,
}

/// What one client knows of one server.
#[derive(Debug, Default)]
struct ServerTickets {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: Vec<Tls13ClientSessionValue>,
}

impl Tickets {
    /// The calls that follow are for this client and server; of `None` nothing is remembered.
    pub fn set_key(&self, key: Option<Key>) {
        self.store().key = key;
    }

    /// Octets of early data that the ticket allows that was taken last.
    pub fn early(&self) -> usize {
        self.store().early as usize
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        // One thread uses it; were it to panic inside, a ticket more or less would be all that is wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut ServerTickets) -> T) -> Option<T> {
        let mut store = self.store();
        let key = store.key?;
        Some(act(store.kept.entry(key).or_default()))
    }
}

// The key tells more than the server's name.
impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.with(|kept| kept.group = Some(group));
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.with(|kept| kept.group).flatten()
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.with(|kept| kept.tls12 = Some(value));
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.with(|kept| kept.tls12.clone()).flatten()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.with(|kept| kept.tls12 = None);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.with(|kept| {
            if kept.tls13.len() >= TICKETS {
                kept.tls13.remove(0);
            }
            // No room beyond that: there may be a hundred thousand clients.
            kept.tls13.reserve_exact(TICKETS - kept.tls13.len());
            kept.tls13.push(value);
        });
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let ticket = self.with(|kept| kept.tls13.pop()).flatten();
        self.store().early = ticket.as_ref().map_or(0, |ticket| ticket.max_early_data_size());
        ticket
    }
}
