//! What an experiment will do and has done, as tables and as JSON.

use std::io::{self, Write};

use ldplayer_core::text::counted;
use ldplayer_experiment::find::Find;
use ldplayer_experiment::{CellSummary, Estimate, Figure, Passed, Plan, Record, RunState};
use ldplayer_results::compare::GateResult;
use serde_json::{Map, Value, json};

use super::compare;

/// Prints the plan.
pub fn plan(plan: &Plan) -> io::Result<()> {
    let mut out = crate::printing::stdout();
    let experiment = &plan.experiment;
    if let Some(find) = &experiment.find {
        return searches(&mut out, plan, find);
    }
    let (cells, repeats, runs) = (experiment.cells.len(), experiment.repeats, plan.slots.len());
    write_line!(
        out,
        "{}: {} x {} = {} in {}",
        experiment.name,
        counted(cells as u64, "cell", "cells"),
        counted(u64::from(repeats), "repeat", "repeats"),
        counted(runs as u64, "run", "runs"),
        plan.directory.display()
    )?;
    for (key, values) in &experiment.axes {
        write_line!(out, "  {key}: {}", values.join(", "))?;
    }
    if let Some(warm_up) = experiment.warm_up {
        write_line!(out, "  the first {warm_up} of the trace warm each server up and are not counted")?;
    }
    writeln!(out, "runs, in this order:")?;
    for (number, slot) in plan.slots.iter().enumerate() {
        let (cell, estimate) = (&experiment.cells[slot.cell], &plan.estimates[slot.cell]);
        let (number, time) = (number + 1, seconds(estimate.seconds));
        write_line!(
            out,
            "{number:5}  {}  repeat {}  {}  {time}",
            cell.name,
            slot.repeat,
            counted(estimate.queries, "query", "queries")
        )?;
    }
    let total = plan.total(plan.all());
    let (disk, memory) = (octets(total.disk), octets(total.memory));
    write_line!(out, "estimate: {}, {disk} on disk, {memory} of memory beside the servers'", seconds(total.seconds))
}

/// Prints the plan of a search: how long it takes depends on what it finds.
fn searches(out: &mut impl Write, plan: &Plan, find: &Find) -> io::Result<()> {
    let experiment = &plan.experiment;
    let (cells, unit, directory) = (experiment.cells.len(), find.what.unit(), plan.directory.display());
    write_line!(
        out,
        "{}: the largest load in {unit} of {cells} cells, searched in turns, in {directory}",
        experiment.name
    )?;
    for goal in &find.goals {
        let hold: Vec<String> = goal.hold.iter().map(ToString::to_string).collect();
        let loss = goal.loss_ratio.map(|loss| format!("at most {} % lost", loss * 100.0));
        let all: Vec<String> = hold.into_iter().chain(loss).collect();
        let (exceed, width) = (goal.exceed_ratio * 100.0, goal.width * 100.0);
        write_line!(
            out,
            "  goal {}: {}; trials of {} s, then of {} s, {} s at a load, {exceed} % of it may fail; width {width} %",
            goal.name,
            all.join(", "),
            goal.initial_trial_duration_s,
            goal.final_trial_duration_s,
            goal.duration_sum_s
        )?;
    }
    for (cell, estimate) in experiment.cells.iter().zip(&plan.estimates) {
        write_line!(out, "  {}  {}", cell.name, seconds(estimate.seconds))?;
    }
    let all: f64 = plan.estimates.iter().filter_map(|estimate| estimate.seconds).sum();
    let (start, bound) = (find.start, seconds(Some(find.max_time_s)));
    let all = seconds(Some(all));
    write_line!(
        out,
        "estimate: {all}, if each can do some ten times the {start} {unit} that are tried first; at most {bound} a cell, and a trial"
    )
}

/// What became of a run, in a word.
pub const fn word(state: RunState) -> &'static str {
    match state {
        RunState::Planned => "planned",
        RunState::Done => "done",
        RunState::Disturbed => "disturbed by the host",
        RunState::Failed => "failed",
        RunState::ServerDied => "its server has ended by itself",
        RunState::Interrupted => "interrupted",
    }
}

