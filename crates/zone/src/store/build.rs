//! Builds the store of a zone from records in any order.

mod finish;
mod oddities;
mod owners;

pub(super) use finish::host as host_of;

use super::order::{Labels, is_within};
use super::{BuildError, CUT, HEAD, NONE, Node, OCCLUDED, PARENT, REDIRECTS, Set, Zone};
use crate::error::{LoadError, Problem};
use crate::finding::Finding;
use crate::records::{Record, Records};
use crate::rtype;
use oddities::Oddities;
use owners::Owners;

/// Sets with at least this many records are deduplicated through a table.
const MANY: usize = 32;

/// See [`Zone::from_records`].
pub(crate) fn zone(records: &Records) -> Result<(Zone, Vec<Finding>), BuildError> {
    let zone_error = |problem| LoadError::Zone { file: records.file(0).to_owned(), problem };
    let apex = records.apex().map_err(zone_error)?;
    let mut builder = Builder::new(records, apex);
    builder.add_all().map_err(zone_error)?;
    Ok(finish::finish(builder))
}

/// A zone in the making.
struct Builder<'a> {
    records: &'a Records,
    apex: &'a [u8],
    apex_labels: usize,
    octets: Vec<u8>,
    nodes: Vec<Node>,
    sets: Vec<Set>,
    /// For each set its first record.
    origins: Vec<u32>,
    /// The last node and its ancestors, from the apex on.
    path: Vec<u32>,
    /// NSEC3 records: hash and where their owner and set are.
    hashed: Vec<([u8; 20], super::denial::Entry)>,
    kept: usize,
    oddities: Oddities<'a>,
}

impl<'a> Builder<'a> {
    fn new(records: &'a Records, apex: &'a [u8]) -> Self {
        Self {
            records,
            apex,
            apex_labels: Labels::of(apex).count(),
            octets: Vec::with_capacity(records.len() * 64),
            nodes: Vec::new(),
            sets: Vec::with_capacity(records.len()),
            origins: Vec::with_capacity(records.len()),
            path: Vec::new(),
            hashed: Vec::new(),
            kept: 0,
            oddities: Oddities::new(records),
        }
    }

    fn add_all(&mut self) -> Result<(), Problem> {
        let owners = Owners::sorted(self.records, self.apex, &mut self.oddities);
        let mut members = Vec::new();
        for group in owners.groups() {
            members.clear();
            members.extend(group.iter().flat_map(|run| run.first..run.end));
            members.sort_by_key(|&at| sort_key(&self.records.get(at as usize)));
            self.add_owner(&members)?;
        }
        u32::try_from(self.octets.len()).map(drop).map_err(|_| Problem::TooLarge)
    }

    /// Adds a name with all its records, sorted by set. NSEC3 records are not the name's own, but those of another that has it
    /// for its hash.
    fn add_owner(&mut self, members: &[u32]) -> Result<(), Problem> {
        let owner = self.records.get(members[0] as usize).owner;
        let is_hashed = |at: &u32| set_type(&self.records.get(*at as usize)) == rtype::NSEC3;
        let (members, hashed) = members.split_at(members.partition_point(|at| !is_hashed(at)));
        if !hashed.is_empty() {
            self.add_hashed(owner, hashed)?;
        }
        if members.is_empty() {
            return Ok(());
        }
        let node = self.add_node(owner)?;
        self.add_sets(members)?;
        let first = self.nodes[node as usize].first_set as usize;
        self.nodes[node as usize].sets = u16::try_from(self.sets.len() - first).map_err(|_| Problem::TooLarge)?;
        self.set_flags(node);
        if node == 0 {
            self.oddities.iterations(members);
        }
        let (sets, origins) = (&self.sets[first..], &self.origins[first..]);
        self.oddities.of_name(owner, sets, origins);
        if self.nodes[node as usize].flags & (CUT | OCCLUDED) == 0 {
            self.oddities.lone_ds(owner, sets, origins);
        }
        if self.nodes[node as usize].flags & OCCLUDED != 0 {
            let cover = self.cover(node).to_vec();
            self.oddities.of_occluded(owner, &self.sets[first..], &self.origins[first..], &cover);
        }
        Ok(())
    }

