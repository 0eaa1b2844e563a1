//! A run from its specification to its report: prepare, then execute.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use ldplayer_core::damage::Flaw;
use ldplayer_core::shard::Shards;
use ldplayer_core::text::counted;
use ldplayer_core::{Outcome, Query, RunTime, TraceTime};
use ldplayer_net::awake::Awake;
use ldplayer_net::clock;
use ldplayer_net::pace::Precision;
use ldplayer_net::watched::{CGROUPS, Unit, Watched};
use ldplayer_replay::{Drain, Ended, LinkError, Monitor, RunStart, Targets};
use ldplayer_report::metrics::{Latencies, Listener};
use ldplayer_report::write_page;
use ldplayer_results::{Document, Environment, RESPONSES, Recorded, Recorder, RunEnd, RunSetup, Warning};
use ldplayer_trace::{DependencyCounts, RecordedRetries};
use ldplayer_workload::PlanFeed;
use ldplayer_workload::mutate::RuleAccount;

use crate::again::{Again, Disagreements};
use crate::embed::embed;
use crate::error::RunError;
use crate::keys::RunSpec;
use crate::live::Live;
use crate::load::{self, Load};
use crate::path::interface;
use crate::resolve::Plan;
use crate::responses::{Responses, WrittenResponses};
use crate::server::Server;
use crate::share::{Queries, Share, Start};
use crate::time_limit::TimeLimit;
use crate::watch::{Observer, Sampled, Telemetry, watch, watch_on};
use crate::words::DNS_PORT;
use crate::{again, classes, describe, link, metrics, permission, probe, questions, tls, warnings};

/// A run ready to be executed: its server is up, its trace is open, its targets are allowed.
pub struct Prepared {
    spec: RunSpec,
    /// The name of the trace.
    trace: Vec<String>,
    plan: Plan,
    server: Option<Server>,
    sampled: Sampled,
    listener: Option<Listener>,
    queries: Queries,
    first: TraceTime,
    /// The first query, where the trace is read on this host.
    first_query: Option<Query>,
    shards: Shards,
    start: Start,
    live: Option<Arc<Live>>,
    public: Vec<SocketAddr>,
    warnings: Vec<Warning>,
}

/// The result of a run.
pub struct FinishedRun {
    /// The content of run.json.
    pub document: Document<RunSpec>,
    /// What each rule did.
    pub rules: Vec<RuleAccount>,
}

/// Prepares a run: reads its files, starts its server, resolves names, checks that its targets are allowed, and opens its trace.
///
/// # Errors
/// The specification is invalid, or cannot be carried out here.
pub fn prepare(spec: RunSpec) -> Result<Prepared, RunError> {
    let trace = spec.trace.clone();
    let spec = embed(spec)?;
    // Names must be resolved before the namespace of a started server is entered, which has no name servers.
    let listener = metrics::listen(spec.metrics)?;
    let mut server = crate::server::start(&spec)?;
    let plan = Plan::resolve(&spec)?;
    let public = permission::of_all(&spec, &plan)?;
    let feed = PlanFeed::open(&plan.feed)?;
    if let Some(server) = &mut server {
        server.wait_for(first_targets(&plan, &feed))?;
    }
    let sampled = sampled(&spec, &plan, server.as_ref())?;
    let warnings = warnings::of_environment(&plan, server.as_ref());
    let first_query = feed.first_query().cloned();
    let (first, shards, queries) = (feed.first(), Shards::all(plan.settings.workers), Queries::Read(Box::new(feed)));
    let start: Start = Box::new(|| Some(RunStart::soon()));
    let live = None;
    Ok(Prepared {
        spec,
        trace,
        plan,
        server,
        sampled,
        listener,
        queries,
        first,
        first_query,
        shards,
        start,
        live,
        public,
        warnings,
    })
}

