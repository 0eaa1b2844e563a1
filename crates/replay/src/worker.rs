//! A worker: the only part of a replay that reads the clock and makes system calls.

mod clients;
mod clock;
mod end;
mod hand_over;
mod intake;
mod links;
mod load;
mod network;
mod pairs;
mod schedule;
mod transports;
mod window;

use std::io;

use ldplayer_core::shard::Shards;
use ldplayer_core::{Query, Reason, RunTime, Transport};
use ldplayer_net::clock as host_clock;
use ldplayer_net::pace::Wait;
use ldplayer_net::udp::BATCH;

pub use self::end::WorkerEnd;
pub use self::links::{Extras, Links};
pub use self::load::Saturation;
pub use self::pairs::{Reference, ReferenceCounts};

use self::clients::Clients;
use self::clock::RunClock;
use self::hand_over::HandOver;
use self::intake::Intake;
use self::load::Load;
use self::network::{Network, Reading, TIMED_BATCH};
use self::schedule::Schedule;
use self::transports::{Transports, policies};
use self::window::Window;
use crate::chains::Chains;
use crate::monitor::Monitor;
use crate::settings::Settings;
use crate::targets::Targets;

/// How long to wait for outstanding answers after an interrupt, in nanoseconds.
const GRACE: i64 = 1_000_000_000;
/// What counts as soon, in nanoseconds.
const SOON: i64 = 50_000;
/// Maximum number of queries for connections that an unpaced replay takes at once: queries written together leave
/// in one segment, and the number of segments limits an answered replay over connections.
const STREAM_BATCH: usize = 64 << 10;
/// How early a spinning worker prepares a query over UDP, in nanoseconds: finding its client's data, which is not in the caches, and
/// writing its packet takes most of that, and ten times as long without optimization.
const AHEAD: i64 = if cfg!(debug_assertions) { 20_000 } else { 2_000 };
/// How long opening a socket may take, in nanoseconds: it is not begun later than that before a query.
const PREPARING: i64 = 1_000_000;
/// How long a worker without a query waits before it checks its feed again, in nanoseconds.
const FEED_EVERY: i64 = 200_000;
/// Maximum number of datagrams read at once while a query is soon due; more if more queries have just been sent.
const SMALL_RECEIVE: usize = 8;
/// Sleeps up to this long, in nanoseconds, are not interrupted by answers: these wait with the kernel's timestamp until the next
/// query is sent, and cost no wake-up.
const DOZE: i64 = 1_000_000;
/// How long timeouts wait at most for what had arrived before to be read, in nanoseconds: a server that sends faster than it can be read
/// has its queries time out all the same.
const PATIENCE: i64 = 50_000_000;

/// One worker thread.
pub struct Worker<'a> {
    settings: &'a Settings,
    monitor: &'a Monitor,
    clock: RunClock,
    intake: Intake,
    window: Window,
    clients: Clients,
    transports: Transports,
    network: Network,
    schedule: Schedule,
    load: Load,
    hand_over: HandOver<'a>,
    /// When the next query is due that was looked at.
    prepared: Option<RunTime>,
    interrupted_at: Option<RunTime>,
    /// Whether it slept last, and must look at new arrivals first.
    napped: bool,
    /// Since when timeouts wait for what had arrived before to be read.
    overdue_since: Option<RunTime>,
    /// Queries that ended without an answer so far, and when that last was seen to be more than before.
    unanswered: u64,
    last_unanswered: Option<RunTime>,
}

