//! Early data: queries sent before a resumed session is established, and their fate.

use ldplayer_core::{Message, RunTime};

use super::Connections;
use super::connection::Connection;
use super::tls::Tls;
use crate::slab::Slot;

/// Maximum overhead of framing and padding per query, in octets, without padding blocks.
const ADDED: usize = 2 + 4;
/// TYPEs of zone transfers, which need an established session (RFC 9103 §8).
const TRANSFERS: [u16; 2] = [251, 252];

impl Connections {
    /// Octets that a connection can send now although its session is not established.
    pub(super) fn early_room(&self, at: Slot) -> usize {
        self.table.connection(at).and_then(Connection::tls).map_or(0, Tls::early_room)
    }

    /// Appends queued queries as early data, up to the first one that does not fit or is not allowed.
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

    /// Early data has either been accepted, or must be resent before anything else.
    pub(super) fn settle_early(&mut self, at: Slot, is_accepted: bool) {
        if is_accepted {
            self.table.note_early_data(at, true);
        } else if self.table.connection(at).is_some_and(|connection| connection.first_written().is_some()) {
            self.table.unwrite_all(at);
        }
    }
}

/// Whether a query is safe to replay: it is a query, and not a zone transfer.
fn may_go_early(wire: &[u8]) -> bool {
    Message::new(wire).is_some_and(|message| {
        message.opcode() == 0 && message.question().is_some_and(|question| !TRANSFERS.contains(&question.qtype))
    })
}
