//! Sends queries on streams, and reads answers from them.

use ldplayer_core::{Reason, RunTime, Transport};
use quinn_proto::{Dir, ReadError, StreamId, VarInt};

use super::connection::Connection;
use super::http3::{self, Fault};
use super::request::Request;
use super::{Quic, doq};
use crate::budget::PER_STREAM;
use crate::slab::Slot;
use crate::table::{End, Machine, Stage};

/// Octets kept of a stream: the longest message, its framing, and enough to see that more follows.
const KEPT: usize = 70_000;

/// How a read of a stream came out.
enum ReadResult {
    /// More is to come.
    Part,
    /// The server has ended the stream in order.
    Whole,
    /// The server has given the stream up.
    Reset(u64),
    /// What has come is no answer.
    Faulty(Fault),
}

impl Quic {
    /// Writes the requests that are queued on a connection, as far as its server admits streams. The others go on another
    /// connection, where this one has streams on their way: they do not wait for the answers to earlier queries.
    pub(super) fn write_queue(&mut self, at: Slot, now: RunTime) {
        loop {
            let Some(connection) = self.table.connection(at) else { return };
            let (is_open, is_early) = (connection.is_open(), connection.is_early());
            let Some(slot) = connection.first_queued().filter(|_| is_open || is_early) else { return };
            let Some(request) = self.table.request(slot) else { return };
            if is_early && !self.may_be_early(request) {
                return;
            }
            self.begin_http3(at);
            let Some(connection) = self.table.connection_mut(at) else { return };
            let Some(id) = connection.own.session.streams().open(Dir::Bi) else {
                connection.own.is_full = true;
                if is_open && connection.own.streams > 0 {
                    self.move_queue(at, now);
                }
                return;
            };
            self.write_one(at, slot, id, now, is_open);
        }
    }

