//! `ldplayer compare` and gates: what is claimed of runs, what is not, and how it exits.

#[path = "common/rows.rs"]
mod rows;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ldplayer_results::{Recorder, RunConfig, RunEnd, RunSetup, VerdictLimits};
use serde_json::{Value, json};

const QUERIES: u64 = 400;

/// A run of queries that are answered within 100 µs and a little, the slowest percent of them within `slowest_us`.
fn run(dir: &Path, slowest_us: i64, transport: &str) {
    let config = [("trace", "many.pcap"), ("transport", transport), ("query_timeout", "5s")]
        .into_iter()
        .fold(RunConfig::default(), |config, (key, value)| config.with(key, value));
    let setup = RunSetup { config, workers: 1, ..RunSetup::default() };
    let mut recorder = Recorder::create(dir, false, setup, json!({})).unwrap();
    let took = |at: u64| if at.is_multiple_of(50) { slowest_us * 1_000 } else { 100_000 + at as i64 * 10 };
    recorder.record(0, &(0..QUERIES).map(|at| rows::answered(at, took(at), 0)).collect::<Vec<_>>()).unwrap();
    let end = RunEnd { trace_queries: QUERIES, limits: VerdictLimits::HIGH, ..RunEnd::default() };
    assert!(recorder.finish(end).unwrap().document.report.verdict.ok);
}

/// A directory with so many repeats, whose slowest queries take what is told of each.
fn repeats(dir: &Path, slowest_us: &[i64]) {
    (1..).zip(slowest_us).for_each(|(at, us): (u32, &i64)| run(&dir.join(at.to_string()), *us, "udp"));
}

fn compare(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).current_dir(folder).arg("compare").args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn gate(folder: &Path, keep: &str) {
    fs::write(folder.join("gate.toml"), format!("[gate]\nkeep = {keep}\n")).unwrap();
}

#[test]
fn a_slower_tail_breaks_the_gate_with_a_sentence_and_the_same_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name);
    repeats(&of("old"), &[200, 205, 198, 202, 201]);
    repeats(&of("again"), &[201, 199, 203, 204, 200]);
    repeats(&of("slow"), &[1_200, 1_230, 1_190, 1_210, 1_205]);
    gate(folder.path(), "['p99 <= 1.10 x', 'p50 <= 1.05 x', 'noerror = 1.00 x +- 0.1 %']");
    let broken = compare(folder.path(), &["old", "slow", "--gate", "gate.toml"]);
    let said = stdout(&broken);
    assert_eq!(broken.status.code(), Some(1), "{said}");
    assert!(said.contains("gate       BROKEN     p99 <= 1.1 x is broken: p99 rose to 6.00 times ("), "{said}");
    assert!(
        said.contains("gate       held       p50 <= 1.05 x holds") && said.contains("): worse")
            || said.contains("ms: worse"),
        "{said}"
    );
    let first = said.lines().next().unwrap();
    assert!(
        first.starts_with("gate       BROKEN") && said.lines().nth(4).unwrap().starts_with("compared   "),
        "{said}"
    );
    let table =
        said.lines().skip_while(|line| !line.contains("A: median")).take_while(|line| !line.starts_with("not known"));
    assert!(table.clone().count() > 8 && table.clone().all(|line| line.chars().count() <= 80), "{said}");
    let to_ci = compare(folder.path(), &["old", "slow", "--gate", "gate.toml", "--markdown", "--junit", "gate.xml"]);
    let summary = stdout(&to_ci);
    assert_eq!(to_ci.status.code(), Some(1));
    assert!(summary.starts_with("| gate | |\n|---|---|\n| BROKEN | p99 \\<= 1.1 x is broken: "), "{summary}");
    assert!(summary.contains("\n| p99 | ") && summary.contains(" | WORSE |\n"), "{summary}");
    let tests = fs::read_to_string(of("gate.xml")).unwrap();
    assert!(tests.contains("tests=\"3\" failures=\"1\" skipped=\"0\""), "{tests}");
    assert!(
        tests.contains("<testcase classname=\"slow against old\" name=\"p99 &lt;= 1.1 x\"><failure type=\"broken\""),
        "{tests}"
    );
    let held = compare(folder.path(), &["old", "again", "--gate", "gate.toml", "--json"]);
    let json: Value = serde_json::from_slice(&held.stdout).unwrap();
    assert_eq!(held.status.code(), Some(0), "{json}");
    assert!(json["gates"].as_array().unwrap().iter().all(|gate| gate["outcome"] == "held"), "{json}");
    let rows = json["comparisons"][0]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["verdict"] == "same"), "{json}");
    let unknown = json["comparisons"][0]["unknown"].to_string();
    assert!(unknown.contains("cpu is not known of A: no process of the server was watched"), "{unknown}");
}

