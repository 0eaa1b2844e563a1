//! Hashes of a response's records, independent of their order, case and compression.

use super::hash;
use super::ignore::Ignore;
use super::{Fingerprint, SECTIONS};
use crate::compressed::{expand, labels};
use crate::message::{HEADER, Message, OPT};
use crate::name::MAX_NAME;

/// The section in which OPT is, with the root as its owner (RFC 6891 §6.1.1).
const ADDITIONAL: usize = 2;
/// TYPE of TSIG (RFC 8945 §4.2).
const TSIG: u16 = 250;
/// Names whose hash is remembered: most owners of a response are one or two names.
const REMEMBERED: usize = 4;
/// What is added for records that cannot be read.
const DAMAGED: u64 = 0x6461_6d61_6765_6421;

/// A part of the data of a record.
#[derive(Clone, Copy)]
enum Field {
    /// So many octets.
    Octets(usize),
    /// So many octets that are not compared.
    Skipped(usize),
    /// A name, compressed or not.
    Name,
    /// A character string (RFC 1035 §3.3).
    Text,
    /// All that is left.
    Rest,
    /// The same, not compared.
    SkippedRest,
}

/// The data of a type, as far as it has names or something that is not compared.
const fn layout(rtype: u16) -> &'static [Field] {
    use Field::{Name, Octets, Rest, Skipped, SkippedRest, Text};
    match rtype {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME.
        2..=5 | 7..=9 | 12 | 39 => &[Name],
        // SOA.
        6 => &[Name, Name, Rest],
        // MINFO, RP.
        14 | 17 => &[Name, Name],
        // MX, AFSDB, RT, KX.
        15 | 18 | 21 | 36 => &[Octets(2), Name],
        // PX.
        26 => &[Octets(2), Name, Name],
        // SRV.
        33 => &[Octets(6), Name],
        // NAPTR.
        35 => &[Octets(4), Text, Text, Text, Name],
        // NXT, NSEC.
        30 | 47 => &[Name, Rest],
        // SVCB, HTTPS.
        64 | 65 => &[Octets(2), Name, Rest],
        // SIG, RRSIG: not the original TTL, the times and the signature.
        24 | 46 => &[Octets(4), Skipped(12), Octets(2), Name, SkippedRest],
        _ => &[Rest],
    }
}

/// The sums of the sections of a response, and the upper eight bits of its code.
pub fn sections(response: &Message<'_>, ignore: &Ignore) -> ([u64; SECTIONS], u8) {
    let mut walk = Walk { octets: response.octets(), names: [(0, 0); REMEMBERED], turn: 0, extended: 0 };
    let [_, counts @ ..] = response.counts();
    let (mut sums, mut at) = ([0_u64; SECTIONS], response.behind_questions());
    for (section, count) in counts.into_iter().enumerate() {
        for _ in 0..count {
            let record = at.and_then(|at| walk.record(at, section, ignore));
            let Some((hash, behind)) = record else {
                let rest = at.and_then(|at| walk.octets.get(at..)).unwrap_or_default();
                sums[section] = sums[section].wrapping_add(hash::octets(DAMAGED, rest));
                return (ignore.without(sums), walk.extended);
            };
            sums[section] = sums[section].wrapping_add(hash);
            at = Some(behind);
        }
    }
    (ignore.without(sums), walk.extended)
}

/// A message while its records are read.
struct Walk<'a> {
    octets: &'a [u8],
    /// Where names begin, and their hashes; 0 is no place of a name.
    names: [(usize, u64); REMEMBERED],
    turn: usize,
    /// Upper bits of the response code.
    extended: u8,
}

impl Walk<'_> {
    /// The number of the record at an offset, 0 for one that is not compared, and the offset behind it; `None` when it is not whole.
    fn record(&mut self, at: usize, section: usize, ignore: &Ignore) -> Option<(u64, usize)> {
        let (owner, fixed) = self.name(at)?;
        let head = self.octets.get(fixed..fixed + 10)?;
        let [rtype, class, length_of_data] = [0, 2, 8].map(|at| u16::from_be_bytes([head[at], head[at + 1]]));
        let data = fixed + 10..fixed + 10 + usize::from(length_of_data);
        self.octets.get(data.clone())?;
        if rtype == OPT && section == ADDITIONAL && self.octets[at] == 0 {
            self.extended = head[4];
        }
        if rtype == OPT || rtype == TSIG || self.is_left_out(at, section, rtype, ignore) {
            return Some((0, data.end));
        }
        let state = hash::number(owner, u64::from(rtype) << 16 | u64::from(class));
        let read = self.data(state, layout(rtype), data.clone());
        // Data that breaks the rules of its type is compared octet by octet.
        let hash = read.unwrap_or_else(|| hash::octets(state ^ DAMAGED, &self.octets[data.clone()]));
        Some((hash, data.end))
    }

    /// Whether a rule leaves out the record at an offset.
    fn is_left_out(&self, at: usize, section: usize, rtype: u16, ignore: &Ignore) -> bool {
        if !ignore.has_names() {
            return ignore.leaves_out(section, rtype, &[]);
        }
        let mut name = [0; MAX_NAME];
        let length = expand(self.octets, at, &mut name).unwrap_or(0);
        ignore.leaves_out(section, rtype, &name[..length])
    }

    fn data(&mut self, mut state: u64, fields: &[Field], data: std::ops::Range<usize>) -> Option<u64> {
        let mut at = data.start;
        for field in fields {
            let rest = self.octets.get(at..data.end)?;
            let taken = match *field {
                Field::Octets(count) | Field::Skipped(count) => count,
                Field::Text => 1 + usize::from(*rest.first()?),
                Field::Rest | Field::SkippedRest => rest.len(),
                Field::Name => {
                    let (name, behind) = self.name(at)?;
                    state = hash::number(state, name);
                    at = behind;
                    continue;
                }
            };
            let octets = rest.get(..taken)?;
            if !matches!(field, Field::Skipped(_) | Field::SkippedRest) {
                state = hash::octets(state, octets);
            }
            at += taken;
        }
        (at == data.end).then_some(state)
    }

    /// The hash of the name at an offset, and the offset behind it.
    fn name(&mut self, at: usize) -> Option<(u64, usize)> {
        let (place, behind) = match self.octets.get(at..at + 2) {
            Some(&[high @ 0xc0..=0xff, low]) => (usize::from(high & 0x3f) << 8 | usize::from(low), Some(at + 2)),
            _ => (at, None),
        };
        if behind.is_some() && !(HEADER..at).contains(&place) {
            return None;
        }
        if let (Some(behind), Some((_, hash))) = (behind, self.names.iter().find(|(known, _)| *known == place)) {
            return Some((*hash, behind));
        }
        let (mut hash, mut length) = (0, 0);
        let end = labels(self.octets, place, |label| {
            hash = hash::label(hash, label);
            length += 1 + label.len();
        })
        .filter(|_| length < MAX_NAME)?;
        // The root is read as fast as it is remembered.
        if length > 0 {
            self.names[self.turn % REMEMBERED] = (place, hash);
            self.turn += 1;
        }
        Some((hash, behind.unwrap_or(end)))
    }
}

const _: () = assert!(size_of::<Option<Fingerprint>>() == 32);
