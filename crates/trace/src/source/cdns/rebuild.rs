//! Rebuilds messages from the tables of a C-DNS block (RFC 8618, section 9, lists what cannot be restored).
//!
//! What was kept comes back as it was, but for compression: a name that occurs again as a whole is a pointer, and names in
//! the data of records are written out. The OPT record of a query stands first in its additional section.

use ldplayer_core::damage::Flaw;
use ldplayer_core::message::{CLASS_IN, HEADER, OPT, flag};
use ldplayer_core::name::MAX_NAME;

use super::block::{Block, Record, Signature};
use super::item::{Item, Sections};
use super::lost::{Losses, Lost};
use super::preamble::{Parameters, hint};

/// Bits of `qr-sig-flags` (RFC 8618, section 7.3.2.3.2).
pub(crate) mod part {
    pub const QUERY: u8 = 1;
    pub const RESPONSE: u8 = 1 << 1;
    pub const QUERY_OPT: u8 = 1 << 2;
    pub const RESPONSE_OPT: u8 = 1 << 3;
    pub const NO_QUERY_QUESTION: u8 = 1 << 4;
    pub const NO_RESPONSE_QUESTION: u8 = 1 << 5;
}

/// The DO bit among `qr-dns-flags`.
const DNSSEC_OK: u16 = 1 << 7;
/// QTYPE where none was kept: A.
const TYPE_A: u16 = 1;
/// UDP payload size where none was kept: what every smaller one means (RFC 6891, section 6.2.3).
const LEAST_SIZE: u16 = 512;
/// Records of a message at most: the shortest takes 11 octets of 65,535.
const MAX_RECORDS: usize = 5_957;
/// Names whose places in the message are remembered.
const MAX_PLACES: usize = 64;

/// Rebuilds the messages of a transaction.
pub(crate) struct Rebuilder<'a> {
    pub block: &'a Block,
    pub parameters: &'a Parameters,
    pub item: &'a Item,
    pub signature: &'a Signature,
    /// What was not kept.
    pub losses: &'a mut Losses,
    /// The message.
    pub wire: &'a mut Vec<u8>,
    /// Names in the message, by index, and where they stand.
    pub places: &'a mut Vec<(u32, u16)>,
}

