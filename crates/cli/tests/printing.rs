//! What commands print of names that are somebody else's: nothing that a terminal would obey.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A name that would clear the screen, ring, and begin a line of its own.
const NAME: &str = "a\u{1b}[2J\u{7}\nerror: b\u{9b}31m";
/// The same as people read it.
const SHOWN: &str = "a\\u{1b}[2J\\u{7}\\nerror: b\\u{9b}31m";

/// Standard output and error of a command.
fn said(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Whether the text shows the name, and controls nothing.
fn is_printable(text: &str) -> bool {
    text.contains(SHOWN) && !text.chars().any(|one| one.is_control() && one != '\n') && !text.contains("\nerror: b")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn names_of_files_are_escaped_wherever_they_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    let strange = directory.path().join(NAME);
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/l-root-20161006.pcap.xz");
    let (queries, zones) = (directory.path().join(format!("{NAME}.txt")), directory.path().join(format!("{NAME}.d")));
    fs::write(&queries, "www.example.com A\n").unwrap();
    let signed = directory.path().join(format!("{NAME}.s"));
    let set = directory.path().join("set");
    fs::create_dir(&set).unwrap();
    fs::write(set.join(format!("{NAME}.zone")), "$TTL 60\n. SOA a. b. 1 2 3 4 5\n. NS a.\nx. NS b.\n").unwrap();
    let out = directory.path().join("out.tsv");
    let damaged = directory.path().join(format!("{NAME}.pcap"));
    let capture = [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 8], &[255, 255, 0, 0, 101, 0, 0, 0], &[1; 9]];
    fs::write(&damaged, capture.concat()).unwrap();
    for (arguments, what) in [
        (vec!["inspect", text(&strange)], "a file that is missing"),
        (vec!["inspect", text(&damaged)], "a capture that is cut"),
        (vec!["convert", text(&damaged), "-o", text(&out)], "the same, converted"),
        (vec!["zones", "build", text(&queries), "-o", text(&directory.path().join("none"))], "queries alone"),
        (vec!["zones", "build", text(&bundled), "-o", text(&zones)], "a directory of zones"),
        (vec!["zones", "check", text(&set), "--without", "nsd,bind"], "findings"),
        (vec!["zones", "check", text(&strange), "--without", "nsd,bind"], "no set"),
        (vec!["zones", "sign", text(&set), "--seed", "1", "-o", text(&signed)], "a signed set"),
        (vec!["zones", "views", text(&set), "-o", text(&strange)], "a configuration, or why there is none"),
        (vec!["serve", text(&strange)], "no set to serve"),
        (vec!["report", text(&strange)], "no run"),
        (vec!["replay", text(&strange), "--server", "127.0.0.1"], "no trace"),
        (vec!["mutate", text(&strange), "--set", "do=true", "-o", text(&out)], "no trace to change"),
        (vec!["generate", text(&strange), "-o", text(&out)], "no model"),
    ] {
        let text = said(&arguments);
        assert!(is_printable(&text), "{what}: {text:?}");
    }
}

#[test]
fn what_a_zone_file_says_is_escaped_where_it_is_quoted() {
    let set = tempfile::tempdir().unwrap();
    fs::write(set.path().join("x.zone"), "$TTL 60\n. SOA a. b. 1 2 3 4 5\n. NS a.\nx. A \"a\u{1b}[2J\u{7}\"\n")
        .unwrap();
    let text = said(&["zones", "check", text(set.path()), "--without", "nsd,bind"]);
    assert!(text.contains("found `a\\u{1b}[2J\\u{7}`") && !text.contains('\u{1b}'), "{text:?}");
    assert_eq!(said(&["serve", set.path().to_str().unwrap()]).chars().filter(|one| one.is_control()).count(), 1);
}

/// Appends a text to every string of a document.
fn spoil(value: &mut Value, bad: &str) {
    match value {
        Value::String(text) => text.push_str(bad),
        Value::Array(all) => all.iter_mut().for_each(|one| spoil(one, bad)),
        Value::Object(all) => all.values_mut().for_each(|one| spoil(one, bad)),
        _ => {}
    }
}

/// A third of the strings reached the terminal as they were.
#[test]
fn what_a_run_of_somebody_else_says_is_escaped_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let [queries, run] = ["queries.txt", "run"].map(|name| folder.path().join(name));
    fs::write(&queries, "a.example A\nb.example A\n").unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = socket.local_addr().unwrap().to_string();
    // Nobody answers, so that there are warnings and a failed check.
    said(&["replay", text(&queries), "--server", &server, "--query-timeout", "100ms", "--no-probe", "-o", text(&run)]);
    let file = run.join("run.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let bad = "\u{1b}]0;pwn\u{7}\u{202e}";
    // Words of a fixed vocabulary are read, not shown.
    for part in ["started", "warnings", "verdict"] {
        spoil(&mut document[part], bad);
    }
    fs::write(&file, document.to_string()).unwrap();
    let told = said(&["report", text(&run)]);
    assert!(told.contains("\\u{1b}]0;pwn\\u{7}\\u{202e}"), "{told}");
    assert!(!told.chars().any(|one| (one.is_control() && one != '\n') || one == '\u{202e}'), "{told:?}");
}
