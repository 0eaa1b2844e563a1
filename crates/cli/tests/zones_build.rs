//! `ldplayer zones build` as a user meets it: real captures in, zone files and a report out, one line of error.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn build(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.args(["zones", "build"]).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn bundled() -> String {
    root().join("data/l-root-20161006.pcap.xz").display().to_string()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

fn built(captures: &[&str], directory: &Path) -> Value {
    let output = build(&[captures, &["--json", "-o", &directory.display().to_string()]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What NSD and BIND say of a zone file that they do not load.
fn complaints(directory: &Path, zone: &Value) -> Option<String> {
    complaint_of("nsd", directory, zone).or_else(|| complaint_of("bind", directory, zone))
}

/// What the checker of a server says of a zone file that it does not load.
fn complaint_of(server: &str, directory: &Path, zone: &Value) -> Option<String> {
    let (name, file) = (zone["zone"].as_str().unwrap(), directory.join(zone["file"].as_str().unwrap()));
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let check = |program: &str, options: &[&str]| {
        let output = Command::new(program).env("PATH", &path).args(options).arg(name).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (!output.status.success()).then_some(format!("{program}: {text}"))
    };
    match server {
        "nsd" => check("nsd-checkzone", &[]),
        _ => check("named-checkzone", &["-i", "local", "-k", "ignore"]),
    }
}

#[test]
fn a_capture_at_the_root_becomes_a_root_zone() {
    let directory = tempfile::tempdir().unwrap();
    let zones = directory.path().join("zones");
    let report = built(&[&bundled()], &zones);
    assert_eq!(report["resolver_side"], false);
    let root = report["zones"].as_array().unwrap().iter().find(|zone| zone["zone"] == ".").unwrap();
    assert_eq!(root["file"], "root.zone");
    for zone in report["zones"].as_array().unwrap() {
        assert_eq!(complaints(&zones, zone), None);
    }
    let text = fs::read_to_string(zones.join("root.zone")).unwrap();
    assert!(text.starts_with("$ORIGIN .\n; made: "), "{}", &text[..80]);
    assert!(text.contains("\ncom. 172800 NS a.gtld-servers.net.\n"));
    assert_eq!(serde_json::from_slice::<Value>(&fs::read(zones.join("build.json")).unwrap()).unwrap(), report);
    // Once more, into the same directory: the same files.
    assert_eq!(built(&[&bundled()], &zones), report);
    assert_eq!(fs::read_to_string(zones.join("root.zone")).unwrap(), text);
}

/// Zones whose CDS and CDNSKEY records are wrong on purpose, which BIND refuses.
fn is_broken_on_purpose(zone: &Value) -> bool {
    let name = zone["zone"].as_str().unwrap();
    ["dnssec15", "dnssec16", "dnssec17", "dnssec18"].iter().any(|test| name.starts_with(test))
}

#[test]
fn zones_of_real_upstream_captures_load_in_nsd_and_bind() {
    let folder = root().join("../shared/data/pcap-upstream");
    for name in ["zonemaster-lab-a", "zonemaster-upstream-2019-02", "zonemaster-upstream-2021-05"] {
        let capture = folder.join(format!("{name}.pcap.xz"));
        if !capture.exists() {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let report = built(&[&capture.display().to_string()], directory.path());
        assert!(report["zones"].as_array().unwrap().len() > 60, "{name}");
        for zone in report["zones"].as_array().unwrap().iter().filter(|zone| !is_broken_on_purpose(zone)) {
            assert_eq!(complaints(directory.path(), zone), None, "{name}");
        }
        let directory = tempfile::tempdir().unwrap();
        let report = built(&[&capture.display().to_string(), "--for", "bind"], directory.path());
        for zone in report["zones"].as_array().unwrap() {
            assert_eq!(complaint_of("bind", directory.path(), zone), None, "{name}");
        }
    }
}

#[test]
fn what_was_made_up_is_counted_and_listed_where_that_is_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let zones = directory.path().join("zones").display().to_string();
    let said = |options: &[&str]| {
        let output = build(&[&[bundled().as_str(), "-o", &zones], options].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let (counted, listed) = (said(&[]), said(&["--verbose"]));
    assert!(counted.contains("\nmade up    soa 1,") && !counted.contains("\n  made "), "{counted}");
    let made = listed.lines().filter(|line| line.starts_with("  made ")).count();
    assert!(listed.contains("\n  made soa in ") && made > 10, "{listed}");
    assert_eq!(listed.lines().count(), counted.lines().count() + made);
}

#[test]
fn queries_alone_are_no_source_of_zones() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, zones) = (directory.path().join("queries.txt"), directory.path().join("zones"));
    fs::write(&trace, "www.example.com A\n").unwrap();
    let output = build(&[&trace.display().to_string(), "-o", &zones.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    let line = stderr(&output);
    assert!(line.contains("1 query and no response") && line.contains("zones fetch"), "{line}");
    assert_eq!(line.lines().count(), 1);
    assert!(!zones.exists(), "an empty directory stayed");
    fs::create_dir(&zones).unwrap();
    build(&[&trace.display().to_string(), "-o", &zones.display().to_string()]);
    assert!(zones.exists(), "it was not made by the command");
}

#[test]
fn a_directory_with_other_files_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("letter.txt"), "dear").unwrap();
    let output = build(&[&bundled(), "-o", &directory.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is not empty"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_zone_file_of_no_earlier_build_is_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    // The report of an earlier build, which says nothing of the file.
    fs::write(directory.path().join("build.json"), "{}").unwrap();
    fs::write(directory.path().join("root.zone"), "mine").unwrap();
    let output = build(&[&bundled(), "-o", &directory.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("root.zone: exists, and no earlier build made it"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(directory.path().join("root.zone")).unwrap(), "mine");
}

#[test]
fn an_unknown_policy_is_refused() {
    let output = build(&[&bundled(), "-o", "zones", "--conflict", "best"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("none of first, last, majority, union"), "{}", stderr(&output));
}

/// A name in wire format.
fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    ldplayer_core::name::parse(name, &mut wire).unwrap();
    wire
}

/// A message with one question for an A record, and records as name, type, data: answers, authority, additional.
fn message(flags: u16, qname: &str, sections: [&[(&str, u16, Vec<u8>)]; 3]) -> Vec<u8> {
    let counts = sections.map(|section| section.len() as u16);
    let header = [7, flags, 1, counts[0], counts[1], counts[2]];
    let mut octets: Vec<u8> = header.into_iter().flat_map(u16::to_be_bytes).collect();
    octets.extend([wire(qname), vec![0, 1, 0, 1]].concat());
    for (owner, rtype, data) in sections.into_iter().flatten() {
        octets.extend([wire(owner), rtype.to_be_bytes().to_vec(), vec![0, 1, 0, 0, 0, 60]].concat());
        octets.extend((data.len() as u16).to_be_bytes());
        octets.extend(data);
    }
    octets
}

/// A capture of queries for www.example.com to some servers, and what they said: none of them, nothing.
fn upstream(file: &Path, exchanges: &[([u8; 4], Option<Vec<u8>>)]) {
    const CLIENT: [u8; 4] = [10, 0, 0, 1];
    let packet = |ports: [u16; 2], [from, to]: [[u8; 4]; 2], payload: &[u8]| {
        let length = |more: usize| ((payload.len() + more) as u16).to_be_bytes();
        let ip = [&[0x45, 0][..], &length(28), &[0, 0, 0, 0, 64, 17, 0, 0], &from, &to].concat();
        let udp = [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), &length(8), &[0, 0]].concat();
        [&ip, &udp, payload].concat()
    };
    // A pcap file of raw IP packets.
    let mut octets =
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101].into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>();
    for (number, (server, response)) in (1_u16..).zip(exchanges) {
        let query = message(0, "www.example.com", [&[]; 3]);
        let asked = packet([5_000 + number, 53], [CLIENT, *server], &query);
        let said = response.iter().map(|said| packet([53, 5_000 + number], [*server, CLIENT], said));
        for packet in std::iter::once(asked).chain(said) {
            let length = packet.len() as u32;
            octets.extend([u32::from(number), 0, length, length].into_iter().flat_map(u32::to_le_bytes));
            octets.extend(packet);
        }
    }
    fs::write(file, octets).unwrap();
}

#[test]
fn lame_delegations_stay_lame_where_that_is_wanted() {
    const A: u16 = 1;
    const NS: u16 = 2;
    let host = |last: u8| vec![192, 0, 2, last];
    let name_servers = [("example.com", NS, wire("ns1.example.com")), ("example.com", NS, wire("ns2.example.com"))];
    let glue = [("ns1.example.com", A, host(11)), ("ns2.example.com", A, host(12))];
    let top = [("com", NS, wire("a.gtld.com"))];
    let exchanges = [
        ([198, 41, 0, 4], Some(message(0x8000, "www.example.com", [&[], &top, &[("a.gtld.com", A, host(1))]]))),
        ([192, 0, 2, 1], Some(message(0x8000, "www.example.com", [&[], &name_servers, &glue]))),
        ([192, 0, 2, 11], Some(message(0x8400, "www.example.com", [&[("www.example.com", A, host(80))], &[], &[]]))),
        ([192, 0, 2, 12], None),
    ];
    let directory = tempfile::tempdir().unwrap();
    let (capture, zones) = (directory.path().join("up.pcap"), directory.path().join("zones"));
    upstream(&capture, &exchanges);
    let report = built(&[capture.to_str().unwrap(), "--keep-lame"], &zones);
    let wanted = serde_json::json!([{ "zone": "example.com.", "addresses": ["192.0.2.12"] }]);
    let listed = || serde_json::from_slice::<Value>(&fs::read(zones.join("lame.json")).unwrap()).unwrap();
    assert_eq!((&report["lame"], listed()), (&wanted, wanted.clone()));
    // A second server that is as good as the first, unless told otherwise; and the list is gone.
    assert_eq!(built(&[capture.to_str().unwrap()], &zones)["lame"], serde_json::json!([]));
    assert!(!zones.join("lame.json").exists());
}

/// Good and odd records of every type, which BIND's and NSD's checkers judge in another test.
const RECORDS: &str = include_str!("../../zone/tests/content/records.txt");

/// A capture of one zone, example.com, with each of these records, with keys for the parent that match none of the zone's, and with a DS
/// record without the end of its digest.
fn with_refused_records(file: &Path) {
    const NS: u16 = 2;
    let top = [("com", NS, wire("a.gtld.com"))];
    let below = [("example.com", NS, wire("ns1.example.com")), ("example.com", 43, vec![0, 1, 8, 2, 0])];
    let glue = |name, last| [(name, 1, vec![192, 0, 2, last])];
    let mut exchanges = vec![
        ([198, 41, 0, 4], Some(message(0x8000, "www.example.com", [&[], &top, &glue("a.gtld.com", 1)]))),
        ([192, 0, 2, 1], Some(message(0x8000, "www.example.com", [&[], &below, &glue("ns1.example.com", 11)]))),
    ];
    let mut answer = |owner: &str, rtype: u16, data: Vec<u8>| {
        exchanges.push(([192, 0, 2, 11], Some(message(0x8400, owner, [&[(owner, rtype, data)], &[], &[]]))));
    };
    answer("example.com", 59, [&[0, 1, 8, 2][..], &[7; 32]].concat());
    answer("example.com", 60, vec![1, 1, 3, 8, 1, 2, 3, 4]);
    for (number, line) in RECORDS.lines().enumerate().filter(|(_, line)| !line.starts_with("refused")) {
        let (_, record) = line.split_once(' ').unwrap();
        let rtype = record.split(' ').next().unwrap();
        if ["DS", "NSEC", "NSEC3", "NSEC3PARAM", "RRSIG", "DNSKEY", "ZONEMD"].contains(&rtype) {
            continue;
        }
        let text = format!("$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS ns.other.\nr {record}\n");
        let apex = wire("example");
        let records =
            ldplayer_zone::load::text_of(text.as_bytes(), Path::new("z"), Some(&apex), &mut |_| unreachable!());
        let records = records.unwrap();
        let record = records.iter().last().unwrap();
        answer(&format!("r{number}.example.com"), record.rtype, record.data.to_vec());
    }
    upstream(file, &exchanges);
}

/// The zones that Knot DNS does not load, and what it says.
fn refused_by_knot(folder: &Path, zones: &[Value]) -> String {
    let folder = folder.display();
    let port = common::free_address().port();
    let mut text = format!(
        "server:\n  rundir: {folder}\n  listen: 127.0.0.1@{port}\nlog:\n - target: stdout\n   any: info\n\
         database:\n  storage: {folder}\nzone:\n"
    );
    for zone in zones {
        let (name, file) = (zone["zone"].as_str().unwrap(), zone["file"].as_str().unwrap());
        text.push_str(&format!(" - domain: {name}\n   file: {folder}/{file}\n   journal-content: none\n"));
    }
    let file = format!("{folder}/knot.conf");
    fs::write(&file, text).unwrap();
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let mut knot =
        Command::new("knotd").env("PATH", path).args(["-c", &file]).stdout(Stdio::piped()).spawn().expect("knot");
    // Each zone has one of these lines in the end.
    let is_last = |line: &str| line.contains("] loaded, serial") || line.contains("zone event 'load' failed");
    let mut left = zones.len();
    let mut said = Vec::new();
    for line in BufReader::new(knot.stdout.take().unwrap()).lines().map_while(Result::ok) {
        left -= usize::from(is_last(&line));
        said.push(line);
        if left == 0 {
            break;
        }
    }
    knot.kill().unwrap();
    knot.wait().unwrap();
    if left > 0 {
        return said.join("\n");
    }
    let wrong: Vec<String> =
        said.into_iter().filter(|line| line.contains("error") || line.contains("failed")).collect();
    wrong.join("\n")
}

#[test]
fn zones_for_a_stock_server_load_in_it_without_the_records_that_it_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("up.pcap");
    with_refused_records(&capture);
    for server in ["bind", "nsd", "knot"] {
        let zones = directory.path().join(server);
        let report = built(&[capture.to_str().unwrap(), "--for", server], &zones);
        let all = report["zones"].as_array().unwrap();
        let said = match server {
            "knot" => refused_by_knot(&zones, all),
            _ => all.iter().filter_map(|zone| complaint_of(server, &zones, zone)).collect(),
        };
        assert_eq!(said, "", "{server}");
        let left = report["left_out"].as_array().unwrap();
        let wanted = "the length of the digest is 1 instead of 32 bytes (RFC 4509 2.1)";
        let ds = serde_json::json!({ "zone": "com.", "name": "example.com.", "type": "DS", "reason": wanted });
        assert!(left.contains(&ds), "{left:?}");
        let text = fs::read_to_string(zones.join("com.zone")).unwrap();
        assert!(text.contains(&format!("\n; left out: example.com. DS: {wanted}\n")), "{text}");
        let has = |rtype: &str| left.iter().any(|one| one["type"] == rtype && one["name"] == "example.com.");
        assert_eq!([has("CDS"), has("CDNSKEY")], [server == "bind"; 2], "{server} {left:?}");
        assert!(left.len() < 40, "{server}: {left:#?}");
    }
}
