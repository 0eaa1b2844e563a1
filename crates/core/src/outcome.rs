//! The outcome of one query: a row of a run.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::compare::{Answer, Differs};
use crate::message::{Message, flag};
use crate::query::Follows;
use crate::time::RunTime;
use crate::transport::Transport;

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// A response with the right ID and question came in time.
    Answered,
    /// Nothing came within the query timeout.
    Timeout,
    /// The server's host refused it (ICMP port unreachable, or connection refused).
    Refused,
    /// The connection or the stream of the query ended without its answer.
    Reset,
    /// No connection could be made.
    ConnectFailed,
    /// The TLS handshake failed.
    TlsFailed,
    /// A response that belongs to no query. It adds no query to the accounts.
    Stray,
    /// A response to a query already counted as timed out. It adds no query to the accounts.
    Late,
    /// It was never sent; the reason says why.
    NotSent,
}

impl Status {
    /// Every status, in the order of their discriminants.
    pub const ALL: [Self; 9] = [
        Self::Answered,
        Self::Timeout,
        Self::Refused,
        Self::Reset,
        Self::ConnectFailed,
        Self::TlsFailed,
        Self::Stray,
        Self::Late,
        Self::NotSent,
    ];

    /// The word used in the run directory.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::ConnectFailed => "connect_failed",
            Self::TlsFailed => "tls_failed",
            Self::Stray => "stray",
            Self::Late => "late",
            Self::NotSent => "not_sent",
        }
    }

    /// Whether the row stands for a query of the trace (strays and late answers are extra rows).
    pub const fn is_query(self) -> bool {
        !matches!(self, Self::Stray | Self::Late)
    }

    /// Whether the query left this host and then failed otherwise than by a timeout.
    pub const fn is_failed(self) -> bool {
        matches!(self, Self::Refused | Self::Reset | Self::ConnectFailed | Self::TlsFailed)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a query was not sent or failed, or a response was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// It was to go to the server that it was recorded for, and that is not known.
    NoServer,
    /// The transport is not available in this run.
    Transport,
    /// The run ended (interrupted, or `--stop`) before it was due.
    Interrupted,
    /// The kernel refused the send.
    SendError,
    /// Every query ID of the socket was outstanding.
    OutOfIds,
    /// No local address or port of the needed kind could be used.
    NoSource,
    /// The message is too long for the transport, or too short to be DNS.
    BadMessage,
    /// It was overdue by more than `--max-lag`.
    Lag,
    /// The server's address is of a family that the source has not.
    Family,
    /// A response with a known ID whose question differs (stray), or on the query's own stream (a failure).
    QuestionMismatch,
    /// A response with an ID that is not outstanding (stray).
    UnknownId,
    /// A second response to an answered query (stray).
    Duplicate,
    /// A response that is not a DNS message (stray), or on the query's own stream (a failure).
    Garbage,
    /// No connection came up within the connect timeout.
    ConnectTimeout,
    /// The server's host refused the connection.
    ConnectionRefused,
    /// There is no way to the server, or the kernel ended the attempt otherwise.
    Unreachable,
    /// The server closed the connection in order, with the query outstanding.
    ClosedByServer,
    /// The server reset the connection with the query outstanding.
    ResetByServer,
    /// The TLS handshake failed, or the connection ended in it.
    Handshake,
    /// The server's certificate is out of its time.
    CertificateTime,
    /// The server's certificate is for another name.
    CertificateName,
    /// The server's certificate does not lead to a trusted one, or is invalid otherwise.
    CertificateUntrusted,
    /// The server did not agree to speak what the transport needs (ALPN).
    Alpn,
    /// The server answered with an HTTP status other than 200.
    HttpStatus,
    /// The server ended the stream of the query.
    StreamReset,
    /// The server broke the protocol of the connection.
    Protocol,
    /// The handshake was not through within its timeout.
    HandshakeTimeout,
    /// The server sent too much that is of no use, so that the client closed the connection.
    Flooded,
    /// No packet may come from the client's address, such as one of multicast.
    ClientAddress,
    /// The query that it follows from had no answer, and its client gives up.
    NothingToFollow,
    /// Too many queries waited for answers of others.
    TooManyWaiting,
}

