//! Turns a query into the complete reply of an authoritative server (RFC 1034 §4.3.2 and its updates).

mod additional;
mod current;
mod names;
mod proofs;
mod query;
mod referrals;
mod resolve;
mod transfer;
mod writer;

use ldplayer_core::ClientSubnet;
use ldplayer_core::client_subnet::{CLIENT_SUBNET, SCOPE_AT};
use ldplayer_core::message::{HEADER, OPT, Question, flag};

use crate::store::{Pick, Zone};
use current::Current;
use names::Names;
use query::{Edns, Query, rcode};
pub(crate) use referrals::write_referrals;
pub use transfer::serial_of;
pub(crate) use writer::{Owner, Section, Writer};

/// Largest UDP message that a server sends unless told otherwise, in octets (RFC 9715 §3.1 has 1400; NSD, Knot DNS and
/// BIND have this).
pub const UDP_SIZE: u16 = 1232;
/// UDP messages to those who do not tell what they can take (RFC 1035 §4.2.1).
const PLAIN_UDP_SIZE: u16 = 512;
/// Octets of an empty OPT record.
const OPT_LENGTH: usize = 11;
/// Octets of an option before its value.
const OPTION_HEAD: usize = 4;

/// Who knows which zone answers.
pub trait Choose {
    /// The zone for a name in wire format and lower case; `None` if there is none.
    ///
    /// The type is given since DS records of a zone's apex are in its parent (RFC 4035 §3.1.4.1).
    fn choose(&self, qname: &[u8], qtype: u16) -> Option<&Zone>;
}

/// One zone for all questions within it.
impl Choose for Zone {
    fn choose(&self, qname: &[u8], _qtype: u16) -> Option<&Zone> {
        crate::store::is_within(qname, self.apex()).then_some(self)
    }
}

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP: responses above the limit are truncated.
    Udp,
    /// In a stream: up to 65535 octets.
    Tcp,
}

/// What kind of reply was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// Records of the type, or aliases on the way to them.
    Answer,
    /// The name is delegated to others.
    Referral,
    /// The name is there, the type is not (RFC 2308 §2.2).
    NoData,
    /// The name is not there (RFC 2308 §2.1).
    NxDomain,
    /// There is no zone for it, or it is nothing that is done here.
    Refused,
    /// An unknown opcode.
    NotImplemented,
    /// A query that cannot be read.
    FormErr,
    /// Another version of EDNS (RFC 6891 §6.1.3).
    BadVersion,
    /// A name that a DNAME makes too long (RFC 6672 §2.2).
    YxDomain,
    /// Nothing is said: no header, or a response.
    Silent,
}

/// What was replied.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'z, 'q> {
    /// Octets that were appended.
    pub length: usize,
    /// The response code with its upper bits (RFC 6891 §6.1.3).
    pub rcode: u16,
    /// Whether there is a reply at all.
    pub sends: bool,
    /// Whether TC is set.
    pub truncated: bool,
    /// What kind of reply it is.
    pub kind: ReplyKind,
    /// The question, where it could be read.
    pub question: Option<Question<'q>>,
    /// The zone that the answer is from.
    pub zone: Option<&'z Zone>,
}

/// What is kept from one answer to the next so that none allocates. One for each thread.
pub struct Scratch {
    current: Current,
    names: Names,
    written: Vec<u32>,
    denials: Vec<u32>,
    pending: Vec<additional::Pending>,
    udp_size: u16,
    pick: Pick,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            current: Current::new(),
            names: Names::new(),
            written: Vec::with_capacity(64),
            denials: Vec::with_capacity(64),
            pending: Vec::with_capacity(64),
            udp_size: UDP_SIZE,
            pick: Pick::Fixed,
        }
    }
}

impl Scratch {
    /// One with another size of the largest UDP message, in octets; at least 512.
    pub fn with_udp_size(udp_size: u16) -> Self {
        Self { udp_size: udp_size.max(PLAIN_UDP_SIZE), ..Self::default() }
    }

    /// From now on answers take these versions of sets. The subnet that a query names (RFC 7871) goes before the one given here.
    pub fn set_pick(&mut self, pick: Pick) {
        self.pick = pick;
    }

    /// From now on notes where pointers are written, of one message.
    pub(crate) fn note_pointers(&mut self) {
        self.names.pointers.get_or_insert_default().clear();
    }

    pub(crate) fn noted_pointers(&self) -> &[u16] {
        self.names.pointers.as_deref().unwrap_or_default()
    }

    /// The sets of the last answer's zone that it was made of, the additional section's left out: positions of
    /// [`Zone::rrset`].
    pub fn asked(&self) -> &[u32] {
        &self.written
    }
}

