//! The proof of zone construction: a stock resolver finds in rebuilt zones what it found in those that the capture is of.

mod client;
mod hierarchy;
mod upstream;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use domain::base::iana::Rtype;
use hierarchy::{Hierarchy, Question};
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options, Server};
use ldplayer_emulate::stock::{Kind, StockSettings};
use ldplayer_emulate::testbed::{INTERNET, Plan, Testbed};
use serde_json::Value;
use upstream::{Asked, Upstream};

/// Where the resolver listens.
const LISTEN: &str = "10.53.0.2:53";
/// Root hints, as they are of both hierarchies.
const HINTS: &str = ". 3600000 NS a.root-servers.net.\na.root-servers.net. 3600000 A 198.41.0.4\n\
    a.root-servers.net. 3600000 AAAA 2001:503:ba3e::2:30\n. 3600000 NS b.root-servers.net.\n\
    b.root-servers.net. 3600000 A 170.247.170.2\n";

fn ldplayer(arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Signs some of the zones, for a time that lasts.
fn sign(hierarchy: &Hierarchy, plain: &Path, signed: &Path) {
    let options = ["--seed", "1", "--inception", "2020-01-01", "--expiration", "2037-01-01", "-o", text(signed)];
    let zones = hierarchy.signed.iter().flat_map(|apex| ["--zone", apex.as_str()]);
    let arguments: Vec<&str> = ["zones", "sign", text(plain)].into_iter().chain(options).chain(zones).collect();
    ldplayer(&arguments);
}

/// A folder with what resolvers need.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Resolves all questions from a cold cache against a zone set, with everything on the wire captured.
    fn resolve(&self, zones: &Path, questions: &[Question], capture: &Path) -> Vec<String> {
        let set = ZoneSet::load(zones).unwrap();
        let mut plan = Plan { capture: Some(capture.to_owned()), ..Plan::default() };
        plan.hosts[usize::from(INTERNET.0)].owns =
            set.addresses().iter().map(|address| address.to_string().parse().unwrap()).collect();
        let testbed = Testbed::up(&plan).unwrap();
        let answers = testbed.run("internet", || {
            let server = Server::start(set, &Options { workers: 1, ..Options::default() }).unwrap();
            let answers = testbed.run("resolver", || self.ask(&testbed, questions)).unwrap();
            drop(server);
            answers
        });
        let report = testbed.down().unwrap();
        assert_eq!(report.wire.dropped.unmapped, 0);
        answers.unwrap()
    }

    fn ask(&self, testbed: &Testbed, questions: &[Question]) -> Vec<String> {
        let extra = "server:\n  trust-anchor-signaling: no\n  unknown-server-time-limit: 10000\n";
        let unbound = Kind::UNBOUND.with(StockSettings {
            root_hints: Some(self.path("hints")),
            trust_anchor: Some(self.path("signed").join("trust-anchors.ds")),
            extra: extra.to_owned(),
            ..StockSettings::default()
        });
        let started = unbound.start(&[LISTEN.parse().unwrap()]).unwrap();
        let answers = testbed.run("clients", || client::ask(LISTEN, questions)).unwrap();
        drop(started);
        answers
    }
}

