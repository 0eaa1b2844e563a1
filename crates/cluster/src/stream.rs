//! The stream of one agent: a file at the NATS server through which its queries go, in order and each once.
//!
//! The controller writes ([`publish`]), the agent reads ([`receive`]). What the agent has is taken off the stream, whose length is
//! bounded: a slow agent fills its own stream, and those of others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, Message};
use bytes::Bytes;
use crossbeam_channel::{Sender, TrySendError};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use ldplayer_core::Query;
use ldplayer_core::wire;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep};

use crate::arrivals::{Arrival, Arrivals};
use crate::error::ClusterError;
use crate::window::{Numbered, Window};

/// Batches on their way to the stream at a time.
const IN_FLIGHT: usize = 32;
/// Messages that an agent asks for at a time, and has at most without having said that it has them.
const PULLED: usize = 32;
/// How long a message may be unacknowledged until it comes again.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// How long the server knows the names of messages: longer than any recovery.
const KNOWN_FOR: Duration = Duration::from_secs(120);
/// How long nothing may be stored of what there is to store.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// The pause before a batch is sent again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// How often a full queue of the reader is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The header of the message behind the last batch: how many batches there were.
const END: &str = "Ldplayer-End";

/// The stream of an agent of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStream {
    /// Number of the run.
    pub run: u64,
    /// The agent.
    pub shard: u32,
}

impl ShardStream {
    /// The stream's name, which is also that of its only subject.
    pub fn name(&self) -> String {
        format!("ldplayer-{:016x}-{}", self.run, self.shard)
    }

    /// Makes the stream for this controller, with room for so many octets, on so many servers of a cluster.
    ///
    /// # Errors
    /// When the server does not, as where another controller has a stream of that name: it has another owner.
    pub async fn create(
        &self,
        context: &Context,
        owner: &str,
        octets: i64,
        replicas: usize,
    ) -> Result<(), ClusterError> {
        let config = Config {
            name: self.name(),
            description: Some(format!(
                "queries of run {:x} for agent {}, dealt by controller {owner}",
                self.run, self.shard
            )),
            subjects: vec![self.name()],
            max_bytes: octets,
            discard: DiscardPolicy::New,
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            num_replicas: replicas,
            duplicate_window: KNOWN_FOR,
            ..Config::default()
        };
        let made = context.create_stream(config).await;
        made.map(drop).map_err(|error| ClusterError::store(format!("making stream {}", self.name()), error))
    }

    /// Removes the stream with all that is in it. One that is not there is removed already.
    pub async fn remove(&self, context: &Context) {
        // Whoever cleans up cannot do more.
        let _ = context.delete_stream(self.name()).await;
    }
}