impl<'a> Worker<'a> {
    /// The worker of this host with this number, whose run time 0 is at `origin` of the monotonic clock.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn new(
        number: usize,
        shards: Shards,
        origin: i64,
        settings: &'a Settings,
        monitor: &'a Monitor,
        links: Links,
    ) -> io::Result<Self> {
        let Links { feed, rows, spare, frames, own_sockets, extras } = links;
        let (clock, shard) = (RunClock::new(origin), shards.first + number);
        let window = Window::new(clock, settings);
        let targets = all_targets(settings, extras.reference.as_ref());
        let network = Network::new(clock, settings, (frames, targets), window.batch(), extras.stamps)?;
        let stamps_udp = extras.stamps && network.stamps_by_socket();
        let gauge = &monitor.workers[number];
        Ok(Self {
            settings,
            monitor,
            clock,
            intake: Intake::new(feed, !settings.fast, Chains::new(policies(settings))),
            window,
            clients: Clients::new(clock, settings, own_sockets, extras.reference.as_ref()),
            transports: Transports::new([shard, shards.total], settings, &extras, stamps_udp)?,
            network,
            schedule: Schedule::new(clock, settings.precision),
            load: Load::new(settings.fast, settings.max_lag),
            hand_over: HandOver::new(shard, gauge, rows, spare, extras.responses),
            prepared: None,
            interrupted_at: None,
            napped: false,
            overdue_since: None,
            unanswered: 0,
            last_unanswered: None,
        })
    }

    /// Replays until the feed has ended and every query has its outcome.
    ///
    /// # Errors
    /// The error of the wait itself; errors of single queries are rows.
    pub fn run(mut self) -> io::Result<WorkerEnd> {
        while !self.is_done() {
            let now = self.clock.now();
            self.begin_round(now);
            self.heed_interrupt(now);
            self.prepare_next(now);
            let taken = self.take_due(now);
            let sent = self.transmit();
            let looked = self.end_overdue(now)?;
            let taken = taken + self.clients.react(now, &mut self.network, &mut self.transports);
            self.transports.fall_back(|| self.clock.now());
            let driven = self.network.drive(&mut self.transports);
            self.note_unanswered();
            let received = looked + self.rest(sent, taken + sent + driven + looked > 0)?;
            self.note_unanswered();
            self.follow_up();
            if taken + sent + driven + received > 0 {
                self.schedule.note_work();
            } else {
                self.load.note_idle();
            }
            self.flush_when_due(now);
        }
        self.flush();
        Ok(self.end())
    }

    /// Closes all connections, and returns the counts of the worker.
    fn end(mut self) -> WorkerEnd {
        let mut end = WorkerEnd {
            taken: self.intake.taken(),
            last_unanswered: self.last_unanswered,
            stalls: self.schedule.stalls(),
            fed_late: self.intake.late(),
            recorder_full: self.hand_over.recorder_full(),
            shared: self.clients.shared(),
            saturation: self.load.saturation(),
            reference: self.clients.reference_counts(),
            ..WorkerEnd::default()
        };
        self.network.close(&mut self.transports, self.monitor, &mut end);
        end.strays = self.transports.strays();
        end.connections = self.transports.connection_counts();
        end
    }

    fn is_done(&self) -> bool {
        let is_sending = self.transports.udp.queued() > 0 || self.network.is_sending();
        self.intake.has_ended() && !is_sending && self.transports.outstanding() == 0
    }

    /// Notes the beginning of a round, and now and then how the worker keeps up.
    fn begin_round(&mut self, now: RunTime) {
        self.schedule.begin_round(now);
        self.load.begin_round(now);
        if self.load.is_due(now) {
            self.load.end_piece(now, host_clock::thread_cpu_ns());
        }
    }

    /// Keeps the time at which a query last ended without an answer. Answers have their time in their rows: a round may read those of
    /// thousands of connections, and end long after them.
    fn note_unanswered(&mut self) {
        let counts = self.transports.counts();
        let unanswered = counts.finished() - counts.answered;
        if unanswered != self.unanswered {
            self.unanswered = unanswered;
            self.last_unanswered = Some(self.clock.now());
        }
    }

    fn heed_interrupt(&mut self, now: RunTime) {
        if !self.monitor.is_stopped() {
            return;
        }
        let since = *self.interrupted_at.get_or_insert(now);
        self.intake.handle_interrupt();
        // Everything that has reached this worker is accounted for. The reader may be blocked on more, which is not part of this run.
        while let Some(query) = self.intake.peek(now).and_then(|_| self.intake.take()) {
            self.start(query, now);
        }
        self.intake.close();
        if self.monitor.is_aborted() || now - since >= GRACE.min(self.settings.query_timeout) {
            self.transports.handle_interrupt(now);
        }
    }

    // ---- Queries.

    /// Opens the socket of the next query over UDP before it is due, if its client has none yet: the query would be late by that otherwise.
    fn prepare_next(&mut self, now: RunTime) {
        let due = self.intake.peek(now);
        if due == self.prepared {
            return;
        }
        self.prepared = due;
        let is_to_come = |query: &&Query| query.transport == Transport::Udp && query.due - now > PREPARING;
        if let Some(query) = self.intake.next().filter(is_to_come) {
            self.clients.prepare(query, &mut self.network, &self.transports);
        }
    }

    /// Hands due queries to their machines, at most one batch, and returns their number.
    fn take_due(&mut self, now: RunTime) -> usize {
        // One that waits for an ID may have it now.
        self.transports.udp.has_ids();
        let (batch, most) = if self.settings.fast { (self.window.batch(), STREAM_BATCH) } else { (BATCH, TIMED_BATCH) };
        let room = batch.saturating_sub(self.transports.udp.queued());
        let (mut datagrams, mut for_connections) = (0, 0);
        while datagrams < room && for_connections < most && self.is_due(now) {
            let Some(query) = self.intake.take() else { break };
            let is_datagram = query.transport == Transport::Udp;
            self.window.note_query(is_datagram);
            *(if is_datagram { &mut datagrams } else { &mut for_connections }) += 1;
            self.start(query, now);
        }
        let taken = datagrams + for_connections;
        if taken == 0 { self.take_ahead(now).into() } else { taken }
    }

    /// Takes the next query shortly before it is due, for [`Schedule::hold`] to have it ready. Returns whether there is one. Connections send what
    /// they take at once, and so does a link of this process that delays.
    fn take_ahead(&mut self, now: RunTime) -> bool {
        let may = self.schedule.is_spinning()
            && !self.settings.fast
            && self.transports.udp.queued() == 0
            && !self.network.is_delaying();
        let is_near = |query: &Query| query.transport == Transport::Udp && query.due - now <= AHEAD;
        let Some(query) = self.intake.take_if(|query| may && is_near(query)) else { return false };
        self.schedule.take_ahead(query.due);
        self.window.note_query(true);
        self.start(query, now);
        true
    }

    /// Lets go on what waited for queries that have ended.
    fn follow_up(&mut self) {
        let clock = self.clock;
        self.intake.handle_rows(self.transports.outcomes(), || clock.now());
        while let Some((query, reason)) = self.intake.poll_refused() {
            self.transports.handle_unroutable(&query, reason);
        }
    }

    fn is_due(&mut self, now: RunTime) -> bool {
        let Some(due) = self.intake.peek(now) else { return false };
        if self.settings.fast { self.window.has_room(&mut self.transports) } else { due <= now }
    }

    fn start(&mut self, mut query: Query, now: RunTime) {
        if self.settings.fast {
            query.due = now;
        }
        let lag = now - query.due;
        self.hand_over.note_lag(lag);
        self.load.note_lag(lag);
        match self.hindrance(&query, lag) {
            Some(reason) => self.transports.handle_unroutable(&query, reason),
            None => self.clients.ask(now, query, &mut self.network, &mut self.transports),
        }
    }

    /// Why a query is not sent that is so late.
    fn hindrance(&self, query: &Query, lag: i64) -> Option<Reason> {
        if self.interrupted_at.is_some() {
            Some(Reason::Interrupted)
        } else if query.transport.is_encrypted() && self.settings.tls.is_none() {
            Some(Reason::Transport)
        } else {
            self.settings.max_lag.is_some_and(|most| lag > most).then_some(Reason::Lag)
        }
    }

    /// Sends queued queries over UDP, and returns how many have left.
    fn transmit(&mut self) -> usize {
        let Self { network, transports, schedule, load, .. } = self;
        network.transmit(transports, || schedule.hold(load))
    }

    // ---- What arrives.

    /// Ends what is overdue at `now`, after reading everything that had arrived by then: this thread may not have run for a while, or
    /// may have had more to send than to read. Where that takes longer, rounds of sending are between. Returns how much was read.
    fn end_overdue(&mut self, now: RunTime) -> io::Result<usize> {
        if self.transports.poll_timeout().is_none_or(|deadline| deadline > now) {
            self.overdue_since = None;
            return Ok(0);
        }
        let until = *self.overdue_since.get_or_insert(now);
        let due = self.intake.peek(self.clock.now()).map_or(i64::MAX, |due| due.0);
        let reading = Reading::begin(self.clock, due);
        let (received, is_all) = self.network.receive_until(&mut self.transports, until, reading)?;
        if is_all || now - until >= PATIENCE {
            self.overdue_since = None;
            self.transports.handle_timeout(until);
        }
        Ok(received)
    }

    /// Waits for the next event and reads what arrives, after `sent` queries have been sent. Returns how much was read.
    fn rest(&mut self, sent: usize, busy: bool) -> io::Result<usize> {
        let now = self.clock.now();
        let due = self.intake.peek(now);
        let due = due.filter(|_| !self.settings.fast || self.window.has_room(&mut self.transports));
        if due.is_none() && !self.intake.is_open() && self.transports.outstanding() == 0 {
            return Ok(0);
        }
        let due = match due {
            Some(_) if self.settings.fast => now.0,
            Some(due) => due.0,
            None => i64::MAX,
        };
        let other = self.other_deadline(now);
        let most = self.most_at_once(due.saturating_sub(now.0), sent);
        let timeout = match self.schedule.wait(now, due.min(other)) {
            Wait::Spin => 0,
            Wait::Sleep(_) if busy || due <= now.0 || self.network.has_unread() => 0,
            Wait::Sleep(ns) => ns,
        };
        let may_look_away = !self.transports.is_attentive();
        let may_doze = may_look_away && !self.network.is_acknowledging();
        if (1..=DOZE).contains(&timeout) && may_doze && !self.waits_to_fill() {
            self.sleep(now, timeout);
            self.note_woken(now.0 + timeout, due < other);
            return Ok(0);
        }
        if let Some(nap) = self.nap_between_looks().filter(|&nap| nap < timeout) {
            self.sleep(now, nap);
            return Ok(self.receive(0, most, due));
        }
        let nap = self.window.nap(&self.transports);
        let nap = nap.filter(|&nap| nap < timeout && may_look_away && !self.napped);
        self.napped = nap.is_some();
        if let Some(nap) = nap {
            self.sleep(now, nap);
            return Ok(0);
        }
        let ready = self.network.wait(timeout)?;
        if timeout > 0 {
            self.load.note_sleep(self.clock.now() - now);
        }
        self.note_woken(now.0 + timeout, timeout > 0 && ready == 0 && due < other);
        Ok(self.receive(ready, most, due))
    }

    /// The number of datagrams to read before the next query, which is due in `left` nanoseconds: at least as many
    /// as have just been `sent`, so that answers do not pile up.
    const fn most_at_once(&self, left: i64, sent: usize) -> usize {
        let is_soon = 0 < left && left < SOON && !self.settings.fast;
        match (is_soon, sent > SMALL_RECEIVE) {
            (true, true) => sent,
            (true, false) => SMALL_RECEIVE,
            (false, _) => usize::MAX,
        }
    }

    /// Sleeps for so long from `now` on, whatever arrives.
    fn sleep(&mut self, now: RunTime, ns: i64) {
        self.clock.sleep_until(now + ns);
        self.load.note_sleep(self.clock.now() - now);
    }

    /// Reads what is ready, up to `most` datagrams, with the next query `due` then.
    fn receive(&mut self, ready: usize, most: usize, due: i64) -> usize {
        let reading = Reading::begin(self.clock, due);
        self.network.receive(&mut self.transports, ready, most, reading)
    }

    /// Lets the pace learn from a sleep, if it is one to learn from.
    fn note_woken(&mut self, wanted: i64, is_telling: bool) {
        if is_telling {
            self.schedule.note_woken(wanted);
        }
    }

    fn waits_to_fill(&self) -> bool {
        self.window.waits_to_fill(&self.transports, self.intake.next_due().is_some())
    }

    fn nap_between_looks(&self) -> Option<i64> {
        self.window.nap_between_looks(&self.transports).filter(|_| self.network.is_ring())
    }

    /// The next event other than sending: a timeout, a hand-over, a check of the feed, the end of the grace time, filling the window.
    fn other_deadline(&self, now: RunTime) -> i64 {
        let timeout = self.transports.poll_timeout().map_or(i64::MAX, |deadline| deadline.0);
        let feed = if self.intake.is_waiting() { now.0 + FEED_EVERY } else { i64::MAX };
        let fill = if self.waits_to_fill() { self.window.fill_deadline() } else { i64::MAX };
        timeout.min(self.hand_over.deadline(now)).min(feed).min(fill).min(self.network.deadline(now))
    }

    // ---- Rows.

    fn flush_when_due(&mut self, now: RunTime) {
        let (is_fast, clock, next) = (self.settings.fast, self.clock, self.intake.next_due());
        let is_soon_due = || !is_fast && next.is_some_and(|due| due - clock.now() < SOON);
        if self.hand_over.is_due(now, is_soon_due, &mut self.transports) {
            self.flush();
        }
    }

    /// Hands over rows and figures.
    fn flush(&mut self) {
        self.clients.pair_up(&mut self.transports);
        // The last attempts may have ended after everybody had an answer.
        self.transports.tell_lookups(self.clock.now());
        self.follow_up();
        self.hand_over.flush(&mut self.transports, &mut self.load);
        self.intake.note_flushed();
    }
}

/// All servers that sockets are for: a socket is connected where there is one only.
fn all_targets(settings: &Settings, reference: Option<&Reference>) -> Targets {
    match (&settings.targets, reference) {
        (Targets::Fixed(servers), Some(other)) => Targets::Fixed([servers, other.targets.named()].concat()),
        (targets, _) => targets.clone(),
    }
}
