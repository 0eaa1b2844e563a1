//! Questions made from the names of a zone: those that are there, those beside, above and below them, of all types.

use std::fmt;

use ldplayer_core::message::{QueryParts, flag};
use ldplayer_core::name::Presentation;
use ldplayer_zone::{Records, rtype};

/// Types asked for, the usual ones more often.
const TYPES: [u16; 36] = [
    1, 1, 1, 28, 28, 2, 2, 6, 15, 15, 16, 16, 5, 39, 43, 43, 43, 48, 47, 50, 51, 46, 33, 12, 255, 257, 65280, 64, 65,
    35, 52, 13, 18, 21, 36, 7,
];
/// EDNS sizes.
const SIZES: [u16; 4] = [512, 1232, 1232, 4096];

/// A query and how it is sent.
pub struct Question {
    pub octets: Vec<u8>,
    pub name: Vec<u8>,
    pub qtype: u16,
    pub edns: Option<(u16, bool)>,
    pub tcp: bool,
}

impl Question {
    /// Most octets of the answer, with the size that all servers here are left at.
    pub fn limit(&self) -> usize {
        let udp = self.edns.map_or(512, |(size, _)| size.clamp(512, 1232));
        if self.tcp { 65_535 } else { udp.into() }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = if self.tcp { "TCP" } else { "UDP" };
        write!(f, "{} {} {:?} {transport}", Presentation(&self.name), rtype::name_of(self.qtype), self.edns)
    }
}

/// An endless row of questions, the same for the same seed.
pub struct Questions {
    names: Vec<Vec<u8>>,
    apex: Vec<u8>,
    state: u64,
    asked: usize,
}

impl Questions {
    pub fn of(records: &Records, apex: &[u8], seed: u64) -> Self {
        let mut names: Vec<Vec<u8>> = records.iter().map(|record| record.owner.to_vec()).collect();
        names.sort();
        names.dedup();
        Self { names, apex: apex.to_vec(), state: seed, asked: 0 }
    }

    /// The next number of SplitMix64 below a bound.
    fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.state;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ value >> 31) % bound as u64) as usize
    }

    /// A name of the zone, or one made of it.
    fn name(&mut self) -> Vec<u8> {
        // Each name as it is comes up at least once.
        let name = match self.names.get(self.asked) {
            Some(name) if self.asked.is_multiple_of(2) => return name.clone(),
            _ => {
                let at = self.below(self.names.len());
                self.names[at].clone()
            }
        };
        match self.below(10) {
            0..=2 => name,
            3 => self.below_it(name, b"\x01*"),
            4 => self.below_it(name, b"\x07nothing"),
            5 => self.below_it(name, b"\x01a\x02bc"),
            6 => parent(&name, &self.apex),
            7 => beside(name, |label| label[0] = label[0].wrapping_add(1)),
            8 => beside(name, |label| *label.last_mut().unwrap() = b'0'),
            _ => self.other_case(name),
        }
    }

    fn below_it(&self, name: Vec<u8>, labels: &[u8]) -> Vec<u8> {
        if name.len() + labels.len() > 255 { name } else { [labels, &name].concat() }
    }

    fn other_case(&mut self, mut name: Vec<u8>) -> Vec<u8> {
        for octet in &mut name {
            if octet.is_ascii_lowercase() && self.below(2) == 0 {
                octet.make_ascii_uppercase();
            }
        }
        name
    }
}

/// The name without its first label, unless that would leave the zone.
fn parent(name: &[u8], apex: &[u8]) -> Vec<u8> {
    if name == apex { name.to_vec() } else { name[1 + usize::from(name[0])..].to_vec() }
}

/// The name with its first label changed, in lower case.
fn beside(mut name: Vec<u8>, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let length = usize::from(name[0]);
    if length > 0 {
        change(&mut name[1..=length]);
        name[1..=length].make_ascii_lowercase();
    }
    name
}

impl Iterator for Questions {
    type Item = Question;

    fn next(&mut self) -> Option<Question> {
        let name = self.name();
        self.asked += 1;
        let qtype = TYPES[self.below(TYPES.len())];
        let edns = match self.below(5) {
            0 => None,
            kind => Some((SIZES[self.below(SIZES.len())], kind > 1)),
        };
        let tcp = self.below(8) == 0;
        let flags = [0, flag::RD, flag::CD, flag::AD][self.below(4)];
        let (id, qclass) = (self.asked as u16, 1);
        let mut octets = Vec::new();
        QueryParts { id, flags, name: &name, qtype, qclass, edns }.compose(&mut octets);
        Some(Question { octets, name, qtype, edns, tcp })
    }
}
