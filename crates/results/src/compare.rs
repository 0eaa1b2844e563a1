//! Comparing runs: two sides with their repeats, held against each other figure by figure.
//!
//! ```text
//! runs of A ─┐  sample: a figure of each run   contrast: estimate and its error   row: interval, noise floor, verdict, words
//!            ├─► ────────────────────────────► ────────────────────────────────► ───────────────────────────────────────────
//! runs of B ─┘                                                                   gate: held, broken or undecided
//! ```
//!
//! # The contract
//!
//! - The unit is a run: queries of one run share its machine, its moment and its server process, so that their number says nothing of
//!   how well a run repeats.
//! - No claim without repeats: with fewer than [`FEWEST`] on a side everything is undecided.
//! - One table is one claim: all its intervals hold at once with [`OUTSIDE`] against it, however many rows it has (Bonferroni).
//! - What differs less than A differs from itself is no difference: the noise floor.
//! - A percentile among unanswered queries is as long as these were waited for, which is the least that it can be.
//!
//! Statistics are in `contrast` and `student`, and know nothing of runs.

mod alike;
mod contrast;
mod gate;
mod ranks;
mod row;
mod sample;
mod student;
mod warned;
mod words;

pub use contrast::median;
pub use gate::{GateResult, Outcome, keep};
pub use row::{Change, Estimate, Family, Row, Verdict};
pub use sample::Scale;
pub use warned::of_runs as warned;
pub use words::{figure, shown, unit};

use std::path::{Path, PathBuf};

use ldplayer_core::{Answer, Ignore};
use serde::Serialize;

use crate::answers::compare_runs;
use crate::error::ResultsError;
use crate::expect::{Origin, Quantile, Quantity, Resident};
use crate::model::{AnswersCompared, RunReport};
use crate::store::RESPONSES;
use sample::Sample;

/// Repeats of a side without which nothing is claimed.
pub const FEWEST: usize = 3;
/// The probability with which one of the intervals of a table may miss the truth.
pub const OUTSIDE: f64 = 0.05;

/// Some runs of the same.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// What it is called.
    pub name: String,
    /// The runs that count, each with its number.
    pub runs: Vec<(u32, RunReport)>,
    /// Their directories, as far as they are known.
    pub directories: Vec<PathBuf>,
    /// Runs that do not count, and why.
    pub left_out: Vec<String>,
    /// Disturbed runs, each with the figures that count and the reason.
    pub partly: Vec<String>,
    /// Of disturbed runs, whether only figures count that their host cannot have changed.
    pub is_strict: bool,
}

impl Side {
    /// The first run that kept responses.
    pub fn kept_responses(&self) -> Option<&Path> {
        self.with_responses().next()
    }

    /// The runs that kept responses.
    fn with_responses(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().filter(|run| run.join(RESPONSES).exists()).map(PathBuf::as_path)
    }
}

/// Two sides.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// What is compared against.
    pub a: Side,
    /// What is compared.
    pub b: Side,
    /// Whether runs with the same number were made one after the other (A B A B), so that what disturbed one disturbed both.
    pub interleaved: bool,
    /// Keys that were chosen to differ.
    pub chosen: Vec<String>,
}

/// What two sides came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What is compared against.
    pub a: SideSummary,
    /// What is compared.
    pub b: SideSummary,
    /// The differences beyond those chosen, and the warnings of the runs.
    pub warnings: Vec<String>,
    /// A row a figure.
    pub rows: Vec<Row>,
    /// Figures that are not known of both, and why.
    pub unknown: Vec<String>,
    /// B's answers against A's, if both kept responses.
    pub answers: Option<Answers>,
}

/// The answers of one run against another's, query by query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answers {
    /// B's answers against A's.
    pub of_b: AnswersCompared,
    /// The answers of another repeat of A against the same: the differences that occur without another server.
    pub of_a: Option<AnswersCompared>,
}

/// Compares the answers of the first runs of both sides that kept responses; `None` where there are none.
///
/// # Errors
/// A file of responses cannot be read.
pub fn answers(pair: &Pair) -> Result<Option<Answers>, ResultsError> {
    let (Some(a), Some(b)) = (pair.a.kept_responses(), pair.b.kept_responses()) else { return Ok(None) };
    let against = |other: &Path| compare_runs(a, other, &Ignore::default());
    let again = pair.a.with_responses().nth(1).map(against).transpose()?.flatten();
    Ok(against(b)?.map(|of_b| Answers { of_b, of_a: again }))
}

/// How many runs a side has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideSummary {
    /// What it is called.
    pub name: String,
    /// Runs that count.
    pub runs: usize,
    /// Runs that do not, and why.
    pub left_out: Vec<String>,
}

