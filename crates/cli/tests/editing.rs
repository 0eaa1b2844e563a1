//! The lines of docs/editing.md, and of the figure in docs/generate.md, do what the pages say on the capture that comes with ldplayer.

#[path = "common/python.rs"]
mod python;

use std::path::Path;
use std::process::Command;

use python::python;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The fenced blocks of the page: their kind and their text.
fn blocks() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/editing.md")).unwrap();
    let fences = page.split("```").skip(1).step_by(2);
    fences.map(|block| block.split_once('\n').unwrap()).map(|(kind, text)| (kind.to_owned(), text.to_owned())).collect()
}

fn run(folder: &Path, mut command: Command, text: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_ldplayer")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let output = command.arg("-c").arg(text).current_dir(folder).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn inspect(folder: &Path, trace: &str) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let output = command.current_dir(folder).args(["inspect", "--json", trace]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_line_does_what_the_page_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::copy(format!("{ROOT}/data/l-root-20161006.pcap.xz"), path.join("capture.pcap.xz")).unwrap();
    let python = python();
    let blocks = blocks();
    assert_eq!(blocks.iter().filter(|(kind, _)| kind == "python").count(), 3);
    let mut said = String::new();
    for (kind, text) in &blocks {
        let mut shell = Command::new("bash");
        shell.arg("-e");
        let command = if kind == "python" { Command::new(&python) } else { shell };
        said.push_str(&run(path, command, text));
    }
    let real = inspect(path, "trace.parquet");
    let queries = &real["queries"];

    let edited = inspect(path, "edited.parquet");
    // A line cannot hold three damaged questions, and a record in a query.
    let held = serde_json::Value::from(queries.as_u64().unwrap() - 4);
    assert_eq!((&edited["queries"], &edited["do"], edited["qtypes"].get("A")), (&held, &held, None));

    let tcp = inspect(path, "all-tcp.parquet");
    assert_eq!((&tcp["do"], &tcp["responses"]), (&tcp["queries"], &real["responses"]));
    let lost = queries.as_u64().unwrap() - tcp["queries"].as_u64().unwrap();
    assert_eq!(lost, 5, "as the page says");
    assert_eq!(tcp["transports"], serde_json::json!({ "tcp": real["transactions"] }));
    assert!(said.contains("0 only in trace.parquet, 0 only in all-tcp.parquet"), "{said}");

    let existing = inspect(path, "existing.parquet");
    assert_eq!(existing["rcodes"].as_object().unwrap().len(), 1);
    assert!(
        existing["rcodes"]["NOERROR"].as_u64() > Some(1_000) && existing["span_s"].as_f64() < Some(6.1),
        "{existing}"
    );
    assert!(existing["clients"].as_u64() <= Some(1_000));

    let cached = inspect(path, "cached.parquet");
    assert_eq!((&cached["damaged"][0]["count"], &cached["responses"]), (&5.into(), &0.into()));
    let udp = real["transports"]["udp"].as_u64().unwrap();
    assert!((udp - 500..udp).contains(&cached["queries"].as_u64().unwrap()), "{}", cached["queries"]);
}

#[test]
fn the_figure_of_a_fitted_model_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(format!("{ROOT}/docs/generate.md")).unwrap();
    let lines = page.rsplit("```sh\n").next().unwrap().split("```").next().unwrap();
    let lines = lines.replace("$(scripts/python.sh)", python().to_str().unwrap());
    let lines = lines.replace("data/", &format!("{ROOT}/data/")).replace("scripts/", &format!("{ROOT}/scripts/"));
    let mut shell = Command::new("bash");
    shell.arg("-e");
    run(folder.path(), shell, &lines);
    let figure = std::fs::read_to_string(folder.path().join("fit.svg")).unwrap();
    assert_eq!(figure.matches("<polyline").count(), 6);
    assert_eq!(figure.matches("<rect").count(), 1 + 2 * 7);
}
