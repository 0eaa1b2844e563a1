//! Gates: what must hold of B, mostly in multiples of what A has.

use serde::Serialize;

use super::contrast::Contrast;
use super::row::{Change, difference};
use super::sample::{Sample, Scale};
use super::{FEWEST, Pair, words};
use crate::expect::{Bound, Expectation, Quantity, Relation};

/// The probability with which any gate of several may be told to be broken that is not.
const WRONGLY_BROKEN: f64 = 0.01;
/// The probability with which a gate that does not hold may be reported as held. All must hold, so it is the probability for all at once.
const WRONGLY_HELD: f64 = 0.05;

/// What became of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// What was to be kept was kept.
    Held,
    /// It was not.
    Broken,
    /// The noise does not let it be decided, or it cannot be judged.
    Undecided,
}

/// What became of one thing that was to be kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateResult {
    /// What it was.
    pub keep: Expectation,
    /// What is compared against.
    pub a: String,
    /// What is compared.
    pub b: String,
    /// What became of it.
    pub outcome: Outcome,
    /// By how much B differs from A.
    pub change: Option<Change>,
    /// How many more repeats of each side would decide it, by the spread that was seen.
    pub more_repeats: Option<u32>,
    /// All of it in words.
    pub words: String,
}

/// Judges the gate's expectations for each of these pairs.
pub fn keep(pairs: &[Pair], keep: &[Expectation]) -> Vec<GateResult> {
    let judged = (pairs.len() * keep.len()).max(1) as f64;
    let one = |pair: &Pair, expectation: &Expectation| Gate::new(pair, *expectation, WRONGLY_BROKEN / judged).judge();
    pairs.iter().flat_map(|pair| keep.iter().map(|expectation| one(pair, expectation)).collect::<Vec<_>>()).collect()
}

struct Gate<'a> {
    pair: &'a Pair,
    keep: Expectation,
    a: Sample,
    b: Sample,
    /// The probability with which this one may be told to be broken that is not.
    wrongly: f64,
}

impl<'a> Gate<'a> {
    fn new(pair: &'a Pair, keep: Expectation, wrongly: f64) -> Self {
        let (a, b) = (Sample::of(keep.quantity, &pair.a), Sample::of(keep.quantity, &pair.b));
        Self { pair, keep, a, b, wrongly }
    }

    fn judge(&self) -> GateResult {
        let is_relative = self.keep.is_relative();
        let fewest = if is_relative { self.a.values.len().min(self.b.values.len()) } else { self.b.values.len() };
        let found = self.excesses();
        if let Some(why) = self.unknown().or_else(|| self.unanswered()) {
            return self.told(Outcome::Undecided, None, format!("{} cannot be judged: {why}", self.keep));
        }
        if fewest < FEWEST || found.is_empty() {
            let more = (FEWEST - fewest.min(FEWEST)).max(1) as u32;
            let sentence = format!(
                "{} is undecided: {}; of {} and {}, {fewest} of each that count say too little of the noise",
                self.keep,
                words::more(Some(more)),
                self.pair.a.name,
                self.pair.b.name
            );
            return self.told(Outcome::Undecided, Some(more), sentence);
        }
        let is_exact = self.is_without_noise() && found.iter().all(|excess| excess.centre <= 0.0);
        if is_exact || found.iter().all(|excess| excess.high(WRONGLY_HELD) <= 0.0) {
            return self.told(
                Outcome::Held,
                None,
                format!("{} holds: {}", self.keep, self.sentence(2.0 * WRONGLY_HELD)),
            );
        }
        if self.is_beyond_noise(&found) && found.iter().any(|excess| excess.low(self.wrongly) > 0.0) {
            let sentence = format!("{} is broken: {}", self.keep, self.sentence(2.0 * self.wrongly));
            return self.told(Outcome::Broken, None, sentence);
        }
        let more = found.iter().map(|excess| self.more(excess)).max_by_key(|more| more.unwrap_or(u32::MAX)).flatten();
        let sentence =
            format!("{} is undecided: {}; {}", self.keep, words::more(more), self.sentence(2.0 * WRONGLY_HELD));
        self.told(Outcome::Undecided, more, sentence)
    }

    /// Why there is nothing to judge.
    fn unknown(&self) -> Option<String> {
        let sides = [("A", &self.a, self.keep.is_relative()), ("B", &self.b, true)];
        let lacking = sides.into_iter().find(|(_, sample, is_needed)| *is_needed && sample.values.is_empty());
        let (side, sample, _) = lacking?;
        let of = if side == "A" { &self.pair.a } else { &self.pair.b };
        let reason =
            sample.reason.unwrap_or(if of.left_out.is_empty() { "it has no run" } else { "it has no run that counts" });
        Some(format!("{} is not known of {} ({side}): {reason}", self.keep.quantity, of.name))
    }

    /// Why a figure that falls among unanswered queries in all runs of both has no ratio: it is only known to be above the timeout.
    fn unanswered(&self) -> Option<String> {
        let is_so = |sample: &Sample| sample.unanswered > 0 && sample.unanswered == sample.values.len();
        (self.keep.is_relative() && is_so(&self.a) && is_so(&self.b))
            .then(|| format!("{} falls among unanswered queries in all runs of both", self.keep.quantity))
    }

