//! `serve --transfers --notify` as the primary of stock secondaries: NSD, Knot DNS and BIND take the zone, and what changed when they are told.

mod common;
#[path = "common/served.rs"]
mod served;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::free_address;
use served::{Served, started};

/// A test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The zone in a version whose number is also in its address. Nobody asks again by himself before an hour is over.
fn zone(version: u8) -> String {
    format!(
        "$TTL 60\n$ORIGIN example.\n@ SOA ns h {version} 3600 3600 86400 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.{version}\n"
    )
}

/// Waits until a server gives the address of a version.
fn wait_for(server: u16, version: u8, folder: &Path, program: &str) {
    let begun = Instant::now();
    loop {
        let mut dig = Command::new("dig");
        dig.args(["@127.0.0.1", "-p", &server.to_string(), "+time=1", "+tries=1", "+short", "www.example", "A"]);
        if dig.output().unwrap().stdout == format!("192.0.2.{version}\n").as_bytes() {
            return;
        }
        let log = |name: &str| fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
        assert!(
            begun.elapsed() < PATIENCE,
            "version {version} does not come; {program}: {}; {}",
            log(program),
            log("serve")
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A primary whose zone goes from one version to the next, and a secondary that follows; what it leaves in its folder says that it took only what
/// changed.
fn follows(
    program: &str,
    arguments: &[&str],
    configuration: impl Fn(u16, u16, &Path) -> String,
    took_changes: impl Fn(&Path) -> bool,
) {
    let folder = tempfile::tempdir().unwrap();
    let (folder, secondary) = (folder.path(), free_address().port());
    let file = folder.join("zones/example.zone");
    fs::create_dir(folder.join("zones")).unwrap();
    fs::write(&file, zone(1)).unwrap();
    let notified = format!("127.0.0.1:{secondary}");
    let primary = Served::start(folder, "zones", &["--transfers", "--notify", &notified]);
    fs::write(folder.join("secondary.conf"), configuration(primary.port, secondary, folder)).unwrap();
    let _secondary = started(program, arguments, folder);
    wait_for(secondary, 1, folder, program);
    fs::write(&file, zone(2)).unwrap();
    primary.reload();
    wait_for(secondary, 2, folder, program);
    assert!(took_changes(folder), "{program} took the whole zone");
    let begun = Instant::now();
    while !primary.said().contains(&format!("NOTIFY to {notified}: 1 zone, 1 accepted\n")) {
        assert!(begun.elapsed() < PATIENCE, "{}", primary.said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The records of an incremental transfer: their types, and the last word of their data.
fn changes(primary: &Served, serial: u8) -> Vec<String> {
    let mut dig = Command::new("dig");
    dig.args([
        "@127.0.0.1",
        "-p",
        &primary.port.to_string(),
        "+noall",
        "+answer",
        "example",
        &format!("ixfr={serial}"),
    ]);
    let said = String::from_utf8(dig.output().unwrap().stdout).unwrap();
    let record = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        format!("{} {}", words[3], if words[3] == "SOA" { words[6] } else { words[words.len() - 1] })
    };
    said.lines().filter(|line| !line.is_empty() && !line.starts_with(';')).map(record).collect()
}

#[test]
fn an_incremental_transfer_has_what_changed_since_a_version() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zones/example.zone");
    fs::create_dir(folder.path().join("zones")).unwrap();
    let hosts: String = (0..20).map(|host| format!("h{host} A 192.0.2.0\n")).collect();
    fs::write(&file, zone(1) + &hosts).unwrap();
    let primary = Served::start(folder.path(), "zones", &["--transfers"]);
    for version in 2..4 {
        fs::write(&file, zone(version) + &hosts + "more TXT x y z\n*.more TXT x y z\n").unwrap();
        primary.reload();
        wait_for(primary.port, version, folder.path(), "serve");
    }
    assert_eq!(changes(&primary, 3), ["SOA 3"], "the asker has it");
    let last = ["SOA 2", "A 192.0.2.2", "SOA 3", "A 192.0.2.3", "SOA 3"];
    assert_eq!(changes(&primary, 2)[1..], last);
    let all = ["SOA 1", "A 192.0.2.1", "SOA 2", "TXT \"z\"", "A 192.0.2.2", "TXT \"z\""];
    assert_eq!(changes(&primary, 1)[1..], [&all[..], &last].concat());
    let whole = changes(&primary, 0);
    assert_eq!(
        (whole.len(), &whole[..2]),
        (27, &["SOA 3".to_owned(), "NS ns.example.".to_owned()][..]),
        "it was never served"
    );
}

#[test]
fn nsd_follows() {
    let configuration = |primary: u16, own: u16, folder: &Path| {
        let folder = folder.display();
        format!(
            "server:\n ip-address: 127.0.0.1@{own}\n username: \"\"\n zonesdir: \"{folder}\"\n pidfile: \"\"\n database: \"\"\n\
             \n xfrdfile: \"{folder}/xfrd.state\"\n xfrdir: \"{folder}\"\n zonelistfile: \"{folder}/zone.list\"\n\
             remote-control:\n control-enable: no\n\
             zone:\n name: example\n zonefile: example.secondary\n allow-notify: 127.0.0.1 NOKEY\n request-xfr: 127.0.0.1@{primary} NOKEY\n"
        )
    };
    // It does not tell how it took the second version.
    follows("nsd", &["-d", "-c", "secondary.conf"], configuration, |_| true);
}

#[test]
fn knot_follows() {
    let configuration = |primary: u16, own: u16, folder: &Path| {
        let folder = folder.display();
        format!(
            "server:\n  listen: 127.0.0.1@{own}\n  rundir: \"{folder}\"\ndatabase:\n  storage: \"{folder}\"\n\
             log:\n  - target: stderr\n    any: info\nremote:\n  - id: primary\n    address: 127.0.0.1@{primary}\n\
             acl:\n  - id: told\n    address: 127.0.0.1\n    action: notify\n\
             zone:\n  - domain: example\n    storage: \"{folder}\"\n    master: primary\n    acl: told\n"
        )
    };
    follows("knotd", &["-c", "secondary.conf"], configuration, |folder| {
        let log = fs::read_to_string(folder.join("knotd.log")).unwrap();
        log.lines().any(|line| line.contains("IXFR, incoming") && line.contains("finished"))
    });
}

#[test]
fn bind_follows() {
    let configuration = |primary: u16, own: u16, folder: &Path| {
        let folder = folder.display();
        format!(
            "options {{ directory \"{folder}\"; listen-on port {own} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; pid-file none;\n\
             session-keyfile none; notify no; dnssec-validation no; }};\ncontrols {{ }};\n\
             zone \"example\" {{ type secondary; file \"example.db\"; primaries {{ 127.0.0.1 port {primary}; }}; allow-notify {{ 127.0.0.1; }}; }};\n"
        )
    };
    // Only changes are in a journal.
    follows("named", &["-g", "-c", "secondary.conf"], configuration, |folder| folder.join("example.db.jnl").exists());
}
