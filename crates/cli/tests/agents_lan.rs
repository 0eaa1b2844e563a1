//! Replays on four agents in network namespaces of their own, with delay and loss between them and real NATS servers: what is sent once in
//! good times, and what becomes of every query when something breaks.

#[path = "common/python.rs"]
mod python;
#[path = "common/waiting.rs"]
mod waiting;

mod lan;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use lan::{Asked, Lan, signal, times};
use ldplayer_emulate::stock::Process;
use ldplayer_trace::{Format, Input, OpenOptions, create, open};
use serde_json::Value;

const AGENTS: usize = 4;
const QUERIES: usize = 4_000;
const CLIENTS: usize = 300;

/// The lab with its agents and one NATS server.
struct Lab {
    agents: Vec<Process>,
    nats: Vec<Process>,
    lan: Lan,
    server: SocketAddr,
    asked: Asked,
}

fn lab(nats: usize, seconds: f64) -> Lab {
    lab_over(nats, seconds, "1ms", None)
}

fn lab_over(nats: usize, seconds: f64, rtt: &str, loss: Option<&str>) -> Lab {
    let lan = Lan::new(nats, AGENTS, rtt, loss);
    lan.trace(QUERIES, CLIENTS, seconds);
    let (server, asked) = lan.dns_server();
    let nats: Vec<Process> = (0..nats).map(|at| lan.nats(at)).collect();
    let agents = (0..AGENTS).map(|number| lan.agent(number)).collect();
    lan.wait_for_agents(AGENTS);
    Lab { agents, nats, lan, server, asked }
}

fn count(report: &Value, key: &str) -> u64 {
    report["summary"]["queries"][key].as_u64().unwrap_or(0)
}

/// The accounts of a run whose trace was read to its end hold over all that was dealt: nothing is forgotten.
fn assert_accounted(report: &Value, said: &str) {
    let [trace, sent, not_sent, lost] = ["trace", "sent", "not_sent", "lost"].map(|key| count(report, key));
    assert_eq!(sent + not_sent + lost, trace, "{said}");
    let checks = report["verdict"]["checks"].as_array().unwrap();
    let accounting = checks.iter().find(|check| check["name"] == "accounting").unwrap();
    assert_eq!(accounting["ok"], true, "{accounting}");
}

/// Each client of the trace was played from one address and port, hence by one agent.
fn assert_clients_keep_their_agents(asked: &Asked) {
    let mut of_client: BTreeMap<usize, BTreeSet<SocketAddr>> = BTreeMap::new();
    for (source, name) in asked.lock().unwrap().iter() {
        let number: usize = name[1..].parse().unwrap();
        of_client.entry(number * 7 % CLIENTS).or_default().insert(*source);
    }
    assert!(of_client.values().all(|sources| sources.len() == 1), "a client was played from two places");
    let agents: BTreeSet<_> = of_client.values().flatten().map(SocketAddr::ip).collect();
    assert_eq!(agents.len(), AGENTS, "{agents:?}");
}

