//! A reply as it is compared: what is equal under RFC 1035 is equal here, whatever its order, case and compression.

use std::collections::BTreeSet;
use std::fmt;

use domain::base::name::ToName;
use domain::base::rdata::ComposeRecordData;
use domain::base::{Message, ParsedName, Record};
use domain::rdata::AllRecordData;
use ldplayer_core::message::{OPT, flag};
use ldplayer_core::name::Presentation;
use ldplayer_zone::rtype;

/// A record: owner, type, class, TTL, data. Names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    pub owner: Vec<u8>,
    pub rtype: u16,
    pub class: u16,
    pub ttl: u32,
    pub data: Vec<u8>,
}

impl Item {
    /// The type, or of a signature the type that it covers.
    pub fn covers(&self) -> u16 {
        match (self.rtype, self.data.first_chunk()) {
            (rtype::RRSIG, Some(&covered)) => u16::from_be_bytes(covered),
            (rtype, _) => rtype,
        }
    }
}

/// EDNS of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    pub size: u16,
    pub version: u8,
    pub dnssec_ok: bool,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Flags and opcode, without the response code.
    pub flags: u16,
    pub rcode: u16,
    /// The question's octets, whose case must be kept.
    pub question: Vec<u8>,
    pub edns: Option<Edns>,
    /// Answer, authority, additional.
    pub sections: [BTreeSet<Item>; 3],
    /// Records that a section holds twice.
    pub repeated: usize,
}

impl Seen {
    pub fn read(octets: &[u8]) -> Self {
        let message = Message::from_octets(octets).unwrap();
        let view = ldplayer_core::Message::new(octets).unwrap();
        let (mut sections, mut repeated) = ([const { BTreeSet::new() }; 3], 0);
        let all = [message.answer().unwrap(), message.authority().unwrap(), message.additional().unwrap()];
        for (section, read) in sections.iter_mut().zip(all) {
            for record in read.limit_to::<AllRecordData<_, ParsedName<_>>>() {
                let item = item(&record.unwrap());
                repeated += usize::from(item.rtype != OPT && !section.insert(item));
            }
        }
        let edns =
            view.edns().map(|edns| Edns { size: edns.udp_size, version: edns.version, dnssec_ok: edns.dnssec_ok });
        let question = view.question_octets().unwrap_or_default().to_vec();
        Self { flags: view.flags() & !0xf, rcode: view.rcode(), question, edns, sections, repeated }
    }

    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Where two replies differ, for people.
    pub fn unlike(&self, theirs: &Self) -> String {
        let mut text = format!("  ours {self}\n  theirs {theirs}\n");
        for (name, (a, b)) in ["an", "ns", "ar"].iter().zip(self.sections.iter().zip(&theirs.sections)) {
            a.difference(b).take(4).for_each(|item| text.push_str(&format!("  {name} only ours: {item}\n")));
            b.difference(a).take(4).for_each(|item| text.push_str(&format!("  {name} only theirs: {item}\n")));
        }
        text
    }
}

/// A record of any type, in place.
type Parsed<'a> = Record<ParsedName<&'a [u8]>, AllRecordData<&'a [u8], ParsedName<&'a [u8]>>>;

fn item(record: &Parsed<'_>) -> Item {
    let mut data = Vec::new();
    record.data().compose_canonical_rdata(&mut data).unwrap();
    let owner: domain::base::Name<Vec<u8>> = record.owner().to_name();
    Item {
        owner: owner.as_octets().to_ascii_lowercase(),
        rtype: record.rtype().to_int(),
        class: record.class().to_int(),
        ttl: record.ttl().as_secs(),
        data,
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.sections.each_ref().map(BTreeSet::len);
        write!(f, "rcode {} flags", self.rcode)?;
        for (bit, name) in
            [(flag::AA, "aa"), (flag::TC, "tc"), (flag::RD, "rd"), (flag::RA, "ra"), (flag::AD, "ad"), (flag::CD, "cd")]
        {
            if self.has(bit) {
                write!(f, " {name}")?;
            }
        }
        write!(f, ", question {} octets, {:?}, {counts:?} records", self.question.len(), self.edns)
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", Presentation(&self.owner), self.ttl, rtype::name_of(self.rtype))?;
        self.data.iter().take(24).try_for_each(|octet| write!(f, " {octet:02x}"))
    }
}
