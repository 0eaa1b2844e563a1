//! `[gate]`: conditions on the cells of an experiment relative to a baseline.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use ldplayer_core::nearest::suggest;
use ldplayer_results::Expectation;
use ldplayer_run::RunSpec;
use ldplayer_workload::spec::{BadSpec, Item, read};

use crate::cell::Cell;
use crate::error::ExperimentError;
use crate::keys::known_keys;
use crate::values::{each, expectations};

/// Maximum number of repeats that are added.
const MOST_REPEATS: u32 = 1_000;

/// Conditions on cells relative to a baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The key and value of the baseline cells; `None` if the sides are chosen elsewhere.
    pub baseline: Option<(String, String)>,
    /// The conditions, mostly relative to the baseline.
    pub keep: Vec<Expectation>,
    /// What follows from conditions that are undecided.
    pub undecided: Undecided,
}

/// What follows from undecided conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undecided {
    /// Whether the status says nothing of them.
    pub is_allowed: bool,
    /// Maximum number of repeats that an experiment adds once to decide them.
    pub repeats: u32,
}

/// A word of the key `undecided`.
enum Step {
    Fail,
    Warn,
    Repeat(u32),
}

impl FromStr for Step {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word.split_once(':') {
            None if word == "fail" => Ok(Self::Fail),
            None if word == "warn" => Ok(Self::Warn),
            Some(("repeat", count)) => {
                let repeats = count.parse().ok().filter(|repeats| (1..=MOST_REPEATS).contains(repeats));
                let bad = || format!("`{count}` is not a number of repeats from 1 to {MOST_REPEATS}");
                repeats.map(Self::Repeat).ok_or_else(bad)
            }
            _ => Err(format!("`{word}`: use fail, warn or repeat:10")),
        }
    }
}

impl FromIterator<Step> for Undecided {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        steps.into_iter().fold(Self::default(), |undecided, step| match step {
            Step::Fail => Self { is_allowed: false, ..undecided },
            Step::Warn => Self { is_allowed: true, ..undecided },
            Step::Repeat(repeats) => Self { repeats, ..undecided },
        })
    }
}

