//! What somebody who knows dnsperf types first: a list of queries at a rate, mistakes in options, pipes that close, rows of the run.

#[path = "common/responder.rs"]
mod responder;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use responder::responder;
use serde_json::Value;

fn ldplayer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn server() -> String {
    responder(|_| Some(Duration::ZERO))
}

/// A list of three names in a folder.
fn names(folder: &Path) -> String {
    let file = folder.join("names.txt");
    fs::write(&file, "a.example A\nb.example AAAA\nc.example TXT\n").unwrap();
    file.to_str().unwrap().to_owned()
}

/// A run of a list: 500 queries/s for two seconds from seven clients.
fn run(folder: &Path) -> (String, Output) {
    let run = folder.join("run").to_str().unwrap().to_owned();
    let list = names(folder);
    let options =
        ["--rate", "0.5k", "--for", "2s", "--clients", "7", "--precision", "low", "--workers", "1", "-o", &run];
    let made = ldplayer(&[&["replay", &list, "--server", &server()][..], &options].concat());
    (run, made)
}

#[test]
fn a_list_of_queries_is_replayed_at_a_rate_for_a_time_from_so_many_clients() {
    let folder = tempfile::tempdir().unwrap();
    let (run, made) = run(folder.path());
    assert!(matches!(made.status.code(), Some(0 | 1)), "{}", err(&made));
    let json: Value = serde_json::from_slice(&fs::read(Path::new(&run).join("run.json")).unwrap()).unwrap();
    let summary = &json["summary"];
    assert_eq!((&summary["queries"]["trace"], &summary["clients"]["total"]), (&1_000.into(), &7.into()), "{summary}");
    assert_eq!(json["spec"]["rate"], "500");
    let last = out(&made).lines().last().unwrap().to_owned();
    assert!(last.starts_with("replay ") && last.contains(" · server not judged · report: file:///"), "{last}");
    assert!(!out(&made).contains('\u{1b}'), "colours where nobody asked for them");
}

/// What dnsperf does with `-l` and without `-Q`; a specification says the same.
#[test]
fn a_list_is_replayed_as_fast_as_answers_arrive_until_the_time_is_up() {
    let folder = tempfile::tempdir().unwrap();
    let (list, server) = (names(folder.path()), server());
    let [given, read] = ["given", "read"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let options = ["--timing", "fast", "--for", "300ms", "--max-outstanding", "8", "--workers", "1"];
    let made = ldplayer(&[&["replay", &list, "--server", &server, "-o", &given][..], &options].concat());
    let spec = folder.path().join("fast.toml");
    let text = format!(
        "trace = '{list}'\nserver = '{server}'\ntiming = 'fast'\nfor = '300ms'\nmax_outstanding = 8\nworkers = 1\n"
    );
    fs::write(&spec, text).unwrap();
    let by_spec = ldplayer(&["replay", "--spec", spec.to_str().unwrap(), "-o", &read]);
    for (made, run) in [(made, given), (by_spec, read)] {
        assert_eq!(made.status.code(), Some(0), "{}{}", out(&made), err(&made));
        let json: Value = serde_json::from_slice(&fs::read(Path::new(&run).join("run.json")).unwrap()).unwrap();
        let queries = &json["summary"]["queries"];
        assert_eq!((&json["state"], &queries["not_sent"]), (&"complete".into(), &0.into()), "{queries}");
        assert_eq!(queries["trace"], queries["sent"], "what was read ahead is no part of the run");
        assert!(queries["sent"].as_u64() > Some(3), "the list has three names: {queries}");
    }
}

#[test]
fn a_trace_is_replayed_once_however_long_it_may_take_unless_it_is_to_be_looped() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("two.tsv");
    fs::write(&trace, "time\tsrc\tqname\tqtype\n1\t192.0.2.1\texample.\tNS\n5\t192.0.2.1\texample.\tA\n").unwrap();
    let (trace, server) = (trace.to_str().unwrap(), server());
    let sent = |name: &str, more: &[&str]| {
        let run = folder.path().join(name);
        let options = ["--server", &server, "--timing", "fast", "--sources", "ports", "--workers", "1", "-o"];
        let made = ldplayer(&[&["replay", trace], &options[..], &[run.to_str().unwrap()], more].concat());
        assert_eq!(made.status.code(), Some(0), "{}{}", out(&made), err(&made));
        let json: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
        json["summary"]["queries"]["sent"].as_u64().unwrap()
    };
    assert_eq!(sent("once", &["--for", "10m"]), 2);
    assert!(sent("looped", &["--for", "200ms", "--loop", "forever"]) > 2);
}

