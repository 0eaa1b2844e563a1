//! Differences in words: `p99 rose by 12.0 % ± 3.1 %`.

use super::row::{Change, Row, Verdict};
use crate::expect::Quantity;
use crate::numbers::{fixed, in_bytes};

/// A difference from this ratio on is written as a ratio.
const TOLD_AS_RATIO: f64 = 2.0;
/// A ratio from which on the end of an interval is no longer told in figures, and so is its reciprocal; of an estimate that is beyond it,
/// the next power of ten is.
const TOO_WIDE: f64 = 10.0;
/// How much an estimate may be rounded at most, so that a bound in words still lies beyond the rounded estimate.
const ROUNDED: f64 = 1.01;
/// Decimals of a small ratio at most.
const MOST_DECIMALS: usize = 12;
/// Half-widths in percent from which on both ends of an interval are written.
const WIDE: f64 = 50.0;

/// The unit of a compared quantity.
pub const fn unit(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Latency { .. } | Quantity::Lookup(_) => "ms",
        Quantity::Attempts => "a lookup",
        Quantity::Cpu => "µs",
        Quantity::Memory(_) => "B",
        Quantity::Cores => "cores",
        Quantity::Qps => "q/s",
        _ => "%",
    }
}

/// A figure with its unit.
pub fn figure(quantity: Quantity, value: f64) -> String {
    shown(unit(quantity), value)
}

/// A figure with its unit.
pub fn shown(unit: &str, value: f64) -> String {
    match unit {
        "B" => in_bytes(value.max(0.0).round() as u64),
        unit => format!("{} {unit}", digits(value)),
    }
}

/// As many digits as say something.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        100.0.. => 0,
        99.0.. => 3,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    fixed(value, decimals)
}

/// What a figure came to.
pub fn row(row: &Row, are_unanswered: bool) -> String {
    let quantity = row.quantity;
    if are_unanswered {
        return format!(
            "{quantity} falls among unanswered queries in all runs of both, so that nothing can be said of it: undecided"
        );
    }
    let Some(change) = row.change else {
        let more = row.more_repeats.unwrap_or_default();
        let (a, b) = (figure(quantity, row.a.median), figure(quantity, row.b.median));
        return format!(
            "{quantity} was {a} and is {b}, but a single run says nothing of the noise: undecided: {more} more repeats"
        );
    };
    let from_to = format!("from {} to {}", figure(quantity, row.a.median), figure(quantity, row.b.median));
    let told = match row.verdict {
        Verdict::Same => format!("{quantity} is the same: {}", sized(&change)),
        Verdict::Undecided => {
            format!("{quantity}: {}, {from_to}: undecided: {}", sized(&change), more(row.more_repeats))
        }
        Verdict::Better => format!("{quantity} {}, {from_to}: better", moved(&change)),
        Verdict::Worse => format!("{quantity} {}, {from_to}: worse", moved(&change)),
    };
    told + &unanswered(row)
}

fn unanswered(row: &Row) -> String {
    match (row.a.unanswered, row.b.unanswered) {
        (0, 0) => String::new(),
        (a, b) => format!(
            " (it falls among unanswered queries in {a} of {} runs of A and {b} of {} of B, where it counts as what these were waited for)",
            row.a.runs, row.b.runs
        ),
    }
}

/// How many more repeats would decide it.
pub fn more(repeats: Option<u32>) -> String {
    match repeats {
        None => "more than 1000 more repeats".to_owned(),
        Some(1) => "1 more repeat".to_owned(),
        Some(repeats) => format!("{repeats} more repeats"),
    }
}

/// `rose by 12.0 % ± 3.1 %`, `fell by 0.40 ± 0.10 points`, `rose to 3.2 times (2.5 to 4.1)`.
pub fn moved(change: &Change) -> String {
    let Change { estimate, low, high, is_ratio } = *change;
    if !is_ratio {
        let half = digits((high - low) / 2.0);
        let way = if estimate < 0.0 { "fell" } else { "rose" };
        return match estimate.abs() {
            0.0005.. => format!("{way} by {} ± {half} points", digits(estimate.abs())),
            _ => format!("stayed, ± {half} points"),
        };
    }
    let way = if estimate < 1.0 { "fell" } else { "rose" };
    if !(1.0 / TOLD_AS_RATIO..TOLD_AS_RATIO).contains(&estimate) || high > TOO_WIDE {
        return format!("{way} to {}", times(change));
    }
    let [percent, least, most] = [estimate, low, high].map(|ratio| (ratio - 1.0) * 100.0);
    let half = (most - least) / 2.0;
    match half < WIDE {
        true if percent.abs() < 0.05 => format!("stayed, ± {half:.1} %"),
        true => format!("{way} by {:.1} % ± {half:.1} %", percent.abs()),
        false => format!("{way} by {:.1} % ({least:+.0} % to {most:+.0} %)", percent.abs()),
    }
}

