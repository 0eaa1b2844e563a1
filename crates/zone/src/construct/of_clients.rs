//! The smallest hierarchy that gives the clients of a resolver the answers that they got. Their responses name no server: zones and servers
//! are made up.
//!
//! A zone begins at every public suffix above a name, at the name that is registered below it, and where a response shows an apex: at the owner of
//! SOA, NS or DNSKEY records, and above the owner of a DS record. Each zone has a name server and an address of its own.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ldplayer_core::message::{Message, flag};

use super::names::{Name, ROOT};
use super::place::{Placed, Side, level};
use super::report::{Reason, Report};
use super::servers::Authority;
use super::suffixes::Suffixes;
use super::{Absent, Builder, Facts, Response, TooMuch, classify};
use crate::{hints, rtype};

/// The addresses of made-up servers: the second half of those for benchmarks of network devices (RFC 2544 §C.2.2), 198.19.0.0/16.
const SERVERS: u32 = u32::from_be_bytes([198, 19, 0, 0]);
/// How many these are; more zones share them.
const MOST_SERVERS: u32 = 1 << 16;

impl Builder {
    /// A builder for responses that a resolver gave its clients.
    pub fn of_clients(suffixes: Suffixes) -> Self {
        Self { suffixes: Some(suffixes), ..Self::default() }
    }

    /// Adds a response of a resolver: what it says is taken as if the servers of the names had said it.
    pub(super) fn add_of_client(&mut self, response: &Response<'_>) -> Result<(), TooMuch> {
        let is_recursive = Message::new(response.message).is_some_and(|message| message.has(flag::RA));
        let read = if is_recursive { self.read(response) } else { Err(Reason::NotRecursive) };
        if let Err(reason) = read {
            self.report.ignore(reason);
            return Ok(());
        }
        self.clients.insert(response.server);
        // Every response is from the same server, which is trusted with all names.
        let server = self.facts.number(hints::addresses().next().unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
        let header = as_authoritative(response.message);
        match classify::outcome(&self.parsed, &header, &mut self.facts.names, &mut self.chain) {
            Ok(outcome) => self.take(&outcome, server, response.time_ns),
            Err(reason) => {
                self.report.ignore(reason);
                Ok(())
            }
        }
    }
}

/// The first words of a response, with AA.
fn as_authoritative(message: &[u8]) -> [u8; 4] {
    let flags = Message::new(message).map_or(0, |message| message.flags()) | flag::AA;
    let [high, low] = flags.to_be_bytes();
    [0, 0, high, low]
}

/// The zones, each with a server, and the record sets in them.
pub(super) fn plan(facts: &mut Facts, suffixes: &Suffixes, report: &mut Report) -> (Authority, Vec<Placed>) {
    let apexes = apexes(facts, suffixes);
    let mut authority = Authority::default();
    if let Some(&server) = hints::addresses().next().and_then(|address| facts.numbers.get(&address)) {
        authority.make_responsible(ROOT, server);
    }
    for (number, apex) in (0..).zip(apexes.into_iter().filter(|&apex| apex != ROOT)) {
        let server = facts.number(Ipv4Addr::from_bits(SERVERS + number % MOST_SERVERS).into());
        authority.make_responsible(apex, server);
    }
    let placed = placed(facts, &authority, report);
    (authority, placed)
}

/// Where zones begin.
fn apexes(facts: &mut Facts, suffixes: &Suffixes) -> BTreeSet<Name> {
    let mut apexes: BTreeSet<Name> = facts.claims.keys().map(|&(zone, _)| zone).collect();
    apexes.insert(ROOT);
    let is_apex = |rtype| matches!(rtype, rtype::SOA | rtype::NS | rtype::DNSKEY);
    let owners: Vec<(Name, u16)> = facts.versions.iter().map(|(_, version)| (version.owner, version.rtype)).collect();
    apexes.extend(owners.iter().filter(|(_, rtype)| is_apex(*rtype)).map(|&(owner, _)| owner));
    // A zone's apex has no alias (RFC 1034 §3.6.2).
    let aliases: BTreeSet<Name> =
        owners.iter().filter(|(_, rtype)| *rtype == rtype::CNAME).map(|&(owner, _)| owner).collect();
    let mut named: BTreeSet<Name> = owners.iter().map(|&(owner, _)| owner).collect();
    named.extend(name_servers(facts));
    for name in named {
        let cuts =
            facts.names.upward(name).filter(|&above| begins(facts, suffixes, above) && !aliases.contains(&above));
        apexes.extend(cuts.collect::<Vec<_>>());
    }
    for &(name, what) in facts.absent.keys() {
        // Of a name that is not there nothing begins, and the SOA record of a denial shows its zone.
        let from = if what == Absent::Name { facts.names.parent(name) } else { name };
        let is_shown = facts.names.upward(name).any(|above| above != ROOT && apexes.contains(&above));
        let is_cut =
            |&above: &Name| suffixes.contains(&facts.names, above) || !is_shown && begins(facts, suffixes, above);
        let cuts: Vec<Name> = facts.names.upward(from).filter(is_cut).collect();
        apexes.extend(cuts);
    }
    apexes
}

/// Whether a name is a public suffix, or registered below one.
fn begins(facts: &Facts, suffixes: &Suffixes, name: Name) -> bool {
    let is_suffix = |name| suffixes.contains(&facts.names, name);
    name != ROOT && (is_suffix(name) || is_suffix(facts.names.parent(name)))
}

/// The hosts that NS records name: they need a home to have an address.
fn name_servers(facts: &mut Facts) -> Vec<Name> {
    let sets = facts.versions.iter().filter(|(_, version)| version.rtype == rtype::NS).map(|(id, _)| id);
    let hosts: Vec<Vec<u8>> = sets.flat_map(|id| facts.versions.records(id)).map(<[u8]>::to_ascii_lowercase).collect();
    hosts.iter().map(|host| facts.names.intern(host)).collect()
}

/// All versions, each in the zone of its owner; what denies names by DNSSEC is left out, since the zones are made up.
fn placed(facts: &Facts, authority: &Authority, report: &mut Report) -> Vec<Placed> {
    let mut placed = Vec::new();
    for (version_id, version) in facts.versions.iter() {
        let zone = match version.rtype {
            rtype::NSEC | rtype::NSEC3 | rtype::NSEC3PARAM => None,
            rtype::DS => authority.parent_of(facts, version.owner),
            _ => authority.zone_of(facts, version.owner),
        };
        let best = facts.versions.sightings(version_id).map(|seen| level(seen.kind)).min();
        match (zone, best) {
            (Some(zone), Some(level)) => placed.push(Placed {
                zone,
                owner: version.owner,
                rtype: version.rtype,
                side: Side::Own,
                level,
                version: version_id,
            }),
            _ => report.ignore(Reason::Unrelated),
        }
    }
    placed.sort_unstable();
    placed
}
