//! Signed zones as ldplayer checks them: those that others signed, and those with a fault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ldplayer_zone::sign::check::{Checked, Trust, ZoneChecked, check, trust};
use ldplayer_zone::sign::{self, Algorithm, Denial, Key, Policy, Role, Validity};
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
    assert!(later.len() == 1 && later[0].contains("expired or not yet valid: "), "{later:?}");
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
        ("nsec.zone", "test. 3600 DNSKEY 256", "test. 3600 DNSKEY 257", "which is not in the zone"),
        ("nsec.zone", "test. 600 NSEC ", "test. 600 TYPE65500 \\# 0 ;", "`test.` has no NSEC record"),
        ("nsec3.zone", "NSEC3PARAM 1 0 5 ", "TXT x ;", "no NSEC3PARAM record for SHA-1"),
        ("nsec3.zone", "NSEC3PARAM 1 0 5 ", "NSEC3PARAM 1 0 6 ", "has other parameters than NSEC3PARAM"),
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
        assert!(found.iter().any(|line| line.contains("has the next name")), "{found:?}");
    }
    // The name is gone and its NSEC stays.
    let records = without(&zone("nsec.zone"), 16, b"\x01z\x04test\0");
    let found = lines(&check(&records, NOW, 1).unwrap());
    assert!(found.iter().any(|line| line == "`z.test.` has an unexpected NSEC record"), "{found:?}");
}

/// The zone with one record more.
fn with(records: &Records, owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) -> Records {
    let mut more = without(records, 0, b"");
    more.push(owner, rtype, ttl, data).unwrap();
    more
}

#[test]
fn every_record_of_an_nsec_or_nsec3_set_is_looked_at() {
    for (file, rtype) in [("nsec.zone", rtype::NSEC), ("nsec3.zone", rtype::NSEC3)] {
        let records = zone(file);
        let all: Vec<(Vec<u8>, Vec<u8>)> = records
            .iter()
            .filter(|record| record.rtype == rtype)
            .map(|record| (record.owner.to_vec(), record.data.to_vec()))
            .collect();
        // Beside the right one that of another name, which sorts before it or behind it.
        for (owner, data) in [&all[1], &all[all.len() / 2]] {
            for other in [&all[0].1, &all[all.len() - 1].1].into_iter().filter(|other| *other != data) {
                let found = lines(&check(&with(&records, owner, rtype, 600, other), NOW, 1).unwrap());
                let is_told =
                    |line: &String| line.contains(" has the next name ") || line.contains(" has a wrong type bitmap");
                assert!(found.iter().any(is_told), "{file}: {found:?}");
            }
        }
        assert_eq!(
            lines(&check(&with(&records, &all[0].0, rtype, 600, &all[0].1), NOW, 1).unwrap()),
            [""; 0],
            "the same twice"
        );
    }
}

/// The zone signed anew, with keys of these algorithms: one KSK, and ZSKs of which so many sign.
fn signed(zsks: &[Algorithm], active_zsks: usize, delegations: &BTreeMap<Vec<u8>, Vec<Vec<u8>>>) -> Records {
    let key = |role, algorithm| Key::generate(role, algorithm, 1024, &[7; 32]).unwrap();
    let mut keys = vec![key(Role::Ksk, Algorithm::EcdsaP256Sha256)];
    keys.extend(zsks.iter().map(|&algorithm| key(Role::Zsk, algorithm)));
    let validity = Validity { inception: NOW - 1, expiration: NOW + 1 };
    let policy =
        Policy { keys: &keys, active_zsks, denial: Denial::Nsec, collisions: 0, validity, delegations, threads: 1 };
    sign::zone(&zone("plain.zone"), &policy).unwrap().records
}

#[test]
fn sets_without_a_signature_of_each_algorithm_are_warned_of() {
    let none = BTreeMap::new();
    let two = [Algorithm::EcdsaP256Sha256, Algorithm::Ed25519];
    for active in [1, 2] {
        let checked = check(&signed(&two, active, &none), NOW, 1).unwrap();
        let found = lines(&checked);
        // With one ZSK no set has both; with two all but the keys, which the KSK signs.
        let total = if active == 1 { checked.signatures } else { checked.signatures.div_ceil(2) };
        let count = if active == 1 { total } else { 1 };
        let wanted = format!(
            "record sets without a signature of algorithm 15, although the zone has a key of it: {count} of {total}, such as "
        );
        assert!(found.len() == 1 && found[0].starts_with(&wanted), "{found:?}");
        assert!(!checked.is_broken(), "resolvers must not ask for it (RFC 6840 5.11)");
    }
    assert_eq!(lines(&check(&signed(&two[..1], 1, &none), NOW, 1).unwrap()), [""; 0]);
}