/// Prepares a share of a run, whose files are embedded in the specification: resolves names, and checks that its targets are allowed.
///
/// # Errors
/// The specification is invalid, or cannot be carried out here.
pub fn prepare_share(spec: RunSpec, share: Share) -> Result<Prepared, RunError> {
    if spec.start_server.is_some() {
        return Err(RunError::Spec(
            "--start-server: a server started by the run is reachable from one host only: give --server ADDRESS"
                .to_owned(),
        ));
    }
    interface::refuse_on_several_hosts(&spec)?;
    let plan = Plan::resolve(&spec)?;
    let public = permission::of_all(&spec, &plan)?;
    let sampled = sampled(&spec, &plan, None)?;
    let warnings = warnings::of_environment(&plan, None);
    let shards = share.shards(plan.settings.workers);
    let Share { queries, first, start, live, .. } = share;
    let (trace, queries, live) = (spec.trace.clone(), Queries::Dealt(queries), Some(live));
    let (server, listener, first_query) = (None, None, None);
    Ok(Prepared {
        spec,
        trace,
        plan,
        server,
        sampled,
        listener,
        queries,
        first,
        first_query,
        shards,
        start,
        live,
        public,
        warnings,
    })
}

impl Prepared {
    /// The resolved names, and the load for public addresses, to be said before the first packet.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn announcements(&self) -> Result<Vec<String>, RunError> {
        let mut lines: Vec<String> =
            self.plan.resolved.iter().map(|(name, address)| format!("{name} is {address}")).collect();
        if self.public.is_empty() {
            return Ok(lines);
        }
        let load = match self.load()? {
            Some(load) => format!("up to {} ({} bytes)", counted(load.queries, "query", "queries"), load.octets),
            None => "the queries of its input, as they come,".to_owned(),
        };
        lines.extend(self.public.iter().map(|server| format!("about to send {load} to the public address {server}")));
        Ok(lines)
    }

    /// The load of the run, if the trace can be read twice and ends.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn load(&self) -> Result<Option<Load>, RunError> {
        let can_be_counted = load::can_be_read_twice(&self.plan.feed) && !self.plan.feed.is_endless();
        if can_be_counted { Ok(Some(load::count(&self.plan.feed)?)) } else { Ok(None) }
    }

    /// How long the queries will take, in nanoseconds, where that is known without reading much of the trace.
    pub fn expected_ns(&self) -> Option<i64> {
        load::expected_ns(&self.plan.feed)
    }

    /// Asks each server one question over each transport, the first query of the run, and says in a line what is wrong with it. It is no query of
    /// the run; nothing is asked, and said, on hosts that are dealt their queries, and where frames carry them.
    pub fn probe(&self, observer: &mut dyn Observer) -> Vec<String> {
        self.first_query.as_ref().map(|first| probe::of(&self.plan, first, observer)).unwrap_or_default()
    }

    /// Makes the run in the directory `output`, which may replace an earlier run there where `replace` says so.
    ///
    /// # Errors
    /// The error that ended the run. Results up to then are kept.
    pub fn execute(
        self,
        output: &Path,
        replace: bool,
        command_line: Vec<String>,
        observer: &mut dyn Observer,
    ) -> Result<FinishedRun, RunError> {
        let Self {
            spec, trace, plan, server, sampled, listener, queries, first, shards, start, live, warnings, ..
        } = self;
        let awake = (plan.settings.precision == Precision::High).then(Awake::ask);
        let setup = RunSetup {
            config: describe::config(&spec, &plan, command_line, trace),
            environment: environment(awake.as_ref()),
            started: TraceTime(clock::realtime_ns()),
            workers: plan.settings.workers,
            trace_first: first,
            speed_note: plan.speed_note(),
            classes: plan.classes().iter().map(|class| class.name.clone()).collect(),
            expect: spec.expect.clone(),
        };
        let (stamps, keeps) = (spec.stamp_sends, spec.keep_responses);
        let mut recorder = Recorder::create(output, replace, setup, spec)?;
        let monitor = Monitor::new(plan.settings.workers);
        let is_dealt = matches!(queries, Queries::Dealt(_));
        let ready = ldplayer_replay::prepare(plan.settings.clone(), shards, queries, &monitor);
        let ready = again::compared(ready, &plan);
        let ready = if stamps { ready.with_send_stamps() } else { ready };
        let start = start().ok_or(RunError::NotStarted)?;
        recorder.begin(start.wall_clock())?;
        let path = output.join(RESPONSES);
        let responses = keeps.then(|| Responses::start(&path, start.wall_clock())).transpose();
        let responses = responses.map_err(|error| RunError::Workload(error.into()))?;
        let ready = match &responses {
            Some(responses) => ready.with_responses(responses.sender()),
            None => ready,
        };
        let told = live.map(|live| live.begin(&monitor, start.monotonic_ns));
        let is_asked_for = told.is_some() || listener.is_some() || observer.wants_latencies();
        let latencies = told.unwrap_or_default();
        let serve = |listener| metrics::serve(listener, &monitor, &latencies, start.monotonic_ns);
        let _endpoint = listener.map(serve).transpose()?;
        let latencies = is_asked_for.then_some(&*latencies);
        let limit = TimeLimit::new(plan.time_limit());
        let disagreements = Disagreements::default();
        let mut rows = Rows { recorder: &mut recorder, latencies, disagreements, limit: &limit, beyond: 0 };
        let (ended, telemetry) =
            watch(&monitor, &sampled, start.monotonic_ns, &limit, observer, latencies, || ready.run(start, &mut rows));
        let (disagreements, beyond) = (rows.disagreements, rows.beyond);
        drop(awake);
        let (ended, queries) = ended?;
        let ended = Ended { trace_queries: ended.trace_queries - beyond, ..ended };
        let is_interrupted = is_interrupted(&monitor, &limit, &ended);
        let responses = responses.map(Responses::end);
        let again = if is_dealt {
            // On several hosts, the dealer has the trace and repeats queries.
            Again::default()
        } else if is_interrupted {
            disagreements.leave()
        } else {
            let asking = Monitor::new(plan.settings.workers);
            let ask = || disagreements.ask(&plan, output, &asking);
            watch_on(&asking, &monitor, start.monotonic_ns, observer, ask)
        };
        drop(server);
        let feed = queries.and_then(Queries::into_feed);
        let finished = Finished { feed, ended, is_interrupted, telemetry, responses, again, warnings };
        finish(recorder, output, &plan, finished, &monitor)
    }
}

