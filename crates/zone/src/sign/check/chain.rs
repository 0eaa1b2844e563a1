//! Checks that the NSEC or NSEC3 chain has all names in order, with their types, and is closed.

use std::collections::{BTreeMap, BTreeSet};

use domain::utils::base32;
use ldplayer_core::name::Presentation;

use super::super::denial::{self, Hashed, OPT_OUT};
use super::super::tree::{NameStatus, Tree};
use super::{Fault, LocatedFault};
use crate::error::Problem;
use crate::rdata;
use crate::records::{Record, Records};
use crate::rtype;
use crate::store::{HASH, Parameters};

const NSEC: &str = "NSEC";
const NSEC3: &str = "NSEC3";

/// All that is wrong with the chain of a signed zone.
pub(super) fn check(tree: &Tree<'_>) -> Result<Vec<LocatedFault>, Problem> {
    let bare = bare(tree)?;
    let names = Tree::new(&bare, tree.apex());
    let (nsec, nsec3) = (of_type(tree, rtype::NSEC), of_type(tree, rtype::NSEC3));
    if nsec.is_empty() && nsec3.is_empty() {
        return Ok(vec![LocatedFault::at(tree.apex(), Fault::NoDenial)]);
    }
    let mut faults = if nsec.is_empty() { Vec::new() } else { check_plain(&names, &nsec) };
    if !nsec3.is_empty() {
        faults.extend(check_hashed(&names, &nsec3));
    }
    place(tree, &mut faults);
    Ok(faults)
}

/// Gives faults of names without a record of the chain the place of another record of the name, where it has one.
fn place(tree: &Tree<'_>, faults: &mut [LocatedFault]) {
    let mut lost: Vec<&mut LocatedFault> = faults.iter_mut().filter(|found| found.place.1 == 0).collect();
    lost.sort_by(|a, b| a.owner.cmp(&b.owner));
    if lost.is_empty() {
        return;
    }
    for name in tree.names() {
        let owner = tree.owner_of(name);
        let first = lost.partition_point(|found| found.owner.as_slice() < owner);
        let place = tree.sets(name).next().map(|set| tree.record(set[0]).place);
        let of_name = lost[first..].iter_mut().take_while(|found| found.owner == owner);
        of_name.for_each(|found| found.place = place.unwrap_or(found.place));
    }
}

/// The records that a chain is made of.
fn bare(tree: &Tree<'_>) -> Result<Records, Problem> {
    let mut bare = Records::default();
    for name in tree.names() {
        for set in tree.sets(name).filter(|set| !matches!(tree.rtype(set), rtype::RRSIG | rtype::NSEC | rtype::NSEC3)) {
            tree.data(set).try_for_each(|data| bare.push(tree.owner(set), tree.rtype(set), 0, data))?;
        }
    }
    Ok(bare)
}

/// The records of a type by owner. There should be one at a name.
type OfType<'a> = BTreeMap<&'a [u8], Vec<Record<'a>>>;

fn of_type<'a>(tree: &Tree<'a>, rtype: u16) -> OfType<'a> {
    let names = tree.names().filter(|name| name.place != NameStatus::Hidden);
    let sets = names.flat_map(|name| tree.sets(name).filter(|set| tree.rtype(set) == rtype));
    sets.map(|set| (tree.owner(set), set.iter().map(|&at| tree.record(at)).collect())).collect()
}

fn check_plain(names: &Tree<'_>, found: &OfType<'_>) -> Vec<LocatedFault> {
    let mut faults = Vec::new();
    let wanted = denial::plain(names);
    for link in &wanted {
        match found.get(link.owner.as_slice()) {
            Some(records) => records.iter().for_each(|record| check_span(record, &link.data, &mut faults)),
            None => faults.push(LocatedFault::at(&link.owner, Fault::NoProof(NSEC))),
        }
    }
    let owners: BTreeSet<&[u8]> = wanted.iter().map(|link| link.owner.as_slice()).collect();
    let stray = found.values().flatten().filter(|record| !owners.contains(record.owner));
    faults.extend(stray.map(|record| LocatedFault::of(record, Fault::StrayProof(NSEC))));
    faults
}

/// An NSEC record against the data that it should have.
fn check_span(record: &Record<'_>, wanted: &[u8], faults: &mut Vec<LocatedFault>) {
    let ((next, types), (right, right_types)) = (split(record.data), split(wanted));
    if !next.eq_ignore_ascii_case(right) {
        let (found, wanted) = (Presentation(next).to_string(), Presentation(right).to_string());
        faults.push(LocatedFault::of(record, Fault::Next { kind: NSEC, found, wanted }));
    }
    if types != right_types {
        let name = Presentation(record.owner).to_string();
        faults.push(LocatedFault::of(record, Fault::Types { kind: NSEC, name }));
    }
}

/// Next name and types of NSEC data.
fn split(data: &[u8]) -> (&[u8], &[u8]) {
    data.split_at(rdata::name_length(data).unwrap_or(0))
}

/// An NSEC3 record of the zone's parameters.
struct ChainRecord<'a> {
    record: &'a Record<'a>,
    hash: [u8; HASH],
    next: &'a [u8],
    types: &'a [u8],
    is_opt_out: bool,
}

