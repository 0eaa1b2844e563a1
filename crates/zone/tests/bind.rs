//! Zone files with what few have, as BIND's `named-checkzone` reads them: rare types, `$GENERATE`, and two SOA records.

use std::path::Path;
use std::process::Command;

use ldplayer_core::name::Presentation;
use ldplayer_zone::{Records, load, rtype};

const HEAD: &str = "$TTL 60\n$ORIGIN example.\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

fn read(text: &str) -> Result<Records, String> {
    let read = load::text_of(text.as_bytes(), Path::new("z"), Some(b"\x07example\0"), &mut |_| unreachable!());
    read.map_err(|error| error.to_string())
}

/// The records of a zone as lines, sorted, data in generic form.
fn lines(records: &Records) -> Vec<String> {
    let line = |record: ldplayer_zone::records::Record<'_>| {
        let data: String = record.data.iter().map(|octet| format!("{octet:02x}")).collect();
        format!("{} {} {} {data}", Presentation(record.owner), record.ttl, rtype::name_of(record.rtype))
    };
    let mut all: Vec<String> = records.iter().map(line).collect();
    all.sort();
    all
}

/// What BIND writes of a zone that it has read.
fn by_bind(text: &str) -> Result<Records, String> {
    let scratch = tempfile::tempdir().unwrap();
    let (file, written) = (scratch.path().join("z"), scratch.path().join("written"));
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("named-checkzone");
    command.args(["-i", "none", "-k", "ignore", "-o"]).arg(&written).arg("example").arg(&file);
    let output = command.output().expect("bind9-utils");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() { read(&std::fs::read_to_string(written).unwrap()) } else { Err(said) }
}

#[test]
fn wks_nsap_gpos_and_amtrelay_are_read_as_bind_reads_them() {
    for record in [
        "WKS 192.0.2.1 tcp ( ftp smtp telnet domain )",
        "WKS 192.0.2.1 UDP domain 161",
        "WKS 192.0.2.1 6 65535",
        "NSAP 0x47.0005.80.005a00.0000.0001.e133.ffffff000161.00",
        "NSAP 0x47000580005A0000000001E133FFFFFF00016100",
        "GPOS -32.6882 116.8652 10.0",
        "GPOS \"-32.6882\" \"116.8652\" \"250.0\"",
        "AMTRELAY 10 0 0 .",
        "AMTRELAY 10 1 1 203.0.113.15",
        "AMTRELAY 128 1 2 2001:db8::15",
        "AMTRELAY 0 0 3 relay",
    ] {
        let text = format!("{HEAD}x {record}\n");
        let ours = read(&text).unwrap_or_else(|error| panic!("{record}: {error}"));
        // BIND writes both forms the same: so the data are the same.
        let generic: String = ours.iter().map(|record| format!("{record}\n")).collect();
        let (theirs, same) = (by_bind(&text).unwrap(), by_bind(&generic).unwrap());
        assert_eq!(lines(&theirs), lines(&ours), "{record}");
        assert_eq!(lines(&same), lines(&ours), "{record}");
    }
    for (record, message) in [
        ("WKS 192.0.2.1 tcp nothing", "z:6: expected a service of RFC 1010 or a port number, found `nothing`"),
        ("WKS 192.0.2.1 icmpx 1", "z:6: expected `tcp`, `udp` or a protocol number, found `icmpx`"),
        ("NSAP 47", "z:6: expected an address in hexadecimal after 0x, found `47`"),
        ("NSAP 0x470", "z:6: expected an address in hexadecimal after 0x, found `0x470`"),
        ("GPOS 1 2", "z:6: unexpected end of the entry, expected a character string"),
        ("AMTRELAY 10 2 0 .", "z:6: expected 0 or 1 for the discovery flag, found `2`"),
        ("AMTRELAY 10 1 1 2001:db8::1", "z:6: expected a relay of the type given, found `2001:db8::1`"),
    ] {
        assert_eq!(read(&format!("{HEAD}x {record}\n")).unwrap_err(), message);
    }
}

