//! Stalls: periods in which the host took the core away from a spinning thread.

use serde::{Deserialize, Serialize};

use crate::time::RunTime;

/// Gaps from this length on are counted, in nanoseconds.
const SHORTEST: i64 = 200_000;

/// Gaps seen between two looks at the clock of a spinning thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Milliseconds", into = "Milliseconds")]
pub struct Stalls {
    /// How many gaps.
    pub count: u64,
    /// All gaps together, in nanoseconds.
    pub total_ns: i64,
    /// The longest, in nanoseconds.
    pub longest_ns: i64,
}

impl Stalls {
    /// Takes two consecutive looks at the clock, with nothing done between them.
    pub fn observe(&mut self, before: RunTime, after: RunTime) {
        let gap = after - before;
        if gap >= SHORTEST {
            self.count += 1;
            self.total_ns += gap;
            self.longest_ns = self.longest_ns.max(gap);
        }
    }

    /// Adds the gaps of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// The form in `run.json`.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Milliseconds {
    count: u64,
    total_ms: f64,
    longest_ms: f64,
}

impl From<Stalls> for Milliseconds {
    fn from(stalls: Stalls) -> Self {
        let ms = |ns: i64| ns as f64 / 1e6;
        Self { count: stalls.count, total_ms: ms(stalls.total_ns), longest_ms: ms(stalls.longest_ns) }
    }
}

impl From<Milliseconds> for Stalls {
    fn from(stalls: Milliseconds) -> Self {
        let ns = |ms: f64| (ms * 1e6).round() as i64;
        Self { count: stalls.count, total_ns: ns(stalls.total_ms), longest_ns: ns(stalls.longest_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_gaps_count() {
        let mut stalls = Stalls::default();
        stalls.observe(RunTime(0), RunTime(SHORTEST - 1));
        stalls.observe(RunTime(10), RunTime(10 + 3 * SHORTEST));
        assert_eq!(stalls, Stalls { count: 1, total_ns: 3 * SHORTEST, longest_ns: 3 * SHORTEST });
    }
}
