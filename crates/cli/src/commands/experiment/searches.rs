//! What searches have found, as tables and as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};

use ldplayer_core::text::counted;
use ldplayer_experiment::find::{GoalResult, Ratio, SearchRecord, by_transport};
use ldplayer_experiment::{Plan, Record};
use ldplayer_run::CoreShare;
use serde_json::{Value, json};

use super::print::seconds;

/// Prints the capacity of each cell, what each transport has of UDP's, and why searches ended otherwise than was asked.
pub fn print(plan: &Plan, record: &Record) -> io::Result<()> {
    let mut out = crate::printing::stdout();
    let searches = &record.searches;
    let unit = searches.first().map_or("", |search| &search.unit);
    let header = ["cell", "goal", unit, "confidence", "conditional", "trials", "took", "ended"].map(str::to_owned);
    table(&mut out, &header, searches.iter().map(|search| row_at(record, search)))?;
    let ratios = by_transport(searches);
    if !ratios.is_empty() {
        write_line!(out, "")?;
        let header = ["of UDP's capacity", "goal", "transport", "ratio", "interval"].map(str::to_owned);
        table(&mut out, &header, ratios.iter().map(ratio_row))?;
        write_line!(out, "")?;
    }
    for search in searches.iter().filter(|search| !search.result.inversions.is_empty()) {
        let loads: Vec<String> = search.result.inversions.iter().map(ToString::to_string).collect();
        let (cell, loads) = (&search.cell, loads.join(", "));
        write_line!(
            out,
            "{cell}: holds again above its upper bound, at {loads}: the server or the machine was not steady"
        )?;
    }
    discarded(&mut out, searches)?;
    let versions = record.versions.iter();
    { versions }.try_for_each(|(name, version)| write_line!(out, "{name} is {version}"))?;
    record.notes.iter().try_for_each(|note| write_line!(out, "note: {note}"))?;
    write_line!(out, "experiment: {}", plan.directory.display())
}

/// Prints what a single search found in a line.
pub fn print_line(record: &Record, wanted: &str) -> io::Result<()> {
    let mut out = crate::printing::stdout();
    record.searches.iter().try_for_each(|search| {
        let [cell, _, capacity, confidence, _, trials, took, ended] = row_at(record, search);
        let quota = cell.split_once(", at ").map_or_else(String::new, |(_, cores)| format!(" at {cores}"));
        let unit = &search.unit;
        write_line!(
            out,
            "{capacity} {unit}{quota} while {wanted}; confidence {confidence}, {trials} trials in {took}; {ended}"
        )
    })
}

/// Prints which trials did not count, once for each cell: a failure among them is not held against the server, and not hidden.
fn discarded(out: &mut impl Write, searches: &[SearchRecord]) -> io::Result<()> {
    let mut told: Vec<&str> = Vec::new();
    for search in searches {
        if told.contains(&&*search.cell) {
            continue;
        }
        told.push(&search.cell);
        for one in &search.discarded {
            let trials = counted(one.trials, "trial", "trials");
            let failed = if one.missed { " that missed a goal" } else { "" };
            let (cell, load, unit, reason) = (&search.cell, one.load, &search.unit, &one.reason);
            write_line!(out, "{cell}: not counted: {trials} at {load} {unit}{failed}: {reason}")?;
        }
    }
    Ok(())
}

/// The row of a search, with the quota of its server and what a whole core would do.
fn row_at(record: &Record, search: &SearchRecord) -> [String; 8] {
    let mut cells = row(search);
    let quota = record.cells.iter().find(|cell| cell.name == search.cell).and_then(|cell| cell.spec.server_cpu);
    if let Some(CoreShare(cores)) = quota.filter(|_| search.result.limit.is_none()) {
        let _ = write!(cells[0], ", at {cores} cores");
        let of_core = |load: u64| (load as f64 / cores).round() as u64;
        let (lower, upper) = (search.result.lower.map(of_core), search.result.upper.map(of_core));
        let of_core = GoalResult { lower, upper, ..search.result.clone() };
        let _ = write!(cells[2], " ({} a core)", of_core.capacity());
    }
    cells
}

fn row(search: &SearchRecord) -> [String; 8] {
    let result = &search.result;
    let doubt = if result.is_sure() { "" } else { "not sure: " };
    let confidence =
        result.confidence_percent.map_or_else(|| "-".to_owned(), |percent| format!("{doubt}{percent:.0} %"));
    let conditional = result.conditional_throughput.map_or_else(|| "-".to_owned(), |load| format!("{load:.0}"));
    [
        search.cell.clone(),
        result.goal.clone(),
        result.capacity(),
        confidence,
        conditional,
        result.trials.to_string(),
        seconds(Some(search.took_s)),
        match &result.limit {
            Some(limit) => format!("{}; {limit}", result.ended),
            None => result.ended.to_string(),
        },
    ]
}

fn ratio_row(ratio: &Ratio) -> [String; 5] {
    let keys: Vec<String> = ratio.keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let interval = match (ratio.least, ratio.most) {
        (Some(least), Some(most)) => format!("{least:.3} to {most:.3}"),
        (Some(least), None) => format!("at least {least:.3}"),
        (None, Some(most)) => format!("at most {most:.3}"),
        (None, None) => "not known".to_owned(),
    };
    let keys = if keys.is_empty() { "all".to_owned() } else { keys.join(",") };
    let known = ratio.ratio.map_or_else(|| "-".to_owned(), |known| format!("{known:.3}"));
    [keys, ratio.goal.clone(), ratio.transport.clone(), known, interval]
}

/// Rows below a header, in columns as wide as they have to be; the last one ends where it ends.
fn table<const N: usize>(
    out: &mut impl Write,
    header: &[String; N],
    rows: impl Iterator<Item = [String; N]>,
) -> io::Result<()> {
    let rows: Vec<[String; N]> = std::iter::once(header.clone()).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        write_line!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// What was found, and all trials.
pub fn json(plan: &Plan, record: &Record) -> Value {
    json!({
        "name": record.name, "directory": plan.directory, "versions": record.versions, "notes": record.notes,
        "searches": record.searches, "by_transport": by_transport(&record.searches), "runs": record.runs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search whose trials failed and did not count looked as if there had been none.
    #[test]
    fn trials_that_do_not_count_are_told_once_for_a_cell() {
        let search = |goal: &str| -> SearchRecord {
            serde_json::from_value(json!({
                "cell": "server=nsd", "keys": {}, "unit": "q/s", "took_s": 9.0, "goal": goal, "lower": 100, "upper": null,
                "confidence_percent": null, "conditional_throughput": null, "inversions": [], "trials": 1, "trials_s": 1.0,
                "ended": "disturbed", "reason": "late",
                "discarded": [{ "load": 200, "trials": 2, "missed": true, "reason": "queries were late" },
                              { "load": 150, "trials": 1, "missed": false, "reason": "sent 140 of 150 q/s" }],
            }))
            .unwrap()
        };
        let mut out = Vec::new();
        discarded(&mut out, &[search("1"), search("2")]).unwrap();
        let expected = "server=nsd: not counted: 2 trials at 200 q/s that missed a goal: queries were late\n\
                        server=nsd: not counted: 1 trial at 150 q/s: sent 140 of 150 q/s\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let mut out = Vec::new();
        let row = |cells: [&str; 2]| cells.map(str::to_owned);
        table(&mut out, &row(["cell", "q/s"]), [row(["server=nsd", "40"]), row(["a", "9 to 10"])].into_iter()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "cell        q/s\nserver=nsd  40\na           9 to 10\n");
    }
}
