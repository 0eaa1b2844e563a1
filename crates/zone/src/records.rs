//! The records of a zone, in file order and contiguous memory.

use std::fmt;
use std::path::{Path, PathBuf};

use ldplayer_core::name::Presentation;

use crate::error::Problem;
use crate::finding::{Finding, Findings, Oddity};
use crate::rdata::{self, Fault};
use crate::rtype;

/// Records of one zone, with the places they come from.
#[derive(Clone, Debug, Default)]
pub struct Records {
    octets: Vec<u8>,
    records: Vec<Stored>,
    files: Vec<PathBuf>,
    class: Option<u16>,
    /// The oddities of single records, and the records left out.
    findings: Findings,
    /// Where the last owner name is, for records that have the same.
    owner: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    owner: u32,
    data: u32,
    length: u16,
    rtype: u16,
    ttl: u32,
    line: u32,
    file: u16,
}

/// A record among [`Records`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The owner name in wire format, in lower case.
    pub owner: &'a [u8],
    /// TYPE.
    pub rtype: u16,
    /// Seconds, at most 2^31 - 1 (RFC 2181 §8).
    pub ttl: u32,
    /// RDATA in wire format, names uncompressed.
    pub data: &'a [u8],
    /// File (as in [`Records::file`]) and line, zeros when the record was not read from a file.
    pub place: (u16, u32),
}

impl fmt::Display for Record<'_> {
    /// The record with its data in generic form (RFC 3597 §5), which zone files may hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, rtype) = (Presentation(self.owner), rtype::name_of(self.rtype));
        write!(f, "{owner} {} {rtype} \\# {}", self.ttl, self.data.len())?;
        if !self.data.is_empty() {
            f.write_str(" ")?;
        }
        self.data.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl Records {
    /// No records, with room for a zone file of `text` octets.
    pub(crate) fn with_capacity(text: usize) -> Self {
        Self { octets: Vec::with_capacity(text / 2), records: Vec::with_capacity(text / 64), ..Self::default() }
    }

    /// Adds a record. The owner may be in any case; `data` is in wire format without compression.
    ///
    /// # Errors
    /// The data is invalid for the type, or the limit of the store is reached.
    pub fn push(&mut self, owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) -> Result<(), Problem> {
        rdata::check(rtype, data)?;
        if let Err(Fault { is_refused: true, wrong }) = rdata::judge(rtype, data) {
            return Err(Problem::Content(rtype::name_of(rtype), wrong));
        }
        let start = self.begin_data();
        self.octets.extend_from_slice(data);
        self.finish(&owner.to_ascii_lowercase(), rtype, ttl.min(i32::MAX as u32), start, (0, 0))
    }

    /// The class of all records; IN when no record says another.
    pub fn class(&self) -> u16 {
        self.class.unwrap_or(1)
    }

    /// Sets the class of all records.
    pub fn set_class(&mut self, class: u16) {
        self.class = Some(class);
    }

    /// The name of the zone: the owner of the SOA record, which there must be, and one only (RFC 1035 §5.2). The same record
    /// twice is one (RFC 2181 §5).
    ///
    /// # Errors
    /// There is none, or several.
    pub fn apex(&self) -> Result<&[u8], Problem> {
        let mut all = self.iter().filter(|record| record.rtype == rtype::SOA);
        let first = all.next().ok_or(Problem::NoSoa)?;
        let shown = |name| Presentation(name).to_string();
        match all.find(|other| (other.owner, other.data) != (first.owner, first.data)) {
            Some(other) if other.owner == first.owner => Err(Problem::TwoSoas(shown(first.owner))),
            Some(other) => Err(Problem::TwoApexes(shown(first.owner), shown(other.owner))),
            None => Ok(first.owner),
        }
    }

    /// Notes a finding with its place.
    pub(crate) fn note(&mut self, (file, line): (u16, u32), oddity: Oddity) {
        let path = self.files.get(usize::from(file)).cloned().unwrap_or_default();
        self.findings.add(|| Finding { file: path, line, oddity });
    }

    /// What was found in reading.
    pub(crate) const fn findings(&self) -> &Findings {
        &self.findings
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The file of a record's place, or the first that was read.
    pub fn file(&self, number: u16) -> &Path {
        self.files.get(usize::from(number)).map_or(Path::new("zone"), PathBuf::as_path)
    }

    /// The record at a position below [`Self::len`].
    pub fn get(&self, at: usize) -> Record<'_> {
        let stored = &self.records[at];
        let owner = self.owner_of(at);
        let data = &self.octets[stored.data as usize..][..usize::from(stored.length)];
        Record { owner, rtype: stored.rtype, ttl: stored.ttl, data, place: (stored.file, stored.line) }
    }

    /// The records in the order they were read.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        (0..self.records.len()).map(|at| self.get(at))
    }

    /// Whether two records have one owner because they were read one after the other.
    pub(crate) fn share_owner(&self, a: usize, b: usize) -> bool {
        self.records[a].owner == self.records[b].owner
    }

    fn owner_of(&self, at: usize) -> &[u8] {
        let rest = &self.octets[self.records[at].owner as usize..];
        // Only whole names are stored.
        &rest[..rdata::name_length(rest).unwrap_or(0)]
    }

    pub(crate) fn add_file(&mut self, path: &Path) -> u16 {
        self.files.push(path.to_owned());
        u16::try_from(self.files.len() - 1).unwrap_or(u16::MAX)
    }

    /// Where data begins that is appended to [`Self::octets`].
    pub(crate) fn begin_data(&self) -> usize {
        self.octets.len()
    }

    /// Drops the data behind `start`.
    pub(crate) fn drop_data(&mut self, start: usize) {
        self.octets.truncate(start);
    }

    pub(crate) fn octets(&mut self) -> &mut Vec<u8> {
        &mut self.octets
    }

    /// Makes a record of the octets behind `start`. The owner is in lower case.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        owner: &[u8],
        rtype: u16,
        ttl: u32,
        start: usize,
        (file, line): (u16, u32),
    ) -> Result<(), Problem> {
        let length = self.octets.len() - start;
        let length = u16::try_from(length).map_err(|_| Problem::Long(length))?;
        let is_same = |&at: &u32| self.octets[at as usize..].starts_with(owner);
        let owner = match self.owner.filter(is_same) {
            Some(at) => at,
            None => {
                let at = u32::try_from(self.octets.len()).map_err(|_| Problem::TooLarge)?;
                self.octets.extend_from_slice(owner);
                at
            }
        };
        self.owner = Some(owner);
        let data = u32::try_from(start).map_err(|_| Problem::TooLarge)?;
        self.records.push(Stored { owner, data, length, rtype, ttl, line, file });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Zone, load};

    #[test]
    fn two_soa_records_at_an_apex_are_a_load_error() {
        let of = |second: &str| {
            let text = format!("$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS a.other.\n{second}\n");
            let records = load::text_of(text.as_bytes(), Path::new("z"), Some(b"\x01x\0"), &mut |_| unreachable!());
            Zone::from_records(&records.unwrap()).map(|(zone, _)| zone.records()).map_err(|error| error.to_string())
        };
        assert_eq!(
            of("@ SOA a b 2 2 3 4 5"),
            Err("z: two SOA records at `x.`: a zone must have exactly one (RFC 1035 5.2)".to_owned())
        );
        assert_eq!(
            of("y SOA a b 1 2 3 4 5"),
            Err("z: SOA records at `x.` and `y.x.`: a file must hold one zone".to_owned())
        );
        assert_eq!(of("@ SOA a b 1 2 3 4 5"), Ok(2), "the same record twice is one");
    }
}
