//! `ldplayer generate` and `ldplayer fit` as a user meets them.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const L_ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/l-root-20161006.pcap.xz");
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/clients-20160629.pcap.xz");
const ROOT_ZONE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/root-2016100801.zone.xz");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/generate.md");

fn ldplayer(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.current_dir(directory).args(args).stdin(Stdio::null()).output().unwrap()
}

fn succeed(directory: &Path, args: &[&str]) -> String {
    let output = ldplayer(directory, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refuse(directory: &Path, args: &[&str]) -> String {
    let output = ldplayer(directory, args);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), line.trim_end().lines().count()), (Some(2), 1), "{line}");
    line
}

fn inspect(directory: &Path, trace: &str) -> serde_json::Value {
    serde_json::from_str(&succeed(directory, &["inspect", "--json", trace])).unwrap()
}

fn number(summary: &serde_json::Value, key: &str) -> f64 {
    summary[key].as_f64().unwrap_or_else(|| panic!("{key}: {}", summary[key]))
}

/// The writer fails while other threads still make row groups; none of them may wait for it.
#[test]
fn a_parquet_file_that_cannot_grow_ends_with_one_line_and_no_file() {
    let directory = tempfile::tempdir().unwrap();
    // A file larger than the limit (in kilobytes) is an error where the signal is ignored.
    let script = format!(
        "trap '' XFSZ; ulimit -f 500; exec '{}' generate resolver -o a.parquet --queries 900000 --seed 5",
        env!("CARGO_BIN_EXE_ldplayer")
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), line.trim_end().lines().count()), (Some(2), 1), "{line}");
    assert!(line.contains("a.parquet") && line.contains("File too large"), "{line}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_preset_is_written_in_every_format_and_is_repeatable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for format in ["parquet", "pcap", "tsv"] {
        let make = |name: &str| {
            let name = format!("{name}.{format}");
            succeed(path, &["generate", "resolver", "-o", &name, "--queries", "2000", "--seed", "5"]);
            fs::read(path.join(name)).unwrap()
        };
        assert!(make("a") == make("b"), "{format}");
        assert_eq!(inspect(path, &format!("a.{format}"))["queries"], 2_000);
    }
}

#[test]
fn options_take_the_place_of_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["--qps", "2k", "--clients", "50", "--duration", "2s"];
    succeed(directory.path(), &[&["generate", "poisson", "-o", "a.parquet"], &args[..]].concat());
    let summary = inspect(directory.path(), "a.parquet");
    assert_eq!(summary["clients"], 50);
    assert!((3_800.0..4_200.0).contains(&number(&summary, "queries")) && number(&summary, "span_s") < 2.0);
}

#[test]
fn the_documented_model_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(PAGE).unwrap();
    let model = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(directory.path().join("model.toml"), model).unwrap();
    succeed(directory.path(), &["generate", "model.toml", "-o", "a.parquet", "--duration", "4s"]);
    let summary = inspect(directory.path(), "a.parquet");
    assert_eq!(&summary["first"].as_str().unwrap()[..19], "2016-10-06T13:55:00");
    let queries = number(&summary, "queries");
    assert!((19_000.0..21_000.0).contains(&queries));
    assert!((0.35..0.45).contains(&(number(&summary, "edns") / queries)), "{summary}");
}

#[test]
fn a_printed_preset_is_the_model_itself() {
    let directory = tempfile::tempdir().unwrap();
    let text = succeed(directory.path(), &["generate", "root-like", "--print"]);
    assert!(text.contains("# Published (ISI-TR-722)") && text.contains("# Assumed"));
    fs::write(directory.path().join("mine.toml"), text).unwrap();
    for spec in ["root-like", "mine.toml"] {
        let args = ["generate", spec, "-o", "-", "--queries", "200", "--clients", "1000"];
        assert_eq!(succeed(directory.path(), &args).lines().count(), 201);
    }
}

/// Names with types that were asked for before, as a share of the queries.
fn asked_before(path: &Path, trace: &str) -> f64 {
    let text = succeed(path, &["convert", trace, "-o", "-"]);
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let (name, kind) = (at("qname"), at("qtype"));
    let mut seen = HashSet::new();
    let mut count = [0, 0];
    for line in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        count[usize::from(!seen.insert((cells[name].to_lowercase(), cells[kind].to_owned())))] += 1;
    }
    f64::from(count[1]) / f64::from(count[0] + count[1])
}

/// Types are drawn with names, and names that do not exist are asked for again, too.
#[test]
fn a_twin_of_a_capture_hits_a_cache_as_often() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for capture in [L_ROOT, CLIENTS] {
        succeed(path, &["fit", capture, "-o", "model.toml", "--force"]);
        succeed(path, &["generate", "model.toml", "-o", "a.parquet", "--force"]);
        let (real, made) = (asked_before(path, capture), asked_before(path, "a.parquet"));
        assert!((made - real).abs() < 0.01, "{capture}: {real} in the capture, {made} made");
    }
}

