//! Referrals written beforehand, compression and all. In them all pointers go to the name that is delegated or to what stands
//! behind it, so for a question with a longer name all of them are longer by as much.

use super::{CUT, NONE, Zone};

/// The referrals of a zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    all: Vec<Parts>,
    octets: Vec<u8>,
    /// Where pointers are, from the start of the octets of each.
    pointers: Vec<u16>,
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

/// A referral as it was written into a message. All places are counted from the message's start.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    pub message: &'a [u8],
    /// Where the records begin: first the NS records.
    pub start: usize,
    /// Where the additional section begins.
    pub additional: usize,
    /// Where pointers are.
    pub pointers: &'a [u16],
    /// Records of the additional section.
    pub additionals: u16,
    /// Whether addresses have signatures, which are not in the message.
    pub is_signed: bool,
}

impl Zone {
    /// The nodes of all cuts.
    pub(crate) fn cuts(&self) -> Vec<u32> {
        let cuts = self.nodes.iter().zip(0..).filter(|(node, _)| node.flags & CUT != 0);
        cuts.map(|(_, at)| at).collect()
    }

    /// Keeps the referral of the cut at a node. False where it is too much for 32 bits.
    pub(crate) fn keep_template(&mut self, cut: u32, written: &Written<'_>) -> bool {
        let at = self.templates.add(written);
        self.nodes[cut as usize].template = at.unwrap_or(NONE);
        at.is_some()
    }

    /// Gives back the memory that further referrals would have taken.
    pub(crate) fn shrink_templates(&mut self) {
        let Templates { all, octets, pointers } = &mut self.templates;
        all.shrink_to_fit();
        octets.shrink_to_fit();
        pointers.shrink_to_fit();
    }
}

impl Templates {
    /// Adds one; `None` if offsets outgrow 32 bits: the referral is then written when it is needed.
    fn add(&mut self, written: &Written<'_>) -> Option<u32> {
        let Written { message, start, additional, pointers, .. } = *written;
        let parts = Parts {
            octets: u32::try_from(self.octets.len()).ok()?,
            pointers: u32::try_from(self.pointers.len()).ok()?,
            length: (message.len() - start) as u16,
            authority: (additional - start) as u16,
            pointer_count: pointers.len() as u16,
            authority_pointers: pointers.iter().filter(|&&at| usize::from(at) < additional).count() as u16,
            additionals: written.additionals,
            is_signed: written.is_signed,
        };
        self.octets.extend_from_slice(&message[start..]);
        self.pointers.extend(pointers.iter().map(|pointer| pointer - start as u16));
        self.all.push(parts);
        u32::try_from(self.all.len() - 1).ok()
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
    pub fn memory(&self) -> usize {
        self.octets.len() + size_of_val(&*self.pointers) + size_of_val(&*self.all)
    }
}
