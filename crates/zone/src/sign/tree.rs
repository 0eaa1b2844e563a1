//! The names of a zone in canonical order, with their record sets; tells authoritative names from glue.

use std::borrow::Cow;

use super::canonical;
use crate::records::{Record, Records};
use crate::rtype;
use crate::store::{Labels, is_within, push_key};

/// The records of a zone by name and type.
pub(crate) struct Tree<'a> {
    records: &'a Records,
    apex: &'a [u8],
    /// Records by owner, type and data, each in canonical order and once.
    order: Vec<u32>,
    names: Vec<Name>,
}

/// A name that has records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    start: u32,
    end: u32,
    pub place: NameStatus,
}

/// What a name is in the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameStatus {
    /// The apex, or a name with data of the zone.
    Inside,
    /// A delegation.
    Cut,
    /// Below a delegation or a DNAME: glue, or occluded.
    Hidden,
}

impl<'a> Tree<'a> {
    /// Sorts the records of the zone; out-of-zone records are ignored.
    pub fn new(records: &'a Records, apex: &'a [u8]) -> Self {
        let mut tree = Self { records, apex, order: Vec::with_capacity(records.len()), names: Vec::new() };
        for group in sorted(records, apex).chunk_by(|a, b| a.0 == b.0) {
            let start = tree.order.len() as u32;
            for set in group.chunk_by(|a, b| a.1 == b.1) {
                tree.push_set(set);
            }
            tree.names.push(Name { start, end: tree.order.len() as u32, place: NameStatus::Inside });
        }
        tree.set_places();
        tree
    }

    /// Adds the records of a set in the order of their data, each once (RFC 4034 §6.3).
    fn push_set(&mut self, set: &[(Vec<u8>, u16, u32)]) {
        if let [(.., only)] = set {
            self.order.push(*only);
            return;
        }
        let canonical =
            |&(_, rtype, at): &(_, u16, u32)| (canonical::data(rtype, self.records.get(at as usize).data), at);
        let mut members: Vec<(Cow<'_, [u8]>, u32)> = set.iter().map(canonical).collect();
        members.sort();
        members.dedup_by(|a, b| a.0 == b.0);
        self.order.extend(members.into_iter().map(|(_, at)| at));
    }

    fn set_places(&mut self) {
        let mut cover: Option<&[u8]> = None;
        for at in 0..self.names.len() {
            let name = self.names[at];
            let owner = self.owner_of(&name);
            let place = match cover {
                Some(above) if is_within(owner, above) => NameStatus::Hidden,
                _ if owner != self.apex && self.has(&name, rtype::NS) => NameStatus::Cut,
                _ => NameStatus::Inside,
            };
            // What is below a DNAME is not seen (RFC 6672 §2.4); the name itself is.
            if place == NameStatus::Cut || (place == NameStatus::Inside && self.has(&name, rtype::DNAME)) {
                cover = Some(owner);
            }
            self.names[at].place = place;
        }
    }

    /// The name of the zone.
    pub const fn apex(&self) -> &'a [u8] {
        self.apex
    }

    /// The class of its records.
    pub fn class(&self) -> u16 {
        self.records.class()
    }

    /// The names that have records, in canonical order; the apex first.
    pub fn names(&self) -> std::slice::Iter<'_, Name> {
        self.names.iter()
    }

    /// The owner name of a name's records.
    pub fn owner_of(&self, name: &Name) -> &'a [u8] {
        self.records.get(self.order[name.start as usize] as usize).owner
    }

    /// The sets of a name by type.
    pub fn sets(&self, name: &Name) -> impl Iterator<Item = &[u32]> {
        let all = &self.order[name.start as usize..name.end as usize];
        all.chunk_by(|&a, &b| self.records.get(a as usize).rtype == self.records.get(b as usize).rtype)
    }

    /// Whether a name has records of a type.
    pub fn has(&self, name: &Name, rtype: u16) -> bool {
        self.sets(name).any(|set| self.rtype(set) == rtype)
    }

    /// The type of a set, as [`Self::sets`] gives it.
    pub fn rtype(&self, set: &[u32]) -> u16 {
        self.records.get(set[0] as usize).rtype
    }

    /// The owner of a set.
    pub fn owner(&self, set: &[u32]) -> &'a [u8] {
        self.records.get(set[0] as usize).owner
    }

    /// A record, by an item of a set.
    pub fn record(&self, at: u32) -> Record<'a> {
        self.records.get(at as usize)
    }

    /// The RRSIG records of a name that cover a type.
    pub fn signatures(&self, name: &Name, covered: u16) -> impl Iterator<Item = u32> {
        let all = self.sets(name).filter(|set| self.rtype(set) == rtype::RRSIG).flatten().copied();
        all.filter(move |&at| self.record(at).data.starts_with(&covered.to_be_bytes()))
    }

    /// The TTL of a set, the lowest of its records (RFC 2181 §5.2).
    pub fn ttl(&self, set: &[u32]) -> u32 {
        set.iter().map(|&at| self.records.get(at as usize).ttl).min().unwrap_or(0)
    }

    /// The data of a set's records in canonical order.
    pub fn data(&self, set: &[u32]) -> impl Iterator<Item = &'a [u8]> {
        set.iter().map(|&at| self.records.get(at as usize).data)
    }
}

/// Sorting key of the owner, type and place of each record within the zone.
fn sorted(records: &Records, apex: &[u8]) -> Vec<(Vec<u8>, u16, u32)> {
    let mut all = Vec::with_capacity(records.len());
    for (record, at) in records.iter().zip(0..) {
        if is_within(record.owner, apex) {
            let mut key = Vec::with_capacity(record.owner.len());
            push_key(record.owner, &Labels::of(record.owner), &mut key);
            all.push((key, record.rtype, at));
        }
    }
    all.sort_unstable();
    all
}
