//! How many questions of a resolver are settled: a line on a terminal, once a second.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::printing::overwrite;

/// The line, which is gone once this is dropped.
pub struct Progress {
    shown: Instant,
    is_terminal: bool,
}

impl Progress {
    /// None yet.
    pub fn new() -> Self {
        Self { shown: Instant::now(), is_terminal: std::io::stderr().is_terminal() }
    }

    /// Shows how many of all are settled.
    pub fn show(&mut self, done: usize, all: usize) {
        if self.is_terminal && self.shown.elapsed() >= Duration::from_secs(1) {
            overwrite(format_args!("{done} of {all} questions settled "));
            self.shown = Instant::now();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            overwrite("");
        }
    }
}