impl Reason {
    /// Every reason, in the order of their discriminants.
    pub const ALL: [Self; 31] = [
        Self::NoServer,
        Self::Transport,
        Self::Interrupted,
        Self::SendError,
        Self::OutOfIds,
        Self::NoSource,
        Self::BadMessage,
        Self::Lag,
        Self::Family,
        Self::QuestionMismatch,
        Self::UnknownId,
        Self::Duplicate,
        Self::Garbage,
        Self::ConnectTimeout,
        Self::ConnectionRefused,
        Self::Unreachable,
        Self::ClosedByServer,
        Self::ResetByServer,
        Self::Handshake,
        Self::CertificateTime,
        Self::CertificateName,
        Self::CertificateUntrusted,
        Self::Alpn,
        Self::HttpStatus,
        Self::StreamReset,
        Self::Protocol,
        Self::HandshakeTimeout,
        Self::Flooded,
        Self::ClientAddress,
        Self::NothingToFollow,
        Self::TooManyWaiting,
    ];

    /// The word used in the run directory.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoServer => "no_server",
            Self::Transport => "transport_not_available",
            Self::Interrupted => "interrupted",
            Self::SendError => "send_error",
            Self::OutOfIds => "out_of_ids",
            Self::NoSource => "no_source_address",
            Self::BadMessage => "bad_message",
            Self::Lag => "lag",
            Self::Family => "address_family",
            Self::QuestionMismatch => "question_mismatch",
            Self::UnknownId => "unknown_id",
            Self::Duplicate => "duplicate",
            Self::Garbage => "garbage",
            Self::ConnectTimeout => "connect_timeout",
            Self::ConnectionRefused => "connection_refused",
            Self::Unreachable => "unreachable",
            Self::ClosedByServer => "closed_by_server",
            Self::ResetByServer => "reset_by_server",
            Self::Handshake => "handshake_failed",
            Self::CertificateTime => "certificate_time",
            Self::CertificateName => "certificate_name",
            Self::CertificateUntrusted => "certificate_untrusted",
            Self::Alpn => "alpn",
            Self::HttpStatus => "http_status",
            Self::StreamReset => "stream_reset",
            Self::Protocol => "protocol_error",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::Flooded => "flooded",
            Self::ClientAddress => "client_address",
            Self::NothingToFollow => "nothing_to_follow",
            Self::TooManyWaiting => "too_many_waiting",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the kernel has counted of a TCP connection; counts saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Segments with data that arrived, each copy of one that was sent again counted.
    pub arrived: u16,
    /// Segments that this host has sent again, the first one (SYN) included.
    pub resent: u16,
}

/// The row a query leaves behind. Fixed size, so that workers record without allocating.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Row of the transaction in the trace. For strays: `u64::MAX`.
    pub index: u64,
    /// The client as recorded, whatever address stands for it in the run. For a stray datagram: the address it was sent to,
    /// where that is known.
    pub client: IpAddr,
    /// Source port used, 0 when none was.
    pub client_port: u16,
    /// Server that was asked.
    pub server: SocketAddr,
    /// Transport used.
    pub transport: Transport,
    /// Connection number within the run, `None` for UDP.
    pub connection: Option<u64>,
    /// When the query was due.
    pub intended: RunTime,
    /// When it was handed to the kernel; `None` if it never was. Over connections: when the call began that wrote it or that
    /// opened its connection, or when it began to wait for either. What is sent again keeps its first time.
    pub submitted: Option<RunTime>,
    /// When the kernel stamped it as sent, if asked for.
    pub sent: Option<RunTime>,
    /// When the first octet of the response arrived; `None` over UDP, where it comes whole.
    pub first_byte: Option<RunTime>,
    /// When the response had arrived as a whole (kernel stamp where there is one).
    pub answered: Option<RunTime>,
    /// How it ended.
    pub status: Status,
    /// Why, for what was not sent, for what failed on a connection, and for strays.
    pub reason: Option<Reason>,
    /// Response code of the response, with the extended bits of EDNS (RFC 6891 §6.1.3).
    pub rcode: Option<u16>,
    /// The first extended error of the response (RFC 8914 §2).
    pub extended_error: Option<u16>,
    /// TC bit of the response.
    pub tc: bool,
    /// AD bit of the response.
    pub ad: bool,
    /// AA bit of the response.
    pub aa: bool,
    /// Octets of the query message.
    pub query_bytes: u16,
    /// Octets of the response message, or 0.
    pub response_bytes: u16,
    /// Connection set-up time in nanoseconds, when this query paid for it.
    pub connect_ns: Option<i64>,
    /// TLS or QUIC handshake time in nanoseconds, when this query paid for it.
    pub handshake_ns: Option<i64>,
    /// What the kernel had counted of its connection when the response was whole: of the first query of a connection over TCP,
    /// if asked for.
    pub segments: Option<Segments>,
    /// Over TCP and TLS: the two octets of the response's length were read before any octet of the response.
    pub length_apart: bool,
    /// Sent on a connection that was already open when the query was due.
    pub reused: bool,
    /// Sent on a connection whose TLS session was resumed.
    pub resumed: bool,
    /// Sent as early data (0-RTT).
    pub early_data: bool,
    /// Sent again on a new connection, since its first one ended before the answer.
    pub resent: bool,
    /// Asked again over TCP, since the answer over UDP was truncated.
    pub fell_back: bool,
    /// Comparison with the expected response; `None` where there is none, and where nothing was asked.
    pub answer: Option<Answer>,
    /// In which fields it differs from that.
    pub differs: Differs,
    /// The class of its client, where clients are parted into some.
    pub class: Option<u8>,
    /// Queries that the client sent for it; 0 of a client that does not react.
    pub attempts: u8,
    /// Whether the client gave up: it had no answer that it takes.
    pub gave_up: bool,
    /// Which of them the row is of, from 0; `None` where it is of all.
    pub attempt: Option<u8>,
    /// The query for whose answer it waited, where it did: when it was due follows from that.
    pub follows: Option<Follows>,
}

