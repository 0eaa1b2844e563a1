//! What repeats say of a difference: its estimate, how sure that is, and how many more repeats would make it surer.

use ldplayer_core::random::{draw, subkey};

use super::ranks::{self, Ranked};
use super::student;

/// Repeats of each side from which on the distribution of the estimate is taken from the repeats themselves; with fewer, resampling
/// them gives intervals that are far too narrow, and Student's distribution is used.
pub const MANY: usize = 10;
/// Resamples of a bootstrap.
pub const RESAMPLES: usize = 1_999;
/// Repeats of each side from which on the tails of latency are compared by ranks: with fewer, ranks cannot say anything in a table of many figures.
const RANKED: usize = 8;
/// The seed of all resampling.
const SEED: u64 = 0x6c64_706c_6179_6572;
/// More repeats than this are not counted.
pub const MOST_MORE: u32 = 1_000;

/// An estimate from repeats: of one figure, or of a difference of two.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    /// The estimate.
    pub centre: f64,
    /// Its standard error.
    error: f64,
    /// What it is made of.
    parts: Vec<Part>,
    law: Law,
}

/// One side of a difference: the variance of its repeats, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    variance: f64,
    repeats: usize,
}

/// How the error of the estimate is distributed, in standard errors.
#[derive(Clone, Debug, PartialEq)]
enum Law {
    /// As Student's t with so many degrees of freedom.
    Student(u32),
    /// As in resamples, in their order (studentised bootstrap: Efron 1979, Hall 1988).
    Resampled(Vec<f64>),
    /// By ranks, where these can say it; else as Student's t. Figures are known to `resolution`.
    Ranked { ranked: Ranked, freedom: u32, resolution: f64 },
}

/// What is compared of the repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Their means.
    Means,
    /// Their ranks, where there are enough of them.
    Ranks,
}

impl Contrast {
    /// The middle of some repeats; `None` of fewer than two. Repeats are taken to differ by `resolution` at least.
    pub fn of_one(values: &[f64], resolution: f64, by: By) -> Option<Self> {
        let found = Self::of(&[values], &[1.0], resolution)?;
        let is_ranked = by == By::Ranks && (RANKED..=ranks::MOST).contains(&values.len());
        Some(if is_ranked { found.ranked(Ranked::of_pairs(values), resolution) } else { found })
    }

    /// The middle of `b` minus `factor` times that of `a` (Welch 1947).
    pub fn of_two(a: &[f64], b: &[f64], factor: f64, resolution: f64, by: By) -> Option<Self> {
        let found = Self::of(&[b, a], &[1.0, -factor], resolution)?;
        let is_ranked = by == By::Ranks && [a, b].iter().all(|side| (RANKED..=ranks::MOST).contains(&side.len()));
        let scaled = || a.iter().map(|value| value * factor).collect::<Vec<_>>();
        Some(if is_ranked { found.ranked(Ranked::of_two(&scaled(), b), resolution) } else { found })
    }

    fn ranked(self, ranked: Ranked, resolution: f64) -> Self {
        let freedom = freedom(&self.parts, 0);
        Self { centre: ranked.centre(), law: Law::Ranked { ranked, freedom, resolution }, ..self }
    }

    fn of(samples: &[&[f64]], weights: &[f64], resolution: f64) -> Option<Self> {
        if samples.iter().any(|values| values.len() < 2) {
            return None;
        }
        let (centre, parts) = combined(samples, weights, resolution);
        let error = error(&parts, 0);
        let is_many = samples.iter().all(|values| values.len() >= MANY);
        let law = match is_many && error > 0.0 {
            true => Law::Resampled(resampled(samples, weights, resolution, centre, RESAMPLES)),
            false => Law::Student(freedom(&parts, 0)),
        };
        Some(Self { centre, error, parts, law })
    }

    /// The estimate less a known figure.
    pub fn less(mut self, figure: f64) -> Self {
        self.centre -= figure;
        if let Law::Ranked { ranked, .. } = &mut self.law {
            *ranked = ranked.clone().less(figure);
        }
        self
    }

    /// The estimate the other way round.
    pub fn negated(mut self) -> Self {
        self.centre = -self.centre;
        match &mut self.law {
            Law::Student(_) => {}
            Law::Resampled(found) => {
                found.iter_mut().for_each(|value| *value = -*value);
                found.reverse();
            }
            Law::Ranked { ranked, .. } => *ranked = ranked.clone().negated(),
        }
        self
    }

    /// The range that holds the truth but for this probability, half of it on either side.
    pub fn interval(&self, outside: f64) -> (f64, f64) {
        (self.low(outside / 2.0), self.high(outside / 2.0))
    }

    /// What the truth is below with this probability only; never above the estimate, which resamples of few different values could give.
    pub fn low(&self, outside: f64) -> f64 {
        if let Law::Ranked { ranked, resolution, .. } = &self.law
            && let Some(low) = ranked.low(outside)
        {
            return low.min(self.centre - resolution);
        }
        self.centre - self.error * self.law.exceeded(outside).max(0.0)
    }

