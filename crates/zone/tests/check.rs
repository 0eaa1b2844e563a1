//! Signed zones as ldplayer checks them: those that others signed, and those with a fault.

use std::path::{Path, PathBuf};

use ldplayer_zone::sign::check::{Checked, check};
use ldplayer_zone::{Records, load, rtype, write};

/// 2026-01-01, within the validity of the zones for tests.
const NOW: u32 = 1_767_225_600;
/// 2016-10-09T12:00:00Z, when the signatures of the repository's root zone were valid.
const THEN: u32 = 1_476_014_400;

fn zone(name: &str) -> Records {
    load::file(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/zones").join(name), None).unwrap()
}

/// The text of a zone with `from` replaced once.
fn damaged(name: &str, from: &str, to: &str) -> Records {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/zones").join(name);
    let mut text = Vec::new();
    write::zone(b"\x07example\0", &load::file(&file, None).unwrap(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    load::text_of(text.replacen(from, to, 1).as_bytes(), Path::new("z"), None, &mut |_| unreachable!()).unwrap()
}

fn lines(checked: &Checked) -> Vec<String> {
    checked.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn zones_that_bind_signed_are_without_fault() {
    for file in ["nsec.zone", "nsec3.zone", "nsec3-opt-out.zone", "rfc4035.zone", "rfc5155.zone"] {
        let checked = check(&zone(file), NOW, 2).unwrap();
        assert_eq!(lines(&checked), [""; 0], "{file}");
        assert!(checked.is_signed && !checked.entries.is_empty() && checked.signatures > 10, "{file}");
    }
    let plain = check(&zone("plain.zone"), NOW, 2).unwrap();
    assert!(!plain.is_signed && plain.faults.is_empty() && plain.entries.is_empty());
}

#[test]
fn the_real_root_zone_is_without_fault_in_its_time() {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/root-2016100801.zone.xz");
    let mut text = Vec::new();
    let mut reader = liblzma::read::XzDecoder::new(std::fs::File::open(packed).unwrap());
    std::io::Read::read_to_end(&mut reader, &mut text).unwrap();
    let records = load::text_of(&text, Path::new("root.zone"), None, &mut |_| unreachable!()).unwrap();
    let checked = check(&records, THEN, 2).unwrap();
    assert_eq!(lines(&checked), [""; 0]);
    assert!(checked.signatures > 2_500, "{}", checked.signatures);
    let later = lines(&check(&records, NOW, 2).unwrap());
    assert!(later.len() == 1 && later[0].contains("have no signature that is valid now, such as"), "{later:?}");
}

#[test]
fn faults_are_told_in_words() {
    for (file, from, to, wanted) in [
        (
            "nsec.zone",
            "www.test. 3600 A 192.0.2.10",
            "www.test. 3600 A 192.0.2.99",
            "the signature of A at `www.test.` by key",
        ),
        (
            "nsec.zone",
            "z.test. 3600 TXT \"last\"\n",
            "z.test. 3600 TXT \"last\"\nz.test. 60 A 192.0.2.1\n",
            "A at `z.test.` is not signed",
        ),
        ("nsec.zone", "test. 3600 DNSKEY 256", "test. 3600 DNSKEY 257", "which the zone does not have"),
        ("nsec.zone", "test. 600 NSEC ", "test. 600 TYPE65500 \\# 0 ;", "`test.` has no NSEC record"),
        ("nsec3.zone", "NSEC3PARAM 1 0 5 ", "TXT x ;", "no NSEC3PARAM record of SHA-1"),
        (
            "nsec3.zone",
            "NSEC3PARAM 1 0 5 ",
            "NSEC3PARAM 1 0 6 ",
            "its NSEC3 record has other parameters than NSEC3PARAM has",
        ),
    ] {
        let found = lines(&check(&damaged(file, from, to), NOW, 1).unwrap());
        assert!(found.iter().any(|line| line.contains(wanted)), "{file} {from}: {found:#?}");
    }
}

/// A zone without the records of one type at one name.
fn without(records: &Records, wanted: u16, owner: &[u8]) -> Records {
    let mut kept = Records::default();
    for record in records.iter().filter(|record| (record.rtype, record.owner) != (wanted, owner)) {
        kept.push(record.owner, record.rtype, record.ttl, record.data).unwrap();
    }
    kept
}

#[test]
fn a_missing_record_is_told_where_its_name_is() {
    let records = damaged("nsec.zone", "test. 600 NSEC ", "test. 600 TYPE65500 \\# 0 ;");
    let checked = check(&records, NOW, 1).unwrap();
    let found = checked.faults.iter().find(|found| found.to_string() == "`test.` has no NSEC record").unwrap();
    assert_eq!(records.iter().find(|record| record.place == found.place).unwrap().owner, b"\x04test\0");
}

#[test]
fn a_chain_with_a_hole_is_broken() {
    let records = zone("nsec.zone");
    let found = lines(&check(&without(&records, rtype::NSEC, b"\x03www\x04test\0"), NOW, 1).unwrap());
    assert_eq!(found[0], "`www.test.` has no NSEC record");
    let records = zone("nsec3.zone");
    let all: Vec<Vec<u8>> =
        records.iter().filter(|record| record.rtype == rtype::NSEC3).map(|record| record.owner.to_vec()).collect();
    for owner in all.iter().step_by(7) {
        let found = lines(&check(&without(&records, rtype::NSEC3, owner), NOW, 1).unwrap());
        assert!(found.iter().any(|line| line.ends_with("has no NSEC3 record")), "{found:?}");
        assert!(found.iter().any(|line| line.contains("says that")), "{found:?}");
    }
    // The name is gone and its NSEC stays.
    let records = without(&zone("nsec.zone"), 16, b"\x01z\x04test\0");
    let found = lines(&check(&records, NOW, 1).unwrap());
    assert!(found.iter().any(|line| line == "`z.test.` has an NSEC record, and is no name that has one"), "{found:?}");
}

#[test]
fn signatures_without_keys_are_told() {
    let records = without(&zone("nsec.zone"), rtype::DNSKEY, b"\x04test\0");
    let checked = check(&records, NOW, 1).unwrap();
    assert!(!checked.is_signed && lines(&checked)[0].ends_with("has a signature, and the zone has no keys"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
    #[test]
    fn any_key_and_signature_end_in_a_verdict(
        algorithm in 0_u8..17, exponent in 0_u8..4, key in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
        signature in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
    ) {
        let key = [&[1, 0, 3, algorithm, exponent], &key[..]].concat();
        let tag = ldplayer_zone::sign::key_tag(&key).to_be_bytes();
        let records = zone("rfc4592.zone");
        let mut changed = Records::default();
        let apex = b"\x07example\0";
        changed.push(apex, rtype::DNSKEY, 60, &key).unwrap();
        for record in records.iter() {
            changed.push(record.owner, record.rtype, record.ttl, record.data).unwrap();
            let head = [&record.rtype.to_be_bytes()[..], &[algorithm, 1], &[0, 0, 0, 60], &[0xff; 4], &[0; 4], &tag, apex];
            let _ = changed.push(record.owner, rtype::RRSIG, 60, &[&head.concat(), &signature[..]].concat());
        }
        let checked = check(&changed, NOW, 1).unwrap();
        proptest::prop_assert!(checked.is_broken());
    }

    #[test]
    fn any_damage_ends_in_faults(at in 0_usize..4_000, octet in proptest::prelude::any::<u8>()) {
        for file in ["rfc4035.zone", "rfc5155.zone"] {
            let records = zone(file);
            let mut changed = Records::default();
            for (number, record) in records.iter().enumerate() {
                let mut data = record.data.to_vec();
                if number == at % records.len() {
                    let place = at / records.len() % data.len().max(1);
                    data[place] = octet;
                }
                // What is no data of the type any more is left out, as reading would.
                let _ = changed.push(record.owner, record.rtype, record.ttl, &data);
            }
            let _ = check(&changed, NOW, 1);
        }
    }
}
