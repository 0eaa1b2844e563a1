//! How to wait for the next due moment: how long to sleep, how long to spin.
//!
//! A sleeping core wakes tens to hundreds of microseconds late. The guard is the time before the due moment at which
//! sleeping ends and spinning begins; it follows the lateness seen, within a budget of CPU time.

use std::str::FromStr;

/// How much CPU time precision may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Sleep only: as late as the kernel wakes the thread.
    Low,
    /// Sleep, then spin through an adaptive guard: at most about half a core.
    #[default]
    Normal,
    /// Spin always: one core for each worker.
    High,
}

impl Precision {
    /// The word of the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

/// A word that names no precision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown precision `{0}`: use low, normal or high")]
pub struct UnknownPrecision(String);

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::Low, Self::Normal, Self::High]
            .into_iter()
            .find(|precision| precision.as_str() == word)
            .ok_or_else(|| UnknownPrecision(word.to_owned()))
    }
}

/// What to do until the next due moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Look again at once.
    Spin,
    /// Sleep for so many nanoseconds, or until a socket is ready.
    Sleep(i64),
}

/// The widest guard in nanoseconds: beyond it, sleeping saves too little to be worth its error.
const WIDEST: i64 = 400_000;
/// The ceiling never falls below this, so that it can grow again.
const LOWEST_CEILING: i64 = 4_000;
/// The guard to start with, in nanoseconds.
const FIRST: i64 = 80_000;
/// The guard grows by this when a wake-up came too late …
const WIDEN: i64 = 6_000;
/// … and shrinks by this when it came in time, so that about one in seven comes too late.
const NARROW: i64 = 1_000;
/// Over how long the CPU budget is kept, in nanoseconds.
const PERIOD: i64 = 20_000_000;
/// Share of the time that may be spent spinning, in percent.
const BUDGET: i64 = 15;

/// The adaptive guard of one worker.
#[derive(Debug)]
pub struct Pace {
    precision: Precision,
    guard: i64,
    ceiling: i64,
    period_start: i64,
    spun: i64,
    spinning_since: Option<i64>,
}

impl Pace {
    /// A pace that has seen nothing yet.
    pub fn new(precision: Precision) -> Self {
        Self { precision, guard: FIRST, ceiling: WIDEST, period_start: 0, spun: 0, spinning_since: None }
    }

    /// What to do at `now` when the next moment is `due` (both in nanoseconds of one clock).
    pub fn wait(&mut self, now: i64, due: i64) -> Wait {
        let left = due.saturating_sub(now);
        let wait = match self.precision {
            Precision::High => Wait::Spin,
            Precision::Low if left <= 0 => Wait::Spin,
            Precision::Low => Wait::Sleep(left),
            Precision::Normal if left <= self.guard => Wait::Spin,
            Precision::Normal => Wait::Sleep(left - self.guard),
        };
        self.account(now, wait);
        wait
    }

    /// Learns from a sleep that should have ended at `wanted` and ended at `now` by itself.
    pub fn woke(&mut self, wanted: i64, now: i64) {
        let late = now - wanted > self.guard;
        let step = if late { WIDEN } else { -NARROW };
        self.guard = (self.guard + step).clamp(0, self.ceiling);
    }

    /// Whether the last answer was to spin.
    pub const fn is_spinning(&self) -> bool {
        self.spinning_since.is_some()
    }

    /// The guard in nanoseconds.
    #[cfg(test)]
    const fn guard(&self) -> i64 {
        self.guard
    }

    /// Keeps the time spent spinning within the budget by lowering or lifting the ceiling of the guard.
    fn account(&mut self, now: i64, wait: Wait) {
        let since = self.spinning_since.take();
        self.spun += since.map_or(0, |since| now - since);
        if wait == Wait::Spin {
            self.spinning_since = Some(now);
        }
        let elapsed = now - self.period_start;
        if elapsed >= PERIOD {
            let over = self.spun * 100 > elapsed * BUDGET;
            let ceiling = if over { self.guard * 3 / 4 } else { self.ceiling * 9 / 8 };
            self.ceiling = ceiling.clamp(LOWEST_CEILING, WIDEST);
            self.guard = self.guard.min(self.ceiling);
            (self.period_start, self.spun) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_spins_and_low_sleeps() {
        assert_eq!(Pace::new(Precision::High).wait(0, 1_000_000_000), Wait::Spin);
        assert_eq!(Pace::new(Precision::Low).wait(0, 5), Wait::Sleep(5));
        assert_eq!(Pace::new(Precision::Low).wait(5, 5), Wait::Spin);
    }

    #[test]
    fn normal_sleeps_up_to_the_guard() {
        let mut pace = Pace::new(Precision::Normal);
        assert_eq!(pace.wait(0, 1_000_000), Wait::Sleep(1_000_000 - FIRST));
        assert_eq!(pace.wait(1_000_000 - FIRST, 1_000_000), Wait::Spin);
    }

    #[test]
    fn the_guard_follows_the_lateness_of_the_host() {
        let mut pace = Pace::new(Precision::Normal);
        (0..1_000).for_each(|_| pace.woke(0, 200_000));
        assert!((190_000..=210_000).contains(&pace.guard()), "{}", pace.guard());
        (0..1_000).for_each(|_| pace.woke(0, 20_000));
        assert!(pace.guard() <= 30_000, "{}", pace.guard());
    }

    #[test]
    fn spinning_stays_within_the_budget() {
        let mut pace = Pace::new(Precision::Normal);
        let (mut now, mut slept) = (0, 0);
        // A query each 50 µs, and a host that wakes 100 µs late: spinning alone would be on time.
        while now < 2_000_000_000 {
            let due = (now / 50_000 + 1) * 50_000;
            match pace.wait(now, due) {
                Wait::Spin => now += 500,
                Wait::Sleep(ns) => {
                    let wanted = now + ns;
                    now = wanted + 100_000;
                    slept += now - (wanted - ns);
                    pace.woke(wanted, now);
                }
            }
        }
        assert!(slept > 1_000_000_000, "slept {slept} of 2 s");
    }
}