impl Outcome {
    /// The row of a query that was never sent.
    pub fn not_sent(query: &crate::Query, reason: Reason) -> Self {
        Self { status: Status::NotSent, reason: Some(reason), ..Self::unfinished(query) }
    }

    /// The row with what its response says.
    pub fn with_response(self, message: &Message<'_>) -> Self {
        let (rcode, extended_error) = message.codes();
        Self {
            rcode: Some(rcode),
            extended_error,
            tc: message.has(flag::TC),
            ad: message.has(flag::AD),
            aa: message.has(flag::AA),
            response_bytes: message.octets().len() as u16,
            ..self
        }
    }

    /// A row with everything known before the query is sent, marked as timed out until an answer comes.
    pub fn unfinished(query: &crate::Query) -> Self {
        Self {
            index: query.index,
            client: query.client,
            server: query.server,
            transport: query.transport,
            class: query.class,
            intended: query.due,
            query_bytes: query.wire.len().min(usize::from(u16::MAX)) as u16,
            ..Self::EMPTY
        }
    }

    /// The row with how its response, if there is one, compares with what was expected. A query without an answer is worse than one
    /// that has one, unless nobody waited for it to the end. A late answer is of a query that was judged before.
    pub fn judged(self, compared: Option<(Answer, Differs)>) -> Self {
        let judged = match (self.status, compared) {
            (Status::Answered, Some(compared)) => Some(compared),
            (Status::Timeout, _) if self.reason == Some(Reason::Interrupted) => None,
            (status, _) if status == Status::Timeout || status.is_failed() => {
                Some((Answer::Worse, Differs::UNANSWERED))
            }
            _ => None,
        };
        let (answer, differs) = judged.unzip();
        Self { answer, differs: differs.unwrap_or_default(), ..self }
    }

    /// A row that says nothing: what others are made from.
    pub const EMPTY: Self = Self {
        index: u64::MAX,
        client: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        client_port: 0,
        server: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        transport: Transport::Udp,
        connection: None,
        intended: RunTime(0),
        submitted: None,
        sent: None,
        first_byte: None,
        answered: None,
        status: Status::Timeout,
        reason: None,
        rcode: None,
        extended_error: None,
        tc: false,
        ad: false,
        aa: false,
        query_bytes: 0,
        response_bytes: 0,
        connect_ns: None,
        handshake_ns: None,
        segments: None,
        length_apart: false,
        reused: false,
        resumed: false,
        early_data: false,
        resent: false,
        fell_back: false,
        answer: None,
        differs: Differs::NOTHING,
        class: None,
        attempts: 0,
        gave_up: false,
        attempt: None,
        follows: None,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_list_every_variant_at_its_place() {
        for (at, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, at);
        }
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
        }
    }

    #[test]
    fn a_status_is_of_one_account_only() {
        let counted = Status::ALL.into_iter().filter(|status| status.is_query());
        for status in counted {
            let accounts =
                [status == Status::Answered, status == Status::Timeout, status.is_failed(), status == Status::NotSent];
            assert_eq!(accounts.into_iter().filter(|&member| member).count(), 1, "{status}");
        }
    }
}
