//! One query, one answer: the zones of the address that was asked, the zone store's reply, and what is counted of it.

use std::cell::{Cell, RefCell};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use ldplayer_zone::{Choose, Scratch, Transport, Zone, respond};

use super::counters::{Counters, Way};
use super::index::Group;
use super::set::ZoneSet;
use super::shared::Current;
use super::unknown::{LISTED, Unknown, UnknownList};

/// Answers queries, for one worker.
pub struct Responder {
    current: Current,
    everywhere: bool,
    scratch: Scratch,
    counters: Counters,
    unknown: UnknownList,
}

/// The zones of one address; it remembers which of them was chosen, and lists what none is there for.
struct At<'a> {
    set: &'a ZoneSet,
    group: Option<&'a Group>,
    local: IpAddr,
    chosen: Cell<Option<u32>>,
    unknown: RefCell<&'a mut UnknownList>,
}

impl Choose for At<'_> {
    #[inline]
    fn choose(&self, qname: &[u8], qtype: u16) -> Option<&Zone> {
        let found = self.group.and_then(|group| self.set.index().find(group, qname, qtype));
        self.chosen.set(found);
        if found.is_none() {
            self.unknown.borrow_mut().add(qname, qtype, self.local);
        }
        found.map(|number| &self.set.zones()[number as usize])
    }
}

impl Responder {
    /// For one worker of a server; `everywhere` when each address serves all zones. No UDP answer has more octets than `udp_size`.
    pub fn new(current: Current, everywhere: bool, udp_size: u16) -> Self {
        let counters = Counters::new(current.set.apexes());
        let scratch = Scratch::with_udp_size(udp_size);
        Self { current, everywhere, scratch, counters, unknown: UnknownList::new(LISTED) }
    }

    /// Appends the answer to a query that was sent to a local address; false where there is none.
    #[inline]
    pub fn answer(&mut self, local: IpAddr, way: Way, query: &[u8], out: &mut Vec<u8>) -> bool {
        let set = &*self.current.set;
        let group = if self.everywhere { Some(set.index().all()) } else { set.index().group(local) };
        let (chosen, unknown) = (Cell::new(None), RefCell::new(&mut self.unknown));
        let at = At { set, group, local, chosen, unknown };
        let transport = match way {
            Way::Udp => Transport::Udp,
            Way::Tcp => Transport::Tcp,
        };
        let reply = respond(&at, query, transport, &mut self.scratch, out);
        if !reply.sends {
            self.counters.count_ignored();
            return false;
        }
        let zone = at.chosen.get();
        self.counters.count(zone, way, reply.rcode);
        if let (Some(marks), Some(zone)) = (&self.current.marks, zone) {
            self.scratch.asked().iter().for_each(|&rrset| marks.mark(zone, rrset as usize));
        }
        true
    }

    /// Answers from other zones from now on. What was counted is to be taken before.
    pub fn renew(&mut self, current: Current) {
        self.counters = Counters::new(current.set.apexes());
        self.current = current;
    }

    /// What was counted since this was asked last, and the zones that it is about.
    pub fn take_counters(&mut self) -> (Counters, Arc<ZoneSet>) {
        let empty = Counters::new(self.current.set.apexes());
        (mem::replace(&mut self.counters, empty), Arc::clone(&self.current.set))
    }

    /// The questions without a zone since this was asked last, and how many more there were.
    pub fn take_unknown(&mut self) -> (Vec<Unknown>, u64) {
        self.unknown.take()
    }
}
