//! `replay --find`: the largest load at which criteria hold, by the search of an experiment with one cell.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use ldplayer_experiment::Experiment;
use ldplayer_experiment::find::Load;
use ldplayer_run::{RunSpec, load};

use super::options::Args;
use super::progress::Show;
use crate::commands::experiment::{self, screen::Shown, searches};
use crate::failure::Failure;

/// The first number of clients or connections that is tried where the trace has as many.
const START: u64 = 100;
/// The key of a specification that experiments do not have.
const OF_SPECIFICATIONS: &str = "version";

/// Searches, and prints the result in a line. Trials are kept in the directory of `-o`.
pub fn run(args: &Args, spec: &RunSpec, wanted: &str) -> Result<ExitCode, Failure> {
    let clients = load(spec.clone())?.map_or(u64::MAX, |load| load.clients);
    let text = as_experiment(spec, wanted, clients)?;
    let experiment =
        Experiment::parse(&text, Path::new(""), "find").map_err(|error| anyhow!("--find: {}", error.what))?;
    let scratch = tempfile::tempdir().context("cannot make a scratch directory; set TMPDIR to one with space")?;
    let directory = args.output.as_deref().unwrap_or(scratch.path());
    let options = experiment::options(&spec.allow_target, None)?;
    let shown = match args.progress {
        _ if args.quiet => Shown::Off,
        Show::Auto => Shown::Auto,
        Show::Plain => Shown::Plain,
        Show::Off => Shown::Off,
    };
    let (plan, record) = experiment::search(experiment, directory, shown, &options)?;
    if args.json {
        crate::printing::json(&searches::json(&plan, &record))?;
    } else {
        searches::print_line(&record, parts(wanted).1)?;
    }
    Ok(experiment::found(&record))
}

/// What is searched for, and the criteria.
fn parts(wanted: &str) -> (&str, &str) {
    wanted.split_once(':').map_or((Load::ALL[0].0, wanted.trim()), |(what, criteria)| (what.trim(), criteria.trim()))
}

/// The text of an experiment whose only cell is this run, of so many clients, with the search.
fn as_experiment(spec: &RunSpec, wanted: &str, clients: u64) -> anyhow::Result<String> {
    let (what, criteria) = parts(wanted);
    let Some((_, load)) = Load::ALL.into_iter().find(|(word, _)| *word == what) else {
        return Err(anyhow!("--find: `{what}` cannot be searched for: use {}", Load::words()));
    };
    let criteria: Vec<toml::Value> = criteria.split(" and ").map(|one| one.trim().into()).collect();
    let mut table: toml::Table = spec.to_toml().parse().context("--find")?;
    table.remove(OF_SPECIFICATIONS);
    // Permission is this call's, and no key of a file.
    table.remove("allow_target");
    let mut find = toml::Table::from_iter([("what".to_owned(), what.into()), ("while".to_owned(), criteria.into())]);
    if !load.is_rate() && clients < START {
        find.insert("start".to_owned(), (clients.max(1) as i64).into());
    }
    table.insert("find".to_owned(), find.into());
    Ok(table.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_has_what_the_run_has_and_the_criteria() {
        let spec = RunSpec::parse("trace = 'a.pcap'\nserver = '127.0.0.1'\ntransport = 'tcp'").unwrap();
        let of = |wanted: &str| as_experiment(&spec, wanted, 7).map_err(|error| error.to_string());
        let text = of("clients: answered >= 99.9 % and p99 <= 50ms").unwrap();
        for line in [
            "transport = \"tcp\"",
            "start = 7",
            "what = \"clients\"",
            "while = [\"answered >= 99.9 %\", \"p99 <= 50ms\"]",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(of("p99 <= 50ms").unwrap().contains("what = \"qps\""));
        assert_eq!(
            of("users: p99 <= 1s").unwrap_err(),
            "--find: `users` cannot be searched for: use qps, handshakes, clients, connections"
        );
    }
}
