//! A checked, borrowed view of a DNS message and the edits made in place (RFC 1035 §4.1, RFC 6891 §6.1).

use crate::client_subnet::{CLIENT_SUBNET, ClientSubnet};
use crate::name;

/// Octets of the header.
pub const HEADER: usize = 12;
/// TYPE of the OPT pseudo-record (RFC 6891 §6.1.1).
pub const OPT: u16 = 41;
/// Code of the EDNS option edns-tcp-keepalive (RFC 7828 §3.1).
const KEEPALIVE: u16 = 11;
/// Code of the EDNS option for extended errors (RFC 8914 §2).
const NSID: u16 = 3;
const EXTENDED_ERROR: u16 = 15;
/// Class IN (RFC 1035 §3.2.4).
pub const CLASS_IN: u16 = 1;

/// Header flags as bits of its second 16-bit word (RFC 1035 §4.1.1, RFC 4035 §3).
pub mod flag {
    /// Response.
    pub const QR: u16 = 0x8000;
    /// Authoritative answer.
    pub const AA: u16 = 0x0400;
    /// Truncated.
    pub const TC: u16 = 0x0200;
    /// Recursion desired.
    pub const RD: u16 = 0x0100;
    /// Recursion available.
    pub const RA: u16 = 0x0080;
    /// Reserved.
    pub const Z: u16 = 0x0040;
    /// Authentic data.
    pub const AD: u16 = 0x0020;
    /// Checking disabled.
    pub const CD: u16 = 0x0010;
    /// DNSSEC OK, in the flags of EDNS rather than of the header.
    pub const DO: u16 = 0x8000;
}

/// A message of at least a header. Nothing behind the header is trusted until it is read.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    octets: &'a [u8],
}

/// The first entry of the question section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The name in wire format. Names in a first question cannot be compressed.
    pub name: &'a [u8],
    /// QTYPE.
    pub qtype: u16,
    /// QCLASS.
    pub qclass: u16,
}

impl Question<'_> {
    /// Octets that this question takes in the message.
    pub const fn len(&self) -> usize {
        self.name.len() + 4
    }

    /// A question always has a name; here for the sake of `len`.
    pub const fn is_empty(&self) -> bool {
        false
    }
}

/// Why a message cannot be followed to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// It ends before.
    Short,
    /// A label of an unassigned type (RFC 1035 §4.1.4).
    Label,
}

/// What the OPT record says (RFC 6891 §6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// Requestor's UDP payload size.
    pub udp_size: u16,
    /// Upper eight bits of the response code.
    pub extended_rcode: u8,
    /// EDNS version.
    pub version: u8,
    /// DNSSEC OK.
    pub dnssec_ok: bool,
}

impl<'a> Message<'a> {
    /// A view of `octets`, or `None` where there is not even a header.
    pub fn new(octets: &'a [u8]) -> Option<Self> {
        (octets.len() >= HEADER).then_some(Self { octets })
    }

    /// The whole message.
    pub const fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Message ID.
    pub fn id(&self) -> u16 {
        self.word(0)
    }

    /// All flags, opcode and rcode as one word; see [`flag`].
    pub fn flags(&self) -> u16 {
        self.word(2)
    }

    /// Whether this is a response.
    pub fn is_response(&self) -> bool {
        self.has(flag::QR)
    }