impl Rebuilder<'_> {
    /// Writes the query.
    pub fn query(&mut self) -> Result<(), Flaw> {
        let flags = self.flags();
        let rcode = self.signature.query_rcode;
        self.start(flags << 4 & 0x07f0 | rcode & 0xf);
        self.questions(part::NO_QUERY_QUESTION, self.item.query.questions)?;
        let wanted = self.signature.query_counts.iter().any(|&count| count > 0);
        let has_opt = match self.signature.parts {
            Some(parts) => parts & part::QUERY_OPT != 0,
            None => self.signature.udp_size.is_some(),
        };
        if self.parameters.fields & hint::QUERY_RECORDS != hint::QUERY_RECORDS && wanted && !has_opt {
            self.losses.note(Lost::QueryRecords);
        }
        if has_opt {
            self.query_opt(flags & DNSSEC_OK != 0)?;
        }
        self.records(self.item.query, has_opt)?;
        self.finish()
    }

    /// Writes the response.
    pub fn response(&mut self) -> Result<(), Flaw> {
        let flags = self.flags();
        let rcode = self.losses.or(self.signature.response_rcode, Lost::ResponseRcode, 0);
        self.start(flag::QR | flags >> 4 & 0x07f0 | rcode & 0xf);
        self.questions(part::NO_RESPONSE_QUESTION, self.item.response.questions)?;
        for (bit, lost) in [
            (hint::RESPONSE_ANSWERS, Lost::ResponseAnswers),
            (hint::RESPONSE_AUTHORITIES, Lost::ResponseAuthorities),
            (hint::RESPONSE_ADDITIONALS, Lost::ResponseAdditionals),
        ] {
            if self.parameters.fields & bit == 0 {
                self.losses.note(lost);
            }
        }
        let told = self.signature.parts.is_some_and(|parts| parts & part::RESPONSE_OPT != 0);
        let is_there = self.has_opt(self.item.response);
        if (told || rcode > 0xf) && !is_there {
            self.losses.note(Lost::ResponseOpt);
            self.opt(LEAST_SIZE, (rcode >> 4) as u8, 0, flags & DNSSEC_OK != 0, &[])?;
        }
        self.records(self.item.response, false)?;
        self.finish()
    }

    fn flags(&mut self) -> u16 {
        self.losses.or(self.signature.flags, Lost::Flags, 0)
    }

    /// The header, without its counts.
    fn start(&mut self, flags: u16) {
        let opcode = self.losses.or(self.signature.opcode, Lost::Opcode, 0);
        self.wire.clear();
        self.places.clear();
        let id = self.losses.or(self.item.id, Lost::Id, 0);
        for word in [id, flags | u16::from(opcode & 0xf) << 11, 0, 0, 0, 0] {
            self.wire.extend_from_slice(&word.to_be_bytes());
        }
    }

    /// Counts an entry of a section (0 to 3) in the header.
    fn count(&mut self, section: usize) -> Result<(), Flaw> {
        let field = &mut self.wire[4 + 2 * section..6 + 2 * section];
        let count = u16::from_be_bytes([field[0], field[1]]).checked_add(1).ok_or(Flaw::LongMessage)?;
        field.copy_from_slice(&count.to_be_bytes());
        Ok(())
    }

    /// The first question, which is in the item itself, and a list's further ones.
    fn questions(&mut self, none: u8, more: Option<u32>) -> Result<(), Flaw> {
        if self.signature.parts.is_some_and(|parts| parts & none != 0) {
            return Ok(());
        }
        let Some(name) = self.item.name else {
            self.losses.note(Lost::QueryName);
            return Ok(());
        };
        let classtype = match self.signature.classtype {
            Some(index) => self.block.tables.classtype(index).ok_or(Flaw::BadIndex)?,
            None => {
                self.losses.note(Lost::QueryType);
                super::block::ClassType { rtype: TYPE_A, class: CLASS_IN }
            }
        };
        self.question(name, classtype)?;
        let block = self.block;
        let Some(list) = more else { return Ok(()) };
        for question in block.tables.questions(list).ok_or(Flaw::BadIndex)? {
            let question = question.ok_or(Flaw::BadIndex)?;
            self.question(question.name, block.tables.classtype(question.classtype).ok_or(Flaw::BadIndex)?)?;
        }
        Ok(())
    }

    fn question(&mut self, name: u32, classtype: super::block::ClassType) -> Result<(), Flaw> {
        self.name(name)?;
        self.words(&[classtype.rtype, classtype.class]);
        self.finish()?;
        self.count(0)
    }

    /// The sections behind the questions, `but_opt` where that was written already.
    fn records(&mut self, sections: Sections, but_opt: bool) -> Result<(), Flaw> {
        let block = self.block;
        for (section, list) in sections.records.into_iter().enumerate() {
            let Some(list) = list else { continue };
            for record in block.tables.records(list).ok_or(Flaw::BadIndex)? {
                let record = record.ok_or(Flaw::BadIndex)?;
                let rtype = block.tables.classtype(record.classtype).ok_or(Flaw::BadIndex)?.rtype;
                if !(but_opt && rtype == OPT) {
                    self.record(&record)?;
                    self.count(section + 1)?;
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<(), Flaw> {
        let classtype = self.block.tables.classtype(record.classtype).ok_or(Flaw::BadIndex)?;
        self.name(record.name)?;
        self.words(&[classtype.rtype, classtype.class]);
        let ttl = self.losses.or(record.ttl, Lost::Ttl, 0);
        self.wire.extend_from_slice(&ttl.to_be_bytes());
        let rdata = match record.rdata {
            Some(index) => self.block.name(index).ok_or(Flaw::BadIndex)?,
            None => {
                self.losses.note(Lost::Rdata);
                &[]
            }
        };
        self.data(rdata)
    }

    /// Whether the additional section was kept with its OPT record.
    fn has_opt(&self, sections: Sections) -> bool {
        let tables = &self.block.tables;
        let records = sections.records[2].and_then(|list| tables.records(list)).into_iter().flatten().flatten();
        records
            .take(MAX_RECORDS)
            .any(|record| tables.classtype(record.classtype).is_some_and(|classtype| classtype.rtype == OPT))
    }

    fn query_opt(&mut self, dnssec_ok: bool) -> Result<(), Flaw> {
        let options = match self.signature.opt {
            Some(index) => self.block.name(index).ok_or(Flaw::BadIndex)?,
            None => &[],
        };
        let extended = (self.signature.query_rcode >> 4) as u8;
        let version = self.signature.edns_version.unwrap_or(0);
        self.opt(self.signature.udp_size.unwrap_or(LEAST_SIZE), extended, version, dnssec_ok, options)
    }

    /// An OPT record in the additional section (RFC 6891, section 6.1.2).
    fn opt(
        &mut self,
        udp_size: u16,
        extended_rcode: u8,
        version: u8,
        dnssec_ok: bool,
        options: &[u8],
    ) -> Result<(), Flaw> {
        self.wire.push(0);
        let flags = if dnssec_ok { flag::DO } else { 0 };
        self.words(&[OPT, udp_size, u16::from_be_bytes([extended_rcode, version]), flags]);
        self.data(options)?;
        self.count(3)
    }

    fn data(&mut self, rdata: &[u8]) -> Result<(), Flaw> {
        let length = u16::try_from(rdata.len()).map_err(|_| Flaw::LongMessage)?;
        self.words(&[length]);
        self.wire.extend_from_slice(rdata);
        self.finish()
    }

    /// The name of this index, or a pointer to where it stands (RFC 1035, section 4.1.4).
    fn name(&mut self, index: u32) -> Result<(), Flaw> {
        let name = self.block.name(index).filter(|name| is_name(name)).ok_or(Flaw::BadName)?;
        if let Some(&(_, place)) = self.places.iter().find(|(known, _)| *known == index) {
            self.words(&[0xc000 | place]);
            return Ok(());
        }
        // Only the first 16 KiB can be pointed to, and a pointer to the root is longer than the root.
        if self.wire.len() < 0x4000 && name.len() > 1 && self.places.len() < MAX_PLACES {
            self.places.push((index, self.wire.len() as u16));
        }
        self.wire.extend_from_slice(name);
        Ok(())
    }

    fn words(&mut self, words: &[u16]) {
        words.iter().for_each(|word| self.wire.extend_from_slice(&word.to_be_bytes()));
    }

    fn finish(&self) -> Result<(), Flaw> {
        debug_assert!(self.wire.len() >= HEADER);
        if self.wire.len() <= usize::from(u16::MAX) { Ok(()) } else { Err(Flaw::LongMessage) }
    }
}

/// Whether octets are a name in wire format and nothing else.
fn is_name(octets: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&length) = octets.get(at) {
        match length {
            0 => return at + 1 == octets.len() && octets.len() <= MAX_NAME,
            1..=63 => at += 1 + usize::from(length),
            _ => return false,
        }
    }
    false
}
