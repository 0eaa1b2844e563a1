//! The name being looked up: QNAME at first, then the targets of aliases.

use crate::store::Labels;

/// Octets of the longest name and one to spare.
const ROOM: usize = 256;

/// A name, in its own case and in lower case.
pub(super) struct Current {
    own: [u8; ROOM],
    lower: [u8; ROOM],
    length: usize,
    pub labels: Labels,
    /// Where it stands in the message.
    pub at: usize,
}

impl Current {
    pub const fn new() -> Self {
        Self { own: [0; ROOM], lower: [0; ROOM], length: 1, labels: Labels::ROOT, at: 0 }
    }

    /// Takes a name that is one.
    #[inline]
    pub fn set(&mut self, name: &[u8], at: usize) {
        self.length = name.len();
        self.own[..name.len()].copy_from_slice(name);
        self.lower[..name.len()].copy_from_slice(name);
        self.lower[..name.len()].make_ascii_lowercase();
        self.labels.set(&self.lower[..name.len()]);
        self.at = at;
    }

    /// Puts another name in the place of an ancestor `octets` long (RFC 6672 §2.2). False where that is too long.
    pub fn replace(&mut self, octets: usize, with: &[u8]) -> bool {
        let kept = self.length - octets;
        if kept + with.len() > ldplayer_core::name::MAX_NAME {
            return false;
        }
        let mut name = [0; ROOM];
        name[..kept].copy_from_slice(&self.own[..kept]);
        name[kept..kept + with.len()].copy_from_slice(with);
        self.set(&name[..kept + with.len()], 0);
        true
    }

    pub fn own(&self) -> &[u8] {
        &self.own[..self.length]
    }

    pub fn lower(&self) -> &[u8] {
        &self.lower[..self.length]
    }

    pub const fn len(&self) -> usize {
        self.length
    }
}