/// Stores what comes, in order and each once, and says at the end how much it was.
///
/// # Errors
/// When the stream takes nothing for a minute, as for an agent that hangs.
pub async fn publish(
    context: Context,
    stream: ShardStream,
    who: String,
    mut batches: Receiver<Bytes>,
) -> Result<u64, ClusterError> {
    let mut window = Window::new(IN_FLIGHT);
    let mut acks = FuturesOrdered::new();
    let (mut open, mut moved, mut pause) = (true, Instant::now(), PAUSES.0);
    loop {
        let mut broken = false;
        while let Some(next) = window.next_to_send() {
            match context.send_publish(stream.name(), message(&stream, next)).await {
                Ok(ack) => acks.push_back(ack.into_future()),
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        if window.is_empty() {
            moved = Instant::now();
            if !open {
                break;
            }
        }
        if !broken {
            tokio::select! {
                batch = batches.recv(), if open && window.has_room() => match batch {
                    Some(batch) => window.push(batch),
                    None => open = false,
                },
                Some(ack) = acks.next(), if !acks.is_empty() => match ack {
                    Ok(ack) => {
                        window.is_stored(ack.sequence);
                        (moved, pause) = (Instant::now(), PAUSES.0);
                    }
                    Err(_) => broken = true,
                },
            }
        }
        if broken {
            acks = FuturesOrdered::new();
            if moved.elapsed() > STUCK_AFTER {
                return Err(ClusterError::Stuck { who, seconds: STUCK_AFTER.as_secs() });
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            if let Ok(found) = context.get_stream(stream.name()).await {
                let before = window.stored();
                window.is_stored(found.cached_info().state.last_sequence);
                if window.stored() > before {
                    moved = Instant::now();
                }
            }
            window.go_back();
        }
    }
    end(&context, &stream, window.stored()).await?;
    Ok(window.stored())
}

/// A batch as a message that the stream takes only behind the one before, and once.
fn message(stream: &ShardStream, next: Numbered) -> PublishMessage {
    PublishMessage::build()
        .message_id(format!("{:x}/{}/{}", stream.run, stream.shard, next.number))
        .expected_last_sequence(next.number)
        .payload(next.octets)
}

/// Says that no more batches come.
async fn end(context: &Context, stream: &ShardStream, batches: u64) -> Result<(), ClusterError> {
    let failed =
        |error: &dyn ToString| ClusterError::store(format!("ending stream {}", stream.name()), error.to_string());
    let begun = Instant::now();
    loop {
        let last = PublishMessage::build()
            .message_id(format!("{:x}/{}/end", stream.run, stream.shard))
            .header(END, batches.to_string());
        let sent = match context.send_publish(stream.name(), last).await {
            Ok(ack) => ack.await.map(drop).map_err(|error| failed(&error)),
            Err(error) => Err(failed(&error)),
        };
        match sent {
            Err(_) if begun.elapsed() < STUCK_AFTER => sleep(PAUSES.1).await,
            sent => return sent,
        }
    }
}

/// How far ahead of the run an agent may read: until the start is known, as much as the reader's queue holds.
#[derive(Debug)]
pub struct Ahead {
    /// Run time 0 on CLOCK_MONOTONIC; 0 until it is known.
    pub start_ns: AtomicI64,
    /// Nanoseconds of the run.
    pub most_ns: i64,
}

impl Ahead {
    /// How long to wait before queries that are due then are taken.
    fn wait(&self, due: i64) -> Option<Duration> {
        let start = self.start_ns.load(Ordering::Relaxed);
        let early = due - self.most_ns - (ldplayer_net::clock::monotonic_ns() - start);
        (start != 0 && early > 0).then(|| Duration::from_nanos(early as u64))
    }
}

/// Reads the stream to its end and gives each batch on. A full queue makes it wait, and so what comes behind.
///
/// # Errors
/// When a batch is missing, another's or damaged, or the server takes too long.
pub async fn receive(
    context: Context,
    stream: ShardStream,
    ahead: Arc<Ahead>,
    to: Sender<Result<Vec<Query>, ClusterError>>,
) -> Result<u64, ClusterError> {
    let failed =
        |error: &dyn ToString| ClusterError::store(format!("reading stream {}", stream.name()), error.to_string());
    let consumer = context
        .create_consumer_on_stream(
            pull::Config {
                durable_name: Some("agent".into()),
                ack_policy: AckPolicy::Explicit,
                ack_wait: AGAIN_AFTER,
                max_ack_pending: 4 * PULLED as i64,
                ..pull::Config::default()
            },
            stream.name(),
        )
        .await
        .map_err(|error| failed(&error))?;
    let pulled = consumer.stream().max_messages_per_batch(PULLED).messages().await;
    let mut messages = pulled.map_err(|error| failed(&error))?;
    let mut arrivals = Arrivals::new(stream.run, stream.shard);
    while let Some(message) = messages.next().await {
        // What is missing after a lost heartbeat comes again: the client asks anew by itself.
        let Ok(message) = message else { continue };
        if let Some(said) = batches_said(&message) {
            if said != arrivals.count() {
                return Err(ClusterError::Count { said, came: arrivals.count() });
            }
            message.ack().await.map_err(|error| failed(&error))?;
            return Ok(said);
        }
        take(&message, &mut arrivals, &ahead, &to).await?;
        message.ack().await.map_err(|error| failed(&error))?;
    }
    Err(failed(&"it ended before the last batch"))
}

/// What the message behind the last batch says; `None` of a batch.
fn batches_said(message: &Message) -> Option<u64> {
    message.headers.as_ref()?.get(END)?.as_str().parse().ok()
}

/// Gives on what is in a batch that is the next one. A reader that is gone needs nothing.
async fn take(
    message: &Message,
    arrivals: &mut Arrivals,
    ahead: &Ahead,
    to: &Sender<Result<Vec<Query>, ClusterError>>,
) -> Result<(), ClusterError> {
    let (header, queries) = wire::read::<Query>(&message.payload)?;
    if arrivals.take(header)? == Arrival::Again {
        return Ok(());
    }
    while let Some(early) = queries.first().and_then(|query| ahead.wait(query.due.0)) {
        sleep(early.min(AGAIN_AFTER / 4)).await;
        // It has the message, and is not done with it.
        let _ = message.ack_with(async_nats::jetstream::AckKind::Progress).await;
    }
    let mut queries = Ok(queries);
    while let Err(TrySendError::Full(back)) = to.try_send(queries) {
        queries = back.map_or_else(Err, Ok);
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}
