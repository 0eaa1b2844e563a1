//! A figure of two sides: by how much it differs, and what that is worth.

use serde::{Serialize, Serializer};

use super::FEWEST;
use super::contrast::{self, By, Contrast, median};
use super::sample::{Sample, Scale};
use super::words;
use crate::expect::Quantity;
use ldplayer_core::Answer;

/// Pairs of runs from which on they are compared pair by pair. With fewer that costs more, in degrees of freedom, than it gains; and to
/// take runs apart that were disturbed alike makes intervals too wide, never too narrow.
const PAIRED: usize = 6;
/// The same where they are compared by ranks.
const RANKED_PAIRS: usize = 12;

/// What a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Percentiles of latency.
    Latency,
    /// How latency changes over a run.
    Drift,
    /// Processor time of the server.
    Cpu,
    /// Memory of the server.
    Memory,
    /// Share of the queries that were answered.
    Answered,
    /// Shares of response codes.
    Rcodes,
    /// Answers held against recorded ones.
    Answers,
    /// What users saw of clients that react.
    Lookups,
}

/// What a difference is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// They do not differ by more than a little.
    Same,
    /// The noise does not let it be decided.
    Undecided,
}

/// A figure over the repeats of a side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Runs that have it.
    pub runs: usize,
    /// The median.
    pub median: f64,
    /// The range that holds the median but for 5 %; `null` of fewer than three runs.
    pub interval: Option<(f64, f64)>,
    /// Runs in which it fell among unanswered queries, and counts as what these were waited for.
    pub unanswered: usize,
    /// Runs that do not have it.
    pub missing: usize,
}

/// By how much B differs from A.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// B ÷ A, or B − A of shares and drifts.
    pub estimate: f64,
    /// The least that it may be.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Whether it is a ratio, and no difference.
    pub is_ratio: bool,
}

/// A figure of two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is about.
    pub family: Family,
    /// Its word in the language of expectations.
    #[serde(serialize_with = "as_word")]
    pub quantity: Quantity,
    /// Its unit.
    pub unit: &'static str,
    /// Of the side compared against.
    pub a: Estimate,
    /// Of the side that is compared.
    pub b: Estimate,
    /// By how much it differs; `null` of fewer than two runs on a side, and where it falls among unanswered queries in all runs of both.
    pub change: Option<Change>,
    /// What A differs by from itself: a ratio above 1, or a difference.
    pub noise_floor: Option<f64>,
    /// What that is worth.
    pub verdict: Verdict,
    /// How many more repeats of each side would decide it, by the spread that was seen.
    pub more_repeats: Option<u32>,
    /// All of it in words.
    pub words: String,
}

fn as_word<S: Serializer>(quantity: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(quantity)
}

/// Which way a quantity is better.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Less,
    More,
    /// Any difference is a change of what the server says.
    NoChange,
}

fn wanted(quantity: Quantity) -> Wanted {
    const NOERROR: u16 = 0;
    const NXDOMAIN: u16 = 3;
    match quantity {
        Quantity::Answered | Quantity::Qps | Quantity::Compared(Answer::Match | Answer::Better) => Wanted::More,
        Quantity::Rcode(NOERROR | NXDOMAIN) => Wanted::NoChange,
        _ => Wanted::Less,
    }
}

impl Change {
    pub(super) fn of(scale: Scale, estimate: f64, (low, high): (f64, f64)) -> Self {
        let [estimate, low, high] = [estimate, low, high].map(|value| scale.back(value));
        Self { estimate, low, high, is_ratio: scale == Scale::Ratio }
    }
}

/// B less A on their scale; `None` of fewer than two runs on a side.
pub fn difference(a: &Sample, b: &Sample, factor: f64, interleaved: bool) -> Option<Contrast> {
    let resolution = a.scale.resolution().max(b.scale.resolution());
    let at_a = |number: &u32| a.numbers.iter().position(|other| other == number);
    let (of_a, of_b) = (a.scaled(), b.scaled());
    let pairs = b.numbers.iter().zip(&of_b).filter_map(|(number, b)| Some(b - factor * of_a[at_a(number)?]));
    let pairs: Vec<f64> = pairs.collect();
    // Ranks of few pairs say less than those of twice as many runs.
    let paired = if b.by == By::Ranks { RANKED_PAIRS } else { PAIRED };
    if interleaved && pairs.len() >= paired && pairs.len() == of_a.len() && pairs.len() == of_b.len() {
        return Contrast::of_one(&pairs, resolution, b.by);
    }
    Contrast::of_two(&of_a, &of_b, factor, resolution, b.by)
}

