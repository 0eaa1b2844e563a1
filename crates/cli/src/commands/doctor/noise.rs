//! How well this machine keeps time: how late a sleeper wakes, how long a spinning thread is held up, how even it runs.

use std::time::Duration;

use ldplayer_net::{clock, machine, pin};

/// Sleeps measured.
const SLEEPS: usize = 300;
/// Length of each sleep.
const SLEEP: Duration = Duration::from_millis(1);
/// How long the spinning loop is watched, in nanoseconds.
const SPIN: i64 = 250_000_000;
/// Gaps between two reads of the clock from this on are noted, in nanoseconds …
const NOTED: i64 = 2_000;
/// … so many at most.
const GAPS: usize = 65_536;
/// Pieces of work timed for the evenness of the core's speed.
const PIECES: usize = 400;
/// Steps of one piece: some tens of microseconds.
const STEPS: u64 = 20_000;
/// Reads of the clock measured.
const READS: i64 = 10_000;

/// How late due times are met, in microseconds.
#[derive(Debug, Default)]
pub struct Lateness {
    /// Median.
    pub p50_us: f64,
    /// Upper quartile.
    pub p75_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
}

/// What was measured.
#[derive(Debug, Default)]
pub struct Noise {
    /// By a thread that sleeps until then.
    pub asleep: Lateness,
    /// By a thread that spins until then, if due times are spread evenly.
    pub spinning: Lateness,
    /// The longest gap in a spinning loop, in microseconds.
    pub longest_gap_us: f64,
    /// Share of the CPU time that the host took while the loop was watched, 0 to 1.
    pub steal: f64,
    /// How much longer the same work takes at the 90th percentile than at the 10th, 0 for evenly.
    pub unevenness: f64,
    /// What one read of the clock costs, in nanoseconds.
    pub clock_read_ns: f64,
    /// The least step of the clock that was seen, in nanoseconds.
    pub clock_step_ns: i64,
}

/// Measures for less than a second.
pub fn measure() -> Noise {
    // Without it the kernel adds up to 50 µs of its own; the replay sets it, too.
    let _ = pin::set_timer_slack(1);
    let late: Vec<i64> = (0..SLEEPS).map(|_| one_sleep()).collect();
    let before = machine::cpu_times();
    let Spun { gaps, longest, least: clock_step_ns } = spin();
    Noise {
        asleep: asleep(late),
        spinning: spinning(&gaps, SPIN),
        longest_gap_us: longest as f64 / 1e3,
        steal: machine::cpu_times().steal_share_since(&before),
        unevenness: unevenness(),
        clock_read_ns: clock_read_ns(),
        clock_step_ns,
    }
}

fn one_sleep() -> i64 {
    let due = clock::monotonic_ns() + SLEEP.as_nanos() as i64;
    std::thread::sleep(SLEEP);
    clock::monotonic_ns() - due
}

fn asleep(mut late: Vec<i64>) -> Lateness {
    late.sort_unstable();
    let at = |percent: usize| late[(late.len() * percent / 100).min(late.len() - 1)] as f64 / 1e3;
    Lateness { p50_us: at(50), p75_us: at(75), p99_us: at(99) }
}

/// A due time within a gap is met at its end: of all due times in `span` nanoseconds, the gaps decide how many are late by how much.
fn spinning(gaps: &[i64], span: i64) -> Lateness {
    // Late by more than `least` are those in the part of each gap that is further than that from its end.
    let beyond = |least: i64| gaps.iter().map(|gap| (gap - least).max(0)).sum::<i64>();
    let at = |percent: i64| {
        let allowed = span * (100 - percent) / 100;
        let (mut low, mut high) = (0, span);
        while low < high {
            let middle = low + (high - low) / 2;
            if beyond(middle) <= allowed { high = middle } else { low = middle + 1 }
        }
        low as f64 / 1e3
    };
    Lateness { p50_us: at(50), p75_us: at(75), p99_us: at(99) }
}

/// What a loop saw that only reads the clock.
struct Spun {
    /// Gaps between two reads that are longer than reading takes.
    gaps: Vec<i64>,
    longest: i64,
    /// The least gap above 0.
    least: i64,
}

fn spin() -> Spun {
    let begun = clock::monotonic_ns();
    let mut spun = Spun { gaps: Vec::with_capacity(GAPS), longest: 0, least: i64::MAX };
    let mut last = begun;
    while last - begun < SPIN {
        let now = clock::monotonic_ns();
        if now > last {
            spun.longest = spun.longest.max(now - last);
            spun.least = spun.least.min(now - last);
        }
        if now - last > NOTED && spun.gaps.len() < GAPS {
            spun.gaps.push(now - last);
        }
        last = now;
    }
    spun
}

fn clock_read_ns() -> f64 {
    let begun = clock::monotonic_ns();
    for _ in 1..READS {
        std::hint::black_box(clock::monotonic_ns());
    }
    (clock::monotonic_ns() - begun) as f64 / READS as f64
}

/// Percentiles rather than extremes: they tell a core that was taken away from one that changes its frequency.
fn unevenness() -> f64 {
    let mut times: Vec<i64> = (0..PIECES).map(|_| one_piece()).collect();
    times.sort_unstable();
    times[PIECES * 9 / 10] as f64 / times[PIECES / 10].max(1) as f64 - 1.0
}

fn one_piece() -> i64 {
    let begun = clock::monotonic_ns();
    let work = (0..STEPS).fold(1_u64, |sum, step| std::hint::black_box(sum.wrapping_mul(0x9e37_79b9) ^ step));
    std::hint::black_box(work);
    clock::monotonic_ns() - begun
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gaps_of_a_spinning_loop_tell_how_late_due_times_would_be_met() {
        let second = 1_000_000_000;
        let p99 = |gaps: &[i64]| spinning(gaps, second).p99_us;
        assert_eq!(p99(&[]), 0.0);
        // Half a percent of the time is taken away, at once: nobody late among 99 %.
        assert_eq!(p99(&[5_000_000]), 0.0);
        // Two percent: the half of them that comes first is later than the half that comes last.
        assert_eq!(p99(&[20_000_000]), 10_000.0);
        assert_eq!(p99(&[2_000_000; 10]), 1_000.0);
        assert_eq!(spinning(&[2_000_000; 10], second).p75_us, 0.0);
    }

    #[test]
    fn percentiles_of_wake_ups_are_those_of_what_was_late() {
        let late = asleep((1..=100).rev().map(|ms| ms * 1_000).collect());
        assert_eq!((late.p50_us, late.p75_us, late.p99_us), (51.0, 76.0, 100.0));
    }
}
