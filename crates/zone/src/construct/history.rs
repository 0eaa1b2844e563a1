//! When each version of a record set began to hold, and who was given it: noted only where all versions are kept.

use std::collections::BTreeMap;
use std::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use ldplayer_core::Cidr;

use super::Facts;
use super::choose::ttl;
use super::names::Name;
use super::place::Placed;
use super::report::{KeptSet, KeptVersion, Report};
use super::seen::VersionId;

/// Maximum number of changes from one version to another that are kept.
const MOST_CHANGES: usize = 10_000_000;
/// Maximum number of resolvers and subnets that are kept, each counted for each version that it was given.
const MOST_ASKERS: usize = 1_000_000;

/// Who was given a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Asker {
    Resolver(IpAddr),
    /// First address and length of the prefix.
    Subnet(IpAddr, u8),
}

/// What was seen when.
#[derive(Debug, Default)]
pub(super) struct History {
    resolver: Option<IpAddr>,
    subnet: Option<Cidr>,
    /// The version of each set that was seen last.
    last: HashMap<(Name, u16), VersionId, FixedState>,
    changes: Vec<(VersionId, i64)>,
    askers: HashSet<(VersionId, Asker), FixedState>,
    start: Option<i64>,
    unkept: u64,
}

impl History {
    /// Begins a response that was given to a resolver, for the subnet that it says.
    pub fn begin(&mut self, resolver: IpAddr, subnet: Option<Cidr>, time: i64) {
        // An answer for every subnet is for none in particular.
        (self.resolver, self.subnet) = (Some(resolver), subnet.filter(|subnet| subnet.prefix() > 0));
        self.start = Some(self.start.map_or(time, |start| start.min(time)));
    }

    /// Notes a version of a set in that response.
    pub fn note(&mut self, id: VersionId, set: (Name, u16), time: i64) {
        if self.last.insert(set, id) != Some(id) {
            match self.changes.len() < MOST_CHANGES {
                true => self.changes.push((id, time)),
                false => self.unkept += 1,
            }
        }
        let subnet = self.subnet.map(|subnet| Asker::Subnet(subnet.first(), subnet.prefix()));
        for asker in self.resolver.map(Asker::Resolver).into_iter().chain(subnet) {
            if self.askers.len() < MOST_ASKERS {
                self.askers.insert((id, asker));
            } else if !self.askers.contains(&(id, asker)) {
                self.unkept += 1;
            }
        }
    }

    /// Reports sets with all their versions.
    pub fn report(&self, facts: &Facts, sets: &[(Placed, Vec<VersionId>)], report: &mut Report) {
        let start = self.start.unwrap_or(0);
        let wanted: HashSet<VersionId, FixedState> = sets.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
        let mut times: BTreeMap<VersionId, Vec<i64>> = BTreeMap::new();
        for &(id, time) in self.changes.iter().filter(|(id, _)| wanted.contains(id)) {
            times.entry(id).or_default().push(time);
        }
        let mut askers: BTreeMap<VersionId, Vec<Asker>> = BTreeMap::new();
        for &(id, asker) in self.askers.iter().filter(|(id, _)| wanted.contains(id)) {
            askers.entry(id).or_default().push(asker);
        }
        askers.values_mut().for_each(|askers| askers.sort_unstable());
        let kept = sets.iter().map(|(place, ids)| KeptSet {
            zone: facts.names.wire(place.zone).to_vec(),
            owner: facts.names.wire(place.owner).to_vec(),
            rtype: place.rtype,
            versions: from_times(ids, &times)
                .into_iter()
                .map(|(id, from)| version(facts, id, &from, askers.get(&id), start))
                .collect(),
        });
        report.kept = kept.collect();
        (report.kept_start_ns, report.unkept) = (self.start, self.unkept);
    }
}

/// For each version of a set when it replaced another one.
fn from_times(ids: &[VersionId], times: &BTreeMap<VersionId, Vec<i64>>) -> Vec<(VersionId, Vec<i64>)> {
    let of = |&id: &VersionId| times.get(&id).into_iter().flatten().map(move |&time| (time, id));
    let mut all: Vec<(i64, VersionId)> = ids.iter().flat_map(of).collect();
    all.sort_unstable();
    // What is no version of the zone may have been seen in between.
    all.dedup_by_key(|(_, id)| *id);
    let from = |&id: &VersionId| (id, all.iter().filter(|one| one.1 == id).map(|one| one.0).collect());
    ids.iter().map(from).collect()
}

fn version(facts: &Facts, id: VersionId, from: &[i64], askers: Option<&Vec<Asker>>, start: i64) -> KeptVersion {
    let seen = facts.versions.get(id);
    let mut servers: Vec<IpAddr> =
        facts.versions.sightings(id).map(|seen| facts.servers[seen.server as usize]).collect();
    servers.sort_unstable();
    servers.dedup();
    let askers = || askers.into_iter().flatten();
    let resolver = |asker: &Asker| if let Asker::Resolver(address) = asker { Some(*address) } else { None };
    let subnet = |asker: &Asker| {
        if let Asker::Subnet(first, prefix) = asker { Some(Cidr::new(*first, *prefix)) } else { None }
    };
    KeptVersion {
        ttl: ttl(facts, id),
        records: facts.versions.records(id).map(<[u8]>::to_vec).collect(),
        signatures: facts.versions.signatures(id).map(<[u8]>::to_vec).collect(),
        count: seen.count.into(),
        from_ns: from.iter().map(|time| time - start).collect(),
        last_ns: seen.last - start,
        servers,
        resolvers: askers().filter_map(resolver).collect(),
        subnets: askers().filter_map(subnet).collect(),
    }
}