/// Replies to a query: appends the message to `out`, if there is anything to say.
///
/// Nothing is allocated once `scratch` and `out` have grown to what answers need.
pub fn respond<'z, 'q>(
    choose: &'z impl Choose,
    query: &'q [u8],
    transport: Transport,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Reply<'z, 'q> {
    scratch.written.clear();
    let Some(mut query) = Query::read(query) else { return silent() };
    query.pick = scratch.pick;
    take_subnet(&mut query);
    let base = out.len();
    begin(&query, out);
    let mut answer = Answered { rcode: query.error.unwrap_or(rcode::NOERROR), ..Answered::default() };
    let mut zone = None;
    if let (None, Some(question)) = (query.error, query.question) {
        scratch.current.set(question.name, HEADER);
        let limit = limit(&query, transport, scratch.udp_size);
        zone = choose.choose(scratch.current.lower(), question.qtype).filter(|zone| zone.class() == question.qclass);
        answer = match zone {
            Some(zone) => resolve::resolve(zone, &query, question, transport, limit, base, scratch, out),
            None => Answered { rcode: rcode::REFUSED, kind: ReplyKind::Refused, ..Answered::default() },
        };
    }
    finish(&query, &answer, scratch.udp_size, base, out);
    let kind = query.error.map_or(answer.kind, kind_of_error);
    let (length, question) = (out.len() - base, query.question);
    Reply { length, rcode: answer.rcode, sends: true, truncated: answer.truncated, kind, question, zone }
}

/// Where answers go by subnet: takes the one that the query names, which the answer repeats (RFC 7871 §7.2.1). Else the option is ignored.
fn take_subnet(query: &mut Query<'_>) {
    let Some(value) = query.client_subnet.take().filter(|_| matches!(query.pick, Pick::BySubnet(_))) else {
        return;
    };
    match ClientSubnet::read(value) {
        Some(named) => (query.pick, query.client_subnet) = (Pick::BySubnet(named.subnet), Some(value)),
        None => query.error = query.error.or(Some(rcode::FORMERR)),
    }
}

const fn silent<'z, 'q>() -> Reply<'z, 'q> {
    Reply { length: 0, rcode: 0, sends: false, truncated: false, kind: ReplyKind::Silent, question: None, zone: None }
}

const fn kind_of_error(error: u16) -> ReplyKind {
    match error {
        rcode::NOTIMP => ReplyKind::NotImplemented,
        rcode::BADVERS => ReplyKind::BadVersion,
        _ => ReplyKind::FormErr,
    }
}

/// What was found out about a question.
struct Answered {
    kind: ReplyKind,
    rcode: u16,
    authoritative: bool,
    truncated: bool,
    counts: [u16; 3],
    /// Bits of the client's subnet that the answer depends on.
    scope: u8,
}

impl Default for Answered {
    fn default() -> Self {
        let (kind, rcode) = (ReplyKind::Refused, rcode::NOERROR);
        Self { kind, rcode, authoritative: false, truncated: false, counts: [0; 3], scope: 0 }
    }
}

/// Most octets of the records of a reply with its header and question, room for the OPT record kept.
fn limit(query: &Query<'_>, transport: Transport, udp_size: u16) -> usize {
    let most = match (transport, query.edns) {
        (Transport::Tcp, _) => u16::MAX,
        (Transport::Udp, None) => PLAIN_UDP_SIZE,
        (Transport::Udp, Some(edns)) => edns.udp_size.clamp(PLAIN_UDP_SIZE, udp_size),
    };
    let options = query.client_subnet.map_or(0, |value| OPTION_HEAD + value.len());
    usize::from(most) - if query.edns.is_some() { OPT_LENGTH + options } else { 0 }
}

/// Appends a header without counts, and the question as it was asked (its case is kept).
fn begin(query: &Query<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&query.octets[..2]);
    out.extend_from_slice(&[0; HEADER - 2]);
    out.extend_from_slice(query.question_octets());
}

/// Fills in the header and appends the OPT record.
fn finish(query: &Query<'_>, answer: &Answered, udp_size: u16, base: usize, out: &mut Vec<u8>) {
    // Opcode and RD are the query's. CD is cleared in authoritative responses (RFC 4035 §3.1.6).
    let mut flags = flag::QR | query.flags & (0x7800 | flag::RD) | answer.rcode & 0xf;
    if answer.authoritative {
        flags |= flag::AA;
    }
    if answer.truncated {
        flags |= flag::TC;
    }
    let [answers, authorities, mut additionals] = answer.counts;
    if let Some(edns) = query.edns {
        push_opt(edns, answer.rcode, udp_size, out);
        push_options(query.client_subnet, answer.scope, out);
        additionals += 1;
    }
    let questions = u16::from(query.question.is_some());
    let header = &mut out[base + 2..base + HEADER];
    for (field, word) in header.chunks_exact_mut(2).zip([flags, questions, answers, authorities, additionals]) {
        field.copy_from_slice(&word.to_be_bytes());
    }
}

/// Appends an OPT record up to the length of its options.
fn push_opt(edns: Edns, rcode: u16, udp_size: u16, out: &mut Vec<u8>) {
    let of_dnssec = if edns.dnssec_ok { flag::DO } else { 0 };
    let ttl = u32::from(rcode >> 4) << 24 | u32::from(of_dnssec);
    out.push(0);
    out.extend_from_slice(&OPT.to_be_bytes());
    out.extend_from_slice(&udp_size.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
}

/// Appends the length of the options, and the only one: the client's subnet, with what the answer depends on.
fn push_options(client_subnet: Option<&[u8]>, scope: u8, out: &mut Vec<u8>) {
    let Some(value) = client_subnet else { return out.extend_from_slice(&[0, 0]) };
    let length = value.len() as u16;
    for word in [OPTION_HEAD as u16 + length, CLIENT_SUBNET, length] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    let start = out.len();
    out.extend_from_slice(value);
    out[start + SCOPE_AT] = scope;
}

#[cfg(test)]
mod tests;
