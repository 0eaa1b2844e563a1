//! `scripts/release-notes.py` puts the fragments of `changelog.d/` together, and those of the repository can be put together.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const CHANGELOG: &str = "# Changelog\n\nNewest first.\n\n## 0.1.0 (2026-01-01)\n\n### Added\n\n- Old.\n";

/// A repository with these fragments.
fn repository(fragments: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("CHANGELOG.md"), CHANGELOG).unwrap();
    fs::create_dir(root.path().join("changelog.d")).unwrap();
    fs::write(root.path().join("changelog.d/README.md"), "# Changelog fragments\n").unwrap();
    for (name, text) in fragments {
        fs::write(root.path().join("changelog.d").join(name), text).unwrap();
    }
    root
}

fn notes(root: &Path, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/release-notes.py");
    Command::new("python3").arg(script).arg("--root").arg(root).args(arguments).output().unwrap()
}

/// What it prints; for an error, what it says of it.
fn said(output: &Output) -> (bool, String) {
    let text = if output.status.success() { &output.stdout } else { &output.stderr };
    (output.status.success(), String::from_utf8(text.clone()).unwrap())
}

#[test]
fn fragments_are_grouped_by_kind_in_the_order_of_their_names() {
    let root = repository(&[
        ("zone.fixed.md", "Zones.\n"),
        ("b.added.md", "Two\nlines.\n"),
        ("a.added.md", "First.\n"),
        ("c.removed.md", "Gone.\n"),
    ]);
    let (fine, text) = said(&notes(root.path(), &["0.2.0", "--date", "2026-02-03"]));
    assert!(fine, "{text}");
    let expected = "## 0.2.0 (2026-02-03)\n\n### Added\n\n- First.\n- Two\n  lines.\n\n### Fixed\n\n- Zones.\n\n### Removed\n\n- Gone.\n";
    assert_eq!(text, expected);
    assert!(root.path().join("changelog.d/a.added.md").exists(), "printing removes nothing");
}

#[test]
fn collecting_moves_them_into_the_changelog() {
    let root = repository(&[("a.added.md", "First.\n")]);
    let (fine, text) = said(&notes(root.path(), &["0.2.0", "--date", "2026-02-03", "--collect"]));
    assert!(fine && text.is_empty(), "{text}");
    let changelog = fs::read_to_string(root.path().join("CHANGELOG.md")).unwrap();
    let new = "Newest first.\n\n## 0.2.0 (2026-02-03)\n\n### Added\n\n- First.\n\n## 0.1.0 (2026-01-01)\n";
    assert!(changelog.contains(new), "{changelog}");
    let left: Vec<_> =
        fs::read_dir(root.path().join("changelog.d")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["README.md"]);
    // The notes of a release can be had again.
    let again = said(&notes(root.path(), &["0.2.0"]));
    assert_eq!(again, (true, "## 0.2.0 (2026-02-03)\n\n### Added\n\n- First.\n".to_owned()));
    assert!(said(&notes(root.path(), &["0.3.0"])).1.contains("no fragments"));
}

/// A change that is merged after its release was put together still gets into it, and the summary of the release stays.
#[test]
fn late_fragments_join_their_kind() {
    let root = repository(&[("b.added.md", "Second.\n"), ("a.fixed.md", "Mended.\n")]);
    let old = "## 0.2.0 (2026-02-03)\n\nA summary.\n\n### Added\n\n- First.\n\n### Removed\n\n- Gone.\n";
    let rest = "## 0.1.0 (2026-01-01)\n\n- Old.\n";
    fs::write(root.path().join("CHANGELOG.md"), format!("# Changelog\n\n{old}\n{rest}")).unwrap();
    let (fine, text) = said(&notes(root.path(), &["0.2.0", "--collect"]));
    assert!(fine, "{text}");
    let new = old.replace("- First.\n", "- First.\n- Second.\n\n### Fixed\n\n- Mended.\n");
    let changelog = fs::read_to_string(root.path().join("CHANGELOG.md")).unwrap();
    assert_eq!(changelog, format!("# Changelog\n\n{new}\n{rest}"));
}

#[test]
fn what_is_no_fragment_is_named() {
    for (name, text, complaint) in [
        ("a.improved.md", "Better.\n", "a.improved.md: expected NAME.KIND.md"),
        ("a.md", "Better.\n", "a.md: expected NAME.KIND.md"),
        ("a.added.md", " \n", "a.added.md: expected sentences"),
        ("a.added.md", "# Added\n", "a.added.md: expected sentences"),
    ] {
        let root = repository(&[(name, text)]);
        let (fine, error) = said(&notes(root.path(), &["0.2.0", "--collect"]));
        assert!(!fine && error.contains(complaint), "{error}");
        assert_eq!(fs::read_to_string(root.path().join("CHANGELOG.md")).unwrap(), CHANGELOG);
    }
}

/// A fragment that cannot be put together is found where it is written, and not with the next release.
#[test]
fn the_version_of_this_repository_has_notes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (fine, text) = said(&notes(&root, &[env!("CARGO_PKG_VERSION")]));
    assert!(fine, "{text}");
    assert!(text.starts_with(concat!("## ", env!("CARGO_PKG_VERSION"), " (")), "{text}");
}
