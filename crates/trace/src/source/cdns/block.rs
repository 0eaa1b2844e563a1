//! A block of a C-DNS file: tables of shared values, and the transactions that refer to them (RFC 8618, section 7.3.2).

use minicbor::Decoder;
use minicbor::decode::Error;

use super::cbor::{array, map, skip};
use super::item::{Item, Malformed};

/// Entries of one table. Blocks are of some thousand transactions.
const MAX_ENTRIES: usize = 1 << 20;

/// A part of the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    from: u32,
    to: u32,
}

/// A list of indexes, as a part of the lists of the block.
type List = Span;

/// A block that is worked off. Everything in it refers to its octets.
#[derive(Default)]
pub(crate) struct Block {
    octets: Vec<u8>,
    /// Seconds since 1970 and ticks of the earliest transaction.
    pub earliest: (i64, i64),
    /// Which set of parameters holds.
    pub parameters: usize,
    pub tables: Tables,
    /// What is left of the transactions.
    items: Rest,
    /// What is left of the messages that the writer could not read.
    malformed: Rest,
}

/// An array that is read entry by entry.
#[derive(Clone, Copy, Default)]
struct Rest {
    at: usize,
    /// Entries left; with `None` up to the break.
    left: Option<u64>,
}

/// The tables.
#[derive(Default)]
pub(crate) struct Tables {
    addresses: Vec<Span>,
    classtypes: Vec<ClassType>,
    /// Names and the data of records.
    names: Vec<Span>,
    signatures: Vec<Signature>,
    question_lists: Vec<List>,
    questions: Vec<Question>,
    record_lists: Vec<List>,
    records: Vec<Record>,
    malformed: Vec<MalformedData>,
    /// The indexes of all lists behind each other.
    indexes: Vec<u32>,
}

/// A type and a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassType {
    /// TYPE or QTYPE.
    pub rtype: u16,
    /// CLASS or QCLASS.
    pub class: u16,
}

/// A question beyond the first of its message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Question {
    /// Index of its name.
    pub name: u32,
    /// Index of its type and class.
    pub classtype: u32,
}

/// A resource record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    /// Index of its owner.
    pub name: u32,
    /// Index of its type and class.
    pub classtype: u32,
    /// Its TTL, if it was stored.
    pub ttl: Option<u32>,
    /// Index of its data, if it was stored.
    pub rdata: Option<u32>,
}

/// What many transactions have in common: the server, and what stands in the header and in OPT.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signature {
    pub server: Option<u32>,
    pub server_port: Option<u16>,
    pub transport: Option<u8>,
    pub role: Option<u8>,
    /// `qr-sig-flags`: which of the messages and their parts there are.
    pub parts: Option<u8>,
    pub opcode: Option<u8>,
    /// `qr-dns-flags`: the flags of both headers.
    pub flags: Option<u16>,
    pub query_rcode: u16,
    pub classtype: Option<u32>,
    /// `ANCOUNT`, `NSCOUNT` and `ARCOUNT` of the query.
    pub query_counts: [u16; 3],
    pub edns_version: Option<u8>,
    pub udp_size: Option<u16>,
    pub opt: Option<u32>,
    pub response_rcode: Option<u16>,
}

/// A message that the writer could not read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MalformedData {
    pub server: Option<u32>,
    pub server_port: Option<u16>,
    pub transport: Option<u8>,
    pub payload: Option<Span>,
}

impl Block {
    /// Reads the tables of a block.
    pub fn parse(octets: Vec<u8>) -> Result<Self, Error> {
        let mut block = Self::default();
        let decoder = &mut Decoder::new(&octets);
        map(decoder, |key, value| {
            match key {
                0 => block.preamble(value)?,
                2 => block.tables.parse(value)?,
                3 => block.items = Rest::start(value)?,
                5 => block.malformed = Rest::start(value)?,
                _ => {}
            }
            Ok(())
        })?;
        block.octets = octets;
        Ok(block)
    }

