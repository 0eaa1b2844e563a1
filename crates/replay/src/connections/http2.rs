//! HTTP/2 without sockets, limited to what a DNS-over-HTTPS client needs (RFC 9113, RFC 8484).
//!
//! One [`Http2`] is one connection. Its caller appends requests with [`Http2::open`], passes each received frame to
//! [`Http2::receive`], and writes what [`Http2::take_output`] returns. It keeps nothing of a finished stream.

pub mod frames;
mod hpack;
pub mod huffman;
mod request;
mod table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;

use ldplayer_core::Reason;

pub use self::frames::ErrorCode;
use self::frames::{Frame, append_header, append_reset, append_words, flag, kind};
pub use self::request::Head;
use crate::budget::ITEM;
use crate::doh::integer::append_integer;
use crate::doh::{Block, BlockReader, ResponseHead};

/// The client's connection preface (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum number of streams per connection: their numbers are below 2^31.
pub const STREAMS: u32 = 1 << 30;
/// Concurrent streams assumed before the server has sent its settings (RFC 9113 §6.5.2 recommends allowing at
/// least this many).
pub const STREAMS_AT_ONCE: u32 = 100;
/// Maximum length of a response body: a DNS message.
const BODY: usize = u16::MAX as usize;
/// Maximum length of a header block, including frame headers.
const BLOCK: usize = 1 << 14;
/// Receive window of a stream: a response with as much padding.
const STREAM_WINDOW: u32 = 2 * BODY as u32 + 2;
/// Receive window of a connection. Bodies are limited by number and size, so
/// that this need not limit memory.
const WINDOW: u32 = 1 << 20;
/// Initial window of streams and connections (RFC 9113 §6.9.2).
const DEFAULT_WINDOW: i32 = 65_535;
/// Maximum number of unwritten answers to frames.
const OWED: u16 = 1_000;

/// Settings (RFC 9113 §6.5.2).
mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// A stream waiting for its response.
#[derive(Debug)]
struct Stream {
    number: u32,
    /// The meaning of the final header block.
    head: ResponseHead,
    /// Its send window.
    window: i32,
    /// Octets received, including padding.
    received: u32,
    body: Vec<u8>,
    /// The end of the request, for which the windows had no room.
    unsent: Vec<u8>,
}

/// An incomplete header block.
#[derive(Debug)]
struct PartialBlock {
    stream: u32,
    is_last: bool,
    octets: Vec<u8>,
    /// The cost of the block so far, including empty frames.
    cost: usize,
}

/// The meaning of a frame for requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing.
    Nothing,
    /// The server sent its settings.
    Settings,
    /// A complete response with status 200.
    Response {
        /// Its stream.
        stream: u32,
        /// Its body, of at most 65,535 octets.
        body: Cow<'a, [u8]>,
    },
    /// The header block of a response shows that it is not an answer; its body is not awaited.
    Unusable {
        /// Its stream.
        stream: u32,
        /// The reason.
        reason: Reason,
    },
    /// The server reset a stream.
    Reset {
        /// The stream.
        stream: u32,
        /// Whether the request was not processed (REFUSED_STREAM).
        is_refused: bool,
    },
    /// A response is invalid, or too long for a DNS message. The stream was reset.
    Malformed {
        /// Its stream.
        stream: u32,
    },
    /// The server accepts no new streams, and has not processed those above `last` (RFC 9113 §6.8).
    Leaving {
        /// The last one that it may answer.
        last: u32,
    },
}

/// The client side of an HTTP/2 connection.
#[derive(Debug)]
pub struct Http2 {
    streams: VecDeque<Stream>,
    block: Option<Box<PartialBlock>>,
    table: hpack::Table,
    output: Vec<u8>,
    /// The number of the next stream.
    next: u32,
    /// The send window of the connection …
    window: i32,
    /// … on each new stream, …
    stream_window: i32,
    /// … in a frame, …
    frame: u32,
    /// … and streams that it allows at once.
    most: u32,
    /// Received octets not yet returned to the server's window.
    taken: u32,
    owed: u16,
    /// What came that is of no use, for [`crate::budget`].
    cost: u32,
    is_greeted: bool,
    /// The last stream that the server may answer, once it accepts no new ones.
    last: Option<u32>,
}