impl<'a> ChainRecord<'a> {
    fn read(record: &'a Record<'a>) -> Option<Self> {
        let &[_, flags, _, _, salt, ..] = record.data else { return None };
        let rest = record.data.get(5 + usize::from(salt)..)?;
        let (next, types) = rest.split_at_checked(1 + usize::from(*rest.first()?))?;
        let label = record.owner.get(1..=usize::from(*record.owner.first()?))?;
        let hash = rdata::base32(label)?.try_into().ok()?;
        Some(Self { record, hash, next: &next[1..], types, is_opt_out: flags & OPT_OUT != 0 })
    }
}

fn check_hashed(names: &Tree<'_>, found: &OfType<'_>) -> Vec<LocatedFault> {
    let apex = names.apex();
    let set = names.names().next().and_then(|name| names.sets(name).find(|set| names.rtype(set) == rtype::NSEC3PARAM));
    let all: Vec<Parameters> = set.into_iter().flat_map(|set| names.data(set)).filter_map(Parameters::read).collect();
    let Some(parameters) = all.first() else { return vec![LocatedFault::at(apex, Fault::NoParameters)] };
    let mut faults = Vec::new();
    let mut links = Vec::with_capacity(found.len());
    for record in found.values().flatten() {
        match Parameters::read(record.data) {
            Some(own) if own == *parameters => match ChainRecord::read(record) {
                Some(link) => links.push(link),
                None => faults.push(LocatedFault::of(record, Fault::StrayProof(NSEC3))),
            },
            // Another chain, as while parameters change (RFC 5155 §10.4), is not followed.
            Some(own) if all.contains(&own) => {}
            _ => faults.push(LocatedFault::of(record, Fault::OtherParameters)),
        }
    }
    links.sort_unstable_by_key(|link| link.hash);
    let wanted = denial::hashes(names, parameters, false);
    faults.extend(check_links(&links, &wanted));
    let required = denial::hashes(names, parameters, true);
    faults.extend(missing(&links, &wanted, &required));
    faults.extend(gaps(names, &links, &wanted));
    faults
}

/// Each record: its name, the next one, its types.
fn check_links(links: &[ChainRecord<'_>], wanted: &[Hashed<'_>]) -> Vec<LocatedFault> {
    let mut faults = Vec::new();
    for link in links {
        // Several records of one hash have the same next one.
        let after = links.partition_point(|other| other.hash <= link.hash);
        let next = links.get(after).or(links.first()).map_or(link.hash, |next| next.hash);
        if link.next != next {
            let hash = |hash: &[u8]| base32::encode_string_hex(hash).to_ascii_lowercase();
            let (found, wanted) = (hash(link.next), hash(&next));
            faults.push(LocatedFault::of(link.record, Fault::Next { kind: NSEC3, found, wanted }));
        }
        let Ok(at) = wanted.binary_search_by_key(&link.hash, |one| one.hash) else {
            faults.push(LocatedFault::of(link.record, Fault::StrayProof(NSEC3)));
            continue;
        };
        let mut types = Vec::new();
        rdata::bitmap(&wanted[at].types, &mut types);
        if types != link.types {
            let name = Presentation(wanted[at].name).to_string();
            faults.push(LocatedFault::of(link.record, Fault::Types { kind: NSEC3, name }));
        }
    }
    faults
}

/// Empty non-terminals above opted-out delegations whose record is missed below them.
fn gaps(names: &Tree<'_>, links: &[ChainRecord<'_>], wanted: &[Hashed<'_>]) -> Vec<LocatedFault> {
    if !links.iter().any(|link| link.is_opt_out) {
        return Vec::new();
    }
    let is_there = |one: &&Hashed<'_>| links.binary_search_by_key(&one.hash, |link| link.hash).is_ok();
    let known = wanted.iter().filter(is_there).map(|one| one.name).collect();
    // A wildcard without a record makes an answer insecure, not bogus.
    let needed = denial::needed(names, known).into_iter().filter(|name| !name.starts_with(denial::STAR));
    needed
        .map(|name| LocatedFault::at(name, Fault::OptOutGap))
        .map(|found| LocatedFault { breaks: false, ..found })
        .collect()
}

/// Names without a record: insecure delegations may do without where the record before them has opted out (RFC 5155 §7.1).
fn missing(links: &[ChainRecord<'_>], wanted: &[Hashed<'_>], required: &[Hashed<'_>]) -> Vec<LocatedFault> {
    let is_there = |one: &&Hashed<'_>| links.binary_search_by_key(&one.hash, |link| link.hash).is_ok();
    let is_required = |one: &Hashed<'_>| required.binary_search_by_key(&one.hash, |one| one.hash).is_ok();
    let is_opted_out = |one: &Hashed<'_>| {
        let before = links.partition_point(|link| link.hash < one.hash);
        let cover = before.checked_sub(1).map_or(links.last(), |at| links.get(at));
        cover.is_some_and(|cover| cover.is_opt_out)
    };
    let lost = wanted.iter().filter(|one| !is_there(one) && (is_required(one) || !is_opted_out(one)));
    lost.map(|one| LocatedFault::at(one.name, Fault::NoProof(NSEC3))).collect()
}