#[test]
fn noise_leaves_it_undecided_with_how_many_more_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name);
    repeats(&of("old"), &[200, 400, 250, 330]);
    repeats(&of("new"), &[420, 230, 300, 380]);
    gate(folder.path(), "'p99 <= 1.10 x'");
    let output = compare(folder.path(), &["old", "new", "--gate", "gate.toml"]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("gate       UNDECIDED  p99 <= 1.1 x is undecided: ") && said.contains(" more repeats; p99 "),
        "{said}"
    );
    assert!(!said.contains("WORSE"), "{said}");
}

#[test]
fn single_runs_claim_nothing() {
    let folder = tempfile::tempdir().unwrap();
    run(&folder.path().join("a"), 200, "udp");
    run(&folder.path().join("b"), 90_000, "tcp");
    gate(folder.path(), "'p99 <= 1.10 x'");
    let output = compare(folder.path(), &["a", "b"]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("a single run says nothing of the noise: undecided: 2 more repeats"), "{said}");
    assert!(said.contains("0 better, 0 worse, 0 the same"), "{said}");
    assert!(said.contains("warning    not like with like: transport: A has udp, B has tcp"), "{said}");
    let gated = compare(folder.path(), &["a", "b", "--gate", "gate.toml"]);
    assert_eq!(gated.status.code(), Some(4));
    assert!(stdout(&gated).contains("p99 <= 1.1 x is undecided: 2 more repeats"), "{}", stdout(&gated));
}

#[test]
fn what_cannot_be_compared_is_one_line_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    run(&folder.path().join("a"), 200, "udp");
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::write(folder.path().join("bad.toml"), "[gate]\nkeep = 'p99 <= 1.1 y'").unwrap();
    fs::write(folder.path().join("none.toml"), "repeats = 3").unwrap();
    for (arguments, wanted) in [
        (&["a", "empty"][..], "empty: neither a run, nor an experiment"),
        (&["a"], "--a and --b choose cells of an experiment"),
        (&["a", "a", "--a", "server=x"], "--a and --b choose cells of an experiment"),
        (&["a", "a", "--gate", "bad.toml"], "line 2: `keep`: column 12: `y` is no unit"),
        (&["a", "a", "--gate", "none.toml"], "no [gate]"),
        (&["a", "a", "--gate", "missing.toml"], "missing.toml"),
    ] {
        let output = compare(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{arguments:?}: {said}");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
}

const ZONE: &str =
    "example. 60 SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.1\n";

/// One run of each says nothing; with two more it does.
#[test]
fn an_undecided_gate_adds_the_repeats_that_may_decide_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("trace.tsv"), "time\tsrc\tqname\tqtype\n1.0\t192.0.2.1\tns.example.\tA\n").unwrap();
    fs::create_dir(at("zones")).unwrap();
    fs::write(at("zones/example.zone"), ZONE).unwrap();
    let write = |undecided: &str| {
        let text = format!(
            "trace = 'trace.tsv'\nprecision = 'low'\n[server.meta]\nkind = 'meta'\nzones = 'zones'\n[matrix]\nseed = [1, 2]\n\
             [gate]\nbaseline = 'seed=1'\nkeep = 'answered >= 0.9 x'\nundecided = {undecided}\n"
        );
        fs::write(at("experiment.toml"), text).unwrap();
    };
    let made = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        let made =
            command.current_dir(folder.path()).args(["experiment", "experiment.toml", "-o", "out"]).output().unwrap();
        let record: Value = serde_json::from_slice(&fs::read(at("out/experiment.json")).unwrap()).unwrap();
        let said = String::from_utf8(made.stderr).unwrap();
        (made.status.code(), record["runs"].as_array().unwrap().len(), said)
    };
    write("'fail'");
    let (status, runs, _) = made();
    assert_eq!((status, runs), (Some(4), 2));
    write("'warn'");
    assert_eq!((made().0, made().1), (Some(0), 2));
    write("['repeat:1', 'warn']");
    let (status, runs, said) = made();
    assert_eq!((status, runs), (Some(0), 4), "{said}");
    assert!(said.contains("undecided: 1 more repeat of each cell"), "{said}");
    // Again: they were added once.
    assert_eq!((made().1, made().2.contains("more repeat")), (4, false));
    write("'repeat:5'");
    fs::remove_dir_all(at("out")).unwrap();
    let (status, runs, said) = made();
    assert_eq!((status, runs), (Some(0), 6), "two more decide it: {said}");
}

