//! Directs a run on several hosts: finds agents, distributes queries, starts, watches, and collects the results.

mod asking;
mod lookout;
mod loss;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use ldplayer_core::TraceTime;
use ldplayer_core::text::counted;
use ldplayer_net::clock as host_clock;
use ldplayer_report::write_page;
use ldplayer_results::{Document, Part as Piece, RunEnd, Warning, WarningCode, sum_telemetry, unite};
use ldplayer_run::{
    Observer, Progress, RunError, RunSpec, ServerWatch, Whole, Wish, is_repeatable, prepare_whole, shared,
};

use crate::account::account;
use crate::bus::Bus;
use crate::distribute::{Distributor, Hand, Outlook, Turn, deal};
use crate::error::ClusterError;
use crate::files;
use crate::gather::gather;
use crate::host;
use crate::member::Member;
use crate::message::{Ask, Part, Source};
use crate::order::Order;
use crate::returned;
use crate::shown::Board;
use crate::state::{Seat, State};
use crate::stream::ShardStream;

pub use self::lookout::look_at;

/// Makes the run in the directory `output`; with `replace`, it may replace an earlier run there.
///
/// # Errors
/// The error that ended it. Results stay on the agents' hosts, and each agent prints their place.
pub fn direct(
    bus: &Bus,
    spec: RunSpec,
    order: &Order,
    (output, replace): (&Path, bool),
    observer: &mut dyn Observer,
) -> Result<Document<RunSpec>, ClusterError> {
    if order.upload && !is_repeatable(&spec) {
        let reason = "--upload: cannot upload standard input or a socket; write the trace to a file first";
        return Err(RunError::Spec(reason.to_owned()).into());
    }
    let whole = prepare_whole(spec.clone())?;
    let found = gather(bus, order.agents + order.feeders, order.patience)?;
    let players = order.agents as u32;
    let number = |seat: u32| if seat < players { seat } else { seat - players + 1 };
    let members = (0..).zip(found).map(|(seat, hello)| Member::new(hello, seat, number(seat))).collect();
    let run = host_clock::realtime_ns() as u64;
    Directing::new(bus, run, spec, order, (output, members)).make(whole, replace, None, observer)
}

/// Resumes a run whose controller ended early.
///
/// # Errors
/// The directory has no unfinished run, its trace can be read only once, or the run fails.
pub fn resume(bus: &Bus, output: &Path, observer: &mut dyn Observer) -> Result<Document<RunSpec>, ClusterError> {
    let State { run, start_ns, spec, order, members, .. } = State::read(output)?;
    if !is_repeatable(&spec) {
        let reason = "its trace came from standard input or a socket and cannot be read again".to_owned();
        return Err(ClusterError::Resume { directory: output.to_owned(), reason });
    }
    let whole = prepare_whole(spec.clone())?;
    let members = members.into_iter().map(Seat::member).collect();
    Directing::new(bus, run, spec, &order, (output, members)).make(whole, true, Some(start_ns), observer)
}

/// A run in progress.
pub struct Directing<'a> {
    pub bus: &'a Bus,
    pub run: u64,
    spec: RunSpec,
    pub order: &'a Order,
    pub output: &'a Path,
    pub members: Vec<Member>,
    /// The feeders: agents that deal the trace, too. Their shard is their number among all dealers; the controller is 0.
    pub feeders: Vec<Member>,
    /// Set when dealing must end: the run was interrupted or cancelled.
    ended: Arc<AtomicBool>,
    /// The dealing, while it lasts.
    outlook: Option<Arc<Outlook>>,
    /// Run time 0 on our CLOCK_MONOTONIC, once known.
    start_ns: Option<i64>,
    /// When the connection was last up.
    together: Instant,
    /// The watch of the server, if it is on this host.
    watch: Option<ServerWatch>,
    /// The progress shown last.
    shown: Progress,
}

/// The results when all agents have ended.
struct Played {
    hands: Vec<Hand>,
    started: TraceTime,
}

