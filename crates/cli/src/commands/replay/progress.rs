//! The line of progress, and the signals that end a run.

use std::io::{self, IsTerminal, Write};

use ldplayer_net::signals::Signals;
use ldplayer_run::{Observer, Progress as State, Wish};

/// Looks between two lines of progress.
const LINE: u32 = 10;

/// Shows how far the run is, on a terminal, and passes on what signals ask for.
pub struct Progress {
    signals: Signals,
    terminal: bool,
    looks: u32,
    before: State,
}

impl Progress {
    /// Catches signals from now on; shows something only where that is wanted.
    pub fn new(is_wanted: bool) -> io::Result<Self> {
        let terminal = is_wanted && io::stderr().is_terminal();
        Ok(Self { signals: Signals::catch()?, terminal, looks: 0, before: State::default() })
    }

    /// Leaves the line of progress.
    pub fn end(&self) {
        if self.terminal {
            eprintln!();
        }
    }

    fn show(&mut self, now: &State) {
        let seconds = (now.at - self.before.at) as f64 / 1e9;
        let rate = if seconds > 0.0 { (now.counts.sent - self.before.counts.sent) as f64 / seconds } else { 0.0 };
        self.before = *now;
        let latency = now.latency_ns.map_or_else(String::new, |(p50, p99)| {
            format!("  p50 {:.1} ms  p99 {:.1} ms", p50 as f64 / 1e6, p99 as f64 / 1e6)
        });
        let mut stderr = io::stderr().lock();
        // A line that cannot be shown is no reason to end a run.
        let _ = write!(
            stderr,
            "\r{:6.0} s  sent {}  answered {}  timed out {}  lag {:.1} ms{latency}  {rate:.0} q/s\x1b[K",
            now.at.0.max(0) as f64 / 1e9,
            now.counts.sent,
            now.counts.answered,
            now.counts.timed_out,
            now.lag_ns as f64 / 1e6,
        );
    }
}

impl Observer for Progress {
    fn notice(&mut self, text: &str) {
        if self.terminal {
            eprintln!();
        }
        tell!("ldplayer: {text}");
    }

    fn look(&mut self, now: &State) -> Wish {
        if self.terminal && self.looks.is_multiple_of(LINE) {
            self.show(now);
        }
        self.looks += 1;
        match (self.signals.is_aborted(), self.signals.is_stopped()) {
            (true, _) => Wish::Abort,
            (false, true) => Wish::Stop,
            (false, false) => Wish::GoOn,
        }
    }
}
