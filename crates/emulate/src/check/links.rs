//! Checks that zones are reachable from the root: delegations and name server addresses.

use std::collections::{BTreeSet, HashMap};

use ldplayer_core::name::Presentation;
use ldplayer_zone::rtype;

use super::report::{Delegations, Finding, Report};
use crate::serve::set::ZoneSet;
use crate::sources::Source;

/// Maximum number of listed unreachable delegations per zone.
const LISTED: usize = 50;

/// Counts the delegations, and reports zones and delegations that cannot be reached.
pub fn check(set: &ZoneSet, sources: &[Source], report: &mut Report) {
    let by_name: HashMap<&[u8], &Source> = sources.iter().map(|source| (source.apex.as_slice(), source)).collect();
    let delegated = count(set, report);
    for &zone in &set.unreachable().zones {
        let apex = set.zones()[zone as usize].apex();
        if let Some(source) = by_name.get(apex) {
            let text =
                format!("{} is unreachable: none of its name servers has an address in the set", Presentation(apex));
            report.add(Finding::error("delegation", source.file.clone(), place(source, apex), text));
        }
    }
    for zone in set.zones() {
        let above = parent(set, zone.apex());
        if let (Some(above), false, Some(source)) = (above, delegated.contains(zone.apex()), by_name.get(zone.apex())) {
            let (zone, above) = (Presentation(zone.apex()), Presentation(above));
            let text = format!("the parent zone {above} does not delegate {zone}: resolvers cannot find it");
            report.add(Finding::warning("delegation", source.file.clone(), 0, text));
        }
    }
    lost(set, &by_name, report);
    nowhere(set, &by_name, report);
}

/// Reports a set that has parent and child zones, but no delegation from a parent to a child.
fn nowhere(set: &ZoneSet, by_name: &HashMap<&[u8], &Source>, report: &mut Report) {
    let Delegations { total, within: 0, .. } = report.delegations else { return };
    let above = set.zones().iter().find_map(|zone| parent(set, zone.apex()));
    if let Some((above, source)) = above.and_then(|above| Some((above, by_name.get(above)?))) {
        let text = format!(
            "the set leads nowhere: none of its delegations ({total}) is of a zone of the set, so that resolvers get no further than {}",
            Presentation(above)
        );
        report.add(Finding::error("delegation", source.file.clone(), 0, text));
    }
}

/// Counts the delegations; returns the delegated names.
fn count<'a>(set: &'a ZoneSet, report: &mut Report) -> BTreeSet<&'a [u8]> {
    let mut delegated = BTreeSet::new();
    let mut counts = Delegations { unreachable: set.unreachable().delegations.len(), ..Delegations::default() };
    for zone in set.zones() {
        let owners: BTreeSet<&[u8]> = zone.delegations().map(|(owner, _)| owner).collect();
        counts.total += owners.len();
        let within = owners.into_iter().filter(|owner| set.zone(owner).is_some());
        let before = delegated.len();
        delegated.extend(within);
        counts.within += delegated.len() - before;
    }
    report.delegations = counts;
    delegated
}

/// The name of the closest parent zone.
fn parent<'a>(set: &'a ZoneSet, apex: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = apex;
    while let Some((&length @ 1.., behind)) = rest.split_first() {
        rest = behind.get(usize::from(length)..)?;
        if set.zone(rest).is_some() {
            return Some(rest);
        }
    }
    None
}

/// The line of the NS records of a name.
fn place(source: &Source, owner: &[u8]) -> u32 {
    let records = &source.records;
    records.iter().find(|record| record.rtype == rtype::NS && record.owner == owner).map_or(0, |record| record.place.1)
}

fn lost(set: &ZoneSet, by_name: &HashMap<&[u8], &Source>, report: &mut Report) {
    for all in set.unreachable().delegations.chunk_by(|a, b| a.zone == b.zone) {
        let Some(source) = by_name.get(set.zones()[all[0].zone as usize].apex()) else { continue };
        for one in all.iter().take(LISTED) {
            let owner = Presentation(&one.owner);
            let (file, line) = (source.file.clone(), place(source, &one.owner));
            let text =
                format!("the delegation of {owner} is unreachable: none of its name servers has an address in the set");
            report.add(match set.zone(&one.owner) {
                Some(_) => Finding::error("delegation", file, line, text),
                None => Finding::warning("delegation", file, line, text),
            });
        }
        if let Some(more @ 1..) = all.len().checked_sub(LISTED) {
            let text = format!("and {more} more unreachable delegations");
            report.add(Finding::warning("delegation", source.file.clone(), 0, text));
        }
    }
}