impl Http2 {
    /// A connection whose first frames are ready to be written. `most` concurrent streams are assumed until the server has sent its
    /// settings.
    pub fn new(most: u32) -> Self {
        let mut output = PREFACE.to_vec();
        append_settings(
            &mut output,
            &[
                (setting::HEADER_TABLE_SIZE, 0),
                (setting::ENABLE_PUSH, 0),
                (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW),
                (setting::MAX_HEADER_LIST_SIZE, BLOCK as u32),
            ],
        );
        append_words(&mut output, kind::WINDOW_UPDATE, 0, &[WINDOW - DEFAULT_WINDOW as u32]);
        Self {
            streams: VecDeque::new(),
            block: None,
            table: hpack::Table::default(),
            output,
            next: 1,
            window: DEFAULT_WINDOW,
            stream_window: DEFAULT_WINDOW,
            frame: frames::SIZE as u32,
            most,
            taken: 0,
            owed: 0,
            cost: 0,
            is_greeted: false,
            last: None,
        }
    }

    /// The number of streams that may be opened now.
    pub fn room(&self) -> usize {
        if self.is_leaving() || self.next > 2 * STREAMS - 1 {
            return 0;
        }
        (self.most as usize).saturating_sub(self.streams.len())
    }

    /// The server's limit of concurrent streams.
    pub const fn most(&self) -> u32 {
        self.most
    }

    /// The number of streams waiting for a response.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether the server accepts no new streams.
    pub const fn is_leaving(&self) -> bool {
        self.last.is_some()
    }

