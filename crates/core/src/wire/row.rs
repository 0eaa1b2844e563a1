//! The rows of batches: queries for workers, and the outcomes that they return.

use bytes::Bytes;

use super::WireError;
use super::read::{Reader, write_address, write_socket_address};
use crate::compare::Answer;
use crate::compare::Differs;
use crate::message::Message;
use crate::outcome::{Reason, Segments, Status};
use crate::time::RunTime;
use crate::transport::Transport;
use crate::{Dependency, Expected, Follows, Outcome, Query};

/// What batches are made of.
pub trait Row: Sized {
    /// The number of this kind in headers.
    const KIND: u8;
    /// Octets that a row has at least.
    const SHORTEST: usize;

    /// Appends the row.
    ///
    /// # Errors
    /// When it has no wire form; nothing is appended then.
    fn write(&self, out: &mut Vec<u8>) -> Result<(), WireError>;

    /// Takes the next row.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError>;
}

/// Which optional parts of a query are there, by bit.
mod part {
    pub const RESPONSE: u8 = 1;
    pub const FOLLOWS: u8 = 1 << 1;
    pub const FOLLOWERS: u8 = 1 << 2;
    pub const ALSO: u8 = 1 << 3;
    pub const UNKNOWN: u8 = !0 << 4;
}

/// Answers that a query waits for beside the last one, at most.
const MOST_ALSO: usize = 255;
/// The longest think time that a query may have, in nanoseconds: added to any time of a run it is a time.
const LONGEST_THINK: u64 = 1 << 61;
/// No class.
const NO_CLASS: u16 = u16::MAX;

impl Row for Query {
    const KIND: u8 = 0;
    const SHORTEST: usize = 36;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let response = self.expected.response();
        ensure_fits(&self.wire)?;
        response.map_or(Ok(()), |response| ensure_fits(response.octets()))?;
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.due.0.to_le_bytes());
        write_address(out, self.client);
        out.extend_from_slice(&self.client_port.to_le_bytes());
        write_socket_address(out, self.server);
        out.push(self.transport as u8);
        write_class(out, self.class);
        // Half of a pair is written as none: pairs are made where queries are sent.
        let follows = self.dependency.as_ref().and_then(|dependency| dependency.follows);
        let followers = self.dependency.as_ref().map_or(0, |dependency| dependency.followers);
        let also = self.dependency.as_ref().map_or(&[][..], |dependency| &dependency.also);
        let also = &also[..also.len().min(MOST_ALSO)];
        let parts = [
            (response.is_some(), part::RESPONSE),
            (follows.is_some(), part::FOLLOWS),
            (followers > 0, part::FOLLOWERS),
            (!also.is_empty(), part::ALSO),
        ];
        out.push(parts.iter().filter(|(is_there, _)| *is_there).fold(0, |bits, (_, bit)| bits | bit));
        if let Some(follows) = follows {
            out.extend_from_slice(&follows.index.to_le_bytes());
            out.extend_from_slice(&follows.think.to_le_bytes());
            out.extend_from_slice(&follows.scheduled.0.to_le_bytes());
        }
        if followers > 0 {
            out.extend_from_slice(&followers.to_le_bytes());
        }
        if !also.is_empty() {
            out.push(also.len() as u8);
            also.iter().for_each(|index| out.extend_from_slice(&index.to_le_bytes()));
        }
        response.into_iter().for_each(|response| write_message(out, response.octets()));
        write_message(out, &self.wire);
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (index, due) = (reader.u64()?, RunTime(reader.i64()?));
        let (client, client_port) = (reader.address()?, reader.u16()?);
        let server = reader.socket_address()?;
        let transport = reader.variant(&Transport::ALL, "transport")?;
        let class = read_class(reader)?;
        let parts = reader.u8()?;
        if parts & part::UNKNOWN != 0 {
            return Err(WireError::Value("flag"));
        }
        let dependency = read_dependency(parts, reader)?;
        let expected = if parts & part::RESPONSE == 0 { Expected::Nothing } else { read_expected(reader)? };
        let wire = read_message(reader)?;
        Ok(Self { index, due, client, client_port, server, transport, class, expected, dependency, wire })
    }
}

