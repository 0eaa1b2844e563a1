//! A run in one file: another host reads it, repeats it and compares, and an anonymised one names nobody.

#[path = "common/command.rs"]
mod command;
#[path = "common/responder.rs"]
mod responder;

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use command::{ldplayer, refusal, text};
use ldplayer_core::{Message, Transaction};
use ldplayer_trace::{Input, OpenOptions, open};
use responder::responder;
use serde_json::Value;

/// Sends each query back as an answer, options included.
fn server() -> String {
    responder(|_| Some(Duration::ZERO))
}

/// Makes `run` out of `trace.parquet`: 40 queries of clients that say their address and a cookie in each.
fn make(folder: &Path, more: &[&str]) {
    let lines: String = (0..40)
        .map(|at| format!("{}\t203.0.{}.77\twww.secret{at}.example.\tA\n", f64::from(at) / 1e3, at % 7))
        .collect();
    fs::write(folder.join("trace.tsv"), format!("time\tsrc\tqname\tqtype\n{lines}")).unwrap();
    let rules = ["--set", "ecs=\"32/56\"", "--set", "cookie=true", "--set", "nsid=true"];
    text(folder, &[&["mutate", "trace.tsv", "-o", "trace.parquet", "--force"], &rules[..]].concat());
    replay(folder, &[&["trace.parquet", "-o", "run", "--keep-responses"], more].concat());
}

/// Whether a busy machine was on time is the verdict's to say.
fn replay(folder: &Path, arguments: &[&str]) {
    let server = server();
    let output = ldplayer(folder, &[&["replay", "--server", &server, "--query-timeout", "1s"], arguments].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { left.push(entry) } else { found.push(entry.strip_prefix(folder).unwrap().to_owned()) }
        }
    }
    found.sort();
    found
}

fn document(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap()
}

fn transactions(file: &Path) -> Vec<Transaction> {
    let mut source = open(&[Input::File(file.to_owned())], &OpenOptions::default()).unwrap();
    let mut all = Vec::new();
    while source.read(&mut all).unwrap() {}
    all
}

#[test]
fn another_host_reads_repeats_and_compares_an_archived_run() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, other) = (here.path(), there.path());
    make(path, &[]);
    text(path, &["archive", "run", "-o", "a.tar.zst"]);
    let line = text(path, &["archive", "run"]);
    assert!(line.starts_with("archive: run.tar.zst (") && line.contains(" files, "), "{line}");
    assert_eq!(fs::read(path.join("a.tar.zst")).unwrap(), fs::read(path.join("run.tar.zst")).unwrap());
    fs::rename(path.join("run.tar.zst"), other.join("run.tar.zst")).unwrap();
    let before: Vec<PathBuf> = files(&path.join("run"));
    let page = fs::read(path.join("run/report.html")).unwrap();
    drop(here);

    assert_eq!(text(other, &["archive", "--extract", "run.tar.zst", "-o", "theirs"]), "run: theirs\n");
    let mut after = files(&other.join("theirs"));
    after.retain(|file| !file.starts_with("trace"));
    assert_eq!(after, before);
    assert_eq!(fs::read(other.join("theirs/report.html")).unwrap(), page, "the page is the one that was made");
    let names = text(other, &["rows", "theirs", "--columns", "index,qname", "--where", "index == 3"]);
    assert!(names.contains("3\twww.secret3.example."), "{names}");
    // Where the run is now is where its trace is, from wherever it is named.
    fs::create_dir(other.join("deeper")).unwrap();
    replay(&other.join("deeper"), &["--again", "../theirs", "-o", "mine"]);
    let compared = ldplayer(other, &["compare", "theirs", "deeper/mine", "--with-unfaithful"]);
    let compared = [compared.stdout, compared.stderr].concat();
    let compared = String::from_utf8(compared).unwrap();
    assert!(compared.contains("p50") && !compared.contains("not like with like: trace"), "{compared}");
    assert_eq!(document(&other.join("deeper/mine"))["summary"]["queries"]["trace"], 40);
    // An archive of what came out of one is one, too.
    text(other, &["archive", "theirs"]);
    text(other, &["archive", "--extract", "theirs.tar.zst", "-o", "again"]);
    assert_eq!(files(&other.join("again")), files(&other.join("theirs")));
}

#[test]
fn an_anonymised_archive_has_no_address_of_a_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    make(path, &[]);
    text(path, &["archive", "run", "--anonymise"]);
    text(path, &["archive", "--extract", "run.tar.zst", "-o", "out"]);
    let (before, after) =
        (transactions(&path.join("trace.parquet")), transactions(&path.join("out/trace/trace.parquet")));
    let answers = transactions(&path.join("out/responses.parquet"));
    assert_eq!((before.len(), after.len(), answers.len()), (40, 40, 40));
    let clients: Vec<IpAddr> = before.iter().map(|transaction| transaction.client.ip()).collect();
    for (was, is) in before.iter().zip(&after) {
        let questions =
            [was, is].map(|row| Message::new(row.query.as_ref().unwrap()).unwrap().question().unwrap().name.to_vec());
        assert_eq!(questions[0], questions[1]);
        assert_eq!((was.time, was.message_octets()), (is.time, is.message_octets()));
        assert_eq!(
            before.iter().position(|row| row.client == was.client),
            after.iter().position(|row| row.client == is.client)
        );
    }
    for row in after.iter().chain(&answers) {
        assert!(!clients.contains(&row.client.ip()));
        for message in [&row.query, &row.response].into_iter().flatten() {
            assert!(!message.windows(3).any(|octets| octets == [203, 0, 0] || octets == [203, 0, 3]), "{message:x?}");
        }
    }
    let rows = text(path, &["rows", "out", "--columns", "client,qname"]);
    let client = after[5].client.ip().to_string();
    assert!(
        rows.contains(&format!("{client}\twww.secret5.example.")),
        "rows and trace have the same pseudonyms: {rows}"
    );
    let page = fs::read_to_string(path.join("out/report.html")).unwrap();
    let shown = [document(&path.join("out")).to_string(), page, rows].concat();
    assert!(!shown.contains("203.0.") && shown.contains("secret"), "names stay");
    let listed = document(&path.join("run"))["summary"]["names"]["joined"].clone();
    assert_eq!((document(&path.join("out"))["summary"]["names"]["joined"].clone(), listed), (40.into(), 40.into()));
}

