//! An axis of a picture: where its values are, its ticks, and what stands at them.

use ldplayer_results::compare::shown;
use ldplayer_results::numbers::grouped;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use crate::axis::{Axis, Scale};

/// Units of time with their seconds.
const TIMES: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
/// Ticks of a linear axis, about.
const TICKS: f64 = 6.0;

/// How values lie between the ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spacing {
    Linear,
    /// In powers of ten.
    Logarithmic,
    /// In powers of ten to both sides of zero, and evenly within this value.
    Symmetric(f64),
}

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// Numbers.
    Plain,
    /// Times, of so many seconds each.
    Time(f64),
    /// Bytes.
    Bytes,
}

/// An axis with the ends and ticks of a picture.
#[derive(Clone, Debug)]
pub struct Placed {
    /// What stands at it.
    pub label: String,
    unit: Unit,
    spacing: Spacing,
    /// Both ends and the ticks, as [`Self::place`] gives them.
    ends: (f64, f64),
    ticks: Vec<f64>,
}

impl Placed {
    /// The axis of a figure for these values.
    pub fn new(axis: Axis, values: impl Iterator<Item = f64>) -> Self {
        let label = axis.label;
        match axis.scale {
            Scale::Latency => Self::logarithmic(label, Unit::Time(1e-3), values),
            Scale::Gap => Self::logarithmic(label, Unit::Time(1.0), values),
            Scale::Slowest => Self::slowest(label, values),
            Scale::Error => Self::symmetric(label, Unit::Time(1e-6), 10.0, values),
            Scale::Difference => Self::symmetric(label, Unit::Plain, 0.01, values),
            Scale::Percent => Self::linear(label, Unit::Plain, (0.0, 100.0)),
            Scale::Bytes => Self::from_zero(label, Unit::Bytes, values),
            Scale::Time | Scale::UsageTime => {
                let end = values.fold(0.0, f64::max);
                Self::linear(label, Unit::Plain, (0.0, if end > 0.0 { end } else { 1.0 }))
            }
            Scale::Count | Scale::Short => Self::from_zero(label, Unit::Plain, values),
        }
    }

    /// From zero to a little more than the most.
    pub fn from_zero(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let most = values.fold(0.0, f64::max);
        Self::linear(label, unit, (0.0, if most > 0.0 { most * 1.05 } else { 1.0 }))
    }

    /// From a little less than the least to a little more than the most.
    pub fn around(label: &str, unit: Unit, least: f64, most: f64) -> Self {
        let room = if most > least { (most - least) * 0.2 } else { most.abs().max(1.0) * 0.1 };
        Self::linear(label, unit, (least - room, most + room))
    }

    /// As far to both sides of zero.
    pub fn even(label: &str, far: f64) -> Self {
        Self::linear(label, Unit::Plain, (-far, far))
    }

    /// From the power of ten below the least value to the one above the most.
    pub fn logarithmic(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let extended = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let (low, high) = values.filter(|value| *value > 0.0).map(f64::log10).fold((f64::MAX, f64::MIN), extended);
        // A power of ten may be a little off one by what floating point makes of it.
        let (low, high) = if low > high { (0.0, 1.0) } else { ((low + 1e-9).floor(), (high - 1e-9).ceil()) };
        let high = high.max(low + 1.0);
        let ticks = (low as i32..=high as i32).map(f64::from).collect();
        Self { label: label.to_owned(), unit, spacing: Spacing::Logarithmic, ends: (low, high), ticks }
    }

    fn linear(label: &str, unit: Unit, ends: (f64, f64)) -> Self {
        Self { label: label.to_owned(), unit, spacing: Spacing::Linear, ends, ticks: round_values(ends) }
    }

    fn symmetric(label: &str, unit: Unit, within: f64, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((-within, within), |(low, high), value| (low.min(value), high.max(value)));
        let powers = |end: f64| (0..).map(|power| within * 10_f64.powi(power)).take_while(move |tick| *tick <= end);
        let values: Vec<f64> = powers(-low).map(|tick| -tick).chain([0.0]).chain(powers(high)).collect();
        let mut axis = Self {
            label: label.to_owned(),
            unit,
            spacing: Spacing::Symmetric(within),
            ends: (0.0, 0.0),
            ticks: Vec::new(),
        };
        axis.ends = (axis.spaced(low), axis.spaced(high));
        axis.ticks = values.into_iter().map(|value| axis.spaced(value)).collect();
        axis.ticks.sort_by(f64::total_cmp);
        axis
    }

    /// A row for each of so many, the first on top.
    pub fn rows(count: usize) -> Self {
        let ticks = (0..count).map(|row| row as f64).collect();
        let ends = (count as f64 - 0.4, -0.6);
        Self { label: String::new(), unit: Unit::Plain, spacing: Spacing::Linear, ends, ticks }
    }

    /// From all queries to the slowest one, a tenth of them at the most.
    fn slowest(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let least = values.filter(|share| *share > 0.0).fold(10.0, f64::min);
        let mut axis = Self::logarithmic(label, Unit::Plain, [least, 100.0].into_iter());
        axis.ends = (axis.ends.1, least.log10());
        axis.ticks.retain(|tick| *tick >= axis.ends.1 - 1e-9);
        axis
    }