    fn preamble(&mut self, decoder: &mut Decoder<'_>) -> Result<(), Error> {
        map(decoder, |key, value| {
            match key {
                0 => {
                    let mut parts = Vec::new();
                    array(value, 2, &mut parts, |part| part.i64())?;
                    parts.resize(2, 0);
                    self.earliest = (parts[0], parts[1]);
                }
                1 => self.parameters = usize::try_from(value.u64()?).unwrap_or(usize::MAX),
                _ => {}
            }
            Ok(())
        })
    }

    /// Octets of transactions and malformed messages that were taken so far, on a scale of its own.
    pub fn taken(&self) -> u64 {
        (self.items.at + self.malformed.at) as u64
    }

    /// The next transaction.
    pub fn next_item(&mut self) -> Option<Result<Item, Error>> {
        self.items.next(&self.octets, Item::parse)
    }

    /// The next message that the writer could not read.
    pub fn next_malformed(&mut self) -> Option<Result<Malformed, Error>> {
        self.malformed.next(&self.octets, Malformed::parse)
    }

    /// A part of the block.
    pub fn octets(&self, span: Span) -> &[u8] {
        self.octets.get(span.from as usize..span.to as usize).unwrap_or_default()
    }

    /// The address of this index, as far as it was stored.
    pub fn address(&self, index: u32) -> Option<&[u8]> {
        self.tables.addresses.get(index as usize).map(|&span| self.octets(span))
    }

    /// The name or the data of this index.
    pub fn name(&self, index: u32) -> Option<&[u8]> {
        self.tables.names.get(index as usize).map(|&span| self.octets(span))
    }
}

impl Rest {
    /// At an array, which is skipped.
    fn start(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let start = decoder.position();
        let left = decoder.array()?;
        let at = decoder.position();
        decoder.set_position(start);
        skip(decoder)?;
        Ok(Self { at, left })
    }

    /// The next entry. An invalid one is skipped: the extent of a block's entries is known to be sound.
    fn next<T>(&mut self, octets: &[u8], parse: fn(&mut Decoder<'_>) -> Result<T, Error>) -> Option<Result<T, Error>> {
        let mut decoder = Decoder::new(octets);
        decoder.set_position(self.at);
        // At octet 0 is the map of the block, never one of its arrays.
        if self.at == 0 || self.left == Some(0) || octets.get(self.at) == Some(&0xff) {
            return None;
        }
        let parsed = parse(&mut decoder);
        if parsed.is_err() {
            decoder.set_position(self.at);
            if skip(&mut decoder).is_err() {
                self.left = Some(0);
            }
        }
        self.at = decoder.position();
        self.left = self.left.map(|left| left.saturating_sub(1));
        Some(parsed)
    }
}

impl Tables {
    fn parse(&mut self, decoder: &mut Decoder<'_>) -> Result<(), Error> {
        map(decoder, |key, value| match key {
            0 => array(value, MAX_ENTRIES, &mut self.addresses, span),
            1 => array(value, MAX_ENTRIES, &mut self.classtypes, ClassType::parse),
            2 => array(value, MAX_ENTRIES, &mut self.names, span),
            3 => array(value, MAX_ENTRIES, &mut self.signatures, Signature::parse),
            4 => lists(value, &mut self.question_lists, &mut self.indexes),
            5 => array(value, MAX_ENTRIES, &mut self.questions, Question::parse),
            6 => lists(value, &mut self.record_lists, &mut self.indexes),
            7 => array(value, MAX_ENTRIES, &mut self.records, Record::parse),
            8 => array(value, MAX_ENTRIES, &mut self.malformed, MalformedData::parse),
            _ => Ok(()),
        })
    }

    /// The type and class of this index.
    pub fn classtype(&self, index: u32) -> Option<ClassType> {
        self.classtypes.get(index as usize).copied()
    }