/// Which optional fields of an outcome are there, by bit …
mod has {
    pub const CONNECTION: u32 = 1;
    pub const SUBMITTED: u32 = 1 << 1;
    pub const SENT: u32 = 1 << 2;
    pub const FIRST_BYTE: u32 = 1 << 3;
    pub const ANSWERED: u32 = 1 << 4;
    pub const REASON: u32 = 1 << 5;
    pub const RCODE: u32 = 1 << 6;
    pub const CONNECT_NS: u32 = 1 << 7;
    pub const HANDSHAKE_NS: u32 = 1 << 8;
    pub const ANSWER: u32 = 1 << 9;
    pub const SEGMENTS: u32 = 1 << 10;
    /// … and from this bit on its flags.
    pub const FLAGS: u32 = 11;
    /// Bits beyond the last flag.
    pub const UNKNOWN: u32 = !0 << 20;
}

impl Row for Outcome {
    const KIND: u8 = 1;
    const SHORTEST: usize = 42;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        out.extend_from_slice(&presence(self).to_le_bytes());
        out.extend_from_slice(&self.index.to_le_bytes());
        write_address(out, self.client);
        out.extend_from_slice(&self.client_port.to_le_bytes());
        write_socket_address(out, self.server);
        out.extend_from_slice(&[self.transport as u8, self.status as u8]);
        write_class(out, self.class);
        out.extend_from_slice(&self.query_bytes.to_le_bytes());
        out.extend_from_slice(&self.response_bytes.to_le_bytes());
        let times = [Some(self.intended), self.submitted, self.sent, self.first_byte, self.answered];
        let numbers = times.into_iter().flatten().map(|time| time.0).chain(self.connect_ns).chain(self.handshake_ns);
        numbers.for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        self.connection.into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.extend(self.reason.map(|reason| reason as u8));
        self.rcode.into_iter().for_each(|rcode| out.extend_from_slice(&rcode.to_le_bytes()));
        out.extend(self.answer.into_iter().flat_map(|answer| [answer as u8, self.differs.bits()]));
        let counts = self.segments.into_iter().flat_map(|segments| [segments.arrived, segments.resent]);
        counts.for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let present = reader.u32()?;
        if present & has::UNKNOWN != 0 {
            return Err(WireError::Value("flag"));
        }
        let mut row = Self { index: reader.u64()?, client: reader.address()?, ..Self::EMPTY };
        row.client_port = reader.u16()?;
        row.server = reader.socket_address()?;
        row.transport = reader.variant(&Transport::ALL, "transport")?;
        row.status = reader.variant(&Status::ALL, "status")?;
        row.class = read_class(reader)?;
        (row.query_bytes, row.response_bytes) = (reader.u16()?, reader.u16()?);
        row.intended = RunTime(reader.i64()?);
        read_optional(&mut row, present, reader)?;
        set_flags(&mut row, present >> has::FLAGS);
        Ok(row)
    }
}

/// The fields that are not in every row, in the order in which they are written.
fn read_optional(row: &mut Outcome, present: u32, reader: &mut Reader<'_>) -> Result<(), WireError> {
    let mut number = |bit: u32| (present & bit != 0).then(|| reader.i64()).transpose();
    row.submitted = number(has::SUBMITTED)?.map(RunTime);
    row.sent = number(has::SENT)?.map(RunTime);
    row.first_byte = number(has::FIRST_BYTE)?.map(RunTime);
    row.answered = number(has::ANSWERED)?.map(RunTime);
    row.connect_ns = number(has::CONNECT_NS)?;
    row.handshake_ns = number(has::HANDSHAKE_NS)?;
    let is_there = |bit: u32| present & bit != 0;
    row.connection = is_there(has::CONNECTION).then(|| reader.u64()).transpose()?;
    row.reason = is_there(has::REASON).then(|| reader.variant(&Reason::ALL, "reason")).transpose()?;
    row.rcode = is_there(has::RCODE).then(|| reader.u16()).transpose()?;
    if is_there(has::ANSWER) {
        row.answer = Some(reader.variant(&Answer::ALL, "answer")?);
        let [bits] = reader.array()?;
        row.differs = Differs::from_bits(bits).ok_or(WireError::Value("difference"))?;
    }
    if is_there(has::SEGMENTS) {
        row.segments = Some(Segments { arrived: reader.u16()?, resent: reader.u16()? });
    }
    Ok(())
}