    /// Adds the records of a name that is the hash of another and so is not there itself (RFC 5155 §7.1).
    fn add_hashed(&mut self, owner: &[u8], members: &[u32]) -> Result<(), Problem> {
        let label = owner.get(1..=usize::from(owner[0])).unwrap_or_default();
        let hash = crate::rdata::base32(label).and_then(|octets| <[u8; 20]>::try_from(octets).ok());
        let Some(hash) = hash else {
            self.oddities.no_hash(members[0]);
            return Ok(());
        };
        let name = self.push_name(owner)?;
        let set = self.sets.len() as u32;
        self.add_sets(members)?;
        self.hashed.push((hash, super::denial::Entry { name, set }));
        Ok(())
    }

    fn push_name(&mut self, name: &[u8]) -> Result<u32, Problem> {
        let at = u32::try_from(self.octets.len()).map_err(|_| Problem::TooLarge)?;
        self.octets.extend_from_slice(name);
        Ok(at)
    }

    /// Adds the node of a name, and the nodes between it and the last existing ancestor.
    fn add_node(&mut self, name: &[u8]) -> Result<u32, Problem> {
        while let Some(&top) = self.path.last()
            && !is_within(name, self.name(top))
        {
            self.path.pop();
        }
        let at = self.push_name(name)?;
        let labels = Labels::of(name);
        let wanted = labels.count() - self.apex_labels + 1;
        for depth in self.path.len()..wanted {
            let start = labels.at(wanted - 1 - depth);
            self.push_node(
                at + start as u32,
                (name.len() - start) as u8,
                labels.label(name, wanted - 1 - depth) == b"\x01*",
            );
        }
        let node = self.nodes.len() as u32 - 1;
        self.nodes[node as usize].first_set = self.sets.len() as u32;
        Ok(node)
    }

    fn push_node(&mut self, name: u32, name_length: u8, is_wildcard: bool) {
        let node = self.nodes.len() as u32;
        let parent = self.path.last().copied();
        let mut flags = 0;
        if let Some(parent) = parent {
            let parent = &mut self.nodes[parent as usize];
            parent.flags |= PARENT;
            if is_wildcard {
                parent.wildcard = node;
            }
            if parent.flags & (CUT | OCCLUDED | REDIRECTS) != 0 {
                flags = OCCLUDED;
            }
        }
        let (wildcard, proof) = (NONE, NONE);
        let first_set = self.sets.len() as u32;
        self.nodes.push(Node {
            name,
            parent: parent.unwrap_or(NONE),
            first_set,
            sets: 0,
            flags,
            name_length,
            wildcard,
            proof,
            wildcard_proof: NONE,
            template: NONE,
        });
        self.path.push(node);
    }

    fn set_flags(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        if node.flags & OCCLUDED != 0 {
            return;
        }
        let has = |rtype| self.sets[node.first_set as usize..].iter().any(|set| set.rtype == rtype && set.count > 0);
        let flag = if at != 0 && has(rtype::NS) {
            CUT
        } else if has(rtype::DNAME) {
            REDIRECTS
        } else {
            0
        };
        self.nodes[at as usize].flags |= flag;
    }

    /// The name that hides a node: the cut or the DNAME above it.
    fn cover(&self, node: u32) -> &[u8] {
        let hides = |&&above: &&u32| self.nodes[above as usize].flags & (CUT | REDIRECTS) != 0;
        self.path.iter().find(hides).map_or(self.name(node), |&above| self.name(above))
    }

    fn name(&self, node: u32) -> &[u8] {
        let node = &self.nodes[node as usize];
        &self.octets[node.name as usize..][..node.name_length()]
    }

    fn add_sets(&mut self, members: &[u32]) -> Result<(), Problem> {
        let records = self.records;
        for set in members.chunk_by(|&a, &b| set_type(&records.get(a as usize)) == set_type(&records.get(b as usize))) {
            self.add_set(set)?;
        }
        Ok(())
    }