#[test]
fn two_soa_records_at_an_apex_are_refused_as_by_bind_and_nsd() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("z");
    for (second, is_zone) in [("@ SOA ns h 2 2 3 4 5\n", false), ("@ SOA ns h 1 2 3 4 5\n", true)] {
        let text = format!("{HEAD}{second}");
        std::fs::write(&file, &text).unwrap();
        let by_nsd = Command::new("nsd-checkzone").arg("example").arg(&file).output().expect("nsd");
        let ours = ldplayer_zone::Zone::from_records(&read(&text).unwrap());
        let theirs = (by_bind(&text).is_ok(), by_nsd.status.success());
        // The same record twice is one (RFC 2181 §5); NSD refuses that, too.
        assert_eq!((ours.is_ok(), theirs), (is_zone, (is_zone, false)), "{second}");
    }
}

#[test]
fn generate_makes_the_records_that_bind_makes() {
    for line in [
        "$GENERATE 1-10 host$ A 192.0.2.$",
        "$GENERATE 0-30/3 h${0,3} 300 IN A 192.0.2.${10}",
        "$GENERATE 1-4 ${-1}.sub CNAME host-${0,4,x}.other.",
        "$GENERATE 250-260 $ PTR n${0,4,X}.example.",
        "$GENERATE 8-20 o${0,3,o} TXT $and\\$and${5}",
        "$GENERATE 0-40/8 ${0,8,n}ip PTR h${0,0,x}",
        "$GENERATE 10-12 ${0,7,N}.ip PTR h$",
        "$GENERATE 7-9 @ MX \"$ mail$\"",
        "$GENERATE 7-9 t$ TXT \"one $ two\"",
        "$GENERATE 1-2 x$$y A 192.0.2.$",
    ] {
        let text = format!("{HEAD}{line}\n");
        let ours = read(&text).unwrap_or_else(|error| panic!("{line}: {error}"));
        let theirs = by_bind(&text).unwrap_or_else(|said| panic!("{line}: {said}"));
        assert_eq!(lines(&ours), lines(&theirs), "{line}");
    }
}

#[test]
fn generate_takes_data_of_several_fields_without_quotes() {
    let [plain, quoted] =
        ["$ mail$", "\"$ mail$\""].map(|data| read(&format!("{HEAD}$GENERATE 7-9 @ MX {data}\n")).unwrap());
    assert_eq!(lines(&plain), lines(&quoted));
    assert_eq!(plain.iter().filter(|record| record.place.1 == 6).count(), 3, "all of them stand at its line");
}

#[test]
fn what_generate_cannot_make_is_told_at_its_line() {
    for (line, message) in [
        ("$GENERATE 5-1 h$ A 192.0.2.$", "z:6: expected a range such as 1-100 or 0-30/2, found `5-1`"),
        ("$GENERATE 1-9/0 h$ A 192.0.2.$", "z:6: expected a range such as 1-100 or 0-30/2, found `1-9/0`"),
        ("$GENERATE 1-2", "z:6: unexpected end of the entry, expected an owner name"),
        ("$GENERATE 250-260 h$ A 192.0.2.$", "z:6: expected an IPv4 address, found `192.0.2.256`"),
        ("$GENERATE 1-2 h${0,2,q} A 192.0.2.$", "z:6: expected ${OFFSET,WIDTH,BASE}, found `${0,2,q}`"),
        ("$GENERATE 1-2 h${-2} A 192.0.2.$", "z:6: expected ${OFFSET,WIDTH,BASE}, found `${-2}`"),
        ("$GENERATE 1-2 h${0 A 192.0.2.$", "z:6: expected ${OFFSET,WIDTH,BASE}, found `${0 A 192.0.2.$`"),
        (
            "$GENERATE 0-4294967295 h$ A 192.0.2.1",
            "z:6: $GENERATE would make more than 4194304 records in this zone: write them into a zone file instead",
        ),
    ] {
        assert_eq!(read(&format!("{HEAD}{line}\n")).unwrap_err(), message);
    }
    // Lines count together.
    let text = format!("{HEAD}$GENERATE 1-1 h A 192.0.2.1\n$GENERATE 1-4194304 h A 192.0.2.1\n");
    assert!(read(&text).unwrap_err().starts_with("z:7: $GENERATE would make more than"));
}
