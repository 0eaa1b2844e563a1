//! The page of several runs: their curves laid over one another, and their figures side by side.

use std::collections::BTreeMap;
use std::path::Path;

use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::{D3, FIGURES_SCRIPT, PLOT, STYLE, head, inside_script, safe, settings, share};
use crate::curves::{self, Needs, RunCurve, curves_of};
use crate::page::{environment, not_made};
use crate::text::RunText;
use ldplayer_results::ResultsError;
use ldplayer_results::figures::Figures;
use ldplayer_results::needed;
use ldplayer_results::numbers::{counted, fixed, grouped, in_bytes};
use ldplayer_results::store;
use ldplayer_results::words;
use ldplayer_results::{RunReport, SideUsage, State};

const TEMPLATE: &str = include_str!("../../assets/overlay.html.j2");
const SCRIPT: &str = include_str!("../../assets/overlay.js");

/// A run that is laid over others.
pub struct Laid {
    /// What it is called.
    pub name: String,
    /// What is known of it.
    pub report: RunReport,
    /// Its figures.
    pub figures: Figures,
}

/// What the script of the page draws.
#[derive(Serialize)]
struct Overlay {
    runs: Vec<Named>,
    figures: Vec<RunCurve>,
    curves: BTreeMap<&'static str, Vec<RunPoint>>,
    rcodes: Vec<Share>,
}

/// A run as figures that are saved name it.
#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    about: head::About,
}

/// A point of a run's curve; `null` where the curve is interrupted.
#[derive(Serialize)]
struct RunPoint {
    run: usize,
    x: f64,
    y: Option<f64>,
}

/// Queries of a run that ended alike.
#[derive(Serialize)]
struct Share {
    run: usize,
    key: String,
    name: String,
    n: u64,
    percent: f64,
}

/// Writes the page.
pub fn write(path: &Path, runs: &[Laid]) -> Result<(), ResultsError> {
    let data = serde_json::to_string(&overlay(runs)).map_err(ResultsError::json(path))?;
    let html = render(runs, &data).map_err(not_made(path))?;
    store::replace(path, html.as_bytes())
}

fn render(runs: &[Laid], data: &str) -> Result<String, minijinja::Error> {
    let mut environment = environment(&data);
    // The name ends in .html, so everything that is not marked as safe is escaped.
    environment.add_template("overlay.html", TEMPLATE)?;
    let unwatched: Vec<&str> = runs.iter().filter(|run| !is_watched(run)).map(|run| run.name.as_str()).collect();
    environment.get_template("overlay.html")?.render(context! {
        style => safe(STYLE),
        scripts => [safe(D3), safe(PLOT), safe(FIGURES_SCRIPT), safe(SCRIPT)],
        data => safe(&inside_script(data)),
        title => runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", "),
        count => counted(runs.len() as u64, "run", "runs"),
        ldplayer => env!("CARGO_PKG_VERSION"),
        runs => Value::from(Serde(runs.iter().map(Shown::new).collect::<Vec<_>>())),
        rows => Value::from(Serde(rows(runs))),
        different => Value::from(Serde(different(runs))),
        figures => Value::from(Serde(shown(runs))),
        unwatched => unwatched.join(", "),
    })
}

/// A run in the list of the page.
#[derive(Serialize)]
struct Shown {
    name: String,
    title: String,
    under: String,
    server: &'static str,
    server_class: &'static str,
    replay: &'static str,
    replay_class: &'static str,
}

impl Shown {
    fn new(run: &Laid) -> Self {
        let report = &run.report;
        let started = words::to_the_second(&report.started);
        let (server, server_class) = match report.verdict.server.ok {
            Some(true) => ("as expected", "ok"),
            Some(false) => ("not as expected", "failed"),
            None => ("not judged", "open"),
        };
        let (replay_class, replay) = head::in_words(&report.verdict);
        let state = if report.state == State::Complete { String::new() } else { format!(", {}", report.state) };
        Self {
            name: run.name.clone(),
            title: RunText(report).asked(),
            under: format!("{}, {started}{state}", head::over(report)),
            server,
            server_class,
            replay,
            replay_class,
        }
    }
}

/// A figure of each run.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    cells: Vec<String>,
}

