//! Compares two responses to the same question: each becomes a fingerprint of fixed size, and fingerprints are compared by field.
//!
//! What a fingerprint holds: the response code with the bits of EDNS, the flags AA, TC, RA and AD, and for each section the set of
//! its records. Names are compared without case (RFC 4343) and without compression, also within the data of the types that have
//! names in it. What it does not hold: TTLs, the order of records, the OPT record and TSIG, the flags that repeat the query (RD,
//! CD), and of RRSIG records the times, the signature and the original TTL, which change whenever a zone is signed. The sections
//! of a truncated response are as long as its server chose, so those of two truncated ones are not compared.

mod alike;
mod hash;
mod ignore;
mod records;

use std::fmt;
use std::num::NonZeroU32;

use crate::message::{Message, flag};
use crate::name::MAX_NAME;

pub use self::ignore::{BadRule, Ignore, IgnoreRule};

/// Sections of records: answer, authority and additional.
pub const SECTIONS: usize = 3;
/// The flags that are compared, as bits of the header …
const FLAGS: u16 = flag::AA | flag::TC | flag::RA | flag::AD;
/// … and where they are in a head, above the twelve bits of the response code.
const FLAGS_AT: u32 = 16;
const RCODE: u32 = 0xfff;
/// A bit that is always set, so that the absence of a fingerprint takes no room: it stands where QR does.
// One bit of it is set.
const PRESENT: NonZeroU32 = NonZeroU32::new(0x8000_0000).unwrap();

/// How the response compares with the expected one: the trace's, or another server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Answer {
    /// Both say the same.
    Match,
    /// An answer, where the other is an error or truncated; or truncated, where the other is an error.
    Better,
    /// The other way round, or no response at all.
    Worse,
    /// Neither is better, and they say different things.
    Changed,
}

impl Answer {
    /// Every comparison, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Match, Self::Better, Self::Worse, Self::Changed];

    /// The word used in the run directory.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Changed => "changed",
        }
    }
}

/// What of a response is compared, in 32 octets. Two that are equal are of responses that say the same, but for one in 2⁶⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    head: NonZeroU32,
    /// The sum of what each record hashes to, which no order changes.
    sections: [u64; SECTIONS],
}

impl Fingerprint {
    /// The fingerprint of a response, without what `ignore` leaves out. Whatever the octets are, there is one.
    pub fn of(response: &Message<'_>, ignore: &Ignore) -> Self {
        let compared = response.flags() & FLAGS & !ignore.flags();
        let (sections, extended) = records::sections(response, ignore);
        let rcode = u32::from(extended) << 4 | u32::from(response.header_rcode());
        Self { head: PRESENT | u32::from(compared) << FLAGS_AT | rcode, sections }
    }

    /// The response code, with the bits of EDNS.
    pub const fn rcode(self) -> u16 {
        (self.head.get() & RCODE) as u16
    }

    /// What the records of the answer section hash to, whatever their order and TTLs.
    pub const fn answer_section(self) -> u64 {
        self.sections[0]
    }

    /// How a `response` compares with this one, and in which fields they differ.
    pub fn judge(self, response: Self) -> (Answer, Differs) {
        let differs = self.differs(response);
        let answer = match response.worth().cmp(&self.worth()) {
            _ if differs == Differs::NOTHING => Answer::Match,
            std::cmp::Ordering::Greater => Answer::Better,
            std::cmp::Ordering::Less => Answer::Worse,
            std::cmp::Ordering::Equal => Answer::Changed,
        };
        (answer, differs)
    }

    fn differs(self, other: Self) -> Differs {
        let mut fields = Differs::NOTHING;
        fields.set(Differs::RCODE, self.rcode() != other.rcode());
        fields.set(Differs::FLAGS, self.flags() != other.flags());
        if !(self.is_truncated() && other.is_truncated()) {
            let of_sections = [Differs::ANSWER, Differs::AUTHORITY, Differs::ADDITIONAL];
            for (at, field) in of_sections.into_iter().enumerate() {
                fields.set(field, self.sections[at] != other.sections[at]);
            }
        }
        fields
    }

