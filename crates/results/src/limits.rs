//! The limits of the replay's verdict.

use serde::{Deserialize, Serialize};

/// What the verdict is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictLimits {
    /// Limits of the timing error; `None` when queries have no time of their own (`--timing fast`).
    pub timing: Option<TimingLimits>,
    /// How far the rate of a window may be from the trace's, in percent, besides the queries that lateness within its limits moves across the
    /// ends of the window; at least one query is always allowed.
    pub rate_percent: f64,
    /// Share of windows that must be that close, in percent.
    pub rate_windows_percent: f64,
}

/// Limits of the timing error in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimingLimits {
    /// The quartiles must lie within ± this.
    pub quartile_us: f64,
    /// The 99th percentile must not exceed this.
    pub p99_us: f64,
}

impl VerdictLimits {
    /// Limits of `--precision high`: quartiles within ±10 µs, p99 within 150 µs.
    pub const HIGH: Self = Self::timed(10.0, 150.0);
    /// Limits of `--precision normal`: quartiles within ±50 µs, p99 within 1 ms.
    pub const NORMAL: Self = Self::timed(50.0, 1_000.0);
    /// Limits of `--precision low`: quartiles within ±500 µs, p99 within 5 ms.
    pub const LOW: Self = Self::timed(500.0, 5_000.0);
    /// Limits of `--timing fast`: nothing is due at any time, so timing and rate are not judged.
    pub const FAST: Self = Self { timing: None, ..Self::timed(0.0, 0.0) };

    /// From how many nanoseconds on a query is late: the limit of the 99th percentile; never where nothing has a time.
    pub fn late_ns(&self) -> i64 {
        self.timing.map_or(i64::MAX, |timing| (timing.p99_us * 1e3) as i64)
    }

    const fn timed(quartile_us: f64, p99_us: f64) -> Self {
        Self { timing: Some(TimingLimits { quartile_us, p99_us }), rate_percent: 0.1, rate_windows_percent: 90.0 }
    }
}

impl Default for VerdictLimits {
    fn default() -> Self {
        Self::NORMAL
    }
}
