//! Every link of the pages leads somewhere, and the book has every page of `docs/`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ldplayer_testkit::links::{broken, unlisted};

/// Folders whose pages are read. Below `experiments` are parts of pages, with links as the whole page needs them.
const FOLDERS: [&str; 5] = ["", "data", "deploy", "changelog.d", "experiments"];

/// The root of the repository: cargo runs a test in its package's folder.
fn root() -> PathBuf {
    Path::new("../..").canonicalize().unwrap()
}

/// The Markdown files of a folder, and with `deep` those of the folders in it.
fn files(folder: &Path, deep: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if deep && path.is_dir() {
            found.extend(files(&path, deep));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// All pages by their paths from the root.
fn pages() -> BTreeMap<String, String> {
    let root = root();
    let mut paths = files(&root.join("docs"), true);
    paths.extend(FOLDERS.iter().flat_map(|folder| files(&root.join(folder), false)));
    let page = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(page).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    assert!(pages.contains_key("README.md") && pages.contains_key("docs/papers/README.md"));
    let found: Vec<String> = broken(&root(), &pages).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn the_book_has_every_page() {
    let pages = pages();
    let of_docs: Vec<String> = pages.keys().filter_map(|name| Some(name.strip_prefix("docs/")?.to_owned())).collect();
    let missing = unlisted(&pages["docs/SUMMARY.md"], of_docs.iter().filter(|page| *page != "SUMMARY.md"));
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
}
