//! Signed zones as BIND's `dnssec-verify` and NLnet Labs' `ldns-verify-zone` see them.

mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use ldplayer_core::name::Presentation;
use ldplayer_zone::sign::check::check;
use ldplayer_zone::sign::{self, Algorithm, Denial, Key, Policy, Role, Signed, Validity};
use ldplayer_zone::{Records, Scratch, Transport, Zone, load, respond, rtype};

/// 2020 to 2038; `ldns-verify-zone` takes later times for ones before 1970.
const VALIDITY: Validity = Validity { inception: 1_577_836_800, expiration: 2_145_916_800 };

fn zone(name: &str) -> Records {
    load::file(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/zones").join(name), None).unwrap()
}

/// The root zone of the repository's data.
fn root() -> Records {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/root-2016100801.zone.xz");
    let mut text = Vec::new();
    let mut reader = liblzma::read::XzDecoder::new(std::fs::File::open(packed).unwrap());
    std::io::Read::read_to_end(&mut reader, &mut text).unwrap();
    load::text_of(&text, Path::new("root.zone"), None, &mut |_| unreachable!()).unwrap()
}

fn keys(algorithm: Algorithm, zsks: u8) -> Vec<Key> {
    let key = |role, number| Key::generate(role, algorithm, 1024, &[number; 32]).unwrap();
    let mut keys = vec![key(Role::Ksk, 100)];
    keys.extend((0..zsks).map(|number| key(Role::Zsk, number)));
    keys
}

fn nsec3(iterations: u16, salt: &[u8], opt_out: bool) -> Denial {
    Denial::Nsec3 { iterations, salt: salt.to_vec(), opt_out }
}

fn signed(records: &Records, keys: &[Key], active_zsks: usize, denial: Denial) -> Signed {
    let delegations = BTreeMap::new();
    let policy =
        Policy { keys, active_zsks, denial, collisions: 0, validity: VALIDITY, delegations: &delegations, threads: 2 };
    sign::zone(records, &policy).unwrap()
}

fn text(records: &Records) -> String {
    records.iter().fold(String::new(), |mut text, record| {
        writeln!(text, "{record}").unwrap();
        text
    })
}

/// Has both programs check a zone; what they say when they do not like it.
fn verify(origin: &str, records: &Records) -> Result<(), String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text(records)).unwrap();
    run(Command::new("dnssec-verify").args(["-o", origin]).arg(file.path()))?;
    run(Command::new("ldns-verify-zone").arg(file.path()))
}

/// What a program says when it ends in failure.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().expect("bind9-utils and ldnsutils: scripts/need.sh bind-utils ldns");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {said:.2000}")) }
}

fn denials() -> [Denial; 5] {
    [
        Denial::Nsec,
        nsec3(0, b"", false),
        nsec3(5, b"\xaa\xbb\xcc\xdd", false),
        nsec3(0, b"", true),
        nsec3(12, b"s", true),
    ]
}

/// The zones for tests with what they are made of.
const ZONES: [(&str, &str); 7] = [
    ("plain.zone", "test"),
    ("nsec.zone", "test"),
    ("nsec3.zone", "test"),
    ("nsec3-opt-out.zone", "test"),
    ("rfc4035.zone", "example"),
    ("rfc4592.zone", "example"),
    ("rfc5155.zone", "example"),
];

#[test]
fn every_algorithm_with_every_denial_is_verified_by_bind() {
    let with = |algorithm| {
        let keys = keys(algorithm, 1);
        for (file, origin) in ZONES {
            for denial in denials() {
                let made = signed(&zone(file), &keys, 1, denial.clone());
                verify(origin, &made.records).unwrap_or_else(|said| panic!("{file} {algorithm} {denial:?}: {said}"));
            }
        }
    };
    std::thread::scope(|scope| {
        Algorithm::ALL.into_iter().for_each(|algorithm| drop(scope.spawn(move || with(algorithm))))
    });
}

