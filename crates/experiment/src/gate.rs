//! `[gate]`: one cell of an experiment held against another.

use ldplayer_results::Expectation;
use ldplayer_workload::spec::{BadSpec, Item};

use crate::file::expectations;

/// One cell held against another.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The key and value of the cells that the others are held against.
    pub baseline: (String, String),
    /// What must hold, in multiples of the baseline.
    pub keep: Vec<Expectation>,
}

impl Gate {
    /// Reads the table.
    ///
    /// # Errors
    /// What is wrong with it, with its line.
    pub fn read(item: &Item<'_>) -> Result<Self, BadSpec> {
        let table = item.table()?;
        table.items(&["baseline", "keep"])?;
        let Some(given) = table.get("baseline") else {
            return Err(item.bad("no baseline: add baseline = \"server=old\""));
        };
        let Some((key, value)) = given.text()?.split_once('=') else {
            return Err(given.bad("give a key of the matrix and one of its values: \"server=old\""));
        };
        let baseline = (key.trim().to_owned(), value.trim().to_owned());
        let keep = table.get("keep").map_or(Ok(Vec::new()), |given| expectations(&given))?;
        Ok(Self { baseline, keep })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_workload::spec::read;

    fn gate(text: &str) -> Result<Gate, String> {
        read(text, |root| Gate::read(&root.get("gate").expect("a table"))).map_err(|error| error.to_string())
    }

    #[test]
    fn gates_are_typed() {
        let read =
            gate("[gate]\nbaseline = 'server=old'\nkeep = ['p99 <= 1.10 x', 'nxdomain = 1.00 x +- 0.1 %']").unwrap();
        assert_eq!(read.baseline, ("server".into(), "old".into()));
        assert!(read.keep.iter().all(Expectation::is_relative) && read.keep.len() == 2);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert!(gate("[gate]\nkeep = 'p99 <= 1.1 x'").unwrap_err().contains("no baseline"));
        assert!(gate("[gate]\nbaseline = 'old'").unwrap_err().starts_with("line 2: `baseline`"));
        assert!(gate("[gate]\nbaseline = 'a=b'\nkep = 1").unwrap_err().contains("did you mean `keep`?"));
    }
}