/// Whether something ended the run before its queries or its time did.
fn is_interrupted(monitor: &Monitor, limit: &TimeLimit, ended: &Ended) -> bool {
    let is_stopped = monitor.is_aborted() || monitor.is_stopped() && !limit.is_up();
    is_stopped || ended.feed_error.is_some() || ended.drain_error.is_some()
}

/// The sources of telemetry.
pub fn sampled(spec: &RunSpec, plan: &Plan, server: Option<&Server>) -> Result<Sampled, RunError> {
    let server = watched(spec, server)?;
    Ok(Sampled { server, ports: plan.ports(&spec.capture_port), interval: spec.telemetry_interval.ns() })
}

/// The watched processes: the given ones, or the started server's.
fn watched(spec: &RunSpec, server: Option<&Server>) -> Result<Option<Watched>, RunError> {
    let Some(name) = &spec.watch_unit else {
        return Ok(spec.watch_pid.or(server.map(Server::id)).map(Watched::Pid));
    };
    let unit = Unit::find(name, Path::new(CGROUPS)).map_err(RunError::environment)?;
    Ok(Some(Watched::Unit(unit)))
}

/// The servers that must answer before the run starts: those given; for recorded servers their mapping, or else the server of the first
/// query.
fn first_targets(plan: &Plan, feed: &PlanFeed) -> impl Iterator<Item = SocketAddr> {
    let mapped = match &plan.settings.targets {
        Targets::Recorded(map) => map.as_slice(),
        Targets::Fixed(_) => &[],
    };
    let mapped = mapped.iter().map(|map| SocketAddr::new(map.to, map.to_port.or(map.from_port).unwrap_or(DNS_PORT)));
    let mut targets: Vec<SocketAddr> = plan.given.iter().copied().chain(mapped).collect();
    if targets.is_empty() {
        targets.extend(feed.first_query().map(|query| query.server));
    }
    targets.into_iter()
}

/// The state after the engine has ended.
struct Finished {
    /// `None` if the reader was left behind, waiting for input.
    feed: Option<PlanFeed>,
    ended: Ended,
    is_interrupted: bool,
    telemetry: Telemetry,
    responses: Option<WrittenResponses>,
    again: Again,
    warnings: Vec<Warning>,
}