fn of_type(records: &Records, rtype: u16) -> Vec<(String, Vec<u8>)> {
    let all = records.iter().filter(|record| record.rtype == rtype);
    all.map(|record| (Presentation(record.owner).to_string(), record.data.to_vec())).collect()
}

#[test]
fn a_rollover_has_all_keys_and_signs_with_one_or_with_all() {
    let (records, keys) = (zone("rfc4592.zone"), keys(Algorithm::RsaSha256, 3));
    let (one, all) = (signed(&records, &keys, 1, Denial::Nsec), signed(&records, &keys, 3, Denial::Nsec));
    for made in [&one, &all] {
        verify("example", &made.records).unwrap();
        assert_eq!(of_type(&made.records, rtype::DNSKEY).len(), 4);
    }
    // The keys have the KSK's signature alone.
    assert_eq!(all.signatures - 1, 3 * (one.signatures - 1));
}

#[test]
fn the_same_input_gives_the_same_zone_and_signing_again_changes_nothing() {
    for algorithm in Algorithm::ALL {
        let keys = keys(algorithm, 2);
        let first = signed(&zone("plain.zone"), &keys, 1, nsec3(1, b"x", true));
        assert_eq!(first.records.get(0).rtype, rtype::SOA);
        let again = signed(&first.records, &keys, 1, nsec3(1, b"x", true));
        assert_eq!(text(&first.records), text(&again.records), "{algorithm}");
        let other = signed(&first.records, &keys, 1, Denial::Nsec);
        assert_eq!(of_type(&other.records, rtype::NSEC3), [], "what was there before is gone");
    }
}

#[test]
fn private_keys_are_read_back() {
    for algorithm in Algorithm::ALL {
        for key in keys(algorithm, 1) {
            let text = sign::private_text(&key);
            let read = sign::read_private(&text, key.role()).unwrap();
            assert_eq!((read.data(), read.tag()), (key.data(), key.tag()));
            assert_eq!(sign::private_text(&read), text);
            for cut in (0..text.len()).step_by(7) {
                // Any beginning is a key or an error.
                let _ = sign::read_private(&text[..cut], key.role());
            }
        }
    }
    assert_eq!(
        sign::read_private("Algorithm: 5 (RSASHA1)\n", Role::Zsk).unwrap_err().to_string(),
        "unsupported signing algorithm 5: use rsasha256, rsasha512, ecdsap256sha256, ecdsap384sha384 or ed25519"
    );
    let generate = |bits| Key::generate(Role::Zsk, Algorithm::RsaSha256, bits, &[0; 32]);
    assert!(generate(512).is_err() && generate(1028).is_err() && generate(8192).is_err());
}

