//! Referrals written beforehand, compression and all. In them all pointers go to the name that is delegated or to what stands
//! behind it, so for a question with a longer name all of them are longer by as much.

use ldplayer_core::message::{HEADER, QueryParts};

use super::{CUT, NONE, Node, Zone};
use crate::answer::{Scratch, Transport, respond};
use crate::rtype;

/// Longer ones are written when they are needed.
const LONGEST: usize = 4096;

/// The referrals of a zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    all: Box<[Parts]>,
    octets: Box<[u8]>,
    /// Where pointers are, from the start of the octets of each.
    pointers: Box<[u16]>,
}

/// Where a template is, and how much of it are the NS records.
#[derive(Clone, Copy, Debug)]
struct Parts {
    octets: u32,
    pointers: u32,
    length: u16,
    authority: u16,
    pointer_count: u16,
    authority_pointers: u16,
    additionals: u16,
    /// Whether addresses have signatures, which are not in the template.
    is_signed: bool,
}

/// Records to be copied into a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub octets: &'a [u8],
    /// Where pointers are, from `start`.
    pub pointers: &'a [u16],
    pub start: u16,
}

/// A referral's NS records and glue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template<'a> {
    pub authority: Part<'a>,
    pub additional: Part<'a>,
    /// Records of the additional section.
    pub additionals: u16,
    /// Whether addresses have signatures, which are not in the template.
    pub is_signed: bool,
}

impl Templates {
    /// Writes the referrals of all cuts, and notes them in the nodes.
    pub fn of(zone: &mut Zone) -> Self {
        let (mut all, mut octets, mut pointers) = (Vec::new(), Vec::new(), Vec::new());
        let mut writing = Writing::default();
        for at in 0..zone.nodes.len() {
            if zone.nodes[at].flags & CUT == 0 || !writing.write(zone, &zone.nodes[at]) {
                continue;
            }
            // What is too much for 32 bits is written when it is needed.
            let (Ok(first), Ok(first_pointer)) = (u32::try_from(octets.len()), u32::try_from(pointers.len())) else {
                break;
            };
            all.push(Parts { octets: first, pointers: first_pointer, ..writing.parts(zone, &zone.nodes[at]) });
            octets.extend_from_slice(&writing.out[writing.start..]);
            pointers.extend(writing.pointers().map(|pointer| pointer - writing.start as u16));
            zone.nodes[at].template = all.len() as u32 - 1;
        }
        Self { all: all.into(), octets: octets.into(), pointers: pointers.into() }
    }

    #[inline]
    pub fn get(&self, at: u32) -> Option<Template<'_>> {
        let parts = self.all.get(at as usize)?;
        let octets = &self.octets[parts.octets as usize..][..usize::from(parts.length)];
        let (authority, additional) = octets.split_at(parts.authority.into());
        let pointers = &self.pointers[parts.pointers as usize..][..usize::from(parts.pointer_count)];
        let (in_authority, in_additional) = pointers.split_at(parts.authority_pointers.into());
        Some(Template {
            authority: Part { octets: authority, pointers: in_authority, start: 0 },
            additional: Part { octets: additional, pointers: in_additional, start: parts.authority },
            additionals: parts.additionals,
            is_signed: parts.is_signed,
        })
    }

    /// Octets of memory.
    pub const fn memory(&self) -> usize {
        self.octets.len() + size_of_val(&*self.pointers) + size_of_val(&*self.all)
    }
}

/// The reply to a query for a cut.
#[derive(Default)]
struct Writing {
    scratch: Scratch,
    query: Vec<u8>,
    out: Vec<u8>,
    /// Where the records begin.
    start: usize,
}

impl Writing {
    /// False where there is no use in a template.
    fn write(&mut self, zone: &Zone, node: &Node) -> bool {
        let name = zone.name(node);
        self.query.clear();
        self.out.clear();
        QueryParts { id: 0, flags: 0, name, qtype: rtype::A, qclass: zone.class(), edns: None }
            .compose(&mut self.query);
        self.scratch.note_pointers();
        respond(zone, &self.query, Transport::Tcp, &mut self.scratch, &mut self.out);
        self.start = HEADER + name.len() + 4;
        self.out.len() <= LONGEST
    }

    fn pointers(&self) -> impl Iterator<Item = u16> {
        self.scratch.noted_pointers().iter().copied()
    }

    fn parts(&self, zone: &Zone, node: &Node) -> Parts {
        let count = |at: usize| u16::from_be_bytes([self.out[at], self.out[at + 1]]);
        let authority = (0..count(8)).fold(self.start, |at, _| self.behind_record(at));
        let targets = zone.set_of(node, rtype::NS).map_or(&[][..], |set| zone.targets(set));
        let is_signed = |&&host: &&u32| {
            let node = (host != NONE && !zone.is_glue(host)).then(|| zone.node(host));
            node.is_some_and(|node| zone.sets_of(node).iter().any(|set| set.signatures > 0))
        };
        Parts {
            octets: 0,
            pointers: 0,
            length: (self.out.len() - self.start) as u16,
            authority: (authority - self.start) as u16,
            pointer_count: self.pointers().count() as u16,
            authority_pointers: self.pointers().filter(|&at| usize::from(at) < authority).count() as u16,
            additionals: count(10),
            is_signed: targets.iter().any(|host| is_signed(&host)),
        }
    }

    /// Where the next record begins, in a message of our own.
    fn behind_record(&self, at: usize) -> usize {
        let name = match self.out[at] {
            0xc0..=0xff => 2,
            _ => self.out[at..].iter().position(|&octet| octet == 0).map_or(1, |end| end + 1),
        };
        let length = [self.out[at + name + 8], self.out[at + name + 9]];
        at + name + super::HEAD + usize::from(u16::from_be_bytes(length))
    }
}
