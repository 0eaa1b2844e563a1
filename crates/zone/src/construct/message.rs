//! A parsed response: names as numbers, record data uncompressed.

use ldplayer_core::message::{CLASS_IN, HEADER, Message};
use ldplayer_core::name::MAX_NAME;

use super::names::{Name, Names};
use super::report::Reason;
use crate::error::Wrong;
use crate::rdata::{self, Fault};
use crate::rtype;

/// Length of the fields between a record's owner and its data, in octets.
const FIXED: usize = 10;

/// The section of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Answer,
    Authority,
    Additional,
}

/// A record of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub section: Section,
    pub owner: Name,
    /// The type; for a signature, the type covered.
    pub rtype: u16,
    pub is_signature: bool,
    pub ttl: u32,
    start: u32,
    end: u32,
}

/// A parsed response, in reusable buffers.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub qname: Name,
    pub qtype: u16,
    pub records: Vec<Record>,
    /// Records that no zone may have, which are left out.
    pub invalid: Vec<(Name, u16, Wrong)>,
    data: Vec<u8>,
    /// Owners by offset: most owners are compression pointers to an earlier one.
    owners: Vec<(u16, Name)>,
}

impl Parsed {
    /// Parses a response whose header has been checked.
    ///
    /// # Errors
    /// Why the response is unusable.
    pub fn read(&mut self, message: &Message<'_>, names: &mut Names) -> Result<(), Reason> {
        self.records.clear();
        self.invalid.clear();
        self.data.clear();
        self.owners.clear();
        let [questions, answers, authorities, additionals] = message.counts();
        if questions == 0 {
            return Err(Reason::NoQuestion);
        }
        let octets = message.octets();
        let unreadable = || if message.is_cut() { Reason::Cut } else { Reason::Malformed };
        let (mut at, name) = self.owner(octets, HEADER, names).ok_or_else(unreadable)?;
        self.qname = name;
        self.qtype = word(octets, at).ok_or_else(unreadable)?;
        if questions != 1 || word(octets, at + 2) != Some(CLASS_IN) {
            return Err(Reason::OddQuestion);
        }
        at += 4;
        let sections =
            [(Section::Answer, answers), (Section::Authority, authorities), (Section::Additional, additionals)];
        for (section, count) in sections {
            for _ in 0..count {
                at = self.record(octets, at, section, names).ok_or_else(unreadable)?;
            }
        }
        Ok(())
    }

    /// Data of a record in wire format, uncompressed.
    pub fn data(&self, record: &Record) -> &[u8] {
        &self.data[record.start as usize..record.end as usize]
    }

    /// The records of a section.
    pub fn section(&self, section: Section) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.section == section)
    }

    /// Sorts records by owner, type and data, so that sets are contiguous.
    pub fn sort(&mut self) {
        let data = &self.data;
        let key = |record: &Record| (record.section, record.owner, record.rtype, record.is_signature);
        let octets = |record: &Record| &data[record.start as usize..record.end as usize];
        self.records.sort_unstable_by(|a, b| key(a).cmp(&key(b)).then_with(|| octets(a).cmp(octets(b))));
    }

    /// Reads a record; returns the offset after it. Records of other classes and pseudo-records are skipped.
    fn record(&mut self, octets: &[u8], at: usize, section: Section, names: &mut Names) -> Option<usize> {
        let (fixed, owner) = self.owner(octets, at, names)?;
        let (rtype, class) = (word(octets, fixed)?, word(octets, fixed + 2)?);
        let ttl = u32::from(word(octets, fixed + 4)?) << 16 | u32::from(word(octets, fixed + 6)?);
        let (from, length) = (fixed + FIXED, usize::from(word(octets, fixed + 8)?));
        let end = from + length;
        let raw = octets.get(..end)?;
        if class != CLASS_IN || matches!(rtype, 0 | rtype::OPT | 128..=255) {
            return Some(end);
        }
        let start = self.data.len();
        rdata::expand(rtype, raw, from, &mut self.data)?;
        if let Err(Fault { is_refused: true, wrong }) = rdata::judge(rtype, &self.data[start..]) {
            self.data.truncate(start);
            self.invalid.push((owner, rtype, wrong));
            return Some(end);
        }
        let is_signature = rtype == rtype::RRSIG;
        let rtype = if is_signature { word(&self.data, start)? } else { rtype };
        // RFC 2181 §8: a TTL with the top bit set is zero.
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        let (start, end_of_data) = (start as u32, self.data.len() as u32);
        self.records.push(Record { section, owner, rtype, is_signature, ttl, start, end: end_of_data });
        Some(end)
    }

    /// The name at an offset, and the offset after it.
    fn owner(&mut self, octets: &[u8], at: usize, names: &mut Names) -> Option<(usize, Name)> {
        let first = *octets.get(at)?;
        let (start, behind) = match first {
            0xc0..=0xff => (usize::from(word(octets, at)? & 0x3fff), Some(at + 2)),
            _ => (at, None),
        };
        if let (Some(behind), Some(&(_, name))) =
            (behind, self.owners.iter().find(|&&(offset, _)| usize::from(offset) == start))
        {
            return Some((behind, name));
        }
        let (mut wire, mut length) = ([0; MAX_NAME], 0);
        let end = rdata::read_name(octets, start, |part| {
            let room = wire.get_mut(length..length + part.len())?;
            room.copy_from_slice(part);
            length += part.len();
            Some(())
        })?;
        wire[..length].make_ascii_lowercase();
        let name = names.intern(&wire[..length]);
        self.owners.push((start as u16, name));
        Some((behind.unwrap_or(end), name))
    }
}

fn word(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?]))
}
