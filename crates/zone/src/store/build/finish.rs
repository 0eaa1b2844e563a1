//! The last steps of building: nodes, hosts named in records, proofs and referrals.

use super::super::denial::{Denial, Entry, Parameters};
use super::super::layout;
use super::super::order::{self, Labels};
use super::super::table::{SEED, Table, extend};
use super::super::{CUT, HEAD, NONE, Node, OCCLUDED, PARENT, Place, Set, Zone, entries};
use super::Builder;
use super::oddities::Oddities;
use crate::finding::Finding;
use crate::rtype;

/// Makes the zone from the gathered nodes and sets.
pub(super) fn finish(mut builder: Builder<'_>) -> (Zone, Vec<Finding>) {
    let table = table(&builder);
    let negative_soa = negative_soa(&mut builder);
    let denial = denial(&mut builder);
    let mut zone = Zone {
        octets: builder.octets.into(),
        nodes: builder.nodes.into(),
        sets: builder.sets.into(),
        targets: Box::default(),
        table,
        negative_soa,
        class: builder.records.class(),
        // A name has 255 octets at most, and so 127 labels (RFC 1035 §3.1).
        apex_length: builder.apex.len() as u8,
        apex_labels: builder.apex_labels as u8,
        number: 0,
        denial,
        templates: Default::default(),
        versions: Default::default(),
        records: builder.kept,
        file: builder.records.file(0).to_owned(),
    };
    resolve_targets(&mut zone);
    prove_wildcards(&mut zone);
    note_delegations(&zone, &builder.origins, &mut builder.oddities);
    (zone, builder.oddities.into_findings())
}

fn table(builder: &Builder<'_>) -> Table {
    let mut table = Table::with_capacity(builder.nodes.len());
    let mut hashes = Vec::with_capacity(builder.nodes.len());
    for (at, node) in builder.nodes.iter().enumerate() {
        let name = builder.name(at as u32);
        let hash = match node.parent {
            NONE => SEED,
            parent => extend(hashes[parent as usize], &name[..=usize::from(name[0])]),
        };
        hashes.push(hash);
        table.insert(hash, at as u32);
    }
    table
}

/// The SOA with the TTL that negative answers have: no more than its MINIMUM field (RFC 2308 §3).
fn negative_soa(builder: &mut Builder<'_>) -> Set {
    let apex = &builder.nodes[0];
    let sets = &builder.sets[apex.range()];
    // The apex is the owner of an SOA, or there would be no zone.
    let mut soa = *sets.iter().find(|set| set.rtype == rtype::SOA && set.count > 0).unwrap_or(&sets[0]);
    let old = builder.octets[soa.start as usize..soa.end as usize].to_vec();
    let minimum =
        entries(&old).next().and_then(|entry| entry.last_chunk()).map_or(0, |&octets| u32::from_be_bytes(octets));
    let start = builder.octets.len();
    for entry in entries(&old) {
        let ttl = entry[4..].first_chunk().map_or(0, |&octets| u32::from_be_bytes(octets)).min(minimum);
        builder.octets.extend_from_slice(&entry[..4]);
        builder.octets.extend_from_slice(&ttl.to_be_bytes());
        builder.octets.extend_from_slice(&entry[8..]);
    }
    let moved = |at: u32| start as u32 + (at - soa.start);
    (soa.signed_from, soa.end, soa.start) = (moved(soa.signed_from), moved(soa.end), start as u32);
    soa
}

/// The NSEC3 chain named by NSEC3PARAM at the apex (RFC 5155 §7.2), or else the NSEC chain.
fn denial(builder: &mut Builder<'_>) -> Denial {
    let denial =
        parameters(builder).and_then(|parameters| hashed(builder, parameters)).unwrap_or_else(|| plain(builder));
    for at in 0..builder.nodes.len() {
        if denial.is_hashed() && builder.nodes[at].flags & OCCLUDED == 0 {
            let hash = denial.hash(builder.name(at as u32));
            builder.nodes[at].proof = hash.and_then(|hash| denial.matching(&hash)).unwrap_or(NONE);
        }
    }
    denial
}

/// What the NSEC3PARAM record says; one with flags is not to be used (RFC 5155 §4.1.2).
fn parameters(builder: &Builder<'_>) -> Option<Parameters> {
    let sets = &builder.sets[builder.nodes[0].range()];
    let set = sets.iter().find(|set| set.rtype == rtype::NSEC3PARAM)?;
    let wire = &builder.octets[set.start as usize..set.signed_from as usize];
    let usable = |data: &[u8]| data.get(1) == Some(&0);
    entries(wire).map(|entry| &entry[HEAD..]).filter(|data| usable(data)).find_map(Parameters::read)
}