/// What DuckDB finds in the rows of two runs.
fn compared(lan: &Lan, query: &str) -> String {
    let code = "import duckdb, sys; print(duckdb.execute(sys.argv[1]).fetchall())";
    let output =
        Command::new(python::python()).current_dir(lan.folder.path()).args(["-c", code, query]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn rows_of_four_agents_are_those_of_one_host_but_for_times() {
    let lab = lab_over(3, 4.0, "20ms", Some("1 %"));
    let (status, said) = lab.lan.replay(lab.server, AGENTS, "four", &["--nats-replicas", "3"]).end();
    assert!(matches!(status, Some(0 | 1)), "{said}");
    let report = lab.lan.report("four");
    assert_accounted(&report, &said);
    assert_eq!((count(&report, "trace"), count(&report, "sent")), (QUERIES as u64, QUERIES as u64), "{said}");
    assert_eq!(report["state"], "complete");
    assert_clients_keep_their_agents(&lab.asked);
    assert!(times(&lab.asked).values().all(|&times| times == 1), "a query was sent twice");
    assert_eq!(report["agents"].as_array().unwrap().len(), AGENTS);
    assert_eq!(
        report["summary"]["telemetry"]["client"]["processes_peak"], AGENTS,
        "{}",
        report["summary"]["telemetry"]
    );
    // Over a lossy line some queries get no answer: which ones is chance, so that the answers are compared where both have one.
    lab.lan.alone(lab.server, "alone");
    // The port of a client without one in the trace is whichever its host gives.
    let columns = "index, client, server, transport, intended_ns, query_bytes";
    let of = |run: &str| format!("select {columns} from '{run}/queries/*.parquet' where index is not null");
    let different = format!("(select count(*) from (({}) except ({})))", of("four"), of("alone"));
    let missing = format!("(select count(*) from (({}) except ({})))", of("alone"), of("four"));
    let answers = "(select count(*) from 'four/queries/*.parquet' a join 'alone/queries/*.parquet' b using (index) \
                   where a.status = 'answered' and b.status = 'answered' and (a.rcode, a.response_bytes, a.tc, a.aa) \
                   is distinct from (b.rcode, b.response_bytes, b.tc, b.aa))";
    let found = compared(&lab.lan, &format!("select {different}, {missing}, {answers}"));
    assert_eq!(found.trim(), "[(0, 0, 0)]");
    let ordered = "select count(*) from (select client, submitted_ns, index, lag(submitted_ns) over (partition by client order by index) \
                   as before from 'four/queries/*.parquet' where submitted_ns is not null and index is not null) where submitted_ns < before";
    assert_eq!(compared(&lab.lan, ordered).trim(), "[(0,)]", "a client's queries were sent out of order");
}

fn agents_that_have_the_trace_play_what_agents_play_that_get_it() {
    let lab = lab(1, 3.0);
    let (status, said) = lab.lan.replay(lab.server, AGENTS, "local", &["--local"]).end();
    assert!(matches!(status, Some(0 | 1)), "{said}");
    let report = lab.lan.report("local");
    assert_accounted(&report, &said);
    assert_eq!(count(&report, "sent"), QUERIES as u64, "{said}");
    assert_clients_keep_their_agents(&lab.asked);
    assert!(times(&lab.asked).values().all(|&times| times == 1));
}

fn several_hosts_deal_one_trace_and_another_goes_on_where_one_is_killed() {
    let lab = lab(1, 20.0);
    // Two play; one deals with the controller, and one is free.
    let mut replay = lab.lan.replay(lab.server, 2, "run", &["--feeders", "1", "--speed", "1.5"]);
    replay.wait_for_queries(&lab.asked, 500);
    signal(lab.agents[2].id(), "KILL");
    let (status, said) = replay.end();
    assert!(matches!(status, Some(0 | 1)), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert_eq!((count(&report, "sent"), count(&report, "lost")), (QUERIES as u64, 0), "{said}");
    assert!(times(&lab.asked).values().all(|&times| times == 1), "a query was sent twice");
}

fn a_killed_agent_ends_the_run_with_all_that_the_others_measured() {
    let lab = lab(1, 30.0);
    let mut replay = lab.lan.replay(lab.server, AGENTS, "run", &[]);
    replay.wait_for_queries(&lab.asked, 500);
    signal(lab.agents[2].id(), "KILL");
    let (status, said) = replay.end();
    assert_eq!(status, Some(1), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert!(said.contains("lost agent a2: it has not answered for") && said.contains("stopping all others"), "{said}");
    assert!(count(&report, "sent") > 300 && count(&report, "lost") > 0, "{said}");
    assert!(count(&report, "trace") < QUERIES as u64, "the others stopped before the end");
}

fn a_killed_agent_is_done_without_where_that_is_asked_for() {
    let lab = lab(1, 20.0);
    let mut replay = lab.lan.replay(lab.server, AGENTS, "run", &["--on-agent-loss", "continue", "--keep-responses"]);
    replay.wait_for_queries(&lab.asked, 500);
    signal(lab.agents[1].id(), "KILL");
    let (status, said) = replay.end();
    assert_eq!(status, Some(1), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert_eq!(count(&report, "trace"), QUERIES as u64, "{said}");
    let reasons = report["summary"]["queries"]["lost_by_reason"].as_object().unwrap();
    assert!(reasons.contains_key("with_agent") && reasons.contains_key("left_in_stream"), "{reasons:?}");
    // Of the others, all were sent.
    let agents = report["agents"].as_array().unwrap();
    let others = agents.iter().filter(|agent| agent["lost"].is_null());
    assert_eq!(others.map(|agent| agent["sent"].as_u64().unwrap()).sum::<u64>(), count(&report, "sent"));
    assert!(agents.iter().any(|agent| agent["name"] == "a1" && !agent["lost"].is_null()));
    let summary = &report["summary"];
    assert_eq!(summary["responses"]["kept"], summary["queries"]["sent"], "{said}");
    // What the lost one used is not known, and the sum of the others is not what all of them used.
    assert!(summary["telemetry"]["client"].is_null(), "{}", summary["telemetry"]);
}

fn another_agent_goes_on_with_the_clients_of_a_frozen_one_and_nothing_is_sent_twice() {
    let lab = lab(1, 40.0);
    let mut replay = lab.lan.replay(lab.server, AGENTS, "run", &["--on-agent-loss", "reassign"]);
    replay.wait_for_queries(&lab.asked, 300);
    signal(lab.agents[3].id(), "STOP");
    thread::sleep(Duration::from_secs(25));
    signal(lab.agents[3].id(), "CONT");
    let (status, said) = replay.end();
    assert_eq!(status, Some(1), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert!(
        said.contains("lost agent a3: it has not answered for") && said.contains("takes over its clients"),
        "{said}"
    );
    let after = report["agents"].as_array().unwrap().iter().find(|agent| agent["took_over_from"] == "a3");
    assert!(after.unwrap()["sent"].as_u64().unwrap() > 100, "{said}");
    assert!(times(&lab.asked).values().all(|&times| times == 1), "a query was sent twice");
    // What was asked is what the accounts say, but for what the frozen one may have sent and could not tell.
    let asked = lab.asked.lock().unwrap().len() as u64;
    let with_agent = report["summary"]["queries"]["lost_by_reason"]["with_agent"].as_u64().unwrap_or(0);
    let sent = count(&report, "sent");
    assert!((sent..=sent + with_agent).contains(&asked), "{asked} came, {sent} were sent, {with_agent} unknown");
}

fn an_agent_that_is_cut_off_is_lost_and_its_clients_go_on_elsewhere() {
    let lab = lab(1, 30.0);
    let mut replay = lab.lan.replay(lab.server, AGENTS, "run", &["--on-agent-loss", "reassign"]);
    replay.wait_for_queries(&lab.asked, 300);
    lab.lan.cut_off(0);
    let (status, said) = replay.end();
    assert_eq!(status, Some(1), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert_eq!(count(&report, "trace"), QUERIES as u64, "{said}");
    assert!(report["agents"].as_array().unwrap().iter().any(|agent| agent["took_over_from"] == "a0"), "{said}");
}

/// The trace with a response to each query, a millisecond after it.
fn with_responses(lan: &Lan) -> &'static str {
    let mut source = open(&[Input::File(lan.file("trace.tsv"))], &OpenOptions::default()).unwrap();
    let mut rows = Vec::new();
    while source.read(&mut rows).unwrap() {}
    for row in &mut rows {
        let mut response = row.query.as_ref().unwrap().to_vec();
        response[2] |= 0x80;
        (row.response, row.response_delay) = (Some(response.into()), Some(1_000_000));
    }
    let mut sink = create(&lan.file("trace.parquet"), Format::Parquet, true).unwrap();
    sink.write(&mut rows).unwrap();
    sink.finish().unwrap();
    "trace.parquet"
}

fn queries_that_wait_for_answers_of_a_killed_agent_are_sent_by_another_one() {
    let lab = lab(1, 30.0);
    let options = ["--on-agent-loss", "reassign", "--dependencies", "client"];
    let mut replay = lab.lan.replay_of(with_responses(&lab.lan), lab.server, AGENTS, "run", &options);
    replay.wait_for_queries(&lab.asked, 500);
    signal(lab.agents[2].id(), "KILL");
    let (status, said) = replay.end();
    assert_eq!(status, Some(1), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert_eq!((count(&report, "trace"), count(&report, "not_sent")), (QUERIES as u64, 0), "{said}");
    let after = report["agents"].as_array().unwrap().iter().find(|agent| agent["took_over_from"] == "a2");
    assert!(after.unwrap()["sent"].as_u64().unwrap() > 100, "{said}");
    let waited = &report["summary"]["recorded"]["dependencies"]["last_answer"];
    assert_eq!(waited.as_u64(), Some((QUERIES - CLIENTS) as u64), "all but the first of each client");
    assert!(times(&lab.asked).values().all(|&times| times == 1), "a query was sent twice");
}

fn an_agent_whose_disk_is_full_brings_what_it_has_and_another_one_goes_on() {
    let lan = Lan::new(1, AGENTS, "1ms", None);
    lan.trace(QUERIES, CLIENTS, 40.0);
    let (server, asked) = lan.dns_server();
    let _nats = lan.nats(0);
    let mut agents: Vec<Process> = (1..AGENTS).map(|number| lan.agent(number)).collect();
    // A run keeps two megabytes aside while it lasts; its rows have the rest.
    agents.push(lan.agent_with_disk(0, "2072k"));
    lan.wait_for_agents(AGENTS);
    let replay = lan.replay(server, AGENTS, "run", &["--on-agent-loss", "reassign"]);
    let (status, said) = replay.end();
    assert_eq!(status, Some(1), "{said}");
    let report = lan.report("run");
    assert_accounted(&report, &said);
    assert_eq!(count(&report, "trace"), QUERIES as u64, "{said}");
    let agents = report["agents"].as_array().unwrap();
    let full = agents.iter().find(|agent| agent["name"] == "a0").unwrap();
    assert!(full["ended_early"].as_str().unwrap().contains("No space left"), "{full}");
    assert!(full["sent"].as_u64().unwrap() > 0 && agents.iter().any(|agent| agent["took_over_from"] == "a0"), "{said}");
    assert!(times(&asked).values().all(|&times| times == 1), "a query was sent twice");
}

fn a_nats_server_that_is_started_again_loses_nothing() {
    let mut lab = lab(1, 20.0);
    let mut replay = lab.lan.replay(lab.server, AGENTS, "run", &[]);
    replay.wait_for_queries(&lab.asked, 500);
    signal(lab.nats[0].id(), "KILL");
    thread::sleep(Duration::from_secs(1));
    lab.nats[0] = lab.lan.nats(0);
    let (status, said) = replay.end();
    assert!(matches!(status, Some(0 | 1)), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert_eq!((count(&report, "sent"), count(&report, "lost")), (QUERIES as u64, 0), "{said}");
    assert!(times(&lab.asked).values().all(|&times| times == 1), "a query was sent twice");
}

fn a_nats_server_that_is_gone_for_good_is_told_and_the_run_goes_on_with_another() {
    let mut lab = lab(1, 30.0);
    let mut replay = lab.lan.replay(lab.server, AGENTS, "run", &[]);
    replay.wait_for_queries(&lab.asked, 500);
    signal(lab.nats[0].id(), "KILL");
    let (status, said) = replay.end();
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("no connection to the NATS server at") && said.contains("--resume"), "{said}");
    lab.nats[0] = lab.lan.nats(0);
    lab.lan.wait_for_agents(AGENTS);
    let mut command = lab.lan.controller(&["replay", "--resume", "run", "--nats", &lab.lan.url()]);
    let (status, said) = lan::Replay::start(&mut command, &lab.lan.file("resumed.said")).end();
    assert_eq!(status, Some(1), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert_eq!((count(&report, "trace"), count(&report, "lost")), (QUERIES as u64, 0), "{said}");
    assert!(count(&report, "not_sent") > 0, "what was due while it was gone was not sent: {said}");
    assert!(times(&lab.asked).values().all(|&times| times == 1), "a query was sent twice");
}

fn a_cluster_that_loses_a_server_loses_no_query() {
    let lab = lab(3, 20.0);
    let mut replay = lab.lan.replay(lab.server, AGENTS, "run", &["--nats-replicas", "3"]);
    replay.wait_for_queries(&lab.asked, 500);
    // Streams have their leaders on all three, so that whichever goes, some lose theirs.
    signal(lab.nats[1].id(), "KILL");
    let (status, said) = replay.end();
    assert!(matches!(status, Some(0 | 1)), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert_eq!((count(&report, "sent"), count(&report, "lost")), (QUERIES as u64, 0), "{said}");
    assert!(times(&lab.asked).values().all(|&times| times == 1), "a query was sent twice");
}

fn a_trace_that_can_be_read_once_only_is_not_gone_on_with() {
    let lab = lab(1, 20.0);
    let (server, url) = (lab.server.to_string(), lab.lan.url());
    let mut command =
        lab.lan.controller(&["replay", "-", "--server", &server, "--agents", "2", "--nats", &url, "-o", "run"]);
    command.args(lan::OPTIONS).stdin(std::fs::File::open(lab.lan.file("trace.tsv")).unwrap());
    let mut replay = lan::Replay::start(&mut command, &lab.lan.file("run.said"));
    replay.wait_for_queries(&lab.asked, 200);
    signal(replay.id(), "KILL");
    drop(replay.end());
    let mut command = lab.lan.controller(&["replay", "--resume", "run", "--nats", &url]);
    let (status, said) = lan::Replay::start(&mut command, &lab.lan.file("resumed.said")).end();
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("its trace came from standard input or a socket and cannot be read again"), "{said}");
}

fn another_controller_goes_on_where_one_was_killed() {
    let lab = lab(1, 20.0);
    let watched = std::process::id().to_string();
    let mut replay = lab.lan.replay(lab.server, AGENTS, "run", &["--watch-pid", &watched]);
    replay.wait_for_queries(&lab.asked, 500);
    signal(replay.id(), "KILL");
    drop(replay.end());
    thread::sleep(Duration::from_secs(2));
    let mut command = lab.lan.controller(&["replay", "--resume", "run", "--nats", &lab.lan.url()]);
    let (status, said) = lan::Replay::start(&mut command, &lab.lan.file("resumed.said")).end();
    assert!(matches!(status, Some(0 | 1)), "{said}");
    let report = lab.lan.report("run");
    assert_accounted(&report, &said);
    assert_eq!((count(&report, "sent"), report["state"].as_str()), (QUERIES as u64, Some("complete")), "{said}");
    // Nobody knows what the server used before.
    assert!(
        report["summary"]["telemetry"]["server"].is_null() && said.contains("the server's resource usage is unknown"),
        "{said}"
    );
    assert!(times(&lab.asked).values().all(|&times| times == 1), "a query was sent twice");
    // It has ended: there is nothing to go on with.
    let mut again = lab.lan.controller(&["replay", "--resume", "run", "--nats", &lab.lan.url()]);
    let (status, said) = lan::Replay::start(&mut again, &lab.lan.file("again.said")).end();
    assert_eq!(status, Some(3), "{said}");
    assert!(
        said.contains("cannot resume the run in run: the directory has no unfinished run of several hosts"),
        "{said}"
    );
}

fn main() -> ExitCode {
    waiting::run(waiting::tests![
        rows_of_four_agents_are_those_of_one_host_but_for_times,
        agents_that_have_the_trace_play_what_agents_play_that_get_it,
        several_hosts_deal_one_trace_and_another_goes_on_where_one_is_killed,
        a_killed_agent_ends_the_run_with_all_that_the_others_measured,
        a_killed_agent_is_done_without_where_that_is_asked_for,
        another_agent_goes_on_with_the_clients_of_a_frozen_one_and_nothing_is_sent_twice,
        an_agent_that_is_cut_off_is_lost_and_its_clients_go_on_elsewhere,
        queries_that_wait_for_answers_of_a_killed_agent_are_sent_by_another_one,
        an_agent_whose_disk_is_full_brings_what_it_has_and_another_one_goes_on,
        a_nats_server_that_is_started_again_loses_nothing,
        a_nats_server_that_is_gone_for_good_is_told_and_the_run_goes_on_with_another,
        a_cluster_that_loses_a_server_loses_no_query,
        a_trace_that_can_be_read_once_only_is_not_gone_on_with,
        another_controller_goes_on_where_one_was_killed,
    ])
}
