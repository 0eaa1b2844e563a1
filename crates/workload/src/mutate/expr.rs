//! The expressions of `where`, which select the transactions of a rule.

mod parse;

use std::net::IpAddr;

use hashbrown::HashSet;
pub use ldplayer_core::expr::BadExpr;
use ldplayer_core::expr::Relation;
use ldplayer_core::message::{Edns, Question, flag};
use ldplayer_core::name::MAX_NAME;
use ldplayer_core::{Cidr, Message, TraceTime, Transaction, Transport};

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr(ldplayer_core::expr::Expr<Comparison>);

/// A test of one field of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// A truth value.
    Truth(Truth),
    /// A number compared with another one.
    Number(Number, Relation, i64),
    /// A number in a set: types, classes, codes, transports.
    OneOf(Number, Vec<i64>),
    /// An address in one of several blocks.
    Address(End, Vec<Cidr>),
    /// The query name is one of these.
    Named(Names),
    /// The query name is one of these or below one of them.
    Under(Names),
}

/// A boolean field of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// A flag in the header of the query.
    Flag(u16),
    /// The query has an OPT record.
    Edns,
    /// The query has the DO bit.
    DnssecOk,
    /// The response was recorded.
    Answered,
    /// The recorded response was truncated.
    Truncated,
    /// The client's address is IPv6.
    V6,
}

/// A numeric field of a transaction, which may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// QTYPE.
    Qtype,
    /// QCLASS.
    Qclass,
    /// Opcode of the query.
    Opcode,
    /// Response code of the recorded answer, with the bits of EDNS.
    Rcode,
    /// The transport.
    Transport,
    /// UDP payload size of EDNS.
    Size,
    /// Octets of the query.
    Octets,
    /// Octets of the recorded response.
    ResponseOctets,
    /// Number of labels of the name without the root label.
    Labels,
    /// Port of the client.
    Port,
    /// Nanoseconds since the first transaction of the trace.
    Time,
}

/// An end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Names in wire format and lower case.
pub type Names = HashSet<Box<[u8]>, foldhash::fast::FixedState>;

impl std::str::FromStr for Expr {
    type Err = BadExpr;

    fn from_str(text: &str) -> Result<Self, BadExpr> {
        parse::parse(text).map(Self)
    }
}

/// A transaction as it was read, prepared for conditions.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The transaction.
    pub row: &'a Transaction,
    /// Its query.
    pub query: Option<Message<'a>>,
    /// Time of the first transaction of the trace.
    pub first: TraceTime,
}

impl<'a> Seen<'a> {
    /// Prepares a row of a trace that began at `first`.
    pub fn of(row: &'a Transaction, first: TraceTime) -> Self {
        let query = row.query.as_deref().and_then(Message::new);
        Self { row, query, first }
    }

    fn question(&self) -> Option<Question<'a>> {
        self.query?.question()
    }

    /// The fields of the query's OPT record.
    fn edns(&self) -> Option<Edns> {
        self.query?.edns()
    }

    fn response(&self) -> Option<Message<'a>> {
        self.row.response.as_deref().and_then(Message::new)
    }

    fn truth(&self, truth: Truth) -> bool {
        match truth {
            Truth::Flag(bit) => self.query.is_some_and(|query| query.has(bit)),
            Truth::Edns => self.edns().is_some(),
            Truth::DnssecOk => self.edns().is_some_and(|edns| edns.dnssec_ok),
            Truth::Answered => self.row.response.is_some(),
            Truth::Truncated => self.response().is_some_and(|response| response.has(flag::TC)),
            Truth::V6 => self.row.client.is_ipv6(),
        }
    }

    fn number(&self, number: Number) -> Option<i64> {
        Some(match number {
            Number::Qtype => i64::from(self.question()?.qtype),
            Number::Qclass => i64::from(self.question()?.qclass),
            Number::Opcode => i64::from(self.query?.opcode()),
            Number::Rcode => i64::from(self.response()?.rcode()),
            Number::Transport => transport_number(self.row.transport),
            Number::Size => i64::from(self.edns()?.udp_size),
            Number::Octets => self.row.query.as_ref()?.len() as i64,
            Number::ResponseOctets => self.response().filter(|response| !response.is_cut())?.octets().len() as i64,
            Number::Labels => ldplayer_core::name::labels(self.question()?.name).count() as i64,
            Number::Port => i64::from(self.row.client.port()),
            Number::Time => self.row.time - self.first,
        })
    }

    fn address(&self, end: End) -> IpAddr {
        match end {
            End::Client => self.row.client.ip(),
            End::Server => self.row.server.ip(),
        }
    }

    /// Whether one of the names equals the query name or, with `under`, is an ancestor of it. Case is ignored (RFC 4343).
    fn is_named(&self, names: &Names, under: bool) -> bool {
        let Some(question) = self.question() else { return false };
        let mut lower = [0; MAX_NAME];
        let lower = &mut lower[..question.name.len()];
        lower.copy_from_slice(question.name);
        lower.make_ascii_lowercase();
        let mut at = 0;
        loop {
            if names.contains(&lower[at..]) {
                return true;
            }
            match lower[at] {
                0 => return false,
                _ if !under => return false,
                length => at += 1 + usize::from(length),
            }
        }
    }
}

/// A transport among the numbers of expressions.
fn transport_number(transport: Transport) -> i64 {
    transport as i64
}

impl Expr {
    /// Whether the condition holds. A comparison with a missing value is false: without EDNS both `size < 512` and `size != 512` are.
    pub fn holds(&self, seen: &Seen<'_>) -> bool {
        self.0.holds(&|comparison| comparison.holds(seen))
    }
}

impl Comparison {
    fn holds(&self, seen: &Seen<'_>) -> bool {
        match self {
            Self::Truth(truth) => seen.truth(*truth),
            Self::Number(number, relation, wanted) => {
                seen.number(*number).is_some_and(|value| relation.holds(value, *wanted))
            }
            Self::OneOf(number, wanted) => seen.number(*number).is_some_and(|value| wanted.contains(&value)),
            Self::Address(end, blocks) => {
                let address = seen.address(*end);
                blocks.iter().any(|block| block.contains(address))
            }
            Self::Named(names) => seen.is_named(names, false),
            Self::Under(names) => seen.is_named(names, true),
        }
    }
}

#[cfg(test)]
mod tests;
