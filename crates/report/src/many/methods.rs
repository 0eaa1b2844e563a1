//! An experiment in sentences for the section on methods of a paper.

use ldplayer_results::numbers::counted;
use ldplayer_results::words;

use super::Overview;

/// What was run how often, what counts, and what the figures are.
pub fn methods(overview: &Overview) -> String {
    let Overview { name, ldplayer, started, repeats, axes, cells, versions, .. } = overview;
    let keys = axes.iter().map(|(key, values)| format!("{key} ({})", values.join(", ")));
    let keys: Vec<String> = keys.collect();
    let of = if keys.is_empty() { String::new() } else { format!(" of {}", keys.join(" and ")) };
    let runs: usize = cells.iter().map(|cell| cell.runs).sum();
    let mut said = format!(
        "On {}, ldplayer {ldplayer} ran the experiment {name}: {}{of}, each {}, the repeats of all cells in turn. {}, and what \
         is said of figures is their median over the repeats of a cell, with the range that holds it with 95 % from three repeats on.",
        words::to_the_second(started),
        counted(cells.len() as u64, "cell", "cells"),
        counted(u64::from(*repeats), "time", "times"),
        counted(runs as u64, "run counts", "runs count"),
    );
    let left_out: Vec<String> =
        cells.iter().flat_map(|cell| cell.left_out.iter().map(move |why| format!("{} {why}", cell.name))).collect();
    if !left_out.is_empty() {
        said += &format!(" Left out: {}.", left_out.join("; "));
    }
    let servers: Vec<String> = versions.iter().map(|(server, version)| format!("{server} was {version}")).collect();
    if !servers.is_empty() {
        said += &format!(" {}.", servers.join("; "));
    }
    said
}
