//! Figures as files: pictures for papers and slides (SVG, PDF, PNG), their points as CSV, and captions.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ldplayer_core::nearest::suggest;
use ldplayer_results::store;
use ldplayer_results::{Evaluated, ResultsError, evaluate};
use serde_json::Value;

use crate::curves::{CURVES, Curves, RunCurve, curves_of};
use crate::figures::{self, Figure, Section};
use crate::page::About;
use crate::picture::{Chart, Look};
use crate::rewrite::names;

/// The file with the captions.
const CAPTIONS: &str = "captions.txt";

/// Which figures are written, and how their pictures look.
#[derive(Clone, Debug, Default)]
pub struct Export {
    /// Names of the figures; none for all that have something to show.
    pub figures: Vec<String>,
    /// Size and style of the pictures.
    pub look: Look,
}

/// What was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The names of the figures.
    pub written: Vec<String>,
    /// Figures that were asked for by name and have nothing to show, each with the reason.
    pub empty: Vec<(String, String)>,
}

/// An error of writing figures.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A run or a file of it, or what was to be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// A figure that there is not.
    #[error("there is no figure `{name}`{suggestion}")]
    NoFigure {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        suggestion: String,
    },
}

/// A figure with all that is written of it.
pub(crate) struct Made {
    /// The name of its files.
    pub name: String,
    /// Its picture.
    pub chart: Chart,
    /// Its points as CSV, unless another file has them.
    pub csv: Option<String>,
    /// What stands below it in a paper.
    pub caption: String,
    /// Why there may be nothing to show.
    pub none: String,
}

/// Writes the figures of one run, or of several those that compare them.
///
/// # Errors
/// A directory is no run directory, a file in it cannot be read, a figure is not known, or a file cannot be written.
pub fn export_runs(dirs: &[PathBuf], directory: &Path, export: &Export) -> Result<Exported, ExportError> {
    let runs = dirs.iter().map(|dir| evaluate::<Value>(dir)).collect::<Result<Vec<_>, _>>()?;
    let made = match runs.as_slice() {
        [run] => of_run(run),
        several => of_runs(&names(dirs), several),
    };
    write(directory, export, made)
}

/// The figures of a page, in its order.
fn of_run(run: &Evaluated<Value>) -> Vec<Made> {
    let report = &run.document.report;
    let about = About::new(report);
    let data = figures::data(report, &run.analysis.figures);
    // Of a run without times nothing is said of its timing.
    let is_shown = |figure: &Figure| figure.section != Section::Replay || report.limits.timing.is_some();
    let shown = figures::by_section(report).into_values().flatten().filter(is_shown);
    let made = shown.map(|figure| {
        let points = &data[figure.id];
        let (heads, rows) = figures::table(&figure, points);
        let more = [("run", about.title.as_str()), ("settings", &about.settings)];
        Made {
            name: plain(figure.id),
            chart: figures::chart(&figure, points),
            csv: Some(csv(&heads, &rows, &more)),
            caption: format!("{} {}", figure.words(), about.sentence()),
            none: if figure.none.is_empty() { NOTHING.to_owned() } else { figure.none.to_owned() },
        }
    });
    made.collect()
}

/// What is said of a figure without words of its own for that.
const NOTHING: &str = "Nothing to show: no query of this run has this figure.";

/// The curves that compare runs.
fn of_runs(names: &[String], runs: &[Evaluated<Value>]) -> Vec<Made> {
    let about: Vec<About> = runs.iter().map(|run| About::new(&run.document.report)).collect();
    let said: Vec<String> =
        names.iter().zip(&about).map(|(name, about)| format!("{name}: {}", about.sentence())).collect();
    let curves: Vec<Curves> = runs.iter().map(|run| curves_of(&run.analysis.figures)).collect();
    let made = CURVES.iter().map(|figure| {
        let of: Vec<_> = names.iter().zip(&curves).map(|(name, all)| (name.clone(), all[figure.id].clone())).collect();
        let rows: Vec<Vec<String>> = of
            .iter()
            .zip(&about)
            .flat_map(|((name, points), about)| {
                let ends = [about.title.clone(), about.settings.clone()];
                let row = move |&(x, y): &(f64, Option<f64>)| {
                    let y = y.map_or(String::new(), |y| y.to_string());
                    [name.clone(), x.to_string(), y].into_iter().chain(ends.clone()).collect()
                };
                points.iter().map(row).collect::<Vec<_>>()
            })
            .collect();
        Made {
            name: figure.file.to_owned(),
            chart: figure.chart(&of),
            csv: Some(csv(&["run", figure.x.column, figure.y.column, "about", "settings"], &rows, &[])),
            caption: format!("{} {}", words(figure), said.join(" ")),
            none: figure.none.to_owned(),
        }
    });
    made.collect()
}

/// Title and caption as one text.
fn words(figure: &RunCurve) -> String {
    format!("{} {}", figure.title, figure.caption).trim().to_owned()
}

/// A name of a figure as files have it.
fn plain(id: &str) -> String {
    id.replace('_', "-")
}

/// A table with columns behind its own that say the same in each row.
fn csv(heads: &[&str], rows: &[Vec<String>], more: &[(&str, &str)]) -> String {
    let line = |fields: &[&str]| fields.iter().map(|text| csv_field(text)).collect::<Vec<_>>().join(",") + "\n";
    let mut text = line(&heads.iter().copied().chain(more.iter().map(|(head, _)| *head)).collect::<Vec<_>>());
    for row in rows {
        text += &line(&row.iter().map(String::as_str).chain(more.iter().map(|(_, said)| *said)).collect::<Vec<_>>());
    }
    text
}

/// A field of CSV (RFC 4180): in quotes where it has a comma, a quote or an end of a line.
pub fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Writes the figures that are wanted into a directory, which is made where it is not there.
pub(crate) fn write(directory: &Path, export: &Export, made: Vec<Made>) -> Result<Exported, ExportError> {
    let names: Vec<&str> = made.iter().map(|figure| figure.name.as_str()).collect();
    let wanted: Vec<String> = export.figures.iter().map(|name| plain(name)).collect();
    if let Some(name) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(ExportError::NoFigure { name: name.clone(), suggestion: suggest(name, &names) });
    }
    fs::create_dir_all(directory).map_err(ResultsError::file(directory))?;
    let (mut exported, mut captions) = (Exported::default(), String::new());
    for figure in made.into_iter().filter(|figure| wanted.is_empty() || wanted.contains(&figure.name)) {
        if figure.chart.shapes.is_empty() {
            exported.empty.extend((!wanted.is_empty()).then_some((figure.name, figure.none)));
            continue;
        }
        write_one(directory, export, &figure)?;
        // Writing to a string cannot fail.
        let _ = writeln!(captions, "{}: {}\n", figure.name, figure.caption);
        exported.written.push(figure.name);
    }
    store::replace(&directory.join(CAPTIONS), captions.as_bytes())?;
    Ok(exported)
}

fn write_one(directory: &Path, export: &Export, figure: &Made) -> Result<(), ResultsError> {
    let file = |kind: &str, content: &[u8]| store::replace(&directory.join(format!("{}.{kind}", figure.name)), content);
    if let Some(csv) = &figure.csv {
        file("csv", csv.as_bytes())?;
    }
    if let Some(picture) = figure.chart.picture(&export.look) {
        file("svg", picture.svg.as_bytes())?;
        file("pdf", &picture.pdf)?;
        file("png", &picture.png)?;
    }
    Ok(())
}
