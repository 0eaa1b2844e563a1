//! Real zones beyond the bundled one, where they are at hand: each loads, is small, and answers for all its names.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ldplayer_core::message::QueryParts;
use ldplayer_zone::{Records, ReplyKind, Scratch, Transport, Zone, load, respond, write};

/// Folders of zone files beside the repository; the bundled zone is always read.
const FOLDERS: [&str; 2] = ["../shared/data/zones-root", "../shared/data/zones-tld"];

fn zone_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("data/root-2016100801.zone.xz")];
    for folder in FOLDERS {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| entry.path()).filter(|path| path.extension().is_none_or(|end| end != "md")));
    }
    files
}

fn text(file: &Path) -> Vec<u8> {
    let octets = fs::read(file).unwrap();
    let mut text = Vec::new();
    if file.extension().is_some_and(|end| end == "xz") {
        liblzma::read::XzDecoder::new(&octets[..]).read_to_end(&mut text).unwrap();
        return text;
    }
    octets
}

#[test]
fn real_zones_are_small_and_answer_for_their_names() {
    let files = zone_files();
    for file in &files {
        let records = load::text_of(&text(file), file, Some(b"\0"), &mut |_| unreachable!()).unwrap();
        let (zone, _) = Zone::from_records(&records).unwrap();
        assert!(zone.memory_bytes() < 400 * zone.records(), "{}: {} octets", file.display(), zone.memory_bytes());
        println!(
            "{}: {} records, {} octets each",
            file.display(),
            zone.records(),
            zone.memory_bytes() / zone.records()
        );
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        for (_, set) in zone.iter_rrsets().step_by(7) {
            let (mut query, edns) = (Vec::new(), Some((1232, true)));
            QueryParts { id: 1, flags: 0, name: set.owner, qtype: set.rtype, qclass: 1, edns }.compose(&mut query);
            out.clear();
            let reply = respond(&zone, &query, Transport::Udp, &mut scratch, &mut out);
            // NSEC3 records are not at names that are there.
            let is_hashed = set.rtype == 50;
            let is_sound = matches!(reply.kind, ReplyKind::Answer | ReplyKind::Referral)
                || is_hashed && reply.kind == ReplyKind::NxDomain;
            assert!(is_sound, "{}: {set:?}: {:?}", file.display(), reply.kind);
        }
    }
    assert!(!files.is_empty());
}

#[test]
fn real_zones_are_written_as_they_were_read() {
    let data = |records: &Records| {
        records.iter().map(|one| (one.owner.to_vec(), one.rtype, one.ttl, one.data.to_vec())).collect::<Vec<_>>()
    };
    for file in zone_files() {
        let records = load::text_of(&text(&file), &file, Some(b"\0"), &mut |_| unreachable!()).unwrap();
        let mut written = Vec::new();
        write::zone(b"\0", &records, &mut written).unwrap();
        let again = load::text_of(&written, &file, None, &mut |_| unreachable!()).unwrap();
        assert!(data(&again) == data(&records), "{}", file.display());
        let generic = written.windows(3).filter(|octets| octets == b" \\#").count();
        assert!(generic <= records.len() / 100, "{}: {generic} records are in generic form", file.display());
    }
}
