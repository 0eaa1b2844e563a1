//! Distributes queries to the streams of agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ldplayer_core::Query;
use ldplayer_run::Whole;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::bus::Bus;
use crate::deal::{Dealer, Dealt};
use crate::error::ClusterError;
use crate::publish::publish;
use crate::stream::ShardStream;

/// Maximum number of batches queued for an agent's stream.
const WAITING: usize = 64;
/// The least size of a stream in octets that a server short of storage is asked for: over a hundred batches.
const LEAST_ROOM: i64 = 16 << 20;
/// How often to check, while waiting for an agent, whether its shard has been given up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The value of [`Outlook`] when no agent is waited for.
const NOBODY: usize = usize::MAX;

/// Controls and observes a distribution in progress.
#[derive(Debug)]
pub struct Outlook {
    /// Shards that are no longer read: their queries are counted, but not stored.
    gone: Vec<AtomicBool>,
    /// The shard whose full stream blocks the distribution.
    waits_for: AtomicUsize,
}

impl Outlook {
    /// Stops storing queries of a shard.
    pub fn give_up(&self, shard: usize) {
        // A shard that there is not has nothing to be given up.
        self.gone.get(shard).into_iter().for_each(|gone| gone.store(true, Ordering::Relaxed));
    }

    /// Stops storing queries of all shards.
    pub fn give_up_all(&self) {
        (0..self.gone.len()).for_each(|shard| self.give_up(shard));
    }

    /// The shard that blocks the distribution at the moment, if any.
    pub fn waits_for(&self) -> Option<usize> {
        Some(self.waits_for.load(Ordering::Relaxed)).filter(|&shard| shard != NOBODY)
    }

    fn is_gone(&self, shard: usize) -> bool {
        self.gone[shard].load(Ordering::Relaxed)
    }
}

/// The queries dealt to an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hand {
    /// The total.
    pub queries: u64,
    /// The number in each batch.
    pub batches: Vec<u32>,
}

impl Hand {
    /// Queries in the batches after the first `taken`.
    pub fn left(&self, taken: u64) -> u64 {
        self.batches.iter().skip(usize::try_from(taken).unwrap_or(usize::MAX)).map(|&queries| u64::from(queries)).sum()
    }
}

/// The shards dealt by this host, if several hosts deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The number of this host among the dealers.
    pub own: u32,
    /// The number of dealers.
    pub of: u32,
}

impl Turn {
    /// All shards are dealt by this host.
    pub const ALL: Self = Self { own: 0, of: 1 };

    const fn is_for(self, shard: u32) -> bool {
        shard % self.of == self.own
    }
}

/// Creates the streams of a run, or none if there is not enough storage for all.
fn create_streams(bus: &Bus, run: u64, agents: u32, (octets, replicas): (i64, usize)) -> Result<(), ClusterError> {
    for shard in 0..agents {
        let made = bus.wait(ShardStream { run, shard }.create(bus.context(), bus.id(), octets, replicas));
        if matches!(made, Err(ClusterError::Full { .. })) {
            (0..shard).for_each(|shard| bus.wait(ShardStream { run, shard }.remove(bus.context())));
        }
        made?;
    }
    Ok(())
}

/// Deals queries to agents and stores them in their streams, or only counts them if agents read the trace themselves.
pub struct Distributor {
    dealer: Dealer,
    dealt: Vec<Dealt>,
    hands: Vec<Hand>,
    /// For each shard, its link if it is dealt by this host.
    streams: Vec<Option<Outlet>>,
    outlook: Arc<Outlook>,
}

/// The link to one agent.
struct Outlet {
    /// Batches that were in the stream before: this controller, or an earlier one, stored them.
    stored: u64,
    batches: mpsc::Sender<Bytes>,
    work: JoinHandle<Result<(), ClusterError>>,
}

impl Distributor {
    /// Creates a stream for each agent, with this maximum size and number of replicas; with a smaller size if the server has not that much storage left.
    ///
    /// # Errors
    /// A stream cannot be created, for example because one of that name exists.
    pub fn open(
        bus: &Bus,
        run: u64,
        agents: &[String],
        (octets, replicas): (i64, usize),
        turn: Turn,
    ) -> Result<Self, ClusterError> {
        let mut each = octets;
        loop {
            match create_streams(bus, run, agents.len() as u32, (each, replicas)) {
                Err(ClusterError::Full { .. }) if each / 2 >= LEAST_ROOM => each /= 2,
                made => break made?,
            }
        }
        Self::resume(bus, run, agents, turn)
    }

    /// Uses existing streams: those of a run whose controller ended early, or created by another dealer. What they hold is not stored
    /// again.
    ///
    /// # Errors
    /// A stream does not exist.
    pub fn resume(bus: &Bus, run: u64, agents: &[String], turn: Turn) -> Result<Self, ClusterError> {
        let outlet = |(shard, name): (u32, &String)| {
            if !turn.is_for(shard) {
                return Ok(None);
            }
            let stream = ShardStream { run, shard };
            let (stored, _) = bus.wait(stream.progress(bus.context()))?;
            Ok(Some(Outlet::begin(bus, stream, name, stored)))
        };
        Ok(Self::over((0..).zip(agents).map(outlet).collect::<Result<_, ClusterError>>()?, run, agents.len()))
    }

