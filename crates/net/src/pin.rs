//! Pins the current thread to a core and sets its timer slack.
//!
//! Real-time scheduling (SCHED_FIFO) is left out on purpose. A thread that spins never sleeps, so the kernel takes it off
//! its core for 50 ms of each second (`sched_rt_runtime_us`, since Linux 6.12 the fair server): a bare loop at 20,000 due
//! times a second had its p99.9 at 48 ms with it and at 25 µs without, Linux 6.18. Without that guard a spinning thread
//! starves the kernel's own work on its core.

use std::io;

use crate::system::{self, Cores};

/// The cores that the calling thread may run on.
///
/// # Errors
/// What the kernel said.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    Ok(Cores::own()?)
}

/// Binds the calling thread to one core.
///
/// # Errors
/// When there is no such core, or it is not allowed.
pub fn pin_to(core: usize) -> io::Result<()> {
    let core = Cores::of(&[core]).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(core.keep_to()?)
}

/// Sets the timer slack of the calling thread, in nanoseconds (default 50,000).
///
/// # Errors
/// What the kernel said.
pub fn set_timer_slack(ns: u64) -> io::Result<()> {
    Ok(system::set_timer_slack(ns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_allowed_one_core() {
        let pinned = std::thread::spawn(|| {
            let first = allowed_cores().unwrap()[0];
            pin_to(first).unwrap();
            (first, allowed_cores().unwrap())
        });
        let (first, allowed) = pinned.join().unwrap();
        assert_eq!(allowed, [first]);
    }

    #[test]
    fn a_core_that_does_not_exist_is_refused() {
        assert!(pin_to(usize::MAX).is_err());
    }
}
