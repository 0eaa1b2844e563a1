//! Turns a query into the complete reply of an authoritative server (RFC 1034 §4.3.2 and its updates).

mod additional;
mod current;
mod names;
mod proofs;
mod query;
mod referrals;
mod resolve;
mod writer;

use ldplayer_core::message::{HEADER, OPT, Question, flag};

use crate::store::Zone;
use current::Current;
use names::Names;
use query::{Query, rcode};
pub(crate) use referrals::write_referrals;
pub(crate) use writer::{Owner, Section, Writer};

/// Largest UDP message that a server sends unless told otherwise, in octets (RFC 9715 §3.1 has 1400; NSD, Knot DNS and
/// BIND have this).
pub const UDP_SIZE: u16 = 1232;
/// UDP messages to those who do not tell what they can take (RFC 1035 §4.2.1).
const PLAIN_UDP_SIZE: u16 = 512;
/// Octets of an empty OPT record.
const OPT_LENGTH: usize = 11;

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
        }
    }
}

impl Scratch {
    /// One with another size of the largest UDP message, in octets; at least 512.
    pub fn with_udp_size(udp_size: u16) -> Self {
        Self { udp_size: udp_size.max(PLAIN_UDP_SIZE), ..Self::default() }
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
    let Some(query) = Query::read(query) else { return silent() };
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
}

impl Default for Answered {
    fn default() -> Self {
        Self { kind: ReplyKind::Refused, rcode: rcode::NOERROR, authoritative: false, truncated: false, counts: [0; 3] }
    }
}

/// Most octets of the records of a reply with its header and question, room for the OPT record kept.
fn limit(query: &Query<'_>, transport: Transport, udp_size: u16) -> usize {
    let most = match (transport, query.edns) {
        (Transport::Tcp, _) => u16::MAX,
        (Transport::Udp, None) => PLAIN_UDP_SIZE,
        (Transport::Udp, Some(edns)) => edns.udp_size.clamp(PLAIN_UDP_SIZE, udp_size),
    };
    usize::from(most) - if query.edns.is_some() { OPT_LENGTH } else { 0 }
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
        let of_dnssec = if edns.dnssec_ok { flag::DO } else { 0 };
        let ttl = u32::from(answer.rcode >> 4) << 24 | u32::from(of_dnssec);
        out.push(0);
        out.extend_from_slice(&OPT.to_be_bytes());
        out.extend_from_slice(&udp_size.to_be_bytes());
        out.extend_from_slice(&ttl.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        additionals += 1;
    }
    let questions = u16::from(query.question.is_some());
    let header = &mut out[base + 2..base + HEADER];
    for (field, word) in header.chunks_exact_mut(2).zip([flags, questions, answers, authorities, additionals]) {
        field.copy_from_slice(&word.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
