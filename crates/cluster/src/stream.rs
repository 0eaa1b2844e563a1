//! An agent's stream at the NATS server, which holds its queries in order and each once.
//!
//! The controller writes ([`crate::publish`]), the agent reads ([`crate::receive`]). What the agent has read is deleted
//! from the stream, whose size is limited: a slow agent fills only its own stream.

use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context, ErrorCode};

use crate::error::ClusterError;

/// How long the server remembers message ids: longer than any recovery.
const KNOWN_FOR: Duration = Duration::from_secs(120);
/// The header of the end message: the number of batches.
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
    /// The name of the stream and of its only subject.
    pub fn name(&self) -> String {
        format!("ldplayer-{:016x}-{}", self.run, self.shard)
    }

    /// Creates the stream for this controller, with this maximum size and number of replicas.
    ///
    /// # Errors
    /// [`ClusterError::Full`] if the server has not that much storage left; or it refuses for another reason, for example because a stream of that
    /// name has another owner.
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
                "queries of run {:x} for agent {}, sent by controller {owner}",
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
        made.map(drop).map_err(|error| self.refused(&error, octets))
    }

    fn refused(&self, error: &CreateStreamError, octets: i64) -> ClusterError {
        match error.kind() {
            CreateStreamErrorKind::JetStream(error) if is_full(&error) => ClusterError::Full { octets },
            _ => ClusterError::store(format!("making stream {}", self.name()), error),
        }
    }

    /// The number of messages stored in the stream, and of those taken by its agent.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn progress(&self, context: &Context) -> Result<(u64, u64), ClusterError> {
        let found = context.get_stream(self.name()).await;
        let found = found.map_err(|error| ClusterError::store(format!("stream {}", self.name()), error))?;
        let state = &found.cached_info().state;
        // Taken messages are deleted: an empty stream begins after its end.
        Ok((state.last_sequence, state.first_sequence.saturating_sub(1).min(state.last_sequence)))
    }

    /// Deletes the stream with its content; it may not exist.
    pub async fn remove(&self, context: &Context) {
        // Errors of cleaning up are ignored.
        let _ = context.delete_stream(self.name()).await;
    }
}

/// Whether a server refuses a stream since it has not that much storage left. A cluster says that it finds no servers for the stream, and
/// only the text of its error says why.
fn is_full(error: &jetstream::Error) -> bool {
    match error.error_code() {
        ErrorCode::STORAGE_RESOURCES_EXCEEDED => true,
        ErrorCode::CLUSTER_NO_PEERS => error.to_string().contains("insufficient storage"),
        _ => false,
    }
}