impl From<&Side> for SideSummary {
    fn from(side: &Side) -> Self {
        Self { name: side.name.clone(), runs: side.runs.len(), left_out: side.left_out.clone() }
    }
}

/// Compares two sides, figure by figure.
pub fn compare(pair: &Pair) -> Comparison {
    let mut unknown = Vec::new();
    let samples: Vec<(Family, Quantity, Sample, Sample)> = quantities(&[&pair.a, &pair.b])
        .into_iter()
        .map(|(family, quantity)| (family, quantity, Sample::of(quantity, &pair.a), Sample::of(quantity, &pair.b)))
        .filter(|(_, quantity, a, b)| is_known(*quantity, a, b, &mut unknown))
        .collect();
    let outside = OUTSIDE / samples.len().max(1) as f64;
    let row = |(family, quantity, a, b): &(Family, Quantity, Sample, Sample)| {
        row::row(*family, *quantity, a, b, pair.interleaved, outside)
    };
    Comparison {
        a: (&pair.a).into(),
        b: (&pair.b).into(),
        warnings: warnings(pair),
        rows: samples.iter().map(row).collect(),
        unknown,
        answers: None,
    }
}

/// Whether both sides have a figure; a missing one is reported once for each reason.
fn is_known(quantity: Quantity, a: &Sample, b: &Sample, unknown: &mut Vec<String>) -> bool {
    let lacking = [("A", a), ("B", b)].into_iter().find(|(_, sample)| sample.values.is_empty());
    let Some((side, sample)) = lacking else { return true };
    let reason = sample.reason.unwrap_or("there is no run of it");
    unknown.push(format!("{quantity} is not known of {side}: {reason}"));
    false
}

/// What can be told of these sides.
pub fn quantities_of(sides: &[&Side]) -> Vec<Quantity> {
    quantities(sides).into_iter().map(|(_, quantity)| quantity).collect()
}

/// A figure over the repeats of a side, and each repeat's; `None` if no run has the figure.
pub fn estimate_of(quantity: Quantity, side: &Side) -> Option<(Estimate, Vec<(u32, f64)>)> {
    let sample = Sample::of(quantity, side);
    let values: Vec<(u32, f64)> = sample.numbers.iter().copied().zip(sample.values.iter().copied()).collect();
    (!values.is_empty()).then(|| (row::estimate(&sample), values))
}

/// The differences of two sides beyond those chosen, and the warnings of their runs.
fn warnings(pair: &Pair) -> Vec<String> {
    let of = |name: &str, side: &Side| -> Vec<String> {
        let runs: Vec<&RunReport> = side.runs.iter().map(|(_, run)| run).collect();
        let partly = side.partly.iter().map(|line| format!("of {name}, {line}"));
        warned::of_runs(&runs).into_iter().map(|line| format!("{name} has {line}")).chain(partly).collect()
    };
    [alike::warnings(pair), of("A", &pair.a), of("B", &pair.b)].concat()
}

/// What is compared: the fixed figures, and the response codes and answers that there are.
fn quantities(sides: &[&Side]) -> Vec<(Family, Quantity)> {
    let mut list = Vec::new();
    for from in [Origin::Sent, Origin::Intended] {
        for quantile in [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999] {
            list.push((Family::Latency, Quantity::Latency { quantile, from }));
        }
    }
    list.push((Family::Drift, Quantity::Drift));
    list.extend([(Family::Cpu, Quantity::Cpu), (Family::Cpu, Quantity::Cores)]);
    list.extend([Resident::Rss, Resident::Pss].map(|counted| (Family::Memory, Quantity::Memory(counted))));
    list.push((Family::Answered, Quantity::Answered));
    let runs = || sides.iter().flat_map(|side| &side.runs).map(|(_, report)| &report.summary);
    let mut names: Vec<&String> = runs().flat_map(|run| run.rcodes.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let codes = names.into_iter().filter_map(|name| crate::rcode::code(name));
    list.extend(codes.map(|code| (Family::Rcodes, Quantity::Rcode(code))));
    if runs().any(|run| run.lookups.is_some()) {
        let quantiles = [Quantile::P50, Quantile::P90, Quantile::P99].map(Quantity::Lookup);
        let of_lookups = quantiles.into_iter().chain([Quantity::LookupFailed, Quantity::Attempts]);
        list.extend(of_lookups.map(|quantity| (Family::Lookups, quantity)));
    }
    if runs().any(|run| !run.answers.is_empty()) {
        let compared = [Answer::Match, Answer::Better, Answer::Worse, Answer::Changed].map(Quantity::Compared);
        list.extend(compared.map(|quantity| (Family::Answers, quantity)));
    }
    list
}

#[cfg(test)]
mod tests;
