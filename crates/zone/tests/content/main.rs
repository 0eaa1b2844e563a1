//! Contents of records of every kind, good and bad, beside BIND's `named-checkzone` and NSD's `nsd-checkzone`.

use std::fs;
use std::path::Path;
use std::process::Command;

use ldplayer_zone::load::{self, Reading};
use ldplayer_zone::{Zone, rtype};

/// Verdict and record, one a line: `good`, `odd` (served with a warning), or `refused`. In them, `refused` is what BIND refuses.
const RECORDS: &str = include_str!("records.txt");

/// What BIND refuses and we take, and why.
const REFUSED_BY_BIND: [(&str, &str); 5] = [
    ("CDS 0 8 0 00", "it has no DNSKEY to compare with"),
    ("SVCB 1 x ohttp", "it does not know the key (RFC 9540)"),
    ("IPSECKEY 1 0 0 .", "RFC 4025 2.4: without an algorithm there is no key"),
    ("IPSECKEY \\# 3 010000", "the same"),
    (PADDED, "RFC 4648 3.5: decoders may, and need not, look at the pad bits"),
];

/// What NSD refuses and we take beside that: types that it does not know, and a limit that RFC 8659 no longer has.
const REFUSED_BY_NSD: [&str; 8] =
    ["HIP", "GPOS", "AMTRELAY", "CAA 0 issueissueissueissue", "KEY 49152", "SVCB 1 x ohttp", "TA ", PADDED];

/// A key whose base64 has bits behind its last byte.
const PADDED: &str = "DNSKEY 256 3 8 AwEAAYbinauHA9oUb4aGNtJIrepyGoYy0OL01rvIhvo3RWN=";

/// Owner of a record of a type, which some have at a place of their own.
fn owner(rtype: &str) -> &'static str {
    match rtype {
        "NSEC3" => "2vptu5timamqttgl4luu9kg21e0aor3s",
        "NSEC3PARAM" | "DNSKEY" | "ZONEMD" | "CDS" | "CDNSKEY" => "@",
        _ => "r",
    }
}

/// A zone with the record.
fn zone_with(record: &str) -> String {
    let rtype = record.split(' ').next().unwrap();
    let cut = if rtype == "DS" { "r NS ns.other.\n" } else { "" };
    format!("$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS ns.other.\n{cut}{} {record}\n", owner(rtype))
}

fn read(text: &str, keep_going: bool) -> Result<(Zone, Vec<String>), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("z");
    fs::write(&file, text).unwrap();
    let records = load::file_with(&file, Some(b"\x07example\0"), Reading { keep_going, ..Reading::default() });
    let records = records.map_err(|error| error.to_string().rsplit_once("/z:").unwrap().1.to_owned())?;
    let (zone, found) = Zone::from_records(&records).unwrap();
    Ok((zone, found.iter().map(|finding| finding.oddity.to_string()).collect()))
}

/// Our verdict.
fn ours(record: &str) -> &'static str {
    match read(&zone_with(record), false) {
        Err(_) => "refused",
        Ok((_, found)) if found.iter().any(|said| said.starts_with("odd ")) => "odd",
        Ok(_) => "good",
    }
}

/// The table: verdict and record.
fn table() -> impl Iterator<Item = (&'static str, &'static str)> {
    RECORDS.lines().map(|line| line.split_once(' ').unwrap())
}

#[test]
fn contents_that_rfcs_rule_out_are_refused_or_told() {
    let wrong: Vec<_> = table().map(|(wanted, record)| (wanted, ours(record), record)).collect();
    let wrong: Vec<_> = wrong.iter().filter(|(wanted, found, _)| wanted != found).collect();
    assert!(wrong.is_empty(), "wanted, found: {wrong:#?}");
}