    /// Whether all bits of `flags` are set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags() & flags == flags
    }

    /// Opcode.
    pub fn opcode(&self) -> u8 {
        (self.flags() >> 11) as u8 & 0xf
    }

    /// The four bits of the response code in the header.
    pub fn header_rcode(&self) -> u8 {
        self.flags() as u8 & 0xf
    }

    /// The response code with the eight upper bits of EDNS, where there are any.
    pub fn rcode(&self) -> u16 {
        self.codes().0
    }

    /// The response code with the eight upper bits of EDNS, and the first extended error, in one pass over the message (RFC 8914 §2).
    pub fn codes(&self) -> (u16, Option<u16>) {
        let header = u16::from(self.header_rcode());
        let Some(at) = self.opt_offset() else { return (header, None) };
        let extended = self.octets.get(at + 5).copied().unwrap_or_default();
        let error = self.option_at(at, EXTENDED_ERROR).and_then(|value| word_at(value, 0));
        (u16::from(extended) << 4 | header, error)
    }

    /// Entries of the question, answer, authority and additional sections, as the header claims.
    pub fn counts(&self) -> [u16; 4] {
        [self.word(4), self.word(6), self.word(8), self.word(10)]
    }

    /// The first question; `None` if there is none or it is damaged.
    pub fn question(&self) -> Option<Question<'a>> {
        if self.word(4) == 0 {
            return None;
        }
        let name = plain_name(&self.octets[HEADER..])?;
        let fixed = self.octets.get(HEADER + name.len()..)?;
        Some(Question { name, qtype: word_at(fixed, 0)?, qclass: word_at(fixed, 2)? })
    }

    /// The octets of the first question, as a response repeats them; `None` as for [`Self::question`].
    pub fn question_octets(&self) -> Option<&'a [u8]> {
        let question = self.question()?;
        self.octets.get(HEADER..HEADER + question.len())
    }

    /// Whether `other` asks or answers the same question. Case is ignored (RFC 4343), since servers may not keep it.
    ///
    /// Length octets are below 64 and so never change under ASCII case folding; types and classes are compared as they are.
    pub fn same_question(&self, other: &Self) -> bool {
        match (self.question(), other.question()) {
            (Some(a), Some(b)) => a.qtype == b.qtype && a.qclass == b.qclass && a.name.eq_ignore_ascii_case(b.name),
            (None, None) => true,
            _ => false,
        }
    }

    /// The content of the OPT record; `None` if there is none or it cannot be reached because of damage.
    pub fn edns(&self) -> Option<Edns> {
        let at = self.opt_offset()?;
        let fixed = &self.octets[at + 1..];
        Some(Edns {
            udp_size: word_at(fixed, 2)?,
            extended_rcode: *fixed.get(4)?,
            version: *fixed.get(5)?,
            dnssec_ok: word_at(fixed, 6)? & flag::DO != 0,
        })
    }

    /// How long the server keeps an idle connection, in units of 100 ms, where it says so (RFC 7828 §3.1).
    pub fn keepalive(&self) -> Option<u16> {
        word_at(self.option(KEEPALIVE)?, 0)
    }

    /// The extended error: its code, and the text beside it, which may be empty (RFC 8914 §2).
    pub fn extended_error(&self) -> Option<(u16, &'a [u8])> {
        let value = self.option(EXTENDED_ERROR)?;
        Some((word_at(value, 0)?, &value[2..]))
    }

    /// The identifier of the server that sent this response, where it says it (NSID, RFC 5001 §2.3).
    pub fn nsid(&self) -> Option<&'a [u8]> {
        self.option(NSID).filter(|value| !value.is_empty())
    }

    /// The subnet of the client, where the message has one that is well-formed (RFC 7871 §6).
    pub fn client_subnet(&self) -> Option<ClientSubnet> {
        ClientSubnet::read(self.option(CLIENT_SUBNET)?)
    }

    /// The value of the first EDNS option with this code (RFC 6891 §6.1.2).
    pub fn option(&self, wanted: u16) -> Option<&'a [u8]> {
        self.option_at(self.opt_offset()?, wanted)
    }

    /// The same of the OPT record at `at`.
    fn option_at(&self, at: usize, wanted: u16) -> Option<&'a [u8]> {
        let fixed = &self.octets[at + 1..];
        let mut options = fixed.get(10..10 + usize::from(word_at(fixed, 8)?))?;
        while let (Some(code), Some(length)) = (word_at(options, 0), word_at(options, 2)) {
            let value = options.get(4..4 + usize::from(length))?;
            if code == wanted {
                return Some(value);
            }
            options = &options[4 + value.len()..];
        }
        None
    }

    /// Offset of the OPT record's (root) owner name.
    pub fn opt_offset(&self) -> Option<usize> {
        let [_, answers, authorities, additionals] = self.counts();
        if additionals == 0 {
            return None;
        }
        let mut at = self.behind_questions()?;
        for _ in 0..u32::from(answers) + u32::from(authorities) {
            at = self.record_at(at)?.0;
        }
        for _ in 0..additionals {
            let (next, rtype) = self.record_at(at)?;
            if rtype == OPT && self.octets[at] == 0 {
                return Some(at);
            }
            at = next;
        }
        None
    }

    /// The message without its OPT record (RFC 6891 section 6.1.1); `None` if it has none.
    pub fn without_edns(&self) -> Option<Vec<u8>> {
        let at = self.opt_offset()?;
        let (behind, _) = self.record_at(at)?;
        let [.., additionals] = self.counts();
        let mut octets = [&self.octets[..at], &self.octets[behind..]].concat();
        octets[10..HEADER].copy_from_slice(&additionals.checked_sub(1)?.to_be_bytes());
        Some(octets)
    }

    /// Whether the message ends before the sections that its header counts: the rest was not captured, or never sent.
    pub fn is_cut(&self) -> bool {
        self.end().is_err_and(|broken| broken == Broken::Short)
    }

    /// The offset behind the last record.
    fn end(&self) -> Result<usize, Broken> {
        let [questions, records @ ..] = self.counts();
        let mut at = HEADER;
        for _ in 0..questions {
            at = self.past_name(at)? + 4;
        }
        for _ in 0..records.map(u32::from).iter().sum() {
            let fixed = self.past_name(at)?;
            let length = self.octets.get(fixed..).and_then(|fixed| word_at(fixed, 8)).ok_or(Broken::Short)?;
            at = fixed + 10 + usize::from(length);
        }
        if at > self.octets.len() { Err(Broken::Short) } else { Ok(at) }
    }

    /// Offset behind the question section; `None` when a name in it is damaged. What it points to may lie behind the message.
    pub fn behind_questions(&self) -> Option<usize> {
        let [questions, ..] = self.counts();
        (0..questions).try_fold(HEADER, |at, _| Some(self.skip_name(at)? + 4))
    }

    /// Offset of the data of the record that begins at `at`, if its name is whole.
    pub fn rdata_at(&self, at: usize) -> Option<usize> {
        Some(self.skip_name(at)? + 10)
    }

    /// The offset behind the record that begins at `at`, and the record's type; `None` when it is not whole.
    pub fn record_at(&self, at: usize) -> Option<(usize, u16)> {
        let fixed = self.skip_name(at)?;
        let rest = self.octets.get(fixed..)?;
        let (rtype, length) = (word_at(rest, 0)?, word_at(rest, 8)?);
        let next = fixed + 10 + usize::from(length);
        (next <= self.octets.len()).then_some((next, rtype))
    }

    /// The offset behind the name at `at`; a compression pointer ends it (RFC 1035 §4.1.4).
    fn skip_name(&self, at: usize) -> Option<usize> {
        self.past_name(at).ok()
    }

    fn past_name(&self, mut at: usize) -> Result<usize, Broken> {
        loop {
            let length = *self.octets.get(at).ok_or(Broken::Short)?;
            match length {
                0 => return Ok(at + 1),
                1..=63 => at += 1 + usize::from(length),
                0xc0..=0xff => return Ok(at + 2),
                _ => return Err(Broken::Label),
            }
        }
    }

    /// A 16-bit word of the header.
    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.octets[at], self.octets[at + 1]])
    }
}