/// Whether all repeats of both are one like the other, as counts may be.
fn are_equal(a: &Sample, b: &Sample) -> bool {
    let mut values = a.values.iter().chain(&b.values);
    let first = values.next();
    values.all(|value| Some(value) == first)
}

/// A figure over the repeats of a side.
pub fn estimate(sample: &Sample) -> Estimate {
    let interval = contrast::of_median(&sample.scaled(), sample.scale.resolution());
    // A share is not below none nor above all.
    let ends = if matches!(sample.scale, Scale::Points { .. }) { (0.0, 100.0) } else { (f64::MIN, f64::MAX) };
    let back = |value: f64| sample.scale.back(value).clamp(ends.0, ends.1);
    let median = median(sample.values.clone());
    // That of a mean need not hold the median of repeats one of which is far from the others.
    let interval = interval.map(|(low, high)| (back(low).min(median), back(high).max(median)));
    Estimate { runs: sample.values.len(), median, interval, unanswered: sample.unanswered, missing: sample.missing }
}

/// Compares a figure of two sides, with the probability that its interval misses the truth.
pub fn row(family: Family, quantity: Quantity, a: &Sample, b: &Sample, interleaved: bool, outside: f64) -> Row {
    let contrast = difference(a, b, 1.0, interleaved);
    let floor = a.noise_floor();
    let fewest = a.values.len().min(b.values.len());
    let are_unanswered = fewest > 0 && a.unanswered == a.values.len() && b.unanswered == b.values.len();
    let (verdict, more_repeats) = match &contrast {
        _ if are_unanswered => (Verdict::Undecided, None),
        _ if fewest >= FEWEST && are_equal(a, b) => (Verdict::Same, None),
        Some(contrast) if fewest >= FEWEST => {
            judge(contrast, a.scale, floor.unwrap_or_default(), wanted(quantity), outside)
        }
        _ => (Verdict::Undecided, Some((FEWEST - fewest.min(FEWEST)) as u32)),
    };
    // Figures that are only known to be above the timeout have no ratio.
    let change =
        contrast.filter(|_| !are_unanswered).map(|found| Change::of(a.scale, found.centre, found.interval(outside)));
    let noise_floor = floor.map(|floor| a.scale.back(floor));
    let mut row = Row {
        family,
        quantity,
        unit: words::unit(quantity),
        a: estimate(a),
        b: estimate(b),
        change,
        noise_floor,
        verdict,
        more_repeats,
        words: String::new(),
    };
    row.words = words::row(&row, are_unanswered);
    row
}

/// What a difference is worth: one beyond its interval and the noise, none, or nobody knows.
fn judge(found: &Contrast, scale: Scale, floor: f64, wanted: Wanted, outside: f64) -> (Verdict, Option<u32>) {
    let (low, high) = found.interval(outside);
    let (size, margin, smallest) = (found.centre.abs(), scale.margin(), scale.smallest());
    let is_beyond_noise = |floor: f64| size > smallest.max(floor);
    if (low > 0.0 || high < 0.0) && is_beyond_noise(floor) {
        let is_better = match wanted {
            Wanted::Less => found.centre < 0.0,
            Wanted::More => found.centre > 0.0,
            Wanted::NoChange => false,
        };
        return (if is_better { Verdict::Better } else { Verdict::Worse }, None);
    }
    if low >= -margin && high <= margin {
        return (Verdict::Same, None);
    }
    let repeats = found.repeats() as f64;
    let more = found.more(outside / 2.0, |more, reach| {
        // Noise becomes less with more repeats, as the interval does.
        let floor = floor * (repeats / (repeats + f64::from(more))).sqrt();
        (reach < size && is_beyond_noise(floor)) || size + reach <= margin
    });
    (Verdict::Undecided, more)
}
