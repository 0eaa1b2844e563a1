//! The two clocks of Linux that a replay reads: monotonic for the schedule, real time for kernel stamps.

use rustix::time::{ClockId, clock_gettime};

use crate::system;

/// Nanoseconds of CLOCK_MONOTONIC, which no step of the wall clock moves.
pub fn monotonic_ns() -> i64 {
    read(ClockId::Monotonic)
}

/// Processor time of the calling thread in nanoseconds. A system call, unlike the clocks.
pub fn thread_cpu_ns() -> i64 {
    read(ClockId::ThreadCPUTime)
}

/// Processor time of all threads of a process so far, in nanoseconds, those included that have ended: what `/proc/PID/stat` has in ticks of
/// 10 ms. `None` if it does not exist (any more). A thread that runs on another core is as of its last tick of the scheduler.
pub fn process_cpu_ns(pid: u32) -> Option<i64> {
    system::process_cpu_ns(pid)
}

/// Sleeps until `ns` of CLOCK_MONOTONIC, or less where a signal comes.
pub fn sleep_until(ns: i64) {
    system::sleep_until(ns);
}

/// Nanoseconds since 1970 of CLOCK_REALTIME, the clock of kernel receive stamps.
pub fn realtime_ns() -> i64 {
    read(ClockId::Realtime)
}

/// Real time minus monotonic time, in nanoseconds, now.
///
/// Measured anew for each batch of stamps, so that a step of the wall clock spoils one batch at most. Repeated when the
/// thread was held up between the two clocks, which would shift every stamp by as much.
pub fn realtime_offset_ns() -> i64 {
    let mut best = (i64::MAX, 0);
    for _ in 0..OFFSET_TRIES {
        let before = monotonic_ns();
        let realtime = realtime_ns();
        let after = monotonic_ns();
        best = best.min((after - before, realtime - before - (after - before) / 2));
        if best.0 <= OFFSET_WITHIN {
            break;
        }
    }
    best.1
}

/// How often the two clocks are compared at most.
const OFFSET_TRIES: usize = 4;
/// How close together the readings must be, in nanoseconds.
const OFFSET_WITHIN: i64 = 1_000;

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_goes_back() {
        let first = monotonic_ns();
        assert!((0..1_000).all(|_| monotonic_ns() >= first));
    }
}
