//! A run that others play: its trace is read and planned here, and its record made of what they bring back.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ldplayer_core::damage::Flaw;
use ldplayer_core::{Query, TraceTime};
use ldplayer_net::clock;
use ldplayer_replay::Monitor;
use ldplayer_results::metrics::Listener;
use ldplayer_results::{Environment, RESPONSES, Recorder, RunConfig, RunEnd, RunSetup};
use ldplayer_workload::{PlanFeed, WorkloadError};

use crate::again::Disagreements;
use crate::embed::embed;
use crate::error::RunError;
use crate::execute::{recorded_answers, sampled};
use crate::resolve::Plan;
use crate::responses::join;
use crate::spec::RunSpec;
use crate::watch::{Observer, ServerWatch, watch_on};
use crate::{classes, describe, metrics, permission, warnings};

/// A run whose queries are read here.
pub struct Whole {
    spec: RunSpec,
    trace: Vec<String>,
    plan: Plan,
    feed: PlanFeed,
    listener: Option<Listener>,
    watch: Option<ServerWatch>,
    public: Vec<SocketAddr>,
}

/// Reads the files of a specification, checks that its targets are allowed, and opens its trace.
///
/// # Errors
/// What of the specification cannot be, or cannot be on several hosts.
pub fn prepare_whole(spec: RunSpec) -> Result<Whole, RunError> {
    if spec.start_server.is_some() {
        return Err(RunError::Spec("--start-server: a server that the run starts is on one host, and cannot be asked by others; give --server ADDRESS".to_owned()));
    }
    let trace = spec.trace.clone();
    let spec = embed(spec)?;
    let plan = Plan::resolve(&spec)?;
    let public = permission::of_all(&spec, &plan)?;
    let sampled = sampled(&spec, &plan, None)?;
    let watch = sampled.server.is_some().then_some(ServerWatch::Planned(sampled));
    let listener = metrics::listen(spec.metrics)?;
    let feed = PlanFeed::open(&plan.feed)?;
    Ok(Whole { spec, trace, plan, feed, listener, watch, public })
}

impl Whole {
    /// The specification with its files in it, as hosts that play a share have it.
    pub fn shared_spec(&self) -> RunSpec {
        shared(self.spec.clone())
    }

    /// The server's processes, where they are on this host and are to be watched. There once.
    pub const fn watch(&mut self) -> Option<ServerWatch> {
        self.watch.take()
    }

    /// The public addresses that will be asked.
    pub fn public_targets(&self) -> &[SocketAddr] {
        &self.public
    }

    /// Where figures are to be served, if anybody wants them. There once.
    pub const fn listener(&mut self) -> Option<Listener> {
        self.listener.take()
    }

    /// Time of the first transaction of the trace.
    pub fn first(&self) -> TraceTime {
        self.feed.first()
    }

    /// Appends the next queries, in the order of their due times; `false` at the end.
    ///
    /// # Errors
    /// What of the trace cannot be read.
    pub fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, WorkloadError> {
        Ok(self.feed.next(batch)?)
    }

    /// Makes the run directory, which may replace an earlier run where `replace` says so.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn record(
        &self,
        output: &Path,
        replace: bool,
        command_line: Vec<String>,
    ) -> Result<Recorder<RunSpec>, RunError> {
        let trace = self.trace.clone();
        let setup = RunSetup {
            config: RunConfig { command_line, trace, ..describe::config(&self.spec, &self.plan) },
            environment: Environment { machine: ldplayer_net::machine::facts(), ..Environment::default() },
            started: TraceTime(clock::realtime_ns()),
            workers: 0,
            trace_first: self.first(),
            speed_note: self.plan.speed_note(),
            classes: self.plan.classes().iter().map(|class| class.name.clone()).collect(),
            expect: self.spec.expect.clone(),
        };
        Ok(Recorder::create(output, replace, setup, self.spec.clone())?)
    }

    /// What is known of the whole when all queries were dealt, of which there were so many.
    pub fn end(&self, queries: u64, started: TraceTime) -> RunEnd {
        let tally = self.feed.tally().clone();
        let out_of_order = warnings::out_of_order(tally.damage_count(Flaw::OutOfOrder));
        let nothing_compared = warnings::nothing_compared(&self.plan, self.feed.comparable());
        RunEnd {
            started,
            receive_drops: Some(0),
            recorded: self.feed.recorded().map(recorded_answers),
            trace_queries: queries,
            class_clients: classes::counts(self.plan.classes(), self.feed.classes()),
            warnings: out_of_order.into_iter().chain(nothing_compared).collect(),
            limits: self.plan.limits(),
            tally,
            ..RunEnd::default()
        }
    }

    /// Puts together what hosts kept of the responses, of so many queries, in the directory of the run. What lacks is told in `end`.
    pub fn join_responses(&self, parts: &[&Path], queries: u64, output: &Path, end: &mut RunEnd) {
        let files: Vec<PathBuf> = parts.iter().map(|part| part.join(RESPONSES)).filter(|file| file.exists()).collect();
        if !self.spec.keep_responses || files.is_empty() {
            return;
        }
        let kept = join(&files, queries, &output.join(RESPONSES));
        end.warnings.extend(kept.warning());
        end.responses_kept = Some(kept.written);
    }

    /// Asks again for the answers that disagree with the expected ones in the rows of these directories, from this host, unless the run
    /// was interrupted; `end` says what became of them.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn ask_again(
        &self,
        parts: &[&Path],
        output: &Path,
        end: &mut RunEnd,
        observer: &mut dyn Observer,
    ) -> Result<(), RunError> {
        if self.spec.compare_answers.is_none() {
            return Ok(());
        }
        let disagreements = Disagreements::of(parts.iter().copied())?;
        let again = if end.interrupted {
            disagreements.leave()
        } else {
            let asking = Monitor::new(self.plan.settings.workers);
            let ask = || disagreements.ask(&self.plan, output, &asking);
            watch_on(&asking, &asking, clock::monotonic_ns(), observer, ask)
        };
        end.asked_again = again.asked;
        end.warnings.extend(again.warning);
        Ok(())
    }
}

/// A specification as hosts that play a share have it: figures are served, and processes watched, where the run was asked for.
pub fn shared(spec: RunSpec) -> RunSpec {
    RunSpec { metrics: None, watch_pid: None, watch_unit: None, ..spec }
}