fn hashed(builder: &mut Builder<'_>, parameters: Parameters) -> Option<Denial> {
    let is_of_chain = |entry: &Entry| {
        let set = &builder.sets[entry.set as usize];
        let first = entries(&builder.octets[set.start as usize..set.signed_from as usize]).next();
        first.and_then(|record| Parameters::read(&record[HEAD..])).as_ref() == Some(&parameters)
    };
    let chain: Vec<_> = builder.hashed.iter().filter(|(_, entry)| is_of_chain(entry)).copied().collect();
    (!chain.is_empty()).then(|| Denial::hashed_with(parameters, chain))
}

fn plain(builder: &mut Builder<'_>) -> Denial {
    let mut chain = Vec::new();
    for at in 0..builder.nodes.len() {
        let node = builder.nodes[at];
        let set = builder.sets[node.range()].iter().position(|set| set.rtype == rtype::NSEC && set.count > 0);
        if let Some(set) = set.filter(|_| node.flags & OCCLUDED == 0) {
            let name = builder.name(at as u32);
            let prefix = order::prefix(name, &Labels::of(name), builder.apex_labels);
            chain.push((prefix, Entry { name: node.name, set: node.first_set + set as u32 }));
        }
        builder.nodes[at].proof = chain.len().checked_sub(1).map_or(NONE, |last| last as u32);
    }
    Denial::plain(chain)
}

/// Finds what proves that a node has no child `*`, at nodes with other children.
fn prove_wildcards(zone: &mut Zone) {
    for at in 0..zone.nodes.len() {
        let node = &zone.nodes[at];
        if !zone.denial.is_empty()
            && node.flags & PARENT != 0
            && node.flags & (OCCLUDED | CUT) == 0
            && node.wildcard == NONE
        {
            let proof = zone.wildcard_cover(node);
            zone.nodes[at].wildcard_proof = proof.unwrap_or(NONE);
        }
    }
}

/// Finds the hosts that records name, where they are in the zone.
fn resolve_targets(zone: &mut Zone) {
    let mut targets = Vec::new();
    let mut starts = Vec::new();
    for (owner, node) in zone.nodes.iter().enumerate() {
        for at in node.range() {
            let set = &zone.sets[at];
            if layout::target_offset(set.rtype).is_none() || set.count == 0 {
                continue;
            }
            let start = targets.len();
            targets.extend(zone.data(set).map(|data| host(zone, owner as u32, set.rtype, data).unwrap_or(NONE)));
            if targets[start..].iter().all(|&target| target == NONE) {
                targets.truncate(start);
            } else {
                starts.push((at, start as u32));
            }
        }
    }
    for (set, start) in starts {
        zone.sets[set].targets = start;
    }
    zone.targets = targets.into();
}

/// The node with the addresses of the host that a record names. What is below a cut is known to name servers only.
pub(crate) fn host(zone: &Zone, owner: u32, rtype: u16, data: &[u8]) -> Option<u32> {
    let name = layout::target(rtype, data)?.to_ascii_lowercase();
    if matches!(rtype, 64 | 65) && name == [0] {
        // The owner itself, unless the priority says that this is an alias (RFC 9460 §2.5).
        return (data[..2] != [0, 0]).then_some(owner).filter(|&node| has_address(zone, &zone.nodes[node as usize]));
    }
    let node = match zone.exact(&name) {
        Some(node) => node,
        None => match zone.find(&name, &Labels::of(&name), false) {
            Place::Missing(encloser) => Some(zone.nodes[encloser as usize].wildcard).filter(|&node| node != NONE)?,
            _ => return None,
        },
    };
    let found = &zone.nodes[node as usize];
    let is_known = rtype == rtype::NS || found.flags & (OCCLUDED | CUT) == 0;
    (is_known && has_address(zone, found)).then_some(node)
}

fn has_address(zone: &Zone, node: &Node) -> bool {
    zone.sets_of(node).iter().any(|set| matches!(set.rtype, rtype::A | rtype::AAAA) && set.count > 0)
}

/// Tells of delegations to servers without addresses, and of an apex without servers.
fn note_delegations(zone: &Zone, origins: &[u32], oddities: &mut Oddities<'_>) {
    if zone.set_of(&zone.nodes[0], rtype::NS).is_none() {
        oddities.no_apex_ns(zone.apex());
    }
    for node in zone.nodes.iter().filter(|node| node.flags & CUT != 0) {
        let Some(set) = zone.set_of(node, rtype::NS) else { continue };
        let cut = zone.name(node);
        for data in zone.data(set) {
            let server = data.to_ascii_lowercase();
            let has_glue = || zone.exact(&server).is_some_and(|found| has_address(zone, &zone.nodes[found as usize]));
            if order::is_within(&server, cut) && !has_glue() {
                let at = node.range().find(|&at| zone.sets[at].rtype == rtype::NS).unwrap_or(0);
                oddities.no_glue(origins[at], cut, &server);
            }
        }
    }
}
