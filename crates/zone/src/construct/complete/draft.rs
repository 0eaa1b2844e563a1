//! A zone under construction.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::construct::choose::Chosen;
use crate::construct::names::Name;
use crate::construct::place::Side;
use crate::construct::{BuiltZone, Facts};
use crate::records::{Record, Records};
use crate::rtype;
use crate::store;
use crate::write::Line;

/// TTL of invented SOA records, in seconds.
pub(super) const SOA_TTL: u32 = 3600;
/// Serial, refresh, retry, expire and negative TTL of an invented SOA record.
const SOA_TIMERS: [u32; 5] = [1, 1800, 900, 604_800, 900];

/// A zone: its chosen and its invented records.
#[derive(Clone, Debug, Default)]
pub(in crate::construct) struct Draft {
    sets: BTreeMap<(Name, u16, Side), Chosen>,
    made: BTreeSet<DraftRecord>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DraftRecord {
    owner: Name,
    rtype: u16,
    ttl: u32,
    data: Vec<u8>,
}

impl Draft {
    /// Adds a record set.
    pub fn put(&mut self, set: Chosen) {
        self.sets.insert((set.owner, set.rtype, set.side), set);
    }

    /// All chosen record sets, delegations included.
    pub fn sets(&self) -> impl Iterator<Item = &Chosen> {
        self.sets.values()
    }

    /// The chosen delegations.
    pub fn delegations(&self) -> impl Iterator<Item = &Chosen> {
        self.sets.values().filter(|set| set.side == Side::Delegation)
    }

    /// The authoritative record set chosen for a name and type.
    pub fn find(&self, owner: Name, rtype: u16) -> Option<&Chosen> {
        self.sets.get(&(owner, rtype, Side::Own))
    }

    /// NS records of the zone's apex, or of a delegation.
    pub fn name_servers(&self, owner: Name, side: Side) -> Option<&Chosen> {
        self.sets.get(&(owner, rtype::NS, side))
    }

    /// Adds an invented record; `false` if it exists.
    pub fn add(&mut self, owner: Name, rtype: u16, ttl: u32, data: &[u8]) -> bool {
        self.made.insert(DraftRecord { owner, rtype, ttl, data: data.to_vec() })
    }

    /// The owners of all records, with repetitions.
    pub fn owners(&self) -> impl Iterator<Item = Name> {
        self.sets.keys().map(|&(owner, ..)| owner).chain(self.made.iter().map(|made| made.owner))
    }

    /// The finished zone. `None` if it has too many records to number.
    pub fn finish(self, facts: &Facts, apex: Name) -> Option<BuiltZone> {
        let order = |a: (Name, u16), b: (Name, u16)| {
            // By custom the SOA record comes first (RFC 1035 §5.2).
            let is_start = |one: (Name, u16)| one == (apex, rtype::SOA);
            let by_name = || store::compare(facts.names.wire(a.0), facts.names.wire(b.0));
            is_start(b).cmp(&is_start(a)).then_with(by_name).then_with(|| a.1.cmp(&b.1))
        };
        let (mut sets, mut made): (Vec<_>, Vec<_>) = (self.sets.values().collect(), self.made.iter().collect());
        sets.sort_by(|a, b| order((a.owner, a.rtype), (b.owner, b.rtype)));
        made.sort_by(|a, b| order((a.owner, a.rtype), (b.owner, b.rtype)).then_with(|| a.data.cmp(&b.data)));
        let (mut records, mut made) = (Records::default(), made.into_iter().peekable());
        for set in sets {
            let is_before =
                |made: &&DraftRecord| order((made.owner, made.rtype), (set.owner, set.rtype)) != Ordering::Greater;
            while let Some(made) = made.next_if(|made| is_before(made)) {
                made.push(facts, &mut records)?;
            }
            records.add_chosen(facts, set)?;
        }
        made.try_for_each(|made| made.push(facts, &mut records))?;
        Some(BuiltZone { apex: facts.names.wire(apex).to_vec(), records, notes: self.notes, left_out: Vec::new() })
    }
}

impl DraftRecord {
    fn push(&self, facts: &Facts, records: &mut Records) -> Option<()> {
        records.push(facts.names.wire(self.owner), self.rtype, self.ttl, &self.data).ok()
    }
}

/// A record as a line of a zone file.
pub(super) fn line(facts: &Facts, owner: Name, rtype: u16, ttl: u32, data: &[u8]) -> String {
    let record = Record { owner: facts.names.wire(owner), rtype, ttl, data, place: (0, 0) };
    Line::default().of(&record).trim_end().to_owned()
}

/// SOA data for a zone without one: the zone's name stands for the primary server and the mailbox.
pub(super) fn soa(apex: &[u8]) -> Vec<u8> {
    let mut data = [apex, apex].concat();
    SOA_TIMERS.iter().for_each(|timer| data.extend(timer.to_be_bytes()));
    data
}
