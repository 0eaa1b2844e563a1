//! `zones check` as a user runs it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ROOT: &str = ". 60 SOA a. b. 1 2 3 4 60\n. 60 NS a.root-servers.net.\na.root-servers.net. 60 A 198.41.0.4\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.53\n\
    lost. 60 NS ns.elsewhere.\nfar. 60 NS ns.example.\n";
const EXAMPLE: &str =
    "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.80\nout CNAME www.far.\nsub NS ns\n";
const SUB: &str = "$TTL 60\n@ SOA ns.example. h 1 2 3 4 60\n@ NS ns.example.\nwww A 192.0.2.82\n";

fn ldplayer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ldplayer"))
}

/// Files of a zone set, in a scratch directory.
fn set(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
    directory
}

fn hierarchy() -> tempfile::TempDir {
    set(&[("root.zone", ROOT), ("example.zone", EXAMPLE), ("sub.example.zone", SUB)])
}

/// Exit status and standard output.
fn check(directory: &Path, options: &[&str]) -> (i32, String) {
    let output = ldplayer().args(["zones", "check"]).arg(directory).args(options).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), said)
}

fn json(directory: &Path, options: &[&str]) -> (i32, Value) {
    let (status, said) = check(directory, &[&["--json"], options].concat());
    (status, serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}")))
}

#[test]
fn a_set_in_order_is_told_to_be() {
    let directory = hierarchy();
    let (status, said) = check(directory.path(), &[]);
    let lines: Vec<&str> = said.lines().collect();
    let lost = "root.zone:6: warning: the delegation of lost. is unreachable: none of its name servers has an address in the set";
    assert!(lines[0].ends_with(lost), "{said}");
    assert_eq!(
        lines[1..],
        [
            "zones: 3; loaded by bind 3, ldplayer 3, nsd 3",
            "delegations: 4; 2 to zones of the set, 1 without a server in the set",
            "dnssec: unsigned 3; 0 signatures verified",
            "0 errors, 1 warning",
        ]
    );
    assert_eq!(status, 0);
}

#[test]
fn what_does_not_load_is_told_with_file_and_line_and_who_says_so() {
    let long = format!("{EXAMPLE}x TXT \"{}\"\n", "x".repeat(256));
    for (text, check, line, wanted) in [
        ("\n\nwww A nonsense\n", "load", 3, "expected an IPv4 address, found `nonsense`"),
        ("$TTL 1\n@ SOA a b 1 2 3 4 5\nwww A 192.0.2.1\n", "bind", 0, "has no NS records"),
        ("$TTL 1\n@ NS ns\n", "load", 0, "no SOA record"),
        (long.as_str(), "load", 8, "256 bytes"),
    ] {
        let directory = set(&[("root.zone", ROOT), ("example.zone", text)]);
        let (status, said) = json(directory.path(), &[]);
        assert_eq!(status, 1);
        let findings = said["findings"].as_array().unwrap();
        let found = findings.iter().find(|one| one["check"] == check).unwrap_or_else(|| panic!("{said}"));
        assert!(found["text"].as_str().unwrap().contains(wanted) && found["line"] == line, "{found}");
        assert_eq!(found["severity"], "error");
    }
}

