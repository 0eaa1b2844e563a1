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

/// TTL of SOA records that are made, in seconds.
pub(super) const SOA_TTL: u32 = 3600;
/// Serial, refresh, retry, expire, and the TTL of denials of a SOA record that is made.
const SOA_TIMERS: [u32; 5] = [1, 1800, 900, 604_800, 900];

/// A zone: what was chosen for it, and what was made up.
#[derive(Clone, Debug, Default)]
pub(in crate::construct) struct Draft {
    sets: BTreeMap<(Name, u16, Side), Chosen>,
    made: BTreeSet<Made>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Made {
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

    /// All record sets that were chosen, delegations among them.
    pub fn sets(&self) -> impl Iterator<Item = &Chosen> {
        self.sets.values()
    }

    /// The delegations that were chosen.
    pub fn delegations(&self) -> impl Iterator<Item = &Chosen> {
        self.sets.values().filter(|set| set.side == Side::Delegation)
    }

    /// What was chosen for a name and type as the zone's own.
    pub fn find(&self, owner: Name, rtype: u16) -> Option<&Chosen> {
        self.sets.get(&(owner, rtype, Side::Own))
    }

    /// NS records of the zone's apex, or of a delegation.
    pub fn name_servers(&self, owner: Name, side: Side) -> Option<&Chosen> {
        self.sets.get(&(owner, rtype::NS, side))
    }

    /// Adds a record that was made; `false` when it is there.
    pub fn add(&mut self, owner: Name, rtype: u16, ttl: u32, data: &[u8]) -> bool {
        self.made.insert(Made { owner, rtype, ttl, data: data.to_vec() })
    }

    /// All owners of records, those of some several times.
    pub fn owners(&self) -> impl Iterator<Item = Name> {
        self.sets.keys().map(|&(owner, ..)| owner).chain(self.made.iter().map(|made| made.owner))
    }

    /// The zone. `None` when it has more than can be numbered.
    pub fn finish(self, facts: &Facts, apex: Name) -> Option<BuiltZone> {
        let order = |a: (Name, u16), b: (Name, u16)| {
            // The SOA record first of all (RFC 1035 §5.2 has it so by custom).
            let is_start = |one: (Name, u16)| one == (apex, rtype::SOA);
            let by_name = || store::compare(facts.names.wire(a.0), facts.names.wire(b.0));
            is_start(b).cmp(&is_start(a)).then_with(by_name).then_with(|| a.1.cmp(&b.1))
        };
        let (mut sets, mut made): (Vec<_>, Vec<_>) = (self.sets.values().collect(), self.made.iter().collect());
        sets.sort_by(|a, b| order((a.owner, a.rtype), (b.owner, b.rtype)));
        made.sort_by(|a, b| order((a.owner, a.rtype), (b.owner, b.rtype)).then_with(|| a.data.cmp(&b.data)));
        let (mut records, mut made) = (Records::default(), made.into_iter().peekable());
        for set in sets {
            let is_before = |made: &&Made| order((made.owner, made.rtype), (set.owner, set.rtype)) != Ordering::Greater;
            while let Some(made) = made.next_if(|made| is_before(made)) {
                made.push(facts, &mut records)?;
            }
            records.add_chosen(facts, set)?;
        }
        made.try_for_each(|made| made.push(facts, &mut records))?;
        Some(BuiltZone { apex: facts.names.wire(apex).to_vec(), records, notes: self.notes })
    }
}

impl Made {
    fn push(&self, facts: &Facts, records: &mut Records) -> Option<()> {
        records.push(facts.names.wire(self.owner), self.rtype, self.ttl, &self.data).ok()
    }
}

/// A record as a line of a zone file.
pub(super) fn line(facts: &Facts, owner: Name, rtype: u16, ttl: u32, data: &[u8]) -> String {
    let record = Record { owner: facts.names.wire(owner), rtype, ttl, data, place: (0, 0) };
    Line::default().of(&record).trim_end().to_owned()
}

/// Data of a SOA record for a zone whose own was not seen: the zone's name stands for primary and mailbox.
pub(super) fn soa(apex: &[u8]) -> Vec<u8> {
    let mut data = [apex, apex].concat();
    SOA_TIMERS.iter().for_each(|timer| data.extend(timer.to_be_bytes()));
    data
}
