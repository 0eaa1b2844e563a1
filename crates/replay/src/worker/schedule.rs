//! When a worker acts: it sleeps and spins until the next query is due, and sees when its host holds it up.

use std::hint;

use ldplayer_core::{RunTime, Stalls};
use ldplayer_net::pace::{Pace, Precision, Wait};

use super::clock::RunClock;
use super::load::Load;

/// The schedule.
pub struct Schedule {
    clock: RunClock,
    pace: Pace,
    /// When the query is due that was taken ahead of its time, and is not sent yet.
    ahead: Option<RunTime>,
    /// Since when nothing was done.
    idle_since: Option<RunTime>,
    stalls: Stalls,
}

impl Schedule {
    /// The schedule of a worker that is as precise as that.
    pub fn new(clock: RunClock, precision: Precision) -> Self {
        Self { clock, pace: Pace::of_schedule(precision), ahead: None, idle_since: None, stalls: Stalls::default() }
    }

    /// A round begins. A spinning worker reads the clock about every microsecond; a longer gap is caused by the host.
    pub fn begin_round(&mut self, now: RunTime) {
        if let Some(since) = self.idle_since.filter(|_| self.pace.is_spinning()) {
            self.stalls.observe(since, now);
        }
        self.idle_since = Some(now);
    }

    /// Something was done in this round, which may have taken its time.
    pub const fn note_work(&mut self) {
        self.idle_since = None;
    }

    /// Whether it spins until the next query is due.
    pub const fn is_spinning(&self) -> bool {
        self.pace.is_spinning()
    }

    /// A query was taken that is due then.
    pub const fn take_ahead(&mut self, due: RunTime) {
        self.ahead = Some(due);
    }

    /// Waits until the query is due that was taken ahead of its time.
    pub fn hold(&mut self, load: &mut Load) {
        let Some(due) = self.ahead.take() else { return };
        let began = self.clock.now();
        let mut now = began;
        while now < due {
            hint::spin_loop();
            let next = self.clock.now();
            self.stalls.observe(now, next);
            now = next;
        }
        load.note_sleep(now - began);
    }

    /// How to wait until a time of the run, in nanoseconds.
    pub fn wait(&mut self, now: RunTime, until: i64) -> Wait {
        self.pace.wait(now.0, until)
    }

    /// Lets the pace learn from a sleep that was to end then, in nanoseconds of run time, and was not interrupted.
    pub fn note_woken(&mut self, wanted: i64) {
        self.pace.woke(wanted, self.clock.now().0);
    }

    /// How often and how long the host held it up.
    pub const fn stalls(&self) -> Stalls {
        self.stalls
    }
}
