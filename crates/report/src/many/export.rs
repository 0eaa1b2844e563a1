//! Figures and tables as files: JSON for programs, CSV for spreadsheets, SVG and PNG for papers.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{CellFigure, Overview, Point, QuantityFigures, pictures};
use crate::curves::CURVES;
use ldplayer_results::ResultsError;
use ldplayer_results::store;

/// Writes everything into a directory, which is made where it is not there.
pub fn export(overview: &Overview, directory: &Path) -> Result<(), ResultsError> {
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
    for picture in pictures::all(overview) {
        write(&format!("{}.svg", picture.name), picture.svg.as_bytes())?;
        write(&format!("{}.png", picture.name), &picture.png)?;
    }
    Ok(())
}

/// A field of CSV (RFC 4180).
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn figures(overview: &Overview) -> impl Iterator<Item = (&QuantityFigures, &CellFigure)> {
    overview.quantities.iter().flat_map(|figures| figures.cells.iter().map(move |cell| (figures, cell)))
}

/// The keys of the matrix, each with a comma behind it.
fn keys(overview: &Overview) -> String {
    overview.axes.iter().map(|(key, _)| field(key) + ",").collect()
}

/// The values of a cell, each with a comma behind it.
fn values(overview: &Overview, cell: usize) -> String {
    let of = |key: &String| overview.cells[cell].keys.get(key).map_or(String::new(), |value| field(value));
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
            field(&overview.cells[of.cell].name),
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
        let (name, values) = (field(&overview.cells[of.cell].name), values(overview, of.cell));
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
                field(&one.a.name),
                field(&one.b.name),
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
        let name = field(&overview.cells[point.cell].name);
        let _ = writeln!(text, "{name},{}{},{}", values(overview, point.cell), point.x, point.y);
    }
    text
}
