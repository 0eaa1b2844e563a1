//! `serve --transfers --notify` as the primary of stock secondaries: NSD, Knot DNS and BIND take the zone, and its next version when they are told.

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

/// A primary whose zone goes from one version to the next, and a secondary that follows.
fn follows(program: &str, arguments: &[&str], configuration: impl Fn(u16, u16, &Path) -> String) {
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
    let begun = Instant::now();
    while !primary.said().contains(&format!("NOTIFY to {notified}: 1 zone, 1 accepted\n")) {
        assert!(begun.elapsed() < PATIENCE, "{}", primary.said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn nsd_follows() {
    follows("nsd", &["-d", "-c", "secondary.conf"], |primary, own, folder| {
        let folder = folder.display();
        format!(
            "server:\n ip-address: 127.0.0.1@{own}\n username: \"\"\n zonesdir: \"{folder}\"\n pidfile: \"\"\n database: \"\"\n\
             \n xfrdfile: \"{folder}/xfrd.state\"\n xfrdir: \"{folder}\"\n zonelistfile: \"{folder}/zone.list\"\n\
             remote-control:\n control-enable: no\n\
             zone:\n name: example\n zonefile: example.secondary\n allow-notify: 127.0.0.1 NOKEY\n request-xfr: 127.0.0.1@{primary} NOKEY\n"
        )
    });
}

#[test]
fn knot_follows() {
    follows("knotd", &["-c", "secondary.conf"], |primary, own, folder| {
        let folder = folder.display();
        format!(
            "server:\n  listen: 127.0.0.1@{own}\n  rundir: \"{folder}\"\ndatabase:\n  storage: \"{folder}\"\n\
             log:\n  - target: stderr\n    any: info\nremote:\n  - id: primary\n    address: 127.0.0.1@{primary}\n\
             acl:\n  - id: told\n    address: 127.0.0.1\n    action: notify\n\
             zone:\n  - domain: example\n    storage: \"{folder}\"\n    master: primary\n    acl: told\n"
        )
    });
}

#[test]
fn bind_follows() {
    follows("named", &["-g", "-c", "secondary.conf"], |primary, own, folder| {
        let folder = folder.display();
        format!(
            "options {{ directory \"{folder}\"; listen-on port {own} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; pid-file none;\n\
             session-keyfile none; notify no; dnssec-validation no; }};\ncontrols {{ }};\n\
             zone \"example\" {{ type secondary; file \"example.db\"; primaries {{ 127.0.0.1 port {primary}; }}; allow-notify {{ 127.0.0.1; }}; }};\n"
        )
    });
}
