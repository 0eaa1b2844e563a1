//! Trust anchors as resolvers read them.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use ldplayer_core::name::Presentation;
use ldplayer_net::output;
use ldplayer_zone::write::Line;
use ldplayer_zone::{Records, rtype};

/// For unbound (`trust-anchor-file`), Knot Resolver and drill: DS records as in a zone file.
pub const RECORDS: &str = "trust-anchors.ds";
/// For BIND and delv: a clause of named.conf.
pub const CLAUSE: &str = "trust-anchors.conf";
/// TTL of the records, which resolvers do not go by.
const TTL: u32 = 3600;

/// Zones and the DS data of their keys.
pub type Anchors = [(Vec<u8>, Vec<Vec<u8>>)];

/// Writes both forms into a directory.
pub fn write(directory: &Path, anchors: &Anchors) -> anyhow::Result<()> {
    for (name, text) in [(RECORDS, records(anchors)?), (CLAUSE, clause(anchors))] {
        let file = directory.join(name);
        output::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn records(anchors: &Anchors) -> anyhow::Result<String> {
    let mut records = Records::default();
    for (zone, all) in anchors {
        all.iter().try_for_each(|data| records.push(zone, rtype::DS, TTL, data))?;
    }
    let mut line = Line::default();
    Ok(records.iter().map(|record| line.of(&record).to_owned()).collect())
}

fn clause(anchors: &Anchors) -> String {
    let mut text = "trust-anchors {\n".to_owned();
    for (zone, data) in anchors.iter().flat_map(|(zone, all)| all.iter().map(move |data| (zone, data))) {
        if let &[high, low, algorithm, kind, ref digest @ ..] = data.as_slice() {
            let (zone, tag) = (Presentation(zone), u16::from_be_bytes([high, low]));
            // Writing to a string does not fail.
            let _ = writeln!(text, "    \"{zone}\" static-ds {tag} {algorithm} {kind} \"{}\";", hex(digest));
        }
    }
    text.push_str("};\n");
    text
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02X}");
        text
    })
}
