//! Reads batches from an agent's stream, bounded ahead of run time.

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
use crate::reached::Reached;
use crate::stream::{END, ShardStream};

/// Messages fetched at a time, and the maximum of unacknowledged ones.
const PULLED: usize = 32;
/// Timeout of a fetch, and its heartbeat interval. Two missed heartbeats reveal a lost server, long before the queries read ahead are used
/// up.
const ASKED_FOR: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_millis(500);
/// How long a message may be unacknowledged until it is redelivered.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// How often to check whether a batch that is far ahead may be taken: the start may be set meanwhile.
const LOOK_AHEAD: Duration = Duration::from_millis(200);
/// How often to check a full queue of the reader.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The consumer of a stream. There is only one: an agent that takes over replaces it.
const CONSUMER: &str = "agent";

/// How far an agent may read ahead of run time; until the start is known, as if it were now.
#[derive(Debug)]
pub struct Ahead {
    /// Run time 0 on CLOCK_MONOTONIC; 0 until it is known.
    pub start_ns: AtomicI64,
    /// Nanoseconds of run time.
    pub most_ns: i64,
    /// Where the run begins for this agent: later if it takes over.
    pub from_ns: i64,
}

impl Ahead {
    /// How long to wait before taking queries due at that time.
    fn wait(&self, due: i64) -> Option<Duration> {
        let start = self.start_ns.load(Ordering::Relaxed);
        let now = if start == 0 { self.from_ns } else { ldplayer_net::clock::monotonic_ns() - start };
        let early = due.saturating_sub(self.most_ns) - now;
        (early > 0).then(|| Duration::from_nanos(early as u64).min(LOOK_AHEAD))
    }
}

/// A batch, or the error.
pub type Read = Result<Vec<Query>, ClusterError>;

/// An agent's end of a stream.
pub struct Reading {
    pub context: Context,
    pub stream: ShardStream,
    /// Whether a lost agent has read a part of it.
    pub takes_over: bool,
    pub ahead: Arc<Ahead>,
    pub reached: Arc<Reached>,
    pub to: Sender<Read>,
}

impl Reading {
    /// Reads the stream to its end and passes on each batch. A full queue blocks it, and thereby the stream.
    ///
    /// # Errors
    /// A batch is missing, misplaced or damaged, or the server takes too long.
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
            // After a missed heartbeat, the client fetches again by itself.
            let Ok(message) = message else { continue };
            if let Some(said) = batches_said(&message) {
                // Unacknowledged messages stay in the stream, for an agent that takes over.
                arrivals.end(said)?;
                self.reached.note_all();
                return Ok(());
            }
            self.take(&message, &mut arrivals, &mut has_some).await?;
            message.ack().await.map_err(|error| failed(&error))?;
        }
        Err(failed(&"the stream ended before the last batch"))
    }

    async fn consumer(&self) -> Result<Consumer<pull::Config>, ClusterError> {
        if self.takes_over {
            let found = self.context.get_stream(self.stream.name()).await.map_err(|error| self.failed(&error))?;
            // A consumer that does not exist has read nothing.
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

    /// Passes on a batch if it is the next one. If the reader is gone, nothing more is needed.
    /// The first batch is taken however far ahead it is: agents must have queries before the start is set.
    async fn take(&self, message: &Message, arrivals: &mut Arrivals, has_some: &mut bool) -> Result<(), ClusterError> {
        let (header, queries) = wire::read::<Query>(&message.payload)?;
        if arrivals.take(header)? == Arrival::Again {
            return Ok(());
        }
        let mut said = Instant::now();
        let first = queries.first().map(|query| query.due.0);
        while let Some(early) = first.filter(|_| *has_some).and_then(|due| self.ahead.wait(due)) {
            sleep(early).await;
            // In progress: received but not yet processed.
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

/// The content of the end message; `None` for a batch.
fn batches_said(message: &Message) -> Option<u64> {
    message.headers.as_ref()?.get(END)?.as_str().parse().ok()
}
