//! Early data: queries sent before a resumed session is established, and their fate.

use ldplayer_core::{Message, RunTime};

use super::Connections;
use crate::slab::Slot;

/// Octets that framing and padding add to a query at most, without those of a block.
const ADDED: usize = 2 + 4;
/// TYPEs of zone transfers, which are for sessions that are up (RFC 9103 §8).
const TRANSFERS: [u16; 2] = [251, 252];

impl Connections {
    /// Octets that a connection takes now although its session is not up.
    pub(super) fn early_room(&self, at: Slot) -> usize {
        self.table
            .connection(at)
            .and_then(|connection| connection.own.tls.as_ref())
            .map_or(0, |session| session.early_room())
    }

    /// Appends queued queries as early data, from the first to one that has no room or may not.
    pub(super) fn compose_early(&mut self, at: Slot, now: RunTime, out: &mut Vec<u8>) {
        let Some(connection) = self.table.connection(at) else { return };
        let most = ADDED + usize::from(self.table.policy(connection.class).padding);
        let room = self.early_room(at);
        while room > 0
            && let Some(slot) = self.table.connection(at).and_then(|connection| connection.first_queued())
            && self
                .table
                .request(slot)
                .is_some_and(|request| may_go_early(&request.wire) && out.len() + request.wire.len() + most <= room)
        {
            self.compose_one(at, slot, now, out);
        }
    }

    /// What was sent before the session came up either arrived, or is to be sent again before anything else.
    pub(super) fn settle_early(&mut self, at: Slot, is_accepted: bool) {
        if is_accepted {
            self.table.note_early_data(at, true);
        } else if self.table.connection(at).is_some_and(|connection| connection.first_written().is_some()) {
            self.table.unwrite_all(at);
        }
    }
}

/// Whether nothing comes of it when somebody sends the query again: it asks, and is no transfer of a zone.
fn may_go_early(wire: &[u8]) -> bool {
    Message::new(wire).is_some_and(|message| {
        message.opcode() == 0 && message.question().is_some_and(|question| !TRANSFERS.contains(&question.qtype))
    })
}
