//! `[find]` of `ldplayer experiment`: real searches against servers whose limit is known, and what goes wrong on the way.

mod common;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;

use common::data;
use serde_json::Value;

const ZONE: &str =
    "example. 60 SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.1\n";
const META: &str = "[server.meta]\nkind = 'meta'\nzones = 'zones'\n";
/// Trials that a busy machine can be on time for, and which are made again until it was.
const TRIALS: &str = "precision = 'low'\nquery_timeout = '300ms'\n";

/// A folder with a trace of so many clients that ask once each within half a second, and a zone that has their answers.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(clients: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let gap = 0.5 / clients as f64;
        let line = |client: usize| format!("{:.6}\t192.0.2.{client}\tns.example.\tA\n", 1.0 + client as f64 * gap);
        let trace: String = (1..=clients).map(line).collect();
        fs::write(folder.path().join("trace.tsv"), format!("time\tsrc\tqname\tqtype\n{trace}")).unwrap();
        fs::create_dir(folder.path().join("zones")).unwrap();
        fs::write(folder.path().join("zones/example.zone"), ZONE).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, text: &str) {
        self.write_with(40, text);
    }

    /// With so many tries of a trial that says nothing of the server.
    fn write_with(&self, max_retries: u32, text: &str) {
        let all = format!("trace = 'trace.tsv'\nmax_retries = {max_retries}\n{TRIALS}{text}");
        fs::write(self.path("experiment.toml"), all).unwrap();
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.arg("experiment").arg(self.path("experiment.toml")).arg("-o").arg(self.path("out")).args(more);
        command
    }

    fn run(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }

    /// What was found, where the status is this one.
    fn found(&self, status: i32) -> Value {
        let output = self.run(&["--json"]);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{}{}",
            stderr(&output),
            String::from_utf8_lossy(&output.stdout)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server that answers so many queries of each client, by its port, and no more: at a trial of a second that is so many a second. It
/// ends with the test's process.
fn server_with_limit(limit: u32) -> SocketAddr {
    // A process that another test starts holds the sockets of all tests for a moment, also those just closed.
    let bound = || UdpSocket::bind(common::free_address()).ok();
    let socket = std::iter::repeat_with(bound).take(100).flatten().next().expect("a port is free");
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let (mut buffer, mut asked) = ([0; 512], HashMap::new());
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let asked = asked.entry(client).or_insert(0);
            *asked += 1;
            // The query as a response: QR is set.
            buffer[2] |= 0x80;
            if *asked <= limit {
                socket.send_to(&buffer[..length], client).unwrap();
            }
        }
    });
    address
}

fn one_second(server: SocketAddr, more: &str) -> String {
    format!(
        "server = '{server}'\n[find]\nwhat = 'qps'\nwhile = 'answered >= 99.9 %'\nfinal_trial_duration = '1s'\n\
         initial_trial_duration = '1s'\nduration_sum = '1s'\n{more}"
    )
}

#[test]
fn the_limit_of_a_server_is_found_within_the_width() {
    let place = Place::new(1);
    let search = one_second(server_with_limit(300), "start = 100\nwidth = '2 %'\n");
    place.write(&format!("warm_up = '200ms'\n{search}"));
    let found = place.found(0);
    let search = &found["searches"][0];
    let (lower, upper) = (search["lower"].as_u64().unwrap(), search["upper"].as_u64().unwrap());
    assert!(lower <= 300 && 300 < upper && (upper - lower) as f64 <= 0.02 * upper as f64, "{search}");
    assert_eq!((&search["ended"], &search["unit"]), (&"width".into(), &"q/s".into()));
    assert_eq!(search["conditional_throughput"].as_f64(), Some(lower as f64), "{search}");
    // Each trial is a run with its load, whose report says what was wanted; its rows are gone.
    let run = &found["runs"][0];
    assert_eq!(run["trial"]["load"], 100);
    let directory = place.path("out").join(run["directory"].as_str().unwrap());
    let document: Value = serde_json::from_slice(&fs::read(directory.join("run.json")).unwrap()).unwrap();
    assert_eq!((&document["spec"]["timing"], &document["spec"]["for"]), (&"rate:100".into(), &"1s".into()));
    assert_eq!(document["verdict"]["server"]["checks"][0]["name"], "answered");
    // What warmed up is neither in it nor taken from it.
    assert_eq!(document["summary"]["queries"]["trace"], 100);
    assert!(!directory.join("queries").exists());
    let table = place.run(&[]);
    let told = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(told.contains(&format!("{lower} to {upper}")) && told.contains("reached the wanted width"), "{told}");
}