#[test]
fn keys_are_those_of_the_rfcs() {
    // RFC 6605 §6.1 and RFC 8080 §6.1: private key, DNSKEY data, DS data.
    let p256 = "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\nPrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n";
    let key = sign::read_private(p256, Role::Ksk).unwrap();
    assert_eq!(key.tag(), 55_648);
    let ds = sign::ds(b"\x07example\x03net\0", key.data(), 2).unwrap();
    assert_eq!(hex(&ds[4..]), "b4c8c1fe2e7477127b27115656ad6256f424625bf5c1e2770ce6d6e37df61d17");
    let ed25519 =
        "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";
    let key = sign::read_private(ed25519, Role::Ksk).unwrap();
    assert_eq!(key.tag(), 3613);
    let ds = sign::ds(b"\x07example\x03com\0", key.data(), 2).unwrap();
    assert_eq!(hex(&ds[4..]), "3aa5ab37efce57f737fc1627013fee07bdf241bd10f3b1964ab55c78e79a304b");
    assert_eq!(sign::ds(b"\0", key.data(), 1).map(|ds| ds.len()), Some(24));
    assert_eq!((sign::ds(b"\0", key.data(), 3), sign::ds(b"\0", b"", 2)), (None, None));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn any_private_key_file_is_a_key_or_an_error(
        algorithm in 0..Algorithm::ALL.len(), line in 0_usize..12, octets in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..140),
    ) {
        let text = sign::private_text(&keys(Algorithm::ALL[algorithm], 1)[0]);
        // Another value in one of its fields.
        let value: String = octets.iter().map(|&octet| char::from(b"AAAB/+z9=CD\n"[usize::from(octet) % 12])).collect();
        let lines = text.lines().enumerate().map(|(at, one)| match one.split_once(": ") {
            Some((field, _)) if at == line => format!("{field}: {value}\n"),
            _ => format!("{one}\n"),
        });
        if let Ok(key) = sign::read_private(&lines.collect::<String>(), Role::Zsk) {
            let made = [key, keys(Algorithm::Ed25519, 1)[0].clone()];
            let delegations = BTreeMap::new();
            let policy = Policy { keys: &made, active_zsks: 1, denial: Denial::Nsec, collisions: 0, validity: VALIDITY, delegations: &delegations, threads: 1 };
            let _ = sign::zone(&zone("rfc4592.zone"), &policy);
        }
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn delegations_get_the_ds_records_they_are_given() {
    let (records, keys) = (zone("plain.zone"), keys(Algorithm::Ed25519, 1));
    let name = |label: &str| [&[label.len() as u8], label.as_bytes(), b"\x04test\0"].concat();
    let ds = sign::ds(&name("sub"), keys[0].data(), 2).unwrap();
    let delegations = BTreeMap::from([
        (name("sub"), vec![ds.clone()]),
        (name("secure"), Vec::new()),
        (name("www"), vec![ds.clone()]),
    ]);
    let made = |denial| {
        let policy = Policy {
            keys: &keys,
            active_zsks: 1,
            denial,
            collisions: 0,
            validity: VALIDITY,
            delegations: &delegations,
            threads: 1,
        };
        sign::zone(&records, &policy).unwrap().records
    };
    for denial in denials() {
        let made = made(denial);
        verify("test", &made).unwrap();
        let found = of_type(&made, rtype::DS);
        let owners: Vec<&str> = found.iter().map(|(owner, _)| owner.as_str()).collect();
        assert_eq!(
            owners,
            ["secure-out.test.", "sub.test."],
            "one replaced, one removed, none where nothing is delegated"
        );
        assert_eq!(found[1].1, ds);
    }
}

#[test]
fn opt_out_leaves_insecure_delegations_out_of_the_chain() {
    let (records, keys) = (zone("plain.zone"), keys(Algorithm::Ed25519, 1));
    let all = signed(&records, &keys, 1, nsec3(0, b"", false));
    let some = signed(&records, &keys, 1, nsec3(0, b"", true));
    assert!(some.denials < all.denials, "{} {}", some.denials, all.denials);
    let flags = |made: &Signed| of_type(&made.records, rtype::NSEC3).iter().all(|(_, data)| data[1] == 1);
    assert!(flags(&some) && !flags(&all));
    assert_eq!(
        of_type(&some.records, rtype::NSEC3PARAM)[0].1,
        [1, 0, 0, 0, 0],
        "the flag is for NSEC3 alone (RFC 5155 4.1.2)"
    );
}

/// The zone of a text.
fn of_text(text: &str) -> Records {
    load::text_of(text.as_bytes(), Path::new("z"), Some(b"\x07example\0"), &mut |_| unreachable!()).unwrap()
}

/// A wildcard, and an empty non-terminal below it that is there for an insecure delegation alone.
const OPT_OUT_GAP: &str =
    "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n* A 192.0.2.2\ndeep.optent.only NS ns\n";

/// Whether a zone has the NSEC3 record of a name, without iterations and salt.
fn has_nsec3(records: &Records, name: &str) -> bool {
    let output = Command::new("nsec3hash").args(["-", "1", "0", name]).output().expect("bind9-utils");
    let said = String::from_utf8(output.stdout).unwrap().to_ascii_lowercase();
    let hash = said.split(' ').next().unwrap();
    of_type(records, rtype::NSEC3).iter().any(|(owner, _)| owner.starts_with(hash))
}

#[test]
fn opt_out_keeps_the_nsec3_of_an_empty_non_terminal_below_a_wildcard() {
    let keys = keys(Algorithm::Ed25519, 1);
    let made = signed(&of_text(OPT_OUT_GAP), &keys, 1, nsec3(0, b"", true));
    verify("example", &made.records).unwrap();
    let has = |name| has_nsec3(&made.records, name);
    assert!(has("only.example"), "names below it are denied by it");
    assert!(!has("optent.only.example") && !has("deep.optent.only.example"), "`only` has no wildcard below it");
    let without = OPT_OUT_GAP.replace("* A 192.0.2.2\n", "");
    let made = signed(&of_text(&without), &keys, 1, nsec3(0, b"", true));
    assert!(!has_nsec3(&made.records, "only.example"), "nothing needs it");
}

/// The zone as `dnssec-signzone` signs it with opt-out: without that record.
fn signed_by_bind(text: &str) -> Records {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("z"), text).unwrap();
    let in_scratch =
        |program: &str, options: &[&str]| run(Command::new(program).current_dir(scratch.path()).args(options));
    for role in [&["-f", "KSK"][..], &[]] {
        in_scratch("dnssec-keygen", &[&["-q", "-a", "ED25519"], role, &["example"]].concat()).unwrap();
    }
    in_scratch(
        "dnssec-signzone",
        &["-q", "-S", "-3", "-", "-A", "-o", "example", "-e", "now+3600", "-f", "signed", "z"],
    )
    .unwrap();
    load::file(&scratch.path().join("signed"), Some(b"\x07example\0")).unwrap()
}

