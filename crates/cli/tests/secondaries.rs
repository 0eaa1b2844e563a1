//! `serve --transfers --notify` as the primary of stock secondaries: NSD, Knot DNS and BIND take the zone, and its next version when they are told.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::free_address;
use rustix::process::{Pid, Signal, kill_process};

/// A test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The zone in a version whose number is also in its address. Nobody asks again by himself before an hour is over.
fn zone(version: u8) -> String {
    format!(
        "$TTL 60\n$ORIGIN example.\n@ SOA ns h {version} 3600 3600 86400 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.{version}\n"
    )
}

/// A process that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started(program: &str, arguments: &[&str], folder: &Path) -> Running {
    let path = format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default());
    let log = fs::File::create(folder.join(format!("{program}.log"))).unwrap();
    let mut command = Command::new(program);
    command.env("PATH", path).args(arguments).current_dir(folder);
    Running(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.args(["serve", "zones", "--all-zones-everywhere", "--listen", "127.0.0.1:0", "--transfers"]);
    command.args(["--notify", &format!("127.0.0.1:{secondary}")]).current_dir(folder);
    let log = fs::File::create(folder.join("serve.log")).unwrap();
    let mut primary = Running(command.stdout(Stdio::piped()).stderr(log).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(primary.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().rsplit_once(':').unwrap_or_else(|| panic!("{line}")).1.parse().unwrap();
    fs::write(folder.join("secondary.conf"), configuration(port, secondary, folder)).unwrap();
    let _secondary = started(program, arguments, folder);
    wait_for(secondary, 1, folder, program);
    fs::write(&file, zone(2)).unwrap();
    kill_process(Pid::from_child(&primary.0), Signal::HUP).unwrap();
    wait_for(secondary, 2, folder, program);
    let begun = Instant::now();
    let said = || fs::read_to_string(folder.join("serve.log")).unwrap();
    while !said().contains(&format!("NOTIFY to 127.0.0.1:{secondary}: 1 zone, 1 accepted\n")) {
        assert!(begun.elapsed() < PATIENCE, "{}", said());
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