#[test]
fn connections_are_found_as_many_as_a_server_holds() {
    let place = Place::new(100);
    place.write(&format!(
        "transport = 'tcp'\n{META}connections = 40\n[find]\nwhat = 'connections'\nwhile = 'answered >= 50 %'\nstart = 10\n\
         final_trial_duration = '1s'\ninitial_trial_duration = '1s'\nduration_sum = '1s'\nwidth = '1 %'\n"
    ));
    let found = place.found(0);
    let search = &found["searches"][0];
    assert_eq!((&search["lower"], &search["upper"]), (&40.into(), &41.into()), "{search}");
}

#[test]
fn handshakes_are_connections_with_a_query_each() {
    let place = Place::new(20);
    place.write(&format!(
        "transport = 'tcp'\n{META}[find]\nwhat = 'handshakes'\nwhile = 'answered >= 50 %'\nstart = 20\nmax = 40\n\
         final_trial_duration = '1s'\ninitial_trial_duration = '1s'\nduration_sum = '1s'\n"
    ));
    let found = place.found(0);
    let search = &found["searches"][0];
    assert_eq!(
        (&search["lower"], &search["unit"], &search["ended"]),
        (&40.into(), &"handshakes/s".into(), &"max_load".into())
    );
    let directory = place.path("out").join(found["runs"][0]["directory"].as_str().unwrap());
    let run: Value = serde_json::from_slice(&fs::read(directory.join("run.json")).unwrap()).unwrap();
    assert_eq!(run["summary"]["connections"]["opened"], run["summary"]["queries"]["sent"], "{run}");
}

#[test]
fn what_the_trace_cannot_ask_is_not_the_servers_limit() {
    let place = Place::new(3);
    place.write(&format!(
        "{META}[matrix]\ntransport = ['udp', 'tcp']\n[find]\nwhat = 'clients'\nwhile = 'answered >= 50 %'\nstart = 2\n\
         final_trial_duration = '1s'\ninitial_trial_duration = '1s'\nduration_sum = '1s'\n"
    ));
    let found = place.found(1);
    let searches = found["searches"].as_array().unwrap();
    assert_eq!(searches.len(), 2);
    for search in searches {
        assert_eq!((&search["lower"], &search["upper"]), (&3.into(), &Value::Null), "{search}");
        assert_eq!(search["ended"], "client_limit");
        assert!(search["reason"].as_str().unwrap().contains("3 clients"), "{search}");
    }
    // By transport, and what nobody knows is not made up.
    let ratio = &found["by_transport"][0];
    assert_eq!((&ratio["transport"], &ratio["ratio"], &ratio["most"]), (&"tcp".into(), &Value::Null, &Value::Null));
    // Trials of both were made in turn.
    let cells: Vec<&str> = found["runs"].as_array().unwrap().iter().map(|run| run["cell"].as_str().unwrap()).collect();
    assert!(cells[0].ends_with("udp") && cells[1].ends_with("tcp") && cells[2].ends_with("udp"), "{cells:?}");
}

#[test]
fn a_search_from_the_command_line_says_in_a_line_what_it_found() {
    let place = Place::new(3);
    let server = server_with_limit(u32::MAX).to_string();
    let find = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.arg("replay").arg(place.path("trace.tsv")).args(["--server", &server, "--precision", "low"]);
        command.args(["--query-timeout", "300ms"]).args(more).output().unwrap()
    };
    let output = find(&["--find", "clients: answered >= 50 % and p50 <= 1s"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}{}", stderr(&output));
    assert!(said.starts_with("at least 3 clients while answered >= 50 % and p50 <= 1s; "), "{said}");
    assert!(said.contains("limited by the client, not the server: the trace has only 3 clients"), "{said}");
    let progress = stderr(&output);
    assert!(progress.lines().any(|line| line.contains("  sent ")), "a line every ten seconds: {progress}");
    for (wanted, told) in
        [("users: p50 <= 1s", "use qps, handshakes, clients, connections"), ("p9 <= 5ms", "`p9` is no quantity")]
    {
        let output = find(&["--find", wanted]);
        assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(2), 1));
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
    let word = Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(["find", "a.pcap"]).output().unwrap();
    assert!(word.status.code() == Some(2) && stderr(&word).contains("ldplayer replay a.pcap --server ADDRESS --find"));
}

