//! The Python package, tested by its own tests against this binary.

#[path = "common/python.rs"]
mod python;

use std::path::Path;
use std::process::Command;

/// Runs the cells of a notebook in its folder.
const RUN: &str = "import sys, nbclient, nbformat\n\
                   notebook = nbformat.read(sys.argv[1], 4)\n\
                   nbclient.NotebookClient(notebook, timeout=300).execute()\n\
                   nbformat.write(notebook, sys.argv[2])\n";

#[test]
fn the_tutorial_leads_to_a_figure() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = tempfile::tempdir().unwrap();
    let docs = place.path().join("docs");
    std::fs::create_dir(&docs).unwrap();
    std::os::unix::fs::symlink(root.join("data").canonicalize().unwrap(), place.path().join("data")).unwrap();
    let output = Command::new(python::python())
        .args(["-c", RUN])
        .arg(root.join("docs/tutorial.ipynb").canonicalize().unwrap())
        .arg("done.ipynb")
        .current_dir(&docs)
        .env("PYTHONPATH", root.join("python").canonicalize().unwrap())
        .env("LDPLAYER", env!("CARGO_BIN_EXE_ldplayer"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let done = std::fs::read_to_string(docs.join("done.ipynb")).unwrap();
    for part in
        ["image/svg+xml", "99th percentile", "10,432 queries of 2,491 clients", "latency-cdf: Latency, cumulative."]
    {
        assert!(done.contains(part), "{part}");
    }
    for file in ["latency-cdf.pdf", "latency-cdf.csv"] {
        assert!(docs.join("figures").join(file).exists(), "{file}");
    }
}

#[test]
fn the_python_package_is_typed() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/ldplayer");
    let cache = tempfile::tempdir().unwrap();
    let output = Command::new(python::python())
        .args(["-m", "mypy", "--strict", "--cache-dir"])
        .args([cache.path(), &package])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_python_package_does_what_its_tests_say() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let output = Command::new(python::python())
        .args(["-W", "error::ResourceWarning", "-m", "unittest", "discover", "--start-directory"])
        .arg(package.join("tests"))
        .env("PYTHONPATH", &package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LDPLAYER", env!("CARGO_BIN_EXE_ldplayer"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("\nOK"), "{said}");
    assert!(said.contains("\nRan 1"), "more than ten tests ran: {said}");
}