    /// Whether there is something to write other than requests.
    pub const fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Appends what must be written before requests.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.output);
        self.output = Vec::new();
        self.owed = 0;
    }

    /// Appends a request for the query `wire` and returns its stream. There must be [room](Self::room).
    pub fn open(&mut self, head: &Head, wire: &[u8], out: &mut Vec<u8>) -> u32 {
        let number = self.next;
        self.next += 2;
        let start = out.len();
        out.extend_from_slice(&[0; frames::HEADER]);
        if number == 1 {
            // The table that responses to the server's settings might need is given up before (RFC 7541 §4.2).
            append_integer(out, 0x20, 5, 0);
        }
        head.append(out, wire);
        let last = if head.has_body() { 0 } else { flag::END_STREAM };
        self.frame_block(out, start, last, number);
        let mut stream = Stream {
            number,
            head: ResponseHead::default(),
            window: self.stream_window,
            received: 0,
            body: Vec::new(),
            unsent: Vec::new(),
        };
        if head.has_body() {
            // The ID is 0 (RFC 8484 §4.1).
            let behind = wire.get(2..).unwrap_or_default();
            let room = stream.window.min(self.window).min(self.frame as i32).max(0) as usize;
            if wire.len() <= room {
                append_header(out, wire.len(), kind::DATA, flag::END_STREAM, number);
                out.extend_from_slice(&[0; 2]);
                out.extend_from_slice(behind);
                self.window -= wire.len() as i32;
                stream.window -= wire.len() as i32;
            } else {
                stream.unsent = [&[0; 2], behind].concat();
                send(&mut stream, &mut self.window, self.frame, out);
            }
        }
        self.streams.push_back(stream);
        number
    }

    /// Makes frames of the header block that follows the space for a frame header at `start`.
    fn frame_block(&self, out: &mut Vec<u8>, start: usize, flags: u8, stream: u32) {
        let length = out.len() - start - frames::HEADER;
        let most = self.frame as usize;
        if length <= most {
            let header = frames::header(length, kind::HEADERS, flags | flag::END_HEADERS, stream);
            return out[start..start + frames::HEADER].copy_from_slice(&header);
        }
        let block = out.split_off(start + frames::HEADER);
        out.truncate(start);
        for (at, part) in block.chunks(most).enumerate() {
            let end = if (at + 1) * most >= length { flag::END_HEADERS } else { 0 };
            let (kind, flags) = if at == 0 { (kind::HEADERS, flags) } else { (kind::CONTINUATION, 0) };
            append_header(out, part.len(), kind, flags | end, stream);
            out.extend_from_slice(part);
        }
    }

    /// What has come that is of no use, since the last call.
    pub const fn take_cost(&mut self) -> u32 {
        std::mem::replace(&mut self.cost, 0)
    }

    /// Cancels a stream, unless it has ended. Returns whether there is something to write.
    pub fn cancel(&mut self, stream: u32) -> bool {
        let was_open = self.remove(stream).is_some();
        if was_open {
            append_reset(&mut self.output, stream, ErrorCode::Cancel);
        }
        was_open
    }

    /// Handles a frame.
    ///
    /// # Errors
    /// Why the connection must be closed: the error code for [`frames::append_goaway`].
    pub fn receive<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, ErrorCode> {
        let is_expected = match &self.block {
            Some(block) => frame.kind == kind::CONTINUATION && frame.stream == block.stream,
            None => frame.kind != kind::CONTINUATION,
        };
        let is_greeting = frame.kind == kind::SETTINGS && !frame.has(flag::ACK);
        if !is_expected || !(self.is_greeted || is_greeting) {
            return Err(ErrorCode::Protocol);
        }
        self.cost += ITEM + (frames::HEADER + frame.payload.len()) as u32;
        match frame.kind {
            kind::DATA => self.receive_data(frame),
            kind::HEADERS => self.receive_headers(frame),
            kind::PRIORITY => fixed(frame, 5, false).map(|()| Event::Nothing),
            kind::RST_STREAM => self.receive_reset(frame),
            kind::SETTINGS => self.receive_settings(frame),
            // Pushes are not allowed by our settings (RFC 9113 §8.4).
            kind::PUSH_PROMISE => Err(ErrorCode::Protocol),
            kind::PING => self.receive_ping(frame),
            kind::GOAWAY => self.receive_goaway(frame),
            kind::WINDOW_UPDATE => self.receive_window(frame),
            kind::CONTINUATION => self.receive_continuation(frame),
            _ => Ok(Event::Nothing),
        }
    }

    fn place(&self, stream: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&stream, |stream| stream.number).ok()
    }

    fn remove(&mut self, stream: u32) -> Option<Stream> {
        let removed = self.streams.remove(self.place(stream)?);
        if self.streams.is_empty() && self.streams.capacity() > 4 {
            self.streams = VecDeque::new();
        }
        removed
    }

    /// A frame must be on a stream that we have opened (RFC 9113 §5.1).
    const fn was_opened(&self, stream: u32) -> Result<(), ErrorCode> {
        if stream % 2 == 1 && stream < self.next { Ok(()) } else { Err(ErrorCode::Protocol) }
    }

    /// Octets of a finished stream are dropped: we may have cancelled it.
    fn receive_data<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, ErrorCode> {
        self.was_opened(frame.stream)?;
        let content = frame.content()?;
        self.take(frame.payload.len() as u32)?;
        let Some(place) = self.place(frame.stream) else { return Ok(Event::Nothing) };
        let stream = &mut self.streams[place];
        stream.received += frame.payload.len() as u32;
        if stream.received > STREAM_WINDOW {
            return Err(ErrorCode::FlowControl);
        }
        if !content.is_empty() {
            // The body is bounded, and so is what it costs to take it in pieces; padding is not part of it.
            self.cost -= ITEM + (frames::HEADER + content.len()) as u32;
        }
        let (length, is_last) = (stream.body.len() + content.len(), frame.has(flag::END_STREAM));
        if stream.head.status == 0 || !stream.head.allows(length, is_last) {
            return Ok(self.refuse(frame.stream, ErrorCode::Protocol));
        }
        if length > BODY {
            return Ok(self.refuse(frame.stream, ErrorCode::Cancel));
        }
        if !is_last {
            stream.body.extend_from_slice(content);
            return Ok(Event::Nothing);
        }
        Ok(self.finish(frame.stream, content))
    }

    /// Counts received octets, and returns them to the server's window when half of it is used.
    fn take(&mut self, octets: u32) -> Result<(), ErrorCode> {
        self.taken += octets;
        if self.taken > WINDOW {
            return Err(ErrorCode::FlowControl);
        }
        if self.taken >= WINDOW / 2 {
            append_words(&mut self.output, kind::WINDOW_UPDATE, 0, &[self.taken]);
            self.taken = 0;
            return self.owe();
        }
        Ok(())
    }

    /// Counts a frame that needs an answer: a server that sends many and reads nothing is cut off.
    const fn owe(&mut self) -> Result<(), ErrorCode> {
        self.owed += 1;
        if self.owed > OWED { Err(ErrorCode::EnhanceYourCalm) } else { Ok(()) }
    }

    /// Ends a stream with an invalid response.
    fn refuse<'a>(&mut self, stream: u32, code: ErrorCode) -> Event<'a> {
        self.remove(stream);
        append_reset(&mut self.output, stream, code);
        Event::Malformed { stream }
    }

    /// Ends a stream with its response, whose body ends with `rest`. An unsent rest of the request is dropped.
    fn finish<'a>(&mut self, number: u32, rest: &'a [u8]) -> Event<'a> {
        let Some(mut stream) = self.remove(number) else { return Event::Nothing };
        if !stream.unsent.is_empty() {
            append_reset(&mut self.output, number, ErrorCode::Cancel);
        }
        let body = if stream.body.is_empty() {
            Cow::Borrowed(rest)
        } else {
            stream.body.extend_from_slice(rest);
            Cow::Owned(stream.body)
        };
        Event::Response { stream: number, body }
    }

    fn receive_headers<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, ErrorCode> {
        self.was_opened(frame.stream)?;
        let content = frame.content()?;
        let is_last = frame.has(flag::END_STREAM);
        if frame.has(flag::END_HEADERS) {
            return self.receive_block(frame.stream, is_last, content);
        }
        let cost = frames::HEADER + content.len();
        self.block = Some(Box::new(PartialBlock { stream: frame.stream, is_last, octets: content.to_vec(), cost }));
        Ok(Event::Nothing)
    }

    fn receive_continuation<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, ErrorCode> {
        let Some(mut block) = self.block.take() else { return Err(ErrorCode::Protocol) };
        block.cost += frames::HEADER + frame.payload.len();
        if block.cost > BLOCK {
            return Err(ErrorCode::EnhanceYourCalm);
        }
        block.octets.extend_from_slice(frame.payload);
        if frame.has(flag::END_HEADERS) {
            return self.receive_block(block.stream, block.is_last, &block.octets);
        }
        self.block = Some(block);
        Ok(Event::Nothing)
    }

    /// Handles a complete header block: of an interim response, of the final one, or of trailers (RFC 9113 §8.1).
    fn receive_block<'a>(&mut self, number: u32, is_last: bool, block: &[u8]) -> Result<Event<'a>, ErrorCode> {
        let head = read_block(&mut self.table, block).map_err(|hpack::Unreadable| ErrorCode::Compression)?;
        let Some(place) = self.place(number) else { return Ok(Event::Nothing) };
        let stream = &mut self.streams[place];
        match (stream.head.status, head) {
            (0, Block::Response(head)) if head.status >= 200 => stream.head = head,
            (0, Block::Response(_)) if !is_last => return Ok(Event::Nothing),
            (200.., Block::Trailers) if is_last && stream.head.allows(stream.body.len(), true) => {
                return Ok(self.finish(number, &[]));
            }
            _ => return Ok(self.refuse(number, ErrorCode::Protocol)),
        }
        Ok(match stream.head.check() {
            Err(reason) => self.discard(number, reason, is_last),
            Ok(()) if !is_last => Event::Nothing,
            Ok(()) if stream.head.allows(0, true) => self.finish(number, &[]),
            Ok(()) => self.refuse(number, ErrorCode::Protocol),
        })
    }

    /// Ends a stream whose response is not an answer. The server need not send the rest of it.
    fn discard<'a>(&mut self, stream: u32, reason: Reason, is_last: bool) -> Event<'a> {
        let has_unsent = self.remove(stream).is_some_and(|stream| !stream.unsent.is_empty());
        if has_unsent || !is_last {
            append_reset(&mut self.output, stream, ErrorCode::Cancel);
        }
        Event::Unusable { stream, reason }
    }

    fn receive_reset<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, ErrorCode> {
        fixed(frame, 4, false)?;
        self.was_opened(frame.stream)?;
        let is_refused = frame.word(0) == Some(ErrorCode::RefusedStream as u32);
        let stream = self.remove(frame.stream);
        Ok(stream.map_or(Event::Nothing, |stream| Event::Reset { stream: stream.number, is_refused }))
    }

    fn receive_settings<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, ErrorCode> {
        let length = frame.payload.len();
        if frame.stream != 0 {
            return Err(ErrorCode::Protocol);
        }
        if !length.is_multiple_of(6) || (frame.has(flag::ACK) && length > 0) {
            return Err(ErrorCode::FrameSize);
        }
        if frame.has(flag::ACK) {
            return Ok(Event::Nothing);
        }
        if !std::mem::replace(&mut self.is_greeted, true) {
            self.most = u32::MAX;
        }
        for setting in frame.payload.chunks_exact(6) {
            let (number, value) = setting.split_at(2);
            let value = value.first_chunk().map_or(0, |value| u32::from_be_bytes(*value));
            self.set(u16::from_be_bytes([number[0], number[1]]), value)?;
        }
        append_header(&mut self.output, 0, kind::SETTINGS, flag::ACK, 0);
        self.owe()?;
        self.send_rests();
        Ok(Event::Settings)
    }

    fn set(&mut self, number: u16, value: u32) -> Result<(), ErrorCode> {
        match number {
            // Only clients may allow pushes (RFC 9113 §6.5.2).
            setting::ENABLE_PUSH if value != 0 => return Err(ErrorCode::Protocol),
            setting::MAX_CONCURRENT_STREAMS => self.most = value,
            setting::INITIAL_WINDOW_SIZE => {
                let window = i32::try_from(value).map_err(|_| ErrorCode::FlowControl)?;
                // Windows of open streams change by the difference, and may fall below 0 (RFC 9113 §6.9.2).
                let more = window - self.stream_window;
                self.stream_window = window;
                for stream in &mut self.streams {
                    stream.window = stream.window.checked_add(more).ok_or(ErrorCode::FlowControl)?;
                }
            }
            setting::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => return Err(ErrorCode::Protocol),
            setting::MAX_FRAME_SIZE => self.frame = value,
            _ => {}
        }
        Ok(())
    }

    fn receive_ping<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, ErrorCode> {
        fixed(frame, 8, true)?;
        if !frame.has(flag::ACK) {
            append_header(&mut self.output, 8, kind::PING, flag::ACK, 0);
            self.output.extend_from_slice(frame.payload);
            self.owe()?;
        }
        Ok(Event::Nothing)
    }

    /// The server sends GOAWAY with one of the client's streams, or none, and never a higher one later (RFC 9113 §6.8).
    fn receive_goaway<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, ErrorCode> {
        if frame.stream != 0 {
            return Err(ErrorCode::Protocol);
        }
        let (Some(last), Some(_code)) = (frame.word(0), frame.word(1)) else { return Err(ErrorCode::FrameSize) };
        let last = last & (u32::MAX >> 1);
        let is_ours = last == 0 || last % 2 == 1;
        if !is_ours || self.last.is_some_and(|told| told < last) {
            return Err(ErrorCode::Protocol);
        }
        self.last = Some(last);
        let kept = self.streams.partition_point(|stream| stream.number <= last);
        self.streams.truncate(kept);
        Ok(Event::Leaving { last })
    }

    fn receive_window<'a>(&mut self, frame: &Frame<'a>) -> Result<Event<'a>, ErrorCode> {
        let more = frame.word(0).filter(|_| frame.payload.len() == 4).ok_or(ErrorCode::FrameSize)?;
        let more = (more & (u32::MAX >> 1)) as i32;
        if frame.stream == 0 {
            let window = self.window.checked_add(more).filter(|_| more > 0);
            self.window = window.ok_or(if more == 0 { ErrorCode::Protocol } else { ErrorCode::FlowControl })?;
        } else {
            self.was_opened(frame.stream)?;
            let Some(place) = self.place(frame.stream) else { return Ok(Event::Nothing) };
            let stream = &mut self.streams[place];
            match stream.window.checked_add(more) {
                Some(window) if more > 0 => stream.window = window,
                Some(_) => return Ok(self.refuse(frame.stream, ErrorCode::Protocol)),
                None => return Ok(self.refuse(frame.stream, ErrorCode::FlowControl)),
            }
        }
        self.send_rests();
        Ok(Event::Nothing)
    }

    /// Sends as much of incomplete requests as the windows allow, oldest first.
    fn send_rests(&mut self) {
        for stream in self.streams.iter_mut().filter(|stream| !stream.unsent.is_empty()) {
            send(stream, &mut self.window, self.frame, &mut self.output);
        }
    }
}