fn presence(row: &Outcome) -> u32 {
    let fields = [
        (row.connection.is_some(), has::CONNECTION),
        (row.submitted.is_some(), has::SUBMITTED),
        (row.sent.is_some(), has::SENT),
        (row.first_byte.is_some(), has::FIRST_BYTE),
        (row.answered.is_some(), has::ANSWERED),
        (row.reason.is_some(), has::REASON),
        (row.rcode.is_some(), has::RCODE),
        (row.connect_ns.is_some(), has::CONNECT_NS),
        (row.handshake_ns.is_some(), has::HANDSHAKE_NS),
        (row.answer.is_some(), has::ANSWER),
        (row.segments.is_some(), has::SEGMENTS),
    ];
    let flags = [row.tc, row.ad, row.aa, row.reused, row.resumed, row.early_data, row.resent, row.fell_back];
    let flags = flags.into_iter().chain([row.length_apart]);
    let flags = flags.zip(has::FLAGS..).map(|(is_set, bit)| u32::from(is_set) << bit);
    fields.into_iter().map(|(is_there, bit)| if is_there { bit } else { 0 }).chain(flags).sum()
}

const fn set_flags(row: &mut Outcome, flags: u32) {
    const fn bit(flags: u32, at: u32) -> bool {
        flags >> at & 1 == 1
    }
    (row.tc, row.ad, row.aa, row.reused) = (bit(flags, 0), bit(flags, 1), bit(flags, 2), bit(flags, 3));
    (row.resumed, row.early_data) = (bit(flags, 4), bit(flags, 5));
    (row.resent, row.fell_back, row.length_apart) = (bit(flags, 6), bit(flags, 7), bit(flags, 8));
}

fn write_class(out: &mut Vec<u8>, class: Option<u8>) {
    out.extend_from_slice(&class.map_or(NO_CLASS, u16::from).to_le_bytes());
}

fn read_class(reader: &mut Reader<'_>) -> Result<Option<u8>, WireError> {
    match reader.u16()? {
        NO_CLASS => Ok(None),
        class => u8::try_from(class).map(Some).map_err(|_| WireError::Value("class")),
    }
}

fn read_expected(reader: &mut Reader<'_>) -> Result<Expected, WireError> {
    let octets = read_message(reader)?;
    let is_message = Message::new(&octets).is_some();
    is_message.then_some(Expected::Response(octets)).ok_or(WireError::Value("expected response"))
}

/// What a query waits for, and how many wait for it.
fn read_dependency(parts: u8, reader: &mut Reader<'_>) -> Result<Option<Box<Dependency>>, WireError> {
    let mut dependency = Dependency::default();
    if parts & part::FOLLOWS != 0 {
        let (index, think, scheduled) = (reader.u64()?, reader.i64()?, RunTime(reader.i64()?));
        if think.unsigned_abs() > LONGEST_THINK {
            return Err(WireError::Value("think time"));
        }
        dependency.follows = Some(Follows { index, think, scheduled });
    }
    if parts & part::FOLLOWERS != 0 {
        dependency.followers = reader.u32()?;
    }
    if parts & part::ALSO != 0 {
        let count = reader.u8()?;
        dependency.also = (0..count).map(|_| reader.u64()).collect::<Result<_, _>>()?;
    }
    Ok((dependency != Dependency::default()).then(|| Box::new(dependency)))
}

fn ensure_fits(message: &[u8]) -> Result<(), WireError> {
    u16::try_from(message.len()).map(drop).map_err(|_| WireError::Message(message.len()))
}

/// Writes a message that fits.
fn write_message(out: &mut Vec<u8>, octets: &[u8]) {
    out.extend_from_slice(&(octets.len() as u16).to_le_bytes());
    out.extend_from_slice(octets);
}

fn read_message(reader: &mut Reader<'_>) -> Result<Bytes, WireError> {
    let length = reader.u16()?;
    reader.shared(usize::from(length))
}
