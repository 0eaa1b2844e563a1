//! The axes of figures: pages and pictures draw them by the same scales.

use serde::Serialize;

/// An axis of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// What stands at it.
    pub label: &'static str,
    /// The head of its column where points are saved as CSV.
    pub column: &'static str,
    /// How values are placed and told.
    pub scale: Scale,
}

/// How the values of an axis are placed and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Seconds from the first query, linear.
    Time,
    /// The same, on one axis for all figures of what both ends used.
    UsageTime,
    /// The share of the slowest queries, logarithmic from 100 % down.
    Slowest,
    /// Milliseconds, logarithmic.
    Latency,
    /// Seconds, logarithmic.
    Gap,
    /// Microseconds to both sides of zero, linear within ten and logarithmic outside.
    Error,
    /// Percent to both sides of zero, linear within 0.01 % and logarithmic outside.
    Difference,
    /// From 0 to 100 %.
    Percent,
    /// From zero, whole numbers.
    Count,
    /// From zero, with four digits.
    Short,
    /// From zero, in bytes.
    Bytes,
}

impl Axis {
    /// The time of a run.
    pub const TIME: Self = Self::new("time since the first query (s)", "time_s", Scale::Time);
    /// The time of a run where both ends were sampled.
    pub const USAGE_TIME: Self = Self { scale: Scale::UsageTime, ..Self::TIME };
    /// The slowest queries.
    pub const SLOWEST: Self = Self::new("slowest queries (%)", "slowest_percent", Scale::Slowest);
    /// Latency.
    pub const LATENCY: Self = Self::new("latency", "latency_ms", Scale::Latency);
    /// How late queries were sent.
    pub const ERROR: Self = Self::new("timing error", "timing_error_us", Scale::Error);
    /// How far rates are from what was due.
    pub const DIFFERENCE: Self = Self::new("rate difference (%)", "rate_difference_percent", Scale::Difference);
    /// The share of queries.
    pub const QUERIES: Self = Self::new("queries (%)", "queries_percent", Scale::Percent);

    /// An axis with its label, the head of its column and its scale.
    pub const fn new(label: &'static str, column: &'static str, scale: Scale) -> Self {
        Self { label, column, scale }
    }
}
