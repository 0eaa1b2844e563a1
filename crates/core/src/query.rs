//! A query to be sent, as planning makes it from a transaction.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use crate::message::Message;
use crate::time::RunTime;
use crate::transport::Transport;

/// One query with the moment at which it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Row of the transaction in the inputs, from 0; copies that rules make share one.
    pub index: u64,
    /// When it shall be sent, counted from the start of the run.
    pub due: RunTime,
    /// The client as recorded; it keeps one identity through the run.
    pub client: IpAddr,
    /// Source port as recorded, 0 when unknown.
    pub client_port: u16,
    /// Server as recorded.
    pub server: SocketAddr,
    /// Transport to send it over.
    pub transport: Transport,
    /// The class of its client, where clients are parted into some; numbered from 0.
    pub class: Option<u8>,
    /// What its answer is compared with.
    pub expected: Expected,
    /// How it and others wait for one another's answers; `None` of almost all where they do not. Whoever holds queries back takes it.
    pub dependency: Option<Box<Dependency>>,
    /// The message in wire format, without length prefix.
    pub wire: Bytes,
}

/// How a query and others of its client wait for one another's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependency {
    /// What the query waits for.
    pub follows: Option<Follows>,
    /// The [`Self::index`](Query::index) of other queries of its client that must have ended as well.
    pub also: Vec<u64>,
    /// Queries that wait for its own answer.
    pub followers: u32,
}

/// What a query waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follows {
    /// The [`Query::index`] of the query whose answer it waits for, of the same client.
    pub index: u64,
    /// Nanoseconds of the run from that answer to when it is due.
    pub think: i64,
    /// When it is due by the schedule of the recording.
    pub scheduled: RunTime,
}

/// What the answer to a query is compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    #[default]
    Nothing,
    /// A response that is known: a message in wire format.
    Response(Bytes),
    /// The answer of another server that is asked the same at the same time. Whoever asks both makes such pairs: they have no wire form.
    Pair(Pair),
    /// Whatever the lookup expects that the query is an attempt of. Whoever makes attempts judges their answers: they have no wire form.
    Attempt(Attempt),
}

/// One of the queries that a client sends for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Where the lookup is, among those on their way.
    pub lookup: u32,
    /// The number of the lookup, which tells it from those that were in its place before.
    pub serial: u32,
    /// Which attempt, from 0.
    pub number: u8,
    /// The place of its server in the client's list.
    pub server: u8,
    /// Which port it comes from over UDP, among those of the lookup.
    pub port: u8,
    /// The ID of all attempts of the lookup over UDP, as the machine numbers it; `None` for a new one.
    pub id: Option<u16>,
    /// Whether the answer is compared with the expected one.
    pub is_compared: bool,
}

/// One of two queries that ask two servers the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Which pair, among those on their way.
    pub number: u32,
    /// Whether this one goes to the other server, whose answer is the expected one. It is no query of the run.
    pub is_reference: bool,
}

impl Expected {
    /// The expected response; `None` if there is none.
    pub fn response(&self) -> Option<Message<'_>> {
        match self {
            Self::Response(octets) => Message::new(octets),
            Self::Nothing | Self::Pair(_) | Self::Attempt(_) => None,
        }
    }

    /// Whether the query is not one of the run, but goes to the reference server.
    pub const fn is_reference(&self) -> bool {
        matches!(self, Self::Pair(Pair { is_reference: true, .. }))
    }

    /// Whether the query is one of the run by itself, and no query to the reference server or attempt of a lookup.
    pub const fn is_counted(&self) -> bool {
        !matches!(self, Self::Pair(Pair { is_reference: true, .. }) | Self::Attempt(_))
    }
}