#[test]
fn a_ds_record_of_an_algorithm_that_signs_no_keys_is_warned_of() {
    let (child, none) = (b"\x03sub\x04test\0".to_vec(), BTreeMap::new());
    let key = Key::generate(Role::Ksk, Algorithm::EcdsaP256Sha256, 0, &[7; 32]).unwrap();
    let right = sign::ds(&child, key.data(), 2).unwrap();
    let other = [&right[..2], &[8], &right[3..]].concat();
    for (ds, is_told) in [(vec![right.clone()], false), (vec![right, other], true)] {
        let parent = signed(&[Algorithm::EcdsaP256Sha256], 1, &BTreeMap::from([(child.clone(), ds)]));
        // The same keys, another name.
        let mut below = Records::default();
        for record in zone("rfc4592.zone").iter() {
            let renamed = |name: &[u8]| [name.strip_suffix(b"\x07example\0").unwrap(), &child].concat();
            let is_plain = matches!(record.rtype, rtype::A | rtype::TXT | rtype::SOA);
            if is_plain {
                below.push(&renamed(record.owner), record.rtype, record.ttl, record.data).unwrap();
            }
        }
        let validity = Validity { inception: NOW - 1, expiration: NOW + 1 };
        let zsk = Key::generate(Role::Zsk, Algorithm::EcdsaP256Sha256, 0, &[8; 32]).unwrap();
        let keys = [key.clone(), zsk];
        let policy = Policy {
            keys: &keys,
            active_zsks: 1,
            denial: Denial::Nsec,
            collisions: 0,
            validity,
            delegations: &none,
            threads: 1,
        };
        let below = sign::zone(&below, &policy).unwrap().records;
        let checked = [&parent, &below].map(|records| check(records, NOW, 1).unwrap());
        let zones = [
            ZoneChecked { apex: b"\x04test\0", records: &parent, checked: &checked[0] },
            ZoneChecked { apex: &child, records: &below, checked: &checked[1] },
        ];
        let trusted = trust(&zones).pop().unwrap();
        assert_eq!(trusted.trust, Trust::Secure);
        let told = trusted.fault.map(|(zone, found)| (zone, found.to_string(), found.breaks));
        let wanted = "`sub.test.` has a DS record of algorithm 8, but no key of that algorithm signs the DNSKEY records of its zone (RFC 4035 2.2)";
        assert_eq!(told, is_told.then(|| (0, wanted.to_owned(), false)));
    }
}

#[test]
fn ttls_other_than_those_that_were_signed_are_warned_of() {
    let records = damaged("nsec.zone", "www.test. 3600 A 192.0.2.10", "www.test. 600 A 192.0.2.10");
    let checked = check(&records, NOW, 1).unwrap();
    let found = lines(&checked);
    let wanted = "such as A at `www.test.` with 600, signed with 3600 (RFC 4034 3.1.4)";
    assert!(found.len() == 1 && found[0].contains(": 1 of ") && found[0].ends_with(wanted), "{found:?}");
    assert!(!checked.is_broken());
    // The TTL of a signature alone.
    let records = damaged("nsec.zone", "www.test. 3600 RRSIG A ", "www.test. 60 RRSIG A ");
    let found = lines(&check(&records, NOW, 1).unwrap());
    assert!(found.len() == 1 && found[0].contains("A at `www.test.` with 60, signed with 3600"), "{found:?}");
}

#[test]
fn signatures_without_keys_are_told() {
    let records = without(&zone("nsec.zone"), rtype::DNSKEY, b"\x04test\0");
    let checked = check(&records, NOW, 1).unwrap();
    assert!(!checked.is_signed && lines(&checked)[0].ends_with("has a signature, but the zone has no keys"));
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
