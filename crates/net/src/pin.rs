//! Where and how readily the current thread runs: its core, the slack of its timers, the sleep of idle cores.
//!
//! Real-time scheduling (SCHED_FIFO) is left out on purpose. A thread that spins never sleeps, so the kernel takes it off
//! its core for 50 ms of each second (`sched_rt_runtime_us`, since Linux 6.12 the fair server): a bare loop at 20,000 due
//! times a second had its p99.9 at 48 ms with it and at 25 µs without, Linux 6.18. Without that guard a spinning thread
//! starves the kernel's own work on its core.

use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

use crate::machine;

/// The cores that the calling thread may run on.
///
/// # Errors
/// What the kernel said.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
}

/// Binds the calling thread to one core.
///
/// # Errors
/// When there is no such core, or it is not allowed.
pub fn pin_to(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Sets how late the kernel may wake the calling thread to save power, in nanoseconds (50,000 unless told otherwise).
///
/// # Errors
/// What the kernel said.
pub fn set_timer_slack(ns: u64) -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(ns))?)
}

/// The device that takes the latency that a process can bear, in microseconds (`Documentation/power/pm_qos_interface`).
const DMA_LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps idle cores out of sleep states that they are slow to leave, until it is dropped.
#[derive(Debug)]
pub struct Awake {
    /// The kernel forgets the request when the file is closed.
    _request: File,
}

impl Awake {
    /// Asks for it; for the whole machine, as the kernel has it. `None` in a virtual machine, where it does harm: idle
    /// cores then poll, and the host seems to take that time from the busy ones. A bare loop at 20,000 due times a second
    /// had its p99.9 at 21 µs without and at 0.1 to 6 ms with it (three runs each in turn, two cores, driver haltpoll).
    ///
    /// # Errors
    /// Mostly for want of rights: the device belongs to root unless told otherwise.
    pub fn ask() -> io::Result<Option<Self>> {
        if machine::is_virtual() {
            return Ok(None);
        }
        let mut request = File::options().write(true).open(DMA_LATENCY)?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Some(Self { _request: request }))
    }
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
    fn a_virtual_machine_is_not_kept_awake() {
        assert!(!machine::is_virtual() || Awake::ask().unwrap().is_none());
    }

    #[test]
    fn a_core_that_does_not_exist_is_refused() {
        assert!(pin_to(usize::MAX).is_err());
    }
}
