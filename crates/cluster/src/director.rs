//! The controller's part of a run on several hosts: it finds agents, deals the queries, starts all at once, looks on, and puts together what comes back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_core::{Query, TraceTime};
use ldplayer_net::clock as host_clock;
use ldplayer_results::{Document, Part as Piece, RunEnd, unite};
use ldplayer_run::{Observer, RunSpec, Whole, Wish, prepare_whole};
use serde::{Deserialize, Serialize};

use crate::account::account;
use crate::bus::Bus;
use crate::controller::offsets;
use crate::distribute::{Distributor, Hand, Outlook};
use crate::error::ClusterError;
use crate::files;
use crate::gather::gather;
use crate::host;
use crate::loss::OnLoss;
use crate::member::Member;
use crate::message::{Ask, Part, Progress, Say, Source, Stage};
use crate::returned;
use crate::shown::Board;
use crate::state::{Seat, State, boot};
use crate::stream::ShardStream;
use crate::subjects;

/// How long after all are ready the run starts: the start must be with every agent before.
const LEAD_NS: i64 = 500_000_000;
/// How much longer for each agent.
const LEAD_NS_EACH: i64 = 2_000_000;
/// How long an agent may take to answer a question about its run.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The same of the question how far it is, which is asked again.
const PROGRESS_WITHIN: Duration = Duration::from_secs(2);
/// How long agents may take until their first queries are there.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How often agents are asked how far they are.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long there may be no connection to NATS.
const APART_FOR: Duration = Duration::from_secs(60);
/// An agent that has queries for less than this is told of before it is late.
const SOON_NS: i64 = 1_000_000_000;

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
    let whole = prepare_whole(spec.clone())?;
    let found = gather(bus, order.agents, order.patience)?;
    let members = (0..).zip(found).map(|(seat, hello)| Member::new(hello, seat, seat)).collect();
    let run = host_clock::realtime_ns() as u64;
    Directing::new(bus, run, spec, order, (output, members)).make(whole, replace, None, observer)
}

