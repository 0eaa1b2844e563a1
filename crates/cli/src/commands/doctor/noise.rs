//! How well this machine keeps time: how late a sleeper wakes, how long a spinning thread is held up, how even it runs.

use std::time::Duration;

use ldplayer_net::{clock, machine, pin};

/// Sleeps measured.
const SLEEPS: usize = 100;
/// Length of each sleep.
const SLEEP: Duration = Duration::from_millis(1);
/// How long the spinning loop is watched, in nanoseconds.
const SPIN: i64 = 250_000_000;
/// Pieces of work timed for the evenness of the core's speed.
const PIECES: usize = 400;
/// Steps of one piece: some tens of microseconds.
const STEPS: u64 = 20_000;
/// Reads of the clock measured.
const READS: i64 = 10_000;

/// What was measured.
pub struct Noise {
    /// Median lateness of a wake-up, in microseconds.
    pub wake_p50_us: f64,
    /// 99th percentile of it.
    pub wake_p99_us: f64,
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

/// Measures for less than half a second.
pub fn measure() -> Noise {
    // Without it the kernel adds up to 50 µs of its own; the replay sets it, too.
    let _ = pin::set_timer_slack(1);
    let mut late: Vec<i64> = (0..SLEEPS).map(|_| one_sleep()).collect();
    late.sort_unstable();
    let before = machine::cpu_times();
    let (longest_gap, clock_step_ns) = spin();
    Noise {
        wake_p50_us: late[SLEEPS / 2] as f64 / 1e3,
        wake_p99_us: late[SLEEPS * 99 / 100] as f64 / 1e3,
        longest_gap_us: longest_gap as f64 / 1e3,
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

/// The longest and the least gap above 0 between two reads of the clock.
fn spin() -> (i64, i64) {
    let begun = clock::monotonic_ns();
    let (mut last, mut longest, mut least) = (begun, 0, i64::MAX);
    while last - begun < SPIN {
        let now = clock::monotonic_ns();
        if now > last {
            longest = longest.max(now - last);
            least = least.min(now - last);
        }
        last = now;
    }
    (longest, least)
}

fn clock_read_ns() -> f64 {
    let begun = clock::monotonic_ns();
    for _ in 1..READS {
        std::hint::black_box(clock::monotonic_ns());
    }
    (clock::monotonic_ns() - begun) as f64 / READS as f64
}

/// Percentiles rather than extremes: a core taken away is told apart from one that changes its frequency.
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