#[test]
fn zones_that_nobody_reaches_are_errors() {
    let root = ROOT.replace("ns.example. 60 A 192.0.2.53\n", "");
    let example = EXAMPLE.replace("ns A 192.0.2.53\n", "").replace("NS ns\n", "NS ns.elsewhere.\n");
    let directory = set(&[("root.zone", &root), ("example.zone", &example), ("other.zone", SUB)]);
    let (status, said) = check(directory.path(), &["--without", "nsd,bind"]);
    assert_eq!(status, 1);
    for wanted in [
        "example.zone:3: error: example. is unreachable: none of its name servers has an address in the set",
        "root.zone:4: error: the delegation of example. is unreachable",
        "other.zone: warning: the parent zone . does not delegate other.: resolvers cannot find it",
        "zones: 3; loaded by ldplayer 3\n",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

/// The hierarchy, signed by ldplayer.
fn signed(options: &[&str]) -> tempfile::TempDir {
    let (plain, directory) = (hierarchy(), tempfile::tempdir().unwrap());
    let mut command = ldplayer();
    command.args(["zones", "sign"]).arg(plain.path()).arg("-o").arg(directory.path()).args(options);
    assert!(command.output().unwrap().status.success());
    directory
}

/// Replaces text in a file of a set.
fn replace(directory: &Path, file: &str, from: &str, to: &str) {
    let text = fs::read_to_string(directory.join(file)).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    fs::write(directory.join(file), text.replacen(from, to, 1)).unwrap();
}

fn trust(said: &Value) -> Vec<String> {
    let zones = said["zones"].as_array().unwrap().iter();
    zones.map(|zone| format!("{} {}", zone["zone"].as_str().unwrap(), zone["dnssec"].as_str().unwrap())).collect()
}

const QUICK: [&str; 2] = ["--without", "nsd,bind"];

#[test]
fn findings_of_one_kind_are_summed_unless_all_are_wanted() {
    let directory = signed(&["--inception", "2020-01-01", "--expiration", "2030-01-01"]);
    let options = [&QUICK[..], &["--now", "2031-01-01"]].concat();
    let (status, said) = check(directory.path(), &options);
    let is_about = |line: &&str| line.contains("expired or not yet valid");
    let lines: Vec<&str> = said.lines().filter(is_about).collect();
    assert_eq!((status, lines.len()), (1, 1), "{said}");
    assert!(lines[0].starts_with("error: signatures expired or not yet valid: 3 of 3 zones, first "), "{said}");
    assert!(said.trim_end().ends_with("; --verbose lists all"), "{said}");
    let (_, said) = check(directory.path(), &[&options[..], &["--verbose"]].concat());
    assert_eq!(said.lines().filter(is_about).count(), 3, "{said}");
    assert!(!said.contains("--verbose"), "{said}");
    let all = json(directory.path(), &options).1["findings"].as_array().unwrap().len();
    assert_eq!(all, said.lines().filter(|line| line.contains(": error: ") || line.contains(": warning: ")).count());
}

#[test]
fn the_chain_of_trust_is_followed_from_the_top() {
    let directory = signed(&[]);
    let (status, said) = json(directory.path(), &[]);
    assert_eq!(
        (status, trust(&said)),
        (0, vec![". anchor".into(), "example. secure".into(), "sub.example. secure".into()])
    );
    // Another address than the one that was signed.
    replace(directory.path(), "example.zone", "192.0.2.80", "192.0.2.81");
    let (status, said) = json(directory.path(), &QUICK);
    assert_eq!((status, trust(&said)[1..].join(", ")), (1, "example. broken, sub.example. below-broken".into()));
    let texts = said["findings"].to_string();
    assert!(texts.contains("the signature of A at `www.example.` by key"), "{texts}");
}

#[test]
fn a_ds_record_must_be_of_a_key_that_is_there() {
    let directory = signed(&["--nsec3"]);
    let other = signed(&[]);
    fs::copy(other.path().join("example.zone"), directory.path().join("example.zone")).unwrap();
    let (status, said) = check(directory.path(), &QUICK);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("error: no DS record of `example.` matches a key that signs the DNSKEY records"), "{said}");
    assert!(said.lines().any(|line| line.contains("root.zone:") && line.contains("no DS record of")), "{said}");
    fs::write(directory.path().join("example.zone"), EXAMPLE).unwrap();
    let (_, said) = check(directory.path(), &QUICK);
    assert!(said.contains("error: `example.` has a DS record, but its zone is not signed"), "{said}");
}

#[test]
fn signatures_hold_for_a_time() {
    let directory = signed(&["--inception", "2020-01-01", "--expiration", "2030-01-01"]);
    assert_eq!(check(directory.path(), &[&QUICK[..], &["--now", "2025-01-01"]].concat()).0, 0);
    let (status, said) = check(directory.path(), &[&QUICK[..], &["--now", "2031-01-01"]].concat());
    assert_eq!(status, 1);
    assert!(said.contains("such as NS at `.`, valid from 2020-01-01T00:00:00Z"), "{said}");
}

#[test]
fn a_trace_is_told_what_it_would_be_answered_with() {
    let directory = hierarchy();
    let trace = directory.path().join("trace.txt");
    fs::write(
        &trace,
        "www.example. A\nwww.example. A\nWWW.Example. A\nno.example. A\nout.example. A\nwww.sub.example. A\nx. A\n",
    )
    .unwrap();
    let options = [&QUICK[..], &["--trace", trace.to_str().unwrap()]].concat();
    let (status, said) = json(directory.path(), &options);
    assert_eq!(status, 0);
    let coverage = &said["coverage"];
    assert_eq!((&coverage["queries"], &coverage["questions"]), (&7.into(), &5.into()));
    assert_eq!(coverage["rcodes"], serde_json::json!({ "NOERROR": 4, "NXDOMAIN": 2 }));
    let unknown = serde_json::json!([{
        "name": "out.example.", "type": "A", "queries": 1, "reason": ". delegates it to a zone outside the set"
    }]);
    assert_eq!(coverage["unknown"], unknown);
    let everywhere = json(directory.path(), &[&options[..], &["--all-zones-everywhere"]].concat()).1;
    assert_eq!(
        everywhere["coverage"]["rcodes"],
        serde_json::json!({ "NOERROR": 5, "NXDOMAIN": 2 }),
        "an alias is an answer"
    );
    let (_, said) = check(directory.path(), &options);
    for wanted in [
        "coverage: 7 queries, 5 different questions; NOERROR 57.14 %, NXDOMAIN 28.57 %; unknown 14.29 %\n",
        "  unknown: out.example. A, 1 query: . delegates it to a zone outside the set\n",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

#[test]
fn a_checker_that_is_missing_is_the_environments() {
    let directory = hierarchy();
    let mut command = ldplayer();
    command.args(["zones", "check"]).arg(directory.path()).args(["--without", "bind"]).env("PATH", "");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // Folders of the system are looked into whatever the PATH is; there it may be, and is in no other place.
    let is_there = ["/usr/sbin", "/usr/local/sbin", "/sbin"]
        .iter()
        .any(|folder| Path::new(folder).join("nsd-checkzone").is_file());
    match output.status.code() {
        Some(0) => assert!(is_there),
        code => assert!(
            !is_there
                && code == Some(3)
                && said.contains("nsd-checkzone is not installed: sudo apt-get install nsd, or check --without nsd"),
            "{said}"
        ),
    }
    command = ldplayer();
    command.args(["zones", "check"]).arg(directory.path()).args(["--without", "nsd"]).env("PATH", "");
    let is_there = ["/usr/sbin", "/usr/local/sbin", "/sbin"]
        .iter()
        .any(|folder| Path::new(folder).join("named-checkzone").is_file());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(if is_there { 0 } else { 3 }), "{said}");
    assert!(
        is_there
            || said.contains(
                "named-checkzone is not installed: sudo apt-get install bind9-utils, or check --without bind"
            ),
        "{said}"
    );
}

#[test]
fn a_file_out_of_the_set_is_included_where_an_option_says_so() {
    let (directory, outside) = (hierarchy(), set(&[("more", "more A 192.0.2.9\n"), ("secret", "topsecret:x:0\n")]));
    for (file, is_zone) in [("more", true), ("secret", false)] {
        let line = format!("$INCLUDE {}\n", outside.path().join(file).display());
        fs::write(directory.path().join("sub.example.zone"), SUB.to_owned() + &line).unwrap();
        let (status, said) = check(directory.path(), &[]);
        assert!(status == 1 && said.contains("is outside the folder of the zone file"), "{said}");
        let (status, said) = check(directory.path(), &["--include-anywhere"]);
        assert!((status == 0) == is_zone && !said.contains("topsecret"), "{said}");
    }
}

#[test]
fn a_ds_record_of_no_delegation_is_told() {
    let directory = hierarchy();
    let ds = format!("lone DS 1 8 2 {}\n", "00".repeat(32));
    fs::write(directory.path().join("sub.example.zone"), SUB.to_owned() + &ds).unwrap();
    let (_, said) = check(directory.path(), &["--without", "nsd,bind"]);
    assert!(
        said.contains("sub.example.zone:5: warning: `lone.sub.example.` has a DS record but is not a delegation"),
        "{said}"
    );
}

#[test]
fn bad_input_is_told_on_one_line() {
    let directory = hierarchy();
    for (options, status, message) in [
        (&["--trace", "no/such"][..], 2, "no/such"),
        (&["--now", "soon"], 2, "expected a time such as"),
        (&["--without", "knot"], 2, "invalid value 'knot'"),
    ] {
        let (found, said) = check(directory.path(), &[&QUICK[..], options].concat());
        assert!(found == status && said.contains(message), "{said}");
    }
    assert_eq!(check(Path::new("no/such/directory"), &[]).0, 2);
}

/// A root zone that delegates nothing of what lies below it passed, although no resolver gets further.
#[test]
fn a_set_that_leads_nowhere_is_an_error() {
    let elsewhere = ROOT.replace("example. 60 NS", "elsewhere. 60 NS");
    let (status, said) = check(set(&[("root.zone", &elsewhere), ("sub.example.zone", SUB)]).path(), &[]);
    let nowhere = "root.zone: error: the set leads nowhere: none of its delegations (3) is of a zone of the set, so that resolvers get no \
        further than .";
    assert!(status == 1 && said.contains(nowhere), "{said}");
    // One zone alone is served as it is, and so are two that have nothing to do with each other.
    for files in [&[("root.zone", ROOT)][..], &[("example.zone", EXAMPLE), ("test.zone", SUB)]] {
        let (_, said) = check(set(files).path(), &[]);
        assert!(!said.contains("nowhere"), "{said}");
    }
}

/// Referrals to somewhere else counted as answers.
#[test]
fn a_trace_that_the_set_can_only_refer_is_an_error() {
    let directory = set(&[("root.zone", ROOT)]);
    let scratch = tempfile::tempdir().unwrap();
    let queries = scratch.path().join("queries");
    fs::write(&queries, "www.example A\nwww.far A\na.lost AAAA\n").unwrap();
    let trace = ["--trace", queries.to_str().unwrap()];
    let (status, said) = check(directory.path(), &trace);
    assert!(
        status == 1 && said.contains("error: the set answers 0 of the 3 queries of the trace: 3 have no"),
        "{said}"
    );
    let everywhere = [&trace[..], &["--all-zones-everywhere"]].concat();
    let (status, found) = json(directory.path(), &everywhere);
    assert_eq!(
        (status, &found["coverage"]["referred"], &found["coverage"]["rcodes"]),
        (1, &3.into(), &serde_json::json!({}))
    );
    let (_, said) = check(directory.path(), &everywhere);
    assert!(said.contains("none answered; only referred 100.00 %; unknown 0.00 %"), "{said}");
    // Who asks for no recursion goes on by himself.
    let tsv = "time\tsrc\tdst\tqname\tqtype\tflags\n1\t192.0.2.1\t192.0.2.2\twww.example\tA\t-\n";
    fs::write(&queries, tsv).unwrap();
    assert_eq!(check(directory.path(), &everywhere).0, 0);
    fs::write(&queries, "www.example A\nno.such.name A\n").unwrap();
    assert_eq!(check(directory.path(), &everywhere).0, 0, "half of it is answered");
}

/// What the set cannot lead a resolver to is SERVFAIL for its clients, whatever a trace recorded.
#[test]
fn a_stock_resolver_is_asked_what_clients_would_get() {
    let directory = hierarchy();
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("trace.tsv");
    let recorded = "time\tsrc\tdst\tqname\tqtype\trcode\n1\t192.0.2.1\t192.0.2.2\twww.example\tA\tNXDOMAIN\n\
        2\t192.0.2.1\t192.0.2.2\tno.example\tA\tNXDOMAIN\n3\t192.0.2.1\t192.0.2.2\twww.lost\tA\tNXDOMAIN\n\
        4\t192.0.2.1\t192.0.2.2\tno.example\tA\tNXDOMAIN\n";
    fs::write(&trace, recorded).unwrap();
    let options = [&QUICK[..], &["--trace", trace.to_str().unwrap()]].concat();
    for kind in ["unbound", "bind-resolver", "knot-resolver", "pdns-recursor"] {
        let (status, said) = json(directory.path(), &[&options[..], &["--resolver", kind]].concat());
        let got = &said["resolver"];
        assert_eq!(
            (status, &got["resolver"], &got["questions"], &got["queries"]),
            (0, &kind.into(), &3.into(), &4.into())
        );
        let rcodes = serde_json::json!({ "NOERROR": 1, "NXDOMAIN": 2, "SERVFAIL": 1 });
        assert_eq!(got["rcodes"], rcodes, "{kind}: {got}");
        let cause = serde_json::json!({ ". delegates it to a zone outside the set": 1 });
        assert_eq!(got["servfail"], cause, "{kind}");
    }
    let (status, said) = check(directory.path(), &[&options[..], &["--resolver", "unbound"]].concat());
    for wanted in [
        "unbound: 3 different questions of 4 queries; NOERROR 25.00 %, NXDOMAIN 50.00 %, SERVFAIL 25.00 %\n",
        "  SERVFAIL: . delegates it to a zone outside the set: 1 query\n",
    ] {
        assert!(status == 0 && said.contains(wanted), "{wanted}: {said}");
    }
    let rootless = set(&[("example.zone", EXAMPLE)]);
    let (status, said) = check(rootless.path(), &[&options[..], &["--resolver", "unbound"]].concat());
    assert!(status == 2 && said.contains("the set has no root zone, where a resolver begins"), "{said}");
}
