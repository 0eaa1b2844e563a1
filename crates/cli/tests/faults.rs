//! Faults that `serve` makes on purpose, as stock programs meet them: dig, and Unbound as a resolver of the zones.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const ROOT: &str = "$TTL 60\n. SOA a. b. 1 2 3 4 60\n. NS a.root-servers.net.\na.root-servers.net. A 127.0.0.1\n";

/// A zone with an answer of 700 octets.
fn example() -> String {
    let long: String = (0..3).map(|number| format!("long TXT \"{number}{}\"\n", "x".repeat(200))).collect();
    format!("$TTL 60\n$ORIGIN example.\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.80\n{long}")
}

/// `serve` with faults, in a folder of its own; ended with its owner.
struct Server {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.args([
            "serve",
            "zones",
            "--all-zones-everywhere",
            "--listen",
            "127.0.0.1:0",
            "--coverage",
            "coverage.json",
        ]);
        command.args(["--faults", faults]).current_dir(folder.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit_once(':').unwrap_or_else(|| panic!("{line}")).1.parse().unwrap();
        Self { child, folder, port }
    }

    fn dig(&self, arguments: &[&str]) -> String {
        dig(self.port, arguments)
    }

    /// Ends it; how often each fault was made.
    fn end(self) -> Vec<(String, u64)> {
        let coverage = self.coverage();
        assert!(coverage["dropped"].is_u64());
        let made = |fault: &Value| (fault["fault"].as_str().unwrap().to_owned(), fault["queries"].as_u64().unwrap());
        coverage["faults"].as_array().unwrap().iter().map(made).collect()
    }

    /// Ends it; its report.
    fn coverage(mut self) -> Value {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        serde_json::from_slice(&fs::read(self.folder.path().join("coverage.json")).unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What dig prints. Where no answer is to come, give `+time=1`.
fn dig(port: u16, arguments: &[&str]) -> String {
    let mut command = Command::new("dig");
    command.args(["@127.0.0.1", "-p", &port.to_string(), "+time=10", "+tries=1"]).args(arguments);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
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
    let coverage = server.coverage();
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

/// Unbound, with the server as that of its root.
struct Unbound {
    child: Child,
    port: u16,
}

impl Unbound {
    fn start(folder: &Path, server: u16) -> Self {
        // The kernel may give a port that it chose, and that is free again, to a server of another test.
        let port = common::free_address().port();
        let configuration = format!(
            "server:\n interface: 127.0.0.1\n port: {port}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n directory: \"{0}\"\n \
             pidfile: \"\"\n use-syslog: no\n do-not-query-localhost: no\n module-config: iterator\n access-control: 127.0.0.0/8 allow\n\
             stub-zone:\n name: example.\n stub-addr: 127.0.0.1@{server}\nremote-control:\n control-enable: no\n",
            folder.display()
        );
        fs::write(folder.join("unbound.conf"), configuration).unwrap();
        let path = format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("unbound");
        command.env("PATH", path).args(["-d", "-c", "unbound.conf"]).current_dir(folder);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut unbound = Self { child, port };
        while !unbound.dig(&["+time=1", "version.bind", "CH", "TXT"]).contains("status: ") {
            assert!(unbound.child.try_wait().unwrap().is_none(), "unbound has ended");
            std::thread::sleep(Duration::from_millis(50));
        }
        unbound
    }

    fn dig(&self, arguments: &[&str]) -> String {
        dig(self.port, arguments)
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// It asks again without EDNS where queries with it are refused. Where nothing answers them it does so no more since the flag day of 2019.
#[test]
fn a_resolver_works_around_servers_that_refuse_edns_and_not_around_firewalls() {
    for (faults, is_answered) in [("edns-refused", true), ("firewall-drops-edns", false)] {
        let server = Server::start(faults);
        let unbound = Unbound::start(server.folder.path(), server.port);
        let said = unbound.dig(&["+time=4", "www.example", "A"]);
        assert_eq!(said.contains("192.0.2.80"), is_answered, "{faults}: {said}");
        drop(unbound);
        assert!(server.end()[0].1 > 0, "{faults}");
    }
}

#[test]
fn a_resolver_passes_over_answers_of_other_queries() {
    let server = Server::start("spoofed");
    let unbound = Unbound::start(server.folder.path(), server.port);
    let said = unbound.dig(&["+time=30", "www.example", "A"]);
    assert!(!said.contains("192.0.2.80"), "{said}");
    drop(unbound);
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
        delv.args(["@127.0.0.1", "-p", &server.port.to_string(), "+root=example", "-a"]).arg(anchor);
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
