//! How far a run is, shown on standard error; and the signals that end a run.

use std::io::{self, IsTerminal};

use ldplayer_net::signals::Signals;
use ldplayer_run::{Observer, Progress as State, Wish};

use crate::printing::{overwrite, to_stderr};

/// Looks between two updates of the line on a terminal: two a second.
const LIVE: i64 = 500_000_000;
/// Nanoseconds between two lines elsewhere.
const PLAIN: i64 = 10_000_000_000;

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Show {
    /// A line that changes on a terminal, a line every ten seconds elsewhere.
    #[default]
    Auto,
    /// A line every ten seconds.
    Plain,
    /// Nothing.
    Off,
}

/// Shows how far the run is, and passes on what signals ask for.
pub struct Progress {
    signals: Signals,
    show: Show,
    /// Whether the line on the terminal has to be left before another one.
    is_on_line: bool,
    /// How long the run will take, in nanoseconds, where that is known.
    total: Option<i64>,
    before: State,
}

impl Progress {
    /// Catches signals from now on.
    pub fn new(show: Show) -> io::Result<Self> {
        let show = match show {
            Show::Auto if !io::stderr().is_terminal() => Show::Plain,
            show => show,
        };
        Ok(Self { signals: Signals::catch()?, show, is_on_line: false, total: None, before: State::default() })
    }

    /// Says how long the run will take, where that is known.
    pub const fn set_total(&mut self, total: Option<i64>) {
        self.total = total;
    }

    /// Whether somebody is shown anything.
    pub fn is_shown(&self) -> bool {
        self.show != Show::Off
    }

    /// Leaves the line of progress.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.is_on_line) {
            to_stderr(format_args!("\n"));
        }
    }

    fn show(&mut self, now: &State) {
        let line = line(&self.before, now, self.total);
        self.before = *now;
        if self.show == Show::Plain {
            return to_stderr(format_args!("{line}\n"));
        }
        self.is_on_line = true;
        overwrite(line);
    }
}

impl Observer for Progress {
    fn wants_latencies(&self) -> bool {
        self.is_shown()
    }

    fn notice(&mut self, text: &str) {
        self.end();
        tell!("ldplayer: {text}");
    }

    fn look(&mut self, now: &State) -> Wish {
        let every = match self.show {
            Show::Auto => LIVE,
            Show::Plain => PLAIN,
            Show::Off => i64::MAX,
        };
        if now.at.0 > 0 && now.at - self.before.at >= every {
            self.show(now);
        }
        match (self.signals.is_aborted(), self.signals.is_stopped()) {
            (true, _) => Wish::Abort,
            (false, true) => Wish::Stop,
            (false, false) => Wish::GoOn,
        }
    }
}

/// Elapsed time, of how much, how many queries a second, the share of them that was answered, latencies, lateness.
fn line(before: &State, now: &State, total: Option<i64>) -> String {
    let at = now.at.0.max(0);
    let seconds = (now.at - before.at) as f64 / 1e9;
    let rate = if seconds > 0.0 { (now.counts.sent - before.counts.sent) as f64 / seconds } else { 0.0 };
    // What is still under way has not failed to be answered.
    let settled = now.counts.answered + now.counts.timed_out + now.counts.failed;
    let answered = match settled {
        0 => String::new(),
        settled => format!(", {:.1} % answered", now.counts.answered as f64 * 100.0 / settled as f64),
    };
    let latency = now.latency_ns.map_or_else(String::new, |(p50, p99)| {
        format!(", p50 {:.1} ms, p99 {:.1} ms", p50 as f64 / 1e6, p99 as f64 / 1e6)
    });
    let late = now.lag_ns.max(0) as f64 / 1e6;
    format!("{}: {} sent, {rate:.0}/s{answered}{latency}, {late:.1} ms late", clock(at, total), now.counts.sent)
}

/// `12s of 60s (20 %, 48s left)`, or the known part of it.
fn clock(at: i64, total: Option<i64>) -> String {
    match total {
        Some(total) if total > at => {
            let percent = at as f64 * 100.0 / total as f64;
            format!("{} of {} ({percent:.0} %, {} left)", for_people(at), for_people(total), for_people(total - at))
        }
        // The last answers are waited for.
        Some(total) => format!("{} of {} (100 %)", for_people(at), for_people(total)),
        None => for_people(at),
    }
}

/// `48s`, `12m 05s` or `3h 20m`.
fn for_people(ns: i64) -> String {
    let seconds = (ns as f64 / 1e9).round() as i64;
    match seconds {
        ..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::RunTime;
    use ldplayer_replay::Counts;

    fn state(seconds: i64, sent: u64, answered: u64, timed_out: u64) -> State {
        let counts = Counts { sent, answered, timed_out, ..Counts::default() };
        State { at: RunTime(seconds * 1_000_000_000), counts, lag_ns: 1_250_000, latency_ns: None }
    }

    #[test]
    fn a_line_says_how_far_the_run_is_and_how_it_goes() {
        let (before, now) = (state(10, 1_000, 990, 10), state(12, 3_000, 2_970, 30));
        assert_eq!(
            line(&before, &now, Some(60_000_000_000)),
            "12s of 60s (20 %, 48s left): 3000 sent, 1000/s, 99.0 % answered, 1.2 ms late"
        );
        let timed = State { latency_ns: Some((1_500_000, 20_000_000)), ..now };
        assert_eq!(
            line(&before, &timed, None),
            "12s: 3000 sent, 1000/s, 99.0 % answered, p50 1.5 ms, p99 20.0 ms, 1.2 ms late"
        );
    }

    #[test]
    fn times_have_the_units_that_people_read() {
        let shown = [0, 400, 600, 119_000, 120_000, 725_000, 12_000_000].map(|ms| for_people(ms * 1_000_000));
        assert_eq!(shown, ["0s", "0s", "1s", "119s", "2m 00s", "12m 05s", "3h 20m"]);
    }

    #[test]
    fn nothing_is_said_of_answers_before_there_is_one_and_of_time_beyond_the_end() {
        let now = state(61, 5, 0, 0);
        assert_eq!(line(&State::default(), &now, Some(60_000_000_000)), "61s of 60s (100 %): 5 sent, 0/s, 1.2 ms late");
    }
}