/// Prints what each cell came to.
pub fn summary(plan: &Plan, record: &Record, cells: &[CellSummary], kept: &[GateResult]) -> io::Result<()> {
    let mut out = crate::printing::stdout();
    let width = cells.iter().map(|cell| cell.cell.chars().count()).max().unwrap_or(4).max(4);
    let (p50, p99) = ("p50 ms", "p99 ms");
    let head = ["answered %", "sent/s", "answered/s", p50, p99].map(|name| format!("{name:24}")).join("  ");
    write_line!(out, "{:width$}  runs  {head}  replay  server  RCODEs %", "cell")?;
    for cell in cells {
        let figures = [cell.answered_percent, cell.sent_qps, cell.answered_qps, cell.p50_ms, cell.p99_ms];
        let figures = figures.map(|of| format!("{:24}", figure(of))).join("  ");
        let rcodes: Vec<String> =
            cell.rcodes_percent.iter().map(|(name, share)| format!("{name} {:.1}", share.median)).collect();
        let rcodes = rcodes.join(", ");
        let (runs, replay, server) =
            (format!("{}/{}", cell.runs, cell.repeats), passed(cell.replay), passed(cell.server));
        write_line!(out, "{:width$}  {runs:4}  {figures}  {replay:6}  {server:6}  {rcodes}", cell.cell)?;
    }
    for cell in cells {
        cell.warnings.iter().try_for_each(|warning| write_line!(out, "{}: warning: {warning}", cell.cell))?;
    }
    for cell in cells.iter().filter(|cell| !cell.not_counted.is_empty()) {
        let counts: Vec<String> = cell.not_counted.iter().map(|(word, count)| format!("{count} {word}")).collect();
        write_line!(out, "{}: not counted: {}", cell.cell, counts.join(", "))?;
        cell.reasons.iter().try_for_each(|reason| write_line!(out, "  {reason}"))?;
    }
    let versions: Vec<String> = record.versions.iter().map(|(name, version)| format!("{name} is {version}")).collect();
    versions.iter().try_for_each(|version| write_line!(out, "{version}"))?;
    record.notes.iter().try_for_each(|note| write_line!(out, "note: {note}"))?;
    compare::gates(&mut out, kept)?;
    write_line!(out, "report: {}", plan.directory.join("report.html").display())?;
    write_line!(out, "experiment: {}", plan.directory.display())
}

/// A median with its least and most; `none` where it falls among queries without an answer.
fn figure(figure: Option<Figure>) -> String {
    let one = |value: f64| if value.is_finite() { format!("{value:.3}") } else { "none".to_owned() };
    match figure {
        None => "-".to_owned(),
        Some(figure) if figure.min == figure.max => one(figure.median),
        Some(figure) => format!("{} ({} to {})", one(figure.median), one(figure.min), one(figure.max)),
    }
}

fn passed(passed: Passed) -> String {
    if passed.of == 0 { "-".to_owned() } else { format!("{}/{}", passed.passed, passed.of) }
}

/// What each cell came to, and all runs.
pub fn summary_json(plan: &Plan, record: &Record, cells: &[CellSummary], kept: &[GateResult]) -> Value {
    json!({
        "name": record.name, "directory": plan.directory, "versions": record.versions, "notes": record.notes,
        "cells": cells, "gates": kept, "runs": record.runs,
    })
}

/// The plan as one object.
pub fn plan_json(plan: &Plan) -> Value {
    let experiment = &plan.experiment;
    let axes: Vec<Value> =
        experiment.axes.iter().map(|(key, values)| json!({ "key": key, "values": values })).collect();
    let cells = experiment.cells.iter().zip(&plan.digests).zip(&plan.estimates);
    let cells: Vec<Value> = cells
        .map(|((cell, digest), estimate)| {
            json!({
                "name": cell.name, "keys": keys(&cell.keys), "digest": digest, "estimate": estimate_json(estimate),
                "spec": cell.spec, "stage": cell.stage,
            })
        })
        .collect();
    let runs = plan.slots.iter().map(|slot| json!({ "cell": experiment.cells[slot.cell].name, "repeat": slot.repeat }));
    json!({
        "name": experiment.name, "directory": plan.directory, "repeats": experiment.repeats,
        "warm_up_s": experiment.warm_up.map(|span| span.ns() as f64 / 1e9), "max_retries": experiment.max_retries,
        "axes": axes, "cells": cells, "runs": runs.collect::<Vec<_>>(),
        "estimate": estimate_json(&plan.total(plan.all())),
    })
}

fn keys(keys: &[(String, String)]) -> Map<String, Value> {
    keys.iter().map(|(key, value)| (key.clone(), Value::from(value.clone()))).collect()
}

fn estimate_json(estimate: &Estimate) -> Value {
    json!({
        "queries": estimate.queries, "seconds": estimate.seconds, "disk_bytes": estimate.disk,
        "memory_bytes": estimate.memory,
    })
}

/// A length of time for people.
pub fn seconds(seconds: Option<f64>) -> String {
    match seconds {
        None => "as long as the server takes".to_owned(),
        Some(short) if short < 120.0 => format!("{short:.0} s"),
        Some(long) if long < 7_200.0 => format!("{:.0} min", long / 60.0),
        Some(long) => format!("{:.1} h", long / 3_600.0),
    }
}

fn octets(octets: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let (unit, size) = units.into_iter().find(|(_, size)| octets as f64 >= *size).unwrap_or(("B", 1.0));
    format!("{:.1} {unit}", octets as f64 / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_sizes_are_told_in_the_unit_that_fits() {
        assert_eq!(
            [Some(61.0), Some(600.0), Some(9_000.0), None].map(seconds),
            ["61 s", "10 min", "2.5 h", "as long as the server takes"]
        );
        assert_eq!([999, 1_500, 2_000_000, 3_100_000_000].map(octets), ["999.0 B", "1.5 kB", "2.0 MB", "3.1 GB"]);
    }
}
