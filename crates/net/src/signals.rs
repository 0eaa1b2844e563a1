//! Signals as flags: SIGINT and SIGTERM stop, a second one stops at once, SIGHUP reloads.
//!
//! Only this module catches signals. Workers check the flags; a signal ends the process itself only with [`Signals::catch_or_end`], for
//! work that has nothing to lose.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::{flag, low_level};

/// Exit status of who was interrupted and has kept what there was: 128 and the number of SIGINT, as shells count.
pub const INTERRUPTED: u8 = 128 + SIGINT as u8;

/// Whether signals are not caught yet.
static UNCAUGHT: AtomicBool = AtomicBool::new(true);

/// Ends the process on SIGINT and SIGTERM with 128 and their number until somebody catches them: as a shell tells of who is killed
/// by them, but a status for whoever looks at statuses.
///
/// # Errors
/// Never in practice.
pub fn end_unless_caught() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        let end = move || {
            if UNCAUGHT.load(Ordering::Relaxed) {
                low_level::exit(128 + signal);
            }
        };
        // SAFETY: the action looks at an atomic and calls _exit(2), both of which a signal handler may do.
        unsafe { low_level::register(signal, end) }?;
    }
    Ok(())
}

/// The child that signals are passed on to, if there is one.
static CHILD: AtomicI32 = AtomicI32::new(NOBODY);
const NOBODY: i32 = 0;
/// A signal that came before there was a child.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Catches what ends processes, for a process that does no more than wait for a child. A signal that somebody sends is passed on to
/// the child; what the kernel sends for a key of the terminal goes to all processes in front, and the child has it already.
///
/// # Errors
/// Never in practice.
pub fn pass_on() -> io::Result<()> {
    UNCAUGHT.store(false, Ordering::Relaxed);
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
        let pass = move |info: &libc::siginfo_t| {
            if info.si_code > 0 {
                return;
            }
            EARLY.store(signal, Ordering::SeqCst);
            pass_early();
        };
        // SAFETY: the action uses atomics and calls kill(2), both of which a signal handler may do.
        unsafe { signal_hook_registry::register_sigaction(signal, pass) }?;
    }
    Ok(())
}

/// The child from now on, which gets what came before; nobody's number is 0.
pub(crate) fn pass_on_to(child: u32) {
    CHILD.store(child.cast_signed(), Ordering::SeqCst);
    pass_early();
}

/// Passes on what came, if there is a child; otherwise it waits for one.
fn pass_early() {
    let Some(child) = Pid::from_raw(CHILD.load(Ordering::SeqCst)) else { return };
    if let Some(signal) = Signal::from_named_raw(EARLY.swap(0, Ordering::SeqCst)) {
        // The child may have gone; nobody else has its number before it is waited for.
        let _ = kill_process(child, signal);
    }
}

/// What signals have asked for so far.
#[derive(Clone, Debug)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    abort: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Catches SIGINT and SIGTERM: the first raises the flag to stop, each later one the flag to abort.
    ///
    /// # Errors
    /// Never in practice.
    pub fn catch() -> io::Result<Self> {
        let signals = Self::new(Arc::default());
        for signal in [SIGINT, SIGTERM] {
            let own = signals.clone();
            // SAFETY: the action is one or two operations on atomics, which a signal handler may do.
            unsafe { low_level::register(signal, move || own.ask()) }?;
        }
        Ok(signals)
    }

    /// Catches SIGINT and SIGTERM: the first raises `stop`, the second ends the process at once with 128 and its number.
    ///
    /// # Errors
    /// Never in practice.
    pub fn catch_or_end(stop: Arc<AtomicBool>) -> io::Result<Self> {
        for signal in [SIGINT, SIGTERM] {
            let asked = Arc::clone(&stop);
            // In one step: two threads may handle a signal each at the same time, and both must not be the first.
            let end = move || {
                if asked.swap(true, Ordering::Relaxed) {
                    low_level::exit(128 + signal);
                }
            };
            // SAFETY: the action is an operation on an atomic and _exit(2), both of which a signal handler may do.
            unsafe { low_level::register(signal, end) }?;
        }
        Ok(Self::new(stop))
    }

    /// Also catches SIGHUP, as a request to reload files.
    ///
    /// # Errors
    /// Never in practice.
    pub fn and_reload(self) -> io::Result<Self> {
        flag::register(SIGHUP, Arc::clone(&self.reload))?;
        Ok(self)
    }

    /// Catches SIGHUP, too, as another way to ask for an end.
    ///
    /// # Errors
    /// Never in practice.
    pub fn and_hang_up(self) -> io::Result<Self> {
        flag::register(SIGHUP, Arc::clone(&self.stop))?;
        Ok(self)
    }

    fn new(stop: Arc<AtomicBool>) -> Self {
        UNCAUGHT.store(false, Ordering::Relaxed);
        Self { stop, abort: Arc::default(), reload: Arc::default() }
    }

    fn ask(&self) {
        if self.stop.swap(true, Ordering::Relaxed) {
            self.abort.store(true, Ordering::Relaxed);
        }
    }

    /// The stop flag, for polling.
    pub const fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Whether an end was asked for.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether to end at once: work in progress is abandoned, finished work is saved.
    pub fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Whether files must be reloaded; clears the request.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_signal_asks_for_a_quick_end_and_nothing_more() {
        let signals = Signals::catch().unwrap().and_reload().unwrap();
        let asked = || (signals.is_stopped(), signals.is_aborted(), signals.take_reload());
        assert_eq!(asked(), (false, false, false));
        // Raised in this thread, a signal is handled before the call returns.
        for (signal, wanted) in [
            (SIGHUP, (false, false, true)),
            (SIGINT, (true, false, false)),
            (SIGTERM, (true, true, false)),
            (SIGINT, (true, true, false)),
        ] {
            low_level::raise(signal).unwrap();
            assert_eq!(asked(), wanted);
        }
    }
}
