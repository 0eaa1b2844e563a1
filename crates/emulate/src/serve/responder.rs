//! One query, one answer: the zones of the address that was asked, the zone store's reply, and what is counted of it.

use std::cell::Cell;
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use ldplayer_zone::Zone;
use ldplayer_zone::answer::{Choose, Reply, Scratch, Transport, respond};

use super::counters::{Counters, Way};
use super::index::Group;
use super::set::ZoneSet;
use super::unknown::{LISTED, Unknown, UnknownList};

/// Answers queries, for one worker.
pub struct Responder {
    set: Arc<ZoneSet>,
    everywhere: bool,
    scratch: Scratch,
    counters: Counters,
    unknown: UnknownList,
}

/// The zones of one address; it remembers which of them was chosen.
struct At<'a> {
    set: &'a ZoneSet,
    group: Option<&'a Group>,
    chosen: Cell<Option<u32>>,
}
