//! A figure over the repeats of a side.

use super::Side;
use super::contrast::{By, median};
use crate::expect::{Quantile, Quantity};

/// How figures are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// By their ratio: a tenth more is a tenth more, however large they are.
    Ratio,
    /// By their difference in percentage points, of shares of so many queries.
    Points {
        /// Queries of the run that has fewest.
        queries: f64,
    },
    /// By the difference of changes in percent.
    Drift,
}

/// Ratios of figures are not told apart below three significant digits.
const DIGITS: f64 = 1e-3;

impl Scale {
    /// A figure as it is averaged.
    pub fn of(self, figure: f64) -> f64 {
        if self == Self::Ratio { figure.ln() } else { figure }
    }

    /// The figure of an average.
    pub fn back(self, average: f64) -> f64 {
        if self == Self::Ratio { average.exp() } else { average }
    }

    /// What repeats differ by at least, however equal they look: the digits of a figure, or one query.
    pub fn resolution(self) -> f64 {
        match self {
            Self::Ratio => DIGITS,
            Self::Points { queries } => 100.0 / queries.max(1.0),
            Self::Drift => 0.1,
        }
    }

    /// The least difference that is one: 1 %, 0.01 points of a share, 1 point of a drift.
    pub fn smallest(self) -> f64 {
        match self {
            Self::Ratio => 1.01_f64.ln(),
            Self::Points { .. } => 0.01,
            Self::Drift => 1.0,
        }
    }

    /// The difference within which figures are the same: 5 %, 0.1 points of a share, 5 points of a drift.
    pub fn margin(self) -> f64 {
        match self {
            Self::Ratio => 1.05_f64.ln(),
            Self::Points { .. } => 0.1,
            Self::Drift => 5.0,
        }
    }
}

/// A figure of each run of a side.
#[derive(Clone, Debug)]
pub struct Sample {
    /// How it is compared.
    pub scale: Scale,
    /// By what: tails of latency by ranks.
    pub by: By,
    /// The numbers of the runs that have it.
    pub numbers: Vec<u32>,
    /// The figures of these.
    pub values: Vec<f64>,
    /// Those that fell among unanswered queries.
    pub unanswered: usize,
    /// Runs that do not have it.
    pub missing: usize,
    /// Why the first of them does not.
    pub reason: Option<&'static str>,
}

impl Sample {
    /// The figure of the runs of a side.
    pub fn of(quantity: Quantity, side: &Side) -> Self {
        let sent = side.runs.iter().map(|(_, report)| report.summary.queries.sent).min().unwrap_or_default();
        let scale = match quantity {
            Quantity::Drift => Scale::Drift,
            Quantity::Latency { .. }
            | Quantity::Lookup(_)
            | Quantity::Cpu
            | Quantity::Cores
            | Quantity::Memory(_)
            | Quantity::Qps
            | Quantity::Attempts => Scale::Ratio,
            _ => Scale::Points { queries: sent as f64 },
        };
        let by = match quantity {
            Quantity::Latency { quantile: Quantile::P99 | Quantile::P999 | Quantile::Max, .. }
            | Quantity::Lookup(Quantile::P99 | Quantile::P999 | Quantile::Max) => By::Ranks,
            _ => By::Means,
        };
        let (numbers, values) = (Vec::new(), Vec::new());
        let mut sample = Self { scale, by, numbers, values, unanswered: 0, missing: 0, reason: None };
        for (number, report) in &side.runs {
            let waited_ms = report.config.query_timeout_ns() as f64 / 1e6;
            if side.is_strict && !report.is_good(quantity) {
                sample.miss("the hosts of its runs may have changed it");
                continue;
            }
            match quantity.measure(&report.summary).map(|found| found.figure()) {
                Ok(figure) if figure.is_infinite() => sample.add(*number, waited_ms, true),
                Ok(figure) => sample.add(*number, figure, false),
                Err(reason) => sample.miss(reason),
            }
        }
        sample
    }

    fn add(&mut self, number: u32, figure: f64, is_unanswered: bool) {
        if !self.scale.of(figure).is_finite() {
            return self.miss("it is too small to be measured");
        }
        self.numbers.push(number);
        self.values.push(figure);
        self.unanswered += usize::from(is_unanswered);
    }

    fn miss(&mut self, reason: &'static str) {
        self.missing += 1;
        self.reason.get_or_insert(reason);
    }

    /// The figures as they are averaged.
    pub fn scaled(&self) -> Vec<f64> {
        self.values.iter().map(|value| self.scale.of(*value)).collect()
    }

    /// How far repeats of the same are apart as a side would be from another: the first half of them from the second, and every
    /// other one from the rest, whichever is more. `None` of fewer than two.
    pub fn noise_floor(&self) -> Option<f64> {
        let values = self.scaled();
        if values.len() < 2 {
            return None;
        }
        let middle = |chosen: &dyn Fn(usize) -> bool| {
            let chosen: Vec<f64> =
                values.iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, value)| *value).collect();
            match self.by {
                By::Means => chosen.iter().sum::<f64>() / chosen.len() as f64,
                By::Ranks => median(chosen),
            }
        };
        let half = values.len() / 2;
        let halves = middle(&|at| at < half) - middle(&|at| at >= half);
        let turns = middle(&|at| at % 2 == 0) - middle(&|at| at % 2 == 1);
        Some(halves.abs().max(turns.abs()))
    }
}