/// Compares what the resolver asked of authoritative servers, and what those said to questions of both times.
fn compare_upstream(first: &Path, second: &Path, hierarchy: &Hierarchy) {
    let (before, after) = (Upstream::of(first), Upstream::of(second));
    let new_or_gone: Vec<&Asked> = before.questions.symmetric_difference(&after.questions).collect();
    // Unbound looks for more addresses of name servers when it pleases.
    let hosts = hierarchy.name_servers();
    let is_choice = |(name, qtype): &Asked| {
        matches!(*qtype, Rtype::A | Rtype::AAAA) && hosts.iter().any(|host| host.ends_with(name.as_str()))
    };
    let unlike: Vec<_> = new_or_gone.iter().filter(|asked| !is_choice(asked)).collect();
    let both = before.answers.iter().filter_map(|(asked, said)| Some((asked, said, after.answers.get(asked)?)));
    let both: Vec<_> = both.collect();
    let differing: Vec<_> = both.iter().filter(|(_, before, after)| before != after).collect();
    println!(
        "upstream: {} different questions, {} of them but once, {} not for addresses of name servers; {} answers of both times, {} differ",
        before.questions.union(&after.questions).count(),
        new_or_gone.len(),
        unlike.len(),
        both.len(),
        differing.len()
    );
    assert!(before.questions.len() > 20_000 && both.len() > 20_000);
    assert!(unlike.is_empty(), "asked of one of the two: {:?}", &unlike[..unlike.len().min(20)]);
    assert!(differing.is_empty(), "answered in two ways: {:?}", &differing[..differing.len().min(20)]);
}

/// How many answers have each code.
fn codes(answers: &[String]) -> BTreeMap<String, usize> {
    let mut codes = BTreeMap::new();
    for answer in answers {
        *codes.entry(answer.lines().next().unwrap_or("none").trim().to_owned()).or_default() += 1;
    }
    codes
}

#[test]
fn a_resolver_finds_the_same_in_rebuilt_zones() {
    let scratch = Scratch(tempfile::tempdir().unwrap());
    std::fs::write(scratch.path("hints"), HINTS).unwrap();
    let (hierarchy, questions) = (Hierarchy::new(), hierarchy::questions());
    assert!(hierarchy.len() >= 300 && questions.len() >= 20_000, "{} {}", hierarchy.len(), questions.len());
    let (plain, signed, rebuilt) = (scratch.path("plain"), scratch.path("signed"), scratch.path("rebuilt"));
    hierarchy.write(&plain);
    sign(&hierarchy, &plain, &signed);

    let (first, second) = (scratch.path("first.pcap"), scratch.path("second.pcap"));
    let before = scratch.resolve(&signed, &questions, &first);
    let report = ldplayer(&["zones", "build", text(&first), "--side", "resolver", "--json", "-o", text(&rebuilt)]);
    let report: Value = serde_json::from_slice(&report).unwrap();
    let after = scratch.resolve(&rebuilt, &questions, &second);

    let differing: Vec<usize> = (0..questions.len()).filter(|&at| before[at] != after[at]).collect();
    let same = 1.0 - differing.len() as f64 / questions.len() as f64;
    for &at in differing.iter().take(20) {
        println!("{:?}:\n{}\nbut\n{}", questions[at], before[at], after[at]);
    }
    let made = |kind: &str| report["made"][kind].as_array().map_or(0, Vec::len);
    println!(
        "zones {} of {}, responses {}, conflicts {}, made: soa {} apex_ns {} delegation {} invented_address {}",
        report["zones"].as_array().unwrap().len(),
        hierarchy.len(),
        report["responses"],
        report["conflicts"].as_array().unwrap().len(),
        made("soa"),
        made("apex_ns"),
        made("delegation"),
        made("invented_address"),
    );
    println!(
        "{} questions, {} answers differ; before {:?}, after {:?}",
        questions.len(),
        differing.len(),
        codes(&before),
        codes(&after)
    );
    compare_upstream(&first, &second, &hierarchy);
    let zones = report["zones"].as_array().unwrap().iter().map(|zone| zone["zone"].as_str().unwrap());
    let made_up: Vec<&str> = zones.filter(|zone| !hierarchy.has(zone)).collect();
    assert_eq!(made_up, [""; 0], "zones that nobody delegated");
    // A comparison of failures would find no difference, either.
    let failed = before.iter().filter(|answer| answer.is_empty() || answer.starts_with("SERVFAIL")).count();
    assert_eq!(failed, 0);
    let validated = before.iter().filter(|answer| answer.contains(" ad\n")).count();
    assert!(validated > 4_000, "{validated} answers were validated");
    assert!(same >= 0.999, "{:.3} % of the answers are the same", same * 100.0);
}
