//! versions.json: record sets with all their versions, beside the zone files.

use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;
use ldplayer_core::name::Presentation;
use ldplayer_core::time::NS_PER_S;
use ldplayer_emulate::serve::versions::{Content, FILE, SetEntry, VersionEntry};
use ldplayer_zone::construct::{KeptSet, KeptVersion, Report};
use ldplayer_zone::{rtype, write};

/// Writes the file, if versions were kept.
pub fn write(directory: &Path, report: &Report) -> anyhow::Result<()> {
    let Some(start_ns) = report.kept_start_ns else { return Ok(()) };
    let start = Timestamp::from_nanosecond(start_ns.into()).ok().map(|start| start.to_string());
    let content = Content { start, sets: report.kept.iter().map(set).collect() };
    let failed = || format!("{}: cannot be written; is there room?", directory.join(FILE).display());
    Content::save(Some(content), directory).with_context(failed)
}

fn set(kept: &KeptSet) -> SetEntry {
    SetEntry {
        zone: Presentation(&kept.zone).to_string(),
        name: Presentation(&kept.owner).to_string(),
        rtype: rtype::name_of(kept.rtype),
        versions: kept.versions.iter().map(|kept_version| version(kept, kept_version)).collect(),
    }
}

fn version(set: &KeptSet, version: &KeptVersion) -> VersionEntry {
    let seconds = |ns: i64| ns as f64 / NS_PER_S as f64;
    let data = |rtype: u16, all: &[Vec<u8>]| all.iter().map(|data| write::data(&set.owner, rtype, data)).collect();
    VersionEntry {
        ttl: version.ttl,
        records: data(set.rtype, &version.records),
        signatures: data(rtype::RRSIG, &version.signatures),
        count: version.count,
        from: version.from_ns.iter().map(|&ns| seconds(ns)).collect(),
        last: Some(seconds(version.last_ns)),
        servers: version.servers.clone(),
        resolvers: version.resolvers.clone(),
        subnets: version.subnets.iter().map(ToString::to_string).collect(),
    }
}
