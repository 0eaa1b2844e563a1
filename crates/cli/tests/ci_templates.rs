//! The templates for continuous integration hold an experiment that this release reads.

use std::fs;
use std::path::Path;
use std::process::Command;

const TEMPLATES: [&str; 2] = ["github.yml", "gitlab.yml"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The lines of the experiment that a template's shell writes, without the template's indent.
fn experiment(template: &str) -> String {
    let text = fs::read_to_string(root().join("data/ci").join(template)).unwrap();
    let mut lines = text.lines().skip_while(|line| !line.contains("cat >gate.toml <<GATE"));
    let first = lines.next().unwrap();
    let indent = first.len() - first.trim_start().len();
    let lines = lines.take_while(|line| line.trim() != "GATE");
    lines.map(|line| line.get(indent..).unwrap_or("").to_owned() + "\n").collect()
}

/// What the shell makes of it.
fn filled_in(text: &str, server: &str) -> String {
    let data = root().join("data").canonicalize().unwrap();
    let at = |name: &str| data.join(name).display().to_string();
    text.replace("$CAPTURE", &at("l-root-20161006.pcap.xz"))
        .replace("$ZONES", &at("root-2016100801.zone.xz"))
        .replace("../base/$PROGRAM", server)
        .replace("$PROGRAM", server)
        .replace("$KIND", "meta")
}

#[test]
fn their_experiment_is_read_and_planned() {
    let folder = tempfile::tempdir().unwrap();
    let ldplayer = env!("CARGO_BIN_EXE_ldplayer");
    for template in TEMPLATES {
        let file = folder.path().join("gate.toml");
        let text = filled_in(&experiment(template), ldplayer);
        assert!(!text.contains('$'), "{template}: a variable that the page does not name: {text}");
        fs::write(&file, text).unwrap();
        let planned = Command::new(ldplayer).args(["experiment", "--dry-run"]).arg(&file).output().unwrap();
        let (said, error) = (String::from_utf8_lossy(&planned.stdout), String::from_utf8_lossy(&planned.stderr));
        assert!(planned.status.success(), "{template}: {error}");
        assert!(said.contains("server=base") && said.contains("server=change"), "{template}: {said}");
    }
}

#[test]
fn they_measure_the_same() {
    let [one, other] = TEMPLATES.map(experiment);
    assert_eq!(one, other);
}

#[test]
fn the_page_names_every_variable() {
    let page = fs::read_to_string(root().join("docs/ci.md")).unwrap();
    for name in ["LDPLAYER", "BUILD", "PROGRAM", "KIND", "CAPTURE", "ZONES"] {
        assert!(page.contains(&format!("`{name}`")), "docs/ci.md: {name}");
        for template in TEMPLATES {
            let text = fs::read_to_string(root().join("data/ci").join(template)).unwrap();
            assert!(text.contains(&format!("{name}: ")), "{template}: {name}");
        }
    }
}