fn finish(
    recorder: Recorder<RunSpec>,
    output: &Path,
    plan: &Plan,
    finished: Finished,
    monitor: &Arc<Monitor>,
) -> Result<FinishedRun, RunError> {
    let Finished { feed, ended, is_interrupted, telemetry, responses, again, mut warnings } = finished;
    warnings.extend(responses.as_ref().and_then(WrittenResponses::warning).into_iter().chain(again.warning));
    warnings.extend(warnings::of(&ended, plan, &telemetry));
    let tally = feed.as_ref().map(|feed| feed.tally().clone()).unwrap_or_default();
    warnings.extend(feed.as_ref().and_then(|feed| warnings::nothing_compared(plan, feed.comparable())));
    warnings.extend(warnings::out_of_order(tally.damage_count(Flaw::OutOfOrder)));
    let evaluated = recorder.finish(RunEnd {
        started: ended.started,
        last_unanswered: ended.workers.iter().filter_map(|worker| worker.last_unanswered).max(),
        receive_drops: Some(warnings::own_drops(&ended)),
        strays_unlisted: warnings::strays_unlisted(&ended),
        link: link::used(&ended),
        recorded: feed.as_ref().and_then(|feed| recorded(feed, plan)),
        asked_again: again.asked,
        responses_kept: responses.as_ref().map(|kept| kept.written),
        nsid: responses.map(|kept| kept.nsid.servers()).unwrap_or_default(),
        interrupted: is_interrupted,
        trace_queries: ended.trace_queries,
        class_clients: classes::counts(plan.classes(), feed.as_ref().and_then(PlanFeed::classes)),
        warnings,
        telemetry: telemetry.samples,
        load: Some(warnings::load(&ended)),
        connections: Some(tls::summary(&monitor.connections())),
        limits: plan.limits(),
        stalls: warnings::stalls(&ended),
        tally,
        // Who is dealt the queries has no trace to read.
        traces: feed.as_ref().map(|_| questions::files(&plan.feed)).unwrap_or_default(),
        questions: feed.as_ref().and_then(|_| questions::at_end(&plan.feed, ended.trace_queries)),
        ..RunEnd::default()
    })?;
    write_page(output, &evaluated)?;
    // Results are kept and reported; the error still determines the verdict.
    match ended.drain_error.or(ended.feed_error) {
        Some(error) => Err(RunError::CutShort(error.to_string())),
        None => {
            Ok(FinishedRun { document: evaluated.document, rules: feed.map(|feed| feed.rules()).unwrap_or_default() })
        }
    }
}

/// What the trace has recorded for the queries of a run, in the form of results; `None` if it has no answers.
pub fn recorded(feed: &PlanFeed, plan: &Plan) -> Option<Recorded> {
    let found = feed.recorded()?;
    let retries = (plan.feed.retries == RecordedRetries::Mark).then(|| found.retries());
    let words = |of: &DependencyCounts| of.by_evidence.iter().map(|(word, n)| ((*word).to_owned(), *n)).collect();
    let dependencies = feed.dependencies().map(words);
    Some(Recorded { rcodes: found.rcodes(), unanswered: found.unanswered(), retries, dependencies })
}

/// Facts about the machine, and whether its cores were kept awake.
fn environment(awake: Option<&std::io::Result<Option<Awake>>>) -> Environment {
    let cpu_dma_latency = match awake {
        None => "not asked for".to_owned(),
        Some(Ok(Some(_))) => "0 us".to_owned(),
        Some(Ok(None)) => "not asked for in a virtual machine".to_owned(),
        Some(Err(error)) => format!("refused: {error}"),
    };
    Environment { machine: ldplayer_net::machine::facts(), cpu_dma_latency }
}

/// The recorder as a drain of the engine.
struct Rows<'a> {
    recorder: &'a mut Recorder<RunSpec>,
    /// The metrics endpoint, if any.
    latencies: Option<&'a Latencies>,
    /// Queries with unexpected answers.
    disagreements: Disagreements,
    limit: &'a TimeLimit,
    /// Queries that were read ahead when the time was up.
    beyond: u64,
}

impl Drain for Rows<'_> {
    fn outcomes(&mut self, shard: usize, rows: &[Outcome]) -> Result<(), LinkError> {
        let within = self.limit.within(rows);
        self.beyond += (rows.len() - within.len()) as u64;
        self.latencies.into_iter().for_each(|latencies| latencies.observe(&within));
        self.disagreements.note(&within);
        Ok(self.recorder.record(shard, &within)?)
    }

    fn tick(&mut self, now: RunTime) -> Result<(), LinkError> {
        Ok(self.recorder.tick(now)?)
    }
}
