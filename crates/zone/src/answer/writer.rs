//! Writes records into a message of limited size.

use super::names::Names;
use crate::store::{HEAD, Layout, Part, Set, Zone, entries};

/// The sections of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Answer,
    Authority,
    Additional,
}

/// The owner of records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'a> {
    /// A name that stands in the message already.
    At(usize),
    /// A name that is looked for.
    Name(&'a [u8]),
}

/// A message in the making.
pub(crate) struct Writer<'a> {
    pub out: &'a mut Vec<u8>,
    /// Where in `out` the message begins.
    base: usize,
    /// Most octets that the records may reach to.
    limit: usize,
    pub names: &'a mut Names,
    /// The question's name, where it has not been noted yet.
    question: Option<&'a [u8]>,
    counts: [u16; 3],
}

impl<'a> Writer<'a> {
    /// A writer behind the header and question that `out` has from `base` on. The question's name may be pointed to.
    pub fn new(out: &'a mut Vec<u8>, base: usize, limit: usize, names: &'a mut Names, question: &'a [u8]) -> Self {
        names.clear();
        Self { out, base, limit, names, question: Some(question), counts: [0; 3] }
    }

    /// Octets of the message so far.
    pub fn len(&self) -> usize {
        self.out.len() - self.base
    }

    /// Records of each section.
    pub const fn counts(&self) -> [u16; 3] {
        self.counts
    }

    /// What [`Self::reset`] goes back to.
    pub fn mark(&self) -> (usize, [u16; 3]) {
        (self.out.len(), self.counts)
    }

    /// Takes back the records written since the mark.
    pub fn reset(&mut self, (length, counts): (usize, [u16; 3])) {
        self.out.truncate(length);
        self.counts = counts;
    }

    /// Copies records whose pointers were made for a question shorter by `longer` octets.
    #[inline]
    pub fn copy(&mut self, section: Section, records: u16, part: &Part<'_>, longer: u16) {
        let start = self.out.len();
        self.out.extend_from_slice(part.octets);
        for &pointer in part.pointers {
            let at = start + usize::from(pointer - part.start);
            let moved = u16::from_be_bytes([self.out[at], self.out[at + 1]]) + longer;
            self.out[at..at + 2].copy_from_slice(&moved.to_be_bytes());
        }
        self.counts[section as usize] += records;
    }

    /// Octets that are left.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.len())
    }

    /// Writes a set, with its signatures if `signed`. False, and nothing is written, when it does not fit.
    ///
    /// `on_record` is called with the offset of each record's data.
    #[inline]
    pub fn set(
        &mut self,
        section: Section,
        zone: &Zone,
        set: &Set,
        owner: Owner<'_>,
        signed: bool,
        on_record: impl FnMut(usize),
    ) -> bool {
        let start = self.out.len();
        let counted = set.count + if signed { set.signatures } else { 0 };
        let mut owner = owner;
        let fits = self.records(Layout::of(set.rtype), zone.wire(set), &mut owner, on_record)
            && (!signed || self.records(Layout::Plain, zone.signature_wire(set), &mut owner, |_| {}));
        if fits {
            self.counts[section as usize] += counted;
        } else {
            self.out.truncate(start);
        }
        fits
    }

    /// Writes only the signatures of a set.
    pub fn signatures(&mut self, section: Section, zone: &Zone, set: &Set, owner: Owner<'_>) -> bool {
        let start = self.out.len();
        let fits = self.records(Layout::Plain, zone.signature_wire(set), &mut { owner }, |_| {});
        if fits {
            self.counts[section as usize] += set.signatures;
        } else {
            self.out.truncate(start);
        }
        fits
    }

    /// Writes one record that is not in a zone, and returns the offset of its data; `None` if it does not fit.
    pub fn made(&mut self, section: Section, rtype: u16, record: &[u8], owner: Owner<'_>) -> Option<usize> {
        let (start, mut data) = (self.out.len(), None);
        if !self.records(Layout::of(rtype), record, &mut { owner }, |at| data = Some(at)) {
            self.out.truncate(start);
            return None;
        }
        self.counts[section as usize] += 1;
        data
    }

    /// Where a pointer to the name at an offset should point; a pointer itself is not pointed to.
    pub fn pointable(&self, at: usize) -> Option<usize> {
        let place = match self.out.get(self.base + at..self.base + at + 2) {
            Some(&[high, low]) if high >= 0xc0 => usize::from(u16::from_be_bytes([high & 0x3f, low])),
            _ => at,
        };
        (place < 0x4000).then_some(place)
    }

    fn records(
        &mut self,
        layout: Layout,
        wire: &[u8],
        owner: &mut Owner<'_>,
        mut on_record: impl FnMut(usize),
    ) -> bool {
        for record in entries(wire) {
            // The shortest that it may become.
            if layout == Layout::Plain && self.len() + 2 + record.len() > self.limit + 1 {
                return false;
            }
            *owner = self.owner(*owner);
            on_record(self.len() + HEAD);
            match layout {
                Layout::Plain => self.out.extend_from_slice(record),
                Layout::Names(before, names) => self.compressed(record, before.into(), names),
            }
            if self.len() > self.limit {
                return false;
            }
        }
        true
    }

    /// Writes an owner and gives the shortest way to write it again.
    #[inline]
    fn owner<'n>(&mut self, owner: Owner<'n>) -> Owner<'n> {
        match owner {
            Owner::At(at) => {
                self.names.point(at as u16, self.out, self.base);
                owner
            }
            Owner::Name(name) => {
                let at = self.len();
                self.name(name);
                // A pointer can be no shorter than the root's name.
                if at < 0x4000 && name.len() > 1 { Owner::At(at) } else { owner }
            }
        }
    }

    /// Notes a name that stands in the message in full.
    pub fn note(&mut self, name: &[u8], at: usize) {
        self.note_question();
        self.names.note(name, at);
    }

    fn note_question(&mut self) {
        if let Some(question) = self.question.take() {
            self.names.note(question, ldplayer_core::message::HEADER);
        }
    }

    /// Writes a name.
    pub fn name(&mut self, name: &[u8]) {
        if name.len() == 1 {
            self.out.push(0);
            return;
        }
        self.note_question();
        self.names.write(name, self.out, self.base);
    }

    /// Writes a record whose data has names that may be compressed.
    fn compressed(&mut self, record: &[u8], before: usize, names: u8) {
        self.out.extend_from_slice(&record[..HEAD + before]);
        let data = self.out.len() - before;
        let mut rest = &record[HEAD + before..];
        for _ in 0..names {
            // Unchecked data may lack a name; the rest is written unchanged.
            let Some(length) = crate::rdata::name_length(rest) else { break };
            self.name(&rest[..length]);
            rest = &rest[length..];
        }
        self.out.extend_from_slice(rest);
        let length = (self.out.len() - data) as u16;
        self.out[data - 2..data].copy_from_slice(&length.to_be_bytes());
    }
}