    /// Only counts the queries of each agent, and stores nothing.
    pub fn counting(run: u64, agents: usize) -> Self {
        Self::over(Vec::new(), run, agents)
    }

    fn over(streams: Vec<Option<Outlet>>, run: u64, agents: usize) -> Self {
        let gone = (0..agents).map(|_| AtomicBool::new(false)).collect();
        let outlook = Arc::new(Outlook { gone, waits_for: AtomicUsize::new(NOBODY) });
        let hands = vec![Hand::default(); agents];
        Self { dealer: Dealer::new(run, agents), dealt: Vec::new(), hands, streams, outlook }
    }

    /// The handle to control and observe it.
    pub fn outlook(&self) -> Arc<Outlook> {
        Arc::clone(&self.outlook)
    }

    /// Deals the next queries of the trace. Blocks while an agent's stream is full.
    ///
    /// # Errors
    /// A stream is stuck, or a query cannot be encoded.
    pub fn give(&mut self, bus: &Bus, queries: &[Query]) -> Result<(), ClusterError> {
        self.dealer.deal(queries, &mut self.dealt)?;
        self.send(bus)
    }

    /// Ends all streams, and waits until everything is stored. Returns what each agent was dealt.
    ///
    /// # Errors
    /// A stream is stuck.
    pub fn finish(mut self, bus: &Bus) -> Result<Vec<Hand>, ClusterError> {
        self.dealer.finish(&mut self.dealt);
        self.send(bus)?;
        let Self { hands, streams, outlook, .. } = self;
        for (shard, outlet) in streams.into_iter().enumerate() {
            let Some(outlet) = outlet else { continue };
            outlet.finish(bus, hands[shard].batches.len() as u64, || outlook.is_gone(shard))?;
        }
        Ok(hands)
    }

    fn send(&mut self, bus: &Bus) -> Result<(), ClusterError> {
        for Dealt { agent, octets, queries } in self.dealt.drain(..) {
            let hand = &mut self.hands[agent];
            let number = hand.batches.len() as u64;
            hand.queries += u64::from(queries);
            hand.batches.push(queries);
            match self.streams.get_mut(agent).and_then(Option::as_mut) {
                Some(outlet) if number >= outlet.stored && !self.outlook.is_gone(agent) => {
                    outlet.send(bus, octets, agent, &self.outlook)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Deals a trace to its end, or until the run is cancelled.
///
/// # Errors
/// The trace cannot be read, or a stream is stuck.
pub fn deal(
    bus: &Bus,
    whole: &mut Whole,
    distributor: &mut Distributor,
    ended: &AtomicBool,
) -> Result<(), ClusterError> {
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

impl Outlet {
    fn begin(bus: &Bus, stream: ShardStream, name: &str, stored: u64) -> Self {
        let (batches, waiting) = mpsc::channel(WAITING);
        let work = bus.spawn(publish(bus.context().clone(), stream, format!("agent {name}"), stored, waiting));
        Self { stored, batches, work }
    }

    /// Hands a batch to the publisher; blocks while the stream is full and its shard is still read.
    fn send(&mut self, bus: &Bus, octets: Bytes, shard: usize, outlook: &Outlook) -> Result<(), ClusterError> {
        let Err(mpsc::error::TrySendError::Full(octets)) = self.batches.try_send(octets) else {
            return if self.work.is_finished() { self.why(bus) } else { Ok(()) };
        };
        outlook.waits_for.store(shard, Ordering::Relaxed);
        let sent = loop {
            // Timeouts must be created within the runtime.
            let sent = bus.wait(async { timeout(LOOK_EVERY, self.batches.send(octets.clone())).await });
            match sent {
                Ok(Ok(())) => break Ok(()),
                Ok(Err(_)) => break self.why(bus),
                Err(_) if outlook.is_gone(shard) => {
                    self.work.abort();
                    break Ok(());
                }
                Err(_) => {}
            }
        };
        outlook.waits_for.store(NOBODY, Ordering::Relaxed);
        sent
    }

    /// The error of a publisher that ended early.
    fn why(&mut self, bus: &Bus) -> Result<(), ClusterError> {
        match bus.wait(&mut self.work) {
            Ok(ended) => ended,
            Err(error) => Err(ClusterError::store("publishing", error)),
        }
    }

    /// Waits until everything is stored, or the shard is given up.
    fn finish(self, bus: &Bus, batches: u64, is_gone: impl Fn() -> bool) -> Result<(), ClusterError> {
        let Self { stored, batches: sender, mut work } = self;
        // Including the end message after the last batch.
        if stored > batches {
            work.abort();
            return Ok(());
        }
        drop(sender);
        loop {
            match bus.wait(async { timeout(LOOK_EVERY, &mut work).await }) {
                Ok(ended) => return ended.map_err(|error| ClusterError::store("publishing", error))?,
                Err(_) if is_gone() => {
                    work.abort();
                    return Ok(());
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_did_not_take_is_in_the_batches_behind() {
        let hand = Hand { queries: 60, batches: vec![10, 20, 30] };
        assert_eq!([hand.left(0), hand.left(1), hand.left(3), hand.left(9)], [60, 50, 0, 0]);
    }
}
