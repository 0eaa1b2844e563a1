//! A cell of the matrix: a run, its stage, and the keys and values that identify it.

use std::path::PathBuf;

use ldplayer_core::time::Span;
use ldplayer_run::RunSpec;
use ldplayer_trace::Input;
use serde::Serialize;

use crate::contents::{Contents, build, digest};
use crate::stage::Stage;

/// Maximum length of a directory name, in octets.
const LONGEST_NAME: usize = 120;

/// A cell of the matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The name of the cell and of its directory.
    pub name: String,
    /// The values of the matrix keys.
    pub keys: Vec<(String, String)>,
    /// The run. Its server is filled in once it has been started.
    pub spec: RunSpec,
    /// The stage of the run.
    pub stage: Stage,
}

/// What else of an experiment identifies its runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    /// How much of the trace is replayed before a run counts.
    pub warm_up: Option<Span>,
    /// The model that the trace is made of, as text.
    pub model: Option<&'a str>,
}

/// Everything that identifies a run.
#[derive(Serialize)]
struct Meaning<'a> {
    spec: &'a RunSpec,
    stage: &'a Stage,
    warm_up_ns: i64,
    model: Option<&'a str>,
    files: Vec<String>,
    programs: Vec<String>,
}

impl Cell {
    /// A digest of everything the cell means: files count by their content, programs by their build time.
    pub(crate) fn digest(&self, around: &Around<'_>, contents: &mut Contents) -> String {
        let traces = self.spec.trace.iter().filter_map(|word| match Input::from(word.as_str()) {
            Input::File(path) => Some(path),
            _ => None,
        });
        let files: Vec<PathBuf> = traces.chain(self.spec.tls_ca.clone()).chain(self.stage.files()).collect();
        let meaning = Meaning {
            spec: &self.spec,
            stage: &self.stage,
            warm_up_ns: around.warm_up.map_or(0, |span| span.ns()),
            model: around.model,
            files: files.iter().map(|path| contents.of(path)).collect(),
            programs: self.stage.programs().iter().map(|path| build(path)).collect(),
        };
        // Types of ours, with text for keys: they are JSON.
        let text = serde_json::to_vec(&meaning).unwrap_or_default();
        digest(&text)
    }
}

/// The name of a cell's directory: its keys and values, with unsafe characters replaced.
pub(crate) fn directory_name(keys: &[(String, String)]) -> String {
    if keys.is_empty() {
        return "all".to_owned();
    }
    let full: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let full = full.join(",");
    // The last component says most about a path.
    let last = |value: &str| value.rsplit('/').next().unwrap_or_default().to_owned();
    let short: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={}", last(value))).collect();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "=,.-_+%:".contains(c);
    let plain: String = short.join(",").chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if plain == full && plain.len() <= LONGEST_NAME {
        return plain;
    }
    let digest = digest(full.as_bytes());
    format!("{}-{}", &plain[..plain.len().min(LONGEST_NAME)], &digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_after_what_differs_and_never_collide() {
        let name = |value: &str| directory_name(&[("server".into(), "nsd".into()), ("rules".into(), value.into())]);
        assert_eq!(name("do.toml"), "server=nsd,rules=do.toml");
        let (one, other) = (name("a/b"), name("a_b"));
        assert!(one.starts_with("server=nsd,rules=b-") && other == "server=nsd,rules=a_b", "{one} {other}");
        assert_ne!(one, name("c/b"));
        assert!(name("a b").starts_with("server=nsd,rules=a_b-"));
        assert!(name(&"x".repeat(500)).len() < 140);
        assert_eq!(directory_name(&[]), "all");
    }
}
