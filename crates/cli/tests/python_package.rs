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

/// A stage of `scripts/package.sh` whose binary calls the one under test.
fn staged(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (stage, man) = (folder.join("stage"), folder.join("share/man/man1"));
    std::fs::create_dir_all(&stage).unwrap();
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_ldplayer"));
    std::fs::write(stage.join("ldplayer"), script).unwrap();
    std::fs::write(stage.join("THIRD-PARTY"), "licenses of libraries\n").unwrap();
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        std::fs::copy(root.join(name), stage.join(name)).unwrap();
    }
    called(Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(["man", "--out"]).arg(&man));
}

/// What a program prints, where it succeeds.
fn called(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_wheel_installs_program_package_and_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    staged(path);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/wheel.py");
    let made = |out: &str| {
        std::fs::create_dir(path.join(out)).unwrap();
        let mut command = Command::new(python::python());
        command
            .current_dir(path)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .args([script, "stage", "share", out, "x86_64"]);
        called(&mut command).trim_end().to_owned()
    };
    let (wheel, again) = (made("a"), made("b"));
    let name = format!("ldplayer_dns-{}-py3-none-manylinux2014_x86_64.", env!("CARGO_PKG_VERSION"));
    assert!(wheel.starts_with(&format!("a/{name}")), "{wheel}");
    assert_eq!(std::fs::read(path.join(&wheel)).unwrap(), std::fs::read(path.join(again)).unwrap());

    called(Command::new(python::python()).current_dir(path).args(["-m", "venv", "venv"]));
    let in_venv = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(path.join("venv/bin").join(program));
        called(command.current_dir(path).env_remove("LDPLAYER").env_remove("PYTHONPATH").args(arguments))
    };
    in_venv("pip", &["install", "--quiet", "--disable-pip-version-check", "--no-index", &wheel]);
    let said = in_venv("python", &["-c", "import ldplayer; print(ldplayer.version(), ldplayer.__file__)"]);
    assert!(said.starts_with(env!("CARGO_PKG_VERSION")) && said.contains("site-packages/ldplayer/"), "{said}");
    assert!(path.join("venv/share/man/man1/ldplayer-replay.1").exists());
    let shown = in_venv("pip", &["show", "--disable-pip-version-check", "--verbose", "ldplayer-dns"]);
    assert!(shown.contains("Typing :: Typed"), "{shown}");
    in_venv("pip", &["uninstall", "--quiet", "--yes", "--disable-pip-version-check", "ldplayer-dns"]);
    assert!(!path.join("venv/bin/ldplayer").exists() && !path.join("venv/share/man/man1/ldplayer-replay.1").exists());
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