/// Appends as much of the rest of a request as the windows allow.
fn send(stream: &mut Stream, window: &mut i32, frame: u32, out: &mut Vec<u8>) {
    let room = stream.window.min(*window).max(0) as usize;
    let length = stream.unsent.len().min(room);
    let rest = stream.unsent.split_off(length);
    let parts = stream.unsent.chunks(frame as usize);
    let count = parts.len();
    for (at, part) in parts.enumerate() {
        let end = if rest.is_empty() && at + 1 == count { flag::END_STREAM } else { 0 };
        append_header(out, part.len(), kind::DATA, end, stream.number);
        out.extend_from_slice(part);
    }
    stream.unsent = rest;
    stream.window -= length as i32;
    *window -= length as i32;
}

fn append_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    append_header(out, 6 * settings.len(), kind::SETTINGS, 0, 0);
    for (number, value) in settings {
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Checks the length of a frame with a fixed size, and whether it is on the connection or on a stream.
const fn fixed(frame: &Frame<'_>, length: usize, on_connection: bool) -> Result<(), ErrorCode> {
    if (frame.stream == 0) != on_connection {
        return Err(ErrorCode::Protocol);
    }
    if frame.payload.len() == length { Ok(()) } else { Err(ErrorCode::FrameSize) }
}

/// Reads a header block.
fn read_block(table: &mut hpack::Table, block: &[u8]) -> Result<Block, hpack::Unreadable> {
    let mut reader = BlockReader::default();
    table.read(block, |meaning| reader.take(meaning))?;
    Ok(reader.end())
}
