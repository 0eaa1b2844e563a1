//! A worker: the only part of a replay that reads the clock and makes system calls.

mod feed;
mod frames;
mod hand_over;
mod load;
mod packets;
mod pairs;
mod receive;
mod refused;
mod send;
mod transports;
mod window;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use ldplayer_core::shard::Shards;
use ldplayer_core::{Ignore, Outcome, Query, RunTime, Stalls, Transaction};
use ldplayer_net::pace::Pace;
use ldplayer_net::udp::{BATCH, ReceiveBatch, SendBatch};
use ldplayer_net::{clock, veth};

pub use self::load::Saturation;
pub use self::pairs::{Reference, ReferenceCounts};

use self::load::Load;
use self::pairs::Pairs;
use self::transports::{Transports, policies};
use crate::frames::{FrameCounts, Frames, LinkCounts};
use crate::monitor::Monitor;
use crate::quic::Outgoing;
use crate::route::{Router, SocketKey, Sources};
use crate::settings::Settings;
use crate::slab::Slot;
use crate::sockets::{Carries, Sockets};
use crate::strays::Strays;
use crate::table::ConnectionCounts;
use crate::targets::{Ports, Targets};

/// How long to wait for outstanding answers after an interrupt, in nanoseconds.
const GRACE: i64 = 1_000_000_000;
/// Maximum number of queries of a timed replay sent by one call: it limits the error of their common timestamp to about 15 µs.
const TIMED_BATCH: usize = 16;
/// What counts as soon, in nanoseconds.
const SOON: i64 = 50_000;

/// The final state of a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerEnd {
    /// Queries taken from its feed.
    pub taken: u64,
    /// When a query last timed out or failed, measured after that round of work; `None` if none has.
    pub last_unanswered: Option<RunTime>,
    /// Stalls: a spinning worker lost its core.
    pub stalls: Stalls,
    /// Queries that reached the worker after they were due.
    pub fed_late: u64,
    /// Hand-overs that had to wait for the recorder.
    pub recorder_full: u64,
    /// Sends postponed because the kernel's buffer was full.
    pub postponed: u64,
    /// The kernel's error for the first query that it refused permanently.
    pub refused: Option<String>,
    /// UDP sockets opened.
    pub sockets: usize,
    /// Clients that shared the sockets of others for want of ports or descriptors.
    pub shared: u64,
    /// Datagrams dropped by the kernel on this worker's sockets: answers that arrived but could not be read.
    pub receive_drops: u64,
    /// Frames that the kernel had lost on the link of the namespace by the end of the last query, since that link was made.
    pub link_lost: u64,
    /// Frames that arrived and were of no use, where clients have no sockets.
    pub frames: FrameCounts,
    /// What became of frames on the link in the sender, where there is one.
    pub link: Option<LinkCounts>,
    /// Connection counters.
    pub connections: ConnectionCounts,
    /// Responses that belong to no query.
    pub strays: Strays,
    /// How long it was saturated.
    pub saturation: Saturation,
    /// Counters of queries to the reference server.
    pub reference: ReferenceCounts,
}

/// The queues of a worker.
pub struct Links {
    /// Batches of queries of this worker's clients, sorted by due time.
    pub feed: Receiver<Vec<Query>>,
    /// Finished rows, with their shard.
    pub rows: Sender<(usize, Vec<Outcome>)>,
    /// Emptied buffers for reuse.
    pub spare: Receiver<Vec<Outcome>>,
    /// The path without sockets, if that is taken.
    pub frames: Option<Frames>,
    /// Maximum number of clients' own sockets.
    pub own_sockets: u32,
    /// Optional outputs.
    pub extras: Extras,
}

/// Optional outputs and comparisons of a replay.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Kernel send timestamps over UDP.
    pub stamps: bool,
    /// What comparisons of responses ignore.
    pub ignore: Arc<Ignore>,
    /// The responses themselves.
    pub responses: Option<Sender<Vec<Transaction>>>,
    /// The reference server.
    pub reference: Option<Reference>,
}