/// It made its trials, and said only at the end that the trace has no more clients.
#[test]
fn a_search_that_begins_with_more_clients_than_the_trace_has_is_refused_by_the_dry_run() {
    let place = Place::new(3);
    for (what, more) in [("clients", ""), ("connections", "transport = 'tcp'\n"), ("clients", "speed = 2\n")] {
        place.write(&format!(
            "{more}{META}[find]\nwhat = '{what}'\nwhile = 'answered >= 50 %'\nstart = 4\nfinal_trial_duration = '1s'\n\
             initial_trial_duration = '1s'\nduration_sum = '1s'\n"
        ));
        for more in [&["--dry-run"][..], &[]] {
            let output = place.run(more);
            let said = stderr(&output);
            assert!(!output.status.success() && said.lines().count() == 1, "{said}");
            assert!(said.contains("3 clients with queries within a trial, fewer than the 4"), "{said}");
            assert!(said.contains("set `start` to 3 or less"), "{said}");
        }
    }
    // Rates have no such bound.
    place.write(&format!("{META}[find]\nwhat = 'qps'\nwhile = 'answered >= 50 %'\n"));
    assert!(place.run(&["--dry-run"]).status.success());
}

#[test]
fn a_server_that_answers_nothing_has_no_capacity() {
    let place = Place::new(1);
    place.write(&one_second(server_with_limit(0), "start = 60\nmin = 20\n"));
    let found = place.found(1);
    let search = &found["searches"][0];
    assert_eq!((&search["lower"], &search["upper"], &search["ended"]), (&Value::Null, &20.into(), &"min_load".into()));
}

#[test]
fn a_server_that_does_not_start_ends_its_search_and_no_other() {
    let place = Place::new(3);
    fs::write(place.path("bad.conf"), "server:\n  no-such-option: yes\n").unwrap();
    let text = format!(
        "[server.bad]\nkind = 'nsd'\nzones = 'zones'\nconfiguration = 'bad.conf'\n{META}[find]\nwhat = 'clients'\n\
         while = 'answered >= 50 %'\nstart = 2\nmax = 3\nfinal_trial_duration = '1s'\ninitial_trial_duration = '1s'\n\
         duration_sum = '1s'\n"
    );
    place.write_with(1, &text);
    let found = place.found(1);
    let (bad, good) = (&found["searches"][0], &found["searches"][1]);
    assert_eq!((&bad["lower"], &bad["ended"]), (&Value::Null, &"failed".into()), "{bad}");
    assert!(bad["reason"].as_str().unwrap().contains("nsd ended"), "{bad}");
    assert_eq!((&good["lower"], &good["ended"]), (&3.into(), &"max_load".into()), "{good}");
}

#[test]
fn an_interrupt_keeps_what_was_found_and_the_same_command_goes_on() {
    let place = Place::new(1);
    place.write(&one_second(server_with_limit(300), "start = 100\nwidth = '10 %'\n"));
    let mut child =
        place.command(&["--progress", "plain"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first trial counts, at least, so that something is known.
    let known = |line: &String| line.contains("capacity so far 100 or more") && line.contains("begins");
    said.by_ref().map(Result::unwrap).find(known).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    let record = || -> Value { serde_json::from_slice(&fs::read(place.path("out/experiment.json")).unwrap()).unwrap() };
    let before = record();
    assert_eq!(
        (&before["searches"][0]["lower"], &before["searches"][0]["ended"]),
        (&100.into(), &"interrupted".into())
    );
    let found = place.found(0);
    let lower = found["searches"][0]["lower"].as_u64().unwrap();
    assert!((270..=300).contains(&lower), "{found}");
    // What had been made was not made again.
    let made = before["runs"].as_array().unwrap().len();
    assert_eq!(found["runs"].as_array().unwrap()[..made], before["runs"].as_array().unwrap()[..]);
    let trials = found["runs"].as_array().unwrap().len();
    let again = place.found(0);
    assert_eq!((again["runs"].as_array().unwrap().len(), &again["searches"]), (trials, &found["searches"]));
}

#[test]
fn what_is_wrong_in_a_search_is_one_line_with_file_line_and_remedy() {
    let place = Place::new(1);
    let hold = "while = 'p99 <= 50ms'";
    for (find, wanted) in [
        (format!("what = 'qps'\n{hold}\nwdith = '2 %'"), "unknown key `wdith`: did you mean `width`?"),
        (format!("what = 'qps'\n{hold}\nwidth = '0 %'"), "`width`: `0 %` is not a valid width"),
        ("what = 'qps'".to_owned(), "`find`: no criteria: add while"),
        (format!("what = 'connections'\n{hold}"), "not possible over UDP: add transport = \"tcp\""),
    ] {
        place.write(&format!("{META}[find]\n{find}\n"));
        let output = place.run(&[]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("experiment.toml: line ") && said.contains(wanted), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(!place.path("out").exists());
}

#[test]
fn the_example_of_the_repository_is_a_search() {
    let example = data("experiments/capacity.toml");
    let output =
        Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(["experiment", "--dry-run"]).arg(example).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.starts_with("capacity: the largest load in q/s of 3 cells, searched in turns"), "{told}");
    assert!(told.contains("estimate: "), "{told}");
}