/// How a figure is read from a run.
type Figure = (&'static str, fn(&RunReport) -> String);

const FIGURES_OF_RUNS: [Figure; 18] = [
    ("queries sent", |run| grouped(run.summary.queries.sent)),
    ("answered", |run| percent(run, run.summary.queries.answered)),
    ("timed out", |run| percent(run, run.summary.queries.timed_out)),
    ("failed", |run| percent(run, run.summary.queries.failed)),
    ("sent per second", |run| known(run.summary.rate.sent_qps, |qps| grouped(qps.round() as u64))),
    ("answered per second", |run| known(run.summary.rate.answered_qps, |qps| grouped(qps.round() as u64))),
    ("median latency (ms)", |run| latency(run, 0.5)),
    ("90th percentile (ms)", |run| latency(run, 0.9)),
    ("95th percentile (ms)", |run| latency(run, 0.95)),
    ("99th percentile (ms)", |run| latency(run, 0.99)),
    ("99.9th percentile (ms)", |run| latency(run, 0.999)),
    ("responses, median second (Mbit/s)", |run| known(run.summary.responses.mbps_p50, |mbps| fixed(mbps, 2))),
    ("connections opened", |run| grouped(run.summary.connections.opened)),
    ("connections open at most", |run| grouped(run.summary.connections.peak_open)),
    ("server: cores used", |run| server(run, |side| side.cores_mean.map(|cores| fixed(cores, 2)))),
    ("server: processor time per query (µs)", |run| server(run, |side| side.cpu_us_per_query.map(|us| fixed(us, 2)))),
    ("server: resident memory at most", |run| server(run, |side| side.rss_peak_bytes.map(in_bytes))),
    ("replay: 99th percentile of lateness (µs)", |run| {
        known(run.summary.timing.error_us, |error| fixed(error.p99, 1))
    }),
];

fn known<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or("—".to_owned(), show)
}

fn percent(run: &RunReport, part: u64) -> String {
    let share = share(part, Some(run.summary.queries.sent));
    if share.is_empty() { "—".to_owned() } else { share }
}

/// A percentile, where enough queries lie beyond it.
fn latency(run: &RunReport, quantile: f64) -> String {
    let tail = &run.summary.latency_ms.from_sent;
    let percentiles = [(0.5, tail.p50), (0.9, tail.p90), (0.95, tail.p95), (0.99, tail.p99)];
    let ms = percentiles.iter().find(|&&(known, _)| known == quantile).map_or(tail.p999, |&(_, ms)| ms);
    known(ms.filter(|_| tail.queries >= needed(quantile)), |ms| fixed(ms, 3))
}

fn server(run: &RunReport, show: impl Fn(&SideUsage) -> Option<String>) -> String {
    known(run.summary.telemetry.server.as_ref().and_then(show), |shown| shown)
}

fn rows(runs: &[Laid]) -> Vec<Row> {
    let row = |&(name, show): &Figure| Row { name, cells: runs.iter().map(|run| show(&run.report)).collect() };
    FIGURES_OF_RUNS.iter().map(row).filter(|row| row.cells.iter().any(|cell| cell != "—" && cell != "0")).collect()
}

/// Settings in which runs differ: each with what every run has.
#[derive(Serialize)]
struct Different {
    name: String,
    cells: Vec<String>,
}

fn different(runs: &[Laid]) -> Vec<Different> {
    let changed = || runs.iter().filter_map(|run| run.report.config.changed.as_ref());
    let mut keys: Vec<&String> = changed().flat_map(|changed| changed.keys()).collect();
    keys.sort();
    keys.dedup();
    let of = |key: &str, run: &Laid| match &run.report.config.changed {
        None => "not known".to_owned(),
        Some(changed) => changed.get(key).map_or("default".to_owned(), settings::told),
    };
    let options = keys.into_iter().map(|key| Different {
        name: format!("--{}", key.replace('_', "-")),
        cells: runs.iter().map(|run| of(key, run)).collect(),
    });
    options.filter(|one| one.cells.iter().any(|cell| *cell != one.cells[0])).collect()
}

fn overlay(runs: &[Laid]) -> Overlay {
    let mut curves: BTreeMap<&'static str, Vec<RunPoint>> = BTreeMap::new();
    for (run, laid) in runs.iter().enumerate() {
        for (id, points) in curves_of(&laid.figures) {
            curves.entry(id).or_default().extend(points.into_iter().map(|(x, y)| RunPoint { run, x, y }));
        }
    }
    Overlay {
        runs: runs
            .iter()
            .map(|laid| Named { name: laid.name.clone(), about: head::About::new(&laid.report) })
            .collect(),
        figures: shown(runs),
        curves,
        rcodes: runs.iter().enumerate().flat_map(|(run, laid)| shares(run, laid)).collect(),
    }
}

/// The figures of the page.
fn shown(runs: &[Laid]) -> Vec<RunCurve> {
    curves::shown(|needs| {
        runs.iter().any(|run| match needs {
            Needs::Nothing => true,
            Needs::Connections => run.report.summary.connections.opened > 0,
            Needs::Watched => is_watched(run),
            Needs::Lookups => run.report.summary.lookups.is_some(),
        })
    })
}

fn is_watched(run: &Laid) -> bool {
    run.report.summary.telemetry.server.is_some()
}

/// What became of the queries sent.
fn shares(run: usize, laid: &Laid) -> impl Iterator<Item = Share> + '_ {
    let sent = laid.report.summary.queries.sent;
    let bars = laid.figures.rcodes.iter().filter(|bar| bar.key != "not_sent");
    bars.map(move |bar| {
        let percent = bar.n as f64 * 100.0 / sent.max(1) as f64;
        Share { run, key: bar.key.clone(), name: bar.name.clone(), n: bar.n, percent }
    })
}
