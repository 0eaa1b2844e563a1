//! The columns of text and Parquet traces: extracted from a query message, and composed into one.

use std::fmt::{self, Write};
use std::net::IpAddr;

use bytes::{Bytes, BytesMut};
use domain::base::iana::{Class, Opcode, OptRcode, Rtype};
use ldplayer_core::message::{self, Message, QueryParts, Question, flag};
use ldplayer_core::name;

/// The text for a missing value: no question, no flag, no EDNS.
pub const NOTHING: &str = "-";

/// The bits of the second header word kept in the columns: all but QR and the response code.
const KEPT_FLAGS: u16 = 0x7ff0;
const OPCODE_SHIFT: u16 = 11;
const OPCODE_MASK: u16 = 0x7800;

/// The names of the header flags, in the order of the header (RFC 1035 §4.1.1, RFC 4035 §3).
const FLAG_WORDS: [(&str, u16); 7] = [
    ("aa", flag::AA),
    ("tc", flag::TC),
    ("rd", flag::RD),
    ("ra", flag::RA),
    ("z", flag::Z),
    ("ad", flag::AD),
    ("cd", flag::CD),
];

/// The columns of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns<'a> {
    /// The question; `None` if it is missing or damaged.
    pub question: Option<Question<'a>>,
    /// Header flags with the opcode, without QR and response code.
    pub flags: u16,
    /// UDP payload size and DO bit, or no OPT record.
    pub edns: Option<(u16, bool)>,
}

impl<'a> Columns<'a> {
    /// Extracts the columns from a query.
    pub fn of(message: &Message<'a>) -> Self {
        Self {
            question: message.question(),
            flags: message.flags() & KEPT_FLAGS,
            edns: message.edns().map(|edns| (edns.udp_size, edns.dnssec_ok)),
        }
    }

    /// Composes the message and appends it. Without a question it is a header and possibly an OPT record.
    pub fn compose(&self, id: u16, wire: &mut Vec<u8>) {
        let start = wire.len();
        let question = self.question.unwrap_or(Question { name: &[0], qtype: 0, qclass: 0 });
        let Question { name, qtype, qclass } = question;
        QueryParts { id, flags: self.flags, name, qtype, qclass, edns: self.edns }.compose(wire);
        if self.question.is_none() {
            let questions_at = start + message::HEADER;
            wire.drain(questions_at..questions_at + question.len());
            wire[start + 5] = 0;
        }
    }
}

/// Composes messages into shared memory, to save allocations.
#[derive(Debug, Default)]
pub struct Composer {
    arena: BytesMut,
    scratch: Vec<u8>,
}

impl Composer {
    const ARENA: usize = 64 * 1024;

    /// The message that has these columns.
    pub fn compose(&mut self, columns: &Columns<'_>, id: u16) -> Bytes {
        self.scratch.clear();
        columns.compose(id, &mut self.scratch);
        if self.arena.capacity() < self.scratch.len() {
            self.arena = BytesMut::with_capacity(Self::ARENA);
        }
        self.arena.extend_from_slice(&self.scratch);
        self.arena.split().freeze()
    }
}

/// IANA's mnemonic of a type that the library writes without the hyphen.
const NSAP_PTR: (&str, u16) = ("NSAP-PTR", 23);
/// Mnemonics that the library does not read: that one, and BIND's own.
const MORE_TYPES: [(&str, u16); 3] = [NSAP_PTR, ("RESERVED0", 0), ("KEYDATA", 65_533)];

/// A type as its mnemonic, or as `TYPE65280` (RFC 3597 §5).
pub fn type_name(qtype: u16) -> impl fmt::Display {
    Named { mnemonic: mnemonic(qtype), kind: "TYPE", number: qtype }
}

/// A type as dnsperf reads it: it knows no mnemonic that is newer than AMTRELAY, and takes `TA` for `TALINK`.
pub fn type_name_of_dnsperf(qtype: u16) -> impl fmt::Display {
    let is_known = matches!(qtype, 1..=65 | 99..=109 | 249..=260);
    Named { mnemonic: mnemonic(qtype).filter(|_| is_known), kind: "TYPE", number: qtype }
}

fn mnemonic(qtype: u16) -> Option<&'static str> {
    if qtype == NSAP_PTR.1 { Some(NSAP_PTR.0) } else { Rtype::from_int(qtype).to_mnemonic_str() }
}

/// A class as its mnemonic, or as `CLASS32` (RFC 3597 §5).
pub fn class_name(qclass: u16) -> impl fmt::Display {
    Class::from_int(qclass)
}

/// A response code as its mnemonic, or as `RCODE3841`.
pub fn rcode_name(rcode: u16) -> impl fmt::Display {
    // Messages have twelve bits for it, so masking loses nothing.
    let mnemonic = OptRcode::masked_from_int(rcode).to_mnemonic_str();
    Named { mnemonic, kind: "RCODE", number: rcode }
}

