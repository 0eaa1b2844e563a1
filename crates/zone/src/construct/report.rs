//! The construction report: what was ignored, where servers disagreed, and what was invented.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ldplayer_core::Cidr;
use ldplayer_core::name::Presentation;

use crate::rtype;

/// Maximum number of listed records that were left out.
pub const LISTED: usize = 1_000;

/// Why a response, or one of its record sets, was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Not a response.
    NotAResponse,
    /// An opcode other than QUERY.
    Opcode,
    /// No question.
    NoQuestion,
    /// Several questions, or a class other than IN.
    OddQuestion,
    /// Malformed records.
    Malformed,
    /// It ends before its last record: the rest was not captured.
    Cut,
    /// A record that servers refuse: of a length or content that RFCs rule out.
    InvalidRecord,
    /// Truncated; the answer over TCP counts (RFC 2181 §9).
    Truncated,
    /// A response code that is not about the name: SERVFAIL, REFUSED and the like.
    Failed,
    /// Neither authoritative nor a referral: from a resolver or a lame server.
    NotAuthoritative,
    /// Among responses to clients: not from a resolver (RA is not set).
    NotRecursive,
    /// A referral to a zone that is not below one of the server's zones.
    SidewaysReferral,
    /// Not part of the chain from the question to its answer.
    Unrelated,
    /// From a server that is not responsible for the name (RFC 2181 §5.4.1).
    NotResponsible,
    /// Signatures without the records they cover.
    SignaturesAlone,
    /// A CNAME record synthesized from a DNAME record (RFC 6672 §3.1).
    Synthesized,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 16] = [
        Self::NotAResponse,
        Self::Opcode,
        Self::NoQuestion,
        Self::OddQuestion,
        Self::Malformed,
        Self::Cut,
        Self::InvalidRecord,
        Self::Truncated,
        Self::Failed,
        Self::NotAuthoritative,
        Self::NotRecursive,
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
            Self::Cut => "cut",
            Self::InvalidRecord => "invalid_record",
            Self::Truncated => "truncated",
            Self::Failed => "failed",
            Self::NotAuthoritative => "not_authoritative",
            Self::NotRecursive => "not_recursive",
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

/// The outcome of a construction. Names are in presentation form.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Responses read.
    pub responses: u64,
    /// Ignored responses and record sets, by reason.
    pub ignored: BTreeMap<Reason, u64>,
    /// Addresses that responded.
    pub servers: usize,
    /// Whether a resolver gave the responses to its clients. Servers and delegations are then made up.
    pub of_clients: bool,
    /// Whether the responses are from many servers to a resolver, rather than from one server to many clients.
    pub resolver_side: bool,
    /// Where responses disagreed.
    pub conflicts: Vec<Conflict>,
    /// Record sets with all their versions, if these were to be kept.
    pub kept: Vec<KeptSet>,
    /// The time of the first response, in ns since 1970, if versions were to be kept.
    pub kept_start_ns: Option<i64>,
    /// Changes and askers that were too many to be kept.
    pub unkept: u64,
    /// What was invented so that the zones load and can be reached from the root.
    pub made: Vec<Invention>,
    /// Records that servers refuse, each once, at most `LISTED`.
    pub left_out: Vec<LeftOut>,
    /// More of these, each time that they were seen.
    pub left_out_unlisted: u64,
    /// Zones accepted on the word of servers to which no accepted delegation leads.
    pub unverified: Vec<String>,
    /// Whether lame delegations were to stay lame.
    pub keeps_lame: bool,
    /// Servers that never answered for a zone delegated to them; empty if lame delegations were not to stay lame.
    pub lame: Vec<Lame>,
}

/// A record that was left out, because servers refuse it or a zone with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The zone that it would be in; empty where none was built.
    pub zone: String,
    /// Its owner.
    pub name: String,
    /// Its type.
    pub rtype: String,
    /// What is wrong with it.
    pub reason: String,
    pub(super) owner: Vec<u8>,
    pub(super) is_ds: bool,
}

