//! How far an experiment is, on stderr, and the signals that end it.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ldplayer_experiment::{Position, RunRecord, RunState, Watcher};
use ldplayer_net::signals::Signals;
use ldplayer_run::{Progress, Wish};

use super::print::seconds;

use crate::printing::overwrite;

/// Looks between two lines of progress.
const LINE: u32 = 10;
/// Time between two of them where they stay.
const INTERVAL: Duration = Duration::from_secs(10);

/// Where progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shown {
    /// On a terminal as a line that changes, elsewhere as a line every ten seconds
    Auto,
    /// As lines: when a run begins, every ten seconds, and when it has ended
    Plain,
    /// Nowhere
    Off,
}

/// What is shown of an experiment.
pub struct Screen {
    signals: Signals,
    shown: Shown,
    /// Whether progress is a line that changes.
    is_live: bool,
    looks: u32,
    /// When a line was last written that stays.
    written: Instant,
    pace: Pace,
}

/// How long runs took that were made, and how long they were estimated to take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    estimated_s: f64,
    took_s: f64,
}

impl Pace {
    /// Takes a run that was made.
    pub fn add(&mut self, estimated_s: f64, took_s: f64) {
        self.estimated_s += estimated_s;
        self.took_s += took_s;
    }

    /// Scales an estimate by observed run times.
    pub fn correct(&self, estimated_s: f64) -> f64 {
        let factor = if self.estimated_s > 0.0 { self.took_s / self.estimated_s } else { 1.0 };
        estimated_s * factor
    }
}

/// Which run it is, and of how many where that is known.
fn place(at: &Position) -> String {
    at.of.map_or_else(|| format!("[{}]", at.number), |of| format!("[{}/{of}]", at.number))
}

impl Screen {
    /// Catches signals from now on.
    pub fn new(shown: Shown) -> io::Result<Self> {
        let is_live = shown == Shown::Auto && io::stderr().is_terminal();
        let (signals, written) = (Signals::catch()?, Instant::now());
        Ok(Self { signals, shown, is_live, looks: 0, written, pace: Pace::default() })
    }

    /// Leaves the line of progress.
    pub fn leave_line(&self) {
        if self.is_live {
            overwrite("");
        }
    }

    fn left(&self, at: &Position, done_s: f64) -> String {
        let Some((own, behind)) = at.estimated_s else { return String::new() };
        let left = (self.pace.correct(own) - done_s).max(0.0) + self.pace.correct(behind);
        format!("  {} left", seconds(Some(left)))
    }
}

impl Watcher for Screen {
    fn tell(&mut self, line: &str) {
        self.leave_line();
        tell!("ldplayer: {line}");
    }

    fn begin(&mut self, at: &Position) {
        self.looks = 0;
        if self.shown == Shown::Plain {
            tell!("{} {} {} begins{}", place(at), at.cell, at.what, self.left(at, 0.0));
        }
    }

    fn look(&mut self, at: &Position, now: &Progress) -> Wish {
        let is_due = if self.is_live { self.looks.is_multiple_of(LINE) } else { self.written.elapsed() >= INTERVAL };
        if is_due && self.shown != Shown::Off {
            let done_s = now.at.0.max(0) as f64 / 1e9;
            let line = format!(
                "{} {} {}  {done_s:.0} s  sent {}  answered {}{}",
                place(at),
                at.cell,
                at.what,
                now.counts.sent,
                now.counts.answered,
                self.left(at, done_s),
            );
            if self.is_live {
                overwrite(line);
            } else {
                self.written = Instant::now();
                tell!("{line}");
            }
        }
        self.looks += 1;
        match (self.signals.is_aborted(), self.signals.is_stopped()) {
            (true, _) => Wish::Abort,
            (false, true) => Wish::Stop,
            (false, false) => Wish::GoOn,
        }
    }

    fn end(&mut self, at: &Position, run: &RunRecord) {
        if let Some((own, _)) = at.estimated_s.filter(|_| run.state == RunState::Done) {
            self.pace.add(own, run.took_s);
        }
        self.leave_line();
        let word = super::print::word(run.state);
        let reason = run.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let is_news = !matches!(run.state, RunState::Done | RunState::Interrupted);
        if is_news {
            tell!("ldplayer: {} {}: {word}{reason}", at.cell, at.what);
        } else if self.shown == Shown::Plain {
            tell!("{} {} {}: {word} in {:.1} s", place(at), at.cell, at.what, run.took_s);
        }
    }

    fn is_stopped(&self) -> bool {
        self.signals.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_what_was_taken() {
        let mut pace = Pace::default();
        assert_eq!(pace.correct(60.0), 60.0);
        pace.add(10.0, 12.0);
        pace.add(10.0, 18.0);
        assert_eq!(pace.correct(60.0), 90.0);
    }
}
