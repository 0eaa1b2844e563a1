//! How the wire waits for the next packet or the next due time: how long to sleep, when to spin.
//!
//! Unlike a replay, which knows all its times, a wire is also woken by packets, and each wake-up of a sleeping core delays
//! the packet that caused it. So the wire stays awake for a while after each packet: the next one is often near.

use std::str::FromStr;

/// How much CPU time precise delays may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Sleeps until the due time or a packet: as late as the kernel wakes the thread.
    Low,
    /// Sleeps but for the last moments before a due time and the first after a packet: an idle wire costs nothing, a busy
    /// one a core.
    #[default]
    Normal,
    /// Never sleeps: one core.
    High,
}

/// A word that names no precision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown precision `{0}`: use low, normal or high")]
pub struct UnknownPrecision(String);

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "low" => Ok(Self::Low),
            "normal" => Ok(Self::Normal),
            "high" => Ok(Self::High),
            _ => Err(UnknownPrecision(word.to_owned())),
        }
    }
}

/// What to do until the next due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Look again at once.
    Spin,
    /// Sleep for so many nanoseconds, or until a packet comes.
    Sleep(i64),
}

/// Without anything due, the wire sleeps so long at most, in nanoseconds.
const IDLE: i64 = 1_000_000_000;
/// So long after a packet the wire stays awake, in nanoseconds: some times what a wake-up costs.
const LINGER: i64 = 300_000;
/// The guard before a due time to start with, and its bounds.
const FIRST: i64 = 100_000;
const NARROWEST: i64 = 20_000;
const WIDEST: i64 = 400_000;
/// The guard grows by this when a wake-up came too late, and shrinks by a seventh of it when it came in time.
const WIDEN: i64 = 7_000;

/// The pace of one wire.
#[derive(Debug)]
pub struct Pace {
    precision: Precision,
    guard: i64,
    moved: i64,
}

impl Pace {
    /// A pace that has seen nothing yet.
    pub const fn new(precision: Precision) -> Self {
        Self { precision, guard: FIRST, moved: i64::MIN / 2 }
    }

    /// Notes that a packet came or went at `now`.
    pub const fn moved(&mut self, now: i64) {
        self.moved = now;
    }

    /// What to do at `now`, when the next packet is due at `due`.
    pub fn wait(&self, now: i64, due: Option<i64>) -> Wait {
        let left = due.map_or(IDLE, |due| due.saturating_sub(now).min(IDLE));
        match self.precision {
            Precision::High => Wait::Spin,
            _ if left <= 0 => Wait::Spin,
            Precision::Low => Wait::Sleep(left),
            Precision::Normal if left <= self.guard || now - self.moved < LINGER => Wait::Spin,
            Precision::Normal => Wait::Sleep(left - self.guard),
        }
    }

    /// Learns from a sleep that should have ended at `wanted` and ended at `now` by itself.
    pub fn woke(&mut self, wanted: i64, now: i64) {
        let step = if now - wanted > self.guard { WIDEN } else { -WIDEN / 7 };
        self.guard = (self.guard + step).clamp(NARROWEST, WIDEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sleeps_up_to_the_guard_and_lingers_after_a_packet() {
        let mut pace = Pace::new(Precision::Normal);
        assert_eq!(pace.wait(0, None), Wait::Sleep(IDLE - FIRST));
        assert_eq!(pace.wait(0, Some(1_000_000)), Wait::Sleep(1_000_000 - FIRST));
        assert_eq!(pace.wait(950_000, Some(1_000_000)), Wait::Spin);
        assert_eq!(pace.wait(2_000_000, Some(1_000_000)), Wait::Spin);
        pace.moved(0);
        assert_eq!(pace.wait(LINGER - 1, None), Wait::Spin);
        assert!(matches!(pace.wait(LINGER, None), Wait::Sleep(_)));
    }

    #[test]
    fn low_sleeps_and_high_spins() {
        assert_eq!(Pace::new(Precision::Low).wait(0, Some(5)), Wait::Sleep(5));
        assert_eq!(Pace::new(Precision::Low).wait(5, Some(5)), Wait::Spin);
        assert_eq!(Pace::new(Precision::High).wait(0, None), Wait::Spin);
        assert_eq!("high".parse(), Ok(Precision::High));
        assert!("highest".parse::<Precision>().is_err());
    }

    #[test]
    fn the_guard_follows_the_lateness_of_the_host() {
        let mut pace = Pace::new(Precision::Normal);
        (0..1_000).for_each(|_| pace.woke(0, 250_000));
        assert!((240_000..=260_000).contains(&pace.guard), "{}", pace.guard);
        (0..1_000).for_each(|_| pace.woke(0, 1_000));
        assert_eq!(pace.guard, NARROWEST);
    }
}