impl<'a> Directing<'a> {
    fn new(
        bus: &'a Bus,
        run: u64,
        spec: RunSpec,
        order: &'a Order,
        (output, mut members): (&'a Path, Vec<Member>),
    ) -> Self {
        let feeds = |member: &mut Member| member.seat >= order.agents as u32 && member.took_over_from.is_none();
        let feeders: Vec<Member> = members.extract_if(.., feeds).collect();
        let (ended, together) = (Arc::default(), Instant::now());
        Self {
            bus,
            run,
            spec,
            order,
            output,
            members,
            feeders,
            ended,
            outlook: None,
            start_ns: None,
            together,
            watch: None,
            shown: Progress::default(),
        }
    }

    /// Makes the run, or resumes one that began at `start_ns`.
    fn make(
        mut self,
        whole: Whole,
        replace: bool,
        start_ns: Option<i64>,
        observer: &mut dyn Observer,
    ) -> Result<Document<RunSpec>, ClusterError> {
        for address in whole.public_targets() {
            let agents = counted(self.order.agents as u64, "agent", "agents");
            observer.notice(&format!("sending the queries of {agents} to the public address {address}"));
        }
        let recorder = whole.record(self.output, replace, self.order.command_line.clone())?;
        self.start_ns = start_ns;
        let made = self.play(whole, observer);
        if let Err(error @ ClusterError::Apart { .. }) = made {
            // Agents may continue, and another controller may resume: keep everything.
            return Err(error);
        }
        State::forget(self.output);
        self.clean_up(made.is_err());
        let (pieces, end) = made?;
        let evaluated = unite(recorder, self.output, pieces, end)?;
        write_page(self.output, &evaluated)?;
        Ok(evaluated.document)
    }

    /// Everything from finding agents to fetching their files.
    fn play(&mut self, mut whole: Whole, observer: &mut dyn Observer) -> Result<(Vec<Piece>, RunEnd), ClusterError> {
        let distributor = self.distributor()?;
        let board = Board::open(whole.listener())?;
        self.watch = whole.watch();
        if self.start_ns.is_none() {
            files::open(self.bus, self.run, self.order.replicas)?;
            self.upload(observer)?;
            self.prepare(&whole)?;
            self.feed()?;
            self.measure()?;
        }
        let played = self.deal_and_run(&mut whole, distributor, board, observer)?;
        self.await_the_lost();
        self.measure()?;
        self.end(&whole, &played, observer)
    }

    /// Uploads the trace for agents that fetch it.
    fn upload(&self, observer: &mut dyn Observer) -> Result<(), ClusterError> {
        if !self.order.upload {
            return Ok(());
        }
        observer.notice("uploading the trace to the NATS server for the agents");
        files::put_trace(self.bus, self.run, &self.spec.trace)
    }

    fn distributor(&self) -> Result<Distributor, ClusterError> {
        let (names, turn) = (self.names(), Turn { own: 0, of: self.order.feeders as u32 + 1 });
        match (self.order.own_trace, self.start_ns) {
            (true, _) => Ok(Distributor::counting(self.run, self.order.agents)),
            (false, Some(_)) => Distributor::resume(self.bus, self.run, &names, turn),
            (false, None) => {
                Distributor::open(self.bus, self.run, &names, (self.order.room, self.order.replicas), turn)
            }
        }
    }

    /// The playing agents, by shard.
    pub fn names(&self) -> Vec<String> {
        self.members.iter().take(self.order.agents).map(|member| member.hello.name.clone()).collect()
    }

    /// Starts the feeders.
    fn feed(&self) -> Result<(), ClusterError> {
        let spec = self.shared_spec()?;
        self.feeders.iter().try_for_each(|feeder| self.have_fed(feeder, spec.clone()))
    }

    /// Deals the trace while the agents play it.
    fn deal_and_run(
        &mut self,
        whole: &mut Whole,
        mut distributor: Distributor,
        board: Board,
        observer: &mut dyn Observer,
    ) -> Result<Played, ClusterError> {
        let (bus, ended, outlook) = (self.bus, Arc::clone(&self.ended), distributor.outlook());
        self.outlook = Some(Arc::clone(&outlook));
        let first_ns = whole.first().0;
        for member in self.members.iter().filter(|member| member.lost.is_some()) {
            outlook.give_up(member.shard as usize);
        }
        thread::scope(|scope| {
            let dealing = scope.spawn(|| {
                deal(bus, whole, &mut distributor, &ended)?;
                distributor.finish(bus)
            });
            let started = self.run_all(board, &outlook, first_ns, observer);
            if started.is_err() {
                self.deal_no_more();
            }
            let dealt =
                dealing.join().map_err(|_| ClusterError::store("dealing", "a thread panicked; please report this"))?;
            // An error of the agents is the cause of a stuck stream, and is reported first.
            started.and_then(|started| Ok(Played { hands: dealt?, started }))
        })
    }

    /// Stops dealing, without waiting for full streams.
    fn deal_no_more(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.outlook.iter().for_each(|outlook| outlook.give_up_all());
    }

    /// Sends each agent its part.
    fn prepare(&self, whole: &Whole) -> Result<(), ClusterError> {
        let spec = serde_json::to_value(whole.shared_spec())
            .map_err(|error| ClusterError::store("the specification", error))?;
        self.members.iter().try_for_each(|member| {
            let part = self.part(member, spec.clone(), whole.first().0, None);
            self.tell(member, &Ask::Prepare(Box::new(part)), "prepare request")
        })
    }

    /// The part of an agent; for one that takes over, from a moment of the run on.
    pub fn part(&self, member: &Member, spec: serde_json::Value, first_ns: i64, from_ns: Option<i64>) -> Part {
        let source = match (self.order.own_trace, from_ns) {
            (true, _) => Source::OwnTrace,
            (false, Some(_)) => Source::TakenOver,
            (false, None) => Source::Stream,
        };
        Part {
            run: self.run,
            name: self.order.name.clone(),
            seat: member.seat,
            shard: member.shard,
            shards: self.order.agents as u32,
            first_ns,
            spec,
            source,
            trace: if self.order.upload { files::trace_names(&self.spec.trace) } else { Vec::new() },
            ahead_ns: self.order.ahead_ns,
            from_ns,
            tls_ca: self.tls_ca(),
        }
    }

    /// The trusted certificates of the run, which was prepared with them here.
    pub fn tls_ca(&self) -> Option<String> {
        self.spec.tls_ca.as_deref().and_then(|file| fs::read_to_string(file).ok())
    }

    /// Gives lost agents a last chance to return their results: they may only have been frozen or cut off.
    fn await_the_lost(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.lost.is_some()) {
            if returned::comes_back(self.bus, self.run, member) {
                member.lost = None;
            }
        }
    }