#[test]
fn a_zone_with_the_opt_out_gap_is_warned_of_and_denies_what_it_can() {
    let others: String = ('a'..'r').map(|name| format!("{name} A 192.0.2.3\n")).collect();
    let records = signed_by_bind(&(OPT_OUT_GAP.to_owned() + &others));
    assert!(!has_nsec3(&records, "only.example"), "the gap is there");
    let now = records.iter().find(|record| record.rtype == rtype::RRSIG).unwrap();
    let inception = u32::from_be_bytes(*now.data[12..].first_chunk().unwrap());
    let checked = check(&records, inception, 1).unwrap();
    let faults: Vec<String> = checked.faults.iter().map(ToString::to_string).collect();
    assert!(
        faults.len() == 1
            && faults[0].contains("`only.example.`, an empty non-terminal above opted-out delegations only"),
        "{faults:?}"
    );
    assert!(!checked.is_broken(), "all else is validated");

    let (zone, _) = Zone::from_records(&records).unwrap();
    // x.only.example A, with EDNS and DO.
    let query = b"\0\x07\0\0\0\x01\0\0\0\0\0\x01\x01x\x04only\x07example\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\x80\0\0\0";
    let (mut scratch, mut answer) = (Scratch::default(), Vec::new());
    let reply = respond(&zone, query, Transport::Udp, &mut scratch, &mut answer);
    assert_eq!(reply.rcode, 3);
    let hash = |at: &u32| String::from_utf8(zone.rrset(*at as usize).owner[1..5].to_vec()).unwrap();
    let shown: BTreeSet<String> = scratch.asked().iter().map(hash).collect();
    // The closest provable encloser, example, and what covers only.example (c3sg…). The record before *.example (99ja…) does not
    // cover what is there.
    assert_eq!(shown, BTreeSet::from(["3mse".to_owned(), "c0og".to_owned()]));
}

