//! The controller's part of a run on several hosts: it finds agents, deals the queries, starts all at once, looks on, and puts together what comes back.

mod asking;
mod lookout;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_core::TraceTime;
use ldplayer_net::clock as host_clock;
use ldplayer_results::{Document, Part as Piece, RunEnd, Warning, sum_telemetry, unite};
use ldplayer_run::{
    Observer, Progress, RunError, RunSpec, ServerWatch, Whole, Wish, is_repeatable, prepare_whole, shared,
};
use serde::{Deserialize, Serialize};

use crate::account::account;
use crate::bus::Bus;
use crate::distribute::{Distributor, Hand, Outlook, Turn, deal};
use crate::error::ClusterError;
use crate::files;
use crate::gather::gather;
use crate::host;
use crate::loss::OnLoss;
use crate::member::Member;
use crate::message::{Ask, Part, Source};
use crate::returned;
use crate::shown::Board;
use crate::state::{Seat, State};
use crate::stream::ShardStream;

pub use self::lookout::look_at;

/// What is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The run's name, for people.
    pub name: String,
    /// So many agents.
    pub agents: usize,
    /// How long so many are waited for.
    pub patience: Duration,
    /// Nanoseconds of the run that agents read ahead.
    pub ahead_ns: i64,
    /// Octets that may wait for an agent.
    pub room: i64,
    /// Servers of a cluster that keep a copy.
    pub replicas: usize,
    /// What is done where an agent is lost.
    pub on_loss: OnLoss,
    /// Agents read the trace themselves: it is on their hosts under the same name.
    pub own_trace: bool,
    /// They fetch it from the NATS server for that, where the controller stores it once.
    #[serde(default)]
    pub upload: bool,
    /// So many more agents deal the trace with the controller: it is on their hosts under the same name.
    pub feeders: usize,
    /// The command line, for the record.
    pub command_line: Vec<String>,
}