    fn write_one(&mut self, at: Slot, slot: Slot, id: StreamId, now: RunTime, is_open: bool) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        connection.own.streams += 1;
        let (is_resumed, class) = (is_open && !connection.own.was_checked, connection.class);
        self.table.write(at, slot, id.into());
        if is_open {
            self.table.submit(slot, now);
        }
        let block = self.table.policy(class).padding;
        let Some(request) = self.table.request_mut(slot) else { return };
        request.row.resumed = is_resumed;
        (request.own.output, request.row.query_bytes) = match (&mut self.doh3, request.row.transport) {
            (Some(doh3), Transport::Doh3) => doh3.compose(request.row.server, &request.wire, block),
            _ => doq::compose(&request.wire, block),
        };
        self.write_rest(at, id);
    }

    /// Writes what a stream had no room for.
    pub(super) fn write_rest(&mut self, at: Slot, id: StreamId) {
        let slot = self.table.find_on(at, id.into());
        let Some((connection, request)) = slot.and_then(|slot| self.table.pair_mut(at, slot)) else { return };
        if request.own.output.is_empty() {
            return;
        }
        let mut stream = connection.own.session.send_stream(id);
        // Blocked data stays queued until a writable event; a stopped stream also has an event.
        let _ = stream.write_chunks(std::slice::from_mut(&mut request.own.output));
        if request.own.output.is_empty() {
            let _ = stream.finish();
        }
    }

    /// Gives the requests that are queued on a connection to others.
    pub(super) fn move_queue(&mut self, at: Slot, now: RunTime) {
        let queued = self.table.connection(at).map_or(0, |connection| connection.queued());
        for _ in 0..queued {
            let Some(slot) = self.table.connection(at).and_then(|connection| connection.first_queued()) else { return };
            self.table.detach_queued(at, slot);
            self.assign(now, slot);
        }
    }

    /// What was sent as early data is known to be that, or is written again, since the server has rejected it.
    pub(super) fn settle_early_data(&mut self, at: Slot) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let (number, is_resumed) = (connection.number, !connection.own.was_checked);
        if connection.own.session.accepted_0rtt() {
            return self.table.note_early_data(at, is_resumed);
        }
        if let Some(http3) = &mut connection.own.http3 {
            http3.control = None;
        }
        if std::mem::take(&mut connection.own.streams) == 0 {
            return;
        }
        // Streams are numbered anew, so that streams of timed-out queries are forgotten, too.
        self.table.forget_ids(number);
        self.table.unwrite_all(at);
    }

    /// Takes the octets that arrived on a stream.
    pub(super) fn read(&mut self, at: Slot, id: StreamId, now: RunTime) {
        let Some(slot) = self.table.find_on(at, id.into()) else { return self.pass_over(at, id) };
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        if let Some((came, has_octets)) = self.take_chunks(at, id, slot, &mut content) {
            if has_octets {
                self.table.note_octets(slot, now);
            }
            self.take(at, slot, now, &content, came);
        }
        self.content = content;
    }

    /// Takes the octets that have come of the answer to a request, so that all that is kept of it is in `content`. Returns how
    /// that came out, and whether there were any; `None` where the stream is not read any more.
    fn take_chunks(&mut self, at: Slot, id: StreamId, slot: Slot, content: &mut Vec<u8>) -> Option<(ReadResult, bool)> {
        let (connection, request) = self.table.pair_mut(at, slot)?;
        let is_http3 = connection.own.http3.is_some();
        let mut stream = connection.own.session.recv_stream(id);
        let mut chunks = stream.read(true).ok()?;
        let before = request.own.input.len();
        content.append(&mut request.own.input);
        let mut has_octets = false;
        let came = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    has_octets = true;
                    if let Err(fault) = take_chunk(&chunk.bytes, request, is_http3, content) {
                        break ReadResult::Faulty(fault);
                    }
                }
                Ok(None) => break ReadResult::Whole,
                Err(ReadError::Blocked) => break ReadResult::Part,
                Err(ReadError::Reset(code)) => break ReadResult::Reset(code.into_inner()),
            }
        };
        // The connection is looked after in any case.
        let _ = chunks.finalize();
        connection.own.budget.earn(2 * content.len().saturating_sub(before) as u64);
        Some((came, has_octets))
    }

    /// Reads and drops a stream that nobody waits for, so that it does not fill the connection's window.
    fn pass_over(&mut self, at: Slot, id: StreamId) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let mut stream = connection.own.session.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        while let Ok(Some(_)) = chunks.next(usize::MAX) {}
        // The connection is looked after in any case.
        let _ = chunks.finalize();
    }

    fn take(&mut self, at: Slot, slot: Slot, now: RunTime, content: &[u8], came: ReadResult) {
        match came {
            ReadResult::Part => {
                if let Some(request) = self.table.request_mut(slot) {
                    request.own.input.extend_from_slice(content);
                }
            }
            ReadResult::Reset(code) => self.handle_reset(at, slot, now, code),
            ReadResult::Faulty(fault) => self.handle_fault(at, slot, now, fault),
            ReadResult::Whole => {
                let Some(request) = self.table.request(slot) else { return };
                let message = match request.row.transport {
                    Transport::Doh3 => request.own.response.end().map(|()| content),
                    _ => {
                        doq::split(&request.wire, content).map_err(|doq::Broken| Fault::Connection(doq::PROTOCOL_ERROR))
                    }
                };
                match message {
                    Ok(octets) => self.take_message(slot, now, octets),
                    Err(fault) => self.handle_fault(at, slot, now, fault),
                }
            }
        }
    }

    /// What has come on the stream of a request is no answer.
    fn handle_fault(&mut self, at: Slot, slot: Slot, now: RunTime, fault: Fault) {
        match fault {
            Fault::Stream(reason, code) => {
                self.stop(at, slot, code);
                self.fail_stream(slot, now, reason);
            }
            Fault::Connection(code) => {
                self.fail_stream(slot, now, Reason::Protocol);
                self.abort(at, now, code);
            }
        }
    }

    /// Asks the server to send no more on the stream of a request.
    pub(super) fn stop(&mut self, at: Slot, slot: Slot, code: u32) {
        let stream = self.table.request(slot).and_then(Request::stream);
        if let (Some(id), Some(connection)) = (stream, self.table.connection_mut(at)) {
            // A stream that has ended meanwhile needs no stop.
            let _ = connection.own.session.recv_stream(id).stop(VarInt::from_u32(code));
            self.call(at);
        }
    }

    /// The server has given a stream up. What it says that it has done nothing about is sent again.
    fn handle_reset(&mut self, at: Slot, slot: Slot, now: RunTime, code: u64) {
        let is_http3 = self.table.connection(at).is_some_and(|connection| connection.own.http3.is_some());
        let is_outstanding = self.table.request(slot).is_some_and(|request| request.stage == Stage::Outstanding);
        if is_http3 && is_outstanding && code == u64::from(http3::code::REQUEST_REJECTED) {
            self.detach_written(at, slot);
            self.requeue(slot, now, Reason::StreamReset);
            self.settle(at, now);
        } else {
            self.fail_stream(slot, now, Reason::StreamReset);
        }
    }

    fn take_message(&mut self, slot: Slot, now: RunTime, octets: &[u8]) {
        match self.table.check(slot, octets) {
            Ok(message) => self.answer(slot, now, &message),
            Err(reason) => self.fail_stream(slot, now, reason),
        }
    }

    /// Takes a request that was written off its connection.
    pub(super) fn detach_written(&mut self, at: Slot, slot: Slot) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        connection.own.streams -= 1;
        self.table.detach_written(at, slot);
    }

    /// Ends a connection whose server broke the protocol.
    pub(super) fn abort(&mut self, at: Slot, now: RunTime, code: u32) {
        self.close_with(at, now, code);
        self.requeue_all(at, now, End::Reset, Reason::Protocol);
    }

    fn close_with(&mut self, at: Slot, now: RunTime, code: u32) {
        let instant = self.instant(now);
        if let Some(connection) = self.table.connection_mut(at) {
            connection.own.session.close(instant, VarInt::from_u32(code), bytes::Bytes::new());
        }
    }

    /// Charges a datagram to the server's budget, from which answers are already deducted. The connection ends when the budget is exceeded.
    pub(super) fn charge(&mut self, at: Slot, now: RunTime, cost: u32) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let queries = (connection.taken(), PER_STREAM);
        if !connection.own.budget.spend(cost, queries, now) {
            return;
        }
        let (code, is_open) = (connection.excessive_load(), connection.is_open());
        if self.has_transfer(at) {
            self.table.connection_mut(at).into_iter().for_each(|it| it.own.budget.allow_transfer());
            return;
        }
        self.close_with(at, now, code);
        if is_open {
            self.requeue_all(at, now, End::Flooded, Reason::Flooded);
        } else {
            self.handle_failed(at, Reason::Flooded);
        }
    }

    /// Whether a zone was asked for on a connection, and has not come.
    fn has_transfer(&self, at: Slot) -> bool {
        let mut next = self.table.connection(at).and_then(Connection::first_written);
        while let Some(slot) = next {
            if self.table.request(slot).is_some_and(|request| doq::is_transfer(&request.wire)) {
                return true;
            }
            next = self.table.next(slot);
        }
        false
    }
}

/// Takes octets of an answer.
///
/// # Errors
/// Why it is invalid, if that is known before its end.
fn take_chunk(octets: &[u8], request: &mut Request, is_http3: bool, content: &mut Vec<u8>) -> Result<(), Fault> {
    if is_http3 {
        return request.own.response.receive(octets, content);
    }
    let room = KEPT.saturating_sub(content.len()).min(octets.len());
    content.extend_from_slice(&octets[..room]);
    Ok(())
}