    /// Where a value is; one beyond an end is at the end.
    pub fn place(&self, value: f64) -> f64 {
        self.spaced(value).clamp(self.ends.0.min(self.ends.1), self.ends.0.max(self.ends.1))
    }

    /// Both ends, as [`Self::place`] gives them.
    pub fn ends(&self) -> (f64, f64) {
        self.ends
    }

    fn spaced(&self, value: f64) -> f64 {
        match self.spacing {
            Spacing::Linear => value,
            Spacing::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
            Spacing::Symmetric(within) => value.signum() * (1.0 + value.abs() / within).log10(),
        }
    }

    /// What stands at a tick.
    pub fn told(&self, at: f64) -> String {
        let value = match self.spacing {
            Spacing::Linear => at,
            Spacing::Logarithmic => 10_f64.powf(at),
            Spacing::Symmetric(within) => at.signum() * within * (10_f64.powf(at.abs()) - 1.0),
        };
        match self.unit {
            Unit::Plain => number(value),
            Unit::Time(seconds) => time(value * seconds),
            Unit::Bytes => shown("B", value),
        }
    }

    /// What stands at the ticks.
    pub fn all_told(&self) -> impl Iterator<Item = String> {
        self.ticks.iter().map(|at| self.told(*at))
    }

    /// The same with no more ticks than this: each second, third and so on, from the first.
    pub fn with_ticks(&self, most: usize) -> Self {
        let every = self.ticks.len().div_ceil(most.max(2)).max(1);
        Self { ticks: self.ticks.iter().copied().step_by(every).collect(), ..self.clone() }
    }
}

/// The drawing library's view of an axis.
impl Ranged for Placed {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let (low, high) = self.ends;
        from + ((value - low) / (high - low) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.ends.0..self.ends.1
    }
}

/// Whole multiples of one, two or five times a power of ten.
fn round_values((low, high): (f64, f64)) -> Vec<f64> {
    let rough = (high - low) / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|at| at as f64 * step).collect()
}

/// A number with as many digits as it has, up to six behind the point.
fn number(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    match rounded.fract() == 0.0 && rounded.abs() >= 1e3 {
        true => format!("{}{}", if rounded < 0.0 { "−" } else { "" }, grouped(rounded.abs() as u64)),
        // A zero has no sign.
        false => format!("{}", rounded + 0.0),
    }
}

/// A time in its largest unit: 0.002 s is `2 ms`.
fn time(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0".to_owned();
    }
    let is_enough = |(unit, _): &&(f64, &str)| seconds.abs() >= unit * 0.9995;
    let (unit, name) = TIMES.iter().find(is_enough).unwrap_or(&TIMES[3]);
    format!("{} {name}", (seconds / unit * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(axis: &Placed) -> Vec<String> {
        axis.all_told().collect()
    }

    #[test]
    fn ticks_are_round_values_in_the_unit_that_fits() {
        let latency = Placed::new(Axis::LATENCY, [0.02, 3_500.0].into_iter());
        assert_eq!(told(&latency), ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        assert_eq!(told(&latency.with_ticks(4)), ["10 µs", "1 ms", "100 ms", "10 s"]);
        let error = Placed::new(Axis::ERROR, [-30.0, 1_200.0].into_iter());
        assert_eq!(told(&error), ["-10 µs", "0", "10 µs", "100 µs", "1 ms"]);
        assert_eq!(told(&Placed::from_zero("q", Unit::Plain, [110_000.0].into_iter())).last().unwrap(), "100,000");
    }

    #[test]
    fn values_are_placed_between_the_ends() {
        let tail = Placed::new(Axis::SLOWEST, [0.1, 100.0].into_iter());
        assert_eq!((tail.map(&tail.place(100.0), (0, 300)), tail.map(&tail.place(0.1), (0, 300))), (0, 300));
        let short = Placed::new(Axis::SLOWEST, [0.2, 100.0].into_iter());
        assert_eq!(
            (short.map(&short.place(0.2), (0, 300)), told(&short)),
            (300, vec!["1".into(), "10".into(), "100".into()])
        );
        let latency = Placed::new(Axis::LATENCY, [1.0, 10.0].into_iter());
        assert_eq!((latency.place(0.0), latency.place(1e9)), (0.0, 1.0), "what is beyond an end is drawn at it");
        let error = Placed::new(Axis::ERROR, [-100.0, 100.0].into_iter());
        assert_eq!(error.map(&error.place(0.0), (0, 100)), 50);
    }

    #[test]
    fn an_axis_without_values_has_ends() {
        for scale in [Axis::LATENCY, Axis::TIME, Axis::ERROR, Axis::QUERIES, Axis::SLOWEST] {
            let axis = Placed::new(scale, std::iter::empty());
            assert!(axis.ends.0 != axis.ends.1 && axis.ticks.len() >= 2, "{scale:?}: {axis:?}");
        }
    }
}
