//! Both ends of a distribution, for threads that know nothing of NATS: the controller gives queries in, an agent's replay takes them out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use ldplayer_core::Query;
use ldplayer_replay::{Feed, LinkError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::bus::Bus;
use crate::deal::{Dealer, Dealt};
use crate::error::ClusterError;
use crate::stream::{Ahead, ShardStream, publish, receive};

/// Batches of one agent that wait for their stream at the controller.
const WAITING: usize = 64;
/// How often a reader that waits looks whether the run was given up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Batches that wait for the reader of an agent's replay.
const READ: usize = 16;

/// The controller's end: deals queries to agents and stores them in their streams.
pub struct Distributor {
    dealer: Dealer,
    dealt: Vec<Dealt>,
    streams: Vec<Outlet>,
}

/// The way to one agent.
struct Outlet {
    batches: mpsc::Sender<Bytes>,
    work: JoinHandle<Result<u64, ClusterError>>,
}

impl Distributor {
    /// Makes a stream for each agent, by their names, with room for so many octets, on so many servers of a cluster.
    ///
    /// # Errors
    /// When a stream cannot be made, as where one of that name is there.
    pub fn open(bus: &Bus, run: u64, agents: &[String], octets: i64, replicas: usize) -> Result<Self, ClusterError> {
        let outlet = |(shard, name): (u32, &String)| {
            let stream = ShardStream { run, shard };
            bus.wait(stream.create(bus.context(), bus.id(), octets, replicas))?;
            let (batches, waiting) = mpsc::channel(WAITING);
            let who = format!("agent {name}");
            let work = bus.spawn(publish(bus.context().clone(), stream, who, waiting));
            Ok(Outlet { batches, work })
        };
        let streams = (0..).zip(agents).map(outlet).collect::<Result<Vec<_>, ClusterError>>()?;
        Ok(Self { dealer: Dealer::new(run, agents.len()), dealt: Vec::new(), streams })
    }

    /// Gives the next queries of the trace in. Waits where an agent's stream is full.
    ///
    /// # Errors
    /// When a stream took nothing for too long, or a query cannot be sent.
    pub fn give(&mut self, bus: &Bus, queries: &[Query]) -> Result<(), ClusterError> {
        self.dealer.deal(queries, &mut self.dealt)?;
        self.send(bus)
    }

    /// Ends all streams, and waits until all is stored. Returns the queries of each agent.
    ///
    /// # Errors
    /// When a stream took nothing for too long.
    pub fn finish(mut self, bus: &Bus) -> Result<Vec<u64>, ClusterError> {
        self.dealer.finish(&mut self.dealt);
        self.send(bus)?;
        for Outlet { batches, work } in self.streams {
            drop(batches);
            bus.wait(work).map_err(|error| ClusterError::store("publishing", error))??;
        }
        Ok(self.dealer.queries().collect())
    }

    fn send(&mut self, bus: &Bus) -> Result<(), ClusterError> {
        for Dealt { agent, octets } in self.dealt.drain(..) {
            let outlet = &mut self.streams[agent];
            if bus.wait(outlet.batches.send(octets)).is_err() {
                // The publisher has ended: with an error, since the batches have not.
                let ended = bus.wait(&mut outlet.work).map_err(|error| ClusterError::store("publishing", error))?;
                ended?;
            }
        }
        Ok(())
    }
}

/// An agent's end: the queries of its shard, as the engine takes them.
pub struct ShardFeed {
    batches: Receiver<Result<Vec<Query>, ClusterError>>,
    ahead: Arc<Ahead>,
    given_up: Arc<AtomicBool>,
}

impl ShardFeed {
    /// Begins to read a shard, at most so many nanoseconds of the run ahead once its start is known.
    pub fn open(bus: &Bus, run: u64, shard: u32, ahead_ns: i64) -> Self {
        let (sender, batches) = bounded(READ);
        let ahead = Arc::new(Ahead { start_ns: AtomicI64::new(0), most_ns: ahead_ns });
        let reading = receive(bus.context().clone(), ShardStream { run, shard }, Arc::clone(&ahead), sender.clone());
        bus.spawn(async move {
            if let Err(error) = reading.await {
                // A reader that is gone needs no error.
                let _ = tokio::task::spawn_blocking(move || sender.send(Err(error))).await;
            }
        });
        Self { batches, ahead, given_up: Arc::default() }
    }

    /// Set to end the reading: whoever deals may be gone.
    pub fn given_up(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.given_up)
    }

    /// Where the start of the run is told.
    pub fn ahead(&self) -> Arc<Ahead> {
        Arc::clone(&self.ahead)
    }
}

impl Feed for ShardFeed {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        while !self.given_up.load(Ordering::Relaxed) {
            match self.batches.recv_timeout(LOOK_EVERY) {
                Ok(queries) => {
                    batch.extend(queries?);
                    return Ok(true);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
        Err(Box::new(ClusterError::GivenUp))
    }
}
