//! The figures of experiments/: their files are read in both forms, and a small one is made, drawn and judged.

#[path = "common/python.rs"]
mod python;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use python::python;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs Python with the package of the figures, on the figures of a folder.
fn figures(folder: &str, arguments: &[&str]) -> Output {
    let binaries = Path::new(env!("CARGO_BIN_EXE_ldplayer")).parent().unwrap();
    Command::new(python())
        .current_dir(ROOT)
        .env("PYTHONPATH", "experiments")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LDPLAYER_EXPERIMENTS", folder)
        .env("LDPLAYER_BINARIES", binaries)
        .args(["-m", "figures"])
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn every_figure_can_be_read_and_planned_in_both_forms() {
    let checked = figures("experiments", &["--check"]);
    assert!(checked.status.success(), "{}", said(&checked));
    let listed = said(&figures("experiments", &["--list"]));
    let folders = fs::read_dir(format!("{ROOT}/experiments")).unwrap().map(|entry| entry.unwrap());
    for folder in folders.filter(|folder| folder.path().join("figure.py").exists()) {
        let name = folder.file_name().into_string().unwrap();
        assert!(listed.contains(&name), "{name} is not among:\n{listed}");
    }
}

#[test]
fn a_file_that_is_no_experiment_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = folder.path().join("tiny");
    fs::create_dir(&tiny).unwrap();
    fs::copy(format!("{ROOT}/crates/cli/tests/figures/tiny/figure.py"), tiny.join("figure.py")).unwrap();
    fs::write(tiny.join("experiment.toml"), "version = 1\ntrase = 'x'\n").unwrap();
    let checked = figures(folder.path().to_str().unwrap(), &["--check"]);
    let said = said(&checked);
    assert!(
        !checked.status.success() && said.contains("tiny: experiment.toml, full form") && said.contains("trase"),
        "{said}"
    );
    assert!(said.contains("tiny: no about.md"), "{said}");
}

#[test]
fn a_figure_is_made_in_its_small_form_and_each_claim_is_judged() {
    let out = tempfile::tempdir().unwrap();
    let made = figures(
        "crates/cli/tests/figures",
        &["tiny", "--output", out.path().to_str().unwrap(), "--publish", out.path().join("docs").to_str().unwrap()],
    );
    assert!(made.status.success(), "{}", said(&made));
    let folder = out.path().join("tiny");
    for file in ["answers.svg", "answers.png", "answers.csv", "claims.json", "experiment.toml", "runs/report.html"] {
        assert!(folder.join(file).metadata().is_ok_and(|file| file.len() > 0), "{file}");
    }
    let overview = fs::read_to_string(out.path().join("README.md")).unwrap();
    let rows: Vec<&str> = overview.lines().filter(|line| line.starts_with("| [a test](tiny/README.md)")).collect();
    let ends = [
        "| as many \\| answers | 1 | 1 times | yes |  |",
        "| no | they do not |",
        "| not decided | no server here speaks it |",
        "| holds | asked here |",
        "| does not hold | asked here, too |",
        "| no claim | a figure |",
    ];
    assert_eq!(rows.len(), ends.len(), "{overview}");
    for (row, end) in rows.iter().zip(ends) {
        assert!(row.ends_with(end), "{row}");
    }
    let published = fs::read_to_string(out.path().join("docs/tiny.md")).unwrap();
    assert!(published.contains("(pictures/tiny-answers.png)"), "{published}");
    assert!(out.path().join("docs/pictures/tiny-answers.png").exists() && out.path().join("docs/README.md").exists());
    let page = fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(
        page.contains("![answers](answers.svg)") && page.contains("make figures ONLY=tiny") && page.contains("Linux"),
        "{page}"
    );
    let runs = fs::read_dir(folder.join("runs"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().contains("transport="));
    assert_eq!(runs.count(), 2, "the small form has two cells");
}

#[test]
fn a_name_of_no_figure_is_refused_with_those_there_are() {
    let refused = figures("crates/cli/tests/figures", &["tinny"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("no figure is called tinny; there are tiny"), "{}", said(&refused));
}

#[test]
fn intervals_and_claims_say_what_they_may() {
    let tested = Command::new(python())
        .current_dir(ROOT)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-m", "unittest", "discover", "-s", "experiments/figures", "-t", "experiments", "-p", "test_*.py"])
        .output()
        .unwrap();
    assert!(tested.status.success(), "{}", said(&tested));
    assert!(!said(&tested).contains("Ran 0 tests"), "{}", said(&tested));
}
