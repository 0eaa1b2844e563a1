//! `ldplayer replay`: from the options as typed to a finished run directory.

mod classes;
mod connections;
mod feed;
mod metrics;
mod options;
mod policy;
mod progress;
mod server;
mod target;
mod warnings;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ldplayer_core::TraceTime;
use ldplayer_core::damage::Flaw;
use ldplayer_net::awake::Awake;
use ldplayer_net::clock;
use ldplayer_net::signals::INTERRUPTED;
use ldplayer_replay::{Drain, Ended, LinkError, Monitor, Precision};
use ldplayer_results::metrics::Latencies;
use ldplayer_results::{Document, Environment, Recorder, RunEnd, RunSetup, State, TelemetrySample, Warning};
use ldplayer_workload::PlanFeed;

use crate::failure::{Failure, VERDICT_FAILED};
pub use options::Args;
use options::Plan;

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let output = args.output();
    let document = replay(args, &output)?;
    let report = &document.report;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        println!("{report}");
        println!("run directory: {}", output.display());
    }
    Ok(match report.state {
        State::Interrupted => ExitCode::from(INTERRUPTED),
        _ if report.verdict.passes() => ExitCode::SUCCESS,
        _ => ExitCode::from(VERDICT_FAILED),
    })
}

/// Makes the run in `output` and returns its report.
fn replay(args: &Args, output: &Path) -> Result<Document<Spec>, Failure> {
    // Before the namespace of a server of ours is entered, in which nobody could ask.
    let listener = metrics::listen(args.metrics)?;
    let server = server::start(args)?;
    let plan = Plan::resolve(args)?;
    target::check(&plan)?;
    let feed = feed::open(&plan)?;
    let early = warnings::of_environment(args, &plan, server.as_ref());
    let awake = (plan.settings.precision == Precision::High).then(Awake::ask);
    let setup = RunSetup {
        config: plan.config(args),
        environment: environment(awake.as_ref()),
        started: TraceTime(clock::realtime_ns()),
        workers: plan.settings.workers,
        trace_first: feed.first(),
        speed_note: plan.speed_note(),
        classes: plan.classes.iter().map(|class| class.name.clone()).collect(),
        expect: args.expect.clone(),
    };
    let mut recorder = Recorder::create(output, args.force, setup, Spec {})?;
    let monitor = Monitor::new(plan.settings.workers);
    let server_id = args.watch_pid.or(server.as_ref().map(server::Server::id));
    let latencies = Arc::new(Latencies::default());
    let _endpoint = listener.map(|listener| metrics::serve(listener, &monitor, &latencies)).transpose()?;
    let mut rows = Rows { recorder: &mut recorder, latencies: args.metrics.map(|_| &*latencies) };
    let begun = TraceTime(clock::realtime_ns());
    let (ended, mut telemetry) = progress::watch(&monitor, server_id, || {
        ldplayer_replay::run(&plan.settings, feed::Queries(feed), &mut rows, &monitor)
    });
    drop((server, awake));
    let (ended, feed) = ended.map_err(Failure::environment)?;
    on_run_time(&mut telemetry.samples, begun, ended.started);
    let feed = feed.map(|queries| queries.0);
    feed.iter().for_each(|feed| super::mutate::warn(&feed.rules()));
    finish(recorder, &plan, feed.as_ref(), ended, &monitor, telemetry, early)
}

/// Puts samples whose time is from `begun` on the axis of the rows, where `started` is 0: what was before that is negative.
fn on_run_time(samples: &mut [TelemetrySample], begun: TraceTime, started: TraceTime) {
    samples.iter_mut().for_each(|sample| sample.at = sample.at + (begun - started));
}

fn finish(
    recorder: Recorder<Spec>,
    plan: &Plan,
    feed: Option<&PlanFeed>,
    ended: Ended,
    monitor: &Monitor,
    telemetry: progress::Telemetry,
    mut warnings: Vec<Warning>,
) -> Result<Document<Spec>, Failure> {
    warnings.extend(warnings::of(&ended, plan, &telemetry));
    let out_of_order = feed.map_or(0, |feed| feed.tally().damage_count(Flaw::OutOfOrder));
    warnings.extend(warnings::out_of_order(out_of_order));
    let document = recorder.finish(RunEnd {
        started: ended.started,
        last_outcome: ended.workers.iter().filter_map(|worker| worker.last_outcome).max(),
        receive_drops: Some(warnings::own_drops(&ended)),
        interrupted: monitor.is_stopped() || ended.feed_error.is_some(),
        trace_queries: ended.trace_queries,
        class_clients: classes::counts(&plan.classes, feed.and_then(PlanFeed::classes)),
        warnings,
        telemetry: telemetry.samples,
        connections: Some(connections::summary(&monitor.connections())),
        limits: plan.limits(),
        stalls: warnings::stalls(&ended),
        tally: feed.map(|feed| feed.tally().clone()).unwrap_or_default(),
        recorded: feed.and_then(PlanFeed::recorded).map(recorded_answers),
    })?;
    // What was measured is kept and reported; the error still decides the exit status.
    match ended.drain_error.or(ended.feed_error) {
        Some(error) => Err(Failure::from(anyhow::anyhow!(error))),
        None => Ok(document),
    }
}

/// The recorded answers, as results have them.
fn recorded_answers(found: &ldplayer_workload::Recorded) -> ldplayer_results::Recorded {
    ldplayer_results::Recorded { rcodes: found.rcodes(), unanswered: found.unanswered() }
}

/// Facts of the machine for `run.json`, and whether its cores were kept from sleeping.
fn environment(awake: Option<&std::io::Result<Option<Awake>>>) -> Environment {
    let cpu_dma_latency = match awake {
        None => "not asked for".to_owned(),
        Some(Ok(Some(_))) => "0 us".to_owned(),
        Some(Ok(None)) => "not asked for in a virtual machine".to_owned(),
        Some(Err(error)) => format!("refused: {error}"),
    };
    Environment { machine: ldplayer_net::machine::facts(), cpu_dma_latency }
}

/// What a run is asked for as; the options as typed are in its `config`.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Spec {}

/// The recorder as the engine sees it, and whoever counts latencies on the way.
struct Rows<'a> {
    recorder: &'a mut Recorder<Spec>,
    latencies: Option<&'a Latencies>,
}

impl Drain for Rows<'_> {
    fn outcomes(&mut self, worker: usize, rows: &[ldplayer_core::Outcome]) -> Result<(), LinkError> {
        self.latencies.into_iter().for_each(|latencies| latencies.observe(rows));
        Ok(self.recorder.record(worker, rows)?)
    }

    fn tick(&mut self, now: ldplayer_core::RunTime) -> Result<(), LinkError> {
        Ok(self.recorder.tick(now)?)
    }
}

/// A shared flag that a signal raises.
type Flag = Arc<std::sync::atomic::AtomicBool>;

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::RunTime;
    use ldplayer_results::Side;

    /// Samples were up to half a second ahead of the rows: their time began before the trace was read ahead.
    #[test]
    fn samples_are_on_the_axis_of_the_rows() {
        let sample = |at| TelemetrySample { at: RunTime(at), side: Side::Client, name: "cpu_s".into(), value: 1.0 };
        let mut samples = [sample(0), sample(700_000_000)];
        on_run_time(&mut samples, TraceTime(1_000_000_000), TraceTime(1_500_000_000));
        assert_eq!(samples.map(|sample| sample.at), [RunTime(-500_000_000), RunTime(200_000_000)]);
    }
}
