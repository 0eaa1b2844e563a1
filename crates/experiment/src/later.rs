//! `[gate]` and `[find]`, read and checked here: what judges and searches takes these values.

use ldplayer_results::Expectation;
use ldplayer_workload::spec::{BadSpec, Item};

/// One cell held against another.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The key and value of the cells that the others are held against.
    pub baseline: (String, String),
    /// What must hold, in multiples of the baseline.
    pub keep: Vec<Expectation>,
}

/// The largest load at which something holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Find {
    /// What is searched: `qps`, `clients` or `connections`.
    pub what: Load,
    /// What must hold.
    pub hold: Vec<Expectation>,
    /// Relative width of the interval at which the search ends, in percent.
    pub width_percent: f64,
}

/// A load that can be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are called what they are")]
pub enum Load {
    Qps,
    Clients,
    Connections,
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

impl Find {
    /// Reads the table.
    ///
    /// # Errors
    /// What is wrong with it, with its line.
    pub fn read(item: &Item<'_>) -> Result<Self, BadSpec> {
        let table = item.table()?;
        table.items(&["what", "while", "width"])?;
        let Some(what) = table.get("what") else {
            return Err(item.bad("nothing to find: add what = \"qps\", \"clients\" or \"connections\""));
        };
        let what = match what.text()? {
            "qps" => Load::Qps,
            "clients" => Load::Clients,
            "connections" => Load::Connections,
            _ => return Err(what.bad("give qps, clients or connections")),
        };
        let hold = table.get("while").map_or(Ok(Vec::new()), |given| expectations(&given))?;
        let width = table.get("width").map(|given| given.parsed(percent)).transpose()?;
        Ok(Self { what, hold, width_percent: width.unwrap_or(2.0) })
    }
}

/// Expectations in a list, or one by itself.
pub(crate) fn expectations(item: &Item<'_>) -> Result<Vec<Expectation>, BadSpec> {
    if !item.is_list() {
        return Ok(vec![item.parsed(str::parse)?]);
    }
    item.list()?.iter().map(|one| one.parsed(str::parse)).collect()
}

fn percent(word: &str) -> Result<f64, String> {
    let number = word.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let percent = number.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.ok_or_else(|| format!("`{word}` is no width such as \"2 %\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_workload::spec::read;

    fn gate(text: &str) -> Result<Gate, String> {
        read(text, |root| Gate::read(&root.get("gate").expect("a table"))).map_err(|error| error.to_string())
    }

    fn find(text: &str) -> Result<Find, String> {
        read(text, |root| Find::read(&root.get("find").expect("a table"))).map_err(|error| error.to_string())
    }

    #[test]
    fn gates_and_searches_are_typed() {
        let read =
            gate("[gate]\nbaseline = 'server=old'\nkeep = ['p99 <= 1.10 x', 'nxdomain = 1.00 x +- 0.1 %']").unwrap();
        assert_eq!(read.baseline, ("server".into(), "old".into()));
        assert!(read.keep.iter().all(Expectation::is_relative) && read.keep.len() == 2);
        let found = find("[find]\nwhat = 'qps'\nwhile = 'answered >= 99.9 %'\nwidth = '2 %'").unwrap();
        assert_eq!((found.what, found.hold.len(), found.width_percent), (Load::Qps, 1, 2.0));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert!(gate("[gate]\nkeep = 'p99 <= 1.1 x'").unwrap_err().contains("no baseline"));
        assert!(gate("[gate]\nbaseline = 'old'").unwrap_err().starts_with("line 2: `baseline`"));
        assert!(gate("[gate]\nbaseline = 'a=b'\nkep = 1").unwrap_err().contains("did you mean `keep`?"));
        assert!(find("[find]\nwhat = 'speed'").unwrap_err().contains("qps, clients or connections"));
        assert!(find("[find]\nwhat = 'qps'\nwidth = 'wide'").unwrap_err().contains("2 %"));
    }
}
