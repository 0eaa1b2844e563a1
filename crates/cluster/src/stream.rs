//! The stream of one agent: a file at the NATS server through which its queries go, in order and each once.
//!
//! The controller writes ([`crate::publish`]), the agent reads ([`crate::receive`]). What the agent has is taken off the stream, whose length
//! is bounded: a slow agent fills its own stream, and those of others go on.

use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};

use crate::error::ClusterError;

/// How long the server knows the names of messages: longer than any recovery.
const KNOWN_FOR: Duration = Duration::from_secs(120);
/// The header of the message behind the last batch: how many batches there were.
pub const END: &str = "Ldplayer-End";

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

    /// How many messages were stored in the stream, and how many of them its agent has taken.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn progress(&self, context: &Context) -> Result<(u64, u64), ClusterError> {
        let found = context.get_stream(self.name()).await;
        let found = found.map_err(|error| ClusterError::store(format!("stream {}", self.name()), error))?;
        let state = &found.cached_info().state;
        // What was taken is gone: an empty stream begins behind its end.
        Ok((state.last_sequence, state.first_sequence.saturating_sub(1).min(state.last_sequence)))
    }

    /// Removes the stream with all that is in it. One that is not there is removed already.
    pub async fn remove(&self, context: &Context) {
        // Whoever cleans up cannot do more.
        let _ = context.delete_stream(self.name()).await;
    }
}
