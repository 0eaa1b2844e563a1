//! `serve`, `zones views` and `testbed up --zones` as a user runs them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ldplayer_net::namespace::Namespace;
use ldplayer_net::netlink::Netlink;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const ROOT: &str = ". 60 SOA a. b. 1 2 3 4 60\n. 60 NS a.root-servers.net.\nexample. 60 NS ns.example.\n\
    ns.example. 60 A 192.0.2.53\nlost. 60 NS ns.lost.\n";
const EXAMPLE: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.80\n";

fn ldplayer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ldplayer"))
}

/// A zone set with these files.
fn set(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// Status and stderr of `serve` when it cannot.
fn refusal(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = ldplayer().arg("serve").args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn bad_sets_are_bad_input_told_on_one_line() {
    for (files, message) in [
        (&[("example.zone", "\n\nwww A nonsense\n")][..], "example.zone:3: expected an IPv4 address, found `nonsense`"),
        (&[("a.zone", ROOT), ("b.zone", ROOT)], "both hold the zone .;"),
        (&[("notes.md", "")], "the directory has no zone files"),
        (&[("example.zone", "$TTL 1\nwww A 192.0.2.1\n")], "no SOA record"),
    ] {
        let directory = set(files);
        let (status, said) = refusal(&[directory.path().to_str().unwrap()]);
        assert_eq!((status, said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(message), "{said}");
    }
    let (status, said) = refusal(&["no/such/directory"]);
    assert!(status == Some(2) && said.contains("no/such/directory: No such file"), "{said}");
}

/// A zone that takes seconds to read, long after both signals.
#[test]
fn a_second_signal_ends_a_server_at_once() {
    let zone =
        "$ORIGIN example.\n$TTL 1\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n$GENERATE 1-4000000 h$ A 192.0.2.1\n";
    let directory = set(&[("example.zone", zone)]);
    let mut command = ldplayer();
    command.arg("serve").arg(directory.path()).args(["--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    // With SIGHUP, it has caught all.
    while !is_catching(child.id(), Signal::HUP) {
        std::thread::yield_now();
    }
    for signal in [Signal::INT, Signal::TERM] {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    // Which of two that come at once is handled last is the kernel's affair.
    let ends = [Signal::INT, Signal::TERM].map(|signal| Some(128 + signal.as_raw()));
    assert!(ends.contains(&child.wait().unwrap().code()));
}

/// Whether a process catches a signal (proc_pid_status(5)).
fn is_catching(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim).unwrap_or_default();
    u64::from_str_radix(caught, 16).unwrap_or(0) >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn a_taken_port_is_the_environments() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = set(&[("root.zone", ROOT)]);
    let (status, said) = refusal(&[directory.path().to_str().unwrap(), "--listen", &address]);
    assert!(status == Some(3) && said.contains(&address), "{said}");
}

/// A zone with a server on loopback.
const HERE: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.80\n";

/// What `serve` says on stdout and on stderr when it has begun, in a network namespace of its own, where port 53 is free: one of a
/// testbed, or one that is like another host.
fn beginning(zone: &str, options: &[&str], in_testbed: bool) -> (String, String) {
    let directory = set(&[("example.zone", zone)]);
    let scratch = tempfile::tempdir().unwrap();
    let script = "\"$0\" serve \"$@\" >out & server=$!; for _ in $(seq 1000); do [ -s out ] && break; sleep 0.02; done; \
        grep -l ' 00000000:0035 ' /proc/net/tcp; kill $server; wait; cat out";
    let namespace = Namespace::create().unwrap();
    let mut command = if in_testbed { ldplayer() } else { Command::new("sh") };
    if in_testbed {
        command.args(["testbed", "run", "--", "sh"]);
    } else {
        namespace.run(|| Netlink::open().unwrap().loopback_up().unwrap()).unwrap();
        namespace.start_in(&mut command).unwrap();
    }
    command.args(["-c", script, env!("CARGO_BIN_EXE_ldplayer")]).arg(directory.path());
    command.args(options).current_dir(scratch.path());
    let output = command.output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn without_an_address_loopback_is_listened_on_and_that_is_said() {
    let (told, said) = beginning(HERE, &[], false);
    assert!(told.starts_with("serving 1 zone on 127.0.0.1:53"), "no wildcard socket: {told} {said}");
    assert!(said.contains("listening on loopback only; --listen 0.0.0.0,:: listens on all addresses"), "{said}");
    assert!(!said.contains("REFUSED"), "{said}");
    let (_, said) = beginning(EXAMPLE, &[], false);
    assert!(said.contains("no zone has a name server at these addresses: every answer is REFUSED"), "{said}");
    let (_, said) = beginning(EXAMPLE, &["--all-zones-everywhere"], false);
    assert!(!said.contains("REFUSED"), "{said}");
    let (told, said) = beginning(EXAMPLE, &["--listen", "0.0.0.0"], false);
    assert_eq!(told, "/proc/net/tcp\nserving 1 zone on 0.0.0.0:53\n", "{said}");
    assert!(!said.contains("loopback") && !said.contains("REFUSED"), "{said}");
}

/// Nobody else can reach the network of a testbed, where every address of the hierarchy is one of the host.
#[test]
fn without_an_address_all_are_listened_on_in_a_testbed() {
    let (told, said) = beginning(EXAMPLE, &[], true);
    assert!(told.contains("serving 1 zone on 0.0.0.0:53"), "{told} {said}");
    assert!(!said.contains("loopback") && !said.contains("REFUSED"), "{said}");
}

/// A server that a test has started.
struct Serving {
    child: Child,
    address: SocketAddr,
}

impl Serving {
    fn start(directory: &Path, coverage: &Path) -> Self {
        Self::start_with(directory, coverage, &[])
    }

    fn start_with(directory: &Path, coverage: &Path, options: &[&str]) -> Self {
        let mut command = ldplayer();
        command.arg("serve").arg(directory).args(["--all-zones-everywhere", "--listen", "127.0.0.1:0"]);
        command.args(options);
        command.arg("--coverage").arg(coverage).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once(' ').unwrap_or_else(|| panic!("{line}")).1.parse().unwrap();
        Self { child, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Response code and first address of the answer for `www.example`, A.
    fn ask(&self) -> (u8, Option<[u8; 4]>) {
        ask(self.address)
    }
}

fn ask(server: SocketAddr) -> (u8, Option<[u8; 4]>) {
    let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.send_to(b"\0\x01\0\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01", server).unwrap();
    let mut answer = [0; 512];
    let (length, from) = socket.recv_from(&mut answer).unwrap();
    assert_eq!(from, server);
    // Header, question, and the first record's owner (a pointer), type, class, TTL and length.
    let data = (answer[7] > 0 && length >= 29 + 16).then(|| answer[29 + 12..29 + 16].try_into().unwrap());
    (answer[3] & 0x0f, data)
}

/// Two CNAME records at a name, and two DNAME records.
const ALIASES: &str = "$TTL 60\nx.example. SOA ns.x.example. r.x.example. 1 2 3 4 5\nx.example. NS ns.x.example.\n\
    ns.x.example. A 192.0.2.1\nw.x.example. CNAME a.x.example.\nw.x.example. CNAME b.x.example.\n\
    d.x.example. DNAME y.example.\nd.x.example. DNAME z.example.\n";

#[test]
fn two_aliases_at_a_name_are_refused_unless_one_is_to_be_served() {
    let directory = set(&[("x.example.zone", ALIASES)]);
    let path = directory.path().to_str().unwrap();
    let (status, said) = refusal(&[path]);
    assert!(status == Some(2) && said.contains("x.example.zone:6: a second, different CNAME record at"), "{said}");
    let output = ldplayer().args(["zones", "check", path, "--without", "nsd,bind"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && said.contains("x.example.zone:6: "), "{said}");
    let scratch = tempfile::tempdir().unwrap();
    let mut server = Serving::start_with(directory.path(), &scratch.path().join("coverage.json"), &["--keep-going"]);
    // ANCOUNT: the CNAME alone, with nothing at its target; the DNAME with the CNAME made of it.
    for (name, answers) in [(&b"\x01w\x01x\x07example\0"[..], 1), (b"\x01q\x01d\x01x\x07example\0", 2)] {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let query = [b"\0\x01\0\0\0\x01\0\0\0\0\0\0", name, b"\0\x01\0\x01"].concat();
        socket.send_to(&query, server.address).unwrap();
        let mut answer = [0; 512];
        socket.recv(&mut answer).unwrap();
        assert_eq!(answer[6..8], [0, answers], "{name:?}");
    }
    server.signal(Signal::TERM);
    assert!(server.child.wait().unwrap().success());
    let said: Vec<String> = BufReader::new(server.child.stderr.take().unwrap()).lines().map(Result::unwrap).collect();
    for line in ["6: `w.x.example.` has more than one CNAME", "8: `d.x.example.` has more than one DNAME"] {
        assert!(said.iter().any(|said| said.contains(line)), "{said:?}");
    }
}

#[test]
fn zones_are_read_anew_on_sighup_and_the_report_is_written_at_the_end() {
    let directory = set(&[("root.zone", ROOT), ("example.zone", EXAMPLE)]);
    let scratch = tempfile::tempdir().unwrap();
    let coverage = scratch.path().join("coverage.json");
    let mut server = Serving::start(directory.path(), &coverage);
    assert_eq!(server.ask(), (0, Some([192, 0, 2, 80])));
    // What cannot be read changes nothing.
    fs::write(directory.path().join("example.zone"), "nonsense\n").unwrap();
    server.signal(Signal::HUP);
    let mut stderr = BufReader::new(server.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    stderr.find(|line| line.contains("the old zones stay in service")).unwrap();
    assert_eq!(server.ask(), (0, Some([192, 0, 2, 80])));
    fs::write(directory.path().join("example.zone"), EXAMPLE.replace("192.0.2.80", "192.0.2.81")).unwrap();
    server.signal(Signal::HUP);
    stderr.find(|line| line.contains("reloaded, 2 zones")).unwrap();
    assert_eq!(server.ask(), (0, Some([192, 0, 2, 81])));
    server.signal(Signal::TERM);
    assert!(server.child.wait().unwrap().success());
    let report: Value = serde_json::from_str(&fs::read_to_string(coverage).unwrap()).unwrap();
    assert_eq!((&report["queries"], &report["levels"]["tld"]["NOERROR"]), (&3.into(), &3.into()));
    let unasked = report["unasked"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    assert!(unasked.clone().any(|name| name == "ns.example.") && unasked.clone().all(|name| name != "www.example."));
    assert!(report["warnings"].to_string().contains("the delegation of lost. is unreachable"), "{report}");
    assert!(stderr.any(|line| line.contains("3 queries (UDP 3, TCP 0): NOERROR 3")));
}

#[test]
fn views_are_accepted_by_bind() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = set(&[("root.zone", ROOT), ("example.zone", EXAMPLE), ("sub.example.zone", EXAMPLE)]);
    let output =
        ldplayer().args(["zones", "views"]).arg(directory.path()).arg("-o").arg(scratch.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let file = scratch.path().join("named.conf");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("    192.0.2.53;\n") && text.contains("    198.41.0.4;\n"), "{text}");
    assert!(text.contains("listen-on port 53 { 10.53.0.3; };"), "{text}");
    let checked = Command::new(bind_tool("named-checkconf")).arg(&file).output().expect("bind9-utils are installed");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// BIND refuses a whole zone for one of them; `serve` answers all the same.
#[test]
fn views_are_without_the_records_that_bind_refuses() {
    let scratch = tempfile::tempdir().unwrap();
    let refused =
        format!("{EXAMPLE}alias CNAME www\nalias TXT other\n*.deep NS ns\n@ CDS 1 13 2 {}\n", "ab".repeat(32));
    let directory = set(&[("root.zone", ROOT), ("example.zone", &refused)]);
    let views = |output: &Path| {
        ldplayer().args(["zones", "views"]).arg(directory.path()).arg("-o").arg(output).output().unwrap()
    };
    let output = views(scratch.path());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("left out 3 records of 1 zone, which BIND refuses; "), "{said}");
    let zone = scratch.path().join("example.zone");
    let text = fs::read_to_string(&zone).unwrap();
    for note in [
        "; left out: alias.example. TXT: bind: beside a CNAME record (RFC 1034 3.6.2)\n",
        "; left out: *.deep.example. NS: bind: name servers of a wildcard (RFC 4592 4.2)\n",
        "; left out: example. CDS: bind: no key of the zone has its algorithm (RFC 7344 4.1)\n",
    ] {
        assert!(text.contains(note), "{note}: {text}");
    }
    let configuration = fs::read_to_string(scratch.path().join("named.conf")).unwrap();
    assert!(configuration.contains(zone.to_str().unwrap()), "{configuration}");
    let checked = |file: &Path| {
        Command::new(bind_tool("named-checkzone")).arg("example").arg(file).output().unwrap().status.success()
    };
    assert!(checked(&zone) && !checked(&directory.path().join("example.zone")));
    let refusal = views(directory.path());
    assert!(String::from_utf8_lossy(&refusal.stderr).contains("-o is the directory of the set"), "{refusal:?}");
    assert_eq!(fs::read_to_string(directory.path().join("example.zone")).unwrap(), refused);
}

#[test]
fn what_is_odd_about_a_zone_is_told_and_it_is_served_all_the_same() {
    let scratch = tempfile::tempdir().unwrap();
    let odd = format!(
        "{EXAMPLE}alias CNAME www\nalias TXT other\nwww RRSIG A 13 2 60 20040509183619 20040409183619 1 example. AAAAAAAA\n"
    );
    let directory = set(&[("example.zone", &odd)]);
    let output =
        ldplayer().args(["zones", "views"]).arg(directory.path()).arg("-o").arg(scratch.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    for wanted in [
        "example.zone:6: `alias.example.` has CNAME and TXT records",
        "signatures expired or not yet valid: 1 of 1",
        "--fake-time",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

/// System programs are often not on a user's PATH.
fn bind_tool(name: &str) -> PathBuf {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/sbin", "/sbin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|file| file.is_file()).unwrap_or_else(|| name.into())
}

#[test]
#[ignore = "runs on the resolver of a testbed, started by the test below"]
fn probe() {
    assert_eq!(ask("198.41.0.4:53".parse().unwrap()), (0, None), "a referral");
    assert_eq!(ask("192.0.2.53:53".parse().unwrap()), (0, Some([192, 0, 2, 80])));
    UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"leak", "192.0.2.54:53").unwrap();
}

#[test]
#[ignore = "runs on the resolver of a testbed, started by the test below"]
fn probe_by_proxy() {
    // Nobody has this address; the proxies ask the server in its place.
    assert_eq!(ask("198.51.100.99:53".parse().unwrap()), (0, Some([192, 0, 2, 80])));
    assert_eq!(ask("[2001:db8::99]:53".parse().unwrap()), (0, Some([192, 0, 2, 80])));
}

#[test]
#[ignore = "runs on the resolver of a testbed, started by the test below"]
fn send() {
    UdpSocket::bind("0.0.0.0:0").unwrap().send_to(&[0; 20], "198.51.100.99:53").unwrap();
}

#[test]
fn proxies_are_switched_on_and_off_in_a_testbed() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = set(&[("example.zone", EXAMPLE)]);
    let command = |arguments: &[&str]| {
        let mut command = ldplayer();
        command.env("XDG_RUNTIME_DIR", scratch.path()).args(arguments);
        command
    };
    let run = |arguments: &[&str]| {
        let output = command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let rewritten = || {
        let status: Value = serde_json::from_str(&run(&["testbed", "status", "--json"])).unwrap();
        status["wire"]["rewritten"].as_u64().unwrap()
    };
    let _down = Down(scratch.path().to_owned());
    run(&["testbed", "up"]);
    let directory = directory.path().to_str().unwrap();
    let own = env!("CARGO_BIN_EXE_ldplayer");
    let serve = ["testbed", "exec", "internet", "--", own, "serve", directory, "--all-zones-everywhere", "--listen"];
    let mut server = command(&[&serve[..], &["10.53.0.3,fd53::3"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    run(&["proxy", "recursive"]);
    run(&["proxy", "authoritative"]);
    let probe = std::env::current_exe().unwrap();
    run(&["testbed", "exec", "resolver", "--", probe.to_str().unwrap(), "--exact", "probe_by_proxy", "--ignored"]);
    assert_eq!(rewritten(), 4);
    run(&["proxy", "recursive", "--off"]);
    run(&["testbed", "exec", "resolver", "--", probe.to_str().unwrap(), "--exact", "send", "--ignored"]);
    assert_eq!(rewritten(), 4);
    run(&["testbed", "down"]);
    assert!(server.wait().unwrap().success(), "it is ended with the testbed, and politely");
}

#[test]
#[ignore = "runs on the resolver of a testbed, started by the test below"]
fn probe_changed() {
    // Every query is answered meanwhile, from the old zone or from the new one.
    while ask("192.0.2.53:53".parse().unwrap()) != (0, Some([192, 0, 2, 81])) {}
}

/// Takes the testbed down, also when a test fails.
struct Down(PathBuf);

impl Drop for Down {
    fn drop(&mut self) {
        let _ = ldplayer().env("XDG_RUNTIME_DIR", &self.0).args(["testbed", "down"]).output();
    }
}

#[test]
fn a_testbed_serves_its_zones_and_any_other_destination_is_a_leak() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = set(&[("root.zone", ROOT), ("example.zone", EXAMPLE)]);
    let coverage = scratch.path().join("coverage.json");
    let testbed = |arguments: &[&str]| {
        let mut command = ldplayer();
        command.env("XDG_RUNTIME_DIR", scratch.path()).arg("testbed").args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let _down = Down(scratch.path().to_owned());
    testbed(&["up", "--zones", directory.path().to_str().unwrap(), "--coverage", coverage.to_str().unwrap()]);
    let own = std::env::current_exe().unwrap();
    testbed(&["exec", "resolver", "--", own.to_str().unwrap(), "--exact", "probe", "--ignored"]);
    let status: Value = serde_json::from_str(&testbed(&["status", "--json"])).unwrap();
    // The holder reads the zones anew.
    fs::write(directory.path().join("example.zone"), EXAMPLE.replace("192.0.2.80", "192.0.2.81")).unwrap();
    let holder = Pid::from_raw(status["holder"].as_i64().unwrap().try_into().unwrap()).unwrap();
    kill_process(holder, Signal::HUP).unwrap();
    testbed(&["exec", "resolver", "--", own.to_str().unwrap(), "--exact", "probe_changed", "--ignored"]);
    testbed(&["down"]);
    let leaks = status["wire"]["leaks"].as_array().unwrap();
    assert!(leaks.len() == 1 && leaks[0]["destination"] == "192.0.2.54", "{leaks:?}");
    let report: Value = serde_json::from_str(&fs::read_to_string(coverage).unwrap()).unwrap();
    assert_eq!(report["levels"]["root"]["NOERROR"], 1);
    assert!(report["levels"]["tld"]["NOERROR"].as_u64().unwrap() >= 2, "{report}");
}

/// What a packet to a server that is no more, and a question to one that is new, come to.
#[test]
#[ignore = "runs on the resolver of a testbed, started by the test below"]
fn probe_moved() {
    assert_eq!(ask("203.0.113.9:53".parse().unwrap()), (0, Some([192, 0, 2, 80])));
    UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"leak", "192.0.2.53:53").unwrap();
}

#[test]
fn a_reload_of_a_testbed_moves_the_addresses_of_the_internet() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = set(&[("root.zone", ROOT), ("example.zone", EXAMPLE)]);
    let testbed = |arguments: &[&str]| {
        let mut command = ldplayer();
        command.env("XDG_RUNTIME_DIR", scratch.path()).arg("testbed").args(arguments);
        command
    };
    let _down = Down(scratch.path().to_owned());
    let mut up = testbed(&["up", "--foreground", "--zones", directory.path().to_str().unwrap()]);
    let mut holder = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
    stdout.find(|line| line.contains("is up")).unwrap();
    for (file, text) in [("root.zone", ROOT), ("example.zone", EXAMPLE)] {
        fs::write(directory.path().join(file), text.replace("192.0.2.53", "203.0.113.9")).unwrap();
    }
    kill_process(Pid::from_child(&holder), Signal::HUP).unwrap();
    let mut stderr = BufReader::new(holder.stderr.take().unwrap()).lines().map(Result::unwrap);
    stderr.find(|line| line.contains("reloaded, 2 zones")).unwrap();
    let own = std::env::current_exe().unwrap();
    let probe = ["exec", "resolver", "--", own.to_str().unwrap(), "--exact", "probe_moved", "--ignored"];
    assert!(testbed(&probe).output().unwrap().status.success());
    kill_process(Pid::from_child(&holder), Signal::TERM).unwrap();
    let said: Vec<String> = stdout.collect();
    let leaks: Vec<&String> = said.iter().filter(|line| line.starts_with("leak: ")).collect();
    assert!(leaks.len() == 1 && leaks[0].starts_with("leak: resolver to 192.0.2.53 "), "{said:?}");
    assert!(holder.wait().unwrap().success());
}