#[test]
fn the_last_line_says_which_check_failed() {
    let folder = tempfile::tempdir().unwrap();
    let list = names(folder.path());
    let run = folder.path().join("run");
    let expect = ["--expect", "servfail >= 50 %", "--precision", "low", "-o", run.to_str().unwrap()];
    let made = ldplayer(&[&["replay", &list, "--server", &server()][..], &expect].concat());
    assert_eq!(made.status.code(), Some(1), "{}", err(&made));
    assert!(out(&made).lines().last().unwrap().contains("server FAILED (answers SERVFAIL 0.00 %)"), "{}", out(&made));
}

#[test]
fn rows_are_printed_as_a_condition_and_a_format_say() {
    let folder = tempfile::tempdir().unwrap();
    let (run, _) = run(folder.path());
    let rows = |more: &[&str]| out(&ldplayer(&[&["rows", &run][..], more].concat()));
    let some = rows(&["--where", "answered and index < 3", "--columns", "client,rcode,aa"]);
    let mut lines: Vec<&str> = some.lines().collect();
    assert_eq!(lines.remove(0), "client\trcode\taa");
    lines.sort_unstable();
    assert_eq!(lines, ["10.0.0.1\t0\tfalse", "10.0.0.2\t0\tfalse", "10.0.0.3\t0\tfalse"]);
    assert_eq!(rows(&["--no-header"]).lines().count(), 1_000);
    let csv = rows(&["--format", "csv", "--columns", "index,reason", "--where", "index == 5"]);
    assert_eq!(csv, "index,reason\n5,\n");
    let json: Value = serde_json::from_str(&rows(&["--format", "json", "--where", "index == 5"])).unwrap();
    assert_eq!(
        (&json["client"], &json["reason"], &json["status"]),
        (&"10.0.0.6".into(), &Value::Null, &"answered".into())
    );
    let wrong = ldplayer(&["rows", &run, "--where", "latncy > 1s"]);
    assert_eq!((wrong.status.code(), out(&wrong).as_str()), (Some(2), ""));
    assert_eq!(err(&wrong), "ldplayer: --where: column 1: unknown field `latncy`: did you mean `latency`?\n");
    let no_unit = ldplayer(&["rows", &run, "--where", "latency > 10"]);
    assert_eq!(err(&no_unit), "ldplayer: --where: column 11: `10` has no unit: write 10ms or 10s\n");
    assert_eq!(rows(&["--where", "latency > 10 s"]), rows(&["--where", "latency > 10s"]));
}

/// As dnsperf's users copy it, and as programs read it.
#[test]
fn a_run_is_summed_up_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let (list, server) = (names(folder.path()), server());
    let run = folder.path().join("run").to_str().unwrap().to_owned();
    let options = ["--precision", "low", "-o", &run, "--summary", "line"];
    let made = ldplayer(&[&["replay", &list, "--server", &server][..], &options].concat());
    let line = out(&made);
    let begins = line.starts_with("3 of 3 queries answered");
    assert!(
        begins && line.contains("; latency ms: p50 ") && line.contains(", mean ") && line.lines().count() == 1,
        "{line}"
    );
    let summary = |form: &str| out(&ldplayer(&["report", &run, "--summary", form]));
    assert_eq!(summary("line"), line);
    let json: Value = serde_json::from_str(&summary("json")).unwrap();
    let whole: Value = serde_json::from_slice(&fs::read(Path::new(&run).join("run.json")).unwrap()).unwrap();
    let latency = &whole["summary"]["latency_ms"];
    assert_eq!((&json["run"], &json["answered"]), (&run.as_str().into(), &3.into()), "{json}");
    assert_eq!((&json["mean_ms"], &json["p95_ms"]), (&latency["from_sent"]["mean"], &latency["from_sent"]["p95"]));
    assert!(latency["answered_only"]["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{latency}");
    let csv = out(&ldplayer(&["report", &run, &run, "--summary", "csv", "--html", &format!("{run}/both.html")]));
    let [header, first, second] = csv.lines().collect::<Vec<_>>().try_into().unwrap();
    assert!(header.starts_with("run,replay,server_ok,elapsed_s,trace,sent,answered,"), "{header}");
    assert_eq!((first, header.split(',').count()), (second, json.as_object().unwrap().len()));
    assert!(first.contains(",,") && first.ends_with(",NOERROR 3"), "nothing was expected of the server: {first}");
    let experiment = ldplayer(&["replay", &list, "--server", &server, "--summary", "csv", "--json"]);
    assert_eq!(experiment.status.code(), Some(2), "either");
}