/// An opcode as its mnemonic, or as `OPCODE7`.
pub fn opcode_name(opcode: u8) -> impl fmt::Display {
    let mnemonic = Opcode::from_int(opcode).to_mnemonic_str();
    Named { mnemonic, kind: "OPCODE", number: u16::from(opcode) }
}

struct Named {
    mnemonic: Option<&'static str>,
    kind: &'static str,
    number: u16,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mnemonic {
            Some(mnemonic) => f.write_str(mnemonic),
            None => write!(f, "{}{}", self.kind, self.number),
        }
    }
}

/// Parses an address; an IPv4-mapped one is IPv4 (RFC 4291 §2.5.5.2).
pub fn parse_address(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Parses a type: mnemonic in any case, `TYPE65` or a bare number.
pub fn parse_type(word: &str) -> Option<u16> {
    let other = || MORE_TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|&(_, number)| number);
    word.parse().ok().or_else(|| word.parse().map(Rtype::to_int).ok()).or_else(other)
}

/// Parses a class: mnemonic in any case, `CLASS3` or a bare number.
pub fn parse_class(word: &str) -> Option<u16> {
    word.parse().ok().or_else(|| word.parse().map(Class::to_int).ok())
}

/// Parses a response code: mnemonic in any case, `RCODE3841` or a bare number, up to 4095.
pub fn parse_rcode(word: &str) -> Option<u16> {
    let named = || (0..4_096).find(|&rcode| rcode_name(rcode).to_string().eq_ignore_ascii_case(word));
    word.parse().ok().filter(|&rcode| rcode < 4_096).or_else(named)
}

/// Parses a name into `wire`, replacing its content.
pub fn parse_name(text: &str, wire: &mut Vec<u8>) -> Result<(), name::BadName> {
    wire.clear();
    name::parse(text, wire)
}

/// Flags as `rd,cd`, an opcode other than QUERY first, as in `notify,aa`; [`NOTHING`] when there are none.
pub fn write_flags(out: &mut String, flags: u16) {
    let start = out.len();
    let opcode = opcode_of(flags);
    if opcode != 0 {
        let _ = write!(out, "{},", opcode_name(opcode));
        out[start..].make_ascii_lowercase();
    }
    for (word, _) in FLAG_WORDS.iter().filter(|(_, bit)| flags & bit != 0) {
        out.push_str(word);
        out.push(',');
    }
    if out.pop_if_longer(start).is_none() {
        out.push_str(NOTHING);
    }
}

/// The opcode in a word of flags.
pub fn opcode_of(flags: u16) -> u8 {
    ((flags & OPCODE_MASK) >> OPCODE_SHIFT) as u8
}

/// The flags that `opcode` (0 to 15) sets.
pub fn opcode_flags(opcode: u8) -> u16 {
    (u16::from(opcode) << OPCODE_SHIFT) & OPCODE_MASK
}

/// Parses the output of [`write_flags`], in any order and case.
pub fn parse_flags(text: &str) -> Option<u16> {
    if text == NOTHING || text.is_empty() {
        return Some(0);
    }
    text.split(',').map(str::trim).try_fold(0, |flags, word| Some(flags | flag_bits(word)?))
}

fn flag_bits(word: &str) -> Option<u16> {
    let known = FLAG_WORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    known.map(|&(_, bit)| bit).or_else(|| parse_opcode(word).map(opcode_flags))
}

/// Parses an opcode: mnemonic in any case, `OPCODE7` or a bare number, up to 15.
pub fn parse_opcode(word: &str) -> Option<u8> {
    let number = || {
        let prefix = word.get(..6).filter(|prefix| prefix.eq_ignore_ascii_case("opcode"));
        word[prefix.map_or(0, str::len)..].parse().ok()
    };
    let opcode = Opcode::from_mnemonic(word.as_bytes()).map(Opcode::to_int).or_else(number)?;
    (opcode <= 15).then_some(opcode)
}

/// EDNS as `1232,do`, `1232` or [`NOTHING`].
pub fn write_edns(out: &mut String, edns: Option<(u16, bool)>) {
    let _ = match edns {
        Some((size, true)) => write!(out, "{size},do"),
        Some((size, false)) => write!(out, "{size}"),
        None => out.write_str(NOTHING),
    };
}

/// Parses the output of [`write_edns`]; `None` if malformed.
pub fn parse_edns(text: &str) -> Option<Option<(u16, bool)>> {
    if text == NOTHING || text.is_empty() {
        return Some(None);
    }
    let (size, dnssec_ok) = match text.split_once(',') {
        Some((size, word)) if word.trim().eq_ignore_ascii_case("do") => (size, true),
        Some(_) => return None,
        None => (text, false),
    };
    Some(Some((size.trim().parse().ok()?, dnssec_ok)))
}

