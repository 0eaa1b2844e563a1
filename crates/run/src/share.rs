//! What one host plays of a run of several: others read the trace, deal its queries and tell the start.

use std::sync::Arc;

use ldplayer_core::shard::Shards;
use ldplayer_core::{Query, TraceTime};
use ldplayer_replay::{Feed, LinkError, RunStart};
use ldplayer_workload::PlanFeed;

use crate::error::RunError;
use crate::live::Live;
use crate::resolve::Plan;
use crate::spec::RunSpec;

/// When to start, asked when the first queries are there; `None` to make no run of it.
pub type Start = Box<dyn FnOnce() -> Option<RunStart> + Send>;

/// The part of a host.
pub struct Share {
    /// The queries of this host's clients, in the order of the trace.
    pub queries: Box<dyn Feed>,
    /// Time of the first transaction of the trace.
    pub first: TraceTime,
    /// The host's number, from 0, and how many there are.
    pub host: (usize, usize),
    /// When to start.
    pub start: Start,
    /// Where its figures are told while it lasts.
    pub live: Arc<Live>,
}

impl Share {
    /// The shards of this host, if it has so many workers.
    pub const fn shards(&self, workers: usize) -> Shards {
        let (host, hosts) = self.host;
        Shards { first: host * workers, total: hosts * workers }
    }
}

/// Where the engine has its queries from.
pub enum Queries {
    /// The trace, read and planned here.
    Read(Box<PlanFeed>),
    /// Whoever deals them.
    Dealt(Box<dyn Feed>),
}

impl Queries {
    /// The feed with all that it counted, where the trace was read here.
    pub fn into_feed(self) -> Option<PlanFeed> {
        match self {
            Self::Read(feed) => Some(*feed),
            Self::Dealt(_) => None,
        }
    }
}

/// All queries of a run, read in its trace on this host.
///
/// # Errors
/// What of the specification cannot be, or its trace is not here.
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
