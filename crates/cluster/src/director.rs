//! The controller's part of a run on several hosts: it finds agents, deals the queries, starts all at once, looks on, and puts together what comes back.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_core::{Query, RunTime, TraceTime};
use ldplayer_net::clock as host_clock;
use ldplayer_replay::Counts;
use ldplayer_results::{Document, Part as Piece, Warning, unite};
use ldplayer_run::{Observer, Progress as Shown, RunSpec, Whole, Wish, prepare_whole};

use crate::bus::Bus;
use crate::clock::{Offset, Skew};
use crate::controller::{agents, offset};
use crate::error::ClusterError;
use crate::feed::Distributor;
use crate::files;
use crate::host;
use crate::message::{Ask, Hello, PROTOCOL, Part, Progress, Say, Stage};
use crate::stream::ShardStream;
use crate::subjects;

/// How long after all are ready the run starts: the start must be with every agent before, who are told one after the other.
const LEAD_NS: i64 = 500_000_000;
/// How much longer for each agent.
const LEAD_NS_EACH: i64 = 10_000_000;
/// How long an agent may take to answer a question about its run.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long agents may take until their first queries are there.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How often agents are asked how far they are.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Skew from which on it is told, in nanoseconds.
const SKEW: i64 = 1_000_000;

/// What is asked for.
#[derive(Clone, Debug)]
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
    /// The command line, for the record.
    pub command_line: Vec<String>,
}

/// An agent with its part of a run.
struct Member {
    hello: Hello,
    measured: Vec<Offset>,
    progress: Progress,
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
    let whole = prepare_whole(spec)?;
    let members = gather(bus, order)?;
    let recorder = whole.record(output, replace, order.command_line.clone())?;
    let run = host_clock::realtime_ns() as u64;
    let mut directing = Directing { bus, run, order, members, ended: Arc::default() };
    let made = directing.play(whole, output, observer);
    directing.clean_up(made.is_err());
    let (pieces, end) = made?;
    Ok(unite(recorder, output, &pieces, end)?)
}

/// Waits until enough agents are there that have no run and the same messages.
fn gather(bus: &Bus, order: &Order) -> Result<Vec<Member>, ClusterError> {
    let begun = Instant::now();
    loop {
        let there = agents(bus, Duration::from_millis(500), usize::MAX)?;
        let others = there.iter().filter(|hello| hello.protocol != PROTOCOL).count();
        let busy = there.iter().filter(|hello| hello.run.is_some()).count();
        let mut free: Vec<Hello> =
            there.into_iter().filter(|hello| hello.protocol == PROTOCOL && hello.run.is_none()).collect();
        if free.len() >= order.agents {
            free.truncate(order.agents);
            return Ok(free.into_iter().map(Member::new).collect());
        }
        if begun.elapsed() > order.patience {
            let there = free.iter().map(|hello| hello.name.clone()).collect();
            return Err(ClusterError::Few {
                asked: order.agents,
                there,
                busy,
                others,
                seconds: order.patience.as_secs(),
            });
        }
    }
}

impl Member {
    fn new(hello: Hello) -> Self {
        Self { hello, measured: Vec::new(), progress: Progress::default() }
    }

    fn who(&self) -> String {
        format!("agent {}", self.hello.name)
    }
}

/// A run under way.
struct Directing<'a> {
    bus: &'a Bus,
    run: u64,
    order: &'a Order,
    members: Vec<Member>,
    /// No more of the trace is dealt: the run was interrupted or given up.
    ended: Arc<AtomicBool>,
}

