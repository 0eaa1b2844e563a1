//! Publishes batches to an agent's stream, in order and exactly once despite lost messages.

use std::future::IntoFuture;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep};

use crate::error::ClusterError;
use crate::stream::{END, ShardStream};
use crate::window::{Numbered, Window};

/// Maximum number of unacknowledged batches.
const IN_FLIGHT: usize = 32;
/// How long the stream may make no progress.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// The pause before a batch is resent: initial and maximum.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Stores the batches after the first `stored`, which the stream has, in order and exactly once, and finally their number.
///
/// # Errors
/// The stream makes no progress for a minute, for example because an agent hangs.
pub async fn publish(
    context: Context,
    stream: ShardStream,
    who: String,
    stored: u64,
    mut batches: Receiver<Bytes>,
) -> Result<(), ClusterError> {
    let mut publisher = Publisher::new(context, stream, who, stored);
    let mut is_open = true;
    while is_open || !publisher.window.is_empty() {
        if publisher.step(&mut batches, &mut is_open).await.is_err() {
            publisher.recover().await?;
        }
    }
    publisher.end().await
}

/// A message was lost or refused: resend everything unacknowledged.
struct Broken;

struct Publisher {
    context: Context,
    stream: ShardStream,
    who: String,
    window: Window,
    acks: FuturesOrdered<<PublishAckFuture as IntoFuture>::IntoFuture>,
    /// When the last batch was stored, or none was pending.
    moved: Instant,
    pause: Duration,
}

impl Publisher {
    fn new(context: Context, stream: ShardStream, who: String, stored: u64) -> Self {
        let window = Window::behind(stored, IN_FLIGHT);
        Self { context, stream, who, window, acks: FuturesOrdered::new(), moved: Instant::now(), pause: PAUSES.0 }
    }

    /// Sends what the window allows, and handles the next batch or acknowledgement, whichever comes first.
    async fn step(&mut self, batches: &mut Receiver<Bytes>, is_open: &mut bool) -> Result<(), Broken> {
        while let Some(next) = self.window.next_to_send() {
            let sent = self.context.send_publish(self.stream.name(), message(&self.stream, next)).await;
            self.acks.push_back(sent.map_err(|_| Broken)?.into_future());
        }
        if self.window.is_empty() {
            self.moved = Instant::now();
        }
        tokio::select! {
            batch = batches.recv(), if *is_open && self.window.has_room() => match batch {
                Some(batch) => self.window.push(batch),
                None => *is_open = false,
            },
            Some(ack) = self.acks.next(), if !self.acks.is_empty() => self.stored(&ack.map_err(|_| Broken)?),
        }
        Ok(())
    }

    fn stored(&mut self, ack: &PublishAck) {
        self.window.is_stored(ack.sequence);
        (self.moved, self.pause) = (Instant::now(), PAUSES.0);
    }

    /// Asks the stream for its last sequence number, and continues from there.
    async fn recover(&mut self) -> Result<(), ClusterError> {
        self.acks = FuturesOrdered::new();
        if self.moved.elapsed() > STUCK_AFTER {
            return Err(ClusterError::Stuck { who: self.who.clone(), seconds: STUCK_AFTER.as_secs() });
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        if let Ok(found) = self.context.get_stream(self.stream.name()).await {
            let before = self.window.stored();
            self.window.is_stored(found.cached_info().state.last_sequence);
            if self.window.stored() > before {
                self.moved = Instant::now();
            }
        }
        self.window.go_back();
        Ok(())
    }

    /// Stores the end message.
    async fn end(&mut self) -> Result<(), ClusterError> {
        let begun = Instant::now();
        loop {
            match self.send_end().await {
                Err(_) if begun.elapsed() < STUCK_AFTER => sleep(PAUSES.1).await,
                sent => return sent,
            }
        }
    }

    async fn send_end(&mut self) -> Result<(), ClusterError> {
        let failed = |error: &dyn ToString| {
            ClusterError::store(format!("ending stream {}", self.stream.name()), error.to_string())
        };
        let last = PublishMessage::build()
            .message_id(format!("{:x}/{}/end", self.stream.run, self.stream.shard))
            .header(END, self.window.stored().to_string());
        let sent = self.context.send_publish(self.stream.name(), last).await.map_err(|error| failed(&error))?;
        sent.await.map(drop).map_err(|error| failed(&error))
    }
}

/// A batch as a message that the stream accepts only after its predecessor, and once.
fn message(stream: &ShardStream, next: Numbered) -> PublishMessage {
    PublishMessage::build()
        .message_id(format!("{:x}/{}/{}", stream.run, stream.shard, next.number))
        .expected_last_sequence(next.number)
        .payload(next.octets)
}