trait PopIfLonger {
    /// Takes the last character away if the text is longer than `start`.
    fn pop_if_longer(&mut self, start: usize) -> Option<char>;
}

impl PopIfLonger for String {
    fn pop_if_longer(&mut self, start: usize) -> Option<char> {
        if self.len() > start { self.pop() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flags_text(flags: u16) -> String {
        let mut text = String::new();
        write_flags(&mut text, flags);
        text
    }

    #[test]
    fn every_type_class_and_opcode_is_read_back() {
        for number in 0..=u16::MAX {
            assert_eq!(parse_type(&type_name(number).to_string()), Some(number));
            assert_eq!(parse_class(&class_name(number).to_string()), Some(number));
        }
        for opcode in 0..16 {
            assert_eq!(parse_opcode(&opcode_name(opcode).to_string()), Some(opcode));
        }
        assert_eq!((parse_type("aaaa"), parse_type("65"), parse_type("HTTPZ")), (Some(28), Some(65), None));
        assert_eq!((parse_opcode("OPCODE16"), parse_opcode("")), (None, None));
    }

    /// What IANA, BIND and dnsperf call them; `NSAP-PTR` was unknown.
    #[test]
    fn types_are_known_by_every_name() {
        let read =
            ["NSAP-PTR", "nsapptr", "RESERVED0", "KEYDATA", "type065", "TYPE0", "A6", "TA", "HHIT"].map(parse_type);
        let numbers = [23, 23, 0, 65_533, 65, 0, 38, 32_768, 67];
        assert_eq!(read, numbers.map(Some));
        assert_eq!([23, 0, 65_533].map(|number| type_name(number).to_string()), ["NSAP-PTR", "TYPE0", "TYPE65533"]);
        assert_eq!(
            [32_768, 261, 23].map(|number| type_name_of_dnsperf(number).to_string()),
            ["TYPE32768", "TYPE261", "NSAP-PTR"]
        );
    }

    #[test]
    fn response_codes_have_their_names() {
        let names = [0, 3, 16, 3841].map(|rcode| rcode_name(rcode).to_string());
        assert_eq!(names, ["NOERROR", "NXDOMAIN", "BADVERS", "RCODE3841"]);
        assert!((0..4_096).step_by(15).all(|rcode| parse_rcode(&rcode_name(rcode).to_string()) == Some(rcode)));
        assert_eq!((parse_rcode("nxdomain"), parse_rcode("4096"), parse_rcode("OK")), (Some(3), None, None));
    }

    #[test]
    fn flags_read_as_the_interface_says() {
        assert_eq!(flags_text(flag::RD | flag::CD), "rd,cd");
        assert_eq!(flags_text(0), "-");
        assert_eq!(flags_text(opcode_flags(4) | flag::AA), "notify,aa");
        assert_eq!(parse_flags("CD, rd"), Some(flag::RD | flag::CD));
        assert_eq!((parse_flags("rd,xx"), parse_flags("rd,,cd")), (None, None));
    }

    #[test]
    fn edns_reads_as_the_interface_says() {
        assert_eq!(parse_edns("1232,do"), Some(Some((1232, true))));
        assert_eq!(parse_edns("-"), Some(None));
        assert_eq!((parse_edns("1232,dont"), parse_edns("70000"), parse_edns("do")), (None, None, None));
    }

    #[test]
    fn a_message_without_question_stays_one() {
        let columns = Columns { question: None, flags: flag::RD, edns: Some((4096, true)) };
        let mut wire = b"before".to_vec();
        columns.compose(7, &mut wire);
        let message = Message::new(&wire[6..]).unwrap();
        assert_eq!((message.id(), message.counts()), (7, [0, 0, 0, 1]));
        assert_eq!(Columns::of(&message), columns);
    }

    proptest! {
        #[test]
        fn columns_survive_the_message_and_the_text(flags: u16, edns: Option<(u16, bool)>, qtype: u16, qclass: u16, asked: bool) {
            let question = asked.then_some(Question { name: b"\x01.\x03\\a \0", qtype, qclass });
            let columns = Columns { question, flags: flags & KEPT_FLAGS, edns };
            let wire = Composer::default().compose(&columns, 1);
            prop_assert_eq!(Columns::of(&Message::new(&wire).unwrap()), columns);
            prop_assert_eq!(parse_flags(&flags_text(columns.flags)), Some(columns.flags));
            let mut text = String::new();
            write_edns(&mut text, edns);
            prop_assert_eq!(parse_edns(&text), Some(edns));
        }

        #[test]
        fn no_word_makes_it_panic(word in "\\PC{0,12}") {
            let _ = (parse_flags(&word), parse_edns(&word), parse_type(&word), parse_opcode(&word));
        }
    }
}
