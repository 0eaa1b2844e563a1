//! The curves that compare runs: a row for each, from which follow the page of several runs, the page of an experiment, and its exports.

use std::collections::BTreeMap;
use std::path::Path;

use ldplayer_results::figures::{Curve, Figures, Point};
use ldplayer_results::{Evaluated, Figure, ResultsError, Side, evaluate};
use serde::Serialize;
use serde_json::Value;

use crate::axis::{Axis, Scale};
use crate::picture::{Chart, Placed};

/// What runs must have so that a page shows a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Connections in one of them.
    Connections,
    /// A server that was watched in one of them.
    Watched,
    /// Clients that react in one of them.
    Lookups,
}

/// A curve of a run.
#[derive(Clone, Copy, Serialize)]
pub struct RunCurve {
    /// The word for programs.
    pub id: &'static str,
    /// The name of the files it is exported as.
    #[serde(skip)]
    pub file: &'static str,
    /// Its title.
    pub title: &'static str,
    /// What stands behind the title.
    pub caption: &'static str,
    /// The text if no run has the figure; empty for the usual text.
    pub none: &'static str,
    /// Whether it takes the whole width.
    pub is_wide: bool,
    /// What the runs must have for it.
    pub needs: Needs,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Its points.
    #[serde(skip)]
    pub points: fn(&Figures) -> RunPoints,
}

impl RunCurve {
    /// Such curves of several, each with its name.
    pub(crate) fn chart(&self, curves: &[(String, RunPoints)]) -> Chart {
        let known = || curves.iter().flat_map(|(_, points)| points).filter_map(|&(x, y)| Some((x, y?)));
        let (x, y) =
            (Placed::new(self.x, known().map(|point| point.0)), Placed::new(self.y, known().map(|point| point.1)));
        let title = format!("{} {}", self.title, self.caption).trim().trim_end_matches('.').to_owned();
        Chart::of_curves(title, x, y, curves)
    }
}

/// Points of a curve; `None` where it is interrupted.
pub type RunPoints = Vec<(f64, Option<f64>)>;

/// The points of a run's curves, by their ids.
pub type Curves = BTreeMap<&'static str, RunPoints>;

