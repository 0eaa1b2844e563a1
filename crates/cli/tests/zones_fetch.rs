//! `ldplayer zones fetch`: in an emulated Internet, a stock resolver is asked what a trace asked, and zones come of it.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options, Server};
use ldplayer_emulate::stock::{Kind, StockSettings};
use ldplayer_emulate::testbed::{INTERNET, Plan, Testbed};
use serde_json::Value;

/// Zones below `example.`.
const CHILDREN: usize = 12;
/// How long a question is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file
}

/// Root, `example.` and its children, each with a name server of its own.
fn hierarchy(folder: &Path) {
    let soa = "SOA a.root-servers.net. mail.example. 1 2 3 4 5";
    let root = format!(
        "$TTL 3600\n. {soa}\n. NS a.root-servers.net.\na.root-servers.net. A 198.41.0.4\n\
         example. NS ns.example.\nns.example. A 192.0.2.1\n"
    );
    write(folder, "root.zone", &root);
    let mut parent = format!("$TTL 3600\nexample. {soa}\nexample. NS ns.example.\nns.example. A 192.0.2.1\n");
    for child in 0..CHILDREN {
        let (name, address) = (format!("c{child}.example."), format!("198.51.100.{}", child + 1));
        let _ = write!(parent, "{name} NS ns.{name}\nns.{name} A {address}\n");
        let text = format!(
            "$TTL 3600\n{name} {soa}\n{name} NS ns.{name}\nns.{name} A {address}\nwww.{name} A 203.0.113.{child}\n\
             www.{name} TXT \"of {child}\"\nalias.{name} CNAME www.c{}.example.\n",
            (child + 1) % CHILDREN
        );
        write(folder, &format!("c{child}.example.zone"), &text);
    }
    // One that is asked for nothing but what it has, so that no negative answer brings its SOA record.
    parent.push_str("only.example. NS ns.only.example.\nns.only.example. A 198.51.100.99\n");
    let only = format!(
        "$TTL 3600\nonly.example. {soa}\nonly.example. NS ns.only.example.\nns.only.example. A 198.51.100.99\n\
         www.only.example. A 203.0.113.99\nwww.only.example. AAAA 2001:db8::99\n"
    );
    write(folder, "only.example.zone", &only);
    write(folder, "example.zone", &parent);
}

/// Everything twice, in either case, and what is no question of a zone.
fn trace(folder: &Path) -> PathBuf {
    let mut text = String::from("time\tsrc\tqname\tqtype\tqclass\n");
    for (time, name) in ["www", "WWW", "alias", "missing"].into_iter().cycle().take(8).enumerate() {
        for child in 0..CHILDREN {
            let _ = writeln!(text, "{time}\t192.0.2.77\t{name}.c{child}.example\tA\tIN");
        }
    }
    text.push_str("9\t192.0.2.77\twww.only.example\tA\tIN\n");
    text.push_str("9\t192.0.2.77\tversion.bind\tTXT\tCH\n9\t192.0.2.77\texample\tAXFR\tIN\n");
    write(folder, "trace.tsv", &text)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the command.
fn fetch(folder: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let all = ["zones", "fetch", "trace.tsv", "--root-hints", "hints", "--rate", "500", "--json", "-o", "built/"];
    command.current_dir(folder).args(all).args(more).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_trace_becomes_the_zones_behind_it() {
    let scratch = scratch();
    let folder = scratch.path();
    let (first, second) = in_testbed(&folder.join("zones"), || (fetch(folder, &[]), fetch(folder, &[])));

    assert!(first.status.success(), "{}", stderr(&first));
    assert!(stderr(&first).contains("37 different questions, 0 settled before, 37 asked now"), "{}", stderr(&first));
    assert!(stderr(&first).contains("rcode 0: 25, rcode 3: 12; without answer: 0"), "{}", stderr(&first));
    assert!(stderr(&first).contains("not asked: meta_type 1") && stderr(&first).contains("not asked: other_class 1"));
    let report: Value = serde_json::from_slice(&first.stdout).unwrap();
    let built: Vec<&str> =
        report["zones"].as_array().unwrap().iter().map(|zone| zone["zone"].as_str().unwrap()).collect();
    assert_eq!(built.len(), CHILDREN + 3, "{built:?}");
    for child in 0..CHILDREN {
        let text = std::fs::read_to_string(folder.join(format!("built/c{child}.example.zone"))).unwrap();
        for data in [format!("203.0.113.{child}"), "CNAME".to_owned(), format!("ns.c{child}.example.")] {
            assert!(text.contains(&data), "{data} is not in {text}");
        }
    }
    // Whatever a zone needs was asked for.
    for kind in ["soa", "apex_ns"] {
        assert_eq!(report["made"][kind].as_array().map_or(0, Vec::len), 0, "{}", report["made"]);
    }
    // Nothing is left for a second run, which builds the same of what was recorded.
    assert!(second.status.success(), "{}", stderr(&second));
    assert!(stderr(&second).contains("37 settled before, 0 asked now"), "{}", stderr(&second));
    assert_eq!(second.stdout, first.stdout);
}

/// Zones of the same responses, recorded in two formats.
fn assert_same_zones(one: &Path, other: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    let build = |capture: &Path, name: &str| {
        let output = scratch.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        let built =
            command.args(["zones", "build", "--side", "resolver", "-o"]).args([&output, capture]).output().unwrap();
        assert!(built.status.success(), "{}", stderr(&built));
        let mut files: Vec<PathBuf> = std::fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    };
    let (mine, theirs) = (build(one, "one"), build(other, "other"));
    assert!(mine.len() > 1 && mine.len() == theirs.len(), "{mine:?} {theirs:?}");
    for (mine, theirs) in mine.iter().zip(&theirs) {
        assert_eq!(mine.file_name(), theirs.file_name());
        assert!(std::fs::read(mine).unwrap() == std::fs::read(theirs).unwrap(), "{}", mine.display());
    }
}

#[test]
fn zones_of_cdns_and_dnstap_are_those_of_captures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert_same_zones(&root.join("data/clients-20160629.cdns.xz"), &root.join("data/clients-20160629.pcap.xz"));
    // Beside the repository there may be more.
    let collection = root.join("../shared/data");
    let dnstap = collection.join("dnstap/zonemaster-resolver-2022-11.dnstap.xz");
    if dnstap.exists() {
        assert_same_zones(&dnstap, &collection.join("pcap-upstream/zonemaster-upstream-2022-11.pcap.xz"));
    }
}

/// Nobody answers on the Internet: a harvest that is interrupted keeps what it has, and goes on.
#[test]
fn an_interrupted_harvest_goes_on() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    trace(folder);
    let resolver = UdpSocket::bind("127.0.0.1:0").unwrap();
    resolver.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = resolver.local_addr().unwrap().to_string();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        let all = ["zones", "fetch", "trace.tsv", "--rate", "1000", "--resolver", &address, "-o", "built/"];
        command.current_dir(folder).args(all).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    // Answers so many questions with NXDOMAIN.
    let answer = |count: usize| {
        for _ in 0..count {
            let mut message = [0; 512];
            let (length, from) = resolver.recv_from(&mut message).unwrap();
            (message[2], message[3]) = (0x81, 0x83);
            resolver.send_to(&message[..length], from).unwrap();
        }
    };
    let first = start();
    answer(20);
    let journal = folder.join("built.harvest/asked.tsv");
    // The rest have been sent by now or will not be: nobody answers them.
    let pid = rustix::process::Pid::from_child(&first);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let first = first.wait_with_output().unwrap();
    assert_eq!(first.status.code(), Some(130), "{}", stderr(&first));
    assert!(stderr(&first).contains("interrupted; the same command goes on where this one was"), "{}", stderr(&first));
    let settled = std::fs::read_to_string(&journal).unwrap().lines().count() - 1;
    assert!(settled <= 20, "{settled}");
    // What the first left behind in the socket is not for the second.
    resolver.set_nonblocking(true).unwrap();
    while resolver.recv(&mut [0; 512]).is_ok() {}
    resolver.set_nonblocking(false).unwrap();
    let second = start();
    answer(37 - settled);
    let second = second.wait_with_output().unwrap();
    assert!(second.status.success(), "{}", stderr(&second));
    assert!(stderr(&second).contains(&format!("{settled} settled before, {} asked now", 37 - settled)));
    assert!(stderr(&second).contains("build zones from a capture at the resolver"), "{}", stderr(&second));
}

