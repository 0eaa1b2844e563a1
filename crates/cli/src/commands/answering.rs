//! Options for what varies among the answers of a zone set, and the clock of the recording that the versions are from.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use ldplayer_core::time::NS_PER_S;
use ldplayer_emulate::serve::answers::{Answers, Clock, Course};
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_net::clock;
use ldplayer_results::{State, read_document};
use ldplayer_run::RunSpec;
use ldplayer_workload::Timing;

use super::when::When;

/// A trace that begins so much before or after the versions is of another time: both then begin together.
const SAME_TIME_NS: i64 = 86_400 * NS_PER_S;

/// Options of commands that serve a zone set.
#[derive(clap::Args)]
pub struct Answering {
    /// Versions of record sets that answers have: fixed, recorded, rotate, weighted, by-subnet, changing:10s
    ///
    /// A set that was built with --conflict keep has several: those of the zone files (fixed, the default), those of this moment of the
    /// recording (recorded), one after the other, drawn by how often each was seen, those that the client's subnet was given, or all
    /// going on to the next after an interval.
    #[arg(long, value_name = "WHICH", default_value_t, hide_default_value = true)]
    pub answers: Answers,
    /// When the recording begins, for --answers recorded: now; at a time, as 2026-01-31T12:00:00Z or +10s; or with the run that
    /// is made in this directory, at its speed
    #[arg(
        long,
        value_name = "now|TIME|RUN",
        default_value = "now",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    clock: Source,
}

/// What sets the clock.
#[derive(Clone, Debug)]
enum Source {
    At(When),
    Run(PathBuf),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("now", _) => Ok(Self::At(When::FromNow(0))),
            ("", _) => Err("expected now, a time, or the directory of a run".to_owned()),
            (_, Ok(when)) => Ok(Self::At(when)),
            (directory, Err(_)) => Ok(Self::Run(directory.into())),
        }
    }
}

impl Answering {
    /// Sets the clock of the recording of a set, or waits for the run that does so.
    pub fn follow(&self, set: &ZoneSet) -> Following {
        if self.answers != Answers::Fixed && set.varying() == 0 {
            tell!(
                "ldplayer: --answers {}: no record set of the zone set has versions (see `zones build --conflict keep`): every answer is that of the zone files",
                self.answers
            );
        }
        let recording = Recording { start_ns: set.recorded_ns(), clock: Arc::default() };
        let run = match &self.clock {
            Source::At(when) => {
                recording.begin_at(*when);
                None
            }
            Source::Run(directory) => Some(directory.clone()).filter(|_| self.answers == Answers::Recorded),
        };
        Following { recording, run, started: String::new(), written: None }
    }
}

/// The recording that versions are from.
struct Recording {
    start_ns: Option<i64>,
    clock: Arc<Clock>,
}

/// The clock of a recording, and the run that sets it.
pub struct Following {
    recording: Recording,
    run: Option<PathBuf>,
    /// When that run says that it began.
    started: String,
    /// When its file was written that was read last: it is not read again while the run is measured.
    written: Option<SystemTime>,
}

impl Following {
    /// The clock.
    pub fn clock(&self) -> Arc<Clock> {
        Arc::clone(&self.recording.clock)
    }

    /// Looks whether the run has begun.
    pub fn look(&mut self) {
        let Some(directory) = self.run.as_deref() else { return };
        let written = fs::metadata(directory.join("run.json")).and_then(|file| file.modified()).ok();
        if written == self.written {
            return;
        }
        self.written = written;
        let Some(begun) = Begun::read(directory) else { return };
        if begun.started != self.started {
            self.recording.begin_with(&begun);
            self.started = begun.started;
        }
    }
}

impl Recording {
    fn begin_at(&self, when: When) {
        let now = clock::realtime_ns();
        let at_ns = match when {
            When::At(seconds) => seconds.saturating_mul(NS_PER_S),
            When::FromNow(seconds) => now.saturating_add(seconds.saturating_mul(NS_PER_S)),
        };
        let moment_ns = clock::monotonic_ns().saturating_add(at_ns.saturating_sub(now));
        self.clock.set(Course { moment_ns, recorded_ns: 0, speed: 1.0 });
    }

    fn begin_with(&self, begun: &Begun) {
        let since_start = self.start_ns.map_or(0, |start| begun.trace_ns.saturating_sub(start));
        let is_same_time = since_start.saturating_abs() < SAME_TIME_NS;
        let recorded_ns = if is_same_time { since_start } else { 0 };
        let moment_ns = begun.started_ns.saturating_sub(clock::realtime_offset_ns());
        self.clock.set(Course { moment_ns, recorded_ns, speed: begun.speed });
        let why = if is_same_time { "" } else { ", since its trace is of another time" };
        let seconds = recorded_ns as f64 / NS_PER_S as f64;
        tell!("ldplayer: the recording goes by the clock of a run: {seconds:.3} s into it at {}{why}", begun.started);
    }
}

/// A run that has begun and goes on.
struct Begun {
    started: String,
    started_ns: i64,
    trace_ns: i64,
    speed: f64,
}

impl Begun {
    /// Reads what a run says of itself; `None` if there is none under way whose queries come at recorded times.
    fn read(directory: &Path) -> Option<Self> {
        let document = read_document::<RunSpec>(directory).ok()?;
        let Timing::Scaled(speed) = document.spec.timing() else { return None };
        let ns = |text: &str| i64::try_from(text.parse::<Timestamp>().ok()?.as_nanosecond()).ok();
        let report = document.report;
        let (started_ns, trace_ns) = (ns(&report.started)?, ns(&report.trace_first)?);
        (report.state == State::Running).then_some(Self { started: report.started, started_ns, trace_ns, speed })
    }
}