impl LeftOut {
    pub(super) fn new(owner: &[u8], rtype: u16, reason: String) -> Self {
        let (name, is_ds) = (Presentation(owner).to_string(), rtype == rtype::DS);
        Self { zone: String::new(), name, rtype: rtype::name_of(rtype), reason, owner: owner.to_vec(), is_ds }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, rtype, reason, .. } = self;
        write!(f, "{name} {rtype}: {reason}")
    }
}

/// A zone with its lame servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lame {
    /// The zone, in presentation form.
    pub zone: String,
    /// The servers' addresses, in order.
    pub servers: Vec<IpAddr>,
}

/// A record set with all its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSet {
    /// The apex of its zone in wire format.
    pub zone: Vec<u8>,
    /// The owner in wire format.
    pub owner: Vec<u8>,
    /// TYPE.
    pub rtype: u16,
    /// The versions, the first seen first: that one is in the zone.
    pub versions: Vec<KeptVersion>,
}

/// One of its versions. Times are nanoseconds since the first response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptVersion {
    /// The TTL in seconds.
    pub ttl: u32,
    /// The data of its records in wire format.
    pub records: Vec<Vec<u8>>,
    /// The data of their RRSIG records.
    pub signatures: Vec<Vec<u8>>,
    /// How often it was seen.
    pub count: u64,
    /// When it was seen first, and each time that it was seen again after another version.
    pub from_ns: Vec<i64>,
    /// When it was seen last.
    pub last_ns: i64,
    /// Who sent it.
    pub servers: Vec<IpAddr>,
    /// To whom it was sent.
    pub resolvers: Vec<IpAddr>,
    /// The subnets of clients that it was for (RFC 7871).
    pub subnets: Vec<Cidr>,
}

/// Responses that disagreed, and the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The zone.
    pub zone: String,
    /// The name.
    pub name: String,
    /// The record type, or the two things that contradict each other.
    pub what: String,
    /// All versions, the first seen first.
    pub versions: Vec<Version>,
}

/// One of several versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its records, or the denial.
    pub records: Vec<String>,
    /// When it was first seen, in ns since 1970.
    pub first_ns: i64,
    /// When it was last seen.
    pub last_ns: i64,
    /// How often it was seen.
    pub count: u64,
    /// Some of the servers that sent it.
    pub servers: Vec<IpAddr>,
    /// Whether it is in the zone.
    pub is_taken: bool,
}

/// Invented data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invention {
    /// Its kind.
    pub kind: InventionKind,
    /// The zone.
    pub zone: String,
    /// The record, or the name.
    pub record: String,
}

/// Kinds of invented data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InventionKind {
    /// A zone without data between two others.
    Zone,
    /// A SOA record.
    Soa,
    /// NS records at an apex, from the delegation in the parent or from the addresses that responded.
    ApexNs,
    /// NS records in a parent, from the child's apex.
    Delegation,
    /// A name server's address that was seen elsewhere, or that responded.
    Address,
    /// An address from the reserved range, for a name server without any.
    InventedAddress,
    /// A record below a name that exists without data.
    EmptyName,
}

impl InventionKind {
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

impl fmt::Display for InventionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Report {
    pub(super) fn ignore(&mut self, reason: Reason) {
        *self.ignored.entry(reason).or_default() += 1;
    }

    /// Lists a record that is left out, unless it is listed; `false` where it is not added.
    pub(super) fn leave_out(&mut self, one: &LeftOut) -> bool {
        let (is_listed, has_room) = (self.left_out.contains(one), self.left_out.len() < LISTED);
        match (is_listed, has_room) {
            (false, true) => self.left_out.push(one.clone()),
            (false, false) => self.left_out_unlisted += 1,
            _ => {}
        }
        !is_listed && has_room
    }
}