/// All of them, as pages have them.
pub const CURVES: &[RunCurve] = &[
    RunCurve {
        id: "lookups",
        file: "lookups-cdf",
        title: "Time of a lookup, cumulative.",
        caption: "Share answered within a time.",
        needs: Needs::Lookups,
        x: Axis::LATENCY,
        y: Axis::new("lookups (%)", "lookups_percent", Scale::Percent),
        points: |figures| {
            let lookups = of(&figures.lookup_time, Curve::Lookups);
            if lookups.is_empty() { of(&figures.latency_cdf, Curve::FromSent) } else { lookups }
        },
        ..CURVE
    },
    RunCurve {
        id: "retries",
        file: "retries-over-time",
        title: "Retries per second.",
        none: "Nothing to show: no client asked again.",
        is_wide: true,
        needs: Needs::Lookups,
        y: Axis::new("retries per second", "retries_per_second", Scale::Count),
        points: |figures| of(&figures.attempts_time, Curve::Retries),
        ..CURVE
    },
    RunCurve {
        id: "cdf",
        file: "latency-cdf",
        title: "Latency, cumulative.",
        caption: "Share of the queries that were answered within a time.",
        x: Axis::LATENCY,
        y: Axis::QUERIES,
        points: |figures| of(&figures.latency_cdf, Curve::FromSent),
        ..CURVE
    },
    RunCurve {
        id: "tail",
        file: "latency-tail",
        title: "Latency of the slowest.",
        caption: "How long the slowest x % of the queries took at least, from sent; unanswered ones count as endless.",
        x: Axis::SLOWEST,
        y: Axis::LATENCY,
        points: |figures| of(&figures.latency_tail, Curve::FromSent),
        ..CURVE
    },
    RunCurve {
        id: "p50",
        file: "latency-p50-over-time",
        title: "Median latency over the run.",
        caption: "A curve stops where the median falls among unanswered queries.",
        y: Axis::LATENCY,
        points: |figures| percentile(figures, Curve::Median),
        ..CURVE
    },
    RunCurve {
        id: "p99",
        file: "latency-p99-over-time",
        title: "99th percentile of latency over the run,",
        caption: "of slices of 500 queries or more.",
        none: "Nothing to show: no run has 500 queries, or all their 99th percentiles fall among unanswered ones.",
        y: Axis::LATENCY,
        points: |figures| percentile(figures, Curve::P99),
        ..CURVE
    },
    RunCurve {
        id: "answers",
        file: "answers-over-time",
        title: "Answers per second.",
        is_wide: true,
        y: Axis::new("answers per second", "answers_per_second", Scale::Count),
        points: |figures| of(&figures.throughput, Curve::Answers),
        ..CURVE
    },
    RunCurve {
        id: "timeouts",
        file: "timeouts-over-time",
        title: "Timeouts per second,",
        caption: "by when the queries were sent.",
        none: "Nothing to show: no query timed out.",
        is_wide: true,
        y: Axis::new("timeouts per second", "timeouts_per_second", Scale::Count),
        points: |figures| of(&figures.without_time, Curve::TimedOut),
        ..CURVE
    },
    RunCurve {
        id: "connections",
        file: "connections-over-time",
        title: "Open connections.",
        is_wide: true,
        needs: Needs::Connections,
        y: Axis::new("connections", "connections", Scale::Count),
        points: |figures| of(&figures.connections_time, Curve::Sampled(Side::Client, Figure::ConnectionsOpen)),
        ..CURVE
    },
    RunCurve {
        id: "cores",
        file: "cores-over-time",
        title: "Processor.",
        caption: "Cores used by the server.",
        needs: Needs::Watched,
        y: Axis::new("cores", "cores", Scale::Short),
        points: |figures| of(&figures.cpu_time, Curve::Sampled(Side::Server, Figure::CpuSeconds)),
        ..CURVE
    },
    RunCurve {
        id: "memory",
        file: "memory-over-time",
        title: "Memory.",
        caption: "Resident memory of the server (RSS).",
        needs: Needs::Watched,
        y: Axis::new("memory", "bytes", Scale::Bytes),
        points: |figures| of(&figures.memory_time, Curve::Sampled(Side::Server, Figure::RssBytes)),
        ..CURVE
    },
];

/// What a row need not say.
const CURVE: RunCurve = RunCurve {
    id: "",
    file: "",
    title: "",
    caption: "",
    none: "",
    is_wide: false,
    needs: Needs::Nothing,
    x: Axis::TIME,
    y: Axis::LATENCY,
    points: |_| Vec::new(),
};

/// The points of one curve of a figure, without the samples before the first query.
fn of(points: &[Point], curve: Curve) -> RunPoints {
    let points = points.iter().filter(|point| point.of == curve && point.x >= 0.0);
    points.map(|point| (point.x, Some(point.y))).collect()
}

/// A percentile of latency over time.
fn percentile(figures: &Figures, curve: Curve) -> RunPoints {
    let points = figures.latency_time.iter().filter(|point| point.of == curve);
    points.map(|point| (point.t, point.ms)).collect()
}

/// The curves of a run.
pub fn curves_of(figures: &Figures) -> Curves {
    CURVES.iter().map(|curve| (curve.id, (curve.points)(figures))).collect()
}

/// Reads the rows and samples of a run for its curves.
///
/// # Errors
/// The directory is not a run directory, or a file in it cannot be read.
pub fn read_curves(dir: &Path) -> Result<Curves, ResultsError> {
    let Evaluated { analysis, .. } = evaluate::<Value>(dir)?;
    Ok(curves_of(&analysis.figures))
}

/// The rows that a page shows, by what any of its runs has.
pub fn shown(has: impl Fn(Needs) -> bool) -> Vec<RunCurve> {
    CURVES.iter().copied().filter(|curve| curve.needs == Needs::Nothing || has(curve.needs)).collect()
}
