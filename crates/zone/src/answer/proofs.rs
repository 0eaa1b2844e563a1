//! Negative answers and their proofs of nonexistence (RFC 2308, RFC 4035 §3.1.3, RFC 5155 §7.2).

use super::resolve::Answer;
use super::{Owner, Section};
use crate::rtype;
use crate::store::{Labels, NONE};

impl Answer<'_, '_> {
    /// Notes a record of the chain for the authority section.
    fn note(&mut self, proof: Option<u32>) {
        if let Some(at) = proof.filter(|&at| at != NONE && !self.denials.contains(&at)) {
            self.denials.push(at);
        }
    }

    /// Notes the proof that the current name is not there: what covers it, or with NSEC3 the name below the closest
    /// encloser on the way to it (RFC 5155 §7.2.6: that the encloser is the closest is seen from the signature's labels).
    pub fn deny_name(&mut self, encloser: u32) {
        if self.zone.denial().is_hashed() {
            let proof = self.next_closer_cover(encloser);
            self.note(proof);
        } else {
            let proof = self.zone.cover(self.current.lower(), &self.current.labels);
            self.note(proof);
        }
    }

    /// What covers the name one label longer than the encloser.
    fn next_closer_cover(&self, encloser: u32) -> Option<u32> {
        let zone = self.zone;
        let above = zone.label_count(encloser);
        let label = self.current.labels.count().checked_sub(above + 1)?;
        let name = &self.current.lower()[self.current.labels.at(label)..];
        zone.cover(name, &Labels::of(name))
    }

    /// Writes the noted proofs. Without them the answer cannot be validated: they must fit.
    pub fn denials(&mut self) {
        let zone = self.zone;
        while self.denied < self.denials.len() && !self.answered.truncated {
            let entry = *zone.denial().entry(self.denials[self.denied]);
            self.denied += 1;
            self.written.push(entry.set);
            let owner = Owner::Name(zone.denial_owner(&entry));
            let fits = self.writer.set(Section::Authority, zone, zone.set(entry.set), owner, true, |_| {});
            self.answered.truncated |= !fits;
        }
    }

    /// The SOA record, which limits the lifetime of a negative answer (RFC 2308 §3).
    fn soa(&mut self) {
        let (zone, owner) = (self.zone, self.apex_owner());
        let fits = self.writer.set(Section::Authority, zone, zone.negative_soa(), owner, self.dnssec, |_| {});
        self.answered.truncated |= !fits;
    }

    /// The current name is not there, and no wildcard stands for it.
    pub fn deny(&mut self, encloser: u32) {
        self.soa();
        if self.dnssec && !self.zone.denial().is_empty() {
            let encloser = self.provable(encloser);
            if self.zone.denial().is_hashed() {
                self.note(Some(self.zone.node(encloser).proof));
            }
            self.deny_name(encloser);
            let node = self.zone.node(encloser);
            let wildcard =
                Some(node.wildcard_proof).filter(|&at| at != NONE).or_else(|| self.zone.wildcard_cover(node));
            self.note(wildcard);
        }
        self.denials();
    }

    /// The closest encloser that has an NSEC3 record: one that is there for opted-out delegations alone has none (RFC 5155
    /// §6, §7.2.1).
    fn provable(&self, mut encloser: u32) -> u32 {
        let zone = self.zone;
        while zone.denial().is_hashed() && zone.node(encloser).proof == NONE && zone.node(encloser).parent != NONE {
            encloser = zone.node(encloser).parent;
        }
        encloser
    }

    /// The name is there, or a wildcard for it, but the type is not.
    pub fn deny_type(&mut self, node: u32) {
        self.soa();
        if self.dnssec && !self.zone.denial().is_empty() {
            self.note_no_type(node);
        }
        self.denials();
    }

    fn note_no_type(&mut self, node: u32) {
        let zone = self.zone;
        let proof = zone.node(node).proof;
        if !zone.denial().is_hashed() || (proof != NONE && !self.is_expanded(node)) {
            return self.note(Some(proof));
        }
        if self.is_expanded(node) {
            // RFC 5155 §7.2.5: the closest encloser as well; what covers the next closer name was noted on the way.
            self.note(Some(zone.node(zone.node(node).parent).proof));
            return self.note(Some(proof));
        }
        self.note_opted_out(node);
    }

    /// Whether the node is a wildcard that stands for the current name.
    fn is_expanded(&self, node: u32) -> bool {
        self.zone.is_wildcard(node) && self.zone.name(self.zone.node(node)) != self.current.lower()
    }

    /// A name without an NSEC3 record of its own, for it is within an opt-out span: the closest ancestor that has one,
    /// and what covers the name below that (RFC 5155 §7.2.4, §7.2.7).
    fn note_opted_out(&mut self, node: u32) {
        let zone = self.zone;
        let (mut next, mut above) = (node, zone.node(node).parent);
        while above != NONE && zone.node(above).proof == NONE {
            (next, above) = (above, zone.node(above).parent);
        }
        if above == NONE {
            return;
        }
        self.note(Some(zone.node(above).proof));
        let name = zone.name(zone.node(next));
        self.note(zone.cover(name, &Labels::of(name)));
    }

    /// DS records of a cut, or the proof that there are none (RFC 4035 §3.1.4, RFC 5155 §7.2.7).
    pub fn prove_delegation(&mut self, cut: u32) {
        let zone = self.zone;
        if !self.dnssec || !zone.is_signed() {
            return;
        }
        if let Some(at) = zone.set_at(cut, rtype::DS) {
            self.written.push(at);
            let owner = self.owner_of(cut);
            let fits = self.writer.set(Section::Authority, zone, zone.set(at), owner, true, |_| {});
            self.answered.truncated |= !fits;
            return;
        }
        if zone.denial().is_empty() {
            return;
        }
        let proof = zone.node(cut).proof;
        match (zone.denial().is_hashed(), proof) {
            (true, NONE) => self.note_opted_out(cut),
            // The record before a cut that has none proves nothing.
            (false, at) if at != NONE && zone.denial_owner(zone.denial().entry(at)) != zone.name(zone.node(cut)) => {}
            _ => self.note(Some(proof)),
        }
        self.denials();
    }
}