/// Whether a checker takes the zone of a record.
fn takes(folder: &Path, checker: &str, options: &[&str], record: &str) -> bool {
    let file = folder.join("z");
    fs::write(&file, zone_with(record)).unwrap();
    let output = Command::new(checker).args(options).arg("example").arg(&file).env("PATH", PATH).output();
    output.expect("scripts/need.sh bind nsd").status.success()
}

/// Where Debian's packages have their checkers.
const PATH: &str = "/usr/bin:/usr/sbin";

#[test]
fn bind_and_nsd_judge_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (wanted, record) in table() {
        let is_taken = wanted != "refused";
        let differs = REFUSED_BY_BIND.iter().any(|&(other, _)| other == record);
        let bind = takes(folder.path(), "named-checkzone", &["-i", "none"], record);
        assert_eq!(bind, is_taken && !differs, "BIND: {wanted} {record}");
        let differs = REFUSED_BY_NSD.iter().any(|other| record.starts_with(other));
        let nsd = takes(folder.path(), "nsd-checkzone", &[], record);
        assert!(nsd || wanted != "good" || differs, "NSD: {wanted} {record}");
    }
}

#[test]
fn data_in_generic_form_are_judged_as_those_in_text_are() {
    for (wanted, record) in table().filter(|(wanted, _)| *wanted != "refused") {
        let records = load::text_of(
            zone_with(record).as_bytes(),
            Path::new("z"),
            Some(b"\x07example\0"),
            &mut |_| unreachable!(),
        );
        let records = records.unwrap();
        let name = record.split(' ').next().unwrap();
        let last = records.iter().last().unwrap();
        let generic: String = last.data.iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!(ours(&format!("{name} \\# {} {generic}", last.data.len())), wanted, "{record}");
    }
}

#[test]
fn messages_name_the_field_its_length_and_the_rfc() {
    for (record, wanted) in [
        ("DS 1 8 2 00", "invalid DS record: the length of the digest is 1 instead of 32 bytes (RFC 4509 2.1)"),
        ("DS 1 8 9", "invalid DS record: the length of the digest is 0 bytes, the minimum is 1 (RFC 4034 5.1.4)"),
        ("SVCB 1 x mandatory=alpn", "invalid SVCB record: a mandatory key is missing (RFC 9460 8)"),
        ("LOC \\# 1 00", "invalid LOC record: the data does not have 16 bytes (RFC 1876 2)"),
        ("CAA \\# 1 00", "invalid data for type CAA"),
        ("HIP \\# 5 0102000020", "invalid HIP record: the host identity tag or the key is empty (RFC 8005 5)"),
        ("APL \\# 3 000120", "invalid APL record: the fields do not fit the data (RFC 3123 4)"),
    ] {
        let line = if record.starts_with("DS") { 5 } else { 4 };
        assert_eq!(read(&zone_with(record), false).unwrap_err(), format!("{line}: {wanted}"));
    }
}

#[test]
fn with_keep_going_invalid_records_are_left_out_and_odd_ones_served() {
    let (zone, found) = read(&zone_with("ZONEMD 1 1 1 00"), true).unwrap();
    let wanted =
        "invalid ZONEMD record, which is left out: the length of the digest is 1 instead of 48 bytes (RFC 8976 2.2.3)";
    assert_eq!((found, zone.records()), (vec![wanted.to_owned()], 2));
    let (zone, found) = read(&zone_with("TLSA 3 1 1 00"), false).unwrap();
    let wanted = "odd TLSA record, which is served as it is: the length of the association data is 1 instead of 32 bytes (RFC 6698 2.1.3)";
    assert_eq!((found, zone.records()), (vec![wanted.to_owned()], 3));
}

#[test]
fn records_that_are_made_are_judged_as_well() {
    let mut records = ldplayer_zone::Records::default();
    let error = records.push(b"\x01x\0", rtype::DS, 60, &[0, 1, 8, 2, 0]).unwrap_err().to_string();
    assert_eq!(error, "invalid DS record: the length of the digest is 1 instead of 32 bytes (RFC 4509 2.1)");
}
