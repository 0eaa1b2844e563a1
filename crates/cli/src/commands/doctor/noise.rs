//! How well this machine keeps time: how late a sleeper wakes, and how long a spinning thread is held up.

use std::time::Duration;

use ldplayer_net::{clock, pin};

/// Sleeps measured.
const SLEEPS: usize = 100;
/// Length of each sleep.
const SLEEP: Duration = Duration::from_millis(1);
/// How long the spinning loop is watched, in nanoseconds.
const SPIN: i64 = 100_000_000;

/// What was measured, in microseconds.
pub struct Noise {
    /// Median lateness of a wake-up.
    pub wake_p50_us: f64,
    /// 99th percentile of it.
    pub wake_p99_us: f64,
    /// The longest gap in a spinning loop.
    pub longest_gap_us: f64,
}

/// Measures for about a quarter of a second.
pub fn measure() -> Noise {
    // Without it the kernel adds up to 50 µs of its own; the replay sets it, too.
    let _ = pin::set_timer_slack(1);
    let mut late: Vec<i64> = (0..SLEEPS).map(|_| one_sleep()).collect();
    late.sort_unstable();
    Noise {
        wake_p50_us: late[SLEEPS / 2] as f64 / 1e3,
        wake_p99_us: late[SLEEPS * 99 / 100] as f64 / 1e3,
        longest_gap_us: longest_gap() as f64 / 1e3,
    }
}

fn one_sleep() -> i64 {
    let due = clock::monotonic_ns() + SLEEP.as_nanos() as i64;
    std::thread::sleep(SLEEP);
    clock::monotonic_ns() - due
}

fn longest_gap() -> i64 {
    let begun = clock::monotonic_ns();
    let (mut last, mut longest) = (begun, 0);
    while last - begun < SPIN {
        let now = clock::monotonic_ns();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}
