//! Early data: queries that travel before a resumed session is up, and what becomes of them.

use ldplayer_core::{Message, RunTime};

use super::Connections;
use crate::slab::{List, Slot};

/// Octets that framing and padding add to a query at most, without those of a block.
const ADDED: usize = 2 + 4;
/// TYPEs of zone transfers, which are for sessions that are up (RFC 9103 §8).
const TRANSFERS: [u16; 2] = [251, 252];

impl Connections {
    /// Octets that a connection takes now although its session is not up.
    pub(super) fn early_room(&self, at: Slot) -> usize {
        self.connections
            .get(at)
            .and_then(|connection| connection.own.tls.as_ref())
            .map_or(0, |session| session.early_room())
    }

    /// Appends queued queries as early data, from the first to one that has no room or may not.
    pub(super) fn compose_early(&mut self, at: Slot, now: RunTime, out: &mut Vec<u8>) {
        let most = ADDED + usize::from(self.config.policy.padding);
        let room = self.early_room(at);
        while room > 0
            && let Some(slot) = self.connections.get(at).and_then(|connection| connection.queue.first())
            && self
                .requests
                .get(slot)
                .is_some_and(|request| may_go_early(&request.wire) && out.len() + request.wire.len() + most <= room)
        {
            self.compose_one(at, slot, now, out);
        }
    }

    /// What was sent before the session came up either arrived, or is to be sent again before anything else.
    pub(super) fn settle_early(&mut self, at: Slot, is_accepted: bool) {
        let Some(connection) = self.connections.get_mut(at).filter(|it| !it.outstanding.is_empty()) else { return };
        if is_accepted {
            let mut next = connection.outstanding.first();
            while let Some(request) = next.and_then(|slot| self.requests.get_mut(slot)) {
                (request.row.early_data, request.row.resumed) = (true, true);
                next = next.and_then(|slot| self.requests.next::<1>(slot));
            }
            return;
        }
        let number = connection.number;
        let mut lists = [std::mem::take(&mut connection.outstanding), std::mem::take(&mut connection.queue)];
        let mut queue = List::default();
        for list in &mut lists {
            while let Some(slot) = list.first() {
                self.requests.unlink(list, slot);
                self.requests.append(&mut queue, slot);
                let Some(request) = self.requests.get_mut(slot) else { continue };
                if let Some(id) = request.id {
                    self.by_id.remove(&(number, id));
                    request.rewind();
                }
            }
        }
        if let Some(connection) = self.connections.get_mut(at) {
            connection.queue = queue;
        }
    }
}

/// Whether nothing comes of it when somebody sends the query again: it asks, and is no transfer of a zone.
fn may_go_early(wire: &[u8]) -> bool {
    Message::new(wire).is_some_and(|message| {
        message.opcode() == 0 && message.question().is_some_and(|question| !TRANSFERS.contains(&question.qtype))
    })
}