    /// Adds the records of a set, signatures last, each once (RFC 2181 §5).
    fn add_set(&mut self, members: &[u32]) -> Result<(), Problem> {
        let all = self.records;
        let is_signature = |&at: &u32| all.get(at as usize).rtype == rtype::RRSIG;
        let (records, signatures) = members.split_at(members.partition_point(|at| !is_signature(at)));
        let alias: Vec<u32>;
        let records = match records.first() {
            Some(&first) if rtype::is_alias(all.get(first as usize).rtype) => {
                alias = self.first_alias(records);
                &alias
            }
            _ => records,
        };
        let at = |octets: &Vec<u8>| u32::try_from(octets.len()).map_err(|_| Problem::TooLarge);
        let start = at(&self.octets)?;
        let count = self.add_records(records);
        let signed_from = at(&self.octets)?;
        let signed = self.add_records(signatures);
        let end = at(&self.octets)?;
        let numbers = (u16::try_from(count).ok(), u16::try_from(signed).ok());
        let (Some(count), Some(signatures)) = numbers else { return Err(Problem::TooLarge) };
        let rtype = set_type(&self.records.get(members[0] as usize));
        self.sets.push(Set { rtype, count, signatures, varies: false, start, signed_from, end, targets: NONE });
        self.origins.push(members[0]);
        Ok(())
    }

    /// The first of the aliases at a name, as often as it is there: a name has one (RFC 2181 §10.1).
    fn first_alias(&mut self, members: &[u32]) -> Vec<u32> {
        let data = |at: u32| self.records.get(at as usize).data;
        let (first, others): (Vec<u32>, Vec<u32>) = members.iter().partition(|&&at| data(at) == data(members[0]));
        if let Some(&second) = others.first() {
            self.oddities.second_alias(second);
        }
        first
    }

    fn add_records(&mut self, members: &[u32]) -> usize {
        let Some(&first) = members.first() else { return 0 };
        let records = self.records;
        let ttls = || members.iter().map(|&at| records.get(at as usize).ttl);
        let ttl = ttls().min().unwrap_or(0);
        let is_signature = records.get(first as usize).rtype == rtype::RRSIG;
        if !is_signature && ttls().any(|other| other != ttl) {
            self.oddities.ttls_differ(first);
        }
        let mut seen = hashbrown::HashSet::with_hasher(foldhash::fast::RandomState::default());
        let mut count = 0;
        for (number, &at) in members.iter().enumerate() {
            let record = records.get(at as usize);
            let earlier = || members[..number].iter().any(|&other| records.get(other as usize).data == record.data);
            let is_new = if members.len() < MANY { !earlier() } else { seen.insert(record.data) };
            if is_new {
                count += 1;
                self.push_record(&record, if is_signature { record.ttl } else { ttl });
            }
        }
        self.kept += count;
        count
    }

    fn push_record(&mut self, record: &Record<'_>, ttl: u32) {
        self.octets.reserve(HEAD + record.data.len());
        for word in [record.rtype, self.records.class()] {
            self.octets.extend_from_slice(&word.to_be_bytes());
        }
        self.octets.extend_from_slice(&ttl.to_be_bytes());
        self.octets.extend_from_slice(&(record.data.len() as u16).to_be_bytes());
        self.octets.extend_from_slice(record.data);
    }
}

/// The type of the set that a record belongs to: signatures belong to what they sign.
fn set_type(record: &Record<'_>) -> u16 {
    match (record.rtype, record.data.first_chunk()) {
        (rtype::RRSIG, Some(&covered)) => u16::from_be_bytes(covered),
        (rtype, _) => rtype,
    }
}

/// The order of the records of a name; NSEC3 records come last.
fn sort_key(record: &Record<'_>) -> (bool, u16, bool) {
    let set = set_type(record);
    (set == rtype::NSEC3, set, record.rtype == rtype::RRSIG)
}