impl std::fmt::Display for Change {
    /// `+0.3 % ± 1.2 %`, `-0.01 ± 0.03 points`, `3.2 times (2.5 to 4.1)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&sized(self))
    }
}

/// `3.20 times (2.50 to 4.10)`; ends that say nothing are not told in figures.
fn times(change: &Change) -> String {
    let Change { estimate, low, high, .. } = *change;
    let (most, least) = (beyond(estimate), 1.0 / beyond(1.0 / estimate));
    let high = if high > most { format!("more than {most}") } else { ratio(high) };
    let low = if low < least { format!("less than {least}") } else { ratio(low) };
    format!("{} times ({low} to {high})", ratio(estimate))
}

/// The power of ten, from [`TOO_WIDE`] on, that is above an estimate: what says nothing more of it is not told in figures.
fn beyond(estimate: f64) -> f64 {
    let mut bound = TOO_WIDE;
    while estimate.is_finite() && estimate * ROUNDED >= bound {
        bound *= TOO_WIDE;
    }
    bound
}

/// A ratio; a small one with three digits that say something.
fn ratio(value: f64) -> String {
    if !(value > 0.0 && value < 0.1) {
        return digits(value);
    }
    let zeros = (-value.log10()).floor().max(0.0) as usize;
    let told = fixed(value, (zeros + 3).min(MOST_DECIMALS));
    told.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn sized(change: &Change) -> String {
    let Change { estimate, low, high, is_ratio } = *change;
    if !is_ratio {
        let sign = if estimate < 0.0 { "-" } else { "+" };
        return format!("{sign}{} ± {} points", digits(estimate.abs()), digits((high - low) / 2.0));
    }
    if !(1.0 / TOLD_AS_RATIO..TOLD_AS_RATIO).contains(&estimate) || high > TOO_WIDE {
        return times(change);
    }
    let [percent, least, most] = [estimate, low, high].map(|ratio| (ratio - 1.0) * 100.0);
    let half = (most - least) / 2.0;
    match half < WIDE {
        true => format!("{percent:+.1} % ± {half:.1} %"),
        false => format!("{percent:+.1} % ({least:+.0} % to {most:+.0} %)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(estimate: f64, low: f64, high: f64) -> String {
        Change { estimate, low, high, is_ratio: true }.to_string()
    }

    #[test]
    fn ends_of_an_interval_that_say_nothing_are_not_told_in_figures() {
        assert_eq!(told(1.02, 1.0, 1.04), "+2.0 % ± 2.0 %");
        assert_eq!(told(3.2, 2.5, 4.1), "3.20 times (2.50 to 4.10)");
        assert_eq!(told(0.96, 0.0, 972_147.0), "0.960 times (less than 0.1 to more than 10)");
    }

    /// It was told as "14.6 times (11.4 to more than 10)".
    #[test]
    fn an_interval_contains_its_estimate() {
        assert_eq!(told(14.6, 11.4, 18.7), "14.6 times (11.4 to 18.7)");
        assert_eq!(told(14.6, 11.4, 972_147.0), "14.6 times (11.4 to more than 100)");
        assert_eq!(told(9.999, 9.0, 12.0), "10.00 times (9.00 to 12.0)");
        assert_eq!(told(150.0, 2.0, 1e9), "150 times (2.00 to more than 1000)");
        assert_eq!(told(0.05, 0.02, 0.2), "0.05 times (0.02 to 0.200)");
        assert_eq!(told(0.000_4, 0.0, 0.2), "0.0004 times (less than 0.0001 to 0.200)");
        let down = Change { estimate: 0.05, low: 0.02, high: 0.2, is_ratio: true };
        assert_eq!(moved(&down), "fell to 0.05 times (0.02 to 0.200)");
    }
}
