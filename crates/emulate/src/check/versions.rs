//! Checks the versions of record sets that a set has beside its zone files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ldplayer_core::name::Presentation;
use ldplayer_zone::{Records, Version, VersionedSet, Zone, rtype};

use super::{Finding, Report, of_error};
use crate::serve::versions::{self, Content, FILE, SetEntry};
use crate::sources::Source;

/// Gives the zones their versions, and reports what is wrong with these.
pub fn check(directory: &Path, zones: &mut [Zone], sources: &[Source], report: &mut Report) {
    let file = directory.join(FILE);
    if let Err(error) = versions::apply(directory, zones) {
        return report.add(of_error(file, &error));
    }
    let Ok(Some(content)) = Content::read(directory) else { return };
    let Ok(by_zone) = content.by_zone() else { return };
    for source in sources {
        let read = |entry: &SetEntry| entry.read().ok().map(|(_, set)| set);
        let sets: Vec<VersionedSet> = by_zone.get(&source.apex).into_iter().flatten().filter_map(read).collect();
        let present = present(&source.records, &sets);
        sets.iter().filter_map(|set| Some((set, present.get(&(&*set.owner, set.rtype))?))).for_each(
            |(set, in_zone)| {
                findings(set, in_zone, &file).into_iter().for_each(|finding| report.add(finding));
            },
        );
    }
}

/// A record set as a zone has it.
#[derive(Default)]
struct InZone<'a> {
    data: BTreeSet<&'a [u8]>,
    is_signed: bool,
}

fn findings(set: &VersionedSet, in_zone: &InZone<'_>, file: &Path) -> Vec<Finding> {
    let named = format!("{} {}", Presentation(&set.owner), rtype::name_of(set.rtype));
    let is_it = |version: &Version| {
        let data: BTreeSet<&[u8]> = version.records.iter().map(Vec::as_slice).collect();
        data == in_zone.data
    };
    let mut findings = Vec::new();
    if !set.versions.iter().any(is_it) {
        let text = format!("{named}: the zone file has none of the versions");
        findings.push(Finding::warning("load", file.to_owned(), 0, text));
    }
    let unsigned = set.versions.iter().position(|version| version.signatures.is_empty());
    if let Some(at) = unsigned.filter(|_| in_zone.is_signed) {
        let text = format!("{named}: version {} is not signed, and the zone's is: sign the set anew", at + 1);
        findings.push(Finding::error("dnssec", file.to_owned(), 0, text));
    }
    findings
}

/// The sets that have versions, as the zone has them.
fn present<'a>(records: &'a Records, sets: &'a [VersionedSet]) -> BTreeMap<(&'a [u8], u16), InZone<'a>> {
    let mut present: BTreeMap<_, InZone<'_>> =
        sets.iter().map(|set| ((&*set.owner, set.rtype), InZone::default())).collect();
    if present.is_empty() {
        return present;
    }
    for record in records.iter() {
        let covered = record.data.first_chunk().map_or(0, |&octets| u16::from_be_bytes(octets));
        match record.rtype {
            rtype::RRSIG => present.entry((record.owner, covered)).and_modify(|set| set.is_signed = true),
            rtype => present.entry((record.owner, rtype)).and_modify(|set| {
                set.data.insert(record.data);
            }),
        };
    }
    present.retain(|_, in_zone| !in_zone.data.is_empty());
    present
}
