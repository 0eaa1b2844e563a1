//! Faults that `serve` makes on purpose, as stock programs meet them: dig, and Unbound as a resolver of the zones.

mod common;
#[path = "common/served.rs"]
mod served;

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use served::{Running, Served, dig};

const ROOT: &str = "$TTL 60\n. SOA a. b. 1 2 3 4 60\n. NS a.root-servers.net.\na.root-servers.net. A 127.0.0.1\n";

/// A zone with an answer of 700 octets.
fn example() -> String {
    let long: String = (0..3).map(|number| format!("long TXT \"{number}{}\"\n", "x".repeat(200))).collect();
    format!("$TTL 60\n$ORIGIN example.\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.80\n{long}")
}

/// `serve` with faults, in a folder of its own;
struct Server {
    served: Served,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(faults: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let zones = folder.path().join("zones");
        fs::create_dir(&zones).unwrap();
        fs::write(zones.join("root.zone"), ROOT).unwrap();
        fs::write(zones.join("example.zone"), example()).unwrap();
        Self::of(folder, faults)
    }

    /// With one zone, signed, and its trust anchors beside it.
    fn signed(faults: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("plain")).unwrap();
        fs::write(folder.path().join("plain/example.zone"), example()).unwrap();
        let mut sign = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        sign.args(["zones", "sign", "plain", "-o", "zones"]).current_dir(folder.path());
        assert!(sign.output().unwrap().status.success());
        Self::of(folder, faults)
    }

    /// Of the folder `zones` there.
    fn of(folder: tempfile::TempDir, faults: &str) -> Self {
        let served = Served::start(folder.path(), "zones", &["--faults", faults]);
        Self { served, folder }
    }

    fn dig(&self, arguments: &[&str]) -> String {
        self.served.dig(arguments)
    }

    /// Ends it; how often each fault was made.
    fn end(self) -> Vec<(String, u64)> {
        let coverage = self.served.end().0;
        assert!(coverage["dropped"].is_u64());
        let made = |fault: &Value| (fault["fault"].as_str().unwrap().to_owned(), fault["queries"].as_u64().unwrap());
        coverage["faults"].as_array().unwrap().iter().map(made).collect()
    }

    /// Unbound, with the server as that of a zone; and its port.
    fn unbound(&self) -> (Running, u16) {
        let upstream = format!("stub-zone:\n name: example.\n stub-addr: 127.0.0.1@{}\n", self.served.port);
        served::unbound(self.folder.path(), "", &upstream)
    }
}

#[test]
fn dig_meets_each_fault_and_the_report_counts_it() {
    let server = Server::start("firewall-drops-edns");
    assert!(server.dig(&["+time=1", "www.example", "A"]).contains("no servers could be reached"));
    assert_eq!(server.dig(&["+noedns", "+short", "www.example", "A"]), "192.0.2.80\n");
    assert_eq!(server.end(), [("the firewall drops EDNS".to_owned(), 1)]);

    let server = Server::start("no-tcp");
    assert_eq!(server.dig(&["+short", "www.example", "A"]), "192.0.2.80\n");
    let said = server.dig(&["long.example", "TXT"]);
    assert!(said.contains("Truncated, retrying in TCP") && said.contains("connection reset"), "{said}");
    let made = server.end();
    assert!(made.iter().all(|(_, queries)| *queries > 0), "{made:?}");

    let server = Server::start("spoofed");
    let said = server.dig(&["+time=1", "www.example", "A"]);
    assert!(!said.contains("192.0.2.80\n\n") && said.contains(";;"), "{said}");
    server.end();
}

/// The report listed the record of an answer that was never sent as one that had been used.
#[test]
fn records_of_dropped_answers_are_unasked() {
    let server = Server::start("firewall-drops-edns");
    server.dig(&["+time=1", "www.example", "A"]);
    let coverage = server.served.end().0;
    let unasked = coverage["unasked"].as_array().unwrap();
    assert!(unasked.iter().any(|set| set["name"] == "www.example."), "{unasked:?}");
    assert_eq!(coverage["dropped"], 1);
}

#[test]
fn an_answer_is_late_over_udp_and_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("late.toml");
    fs::write(&file, "[[fault]]\nunder = 'www.example.'\ndelay = '400ms'\n").unwrap();
    let server = Server::start(file.to_str().unwrap());
    for way in ["+notcp", "+tcp"] {
        let begun = Instant::now();
        let said = server.dig(&[way, "www.example", "A"]);
        assert!(said.contains("192.0.2.80") && begun.elapsed() >= Duration::from_millis(400), "{way}: {said}");
    }
    assert_eq!(server.end(), [("fault 1".to_owned(), 2)]);
}

/// It asks again without EDNS where queries with it are refused. Where nothing answers them it does so no more since the flag day of 2019.
#[test]
fn a_resolver_works_around_servers_that_refuse_edns_and_not_around_firewalls() {
    for (faults, is_answered) in [("edns-refused", true), ("firewall-drops-edns", false)] {
        let server = Server::start(faults);
        let (_unbound, port) = server.unbound();
        let said = dig(port, &["+time=4", "www.example", "A"]);
        assert_eq!(said.contains("192.0.2.80"), is_answered, "{faults}: {said}");
        assert!(server.end()[0].1 > 0, "{faults}");
    }
}

#[test]
fn a_resolver_passes_over_answers_of_other_queries() {
    let server = Server::start("spoofed");
    let (_unbound, port) = server.unbound();
    let said = dig(port, &["+time=30", "www.example", "A"]);
    assert!(!said.contains("192.0.2.80"), "{said}");
    let made = server.end();
    assert!(made.iter().map(|(_, queries)| queries).sum::<u64>() > 1, "it asked again: {made:?}");
}

/// What BIND's validator says of signed zones, with the trust anchor of the set.
#[test]
fn a_validator_says_what_is_wrong_with_signatures() {
    for (answer, said) in [
        ("", "; fully validated"),
        ("answer = 'expired'", "RRSIG has expired"),
        ("answer = 'not-yet-valid'", "RRSIG validity period has not begun"),
        ("answer = 'bogus'", "no valid signature found"),
        ("answer = 'unsigned'", "resolution failed"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let rule = if answer.is_empty() { "type = 'NULL'\nanswer = 'none'" } else { answer };
        let file = folder.path().join("faults.toml");
        fs::write(&file, format!("[[fault]]\n{rule}\n")).unwrap();
        let server = Server::signed(file.to_str().unwrap());
        let anchor = server.folder.path().join("zones/trust-anchors.conf");
        let mut delv = Command::new("delv");
        delv.args(["@127.0.0.1", "-p", &server.served.port.to_string(), "+root=example", "-a"]).arg(anchor);
        let output = delv.args(["www.example", "A"]).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains(said), "{answer}: {told}");
    }
}

#[test]
fn a_bad_file_of_faults_is_one_line_and_a_zone_that_is_not_served_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("root.zone"), ROOT).unwrap();
    let refusal = |faults: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        let Output { status, stderr, .. } =
            command.args(["serve", ".", "--faults", faults]).current_dir(folder.path()).output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    };
    fs::write(folder.path().join("bad.toml"), "[[fault]]\nanswer = 'nothing'\n").unwrap();
    let (status, said) = refusal("bad.toml");
    assert!(status == Some(2) && said.contains("bad.toml: line 2: `answer`: `nothing` is none of none, "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let (status, said) = refusal("firewall");
    assert!(status == Some(2) && said.contains("ready-made ones are edns-refused, firewall-drops-edns"), "{said}");
}