/// Goes on with a run whose controller ended before its time.
///
/// # Errors
/// There is none in this directory, its trace can be read only once, or what keeps any run from being made.
pub fn resume(bus: &Bus, output: &Path, observer: &mut dyn Observer) -> Result<Document<RunSpec>, ClusterError> {
    let State { run, start_ns, spec, order, members, .. } = State::read(output)?;
    let whole = prepare_whole(spec.clone())?;
    if !whole.can_be_read_twice() {
        let reason = "its trace came over standard input or a socket, and cannot be read once more".to_owned();
        return Err(ClusterError::Resume { directory: output.to_owned(), reason });
    }
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
    /// No more of the trace is dealt: the run was interrupted or given up.
    ended: Arc<AtomicBool>,
    /// Run time 0 on our CLOCK_MONOTONIC, when it is known.
    start_ns: Option<i64>,
    /// When there was a connection last.
    together: Instant,
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
        (output, members): (&'a Path, Vec<Member>),
    ) -> Self {
        let (ended, together) = (Arc::default(), Instant::now());
        Self { bus, run, spec, order, output, members, ended, start_ns: None, together }
    }

    /// Makes the run, or goes on with it where it began at `start_ns`.
    fn make(
        mut self,
        whole: Whole,
        replace: bool,
        start_ns: Option<i64>,
        observer: &mut dyn Observer,
    ) -> Result<Document<RunSpec>, ClusterError> {
        let recorder = whole.record(self.output, replace, self.order.command_line.clone())?;
        self.start_ns = start_ns;
        let made = self.play(whole, observer);
        State::forget(self.output);
        self.clean_up(made.is_err());
        let (pieces, end) = made?;
        Ok(unite(recorder, self.output, pieces, end)?)
    }

    /// Everything between having agents and having their files.
    fn play(&mut self, mut whole: Whole, observer: &mut dyn Observer) -> Result<(Vec<Piece>, RunEnd), ClusterError> {
        let distributor = self.distributor()?;
        let board = Board::open(whole.listener())?;
        if self.start_ns.is_none() {
            files::open(self.bus, self.run, self.order.replicas)?;
            self.prepare(&whole, 0)?;
            self.measure()?;
        }
        let played = self.deal_and_run(&mut whole, distributor, board, observer)?;
        self.await_the_lost();
        self.measure()?;
        self.end(&whole, &played)
    }

    fn distributor(&self) -> Result<Distributor, ClusterError> {
        let names: Vec<String> = self.members.iter().map(|member| member.hello.name.clone()).collect();
        let names = &names[..self.order.agents];
        match (self.order.own_trace, self.start_ns) {
            (true, _) => Ok(Distributor::counting(self.run, self.order.agents)),
            (false, Some(_)) => Distributor::resume(self.bus, self.run, names),
            (false, None) => Distributor::open(self.bus, self.run, names, self.order.room, self.order.replicas),
        }
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
                self.give_up(&outlook);
            }
            let dealt =
                dealing.join().map_err(|_| ClusterError::store("dealing", "a thread panicked; please report it"))?;
            // What keeps agents from playing is the cause of what keeps their streams from being filled.
            started.and_then(|started| Ok(Played { hands: dealt?, started }))
        })
    }

    /// Nothing more is dealt, and nobody is waited for.
    fn give_up(&self, outlook: &Outlook) {
        self.ended.store(true, Ordering::Relaxed);
        (0..self.order.agents).for_each(|shard| outlook.give_up(shard));
    }

    /// Tells each agent from a seat on its part.
    fn prepare(&self, whole: &Whole, from_seat: usize) -> Result<(), ClusterError> {
        let spec = serde_json::to_value(whole.shared_spec())
            .map_err(|error| ClusterError::store("the specification", error))?;
        self.members[from_seat..].iter().try_for_each(|member| {
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
            ahead_ns: self.order.ahead_ns,
            from_ns,
        }
    }

    /// Compares the clocks of all agents that are there with ours.
    fn measure(&mut self) -> Result<(), ClusterError> {
        let there: Vec<usize> = (0..self.members.len()).filter(|&at| self.members[at].lost.is_none()).collect();
        let asked: Vec<_> = there.iter().map(|&at| self.members[at].hello.clone()).collect();
        for (at, measured) in there.into_iter().zip(offsets(self.bus, &asked)) {
            // One whose files are here may go; the verdict says that its clock was not compared afterwards.
            match measured {
                Ok(measured) => self.members[at].measured.push(measured),
                Err(_) if self.members[at].has_returned() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Starts all when all are ready, and looks on until all have brought their files.
    fn run_all(
        &mut self,
        mut board: Board,
        outlook: &Outlook,
        first_ns: i64,
        observer: &mut dyn Observer,
    ) -> Result<TraceTime, ClusterError> {
        let start_ns = match self.start_ns {
            Some(start_ns) => start_ns,
            None => {
                self.wait_until_ready(&mut board, observer)?;
                host_clock::monotonic_ns() + LEAD_NS + LEAD_NS_EACH * self.members.len() as i64
            }
        };
        self.start_ns = Some(start_ns);
        self.keep()?;
        let started = TraceTime(start_ns + host_clock::realtime_offset_ns());
        loop {
            self.start_the_ready(start_ns);
            for (at, why) in self.look(board.wants_latencies())? {
                self.lose(at, &why, first_ns, outlook, observer)?;
            }
            self.warn(start_ns, outlook, observer);
            self.wish(&mut board, observer, start_ns);
            if self.members.iter().all(Member::is_done) {
                return Ok(started);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn wait_until_ready(&mut self, board: &mut Board, observer: &mut dyn Observer) -> Result<(), ClusterError> {
        let begun = Instant::now();
        loop {
            // Nothing is measured yet: whoever is lost now ends the run.
            if let Some((at, reason)) = self.look(false)?.pop() {
                return Err(ClusterError::Failed { who: self.members[at].who(), reason });
            }
            let waited_for = self.members.iter().find(|member| member.progress.stage == Stage::Preparing);
            let Some(member) = waited_for else { return Ok(()) };
            if begun.elapsed() > READY_WITHIN {
                let (who, seconds) = (member.who(), READY_WITHIN.as_secs());
                return Err(ClusterError::Silent { who, what: "its first queries", seconds });
            }
            self.wish(board, observer, host_clock::monotonic_ns());
            if self.ended.load(Ordering::Relaxed) {
                return Err(ClusterError::GivenUp);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Tells those that are ready when the run starts, or has started.
    fn start_the_ready(&mut self, start_ns: i64) {
        let is_waiting = |member: &&mut Member| !member.is_started && !member.is_done();
        let ready: Vec<&mut Member> = self
            .members
            .iter_mut()
            .filter(|member| is_waiting(member) && member.progress.stage != Stage::Preparing)
            .collect();
        let asked: Vec<_> = ready
            .iter()
            .map(|member| {
                let at_ns = member.measured.last().map_or(start_ns, |measured| measured.on_agent(start_ns));
                let ask = Ask::Start { run: self.run, seat: member.seat, at_ns };
                (subjects::agent(&member.hello.id), ask, member.who())
            })
            .collect();
        let said = self.bus.ask_each::<_, Say>(&asked, "to start", ANSWER_WITHIN);
        // Who did not hear it is told again with the next look.
        ready.into_iter().zip(said).for_each(|(member, said)| member.is_started = matches!(said, Ok(Say::Done)));
    }

    /// Asks each agent how far it is. Returns those that are lost from now on, and why.
    fn look(&mut self, latencies: bool) -> Result<Vec<(usize, String)>, ClusterError> {
        let asked: Vec<usize> = (0..self.members.len()).filter(|&at| !self.members[at].is_done()).collect();
        let questions: Vec<_> = asked.iter().map(|&at| question(self.run, &self.members[at], latencies)).collect();
        let said = self.bus.ask_each::<_, Say>(&questions, "how far it is", PROGRESS_WITHIN);
        if !self.bus.is_connected() {
            asked.iter().for_each(|&at| self.members[at].nobody_asked());
            let seconds = APART_FOR.as_secs();
            return match self.together.elapsed() > APART_FOR {
                true => Err(ClusterError::Apart { url: self.bus.url().to_owned(), seconds }),
                false => Ok(Vec::new()),
            };
        }
        self.together = Instant::now();
        let heard = asked.into_iter().zip(said);
        Ok(heard.filter_map(|(at, said)| Some((at, self.members[at].hear(said, Instant::now())?))).collect())
    }

    /// Tells of agents whose queries come too late, before they are late.
    fn warn(&mut self, start_ns: i64, outlook: &Outlook, observer: &mut dyn Observer) {
        let now = host_clock::monotonic_ns() - start_ns;
        for member in &mut self.members {
            let Progress { stage: Stage::Running, read_to_ns: Some(read_to), .. } = member.progress else { continue };
            if !member.is_behind
                && member.is_heard()
                && now > 0
                && read_to < now + SOON_NS
                && !self.ended.load(Ordering::Relaxed)
            {
                member.is_behind = true;
                let ahead = (read_to - now).max(0) as f64 / 1e9;
                let cause = match outlook.waits_for() {
                    Some(shard) if shard != member.shard as usize => ", held up by the full stream of another agent",
                    _ => "",
                };
                observer.notice(&format!(
                    "{} has queries for {ahead:.1} s only{cause}: it is about to be late",
                    member.who()
                ));
            }
        }
    }

    /// Shows how far all are together, and passes on what the observer wants.
    fn wish(&self, board: &mut Board, observer: &mut dyn Observer, start_ns: i64) {
        match observer.look(&board.show(&self.members, start_ns)) {
            Wish::GoOn => {}
            Wish::Stop => self.stop(false),
            Wish::Abort => self.stop(true),
        }
    }

    /// Deals no more, and has the agents send no more.
    pub fn stop(&self, at_once: bool) {
        self.ended.store(true, Ordering::Relaxed);
        let there = self.members.iter().filter(|member| !member.is_done());
        let asked: Vec<_> = there
            .map(|member| {
                let ask = Ask::Stop { run: self.run, seat: member.seat, at_once };
                (subjects::agent(&member.hello.id), ask, member.who())
            })
            .collect();
        // Who does not hear it is asked again with the next look, or lost.
        drop(self.bus.ask_each::<_, Say>(&asked, "to stop", PROGRESS_WITHIN));
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
    fn end(&self, whole: &Whole, played: &Played) -> Result<(Vec<Piece>, RunEnd), ClusterError> {
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
        Ok((pieces, end))
    }

    /// Keeps what another controller would have to know.
    pub fn keep(&self) -> Result<(), ClusterError> {
        let (boot, members) = (boot(), self.members.iter().map(Seat::of).collect());
        let (spec, order, start_ns) = (self.spec.clone(), self.order.clone(), self.start_ns.unwrap_or_default());
        State { run: self.run, boot, start_ns, spec, order, members }.keep(self.output)
    }

    /// Takes away streams and files at the server, and lets the agents forget the run; where it failed, they keep what they have.
    fn clean_up(&self, keep: bool) {
        let asked: Vec<_> = self
            .members
            .iter()
            .map(|member| (subjects::agent(&member.hello.id), Ask::Release { run: self.run, keep }, member.who()))
            .collect();
        // Whoever cleans up cannot do more, here and below.
        drop(self.bus.ask_each::<_, Say>(&asked, "to forget the run", PROGRESS_WITHIN));
        for shard in 0..self.order.agents as u32 {
            self.bus.wait(ShardStream { run: self.run, shard }.remove(self.bus.context()));
        }
        files::remove(self.bus, self.run);
    }

    /// Tells an agent something that it has to do.
    ///
    /// # Errors
    /// It says nothing, or why it does not.
    pub fn tell(&self, member: &Member, ask: &Ask, what: &'static str) -> Result<(), ClusterError> {
        let who = member.who();
        match self.bus.ask(&subjects::agent(&member.hello.id), ask, (&who, what), ANSWER_WITHIN)? {
            Say::Done => Ok(()),
            Say::No { reason } => Err(ClusterError::Failed { who, reason }),
            other => Err(ClusterError::store(what, format!("{who} says {other:?}"))),
        }
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
        let spec = ldplayer_run::embed(RunSpec { metrics: None, ..self.spec.clone() })?;
        serde_json::to_value(spec).map_err(|error| ClusterError::store("the specification", error))
    }
}

fn question(run: u64, member: &Member, latencies: bool) -> (String, Ask, String) {
    let ask = Ask::Progress { run, seat: member.seat, latencies };
    (subjects::agent(&member.hello.id), ask, member.who())
}

/// Deals the trace to its end, or until the run is given up.
fn deal(bus: &Bus, whole: &mut Whole, distributor: &mut Distributor, ended: &AtomicBool) -> Result<(), ClusterError> {
    let mut batch: Vec<Query> = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let more = whole.next(&mut batch).map_err(ldplayer_run::RunError::from)?;
        distributor.give(bus, &batch)?;
        batch.clear();
        if !more {
            break;
        }
    }
    Ok(())
}

/// A name for a run that was given none.
pub fn run_name() -> String {
    format!("run-{}", host::new_id())
}
