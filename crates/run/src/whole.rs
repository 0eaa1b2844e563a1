//! A run that others play: its trace is read and planned here, and its record made of what they bring back.

use std::net::SocketAddr;
use std::path::Path;

use ldplayer_core::damage::Flaw;
use ldplayer_core::{Query, TraceTime};
use ldplayer_net::clock;
use ldplayer_results::metrics::Listener;
use ldplayer_results::{Environment, Recorder, RunConfig, RunEnd, RunSetup};
use ldplayer_workload::{PlanFeed, WorkloadError};

use crate::embed::embed;
use crate::error::RunError;
use crate::execute::recorded_answers;
use crate::resolve::Plan;
use crate::spec::RunSpec;
use crate::{classes, describe, metrics, permission, warnings};

/// A run whose queries are read here.
pub struct Whole {
    spec: RunSpec,
    trace: Vec<String>,
    plan: Plan,
    feed: PlanFeed,
    listener: Option<Listener>,
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
    if let Some(option) = of_one_host(&spec) {
        return Err(RunError::Spec(format!(
            "{option} is not there for runs on several hosts yet: leave it out, or replay on one host"
        )));
    }
    let trace = spec.trace.clone();
    let spec = embed(spec)?;
    let plan = Plan::resolve(&spec)?;
    let public = permission::check("--server", &plan.settings.targets, &spec.allow_target)?;
    let listener = metrics::listen(spec.metrics)?;
    let feed = PlanFeed::open(&plan.feed)?;
    Ok(Whole { spec, trace, plan, feed, listener, public })
}

/// The first option that has a meaning, or a file, on one host alone.
fn of_one_host(spec: &RunSpec) -> Option<&'static str> {
    let given = [
        ("--watch-pid", spec.watch_pid.is_some()),
        ("--watch-unit", spec.watch_unit.is_some()),
        ("--keep-responses", spec.keep_responses),
        ("--compare-answers", spec.compare_answers.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
}

impl Whole {
    /// The specification with its files in it, as hosts that play a share have it: whoever wants figures asks here.
    pub fn shared_spec(&self) -> RunSpec {
        RunSpec { metrics: None, ..self.spec.clone() }
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
        RunEnd {
            started,
            receive_drops: Some(0),
            recorded: self.feed.recorded().map(recorded_answers),
            trace_queries: queries,
            class_clients: classes::counts(self.plan.classes(), self.feed.classes()),
            warnings: warnings::out_of_order(tally.damage_count(Flaw::OutOfOrder)).into_iter().collect(),
            limits: self.plan.limits(),
            tally,
            ..RunEnd::default()
        }
    }
}
