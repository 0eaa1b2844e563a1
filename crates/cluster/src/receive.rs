//! An agent's end of its stream: reads batches to the last, not farther ahead of the run than it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::{AckKind, Context, Message};
use crossbeam_channel::{Sender, TrySendError};
use futures_util::StreamExt;
use ldplayer_core::Query;
use ldplayer_core::wire;
use tokio::time::{Instant, sleep};

use crate::arrivals::{Arrival, Arrivals};
use crate::error::ClusterError;
use crate::feed::Reached;
use crate::stream::{END, ShardStream};

/// Messages that an agent asks for at a time, and has at most without having said that it has them.
const PULLED: usize = 32;
/// How long the server has to answer a request for messages, and how often it says meanwhile that it is there. A server that is gone is noticed
/// by two of these that are missing, long before what was read ahead is used up.
const ASKED_FOR: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_millis(500);
/// How long a message may be unacknowledged until it comes again.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// How often it is looked whether a batch may be taken that is far ahead: the start may be told meanwhile.
const LOOK_AHEAD: Duration = Duration::from_millis(200);
/// How often a full queue of the reader is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The consumer of a stream. There is one: who takes over from an agent takes it away from that one.
const CONSUMER: &str = "agent";

/// How far ahead of the run an agent may read: until the start is known, as far as if it began at once.
#[derive(Debug)]
pub struct Ahead {
    /// Run time 0 on CLOCK_MONOTONIC; 0 until it is known.
    pub start_ns: AtomicI64,
    /// Nanoseconds of the run.
    pub most_ns: i64,
    /// Where the run begins for this agent: later where it takes over.
    pub from_ns: i64,
}

impl Ahead {
    /// How long to wait before queries that are due then are taken.
    fn wait(&self, due: i64) -> Option<Duration> {
        let start = self.start_ns.load(Ordering::Relaxed);
        let now = if start == 0 { self.from_ns } else { ldplayer_net::clock::monotonic_ns() - start };
        let early = due.saturating_sub(self.most_ns) - now;
        (early > 0).then(|| Duration::from_nanos(early as u64).min(LOOK_AHEAD))
    }
}

/// What is read, or why not.
pub type Read = Result<Vec<Query>, ClusterError>;

/// A stream as its agent reads it.
pub struct Reading {
    pub context: Context,
    pub stream: ShardStream,
    /// Whether an agent that was lost has read some of it.
    pub takes_over: bool,
    pub ahead: Arc<Ahead>,
    pub reached: Arc<Reached>,
    pub to: Sender<Read>,
}

impl Reading {
    /// Reads the stream to its end and gives each batch on. A full queue makes it wait, and so what comes behind.
    ///
    /// # Errors
    /// When a batch is missing, another's or damaged, or the server takes too long.
    pub async fn read(self) -> Result<(), ClusterError> {
        let failed = |error: &dyn ToString| self.failed(error);
        let consumer = self.consumer().await?;
        let stream = consumer.stream().max_messages_per_batch(PULLED).expires(ASKED_FOR).heartbeat(HEARTBEAT);
        let pulled = stream.messages().await;
        let mut messages = pulled.map_err(|error| failed(&error))?;
        let ShardStream { run, shard } = self.stream;
        let mut has_some = false;
        let mut arrivals =
            if self.takes_over { Arrivals::left_by_another(run, shard) } else { Arrivals::new(run, shard) };
        while let Some(message) = messages.next().await {
            // What is missing after a lost heartbeat comes again: the client asks anew by itself.
            let Ok(message) = message else { continue };
            if let Some(said) = batches_said(&message) {
                // It stays in the stream, for the agent that takes over where this one is lost.
                arrivals.end(said)?;
                self.reached.note_all();
                return Ok(());
            }
            self.take(&message, &mut arrivals, &mut has_some).await?;
            message.ack().await.map_err(|error| failed(&error))?;
        }
        Err(failed(&"it ended before the last batch"))
    }

    async fn consumer(&self) -> Result<Consumer<pull::Config>, ClusterError> {
        if self.takes_over {
            let found = self.context.get_stream(self.stream.name()).await.map_err(|error| self.failed(&error))?;
            // One that is not there has read nothing.
            let _ = found.delete_consumer(CONSUMER).await;
        }
        let config = pull::Config {
            durable_name: Some(CONSUMER.into()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: AGAIN_AFTER,
            max_ack_pending: 4 * PULLED as i64,
            ..pull::Config::default()
        };
        let made = self.context.create_consumer_on_stream(config, self.stream.name()).await;
        made.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &dyn ToString) -> ClusterError {
        ClusterError::store(format!("reading stream {}", self.stream.name()), error.to_string())
    }

    /// Gives on what is in a batch that is the next one. A reader that is gone needs nothing.
    /// The first that counts is taken however far ahead it is: the start is told to an agent that has queries.
    async fn take(&self, message: &Message, arrivals: &mut Arrivals, has_some: &mut bool) -> Result<(), ClusterError> {
        let (header, queries) = wire::read::<Query>(&message.payload)?;
        if arrivals.take(header)? == Arrival::Again {
            return Ok(());
        }
        let mut said = Instant::now();
        let first = queries.first().map(|query| query.due.0);
        while let Some(early) = first.filter(|_| *has_some).and_then(|due| self.ahead.wait(due)) {
            sleep(early).await;
            // It has the message, and is not done with it.
            if said.elapsed() > AGAIN_AFTER / 4 {
                let _ = message.ack_with(AckKind::Progress).await;
                said = Instant::now();
            }
        }
        let last = queries.last().map(|query| query.due.0);
        let mut queries = Ok(queries);
        while let Err(TrySendError::Full(back)) = self.to.try_send(queries) {
            queries = back.map_or_else(Err, Ok);
            sleep(LOOK_EVERY).await;
        }
        last.into_iter().for_each(|to_ns| self.reached.note(to_ns));
        *has_some |= last.is_some_and(|due| due >= self.ahead.from_ns);
        Ok(())
    }
}

/// What the message behind the last batch says; `None` of a batch.
fn batches_said(message: &Message) -> Option<u64> {
    message.headers.as_ref()?.get(END)?.as_str().parse().ok()
}