impl Directing<'_> {
    /// Everything between having agents and having their files.
    fn play(
        &mut self,
        mut whole: Whole,
        output: &Path,
        observer: &mut dyn Observer,
    ) -> Result<(Vec<Piece>, ldplayer_results::RunEnd), ClusterError> {
        let names: Vec<String> = self.members.iter().map(|member| member.hello.name.clone()).collect();
        files::open(self.bus, self.run, self.order.replicas)?;
        let distributor = Distributor::open(self.bus, self.run, &names, self.order.room, self.order.replicas)?;
        self.prepare(&whole)?;
        self.measure()?;
        let (dealt, started) = self.deal_and_run(&mut whole, distributor, observer)?;
        self.measure()?;
        let pieces = self.collect(output)?;
        let mut end = whole.end(dealt.iter().sum(), started);
        end.warnings.extend(self.skew_warning());
        Ok((pieces, end))
    }

    /// Deals the trace while the agents play it. Returns the queries of each agent, and when they started.
    fn deal_and_run(
        &mut self,
        whole: &mut Whole,
        mut distributor: Distributor,
        observer: &mut dyn Observer,
    ) -> Result<(Vec<u64>, TraceTime), ClusterError> {
        let (bus, ended) = (self.bus, Arc::clone(&self.ended));
        thread::scope(|scope| {
            let dealing = scope.spawn(|| {
                deal(bus, whole, &mut distributor, &ended)?;
                distributor.finish(bus)
            });
            let started = self.run_all(observer).inspect_err(|_| self.ended.store(true, Ordering::Relaxed));
            let dealt =
                dealing.join().map_err(|_| ClusterError::store("dealing", "a thread panicked; please report it"))?;
            // What keeps agents from playing is the cause of what keeps their streams from being filled.
            started.and_then(|started| Ok((dealt?, started)))
        })
    }

    /// Tells each agent its part.
    fn prepare(&self, whole: &Whole) -> Result<(), ClusterError> {
        let spec =
            serde_json::to_value(whole.spec()).map_err(|error| ClusterError::store("the specification", error))?;
        for (agent, member) in (0..).zip(&self.members) {
            let part = Part {
                run: self.run,
                name: self.order.name.clone(),
                agent,
                agents: self.members.len() as u32,
                first_ns: whole.first().0,
                spec: spec.clone(),
                ahead_ns: self.order.ahead_ns,
            };
            self.tell(member, &Ask::Prepare(Box::new(part)), "to make ready")?;
        }
        Ok(())
    }

    /// Compares the clocks of all agents with ours.
    fn measure(&mut self) -> Result<(), ClusterError> {
        for member in &mut self.members {
            let measured = offset(self.bus, &member.hello)?;
            member.measured.push(measured);
        }
        Ok(())
    }

    /// Starts all when all are ready, and looks on until all have brought their files.
    fn run_all(&mut self, observer: &mut dyn Observer) -> Result<TraceTime, ClusterError> {
        self.wait_until_ready(observer)?;
        let at_ns = host_clock::monotonic_ns() + LEAD_NS + LEAD_NS_EACH * self.members.len() as i64;
        for member in &self.members {
            let own = member.measured.last().map_or(at_ns, |measured| measured.on_agent(at_ns));
            self.tell(member, &Ask::Start { run: self.run, at_ns: own }, "to start")?;
        }
        let started = TraceTime(at_ns + host_clock::realtime_offset_ns());
        while !self.members.iter().all(Member::has_returned) {
            thread::sleep(LOOK_EVERY);
            self.look()?;
            self.wish(observer, at_ns)?;
        }
        Ok(started)
    }

    fn wait_until_ready(&mut self, observer: &mut dyn Observer) -> Result<(), ClusterError> {
        let begun = Instant::now();
        loop {
            self.look()?;
            let waited_for = self.members.iter().find(|member| member.progress.stage == Stage::Preparing);
            let Some(member) = waited_for else { return Ok(()) };
            if begun.elapsed() > READY_WITHIN {
                let (who, seconds) = (member.who(), READY_WITHIN.as_secs());
                return Err(ClusterError::Silent { who, what: "its first queries", seconds });
            }
            self.wish(observer, host_clock::monotonic_ns())?;
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Asks each agent how far it is. One that failed ends the run.
    fn look(&mut self) -> Result<(), ClusterError> {
        for index in 0..self.members.len() {
            let member = &self.members[index];
            let ask = Ask::Progress { run: self.run };
            let who = member.who();
            let say = self.bus.ask(&subjects::agent(&member.hello.id), &ask, (&who, "how far it is"), ANSWER_WITHIN)?;
            match say {
                Say::Progress(Progress { stage: Stage::Failed { reason }, .. }) | Say::No { reason } => {
                    return Err(ClusterError::Failed { who, reason });
                }
                Say::Progress(progress) => self.members[index].progress = progress,
                other => return Err(ClusterError::store("progress", format!("{who} says {other:?}"))),
            }
        }
        Ok(())
    }

    /// Shows how far all are together, and passes on what the observer wants.
    fn wish(&self, observer: &mut dyn Observer, start_ns: i64) -> Result<(), ClusterError> {
        let counts = self.members.iter().map(Member::counts).fold(Counts::default(), |sum, counts| sum.plus(&counts));
        let lag_ns = self.members.iter().map(|member| member.progress.lag_ns).max().unwrap_or(0);
        let at = RunTime(host_clock::monotonic_ns() - start_ns);
        let at_once = match observer.look(&Shown { at, counts, lag_ns }) {
            Wish::GoOn => return Ok(()),
            Wish::Stop => false,
            Wish::Abort => true,
        };
        self.ended.store(true, Ordering::Relaxed);
        self.members.iter().try_for_each(|member| self.tell(member, &Ask::Stop { run: self.run, at_once }, "to stop"))
    }

    /// Gets the files of all agents, each into a directory of its own.
    fn collect(&self, output: &Path) -> Result<Vec<Piece>, ClusterError> {
        let all = output.join("agents");
        // Those of an earlier run in this directory, which was replaced.
        let _ = fs::remove_dir_all(&all);
        let names = folder_names(self.members.iter().map(|member| member.hello.name.as_str()));
        let piece = |(member, name): (&Member, String)| {
            let directory: PathBuf = all.join(&name);
            fs::create_dir_all(&directory)
                .map_err(|error| ClusterError::File { file: directory.clone(), reason: error.to_string() })?;
            if let Stage::Returned { files } = &member.progress.stage {
                files::get(self.bus, self.run, files, &directory)?;
            }
            Ok(Piece { agent: name, directory })
        };
        self.members.iter().zip(names).map(piece).collect()
    }

    fn skew_warning(&self) -> Option<Warning> {
        let skews = self.members.iter().filter_map(|member| Some((member, Skew::of(&member.measured)?)));
        let (member, skew) = skews.max_by_key(|(_, skew)| skew.most_ns())?;
        (skew.most_ns() > SKEW).then(|| {
            let text = format!(
                "the clock of {} may be {:.1} ms from the controller's: {:.1} ms when it started, and it went {:.1} ms away until the end",
                member.who(),
                skew.most_ns() as f64 / 1e6,
                skew.start_ns as f64 / 1e6,
                skew.drift_ns.abs() as f64 / 1e6
            );
            Warning::new("clock_skew", text, "run chrony on all hosts, and put the NATS server near them")
        })
    }

    /// Takes away streams and files at the server, and lets the agents forget the run; where it failed, they keep what they have.
    fn clean_up(&self, keep: bool) {
        for (shard, member) in (0..).zip(&self.members) {
            // Whoever cleans up cannot do more.
            let _ = self.tell(member, &Ask::Release { run: self.run, keep }, "to forget the run");
            self.bus.wait(ShardStream { run: self.run, shard }.remove(self.bus.context()));
        }
        files::remove(self.bus, self.run);
    }

    fn tell(&self, member: &Member, ask: &Ask, what: &'static str) -> Result<(), ClusterError> {
        let who = member.who();
        match self.bus.ask(&subjects::agent(&member.hello.id), ask, (&who, what), ANSWER_WITHIN)? {
            Say::Done => Ok(()),
            Say::No { reason } => Err(ClusterError::Failed { who, reason }),
            other => Err(ClusterError::store(what, format!("{who} says {other:?}"))),
        }
    }
}

impl Member {
    fn has_returned(&self) -> bool {
        matches!(self.progress.stage, Stage::Returned { .. })
    }

    fn counts(&self) -> Counts {
        let Progress { sent, answered, timed_out, failed, not_sent, .. } = self.progress;
        Counts { taken: sent + not_sent, sent, answered, timed_out, failed, not_sent, ..Counts::default() }
    }
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

/// Names of directories, each once: an agent calls itself what it likes, and two may do so alike.
fn folder_names<'a>(agents: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (number, agent) in agents.enumerate() {
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_".contains(*letter);
        let plain: String = agent.chars().map(|letter| if is_plain(&letter) { letter } else { '_' }).take(64).collect();
        let numbered = format!("{plain}.{number}");
        names.push(if plain.is_empty() || names.contains(&plain) { numbered } else { plain });
    }
    names
}

/// A name for a run that was given none.
pub fn run_name() -> String {
    format!("run-{}", host::new_id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_of_one_name_have_a_directory_each_and_none_leads_out() {
        let names = folder_names(["a", "a", "../../etc", "", "host.example", "a"].into_iter());
        assert_eq!(names, ["a", "a.1", "______etc", ".3", "host_example", "a.5"]);
    }
}
