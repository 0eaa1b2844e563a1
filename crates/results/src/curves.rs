//! The curves of a run that are held against those of others: how latency is distributed, and what there was over time.

use std::path::Path;

use serde_json::Value;

use crate::analysis;
use crate::analysis::figures::Point;
use crate::error::ResultsError;
use crate::store::RunDir;

/// Curves of a run; times are in seconds from its first query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// Milliseconds from sent within which 0, 1, … 100 % of the queries were answered; it ends where the queries do that were.
    pub shares: Vec<f64>,
    /// The percentage of queries that are slower, and the milliseconds that they take at least, the slowest last.
    pub tail: Vec<(f64, f64)>,
    /// Median latency in milliseconds by time.
    pub p50: Vec<(f64, f64)>,
    /// 99th percentile by time, where it is not among unanswered queries.
    pub p99: Vec<(f64, f64)>,
    /// Answers a second.
    pub answers: Vec<(f64, f64)>,
    /// Cores that the server used.
    pub cores: Vec<(f64, f64)>,
    /// Octets of memory that the server had resident.
    pub memory: Vec<(f64, f64)>,
}

/// Reads the rows and samples of a run for its curves.
///
/// # Errors
/// The directory is not that of a run, or a file in it cannot be read.
pub fn read_curves(dir: &Path) -> Result<Curves, ResultsError> {
    let dir = RunDir::new(dir);
    let document = dir.read::<Value>()?;
    let figures = analysis::analyse(&dir, document.report.config.query_timeout_ns())?.figures;
    let latency = |of| figures.latency_time.iter().filter(move |point| point.of == of);
    let percentile = |of| latency(of).filter_map(|point| Some((point.t, point.ms?))).collect();
    Ok(Curves {
        tail: of(&figures.latency_tail, "from sent"),
        p50: percentile("median"),
        p99: percentile("99th percentile"),
        answers: of(&figures.throughput, "answers"),
        cores: of(&figures.cpu_time, "server"),
        memory: of(&figures.memory_time, "server, resident (RSS)"),
        shares: figures.latency_shares,
    })
}

/// The points of one curve among several; what was sampled before the first query is left out.
fn of(points: &[Point], name: &str) -> Vec<(f64, f64)> {
    points.iter().filter(|point| point.of == name && point.x >= 0.0).map(|point| (point.x, point.y)).collect()
}
