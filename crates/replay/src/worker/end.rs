//! What a worker ends with.

use ldplayer_core::{RunTime, Stalls};

use super::load::Saturation;
use super::pairs::ReferenceCounts;
use crate::frames::{FrameCounts, LinkCounts};
use crate::strays::Strays;
use crate::table::ConnectionCounts;

/// The final state of a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerEnd {
    /// Queries taken from its feed.
    pub taken: u64,
    /// When a query last timed out or failed, measured after that round of work; `None` if none has.
    pub last_unanswered: Option<RunTime>,
    /// Stalls: a spinning worker lost its core.
    pub stalls: Stalls,
    /// Queries that reached the worker after they were due.
    pub fed_late: u64,
    /// Hand-overs that had to wait for the recorder.
    pub recorder_full: u64,
    /// Sends postponed because the kernel's buffer was full.
    pub postponed: u64,
    /// The kernel's error for the first query that it refused permanently.
    pub refused: Option<String>,
    /// UDP sockets opened.
    pub sockets: usize,
    /// Clients that shared the sockets of others for want of ports or descriptors.
    pub shared: u64,
    /// Datagrams dropped by the kernel on this worker's sockets: answers that arrived but could not be read.
    pub receive_drops: u64,
    /// Frames that the kernel had lost on the link of the namespace by the end of the last query, since that link was made.
    pub link_lost: u64,
    /// Frames that arrived and were of no use, where clients have no sockets.
    pub frames: FrameCounts,
    /// What became of frames on the link in the sender, where there is one.
    pub link: Option<LinkCounts>,
    /// Connection counters.
    pub connections: ConnectionCounts,
    /// Responses that belong to no query.
    pub strays: Strays,
    /// How long it was saturated.
    pub saturation: Saturation,
    /// Counters of queries to the reference server.
    pub reference: ReferenceCounts,
}
