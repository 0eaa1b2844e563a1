//! Writes pages again: of one run, or of several with a page that lays their curves over one another.

use std::path::{Path, PathBuf};

use ldplayer_results::store::RunDir;
use ldplayer_results::{Document, Evaluated, ResultsError, evaluate};
use serde::de::DeserializeOwned;

use crate::page::{self, Laid, write_overlay};

/// Reads a run as [`ldplayer_results::read_document`] does and writes its page again, to `html` when given, else to `report.html` in the run.
///
/// # Errors
/// The directory is not a run directory, a file in it cannot be read, or the page cannot be written.
pub fn rewrite_page<S: DeserializeOwned>(dir: &Path, html: Option<&Path>) -> Result<Document<S>, ResultsError> {
    let Evaluated { document, analysis } = evaluate(dir)?;
    page::write(html.unwrap_or(&RunDir::new(dir).page()), &document.report, &analysis)?;
    Ok(document)
}

/// Reads runs as [`rewrite_page`] does, writes the page of each again, and to `html` one that lays their curves over one another.
///
/// # Errors
/// A directory is not a run directory, a file in it cannot be read, or a page cannot be written.
pub fn rewrite_pages<S: DeserializeOwned>(dirs: &[PathBuf], html: &Path) -> Result<Vec<Document<S>>, ResultsError> {
    let (mut documents, mut laid) = (Vec::new(), Vec::new());
    for (dir, name) in dirs.iter().zip(names(dirs)) {
        let Evaluated { document, analysis } = evaluate::<S>(dir)?;
        page::write(&RunDir::new(dir).page(), &document.report, &analysis)?;
        laid.push(Laid { name, report: document.report.clone(), figures: analysis.figures });
        documents.push(document);
    }
    write_overlay(html, &laid)?;
    Ok(documents)
}

/// What runs are called: the last parts of their paths, as many as tell them apart; the same run given twice is numbered.
pub fn names(dirs: &[PathBuf]) -> Vec<String> {
    let whole: Vec<PathBuf> = dirs.iter().map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.clone())).collect();
    let last = |dir: &Path, parts: usize| -> String {
        let all: Vec<String> = dir.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        all[all.len().saturating_sub(parts)..].join("/")
    };
    let deepest = whole.iter().map(|dir| dir.iter().count()).max().unwrap_or(1);
    let apart = |parts: &usize| {
        let names: Vec<String> = whole.iter().map(|dir| last(dir, *parts)).collect();
        (0..names.len())
            .all(|at| !names[..at].iter().zip(&whole).any(|(name, dir)| *name == names[at] && *dir != whole[at]))
    };
    let parts = (1..=deepest).find(apart).unwrap_or(deepest);
    let mut names: Vec<String> = Vec::new();
    for (at, dir) in whole.iter().enumerate() {
        let before = whole[..at].iter().filter(|other| *other == dir).count();
        let name = last(dir, parts);
        names.push(if before == 0 { name } else { format!("{name} ({})", before + 1) });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_called_by_what_tells_them_apart() {
        let of = |dirs: &[&str]| names(&dirs.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["/runs/nsd", "/runs/knot"]), ["nsd", "knot"]);
        assert_eq!(of(&["/a/nsd/1", "/a/knot/1", "/a/knot/2"]), ["nsd/1", "knot/1", "knot/2"]);
        assert_eq!(of(&["/a/nsd", "/a/nsd"]), ["nsd", "nsd (2)"]);
        assert_eq!(of(&["/"]), ["/"]);
    }
}
