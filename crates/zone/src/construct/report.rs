//! The construction report: what was ignored, where servers disagreed, and what was made up.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// Why a response, or a record set of it, was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A message that is no response.
    NotAResponse,
    /// An opcode other than QUERY.
    Opcode,
    /// No question, so that it is unknown what is answered.
    NoQuestion,
    /// Several questions, or one of another class than IN.
    OddQuestion,
    /// Records that cannot be read.
    Malformed,
    /// Cut off; the answer over TCP counts (RFC 2181 §9).
    Truncated,
    /// A response code that says nothing about the name: SERVFAIL, REFUSED and the like.
    Failed,
    /// Neither authoritative nor a referral: the answer of a resolver or of a lame server.
    NotAuthoritative,
    /// A referral to a zone that is not below one of the server's.
    SidewaysReferral,
    /// Not on the way from the question to its answer.
    Unrelated,
    /// From a server that is not responsible for the name (RFC 2181 §5.4.1).
    NotResponsible,
    /// Signatures whose records were not with them.
    SignaturesAlone,
    /// A record that a DNAME makes (RFC 6672 §3.1).
    Synthesized,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 13] = [
        Self::NotAResponse,
        Self::Opcode,
        Self::NoQuestion,
        Self::OddQuestion,
        Self::Malformed,
        Self::Truncated,
        Self::Failed,
        Self::NotAuthoritative,
        Self::SidewaysReferral,
        Self::Unrelated,
        Self::NotResponsible,
        Self::SignaturesAlone,
        Self::Synthesized,
    ];

    /// The word for it in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NotAResponse => "not_a_response",
            Self::Opcode => "opcode",
            Self::NoQuestion => "no_question",
            Self::OddQuestion => "odd_question",
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::Failed => "failed",
            Self::NotAuthoritative => "not_authoritative",
            Self::SidewaysReferral => "sideways_referral",
            Self::Unrelated => "unrelated",
            Self::NotResponsible => "not_responsible",
            Self::SignaturesAlone => "signatures_alone",
            Self::Synthesized => "synthesized",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What came of a construction. Names are in presentation form.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Responses that were given.
    pub responses: u64,
    /// Responses, or record sets of them, that were left out, by reason.
    pub ignored: BTreeMap<Reason, u64>,
    /// Addresses that responded.
    pub servers: usize,
    /// Whether the responses came to a resolver from the servers that it asked, rather than from one server to many clients.
    pub resolver_side: bool,
    /// Where responses disagreed.
    pub conflicts: Vec<Conflict>,
    /// What was made up so that the zones load and lead to one another.
    pub made: Vec<Made>,
    /// Zones taken at the word of servers that no believed delegation leads to.
    pub unverified: Vec<String>,
    /// Whether lame delegations were to stay lame.
    pub keeps_lame: bool,
    /// Servers of zones that gave no answer of them; empty where lame delegations were not to stay lame.
    pub lame: Vec<Lame>,
}

/// A zone, and the servers it is delegated to in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lame {
    /// The zone, in presentation form.
    pub zone: String,
    /// The servers' addresses, in order.
    pub servers: Vec<IpAddr>,
}

/// Responses that disagreed, and what was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The zone.
    pub zone: String,
    /// The name.
    pub name: String,
    /// The record type, or the two things that do not go together.
    pub what: String,
    /// All versions, the first seen first.
    pub versions: Vec<Version>,
}

/// One of several things that were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its records, or what it is.
    pub records: Vec<String>,
    /// When it was first seen, in ns since 1970.
    pub first_ns: i64,
    /// When it was last seen.
    pub last_ns: i64,
    /// How often it was seen.
    pub count: u64,
    /// Servers that gave it, a few of them.
    pub servers: Vec<IpAddr>,
    /// Whether it is in the zone.
    pub is_taken: bool,
}

/// Something that was made up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// What kind of thing.
    pub kind: MadeKind,
    /// The zone.
    pub zone: String,
    /// The record, or the name.
    pub record: String,
}

/// Kinds of made-up data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MadeKind {
    /// A zone without any data that lies between others.
    Zone,
    /// A SOA record.
    Soa,
    /// NS records of an apex, from the delegation in the parent or made of the addresses that responded.
    ApexNs,
    /// NS records in a parent, from the child's apex.
    Delegation,
    /// A name server's address that was seen elsewhere, or that responded.
    Address,
    /// A name server's address of the range for it: none was seen.
    InventedAddress,
    /// A record below a name that was seen to exist without data.
    EmptyName,
}

impl MadeKind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Zone, Self::Soa, Self::ApexNs, Self::Delegation, Self::Address, Self::InventedAddress, Self::EmptyName];

    /// The word for it in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Zone => "zone",
            Self::Soa => "soa",
            Self::ApexNs => "apex_ns",
            Self::Delegation => "delegation",
            Self::Address => "address",
            Self::InventedAddress => "invented_address",
            Self::EmptyName => "empty_name",
        }
    }
}

impl fmt::Display for MadeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Report {
    pub(super) fn ignore(&mut self, reason: Reason) {
        *self.ignored.entry(reason).or_default() += 1;
    }
}
