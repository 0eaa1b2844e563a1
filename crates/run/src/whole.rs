//! A run played by agents: the trace is read and planned here, and the record made of their results.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ldplayer_core::damage::Flaw;
use ldplayer_core::{Query, TraceTime};
use ldplayer_net::clock;
use ldplayer_replay::Monitor;
use ldplayer_report::metrics::Listener;
use ldplayer_results::{Environment, RESPONSES, Recorder, RunEnd, RunSetup};
use ldplayer_workload::{PlanFeed, Timing, WorkloadError};

use crate::again::Disagreements;
use crate::embed::embed;
use crate::error::RunError;
use crate::execute::{recorded, sampled};
use crate::keys::RunSpec;
use crate::path::interface;
use crate::resolve::Plan;
use crate::responses::join;
use crate::watch::{Observer, ServerWatch, watch_on};
use crate::{classes, describe, metrics, permission, questions, warnings};

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
/// The specification is invalid, or cannot be carried out on several hosts.
pub fn prepare_whole(spec: RunSpec) -> Result<Whole, RunError> {
    if spec.start_server.is_some() {
        return Err(RunError::Spec(
            "--start-server: a server started by the run is reachable from one host only: give --server ADDRESS"
                .to_owned(),
        ));
    }
    interface::refuse_on_several_hosts(&spec)?;
    if spec.duration.is_some() && spec.timing() == Timing::Fast {
        let what =
            "--for: with --timing fast it ends by the clock of one host only: on several, use --rate, or --loop N";
        return Err(RunError::Spec(what.to_owned()));
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
    /// The specification with embedded files, for the hosts that play a share.
    pub fn shared_spec(&self) -> RunSpec {
        shared(self.spec.clone())
    }

    /// The server's processes, if they are on this host and to be watched. Returned once.
    pub const fn watch(&mut self) -> Option<ServerWatch> {
        self.watch.take()
    }

    /// The public addresses that will be queried.
    pub fn public_targets(&self) -> &[SocketAddr] {
        &self.public
    }

    /// The metrics endpoint, if any. Returned once.
    pub const fn listener(&mut self) -> Option<Listener> {
        self.listener.take()
    }

    /// Time of the first transaction of the trace.
    pub fn first(&self) -> TraceTime {
        self.feed.first()
    }

    /// Appends the next queries, sorted by due time; `false` at the end.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, WorkloadError> {
        Ok(self.feed.next(batch)?)
    }

    /// Makes the run directory; with `replace`, it may replace an earlier run.
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
            config: describe::config(&self.spec, &self.plan, command_line, trace),
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

    /// The facts about the whole run, once all its queries, this many, have been dealt.
    pub fn end(&self, queries: u64, started: TraceTime) -> RunEnd {
        let tally = self.feed.tally().clone();
        let out_of_order = warnings::out_of_order(tally.damage_count(Flaw::OutOfOrder));
        let nothing_compared = warnings::nothing_compared(&self.plan, self.feed.comparable());
        RunEnd {
            started,
            receive_drops: Some(0),
            recorded: recorded(&self.feed, &self.plan),
            trace_queries: queries,
            class_clients: classes::counts(self.plan.classes(), self.feed.classes()),
            warnings: out_of_order.into_iter().chain(nothing_compared).collect(),
            limits: self.plan.limits(),
            tally,
            traces: questions::files(&self.plan.feed),
            questions: questions::at_end(&self.plan.feed, queries),
            ..RunEnd::default()
        }
    }

    /// Joins the responses kept by the hosts, of this many queries, in the run directory. Missing ones are noted in `end`.
    pub fn join_responses(&self, parts: &[&Path], queries: u64, output: &Path, end: &mut RunEnd) {
        let files: Vec<PathBuf> = parts.iter().map(|part| part.join(RESPONSES)).filter(|file| file.exists()).collect();
        if !self.spec.keep_responses || files.is_empty() {
            return;
        }
        let kept = join(&files, queries, &output.join(RESPONSES));
        end.warnings.extend(kept.warning());
        end.responses_kept = Some(kept.written);
        end.nsid = kept.nsid.servers();
    }

    /// Repeats queries with unexpected answers in the rows of these directories from this host, unless the run was
    /// interrupted; `end` holds the
    /// result.
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

/// The specification for hosts that play a share, without metrics and watched processes, which stay with the controller.
pub fn shared(spec: RunSpec) -> RunSpec {
    RunSpec { metrics: None, watch_pid: None, watch_unit: None, ..spec }
}