    /// How far B is beyond each bound, on the scale of the quantity: above 0 is a violation.
    fn excesses(&self) -> Vec<Contrast> {
        let (factor, tolerance) = match self.keep.bound {
            Bound::Times { factor, tolerance } => (factor, tolerance / 100.0),
            _ => (1.0, 0.0),
        };
        let above = || self.excess(factor * (1.0 + tolerance), true);
        let below = || self.excess(factor * (1.0 - tolerance), false);
        let sides = match self.keep.relation {
            Relation::AtMost | Relation::Below => vec![above()],
            Relation::AtLeast | Relation::Above => vec![below()],
            Relation::Equal => vec![above(), below()],
        };
        sides.into_iter().flatten().collect()
    }

    fn excess(&self, factor: f64, is_upper: bool) -> Option<Contrast> {
        let excess = match (self.keep.bound, self.b.scale) {
            (Bound::Times { .. }, Scale::Ratio) => {
                difference(&self.a, &self.b, 1.0, self.pair.interleaved)?.less(factor.max(f64::MIN_POSITIVE).ln())
            }
            (Bound::Times { .. }, _) => difference(&self.a, &self.b, factor, self.pair.interleaved)?,
            (bound, scale) => {
                let of_b = Contrast::of_one(&self.b.scaled(), scale.resolution(), self.b.by)?;
                of_b.less(scale.of(self.absolute(bound)?).max(f64::MIN))
            }
        };
        Some(if is_upper { excess } else { excess.negated() })
    }

    /// A bound in the unit of the quantity; counts become shares of their total.
    fn absolute(&self, bound: Bound) -> Option<f64> {
        let is_count = matches!((bound, self.b.scale), (Bound::Count(_) | Bound::Number(_), Scale::Points { .. }));
        let figure = bound.figure(self.keep.quantity)?;
        let (_, run) = self.pair.b.runs.first()?;
        let whole = match self.keep.quantity {
            Quantity::NotSent => run.summary.queries.trace.unwrap_or_default(),
            Quantity::Answered | Quantity::TimedOut | Quantity::Failed => run.summary.queries.sent,
            Quantity::Compared(_) => run.summary.answers.values().sum(),
            Quantity::LookupFailed => run.summary.lookups.as_ref().map_or(0, |lookups| lookups.asked),
            _ => run.summary.queries.answered,
        };
        Some(if is_count { figure * 100.0 / whole.max(1) as f64 } else { figure })
    }

    /// Whether all repeats of a side are one like the other.
    fn is_without_noise(&self) -> bool {
        let is_alike = |sample: &Sample| sample.values.windows(2).all(|pair| pair[0] == pair[1]);
        is_alike(&self.b) && (!self.keep.is_relative() || is_alike(&self.a))
    }

    /// Whether B differs from A by more than A does from itself.
    fn is_beyond_noise(&self, found: &[Contrast]) -> bool {
        if !self.keep.is_relative() {
            return true;
        }
        let change = difference(&self.a, &self.b, 1.0, self.pair.interleaved).map_or(0.0, |found| found.centre.abs());
        let floor = self.a.noise_floor().unwrap_or_default();
        // A bound that A itself violates is also violated by anything like A.
        change > floor || found.iter().any(|excess| excess.centre > floor)
    }

    fn more(&self, excess: &Contrast) -> Option<u32> {
        let (size, outside) = (excess.centre.abs(), if excess.centre < 0.0 { WRONGLY_HELD } else { self.wrongly });
        excess.more(outside, |_, reach| reach < size)
    }

    fn sentence(&self, outside: f64) -> String {
        let quantity = self.keep.quantity;
        let of = |sample: &Sample| words::figure(quantity, super::median(sample.values.clone()));
        if !self.keep.is_relative() {
            return format!("{quantity} of {} is {}", self.pair.b.name, of(&self.b));
        }
        let change = self.change(outside).map_or_else(String::new, |change| words::moved(&change));
        format!(
            "{quantity} {change}, from {} ({}) to {} ({})",
            of(&self.a),
            self.pair.a.name,
            of(&self.b),
            self.pair.b.name
        )
    }

    fn change(&self, outside: f64) -> Option<Change> {
        let found = difference(&self.a, &self.b, 1.0, self.pair.interleaved)?;
        Some(Change::of(self.b.scale, found.centre, found.interval(outside)))
    }

    fn told(&self, outcome: Outcome, more_repeats: Option<u32>, words: String) -> GateResult {
        let outside = if outcome == Outcome::Broken { 2.0 * self.wrongly } else { 2.0 * WRONGLY_HELD };
        GateResult {
            keep: self.keep,
            a: self.pair.a.name.clone(),
            b: self.pair.b.name.clone(),
            outcome,
            change: self.change(outside).filter(|_| self.keep.is_relative() && self.unanswered().is_none()),
            more_repeats,
            words,
        }
    }
}