#[test]
fn a_ds_record_that_belongs_to_no_delegation_is_refused_as_by_dnssec_signzone() {
    let keys = keys(Algorithm::Ed25519, 1);
    let delegations = BTreeMap::new();
    for (owner, shown) in [("x", "x.example."), ("@", "example.")] {
        let text =
            format!("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{owner} DS 1 8 2 {}\n", "00".repeat(32));
        let theirs = std::panic::catch_unwind(|| signed_by_bind(&text)).is_err();
        assert!(theirs, "dnssec-signzone refuses it");
        let denial = Denial::Nsec;
        let policy = Policy {
            keys: &keys,
            active_zsks: 1,
            denial,
            collisions: 0,
            validity: VALIDITY,
            delegations: &delegations,
            threads: 1,
        };
        let error = sign::zone(&of_text(&text), &policy).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{shown}` has a DS record but is not a delegation: ")), "{error}");
    }
}

#[test]
fn zones_made_at_random_are_verified_by_bind_and_ldns() {
    const SEED: u64 = 15;
    println!("seed {SEED}");
    let (keys, mut draw) = (keys(Algorithm::Ed25519, 1), random::Draw(SEED));
    for round in 0..8 {
        for denial in denials() {
            let made = random::RandomZone::draw(&mut draw, 40);
            let text = made.text(&mut draw, "example.", ["ns.test."; 2], &["www.example.", "nothing.test."]);
            let name = |text: &String| {
                let mut wire = Vec::new();
                ldplayer_core::name::parse(text, &mut wire).map(|()| wire).unwrap()
            };
            let ds = |name: Vec<u8>| (name.clone(), vec![sign::ds(&name, keys[0].data(), 2).unwrap()]);
            let secure = made.of_role("example.", random::Role::Secure);
            let delegations: BTreeMap<_, _> = secure.iter().map(name).map(ds).collect();
            let validity = VALIDITY;
            let policy = Policy {
                keys: &keys,
                active_zsks: 1,
                denial,
                collisions: 0,
                validity,
                delegations: &delegations,
                threads: 2,
            };
            let signed = sign::zone(&of_text(&text), &policy).unwrap().records;
            verify("example", &signed)
                .unwrap_or_else(|said| panic!("round {round} {:?}\n{text}\n{said}", policy.denial));
            let checked = check(&signed, 1_767_225_600, 2).unwrap();
            assert_eq!(checked.faults, [], "round {round} {:?}\n{text}", policy.denial);
        }
    }
}

#[test]
fn the_root_zone_is_signed_and_verified_at_full_size() {
    let (records, keys) = (root(), keys(Algorithm::Ed25519, 2));
    let made = signed(&records, &keys, 1, Denial::Nsec);
    verify(".", &made.records).unwrap();
    let count = |records: &Records, rtype| of_type(records, rtype).len();
    for kept in [rtype::NS, rtype::DS, rtype::A, rtype::AAAA, rtype::NSEC] {
        assert_eq!(count(&made.records, kept), count(&records, kept), "type {kept}");
    }
}

#[test]
fn what_cannot_be_signed_is_told() {
    let (records, keys, delegations) = (zone("rfc4592.zone"), keys(Algorithm::Ed25519, 1), BTreeMap::new());
    let sign = |records: &Records, keys: &[Key]| {
        let policy = Policy {
            keys,
            active_zsks: 1,
            denial: Denial::Nsec,
            collisions: 0,
            validity: VALIDITY,
            delegations: &delegations,
            threads: 1,
        };
        sign::zone(records, &policy).unwrap_err().to_string()
    };
    assert_eq!(sign(&records, &keys[..1]), "no ZSK to sign with");
    assert_eq!(sign(&records, &keys[1..]), "no KSK to sign with");
    assert_eq!(sign(&Records::default(), &keys), "no SOA record: the zone is incomplete (RFC 1035 5.2)");
}