    const fn flags(self) -> u16 {
        (self.head.get() >> FLAGS_AT) as u16 & FLAGS
    }

    const fn is_truncated(self) -> bool {
        self.flags() & flag::TC != 0
    }

    /// What a client has of it: 0 an error, 1 to ask again over TCP, 2 an answer. NXDOMAIN is one, and so is the YXDOMAIN of a
    /// DNAME that makes a name too long (RFC 6672 §2.2).
    const fn worth(self) -> u8 {
        match (self.rcode(), self.is_truncated()) {
            (0 | 3 | 6, false) => 2,
            (0 | 3 | 6, true) => 1,
            _ => 0,
        }
    }
}

/// How the response that was `found` compares with the one `expected`. Most are the same octets but for ID and TTLs, which is seen sooner
/// than two fingerprints are made.
pub fn responses(expected: &Message<'_>, found: &Message<'_>, ignore: &Ignore) -> (Answer, Differs) {
    if alike::but_for_ttls(expected, found) {
        return (Answer::Match, Differs::NOTHING);
    }
    Fingerprint::of(expected, ignore).judge(Fingerprint::of(found, ignore))
}

/// A hash of the question of a message, whatever the case of its name: the same for two queries that ask the same.
pub fn question(message: &Message<'_>) -> u64 {
    let Some(question) = message.question() else { return 0 };
    let mut name = [0; MAX_NAME];
    let name = &mut name[..question.name.len()];
    name.copy_from_slice(question.name);
    name.make_ascii_lowercase();
    hash::number(hash::octets(0, name), u64::from(question.qtype) << 16 | u64::from(question.qclass))
}

/// The fields in which a response differs from the one that it is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Differs(u8);

impl Differs {
    /// In none.
    pub const NOTHING: Self = Self(0);
    /// The response code.
    pub const RCODE: Self = Self(1);
    /// A flag.
    pub const FLAGS: Self = Self(1 << 1);
    /// Records of the answer section.
    pub const ANSWER: Self = Self(1 << 2);
    /// Records of the authority section.
    pub const AUTHORITY: Self = Self(1 << 3);
    /// Records of the additional section.
    pub const ADDITIONAL: Self = Self(1 << 4);
    /// There is no response, where there was one.
    pub const UNANSWERED: Self = Self(1 << 5);
    /// Combinations of fields.
    pub const COMBINATIONS: u8 = 1 << 6;
    /// The fields by their words, in the order of their bits.
    pub const WORDS: [&str; 6] = ["rcode", "flags", "answer", "authority", "additional", "unanswered"];

    /// The combination of a number, as [`Self::bits`] gives it.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits < Self::COMBINATIONS { Some(Self(bits)) } else { None }
    }

    /// A number below [`Self::COMBINATIONS`].
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all fields of `fields` are among these.
    pub const fn has(self, fields: Self) -> bool {
        self.0 & fields.0 == fields.0
    }

    const fn set(&mut self, field: Self, is_so: bool) {
        if is_so {
            self.0 |= field.0;
        }
    }
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Self::WORDS.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        words.enumerate().try_for_each(|(at, (_, word))| write!(f, "{}{word}", if at > 0 { "," } else { "" }))
    }
}

impl std::str::FromStr for Differs {
    type Err = ();

    /// Reads what [`fmt::Display`] shows.
    fn from_str(text: &str) -> Result<Self, ()> {
        let bit = |word: &str| Self::WORDS.iter().position(|known| *known == word).ok_or(());
        let words = text.split(',').filter(|word| !word.is_empty());
        words.map(bit).try_fold(0, |bits, bit| Ok(bits | 1 << bit?)).map(Self)
    }
}

#[cfg(test)]
mod tests;