/// Real runs: two transports in turns, with a gate that holds and one that cannot.
#[test]
fn an_experiment_is_judged_by_its_gate_and_compared_by_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let trace: String = (0..40).map(|at| format!("1.{:02}\t192.0.2.1\tns.example.\tA\n", at)).collect();
    fs::write(at("trace.tsv"), format!("time\tsrc\tqname\tqtype\n{trace}")).unwrap();
    fs::create_dir(at("zones")).unwrap();
    fs::write(at("zones/example.zone"), ZONE).unwrap();
    let text = "trace = 'trace.tsv'\nrepeats = 3\nprecision = 'low'\nkeep_responses = true\n[server.meta]\nkind = 'meta'\nzones = 'zones'\n\
                [matrix]\ntransport = ['udp', 'tcp']\n\
                [gate]\nbaseline = 'transport=udp'\nkeep = ['answered = 100 %', 'p50 <= 0.0001 x']\n";
    fs::write(at("experiment.toml"), text).unwrap();
    let command = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_ldplayer")).current_dir(folder.path()).args(arguments).output().unwrap()
    };
    let made = command(&["experiment", "experiment.toml", "-o", "out", "--json"]);
    let json: Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{made:?}"));
    assert_eq!(made.status.code(), Some(1), "a gate is broken: {}", json["gates"]);
    let gates = json["gates"].as_array().unwrap();
    assert_eq!(
        (gates.len(), &gates[0]["a"], &gates[0]["b"]),
        (2, &"server=meta,transport=udp".into(), &"server=meta,transport=tcp".into())
    );
    // A busy machine may have left runs out, of which nothing is claimed then.
    let is_whole = json["cells"].as_array().unwrap().iter().all(|cell| cell["replay"]["passed"] == 3);
    let outcomes = [&gates[0]["outcome"], &gates[1]["outcome"]];
    if is_whole {
        assert_eq!(outcomes, ["held", "broken"], "{}", json["gates"]);
    } else {
        // A side may be whole where the other is not: what is asked of it alone is decided then, and what is asked of both is not.
        assert!(outcomes[0] == "held" || outcomes[0] == "undecided", "{}", json["gates"]);
        assert_eq!(outcomes[1], "undecided", "{}", json["gates"]);
    }
    // Its own gate was promised by --help, and not looked at.
    let own = command(&["compare", "out"]);
    assert_eq!(own.status.code(), Some(if is_whole { 1 } else { 4 }), "{}", stdout(&own));
    assert_eq!(stdout(&own).lines().filter(|line| line.starts_with("gate ")).count(), 2);
    assert!(!stdout(&own).contains("\\n"), "{}", stdout(&own));
    let keys = ["compare", "out", "--a", "transport=udp", "--b", "transport=tcp", "--with-unfaithful", "--json"];
    let compared: Value = serde_json::from_slice(&command(&keys).stdout).unwrap();
    let one = &compared["comparisons"][0];
    assert_eq!((&one["a"]["runs"], &one["b"]["runs"]), (&3.into(), &3.into()), "{one}");
    // What is told of a busy machine is right.
    let of_machine = ["cpu_stolen", "fell_behind", "client_bottleneck"];
    let is_of_machine = |warning: &Value| of_machine.iter().any(|code| warning.to_string().contains(code));
    assert!(one["warnings"].as_array().unwrap().iter().all(is_of_machine), "{one}");
    let answers = &one["answers"];
    assert_eq!((&answers["of_b"]["match"], &answers["of_a"]["match"]), (&40.into(), &40.into()), "{answers}");
    let cells = ["compare", "out/server=meta,transport=udp", "out/server=meta,transport=tcp", "--with-unfaithful"];
    assert!(stdout(&command(&cells)).contains("repeats were made in turns"));
    let both = command(&["compare", "out", "out", "--with-unfaithful", "--json"]);
    let both: Value = serde_json::from_slice(&both.stdout).unwrap();
    assert_eq!(both["comparisons"].as_array().unwrap().len(), 2, "cell by cell");
    let nobody = command(&["compare", "out", "--a", "transport=udp", "--b", "transport=dot"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&nobody.stderr)
            .contains("no cell has transport=dot; the keys are server=meta, transport=udp|tcp")
    );
    // The page is there, and is written again with figures and tables beside it.
    fs::remove_file(at("out/report.html")).expect("a report of the experiment");
    let reported = command(&["report", "out", "--export", "figures"]);
    assert_eq!(reported.status.code(), Some(if is_whole { 1 } else { 4 }), "{reported:?}");
    assert!(fs::read_to_string(at("out/report.html")).unwrap().contains("id=\"any\""));
    let files: Vec<&str> =
        if is_whole { vec!["cells.csv", "latency-cdf.svg", "figure-p99.png"] } else { vec!["cells.csv"] };
    files.iter().for_each(|file| assert!(at("figures").join(file).exists(), "{file}"));
    let json: Value = serde_json::from_slice(&command(&["report", "out", "--json"]).stdout).unwrap();
    assert_eq!(json["axes"][1][0], "transport", "{}", json["axes"]);
}
