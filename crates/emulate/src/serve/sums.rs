//! Sums of the workers' counters, over all workers and reloads.

use std::collections::HashMap;
use std::sync::Arc;

use super::counters::{Counters, Totals};
use super::set::ZoneSet;
use super::tcp::ConnectionCounts;
use super::unknown::{LISTED, Unknown};

/// The counters of one worker since its last handover.
pub struct Counted {
    /// Queries, by the zones of `set`.
    pub counters: Counters,
    /// The zones that they refer to.
    pub set: Arc<ZoneSet>,
    /// TCP connections.
    pub tcp: ConnectionCounts,
    /// QUIC connections.
    pub quic: ConnectionCounts,
    /// Answers refused by the kernel.
    pub unsent: u64,
    /// Questions without a zone.
    pub unknown: Vec<Unknown>,
    /// Number of unlisted questions.
    pub unlisted: u64,
    /// How often each fault was made, by name.
    pub faults: Vec<(String, u64)>,
}

/// Sums over all workers.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Queries.
    pub totals: Totals,
    /// TCP connections.
    pub tcp: ConnectionCounts,
    /// QUIC connections.
    pub quic: ConnectionCounts,
    /// Answers refused by the kernel.
    pub unsent: u64,
    /// Questions without a zone, by name and type.
    pub unknown: HashMap<(Box<[u8]>, u16), Unknown>,
    /// Number of unlisted questions.
    pub unlisted: u64,
    /// How often each fault was made, by name.
    pub faults: Vec<(String, u64)>,
    /// The error that ended a worker early.
    pub failure: Option<String>,
}

impl Sums {
    /// Adds a worker's counters.
    pub fn add(&mut self, counted: Counted) {
        self.totals.add(&counted.counters, counted.set.apexes());
        self.tcp += counted.tcp;
        self.quic += counted.quic;
        self.unsent += counted.unsent;
        self.unlisted += counted.unlisted;
        for (fault, count) in counted.faults {
            match self.faults.iter_mut().find(|(name, _)| *name == fault) {
                Some((_, sum)) => *sum += count,
                None => self.faults.push((fault, count)),
            }
        }
        counted.unknown.into_iter().for_each(|unknown| self.list(unknown));
    }

    /// Lists a question, if there is room.
    fn list(&mut self, unknown: Unknown) {
        let key = (unknown.name.clone(), unknown.qtype);
        let has_room = self.unknown.len() < LISTED;
        match self.unknown.get_mut(&key) {
            Some(listed) => listed.count += unknown.count,
            None if has_room => drop(self.unknown.insert(key, unknown)),
            None => self.unlisted += unknown.count,
        }
    }
}