#[test]
fn without_arguments_the_commands_for_five_jobs_are_shown() {
    let bare = ldplayer(&[]);
    assert_eq!((bare.status.code(), out(&bare).as_str()), (Some(2), ""));
    assert_eq!(err(&bare).lines().filter(|line| line.starts_with("    ldplayer ")).count(), 5, "{}", err(&bare));
    assert!(err(&bare).lines().all(|line| line.len() <= 80), "{}", err(&bare));
}

#[test]
fn mistakes_in_arguments_are_told_in_one_line_with_the_nearest_word() {
    for (arguments, told) in [
        (
            &["replay", "x", "--tranport", "tcp"][..],
            "ldplayer: unexpected argument '--tranport' found: did you mean `--transport`?",
        ),
        (
            &["replay", "x", "--port", "53"],
            "ldplayer: unexpected argument '--port' found: did you mean `--server ADDR:PORT`?",
        ),
        (
            &["replay", "x", "--duration", "10"],
            "ldplayer: unexpected argument '--duration' found: did you mean `--for`?",
        ),
        (&["replay", "x", "-Q", "10"], "ldplayer: unexpected argument '-Q' found: did you mean `--rate`?"),
        (
            &["replay", "-d", "x", "-s", "127.0.0.1"],
            "ldplayer: unexpected argument '-d' found: did you mean the argument `TRACE`?",
        ),
        (&["replay", "x", "--tls"], "ldplayer: unexpected argument '--tls' found: did you mean `--transport dot`?"),
        (
            &["replay", "x", "--verbose"],
            "ldplayer: unexpected argument '--verbose' found; see `ldplayer replay --help`",
        ),
        (
            &["testbed", "up", "--rtt", "50"],
            "ldplayer: invalid value '50' for '--rtt <SPEC>': `50` has no unit: write 50ms or 50s",
        ),
        (
            &["replay", "x", "--expect", "answered > 99"],
            "ldplayer: invalid value 'answered > 99' for '--expect <EXPR>': column 12: `answered` is held against a share or a count: write 99 % or 99 queries",
        ),
        (&["repaly"], "ldplayer: unrecognized subcommand 'repaly': did you mean `replay`?"),
        (&["zones", "bild"], "ldplayer: unrecognized subcommand 'bild': did you mean `build`?"),
        (
            &["replay", "x", "--rate", "fast"],
            "ldplayer: invalid value 'fast' for '--rate <QPS>': `fast` is no rate: give queries per second, such as 500, 20k or 1.5M",
        ),
        (
            &["report"],
            "ldplayer: the following required arguments were not provided: <RUN>...; see `ldplayer report --help`",
        ),
        (
            &["replay", "x", "--speed", "2", "--rate", "5"],
            "ldplayer: the argument '--speed <X>' cannot be used with '--rate <QPS>'; see `ldplayer replay --help`",
        ),
    ] {
        let refused = ldplayer(arguments);
        assert_eq!((refused.status.code(), err(&refused)), (Some(2), format!("{told}\n")), "{arguments:?}");
    }
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error_and_a_full_disk_is_one_line() {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/l-root-20161006.pcap.xz");
    let bundled = bundled.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (run, _) = run(folder.path());
    let commands = [
        vec!["rows", &run],
        vec!["report", &run],
        vec!["inspect", bundled],
        vec!["convert", bundled, "-o", "-"],
        vec!["completions", "bash"],
        vec!["replay", "--help"],
        vec!["doctor"],
    ];
    for arguments in &commands {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        let mut child = child.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = err(&ended);
        assert!(!said.contains("panicked") && !said.to_lowercase().contains("pipe"), "{arguments:?}: {said}");
        assert!(matches!(ended.status.code(), Some(0 | 1)), "{arguments:?}: {:?} {said}", ended.status);
    }
    for arguments in &commands {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        let ended = child.args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = err(&ended);
        assert!(
            (said.contains("No space left on device") || said.contains("the disk is full"))
                && !said.contains("panicked"),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("ldplayer: standard output: ") && !said.contains("removed"), "{arguments:?}: {said}");
        assert!(
            !ended.status.success() && said.lines().filter(|line| line.starts_with("ldplayer: ")).count() == 1,
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn progress_is_a_line_now_and_then_where_there_is_no_terminal_and_nothing_with_quiet() {
    let folder = tempfile::tempdir().unwrap();
    let list = names(folder.path());
    let server = server();
    let replay = |run: &str, more: &[&str]| {
        let run = folder.path().join(run);
        let options = ["--rate", "20", "--for", "11s", "--precision", "low", "-o", run.to_str().unwrap()];
        ldplayer(&[&["replay", &list, "--server", &server][..], &options, more].concat())
    };
    let (plain, quiet) = thread::scope(|scope| {
        let plain = scope.spawn(|| replay("plain", &[]));
        let quiet = scope.spawn(|| replay("quiet", &["-q"]));
        (plain.join().unwrap(), quiet.join().unwrap())
    });
    let line = err(&plain);
    assert!(line.starts_with("10s of 11s (9"), "{line}");
    assert!(line.contains(" sent, ") && line.contains(" % answered, p50 ") && line.lines().count() == 1, "{line}");
    // On a busy machine the run may be late, which is said.
    let is_late = |line: &str| line.contains("FAILED (99th percentile of the timing error");
    let said = err(&quiet);
    assert!(out(&quiet).is_empty() && said.lines().filter(|line| !is_late(line)).count() == 0, "{said}");
}

#[test]
fn quiet_prints_one_line_where_a_verdict_failed() {
    let folder = tempfile::tempdir().unwrap();
    let (list, run) = (names(folder.path()), folder.path().join("run"));
    let options = ["-q", "--expect", "servfail = 100 %", "--precision", "low", "-o", run.to_str().unwrap()];
    let failed = ldplayer(&[&["replay", &list, "--server", &server()][..], &options].concat());
    assert_eq!((failed.status.code(), out(&failed).as_str()), (Some(1), ""));
    let said = err(&failed);
    assert!(said.starts_with("ldplayer: replay ") && said.contains("server FAILED (answers SERVFAIL 0.00 %"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn an_output_that_exists_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let (list, started) = (names(folder.path()), folder.path().join("started"));
    let command = format!("touch {}", started.display());
    let refused = ldplayer(&["replay", &list, "--start-server", &command, "-o", folder.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        err(&refused).ends_with("exists; choose another directory with -o, or replace the run in it with --force\n")
    );
    assert!(!started.exists());
}

#[test]
fn options_without_effect_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (list, run) = (names(folder.path()), folder.path().join("run"));
    let options = ["--transport", "udp", "--idle-timeout", "3s", "--precision", "low", "-o", run.to_str().unwrap()];
    let made = ldplayer(&[&["replay", &list, "--server", &server()][..], &options].concat());
    let said = err(&made);
    assert!(
        said.starts_with("ldplayer: no effect in this run: --idle-timeout (no query goes over a connection)\n"),
        "{said}"
    );
}

#[test]
fn the_short_help_fits_a_screen_and_the_long_one_has_every_group() {
    let short = out(&ldplayer(&["replay", "-h"]));
    assert!(short.lines().count() <= 50, "{} lines:\n{short}", short.lines().count());
    assert!(short.lines().all(|line| line.chars().count() <= 100), "{short}");
    let long = out(&ldplayer(&["replay", "--help"]));
    for group in ["Target", "Clients", "Timing", "Connections", "TLS and HTTPS", "Output", "Advanced", "Several hosts"]
    {
        assert!(long.contains(&format!("\n{group}:\n")), "{group}");
    }
    // The short help is no other one: what it has, the long one has.
    let options = |text: &str| {
        let options = text.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
        options
            .map(|word| word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned())
            .collect::<std::collections::BTreeSet<String>>()
    };
    assert!(options(&short).is_subset(&options(&long)));
}