/// Sets the message ID in place. Has no effect on messages that are too short.
pub fn set_id(octets: &mut [u8], id: u16) {
    if let Some(field) = octets.get_mut(..2) {
        field.copy_from_slice(&id.to_be_bytes());
    }
}

/// What a query is built from when its message was not recorded.
#[derive(Clone, Copy, Debug)]
pub struct QueryParts<'a> {
    /// Message ID.
    pub id: u16,
    /// Header flags; see [`flag`].
    pub flags: u16,
    /// The name in wire format.
    pub name: &'a [u8],
    /// QTYPE.
    pub qtype: u16,
    /// QCLASS.
    pub qclass: u16,
    /// UDP payload size and DO bit, or no OPT record.
    pub edns: Option<(u16, bool)>,
}

impl QueryParts<'_> {
    /// Appends the message to `wire`.
    pub fn compose(&self, wire: &mut Vec<u8>) {
        for word in [self.id, self.flags, 1, 0, 0, u16::from(self.edns.is_some())] {
            wire.extend_from_slice(&word.to_be_bytes());
        }
        wire.extend_from_slice(self.name);
        wire.extend_from_slice(&self.qtype.to_be_bytes());
        wire.extend_from_slice(&self.qclass.to_be_bytes());
        if let Some((udp_size, dnssec_ok)) = self.edns {
            compose_opt(wire, udp_size, dnssec_ok);
        }
    }
}

/// Appends an empty OPT record (RFC 6891 §6.1.2).
fn compose_opt(wire: &mut Vec<u8>, udp_size: u16, dnssec_ok: bool) {
    wire.push(0);
    let flags = if dnssec_ok { flag::DO } else { 0 };
    for word in [OPT, udp_size, 0, flags, 0] {
        wire.extend_from_slice(&word.to_be_bytes());
    }
}

/// The uncompressed name at the start of `octets`, or `None` if it is damaged, compressed or too long.
fn plain_name(octets: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        match *octets.get(at)? {
            0 => return octets.get(..=at),
            length @ 1..=63 => at += 1 + usize::from(length),
            _ => return None,
        }
        if at >= name::MAX_NAME {
            return None;
        }
    }
}