    /// The signature of this index.
    pub fn signature(&self, index: u32) -> Option<Signature> {
        self.signatures.get(index as usize).copied()
    }

    /// The malformed message of this index.
    pub fn malformed(&self, index: u32) -> Option<MalformedData> {
        self.malformed.get(index as usize).copied()
    }

    /// The questions of a list; `None` if it does not exist.
    pub fn questions(&self, list: u32) -> Option<impl Iterator<Item = Option<Question>>> {
        let indexes = self.indexes(*self.question_lists.get(list as usize)?);
        Some(indexes.iter().map(|&index| self.questions.get(index as usize).copied()))
    }

    /// The records of a list; `None` if it does not exist.
    pub fn records(&self, list: u32) -> Option<impl Iterator<Item = Option<Record>>> {
        let indexes = self.indexes(*self.record_lists.get(list as usize)?);
        Some(indexes.iter().map(|&index| self.records.get(index as usize).copied()))
    }

    fn indexes(&self, list: List) -> &[u32] {
        self.indexes.get(list.from as usize..list.to as usize).unwrap_or_default()
    }
}

fn lists(decoder: &mut Decoder<'_>, into: &mut Vec<List>, indexes: &mut Vec<u32>) -> Result<(), Error> {
    array(decoder, MAX_ENTRIES, into, |value| {
        let from = indexes.len() as u32;
        array(value, MAX_ENTRIES.saturating_sub(indexes.len()), indexes, |index| index.u32())?;
        Ok(List { from, to: indexes.len() as u32 })
    })
}

/// Where a byte string lies; blocks are far shorter than what 32 bits can say.
fn span(decoder: &mut Decoder<'_>) -> Result<Span, Error> {
    let length = decoder.bytes()?.len();
    let to = decoder.position();
    Ok(Span { from: (to - length) as u32, to: to as u32 })
}

impl ClassType {
    fn parse(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut classtype = Self::default();
        map(decoder, |key, value| {
            match key {
                0 => classtype.rtype = value.u16()?,
                1 => classtype.class = value.u16()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(classtype)
    }
}

impl Question {
    fn parse(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut question = Self::default();
        map(decoder, |key, value| {
            match key {
                0 => question.name = value.u32()?,
                1 => question.classtype = value.u32()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(question)
    }
}

impl Record {
    fn parse(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut record = Self::default();
        map(decoder, |key, value| {
            match key {
                0 => record.name = value.u32()?,
                1 => record.classtype = value.u32()?,
                2 => record.ttl = Some(value.u32()?),
                3 => record.rdata = Some(value.u32()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(record)
    }
}

impl Signature {
    fn parse(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut signature = Self::default();
        map(decoder, |key, value| {
            match key {
                0 => signature.server = Some(value.u32()?),
                1 => signature.server_port = Some(value.u16()?),
                2 => signature.transport = Some(value.u8()?),
                3 => signature.role = Some(value.u8()?),
                4 => signature.parts = Some(value.u8()?),
                5 => signature.opcode = Some(value.u8()?),
                6 => signature.flags = Some(value.u16()?),
                7 => signature.query_rcode = value.u16()?,
                8 => signature.classtype = Some(value.u32()?),
                10..=12 => signature.query_counts[key as usize - 10] = value.u16()?,
                13 => signature.edns_version = Some(value.u8()?),
                14 => signature.udp_size = Some(value.u16()?),
                15 => signature.opt = Some(value.u32()?),
                16 => signature.response_rcode = Some(value.u16()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(signature)
    }
}

impl MalformedData {
    fn parse(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut data = Self::default();
        map(decoder, |key, value| {
            match key {
                0 => data.server = Some(value.u32()?),
                1 => data.server_port = Some(value.u16()?),
                2 => data.transport = Some(value.u8()?),
                3 => data.payload = Some(span(value)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(data)
    }
}
