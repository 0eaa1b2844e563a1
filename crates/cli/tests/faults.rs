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

/// `serve` with these rules.
fn with_rules(rules: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    fs::write(&file, rules).unwrap();
    Server::start(file.to_str().unwrap())
}

#[test]
fn answers_from_another_port_are_not_seen_and_slow_octets_are_waited_for() {
    let server = with_rules(
        "[[fault]]\nunder = 'www.example.'\ntransport = 'udp'\nanswer = 'wrong-port'\n[[fault]]\nunder = 'www.example.'\npace = '5ms'\n",
    );
    // It does not see what comes from another port; whoever takes all does.
    let said = server.dig(&["+time=1", "www.example", "A"]);
    assert!(said.contains("no servers could be reached"), "{said}");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
    socket.send_to(query, ("127.0.0.1", server.served.port)).unwrap();
    let (mut answer, served) = ([0; 512], server.served.port);
    let (_, from) = socket.recv_from(&mut answer).unwrap();
    assert!(answer[..2] == query[..2] && from.ip().is_loopback() && from.port() != served, "{from}");
    let begun = Instant::now();
    let said = server.dig(&["+tcp", "+noedns", "www.example", "A"]);
    // Header, question, three records and the length, octet by octet.
    assert!(said.contains("192.0.2.80") && begun.elapsed() >= Duration::from_millis(5 * 60), "{said}");
    assert_eq!(server.end(), [("fault 1".to_owned(), 2), ("fault 2".to_owned(), 1)]);
}

#[test]
fn dig_sees_aliases_and_records_that_no_zone_has() {
    let server = with_rules(
        "[[fault]]\nunder = 'ns.example.'\nanswer = 'alias-chain'\ncount = 2\n\
         [[fault]]\nadd = ['www.bank.test. 3600 A 203.0.113.66']\n",
    );
    assert_eq!(server.dig(&["+short", "ns.example", "A"]), "1.ns.example.\n");
    assert_eq!(server.dig(&["+short", "2.ns.example", "A"]), "127.0.0.1\n");
    let said = server.dig(&["www.example", "A"]);
    assert!(said.contains("www.bank.test.\t\t3600\tIN\tA\t203.0.113.66") && said.contains("192.0.2.80"), "{said}");
}

/// What resolvers are not to believe, follow for ever, or hand on to others.
#[test]
fn a_resolver_ends_loops_and_does_not_believe_records_of_other_zones() {
    for (rule, is_answered) in [
        ("add = ['www.bank.example. 3600 A 203.0.113.66']", true),
        ("answer = 'alias-loop'", false),
        ("answer = 'alias-chain'\ncount = 3", true),
        ("answer = 'alias-chain'\ncount = 100", false),
        ("answer = 'delegation-loop'", false),
    ] {
        let server = with_rules(&format!("[[fault]]\nunder = ['www.example.', 'loop-www.example.']\n{rule}\n"));
        let (_unbound, port) = server.unbound();
        let said = dig(port, &["+time=30", "www.example", "A"]);
        assert_eq!(said.contains("192.0.2.80"), is_answered, "{rule}: {said}");
        assert_eq!(said.contains("SERVFAIL"), !is_answered, "{rule}: {said}");
        let poisoned = dig(port, &["+time=30", "+short", "www.bank.example", "A"]);
        assert_eq!(poisoned, "", "{rule}");
        let made = server.end()[0].1;
        assert!((1..200).contains(&made), "{rule}: {made}");
    }
}

/// How many queries reach the victim of NXNS is what the report counts.
#[test]
fn a_resolver_asks_a_few_of_very_many_servers_of_a_referral() {
    let server = with_rules(
        "[[fault]]\nname = 'victim'\nunder = 'victim.example.'\nanswer = 'nxdomain'\n\
         [[fault]]\nname = 'attack'\nunder = 'attack.example.'\nanswer = 'many-servers'\ntarget = 'victim.example.'\n",
    );
    let (_unbound, port) = server.unbound();
    let said = dig(port, &["+time=30", "a.attack.example", "A"]);
    assert!(said.contains("SERVFAIL"), "{said}");
    let made = server.end();
    assert!((1..=80).contains(&made[0].1) && made[1].1 > 0, "{made:?}");
}

/// SIGHUP read the zones anew and not the rules.
#[test]
fn rules_are_read_anew_and_wrong_ones_leave_the_old_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    fs::write(&file, "[[fault]]\nname = 'before'\nanswer = 'servfail'\n").unwrap();
    let server = Server::start(file.to_str().unwrap());
    assert!(server.dig(&["www.example", "A"]).contains("SERVFAIL"));
    let reloaded = |said: &str| {
        server.served.reload();
        let begun = Instant::now();
        while !server.served.said().contains(said) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", server.served.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    fs::write(&file, "[[fault]]\nanswer = 'wrong'\n").unwrap();
    reloaded("the old zones stay in service");
    assert!(server.dig(&["www.example", "A"]).contains("SERVFAIL"));
    fs::write(&file, "[[fault]]\nname = 'after'\nanswer = 'refused'\n").unwrap();
    reloaded("reloaded, 2 zones");
    assert!(server.dig(&["www.example", "A"]).contains("REFUSED"));
    assert_eq!(server.end(), [("before".to_owned(), 2), ("after".to_owned(), 1)]);
}

/// What BIND's validator says of signed zones, with the trust anchor of the set.
#[test]
fn a_validator_says_what_is_wrong_with_signatures() {
    for (answer, name, said) in [
        ("", "www", "; fully validated"),
        ("answer = 'expired'", "www", "RRSIG has expired"),
        ("answer = 'not-yet-valid'", "www", "RRSIG validity period has not begun"),
        ("answer = 'bogus'", "www", "no valid signature found"),
        ("answer = 'unsigned'", "www", "resolution failed"),
        ("", "none", "; negative response, fully validated"),
        ("answer = 'without-denial'", "none", "resolution failed"),
        ("under = 'www.example.'\nanswer = 'wrong-denial'", "www", "resolution failed"),
        ("under = 'www.example.'\nanswer = 'nxdomain'", "www", "resolution failed"),
        ("under = 'www.example.'\nanswer = 'alias-loop'", "www", "resolution failed"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let rule = if answer.is_empty() { "type = 'NULL'\nanswer = 'none'" } else { answer };
        let file = folder.path().join("faults.toml");
        fs::write(&file, format!("[[fault]]\n{rule}\n")).unwrap();
        let server = Server::signed(file.to_str().unwrap());
        let anchor = server.folder.path().join("zones/trust-anchors.conf");
        let mut delv = Command::new("delv");
        delv.args(["@127.0.0.1", "-p", &server.served.port.to_string(), "+root=example", "-a"]).arg(anchor);
        let output = delv.args([&format!("{name}.example"), "A"]).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains(said), "{answer} {name}: {told}");
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
    assert!(
        status == Some(2)
            && said.contains(
                "ready-made ones are alias-chain, anycast-switch, cyclic-delegations, edns-refused, firewall-drops-edns"
            ),
        "{said}"
    );
}
