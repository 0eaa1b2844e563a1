//! What a worker is given: its queues, its frames, and optional outputs.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use ldplayer_core::{Ignore, Outcome, Query, Transaction};

use super::pairs::Reference;
use crate::frames::Frames;

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