/// The testbed's Internet with the zones in this folder; the work is done on the host of the resolver.
fn in_testbed<T: Send>(zones: &Path, work: impl FnOnce() -> T + Send) -> T {
    let set = ZoneSet::load(zones).unwrap();
    let mut plan = Plan::default();
    plan.hosts[usize::from(INTERNET.0)].owns =
        set.addresses().iter().map(|address| address.to_string().parse().unwrap()).collect();
    let testbed = Testbed::up(&plan).unwrap();
    let done = testbed
        .run("internet", || {
            let server = Server::start(set, &Options { workers: 1, ..Options::default() }).unwrap();
            let done = testbed.run("resolver", work).unwrap();
            drop(server);
            done
        })
        .unwrap();
    testbed.down().unwrap();
    done
}

/// A folder with the hierarchy, root hints and the trace.
fn scratch() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let zones = scratch.path().join("zones");
    std::fs::create_dir(&zones).unwrap();
    hierarchy(&zones);
    trace(scratch.path());
    write(scratch.path(), "hints", ". 3600000 NS a.root-servers.net.\na.root-servers.net. 3600000 A 198.41.0.4\n");
    scratch
}

#[test]
fn a_resolver_of_ones_own_is_asked_and_sends_what_it_asked() {
    let scratch = scratch();
    let folder = scratch.path();
    let output = in_testbed(&folder.join("zones"), || {
        let tap = format!(
            "server:\n  aggressive-nsec: no\ndnstap:\n  dnstap-enable: yes\n  dnstap-socket-path: \"{}\"\n  \
             dnstap-log-resolver-response-messages: yes\n  dnstap-log-client-query-messages: yes\n",
            folder.join("tap.sock").display()
        );
        let resolver = Kind::UNBOUND.with(StockSettings {
            root_hints: Some(folder.join("hints")),
            extra: tap,
            ..StockSettings::default()
        });
        let unbound = resolver.start(&["127.0.0.1:5300".parse().unwrap()]).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        let all = ["zones", "fetch", "trace.tsv", "--resolver", "127.0.0.1:5300", "--tap", "tap.sock", "-o", "built"];
        let output = command.current_dir(folder).args(all).args(["--rate", "500", "--json"]).output().unwrap();
        drop(unbound);
        output
    });
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["zones"].as_array().unwrap().len(), CHILDREN + 3, "{report}");
}

#[test]
fn the_internet_is_asked_only_where_that_is_allowed() {
    let scratch = tempfile::tempdir().unwrap();
    trace(scratch.path());
    for (more, advice) in [
        (&[][..], "add --allow-target 0.0.0.0/0"),
        (
            &["--resolver", "192.0.2.53"][..],
            "--resolver 192.0.2.53:53: not an address of this host; if that may be, add --allow-target 192.0.2.53",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.current_dir(scratch.path()).args(["zones", "fetch", "trace.tsv", "-o", "built"]).args(more);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(advice), "{}", stderr(&output));
        assert!(!scratch.path().join("built").exists());
    }
}