    /// What the truth is above with this probability only; never below the estimate.
    pub fn high(&self, outside: f64) -> f64 {
        if let Law::Ranked { ranked, resolution, .. } = &self.law
            && let Some(high) = ranked.high(outside)
        {
            return high.max(self.centre + resolution);
        }
        let exceeded = match &self.law {
            Law::Student(_) | Law::Ranked { .. } => self.law.exceeded(outside),
            Law::Resampled(found) => -found[at(found.len(), outside)],
        };
        self.centre + self.error * exceeded.max(0.0)
    }

    /// How many more repeats of each side would do, by the spread that was seen: `is_enough` is told how many there would be and
    /// how far the interval would reach to either side. `None` if a thousand do not.
    pub fn more(&self, outside: f64, is_enough: impl Fn(u32, f64) -> bool) -> Option<u32> {
        let is_enough = |more: u32| {
            let exceeded = student::exceeded(outside, freedom(&self.parts, more as usize));
            is_enough(more, exceeded * error(&self.parts, more as usize))
        };
        if !is_enough(MOST_MORE) {
            return None;
        }
        let (mut low, mut high) = (0, MOST_MORE);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if is_enough(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// Repeats of the side that has fewest.
    pub fn repeats(&self) -> usize {
        self.parts.iter().map(|part| part.repeats).min().unwrap_or_default()
    }
}

impl Law {
    fn exceeded(&self, probability: f64) -> f64 {
        match self {
            Self::Student(freedom) | Self::Ranked { freedom, .. } => student::exceeded(probability, *freedom),
            Self::Resampled(found) => found[at(found.len(), 1.0 - probability)],
        }
    }
}

/// The place of a quantile among so many.
fn at(count: usize, quantile: f64) -> usize {
    (quantile * count as f64).floor().clamp(0.0, count as f64 - 1.0) as usize
}

fn combined(samples: &[&[f64]], weights: &[f64], resolution: f64) -> (f64, Vec<Part>) {
    let part = |(values, weight): (&&[f64], &f64)| {
        let (mean, variance) = moments(values);
        let variance = variance.max(resolution * resolution) * weight * weight;
        (mean * weight, Part { variance, repeats: values.len() })
    };
    let (means, parts): (Vec<f64>, Vec<Part>) = samples.iter().zip(weights).map(part).unzip();
    (means.iter().sum(), parts)
}

fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, squares / (count - 1.0))
}

/// The standard error with so many more repeats.
fn error(parts: &[Part], more: usize) -> f64 {
    parts.iter().map(|part| part.variance / (part.repeats + more) as f64).sum::<f64>().sqrt()
}

/// Degrees of freedom by Welch and Satterthwaite, rounded down.
fn freedom(parts: &[Part], more: usize) -> u32 {
    let of = |part: &Part| (part.variance / (part.repeats + more) as f64, (part.repeats + more) as f64 - 1.0);
    let sum: f64 = parts.iter().map(|part| of(part).0).sum();
    let squares: f64 = parts.iter().map(|part| of(part).0 * of(part).0 / of(part).1).sum();
    if squares > 0.0 { ((sum * sum / squares + 1e-9).floor() as u32).max(1) } else { u32::MAX }
}

/// How far resamples are from the estimate, each in its own standard errors, sorted.
fn resampled(samples: &[&[f64]], weights: &[f64], resolution: f64, centre: f64, count: usize) -> Vec<f64> {
    let one = |number: usize| {
        let drawn: Vec<Vec<f64>> =
            samples.iter().enumerate().map(|(side, values)| redraw(values, side, number)).collect();
        let drawn: Vec<&[f64]> = drawn.iter().map(Vec::as_slice).collect();
        let (mean, parts) = combined(&drawn, weights, resolution);
        match error(&parts, 0) {
            error if error > 0.0 => (mean - centre) / error,
            _ => 0.0,
        }
    };
    let mut found: Vec<f64> = (0..count).map(one).collect();
    found.sort_unstable_by(f64::total_cmp);
    found
}

/// As many values, drawn with replacement: the same for the same numbers.
fn redraw(values: &[f64], side: usize, number: usize) -> Vec<f64> {
    let key = subkey(subkey(SEED, side as u64), number as u64);
    (0..values.len()).map(|at| values[(draw(key, at as u64) % values.len() as u64) as usize]).collect()
}

/// The range that holds the median of what repeats are drawn from, but for 5 %: with many repeats that of the medians of resamples,
/// with fewer Student's. `None` of fewer than three.
pub fn of_median(values: &[f64], resolution: f64) -> Option<(f64, f64)> {
    if values.len() < super::FEWEST {
        return None;
    }
    if values.len() < MANY {
        return Contrast::of_one(values, resolution, By::Means).map(|mean| mean.interval(super::OUTSIDE));
    }
    let mut medians: Vec<f64> = (0..RESAMPLES).map(|number| median(redraw(values, 0, number))).collect();
    medians.sort_unstable_by(f64::total_cmp);
    let of = |quantile| medians[at(medians.len(), quantile)];
    Some((of(super::OUTSIDE / 2.0), of(1.0 - super::OUTSIDE / 2.0)))
}

/// The median of some values; NaN of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = |at: usize| values.get(at).copied().unwrap_or(f64::NAN);
    let (low, high) = (middle(values.len().saturating_sub(1) / 2), middle(values.len() / 2));
    if low == high { low } else { low + (high - low) / 2.0 }
}