    /// Fetches the files of the agents, and accounts for all queries.
    fn end(
        &mut self,
        whole: &Whole,
        played: &Played,
        observer: &mut dyn Observer,
    ) -> Result<(Vec<Piece>, RunEnd), ClusterError> {
        let pieces = returned::collect(self.bus, self.run, &self.members, self.output)?;
        let shares = returned::shares(&self.members, &pieces)?;
        let taken = |shard: usize| {
            let stream = ShardStream { run: self.run, shard: shard as u32 };
            self.bus.wait(stream.progress(self.bus.context())).ok().map(|(_, taken)| taken)
        };
        let is_cut_short = self.ended.load(Ordering::Relaxed);
        let account = account(&played.hands, &shares, is_cut_short, taken);
        let mut end = whole.end(account.queries, played.started);
        end.interrupted |= is_cut_short;
        end.lost = account.lost;
        end.warnings.extend(returned::warnings(&self.members));
        self.end_watch(&pieces, &mut end);
        let parts: Vec<&Path> = pieces.iter().filter_map(|piece| piece.directory.as_deref()).collect();
        whole.join_responses(&parts, returned::responses_kept(&parts)?, self.output, &mut end);
        let mut still = Still { observer, progress: self.shown };
        whole.ask_again(&parts, self.output, &mut end, &mut still)?;
        Ok((pieces, end))
    }

    /// Adds the telemetry of the server, which was taken here, to that of the agents.
    fn end_watch(&mut self, pieces: &[Piece], end: &mut RunEnd) {
        if let Some(watch) = &mut self.watch {
            let samples = watch.end();
            end.warnings.extend(samples.is_none().then(not_watched));
            end.telemetry.extend(samples.unwrap_or_default());
        }
        match sum_telemetry(pieces, self.spec.telemetry_interval.ns()) {
            Ok(samples) => end.telemetry.extend(samples),
            Err(error) => end.warnings.push(no_telemetry(&error.to_string())),
        }
    }

    /// Saves the state from which another controller could resume.
    pub fn keep(&self) -> Result<(), ClusterError> {
        let (boot, members) = (host::boot(), self.members.iter().chain(&self.feeders).map(Seat::of).collect());
        let (spec, order, start_ns) = (self.spec.clone(), self.order.clone(), self.start_ns.unwrap_or_default());
        State { run: self.run, boot, start_ns, spec, order, members }.keep(self.output)
    }

    /// Deletes streams and files at the server, and releases the agents; if the run failed, agents keep their results.
    fn clean_up(&self, keep: bool) {
        // Errors of cleaning up are ignored, here and below.
        let all = self.members.iter().chain(&self.feeders);
        self.tell_each(all, |_| Ask::Release { run: self.run, keep }, "release request");
        for shard in 0..self.order.agents as u32 {
            self.bus.wait(ShardStream { run: self.run, shard }.remove(self.bus.context()));
        }
        files::remove(self.bus, self.run);
    }

    /// The current run time.
    pub fn now_ns(&self) -> i64 {
        host_clock::monotonic_ns() - self.start_ns.unwrap_or_default()
    }

    /// The specification for the agents.
    ///
    /// # Errors
    /// Its files cannot be read.
    pub fn shared_spec(&self) -> Result<serde_json::Value, ClusterError> {
        let spec = ldplayer_run::embed(shared(self.spec.clone()))?;
        serde_json::to_value(spec).map_err(|error| ClusterError::store("the specification", error))
    }
}

/// The warning that the server was not watched to the end.
fn not_watched() -> Warning {
    Warning::new(
        WarningCode::ServerNotWatched,
        "the controller that watched the server ended early: the server's resource usage is unknown",
    )
}

fn no_telemetry(why: &str) -> Warning {
    Warning::new(WarningCode::NoTelemetryOfAgents, format!("cannot combine the resource usage of the agents: {why}"))
}

/// An observer of the phase after the run, which keeps showing the final progress.
struct Still<'a> {
    observer: &'a mut dyn Observer,
    progress: Progress,
}

impl Observer for Still<'_> {
    fn look(&mut self, _: &Progress) -> Wish {
        self.observer.look(&self.progress)
    }
}

/// A name for an unnamed run.
pub fn run_name() -> String {
    format!("run-{}", host::new_id())
}
