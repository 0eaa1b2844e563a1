//! What incremental transfers say of two versions of a zone.

use std::collections::BTreeSet;
use std::path::Path;

use ldplayer_core::name;
use proptest::prelude::*;

use super::*;
use crate::load;

fn zone(serial: u32, records: &str) -> Zone {
    let (text, mut apex) =
        (format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\nns A 127.0.0.1\n{records}"), Vec::new());
    name::parse("example.", &mut apex).unwrap();
    let records = load::text_of(text.as_bytes(), Path::new("zone"), Some(&apex), &mut |_| unreachable!()).unwrap();
    Zone::from_records(&records).unwrap().0
}

/// What a secondary does with the changes (RFC 1995 §4): records go after the first SOA record of each, and come after the second.
fn apply(old: &Zone, new: &Zone, changes: &[Arc<Changes>]) -> BTreeSet<(Vec<u8>, Vec<u8>)> {
    let mut progress = Progress::default();
    let all: Vec<_> = std::iter::from_fn(|| new.next_change(changes, &mut progress)).collect();
    assert!(progress.is_done(changes.len()));
    let (first, last, between) = (all[0], all[all.len() - 1], &all[1..all.len() - 1]);
    assert_eq!((Some(first), Some(last)), (new.soa_record(), new.soa_record()));
    let owned = |(owner, record): Record<'_>| (owner.to_vec(), record.to_vec());
    let (mut records, mut soas) = (old.sorted().into_iter().map(owned).collect::<BTreeSet<_>>(), 0);
    for &record in between {
        let is_soa = record.1[..2] == rtype::SOA.to_be_bytes();
        soas += usize::from(is_soa);
        match soas % 2 {
            _ if is_soa => {}
            1 => assert!(records.remove(&owned(record)), "what goes was there"),
            _ => assert!(records.insert(owned(record)), "what comes was not there"),
        }
    }
    assert_eq!(soas, 2 * changes.len());
    records
}

#[test]
fn serial_numbers_go_around() {
    assert!(!is_newer(5, 5) && is_newer(6, 5) && !is_newer(5, 6));
    assert!(is_newer(0, u32::MAX) && !is_newer(u32::MAX, 0));
    assert!(!is_newer(0, 1 << 31) && !is_newer(1 << 31, 0), "neither follows the other");
}

#[test]
fn only_what_changed_is_told() {
    let (old, new) = (zone(1, "a A 192.0.2.1\nb A 192.0.2.2\n"), zone(2, "a 61 A 192.0.2.1\nb A 192.0.2.2\nc TXT x\n"));
    let changes = Changes::between(&old, &new).unwrap();
    let mut at = 0;
    let told = std::iter::from_fn(|| {
        let (record, length) = first(&changes.records[at..])?;
        at += length;
        Some((record.0[1], u16::from_be_bytes([record.1[0], record.1[1]])))
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [(b'e', rtype::SOA), (b'a', 1), (b'e', rtype::SOA), (b'a', 1), (b'c', rtype::TXT)]
    );
    assert_eq!((changes.from(), changes.octets()), (1, at));
    assert_eq!(Changes::between(&new, &old), None, "the serial number goes down");
    assert!(!old.is_same(&new) && old.is_same(&zone(1, "b A 192.0.2.2\na A 192.0.2.1\n")));
}

/// Records of a zone. Two zones often share some.
fn records() -> impl Strategy<Value = String> {
    let record = (0..6, prop_oneof![Just("A 192.0.2.1"), Just("A 192.0.2.2"), Just("TXT x"), Just("61 MX 1 a")]);
    let lines = prop::collection::btree_set(record.prop_map(|(name, data)| format!("n{name} {data}\n")), 0..12);
    lines.prop_map(|lines| lines.into_iter().collect())
}

proptest! {
    #[test]
    fn changes_lead_from_any_version_to_the_last(versions in prop::collection::vec(records(), 2..5)) {
        let zones: Vec<Zone> = versions.iter().zip(7..).map(|(records, serial)| zone(serial, records)).collect();
        let changes: Vec<_> = zones.windows(2).map(|two| Arc::new(Changes::between(&two[0], &two[1]).unwrap())).collect();
        let last = &zones[zones.len() - 1];
        for (at, zone) in zones[..zones.len() - 1].iter().enumerate() {
            let wanted: BTreeSet<_> = last.sorted().into_iter().map(|(owner, record)| (owner.to_vec(), record.to_vec())).collect();
            prop_assert_eq!(apply(zone, last, &changes[at..]), wanted);
        }
    }
}
