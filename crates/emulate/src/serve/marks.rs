//! Marks record sets used in an answer: one bit each, set by all workers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use ldplayer_zone::Zone;

use super::set::ZoneSet;

/// For each record set of a zone set, whether it was used in an answer.
#[derive(Debug)]
pub struct Marks {
    zones: Vec<Box<[AtomicU64]>>,
}

impl Marks {
    /// No marks.
    pub fn new(set: &ZoneSet) -> Self {
        let words = |zone: &Zone| (0..zone.rrsets().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { zones: set.zones().iter().map(words).collect() }
    }

    /// Marks a record set of a zone.
    #[inline]
    pub fn mark(&self, zone: u32, rrset: usize) {
        let Some(word) = self.zones.get(zone as usize).and_then(|zone| zone.get(rrset / 64)) else { return };
        let bit = 1 << (rrset % 64);
        // Most are already marked; without a write, the cache line stays shared among cores.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether a record set of a zone is marked.
    pub fn has(&self, zone: u32, rrset: usize) -> bool {
        let word = self.zones.get(zone as usize).and_then(|zone| zone.get(rrset / 64));
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (rrset % 64) & 1 == 1)
    }

    /// Copies the marks of another set to these marks of `set`, for record sets in both.
    pub fn take_over(&self, set: &ZoneSet, marks: &Self, other: &ZoneSet) {
        for zone in set.zones() {
            let Some(before) = other.zone(zone.apex()) else { continue };
            let all = other.zones()[before as usize].iter_rrsets();
            let marked: BTreeSet<(&[u8], u16)> =
                all.filter(|(at, _)| marks.has(before, *at)).map(|(_, rrset)| (rrset.owner, rrset.rtype)).collect();
            let found = zone.iter_rrsets().filter(|(_, rrset)| marked.contains(&(rrset.owner, rrset.rtype)));
            found.for_each(|(at, _)| self.mark(zone.number(), at));
        }
    }
}