impl Gate {
    /// Reads the table.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn read(item: &Item<'_>) -> Result<Self, BadSpec> {
        let table = item.table()?;
        table.items(&["baseline", "keep", "undecided"])?;
        let keep = table.get("keep").map_or(Ok(Vec::new()), |given| expectations(&given))?;
        if keep.is_empty() {
            return Err(item.bad("no conditions: add keep = [\"p99 <= 1.10 x\"]"));
        }
        let steps =
            table.get("undecided").map(|given| each(&given, |item| item.parsed(str::parse::<Step>))).transpose()?;
        let undecided = steps.unwrap_or_default().into_iter().collect();
        let Some(given) = table.get("baseline") else { return Ok(Self { baseline: None, keep, undecided }) };
        let Some((key, value)) = given.text()?.split_once('=') else {
            return Err(given.bad("expected a key of the matrix and one of its values, such as \"server=old\""));
        };
        Ok(Self { baseline: Some((key.trim().to_owned(), value.trim().to_owned())), keep, undecided })
    }

    /// Reads the table from a file, which may be a whole experiment.
    ///
    /// # Errors
    /// The file cannot be read, has no such table, or has an error, with its line.
    pub fn load(file: &Path) -> Result<Self, ExperimentError> {
        let failed = |source| ExperimentError::Read { file: file.to_owned(), source };
        let text = fs::read_to_string(file).map_err(failed)?;
        let gate = Self::in_text(&text).map_err(|source| ExperimentError::File { file: file.to_owned(), source })?;
        gate.ok_or_else(|| {
            let what = "no [gate]: add [gate] and keep = [\"p99 <= 1.10 x\"]".to_owned();
            ExperimentError::File { file: file.to_owned(), source: BadSpec { line: 1, what } }
        })
    }

    /// Reads the table from the text of an experiment, if present.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn in_text(text: &str) -> Result<Option<Self>, BadSpec> {
        read(text, |root| {
            root.items(&known_keys(&RunSpec::keys()))?;
            root.get("gate").map(|item| Self::read(&item)).transpose()
        })
    }

    /// Refuses a baseline that matches no cell of the matrix.
    pub(crate) fn check(&self, item: &Item<'_>, axes: &[(String, Vec<String>)], cells: &[Cell]) -> Result<(), BadSpec> {
        let Some((key, value)) = &self.baseline else {
            return Err(item.bad("no baseline: add baseline = \"server=old\""));
        };
        let keys: Vec<&str> = axes.iter().map(|(key, _)| key.as_str()).collect();
        let Some((_, values)) = axes.iter().find(|(other, _)| other == key) else {
            return Err(item.bad(format!("baseline: `{key}` is not a key of the matrix{}", suggest(key, &keys))));
        };
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        match values.len() {
            _ if !values.contains(&value.as_str()) => {
                Err(item.bad(format!("baseline: `{value}` is not a value of `{key}`{}", suggest(value, &values))))
            }
            1 => Err(item.bad(format!("baseline: `{key}` has no other value, so there is nothing to compare"))),
            _ if !self.has_pair(cells) => {
                Err(item.bad("baseline: `exclude` removes the cells to compare with, so there is nothing to compare"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a cell outside the baseline has a counterpart in it that is otherwise equal.
    fn has_pair(&self, cells: &[Cell]) -> bool {
        let Some(baseline) = &self.baseline else { return false };
        let rest = |cell: &Cell| cell.keys.iter().filter(|(key, _)| *key != baseline.0).cloned().collect::<Vec<_>>();
        let (with, without): (Vec<&Cell>, Vec<&Cell>) = cells.iter().partition(|cell| cell.keys.contains(baseline));
        with.iter().any(|cell| without.iter().any(|other| rest(cell) == rest(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(text: &str) -> Result<Gate, String> {
        Gate::in_text(text).map(|gate| gate.expect("a table")).map_err(|error| error.to_string())
    }

    #[test]
    fn gates_are_typed() {
        let read =
            gate("[gate]\nbaseline = 'server=old'\nkeep = ['p99 <= 1.10 x', 'nxdomain = 1.00 x +- 0.1 %']").unwrap();
        assert_eq!(read.baseline, Some(("server".into(), "old".into())));
        assert!(read.keep.iter().all(Expectation::is_relative) && read.keep.len() == 2);
        let undecided = |words: &str| {
            gate(&format!("[gate]\nkeep = 'p99 <= 1.1 x'\nundecided = {words}")).map(|gate| gate.undecided)
        };
        assert_eq!(read.undecided, Undecided { is_allowed: false, repeats: 0 });
        assert_eq!(undecided("'warn'"), Ok(Undecided { is_allowed: true, repeats: 0 }));
        assert_eq!(undecided("['repeat:10', 'warn']"), Ok(Undecided { is_allowed: true, repeats: 10 }));
        assert!(undecided("'repeat:0'").unwrap_err().contains("from 1 to 1000"));
        assert!(
            undecided("'pass'").unwrap_err().starts_with("line 3: `undecided`: `pass`: use fail, warn or repeat:10")
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert!(gate("[gate]\nbaseline = 'server=old'").unwrap_err().contains("no conditions"));
        assert!(gate("[gate]\nbaseline = 'old'\nkeep = 'p99 <= 1.1 x'").unwrap_err().starts_with("line 2: `baseline`"));
        assert!(gate("[gate]\nbaseline = 'a=b'\nkeeep = 1").unwrap_err().contains("did you mean `keep`?"));
    }

    #[test]
    fn a_baseline_is_a_value_of_the_matrix_that_is_not_alone() {
        let refused = |gate: &str, values: &str| {
            let text = format!(
                "trace = 'Cargo.toml'\nserver = '::1'\n[matrix]\ntransport = [{values}]\n[gate]\nkeep = 'p99 <= 1.1 x'\n{gate}"
            );
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
            crate::Experiment::parse(&text, folder, "test").map(|read| read.gate).map_err(|error| error.to_string())
        };
        assert!(refused("", "'udp', 'tcp'").unwrap_err().contains("line 6") || refused("", "'udp'").is_err());
        let unknown = refused("baseline = 'transprt=udp'", "'udp', 'tcp'").unwrap_err();
        assert!(unknown.contains("`transprt` is not a key of the matrix: did you mean `transport`?"), "{unknown}");
        let no_value = refused("baseline = 'transport=dot'", "'udp', 'tcp'").unwrap_err();
        assert!(no_value.contains("`dot` is not a value of `transport`"), "{no_value}");
        assert!(refused("baseline = 'transport=udp'", "'udp'").unwrap_err().contains("has no other value"));
        assert!(refused("baseline = 'transport=udp'", "'udp', 'tcp'").unwrap().is_some());
        let text = "trace = 'Cargo.toml'\nserver = '::1'\nexclude = [{ transport = 'udp', sources = 'ports' }, { transport = 'tcp', sources = 'original' }]\n\
                    [matrix]\ntransport = ['udp', 'tcp']\nsources = ['ports', 'original']\n[gate]\nbaseline = 'transport=udp'\nkeep = 'p99 <= 1.1 x'";
        let excluded =
            crate::Experiment::parse(text, Path::new(env!("CARGO_MANIFEST_DIR")), "test").unwrap_err().to_string();
        assert!(excluded.contains("`exclude` removes the cells to compare with"), "{excluded}");
    }
}
