//! `ldplayer zones fetch`: in an emulated Internet, a stock resolver is asked what a trace asked, and zones come of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options, Server};
use ldplayer_emulate::testbed::{INTERNET, Plan, Testbed};
use serde_json::Value;

/// Zones below `example.`.
const CHILDREN: usize = 12;

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
    text.push_str("9\t192.0.2.77\tversion.bind\tTXT\tCH\n9\t192.0.2.77\texample\tAXFR\tIN\n");
    write(folder, "trace.tsv", &text)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the command on the host of the resolver.
fn fetch(testbed: &Testbed, folder: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let all = ["zones", "fetch", "trace.tsv", "--root-hints", "hints", "--rate", "500", "--json", "-o", "built/"];
    command.current_dir(folder).args(all).args(more).stdin(Stdio::null());
    testbed.run("resolver", || command.output()).unwrap().unwrap()
}

#[test]
fn a_trace_becomes_the_zones_behind_it() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let zones = folder.join("zones");
    std::fs::create_dir(&zones).unwrap();
    hierarchy(&zones);
    trace(folder);
    write(folder, "hints", ". 3600000 NS a.root-servers.net.\na.root-servers.net. 3600000 A 198.41.0.4\n");
    let set = ZoneSet::load(&zones).unwrap();
    let mut plan = Plan::default();
    plan.hosts[usize::from(INTERNET.0)].owns =
        set.addresses().iter().map(|address| address.to_string().parse().unwrap()).collect();
    let testbed = Testbed::up(&plan).unwrap();
    let (first, second) = testbed
        .run("internet", || {
            let server = Server::start(set, &Options { workers: 1, ..Options::default() }).unwrap();
            let outputs = (fetch(&testbed, folder, &[]), fetch(&testbed, folder, &[]));
            drop(server);
            outputs
        })
        .unwrap();
    testbed.down().unwrap();

    assert!(first.status.success(), "{}", stderr(&first));
    assert!(stderr(&first).contains("36 different questions, 0 settled before, 36 asked now"), "{}", stderr(&first));
    assert!(stderr(&first).contains("rcode 0: 24, rcode 3: 12; without answer: 0"), "{}", stderr(&first));
    assert!(stderr(&first).contains("not asked: meta_type 1") && stderr(&first).contains("not asked: other_class 1"));
    let report: Value = serde_json::from_slice(&first.stdout).unwrap();
    let built: Vec<&str> =
        report["zones"].as_array().unwrap().iter().map(|zone| zone["zone"].as_str().unwrap()).collect();
    assert_eq!(built.len(), CHILDREN + 2, "{built:?}");
    for child in 0..CHILDREN {
        let text = std::fs::read_to_string(folder.join(format!("built/c{child}.example.zone"))).unwrap();
        for data in [format!("203.0.113.{child}"), "CNAME".to_owned(), format!("ns.c{child}.example.")] {
            assert!(text.contains(&data), "{data} is not in {text}");
        }
    }
    // What a zone needs was asked for where the questions of the trace had not brought it.
    assert_eq!(report["made"]["apex_ns"].as_array().map_or(0, Vec::len), 0, "{}", report["made"]);
    // Nothing is left for a second run, which builds the same of what was recorded.
    assert!(second.status.success(), "{}", stderr(&second));
    assert!(stderr(&second).contains("36 settled before, 0 asked now"), "{}", stderr(&second));
    assert_eq!(second.stdout, first.stdout);
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