/// The share of answers that `ldplayer serve` gives with NXDOMAIN for names of `root-like` traffic is what the model says.
#[test]
fn root_like_traffic_asks_for_zones_that_there_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("own.zone"), ". 60 SOA . . 1 2 3 4 5\n. 60 NS ns.\nown. 60 NS ns.\nxn--a. 60 NS ns.\n")
        .unwrap();
    let share = |more: &[&str], delegated: &dyn Fn(&str) -> bool| {
        let text = succeed(
            path,
            &[&["generate", "root-like", "-o", "-", "--queries", "5000", "--clients", "1000"], more].concat(),
        );
        let names: Vec<&str> =
            text.lines().skip(1).map(|line| line.split('\t').find(|cell| cell.ends_with('.')).unwrap()).collect();
        let there =
            names.iter().filter(|name| delegated(name.trim_end_matches('.').rsplit('.').next().unwrap())).count();
        there as f64 / names.len() as f64
    };
    let root = top_level_domains(path);
    let is_near = |share: f64| (share - 0.4).abs() < 0.02;
    let of_bundled = share(&[], &|tld| root.contains(tld));
    assert!(is_near(of_bundled), "{of_bundled}");
    let of_own = share(&["--zone", "own.zone"], &|tld| ["own", "xn--a"].contains(&tld));
    assert!(is_near(of_own), "{of_own}");
    let refused = refuse(path, &["generate", "root-like", "-o", "-", "--queries", "5", "--duration", "5s"]);
    assert!(refused.contains("cannot be used with"), "{refused}");
}

/// What the bundled root zone delegates.
fn top_level_domains(path: &Path) -> HashSet<String> {
    let zone = path.join("root.zone.xz");
    fs::copy(ROOT_ZONE, &zone).unwrap();
    assert!(Command::new("xz").arg("-d").arg(&zone).status().unwrap().success());
    let text = fs::read_to_string(path.join("root.zone")).unwrap();
    let cuts = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(3) == Some(&"NS")).then(|| words[0].trim_end_matches('.').to_owned())
    });
    cuts.filter(|name| !name.is_empty()).collect()
}

#[test]
fn a_model_of_a_real_capture_makes_a_trace_like_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    succeed(path, &["fit", L_ROOT, "-o", "model.toml"]);
    succeed(path, &["generate", "model.toml", "-o", "a.parquet"]);
    let (real, made) = (inspect(path, L_ROOT), inspect(path, "a.parquet"));
    for (key, within) in [
        ("queries", 0.04),
        ("clients", 0.10),
        ("edns", 0.08),
        ("do", 0.08),
        ("unique_qnames", 0.15),
        ("qps_peak", 0.35),
    ] {
        let (real, made) = (number(&real, key), number(&made, key));
        assert!((made / real - 1.0).abs() < within, "{key}: {real} in the capture, {made} made");
    }
    for (table, key) in
        [("transports", "udp"), ("families", "ipv6"), ("qtypes", "A"), ("qtypes", "AAAA"), ("qtypes", "DS")]
    {
        let share = |summary: &serde_json::Value| number(&summary[table], key) / number(summary, "queries");
        let (real, made) = (share(&real), share(&made));
        assert!((made - real).abs() < 0.02, "{table} {key}: {real} in the capture, {made} made");
    }
    succeed(path, &["generate", "model.toml", "-o", "b.parquet", "--clients", "50k", "--qps", "400"]);
    assert!((23_000.0..25_000.0).contains(&number(&inspect(path, "b.parquet"), "queries")));
    assert!(refuse(path, &["fit", L_ROOT, "-o", "model.toml"]).contains("already exists"));
}

#[test]
fn wrong_usage_gets_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    assert!(refuse(path, &["generate", "sny-0", "-o", "a.tsv"]).contains("nor one of syn-0, syn-1"));
    assert!(refuse(path, &["generate", "syn-0", "-o", "a.tsv", "--clients", "9M"]).contains("8000000 at most"));
    assert!(
        refuse(path, &["generate", "poisson", "-o", "a.tsv", "--duration", "1ns"])
            .contains("ends before its first query")
    );
    fs::write(path.join("bad.toml"), "queries = 5\n[clients]\ncuont = 3\n").unwrap();
    let line = refuse(path, &["generate", "bad.toml", "-o", "a.tsv"]);
    assert!(line.contains("bad.toml: line 3: unknown key `cuont`: did you mean `count`?"), "{line}");
    assert!(refuse(path, &["fit", "bad.toml", "-o", "m.toml"]).contains("bad.toml"));
}

#[test]
fn help_has_an_example() {
    let directory = tempfile::tempdir().unwrap();
    for command in ["generate", "fit"] {
        assert!(succeed(directory.path(), &[command, "--help"]).contains(&format!("Examples:\n  ldplayer {command} ")));
    }
}
