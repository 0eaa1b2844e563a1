//! `[find]`: the search for the largest load at which something holds.

use ldplayer_results::Expectation;
use ldplayer_workload::spec::{BadSpec, Item};

use crate::file::expectations;

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

fn percent(word: &str) -> Result<f64, String> {
    let number = word.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let percent = number.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.ok_or_else(|| format!("`{word}` is no width such as \"2 %\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_workload::spec::read;

    fn find(text: &str) -> Result<Find, String> {
        read(text, |root| Find::read(&root.get("find").expect("a table"))).map_err(|error| error.to_string())
    }

    #[test]
    fn searches_are_typed() {
        let found = find("[find]\nwhat = 'qps'\nwhile = 'answered >= 99.9 %'\nwidth = '2 %'").unwrap();
        assert_eq!((found.what, found.hold.len(), found.width_percent), (Load::Qps, 1, 2.0));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert!(find("[find]\nwhat = 'speed'").unwrap_err().contains("qps, clients or connections"));
        assert!(find("[find]\nwhat = 'qps'\nwidth = 'wide'").unwrap_err().contains("2 %"));
    }
}
