//! Figures and tables of an experiment as files: JSON for programs, CSV for spreadsheets, pictures for papers.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{CellFigure, Overview, Point, QuantityFigures, charts};
use crate::curves::CURVES;
use crate::export::{self, Export, ExportError, Exported, Made, csv_field};
use ldplayer_results::ResultsError;
use ldplayer_results::{numbers, store, words};

/// Writes everything into a directory, which is made where it is not there.
pub fn export(overview: &Overview, directory: &Path, wanted: &Export) -> Result<Exported, ExportError> {
    fs::create_dir_all(directory).map_err(ResultsError::file(directory))?;
    let write = |name: &str, content: &[u8]| store::replace(&directory.join(name), content);
    let path = directory.join("figures.json");
    let mut json = serde_json::to_vec_pretty(overview).map_err(ResultsError::json(&path))?;
    json.push(b'\n');
    write("figures.json", &json)?;
    write("cells.csv", cells(overview).as_bytes())?;
    write("runs.csv", runs(overview).as_bytes())?;
    write("comparisons.csv", comparisons(overview).as_bytes())?;
    for of in CURVES {
        write(&format!("{}.csv", of.file), curve(overview, overview.curves.points(of)).as_bytes())?;
    }
    let about = about(overview);
    let made = charts::all(overview).into_iter().map(|(name, chart)| {
        let caption = format!("{}. {about}", chart.title);
        Made { name, chart, csv: None, caption, none: "No run that counts has this figure.".to_owned() }
    });
    export::write(directory, wanted, made.collect())
}

/// What the figures are of.
fn about(overview: &Overview) -> String {
    let Overview { name, ldplayer, started, repeats, cells, .. } = overview;
    let counted: usize = cells.iter().map(|cell| cell.runs).sum();
    let left_out: usize = cells.iter().map(|cell| cell.left_out.len()).sum();
    let keys: Vec<&str> = overview.axes.iter().map(|(key, _)| key.as_str()).collect();
    let left_out = if left_out > 0 { format!(", {left_out} left out") } else { String::new() };
    let started = words::to_the_second(started);
    format!(
        "{name}, {started}: {} of {}, {repeats} repeats each, {counted} runs counted{left_out}; ldplayer {ldplayer}.",
        numbers::counted(cells.len() as u64, "cell", "cells"),
        keys.join(", ")
    )
}

fn figures(overview: &Overview) -> impl Iterator<Item = (&QuantityFigures, &CellFigure)> {
    overview.quantities.iter().flat_map(|figures| figures.cells.iter().map(move |cell| (figures, cell)))
}

/// The keys of the matrix, each with a comma behind it.
fn keys(overview: &Overview) -> String {
    overview.axes.iter().map(|(key, _)| csv_field(key) + ",").collect()
}

/// The values of a cell, each with a comma behind it.
fn values(overview: &Overview, cell: usize) -> String {
    let of = |key: &String| overview.cells[cell].keys.get(key).map_or(String::new(), |value| csv_field(value));
    overview.axes.iter().map(|(key, _)| of(key) + ",").collect()
}

fn cells(overview: &Overview) -> String {
    let mut text = format!("cell,{}quantity,unit,runs,median,low,high,unanswered,missing\n", keys(overview));
    for (figures, of) in figures(overview) {
        let estimate = of.estimate;
        let (low, high) =
            estimate.interval.map_or(Default::default(), |(low, high)| (low.to_string(), high.to_string()));
        // Writing to a string cannot fail; so below.
        let _ = writeln!(
            text,
            "{},{}{},{},{},{},{low},{high},{},{}",
            csv_field(&overview.cells[of.cell].name),
            values(overview, of.cell),
            figures.quantity,
            figures.unit,
            estimate.runs,
            estimate.median,
            estimate.unanswered,
            estimate.missing
        );
    }
    text
}

fn runs(overview: &Overview) -> String {
    let mut text = format!("cell,{}repeat,quantity,unit,value\n", keys(overview));
    for (figures, of) in figures(overview) {
        let (name, values) = (csv_field(&overview.cells[of.cell].name), values(overview, of.cell));
        for (repeat, value) in &of.values {
            let _ = writeln!(text, "{name},{values}{repeat},{},{},{value}", figures.quantity, figures.unit);
        }
    }
    text
}

fn comparisons(overview: &Overview) -> String {
    let mut text =
        "a,b,quantity,unit,median_a,median_b,change,low,high,is_ratio,noise_floor,verdict,more_repeats\n".to_owned();
    for one in &overview.comparisons {
        for row in &one.rows {
            let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let verdict = format!("{:?}", row.verdict).to_lowercase();
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{verdict},{}",
                csv_field(&one.a.name),
                csv_field(&one.b.name),
                row.quantity,
                row.unit,
                row.a.median,
                row.b.median,
                number(row.change.map(|change| change.estimate)),
                number(row.change.map(|change| change.low)),
                number(row.change.map(|change| change.high)),
                row.change.map_or(String::new(), |change| change.is_ratio.to_string()),
                number(row.noise_floor),
                row.more_repeats.map_or(String::new(), |more| more.to_string())
            );
        }
    }
    text
}

fn curve(overview: &Overview, points: &[Point]) -> String {
    let mut text = format!("cell,{}x,y\n", keys(overview));
    for point in points {
        let name = csv_field(&overview.cells[point.cell].name);
        let _ = writeln!(text, "{name},{}{},{}", values(overview, point.cell), point.x, point.y);
    }
    text
}