/// Makes the run, in the directory `output`, which may replace an earlier run there where `replace` says so.
///
/// # Errors
/// What kept it from being made. What agents have measured until then stays on their hosts, and each says where.
pub fn direct(
    bus: &Bus,
    spec: RunSpec,
    order: &Order,
    (output, replace): (&Path, bool),
    observer: &mut dyn Observer,
) -> Result<Document<RunSpec>, ClusterError> {
    if order.upload && !is_repeatable(&spec) {
        let reason = "--upload: a trace from standard input or a socket is no file; write it into one first";
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

/// Goes on with a run whose controller ended before its time.
///
/// # Errors
/// There is none in this directory, its trace can be read only once, or what keeps any run from being made.
pub fn resume(bus: &Bus, output: &Path, observer: &mut dyn Observer) -> Result<Document<RunSpec>, ClusterError> {
    let State { run, start_ns, spec, order, members, .. } = State::read(output)?;
    if !is_repeatable(&spec) {
        let reason = "its trace came over standard input or a socket, and cannot be read once more".to_owned();
        return Err(ClusterError::Resume { directory: output.to_owned(), reason });
    }
    let whole = prepare_whole(spec.clone())?;
    let members = members.into_iter().map(Seat::member).collect();
    Directing::new(bus, run, spec, &order, (output, members)).make(whole, true, Some(start_ns), observer)
}

/// A run under way.
pub struct Directing<'a> {
    pub bus: &'a Bus,
    pub run: u64,
    spec: RunSpec,
    pub order: &'a Order,
    pub output: &'a Path,
    pub members: Vec<Member>,
    /// Those that deal the trace, too. Their shard is their number among those that do, of which the controller is 0.
    pub feeders: Vec<Member>,
    /// No more of the trace is dealt: the run was interrupted or given up.
    ended: Arc<AtomicBool>,
    /// The dealing, while it lasts.
    outlook: Option<Arc<Outlook>>,
    /// Run time 0 on our CLOCK_MONOTONIC, when it is known.
    start_ns: Option<i64>,
    /// When there was a connection last.
    together: Instant,
    /// The server, where it is on this host and is to be watched.
    watch: Option<ServerWatch>,
    /// What was shown last.
    shown: Progress,
}

/// What is known when all agents have ended.
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

    /// Makes the run, or goes on with it where it began at `start_ns`.
    fn make(
        mut self,
        whole: Whole,
        replace: bool,
        start_ns: Option<i64>,
        observer: &mut dyn Observer,
    ) -> Result<Document<RunSpec>, ClusterError> {
        for address in whole.public_targets() {
            let agents = self.order.agents;
            observer.notice(&format!("about to send the queries of {agents} agents to the public address {address}"));
        }
        let recorder = whole.record(self.output, replace, self.order.command_line.clone())?;
        self.start_ns = start_ns;
        let made = self.play(whole, observer);
        if let Err(error @ ClusterError::Apart { .. }) = made {
            // Agents may go on, and so may another controller: nothing is forgotten.
            return Err(error);
        }
        State::forget(self.output);
        self.clean_up(made.is_err());
        let (pieces, end) = made?;
        Ok(unite(recorder, self.output, pieces, end)?)
    }

    /// Everything between having agents and having their files.
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

    /// Stores the trace for agents that fetch it.
    fn upload(&self, observer: &mut dyn Observer) -> Result<(), ClusterError> {
        if !self.order.upload {
            return Ok(());
        }
        observer.notice("storing the trace at the NATS server, for the agents to fetch");
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

    /// The agents that play, by their shards.
    pub fn names(&self) -> Vec<String> {
        self.members.iter().take(self.order.agents).map(|member| member.hello.name.clone()).collect()
    }

    /// Has those that feed begin.
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
                dealing.join().map_err(|_| ClusterError::store("dealing", "a thread panicked; please report it"))?;
            // What keeps agents from playing is the cause of what keeps their streams from being filled.
            started.and_then(|started| Ok(Played { hands: dealt?, started }))
        })
    }

    /// Nothing more is dealt, and no full stream is waited for.
    fn deal_no_more(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.outlook.iter().for_each(|outlook| outlook.give_up_all());
    }

    /// Tells each agent its part.
    fn prepare(&self, whole: &Whole) -> Result<(), ClusterError> {
        let spec = serde_json::to_value(whole.shared_spec())
            .map_err(|error| ClusterError::store("the specification", error))?;
        self.members.iter().try_for_each(|member| {
            let part = self.part(member, spec.clone(), whole.first().0, None);
            self.tell(member, &Ask::Prepare(Box::new(part)), "to make ready")
        })
    }

    /// What an agent plays; of a share that it takes over, from a moment of the run on.
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
        }
    }

    /// Gives those that were lost a last chance to bring what they have: one may only have been frozen, or cut off.
    fn await_the_lost(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.lost.is_some()) {
            if returned::comes_back(self.bus, self.run, member) {
                member.lost = None;
            }
        }
    }

    /// Gets the files of the agents, and says what became of all queries.
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

    /// Puts the telemetry of the server, which was taken here, beside that of the agents.
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

    /// Keeps what another controller would have to know.
    pub fn keep(&self) -> Result<(), ClusterError> {
        let (boot, members) = (host::boot(), self.members.iter().chain(&self.feeders).map(Seat::of).collect());
        let (spec, order, start_ns) = (self.spec.clone(), self.order.clone(), self.start_ns.unwrap_or_default());
        State { run: self.run, boot, start_ns, spec, order, members }.keep(self.output)
    }

    /// Takes away streams and files at the server, and lets the agents forget the run; where it failed, they keep what they have.
    fn clean_up(&self, keep: bool) {
        // Whoever cleans up cannot do more, here and below.
        let all = self.members.iter().chain(&self.feeders);
        self.tell_each(all, |_| Ask::Release { run: self.run, keep }, "to forget the run");
        for shard in 0..self.order.agents as u32 {
            self.bus.wait(ShardStream { run: self.run, shard }.remove(self.bus.context()));
        }
        files::remove(self.bus, self.run);
    }

    /// The moment of the run at which it is now.
    pub fn now_ns(&self) -> i64 {
        host_clock::monotonic_ns() - self.start_ns.unwrap_or_default()
    }

    /// The specification as agents have it.
    ///
    /// # Errors
    /// Its files cannot be read any more.
    pub fn shared_spec(&self) -> Result<serde_json::Value, ClusterError> {
        let spec = ldplayer_run::embed(shared(self.spec.clone()))?;
        serde_json::to_value(spec).map_err(|error| ClusterError::store("the specification", error))
    }
}

/// The server was watched by a controller that ended before its time.
fn not_watched() -> Warning {
    Warning::new(
        "server_not_watched",
        "the controller that watched the server ended before its time: what the server used is not known",
        "repeat the run where that matters",
    )
}

fn no_telemetry(why: &str) -> Warning {
    Warning::new(
        "no_telemetry_of_agents",
        format!("what the agents used is not put together: {why}"),
        "see agents/NAME/telemetry.parquet for what there is of each",
    )
}

/// An observer of what follows a run: it still sees how far the run came.
struct Still<'a> {
    observer: &'a mut dyn Observer,
    progress: Progress,
}

impl Observer for Still<'_> {
    fn look(&mut self, _: &Progress) -> Wish {
        self.observer.look(&self.progress)
    }
}

/// A name for a run that was given none.
pub fn run_name() -> String {
    format!("run-{}", host::new_id())
}
