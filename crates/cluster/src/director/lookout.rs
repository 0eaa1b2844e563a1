//! Watches a run: waits until all agents are ready, starts them, follows their progress, and passes on the user's wishes.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_core::TraceTime;
use ldplayer_net::clock as host_clock;
use ldplayer_run::{Observer, Wish};

use super::Directing;
use super::asking::{ANSWER_WITHIN, PROGRESS_WITHIN};
use crate::bus::Bus;
use crate::distribute::Outlook;
use crate::error::ClusterError;
use crate::member::Member;
use crate::message::{Ask, Say};
use crate::shown::Board;
use crate::subjects;

/// How long after all are ready the run starts: the start must be with every agent before.
const LEAD_NS: i64 = 500_000_000;
/// How much longer for each agent.
const LEAD_NS_EACH: i64 = 2_000_000;
/// How often agents are asked how far they are.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often clocks are compared while a run lasts.
const COMPARE_EVERY: Duration = Duration::from_secs(10);
/// How long there may be no connection to NATS.
const APART_FOR: Duration = Duration::from_secs(60);

impl Directing<'_> {
    /// Starts all when all are ready, and looks on until all have brought their files.
    pub fn run_all(
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
                let start_ns = host_clock::monotonic_ns() + LEAD_NS + LEAD_NS_EACH * self.members.len() as i64;
                self.watch.iter_mut().for_each(|watch| watch.begin(start_ns));
                start_ns
            }
        };
        self.start_ns = Some(start_ns);
        self.keep()?;
        let started = TraceTime(start_ns + host_clock::realtime_offset_ns());
        let mut compared = Instant::now();
        loop {
            self.start_the_ready(start_ns, started);
            if compared.elapsed() > COMPARE_EVERY {
                self.measure_meanwhile();
                compared = Instant::now();
            }
            for (at, why) in self.look(board.wants_latencies())? {
                self.lose(at, &why, first_ns, observer)?;
            }
            self.look_after_feeders(observer)?;
            self.warn(start_ns, outlook, observer);
            self.wish(&mut board, observer, start_ns);
            if self.members.iter().all(Member::is_done) {
                return Ok(started);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn wait_until_ready(&mut self, board: &mut Board, observer: &mut dyn Observer) -> Result<(), ClusterError> {
        loop {
            // Nothing is measured yet: whoever is lost now ends the run.
            if let Some((at, reason)) = self.look(false)?.pop() {
                return Err(ClusterError::Failed { who: self.members[at].who(), reason });
            }
            if self.members.iter().all(|member| member.progress.stage.is_ready()) {
                return Ok(());
            }
            self.wish(board, observer, host_clock::monotonic_ns());
            if self.ended.load(Ordering::Relaxed) {
                return Err(ClusterError::GivenUp);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Tells those that are ready when the run starts, or has started.
    fn start_the_ready(&mut self, start_ns: i64, started: TraceTime) {
        let is_waiting = |member: &&mut Member| !member.is_started && !member.is_done();
        let ready: Vec<&mut Member> =
            self.members.iter_mut().filter(|member| is_waiting(member) && member.progress.stage.is_ready()).collect();
        let asked: Vec<_> = ready
            .iter()
            .map(|member| {
                let at_ns = member.measured.last().map_or(start_ns, |measured| measured.on_agent(start_ns));
                let ask = Ask::Start { run: self.run, seat: member.seat, at_ns, wall_ns: started.0 };
                (subjects::agent(&member.hello.id), ask, member.who())
            })
            .collect();
        let said = self.bus.ask_each::<_, Say>(&asked, "start request", ANSWER_WITHIN);
        // Who did not hear it is told again with the next look.
        ready.into_iter().zip(said).for_each(|(member, said)| member.is_started = matches!(said, Ok(Say::Done)));
    }

    /// Asks each agent how far it is. Returns those that are lost from now on, and why.
    fn look(&mut self, latencies: bool) -> Result<Vec<(usize, String)>, ClusterError> {
        let found = look_at(self.bus, self.run, &mut self.members, latencies);
        if !self.bus.is_connected() {
            let seconds = APART_FOR.as_secs();
            return match self.together.elapsed() > APART_FOR {
                true => Err(ClusterError::Apart { url: self.bus.url().to_owned(), seconds }),
                false => Ok(Vec::new()),
            };
        }
        self.together = Instant::now();
        Ok(found)
    }

    /// Tells of agents whose queries come too late, before they are late.
    fn warn(&mut self, start_ns: i64, outlook: &Outlook, observer: &mut dyn Observer) {
        if self.ended.load(Ordering::Relaxed) {
            return;
        }
        let now_ns = host_clock::monotonic_ns() - start_ns;
        for member in &mut self.members {
            let Some(ahead_ns) = member.falls_behind(now_ns) else { continue };
            let cause = match outlook.waits_for() {
                Some(shard) if shard != member.shard as usize => ", held up by the full stream of another agent",
                _ => "",
            };
            let ahead = ahead_ns.max(0) as f64 / 1e9;
            observer.notice(&format!(
                "{} has queries for only {ahead:.1} s ahead{cause}: it is about to fall behind",
                member.who()
            ));
        }
    }

    /// Shows how far all are together, and passes on what the observer wants.
    fn wish(&mut self, board: &mut Board, observer: &mut dyn Observer, start_ns: i64) {
        self.shown = board.show(&self.members, start_ns);
        match observer.look(&self.shown) {
            Wish::GoOn => {}
            Wish::Stop => self.stop(false),
            Wish::Abort => self.stop(true),
        }
    }
}

/// Asks those of whom something is to be expected how far they are. Returns those that are lost from now on, and why.
pub fn look_at(bus: &Bus, run: u64, members: &mut [Member], latencies: bool) -> Vec<(usize, String)> {
    let asked: Vec<usize> = (0..members.len()).filter(|&at| !members[at].is_done()).collect();
    let question = |&at: &usize| {
        let member: &Member = &members[at];
        let ask = Ask::Progress { run, seat: member.seat, latencies };
        (subjects::agent(&member.hello.id), ask, member.who())
    };
    let questions: Vec<_> = asked.iter().map(question).collect();
    let said = bus.ask_each::<_, Say>(&questions, "progress request", PROGRESS_WITHIN);
    if !bus.is_connected() {
        asked.iter().for_each(|&at| members[at].nobody_asked());
        return Vec::new();
    }
    let heard = asked.into_iter().zip(said);
    heard.filter_map(|(at, said)| Some((at, members[at].hear(said, Instant::now())?))).collect()
}
