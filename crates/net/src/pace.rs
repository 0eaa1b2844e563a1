//! Waits for the next due time: how long to sleep, and how long to spin.
//!
//! A sleeping core wakes tens to hundreds of microseconds late. The guard is the time before the due moment at which
//! sleeping ends and spinning begins; it follows the lateness seen. Who has a schedule ([`Pace::of_schedule`], a replay) keeps
//! within a budget of CPU time. Who is woken by packets ([`Pace::of_traffic`], the wire) stays awake for a while after each,
//! as the wake-up of a sleeping core delays the packet that caused it, and the next one is often near.

use std::fmt;
use std::str::FromStr;

/// How much CPU time precision may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Sleep only: as late as the kernel wakes the thread.
    Low,
    /// Sleep, then spin for an adaptive time: at most about half a core for a schedule; for traffic nothing while idle and up to a core
    /// under load.
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

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
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
    /// Sleep for this many nanoseconds, or until a socket is ready.
    Sleep(i64),
}

/// The widest guard in nanoseconds: beyond it, sleeping saves too little to be worth its error.
const WIDEST: i64 = 400_000;
/// The narrowest guard of traffic, in nanoseconds: its due moments are rare, so that it learns slowly.
const NARROWEST: i64 = 20_000;
/// The ceiling never falls below this, so that it can grow again.
const LOWEST_CEILING: i64 = 4_000;
/// The guard of traffic to start with, in nanoseconds.
const FIRST: i64 = 80_000;
/// The guard grows by this when a wake-up came too late …
const WIDEN: i64 = 6_000;
/// … and shrinks by this when it came in time, so that about one in seven comes too late.
const NARROW: i64 = 1_000;
/// Over how long the CPU budget is kept, in nanoseconds.
const PERIOD: i64 = 20_000_000;
/// Share of the time that may be spent spinning, in percent.
const BUDGET: i64 = 15;
/// How long a pace for traffic spins after a packet, in nanoseconds: several times the cost of a wake-up.
const LINGER: i64 = 300_000;

/// The adaptive guard of one thread.
#[derive(Debug)]
pub struct Pace {
    precision: Precision,
    guard: i64,
    floor: i64,
    ceiling: i64,
    budget: Option<Budget>,
    awake_until: i64,
    spinning_since: Option<i64>,
}

/// What was spent of the time that may be spent spinning.
#[derive(Debug, Default)]
struct Budget {
    period_start: i64,
    spun: i64,
}

impl Pace {
    /// For who knows all moments beforehand, and keeps within a budget. It begins with the widest guard, since the first of them is met by a
    /// processor that has slept for long; the budget takes the guard back within a tenth of a second.
    pub fn of_schedule(precision: Precision) -> Self {
        Self { budget: Some(Budget::default()), floor: 0, guard: WIDEST, ..Self::of_traffic(precision) }
    }

    /// For a caller that is woken by packets and reports them ([`Pace::note_packet`]).
    pub const fn of_traffic(precision: Precision) -> Self {
        Self {
            precision,
            guard: FIRST,
            floor: NARROWEST,
            ceiling: WIDEST,
            budget: None,
            awake_until: i64::MIN,
            spinning_since: None,
        }
    }

    /// Notes that a packet came or went at `now`.
    pub const fn note_packet(&mut self, now: i64) {
        self.awake_until = now.saturating_add(LINGER);
    }

    /// What to do at `now` when the next moment is `due` (both in nanoseconds of one clock).
    pub fn wait(&mut self, now: i64, due: i64) -> Wait {
        let left = due.saturating_sub(now);
        let wait = match self.precision {
            Precision::High => Wait::Spin,
            _ if left <= 0 => Wait::Spin,
            Precision::Low => Wait::Sleep(left),
            Precision::Normal if left <= self.guard || now < self.awake_until => Wait::Spin,
            Precision::Normal => Wait::Sleep(left - self.guard),
        };
        self.account(now, wait);
        wait
    }

    /// Learns from a sleep that should have ended at `wanted` and ended at `now` by itself.
    pub fn woke(&mut self, wanted: i64, now: i64) {
        let late = now - wanted > self.guard;
        let step = if late { WIDEN } else { -NARROW };
        self.guard = (self.guard + step).clamp(self.floor, self.ceiling);
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
        self.spinning_since = (wait == Wait::Spin).then_some(now);
        let Some(budget) = &mut self.budget else { return };
        budget.spun += since.map_or(0, |since| now - since);
        let elapsed = now - budget.period_start;
        if elapsed >= PERIOD {
            let over = budget.spun * 100 > elapsed * BUDGET;
            let ceiling = if over { self.guard * 3 / 4 } else { self.ceiling * 9 / 8 };
            self.ceiling = ceiling.clamp(LOWEST_CEILING, WIDEST);
            self.guard = self.guard.min(self.ceiling);
            *budget = Budget { period_start: now, spun: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_spins_and_low_sleeps() {
        assert_eq!(Pace::of_schedule(Precision::High).wait(0, 1_000_000_000), Wait::Spin);
        assert_eq!(Pace::of_schedule(Precision::Low).wait(0, 5), Wait::Sleep(5));
        assert_eq!(Pace::of_schedule(Precision::Low).wait(5, 5), Wait::Spin);
    }

    #[test]
    fn normal_sleeps_up_to_the_guard() {
        let mut pace = Pace::of_schedule(Precision::Normal);
        assert_eq!(pace.wait(0, 1_000_000), Wait::Sleep(1_000_000 - WIDEST));
        assert_eq!(pace.wait(1_000_000 - WIDEST, 1_000_000), Wait::Spin);
    }

    #[test]
    fn the_guard_follows_the_lateness_of_the_host() {
        let mut pace = Pace::of_schedule(Precision::Normal);
        (0..1_000).for_each(|_| pace.woke(0, 200_000));
        assert!((190_000..=210_000).contains(&pace.guard()), "{}", pace.guard());
        (0..1_000).for_each(|_| pace.woke(0, 20_000));
        assert!(pace.guard() <= 30_000, "{}", pace.guard());
    }

    #[test]
    fn spinning_stays_within_the_budget() {
        let mut pace = Pace::of_schedule(Precision::Normal);
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

    #[test]
    fn traffic_lingers_after_a_packet_and_spins_without_a_budget() {
        let mut pace = Pace::of_traffic(Precision::Normal);
        assert_eq!(pace.wait(0, 1_000_000_000), Wait::Sleep(1_000_000_000 - FIRST));
        pace.note_packet(0);
        assert_eq!(pace.wait(LINGER - 1, 1_000_000_000), Wait::Spin);
        assert!(matches!(pace.wait(LINGER, 1_000_000_000), Wait::Sleep(_)));
        for now in (0..10 * PERIOD).step_by(500) {
            pace.note_packet(now);
            assert_eq!(pace.wait(now, i64::MAX), Wait::Spin);
        }
        assert_eq!(pace.guard(), FIRST);
        (0..1_000).for_each(|_| pace.woke(0, 1_000));
        assert_eq!(pace.guard(), NARROWEST);
        let mut low = Pace::of_traffic(Precision::Low);
        low.note_packet(0);
        assert_eq!(low.wait(0, 5), Wait::Sleep(5));
    }

    #[test]
    fn words_are_read_as_they_are_told() {
        for precision in [Precision::Low, Precision::Normal, Precision::High] {
            assert_eq!(precision.as_str().parse(), Ok(precision));
        }
        assert!("highest".parse::<Precision>().is_err());
    }
}