/// One worker thread.
pub struct Worker<'a> {
    number: usize,
    shard: usize,
    settings: &'a Settings,
    monitor: &'a Monitor,
    links: Links,
    origin: i64,
    transports: Transports,
    /// Whether kernel send timestamps over UDP are on.
    stamps: bool,
    router: Router,
    /// The pairs, if answers are compared with those of another server.
    pairs: Option<Pairs>,
    sockets: Sockets,
    /// The path without sockets, if that is taken.
    frames: Option<Frames>,
    pace: Pace,
    batch: std::vec::IntoIter<Query>,
    next: Option<Query>,
    fed: bool,
    starved: bool,
    interrupted_at: Option<RunTime>,
    flushed: RunTime,
    lag: i64,
    load: Load,
    /// Whether queries may share a connection.
    shares: bool,
    /// Whether the last query was for such a connection …
    on_streams: bool,
    /// … and whether the window is being filled …
    filling: bool,
    /// … or when it was last full.
    filled: RunTime,
    /// Whether it slept last, and must look at new arrivals first.
    napped: bool,
    idle_since: Option<RunTime>,
    /// Sockets of clients that took long to open, in a row up to the last.
    slow_opens: u32,
    /// Queries that ended without an answer so far.
    unanswered: u64,
    /// Which of several ready sockets is read first: they take turns.
    turn: usize,
    /// Since when timeouts wait for what had arrived before to be read.
    overdue_since: Option<RunTime>,
    /// When the query is due that was taken ahead of its time, and is not sent yet.
    ahead: Option<RunTime>,
    /// Maximum number of queries over UDP that an unpaced replay takes at once ([`window::batch`]).
    fast_batch: usize,
    sending: Vec<(SocketKey, Slot)>,
    packets: Vec<Outgoing>,
    send: SendBatch,
    receive: ReceiveBatch,
    end: WorkerEnd,
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
        mut links: Links,
    ) -> io::Result<Self> {
        let stamps = links.extras.stamps;
        let fast_batch = window::batch(&settings.sources, &settings.targets);
        let reference = links.extras.reference.as_ref();
        let mut sockets = Sockets::new(settings.sources.clone(), all_targets(settings, reference), stamps)?;
        let mut frames = links.frames.take();
        if frames.is_none() {
            open_shared(&mut sockets, settings);
        }
        let router = |targets, ports| Router::new(settings, targets, ports, links.own_sockets);
        let pairs = reference.map(|other| {
            let ports = Ports { tls: other.tls_port, doh: other.doh_port };
            Pairs::new(router(&other.targets, ports), other)
        });
        let own = router(&settings.targets, settings.ports());
        let mut transports = Transports::new(shards.first + number, shards.total, origin, settings)?;
        transports.listen(&links.extras.ignore, links.extras.responses.is_some());
        match &mut frames {
            Some(frames) if stamps => frames.stamp_sends()?,
            None if stamps => transports.udp = transports.udp.with_send_stamps(),
            _ => {}
        }
        Ok(Self {
            number,
            shard: shards.first + number,
            settings,
            monitor,
            links,
            origin,
            transports,
            stamps,
            router: own,
            pairs,
            sockets,
            frames,
            pace: Pace::of_schedule(settings.precision),
            batch: Vec::new().into_iter(),
            next: None,
            fed: true,
            starved: false,
            interrupted_at: None,
            flushed: RunTime(0),
            lag: 0,
            load: Load::new(settings.fast, settings.max_lag),
            shares: policies(settings).iter().any(|policy| policy.pipeline.min(policy.queries_per_connection) > 1),
            on_streams: false,
            filling: true,
            filled: RunTime(0),
            napped: false,
            idle_since: None,
            slow_opens: 0,
            unanswered: 0,
            turn: 0,
            overdue_since: None,
            ahead: None,
            fast_batch,
            sending: Vec::with_capacity(fast_batch),
            packets: Vec::with_capacity(BATCH),
            send: SendBatch::new(),
            receive: ReceiveBatch::new(),
            end: WorkerEnd::default(),
        })
    }

    /// Replays until the feed has ended and every query has its outcome.
    ///
    /// # Errors
    /// The error of the wait itself; errors of single queries are rows.
    pub fn run(mut self) -> io::Result<WorkerEnd> {
        while !self.is_done() {
            let now = self.now();
            self.watch_stalls(now);
            self.weigh(now);
            self.heed_interrupt(now);
            let taken = self.take_due(now);
            let sent = self.transmit();
            let looked = self.end_overdue(now)?;
            let driven = self.drive();
            self.note_unanswered();
            let received = looked + self.rest(sent, taken + sent + driven + looked > 0)?;
            self.note_unanswered();
            if taken + sent + driven + received > 0 {
                self.idle_since = None;
            } else {
                self.load.note_idle();
            }
            self.flush_when_due(now);
        }
        self.flush();
        self.end.reference = self.pairs.as_ref().map(|pairs| pairs.counts).unwrap_or_default();
        self.end.saturation = self.load.saturation();
        self.end.sockets = self.sockets.len();
        self.end.shared = self.router.shared();
        // What is lost while connections are closed is no loss of the run's.
        self.end.receive_drops = self.sockets.drops() + self.frames.as_mut().map_or(0, Frames::drops);
        self.end.link_lost = self.frames.as_ref().map_or(0, |_| veth::lost());
        self.close_quic();
        self.close_frames()?;
        self.end.frames = self.frames.as_ref().map(|frames| frames.counts().clone()).unwrap_or_default();
        self.end.link = self.frames.as_ref().and_then(Frames::link_counts).cloned();
        self.end.strays = self.transports.strays();
        self.end.connections = self.transports.connection_counts();
        self.end.refused = self.end.refused.or(self.transports.streams.refused);
        Ok(self.end)
    }

    fn now(&self) -> RunTime {
        RunTime(clock::monotonic_ns() - self.origin)
    }

    /// Keeps the time at which a query last ended without an answer. Answers have their time in their rows: a round may read those of
    /// thousands of connections, and end long after them.
    fn note_unanswered(&mut self) {
        let counts = self.transports.counts();
        let unanswered = counts.finished() - counts.answered;
        if unanswered != self.unanswered {
            self.unanswered = unanswered;
            self.end.last_unanswered = Some(self.now());
        }
    }

    fn is_done(&self) -> bool {
        let is_sending =
            self.transports.udp.queued() > 0 || self.frames.as_ref().is_some_and(|frames| frames.queued() > 0);
        !self.fed && self.next.is_none() && !is_sending && self.transports.outstanding() == 0
    }

    /// Retries truncated answers over TCP, and carries out actions of connections. Returns their number.
    fn drive(&mut self) -> usize {
        while let Some(pending) = self.transports.udp.poll_truncated() {
            let now = self.now();
            self.transports.streams.machine.handle_truncated(now, pending);
        }
        if self.frames.is_some() {
            return self.drive_frames();
        }
        self.transports.streams.drive(self.sockets.poll()) + self.drive_quic()
    }

    /// A spinning worker reads the clock about every microsecond; a longer gap is caused by the host.
    fn watch_stalls(&mut self, now: RunTime) {
        if let Some(since) = self.idle_since.filter(|_| self.pace.is_spinning()) {
            self.end.stalls.observe(since, now);
        }
        self.idle_since = Some(now);
    }

    /// Notes the beginning of a round, and now and then how the worker keeps up.
    fn weigh(&mut self, now: RunTime) {
        self.load.begin_round(now);
        if self.load.is_due(now) {
            self.load.end_piece(now, clock::thread_cpu_ns());
        }
    }

    fn heed_interrupt(&mut self, now: RunTime) {
        if !self.monitor.is_stopped() {
            return;
        }
        let since = *self.interrupted_at.get_or_insert(now);
        // Everything that has reached this worker is accounted for. The reader may be blocked on more, which is not part of this run.
        while let Some(query) = self.peek(now).and_then(|_| self.next.take()) {
            self.start(query, now);
        }
        self.fed = false;
        if self.monitor.is_aborted() || now - since >= GRACE.min(self.settings.query_timeout) {
            self.transports.handle_interrupt(now);
        }
    }
}

/// Opens the shared sockets in advance: opening one takes too long for the first query. Errors are reported by
/// the queries that need them.
fn open_shared(sockets: &mut Sockets, settings: &Settings) {
    if settings.sources == Sources::Ports {
        return;
    }
    let any = |v6| if v6 { (Ipv6Addr::UNSPECIFIED, 0).into() } else { (Ipv4Addr::UNSPECIFIED, 0).into() };
    for v6 in [false, true].into_iter().filter(|&v6| settings.targets.has_family(v6)) {
        let server = settings.targets.only(v6).unwrap_or_else(|| any(v6));
        let mut keys = (0..settings.sources.spread(v6)).map(|number| SocketKey::Shared { v6, number });
        // If one cannot be opened, the next ones cannot either.
        let _ = keys.try_for_each(|key| sockets.get(key, Carries::Dns, server).map(|_| ()));
    }
}

/// All servers that sockets are for: a socket is connected where there is one only.
fn all_targets(settings: &Settings, reference: Option<&Reference>) -> Targets {
    match (&settings.targets, reference) {
        (Targets::Fixed(servers), Some(other)) => Targets::Fixed([servers, other.targets.named()].concat()),
        (targets, _) => targets.clone(),
    }
}
