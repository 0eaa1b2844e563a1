//! One host's share of a run on several hosts; the trace is read and the start time set elsewhere.

use std::sync::Arc;

use ldplayer_core::shard::Shards;
use ldplayer_core::{Query, TraceTime};
use ldplayer_replay::{Feed, LinkError, RunStart};
use ldplayer_workload::PlanFeed;

use crate::error::RunError;
use crate::keys::RunSpec;
use crate::live::Live;
use crate::resolve::Plan;

/// Returns the start time once the first queries are there; `None` cancels the run.
pub type Start = Box<dyn FnOnce() -> Option<RunStart> + Send>;

/// A host's share.
pub struct Share {
    /// The queries of this host's clients, in the order of the trace.
    pub queries: Box<dyn Feed>,
    /// Time of the first transaction of the trace.
    pub first: TraceTime,
    /// The host's number, from 0, and the number of hosts.
    pub host: (usize, usize),
    /// When to start.
    pub start: Start,
    /// Where to publish its live figures.
    pub live: Arc<Live>,
}

impl Share {
    /// The shards of this host, for this many workers.
    pub const fn shards(&self, workers: usize) -> Shards {
        let (host, hosts) = self.host;
        Shards { first: host * workers, total: hosts * workers }
    }
}

/// The source of queries.
pub enum Queries {
    /// The trace, read and planned here.
    Read(Box<PlanFeed>),
    /// Queries dealt by another host.
    Dealt(Box<dyn Feed>),
}

impl Queries {
    /// The feed with its counters, if the trace was read here.
    pub fn into_feed(self) -> Option<PlanFeed> {
        match self {
            Self::Read(feed) => Some(*feed),
            Self::Dealt(_) => None,
        }
    }
}

/// All queries of a run, from its trace on this host.
///
/// # Errors
/// The specification is invalid, or its trace is not here.
pub fn read_whole(spec: &RunSpec) -> Result<Box<dyn Feed>, RunError> {
    let plan = Plan::resolve(spec)?;
    Ok(Box::new(Queries::Read(Box::new(PlanFeed::open(&plan.feed)?))))
}

impl Feed for Queries {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        match self {
            Self::Read(feed) => Ok(feed.next(batch)?),
            Self::Dealt(feed) => feed.next(batch),
        }
    }
}