#[test]
fn the_same_key_gives_the_same_pseudonyms_and_another_run_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    make(path, &[]);
    fs::write(path.join("key"), format!("{}\n", "0f".repeat(32))).unwrap();
    let packed = |name: &str, more: &[&str]| {
        text(path, &[&["archive", "run", "--anonymise", "-o", name], more].concat());
        fs::read(path.join(name)).unwrap()
    };
    let keyed = packed("a.tar.zst", &["--key", "key"]);
    assert_eq!(keyed, packed("b.tar.zst", &["--key", "key"]));
    assert_ne!(packed("c.tar.zst", &[]), packed("d.tar.zst", &[]));
    fs::write(path.join("key"), "0f").unwrap();
    let line = refusal(path, &["archive", "run", "--anonymise", "--key", "key", "-o", "e.tar.zst"]);
    assert!(line.contains("key: a key is 64 hexadecimal digits"), "{line}");
}

#[test]
fn an_archive_without_names_has_no_name_of_a_query() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    make(path, &[]);
    fs::remove_file(path.join("trace.parquet")).unwrap();
    text(path, &["archive", "run", "--without-names"]);
    text(path, &["archive", "--extract", "run.tar.zst", "-o", "out"]);
    let names: Vec<String> = files(&path.join("out")).iter().map(|file| file.display().to_string()).collect();
    let others: Vec<&String> = names.iter().filter(|name| !name.starts_with("queries/")).collect();
    assert_eq!(others, ["report.html", "run.json", "telemetry.parquet"]);
    let page = fs::read_to_string(path.join("out/report.html")).unwrap();
    assert!(![document(&path.join("out")).to_string(), page].concat().contains("secret"));
    // Its status is the run's verdict.
    let report = ldplayer(path, &["report", "out", "--summary", "line"]);
    assert!(matches!(report.status.code(), Some(0 | 1)) && report.stdout.starts_with(b"40 of 40 queries answered"));
}

#[test]
fn a_trace_that_is_gone_or_another_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    make(path, &[]);
    fs::rename(path.join("trace.parquet"), path.join("moved.parquet")).unwrap();
    let line = refusal(path, &["archive", "run"]);
    assert!(
        line.contains("No such file") && line.contains("--trace FILE; --without-names leaves the trace out"),
        "{line}"
    );
    let line = refusal(path, &["archive", "run", "--trace", "trace.tsv"]);
    assert!(line.contains("trace.tsv has another size than it had in the run"), "{line}");
    text(path, &["archive", "run", "--trace", "moved.parquet"]);
    let line = refusal(path, &["archive", "run", "--trace", "moved.parquet"]);
    assert!(line.contains("run.tar.zst: exists; choose another name with -o, or replace it with --force"), "{line}");
    text(path, &["archive", "run", "--trace", "moved.parquet", "--force"]);
    assert_eq!(
        fs::read_dir(path)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'))
            .count(),
        0
    );
}

#[test]
fn rules_that_speak_of_clients_are_in_no_anonymised_archive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("r.toml"), "[[rule]]\nwhere = 'client == 203.0.1.77'\ndo = true\n").unwrap();
    make(path, &["--rules", "r.toml"]);
    let line = refusal(path, &["archive", "run", "--anonymise"]);
    assert!(line.contains("its rules speak of clients"), "{line}");
    text(path, &["archive", "run"]);
}

#[test]
fn an_archive_in_place_of_a_run_directory_is_told_how_to_unpack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    make(path, &[]);
    text(path, &["archive", "run"]);
    for arguments in [
        &["report", "run.tar.zst"][..],
        &["rows", "run.tar.zst"],
        &["compare", "run", "run.tar.zst"],
        &["replay", "--again", "run.tar.zst"],
    ] {
        let line = refusal(path, arguments);
        assert!(line.contains("unpack it: ldplayer archive --extract run.tar.zst"), "{arguments:?}: {line}");
    }
    let line = refusal(path, &["archive", "--extract", "run.tar.zst"]);
    assert!(line.contains("run: exists; choose another name with -o"), "{line}");
}

#[test]
fn files_behind_links_in_a_run_are_not_packed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    make(path, &[]);
    fs::write(path.join("private"), "of the user").unwrap();
    fs::remove_file(path.join("run/telemetry.parquet")).unwrap();
    std::os::unix::fs::symlink(path.join("private"), path.join("run/telemetry.parquet")).unwrap();
    let line = refusal(path, &["archive", "run"]);
    assert!(line.contains("telemetry.parquet: is not a file, so it is not packed"), "{line}");
}

#[test]
fn an_archive_of_damaged_rows_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    make(path, &[]);
    let rows = files(&path.join("run/queries")).pop().unwrap();
    let file = fs::OpenOptions::new().write(true).open(path.join("run/queries").join(&rows)).unwrap();
    file.set_len(file.metadata().unwrap().len() - 100).unwrap();
    let output = ldplayer(path, &["archive", "run"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("damaged; the archive has it as it is"), "{said}");
    text(path, &["archive", "--extract", "run.tar.zst", "-o", "again"]);
    assert_eq!(files(&path.join("again/queries")), [rows]);
}