fn word_at(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(edns: Option<(u16, bool)>) -> Vec<u8> {
        let mut wire = Vec::new();
        let name = b"\x03WWW\x07example\0";
        QueryParts { id: 0x1234, flags: flag::RD, name, qtype: 28, qclass: CLASS_IN, edns }.compose(&mut wire);
        wire
    }

    #[test]
    fn an_extended_error_is_a_code_and_perhaps_a_text() {
        let with = |options: &[u8]| {
            let mut wire = query(Some((1232, false)));
            let at = wire.len() - 2;
            wire[at..].copy_from_slice(&(options.len() as u16).to_be_bytes());
            wire.extend_from_slice(options);
            Message::new(&wire).unwrap().extended_error().map(|(code, text)| (code, text.to_vec()))
        };
        assert_eq!(with(&[0, 11, 0, 2, 1, 2, 0, 15, 0, 4, 0, 22, b'n', b'o']), Some((22, b"no".to_vec())));
        assert_eq!((with(&[0, 15, 0, 2, 0, 9]), with(&[0, 15, 0, 1, 0])), (Some((9, Vec::new())), None));
    }

    #[test]
    fn a_keepalive_is_found_among_other_options() {
        let with = |options: &[u8]| {
            let mut wire = query(Some((1232, false)));
            let at = wire.len() - 2;
            wire[at..].copy_from_slice(&(options.len() as u16).to_be_bytes());
            wire.extend_from_slice(options);
            Message::new(&wire).unwrap().keepalive()
        };
        assert_eq!(with(&[0, 10, 0, 3, 1, 2, 3, 0, 11, 0, 2, 0x01, 0x2c]), Some(300));
        assert_eq!(with(&[0, 11, 0, 0]), None);
        assert_eq!((with(&[0, 11, 0, 9, 1]), with(&[0, 10, 0]), with(&[])), (None, None, None));
        assert_eq!(Message::new(&query(None)).unwrap().keepalive(), None);
    }

    proptest! {
        #[test]
        fn any_options_are_read_without_harm(options in prop::collection::vec(any::<u8>(), 0..40), length in any::<u16>()) {
            let mut wire = query(Some((1232, false)));
            let at = wire.len() - 2;
            wire[at..].copy_from_slice(&length.to_be_bytes());
            wire.extend_from_slice(&options);
            let _ = Message::new(&wire).unwrap().keepalive();
        }
    }

    #[test]
    fn a_composed_query_reads_back() {
        let wire = query(Some((1232, true)));
        let message = Message::new(&wire).unwrap();
        assert_eq!((message.id(), message.flags(), message.opcode()), (0x1234, flag::RD, 0));
        assert_eq!(message.question().unwrap().qtype, 28);
        let edns = Edns { udp_size: 1232, extended_rcode: 0, version: 0, dnssec_ok: true };
        assert_eq!(message.edns(), Some(edns));
        assert_eq!(Message::new(&query(None)).unwrap().edns(), None);
    }

    #[test]
    fn a_message_is_cut_wherever_it_ends_too_early() {
        let whole = query(Some((1232, true)));
        assert!(!Message::new(&whole).unwrap().is_cut());
        for end in HEADER..whole.len() {
            assert!(Message::new(&whole[..end]).unwrap().is_cut(), "{end}");
        }
        let mut wrong = whole.clone();
        wrong[HEADER] = 0x80;
        assert!(!Message::new(&wrong).unwrap().is_cut(), "a label of no type");
    }

    #[test]
    fn domain_reads_the_same() {
        let wire = query(Some((4096, true)));
        let theirs = domain::base::Message::from_octets(&wire[..]).unwrap();
        let opt = theirs.opt().unwrap();
        assert_eq!((opt.udp_payload_size(), opt.dnssec_ok()), (4096, true));
        assert_eq!(theirs.sole_question().unwrap().qname().to_string(), "WWW.example");
    }

    #[test]
    fn questions_are_equal_but_for_case() {
        let (a, mut b) = (query(None), query(Some((512, false))));
        b[13..16].copy_from_slice(b"wWw");
        assert!(Message::new(&a).unwrap().same_question(&Message::new(&b).unwrap()));
        b[13] = b'x';
        assert!(!Message::new(&a).unwrap().same_question(&Message::new(&b).unwrap()));
    }

    #[test]
    fn the_extended_rcode_is_joined() {
        let mut wire = query(Some((1232, false)));
        wire[3] |= 0x0; // BADVERS is 16: low bits 0, high bits 1
        let at = Message::new(&wire).unwrap().opt_offset().unwrap();
        wire[at + 5] = 1;
        assert_eq!(Message::new(&wire).unwrap().rcode(), 16);
    }

    proptest! {
        #[test]
        fn no_octets_make_it_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(message) = Message::new(&octets) {
                let _ = (message.question(), message.question_octets(), message.edns(), message.rcode(), message.is_cut());
                prop_assert!(message.same_question(&message));
            }
        }

        #[test]
        fn counts_that_lie_end_the_walk(octets in prop::collection::vec(any::<u8>(), 0..200), counts in any::<[u8; 8]>()) {
            let mut wire = query(None);
            wire[4..12].copy_from_slice(&counts);
            wire.extend_from_slice(&octets);
            let _ = Message::new(&wire).unwrap().edns();
        }
    }
}
