//! `report.html`: one file with everything in it, that opens by a double click and asks no network.

mod agents;
mod answers;
mod head;
mod names;
mod overlay;
mod settings;
mod tables;
mod usage;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serialize;

use self::settings::lines;
use crate::figures::{self, Data, FIGURES, Figure};
use ldplayer_results::Analysis;
use ldplayer_results::ResultsError;
use ldplayer_results::figures::LatencySlices;
use ldplayer_results::store;
use ldplayer_results::words;
use ldplayer_results::{RunReport, Telemetry};

pub use self::head::About;
pub use self::overlay::{Laid, write as write_overlay};
pub use self::settings::changed;

const TEMPLATE: &str = include_str!("../assets/report.html.j2");
pub(crate) const STYLE: &str = include_str!("../assets/report.css");
/// What draws and saves figures, for the page of one run and of several.
pub const FIGURES_SCRIPT: &str = include_str!("../assets/figures.js");
const SCRIPT: &str = include_str!("../assets/report.js");
const MACROS: &str = include_str!("../assets/figure.html.j2");
pub(crate) const D3: &str = include_str!("../assets/d3.min.js");
pub(crate) const PLOT: &str = include_str!("../assets/plot.umd.min.js");

/// Writes the page of a run.
pub fn write(path: &Path, report: &RunReport, analysis: &Analysis) -> Result<(), ResultsError> {
    let drawn = figures::data(report, &analysis.figures);
    let data = Embedded {
        figures: FIGURES,
        legends: figures::legends(&drawn, &analysis.figures.latency_slices),
        latency_slices: &analysis.figures.latency_slices,
        data: drawn,
    };
    let data = serde_json::to_string(&data).map_err(ResultsError::json(path))?;
    let about = serde_json::to_string(&head::About::new(report)).map_err(ResultsError::json(path))?;
    let html = render(report, &data, &about).map_err(not_made(path))?;
    store::replace(path, html.as_bytes())
}

/// What the script of a page draws.
#[derive(Serialize)]
struct Embedded<'a> {
    figures: &'static [Figure],
    data: BTreeMap<&'static str, Data>,
    legends: BTreeMap<String, String>,
    latency_slices: &'a [LatencySlices],
}

/// The error of a page that could not be made of its template.
pub fn not_made(path: &Path) -> impl FnOnce(minijinja::Error) -> ResultsError + use<'_> {
    move |source| ResultsError::Page { path: path.to_owned(), source: source.into() }
}

/// What templates of pages have in common: who may do what in a page, and the word by which its own scripts show that they are.
///
/// Nothing is loaded from anywhere, and a script that came in by a name or a text of somebody else does not run. The word is made of all
/// that the page shows, so that the same run has the same page, and what is in it cannot have its own word.
pub fn environment(shown: &impl Serialize) -> Environment<'static> {
    let text = serde_json::to_vec(shown).unwrap_or_default();
    let word = |number: u8| {
        let mut hasher = DefaultHasher::new();
        (number, &text).hash(&mut hasher);
        hasher.finish()
    };
    let nonce = format!("{:016x}{:016x}", word(0), word(1));
    let policy = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-{nonce}'; \
         style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'\">"
    );
    let mut environment = Environment::new();
    environment.add_global("policy", Value::from_safe_string(policy));
    environment.add_global("nonce", Value::from_safe_string(nonce));
    // What is wrong with it, the first page that is made of it says.
    environment.add_template("figure.html", MACROS).ok();
    environment
}

fn render(report: &RunReport, data: &str, about: &str) -> Result<String, minijinja::Error> {
    let mut environment = environment(&(report, data, about));
    // The name ends in .html, so everything that is not marked as safe is escaped.
    environment.add_template("report.html", TEMPLATE)?;
    let summary = &report.summary;
    environment.get_template("report.html")?.render(context! {
        style => safe(STYLE),
        scripts => [safe(D3), safe(PLOT), safe(FIGURES_SCRIPT), safe(SCRIPT)],
        data => safe(&inside_script(data)),
        figures => Value::from(Serde(figures::by_section(report))),
        about => safe(&inside_script(about)),
        head => Value::from(Serde(head::Head::new(report))),
        report => Value::from(Serde(report)),
        settings => Value::from(Serde(settings::Settings::new(report))),
        accounts => Value::from(Serde(tables::accounts(report))),
        answers => Value::from(Serde(answers::lines(summary.answers_compared.as_ref()))),
        agents => Value::from(Serde(agents::lines(&report.agents))),
        agents_head => Value::from(Serde(agents::HEAD)),
        checks => Value::from(Serde(head::checks(&report.verdict.checks, words::check))),
        server_checks => Value::from(Serde(head::checks(&report.verdict.server.checks, words::quantity))),
        names => Value::from(Serde(names::section(summary.names.as_ref()))),
        lookups => Value::from(Serde(tables::lookups(summary))),
        errors => Value::from(Serde(tables::extended_errors(summary))),
        servers => Value::from(Serde(tables::servers(summary))),
        timed => report.limits.timing.is_some(),
        timing => Value::from(Serde(tables::timing(report))),
        latency => Value::from(Serde(tables::latency(report))),
        connected => summary.connections.opened + summary.connections.failed > 0,
        connections => Value::from(Serde(tables::connections(report))),
        sampled => summary.telemetry != Telemetry::default(),
        watched => summary.telemetry.server.is_some(),
        usage => Value::from(Serde(usage::lines(&summary.telemetry))),
        tally => Value::from(Serde(lines(&report.tally))),
        stalls => Value::from(Serde(lines(&report.stalls))),
    })
}

fn safe(text: &str) -> Value {
    Value::from_safe_string(text.to_owned())
}

/// JSON that cannot end the script element it stands in, nor open a comment there.
pub(crate) fn inside_script(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// A row of a table: its head and its cells.
#[derive(Serialize)]
struct Line {
    name: String,
    cells: Vec<String>,
    sub: bool,
}

impl Line {
    fn new(name: &str, cells: Vec<String>) -> Self {
        Self { name: name.to_owned(), cells, sub: false }
    }

    fn sub(name: &str, cells: Vec<String>) -> Self {
        Self { sub: true, ..Self::new(name, cells) }
    }
}

/// A share in percent; nothing where there is no whole.
fn share(part: u64, whole: Option<u64>) -> String {
    match whole {
        Some(whole) if whole > 0 => format!("{:.2} %", part as f64 * 100.0 / whole as f64),
        _ => String::new(),
    }
}
