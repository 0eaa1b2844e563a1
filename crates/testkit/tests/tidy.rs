//! Every file of the repository keeps the rules of `CONTRIBUTING.md` that can be counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ldplayer_testkit::circles::circles;
use ldplayer_testkit::rules::{Finding, Source, of_any_text, of_manifest};

/// Text that others wrote and that stays as it came.
fn is_foreign(file: &str) -> bool {
    file.ends_with(".min.js")
        || file == "Cargo.lock"
        || file.rsplit('/').next().is_some_and(|name| name.starts_with("LICENSE"))
}

/// The root of the repository: cargo runs a test in its package's folder. Not asked at compile time, since clones may
/// share a build folder.
fn root() -> PathBuf {
    Path::new("../..").canonicalize().unwrap()
}

/// The files under version control that are text, with their contents.
fn files() -> Vec<(String, String)> {
    let root = root();
    // A clone of another user's is refused by git unless it is named safe.
    let safe = format!("safe.directory={}", root.display());
    let output = Command::new("git").arg("-c").arg(safe).args(["ls-files", "-z"]).current_dir(&root).output();
    let output = output.expect("the tidy test asks git for the list of files: install git");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    let names = names.split('\0').filter(|name| !name.is_empty() && !is_foreign(name));
    // A file removed but not yet committed is no file; one that is not UTF-8 is data.
    names.filter_map(|name| Some((name.to_owned(), std::fs::read_to_string(root.join(name)).ok()?))).collect()
}

/// The files of Rust, each with whether it is compiled for tests only.
fn rust(files: &[(String, String)]) -> Vec<(Source<'_>, &str, bool)> {
    let rust = files.iter().filter(|(name, _)| name.ends_with(".rs"));
    let sources: Vec<_> = rust.map(|(name, text)| (Source::new(name, text), name.as_str())).collect();
    let test_modules: Vec<String> = sources.iter().flat_map(|(source, _)| source.test_modules()).collect();
    let is_test = |name: &str| {
        test_modules.iter().any(|module| name == module || (module.ends_with('/') && name.starts_with(module.as_str())))
    };
    sources.into_iter().map(|(source, name)| (source, name, is_test(name))).collect()
}

fn findings(files: &[(String, String)]) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        rust(files).iter().flat_map(|(source, _, is_test)| source.findings(*is_test)).collect();
    found.extend(files.iter().flat_map(|(name, text)| of_any_text(name, text)));
    let manifests = files.iter().filter(|(name, _)| name == "Cargo.toml");
    found.extend(manifests.flat_map(|(name, text)| of_manifest(name, text)));
    found
}

#[test]
fn the_source_is_tidy() {
    let files = files();
    assert!(files.iter().any(|(name, _)| name == "crates/testkit/tests/tidy.rs"), "git lists this file, too");
    let found: Vec<String> = findings(&files).iter().map(Finding::to_string).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn no_modules_of_a_crate_depend_on_each_other_in_a_circle() {
    let files = files();
    let mut crates: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
    for (source, name, is_test) in rust(&files) {
        let Some((folder, path)) = name.split_once("/src/").filter(|_| !is_test) else { continue };
        crates.entry(folder).or_default().push((path, source.code()));
    }
    assert!(crates.len() > 10, "{:?}", crates.keys());
    let found = crates
        .iter()
        .flat_map(|(folder, files)| circles(files).into_iter().map(move |circle| format!("{folder}: {circle}")));
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
