//! The lookup algorithm: data, aliases, wildcards, referrals and denials (RFC 1034 §4.3.2).

use ldplayer_core::message::Question;

use super::additional::{self, Pending};
use super::query::{Query, rcode};
use super::{Answered, Current, Names, Owner, ReplyKind, Scratch, Section, Transport, Writer};
use crate::rtype;
use crate::store::{HEAD, NONE, Pick, Place, Set, Zone};

/// Most aliases that are followed for one question.
const ALIASES: usize = 16;

/// An answer in the making.
pub(super) struct Answer<'z, 's> {
    pub zone: &'z Zone,
    pub writer: Writer<'s>,
    pub current: &'s mut Current,
    /// Sets that are in the message, by position.
    pub written: &'s mut Vec<u32>,
    /// Records that deny something, by position in the chain.
    pub denials: &'s mut Vec<u32>,
    pub pending: &'s mut Vec<Pending>,
    pub qtype: u16,
    /// Octets of the question's name.
    pub question_length: usize,
    pub dnssec: bool,
    transport: Transport,
    aliases: usize,
    /// How many of the denials are written.
    pub denied: usize,
    pub answered: Answered,
    pick: Pick,
}

/// Answers a question from the zone.
#[allow(clippy::too_many_arguments, reason = "the parts of one call that live for different times")]
pub(super) fn resolve(
    zone: &Zone,
    query: &Query<'_>,
    question: Question<'_>,
    transport: Transport,
    limit: usize,
    base: usize,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Answered {
    if matches!(question.qtype, rtype::AXFR | rtype::IXFR) {
        // Zone transfers are refused (RFC 5936 §2.2.1).
        return Answered { rcode: rcode::REFUSED, ..Answered::default() };
    }
    let Scratch { current, names, written, denials, pending, .. } = scratch;
    denials.clear();
    pending.clear();
    let names: &mut Names = names;
    let mut answer = Answer {
        zone,
        writer: Writer::new(out, base, limit, names, question.name),
        current,
        written,
        denials,
        pending,
        qtype: question.qtype,
        question_length: question.name.len(),
        dnssec: query.dnssec_ok(),
        transport,
        aliases: 0,
        denied: 0,
        answered: Answered { kind: ReplyKind::Answer, ..Answered::default() },
        pick: query.pick,
    };
    answer.run();
    answer.answered.counts = answer.writer.counts();
    answer.answered
}

/// What a step of the walk comes to.
enum Step {
    /// The name is an alias: on with the other.
    Follow,
    /// The answer section is as it will be; this is what the others are for.
    Done(End),
}

enum End {
    /// There are records of the type.
    Data,
    /// Nothing belongs to the answer but proofs: an alias leads out, around, or too far; or all types were asked for.
    Alias,
    Referral(u32),
    /// The node without the type.
    NoData(u32),
    /// The closest encloser.
    NxDomain(u32),
    TooLong,
    Truncated,
}

impl<'z> Answer<'z, '_> {
    fn run(&mut self) {
        let end = loop {
            match self.step() {
                // What stands so far back cannot be pointed to (RFC 1035 §4.1.4); the asker can go on from there.
                Step::Follow if self.current.at >= 0x4000 => break End::Alias,
                Step::Follow => {}
                Step::Done(end) => break end,
            }
        };
        self.end(end);
    }

    /// The set at a position, in the version that this answer takes.
    #[inline]
    pub fn set(&mut self, at: u32) -> &'z Set {
        self.zone.version(at, &self.pick, &mut self.answered.scope)
    }

    /// Looks the current name up once.
    fn step(&mut self) -> Step {
        let zone = self.zone;
        match zone.find(self.current.lower(), &self.current.labels, self.qtype == rtype::DS) {
            Place::Node(node) => {
                self.answered.authoritative = true;
                self.data(node, self.current_owner())
            }
            Place::Cut(cut) => {
                self.answered.authoritative = self.aliases > 0;
                Step::Done(End::Referral(cut))
            }
            Place::Below(node) => {
                self.answered.authoritative = true;
                self.redirect(node)
            }
            Place::Missing(encloser) => {
                self.answered.authoritative = true;
                self.missing(encloser)
            }
            Place::Outside => Step::Done(End::Alias),
        }
    }

    fn missing(&mut self, encloser: u32) -> Step {
        let wildcard = self.zone.node(encloser).wildcard;
        if wildcard == NONE {
            return Step::Done(End::NxDomain(encloser));
        }
        if self.dnssec {
            self.deny_name(encloser);
        }
        self.data(wildcard, self.current_owner())
    }

    /// Answers from a node: the name's own, or the wildcard's that stands for it.
    fn data(&mut self, node: u32, owner: Owner<'static>) -> Step {
        let zone = self.zone;
        if let Some(first) = self.first_of_several(node) {
            return self.several(node, first, owner);
        }
        if let Some(at) = zone.set_at(node, self.qtype) {
            return Step::Done(if self.write_answer(at, owner) { End::Data } else { End::Truncated });
        }
        match zone.set_at(node, rtype::CNAME) {
            Some(at) => self.alias(at, zone.is_wildcard(node), owner),
            None => Step::Done(End::NoData(node)),
        }
    }

    /// Where the question is for more than one set, the first that there is.
    fn first_of_several(&self, node: u32) -> Option<usize> {
        let sets = self.zone.sets_of(self.zone.node(node));
        match self.qtype {
            rtype::RRSIG => sets.iter().position(|set| set.signatures > 0),
            // An NSEC set is the last choice, since it is of no use to the client.
            rtype::ANY => {
                let data = sets.iter().position(|set| set.count > 0 && set.rtype != rtype::NSEC);
                data.or_else(|| sets.iter().position(|set| set.count > 0))
            }
            _ => None,
        }
    }

    /// ANY: over TCP all sets, over UDP one (RFC 8482 §4.1). RRSIG: all signatures (RFC 8482 §7).
    fn several(&mut self, node: u32, only: usize, owner: Owner<'static>) -> Step {
        let zone = self.zone;
        let sets = zone.sets_of(zone.node(node));
        let only_signatures = self.qtype == rtype::RRSIG;
        let wanted = |set: &Set| if only_signatures { set.signatures > 0 } else { set.count > 0 };
        let is_one = !only_signatures && self.transport == Transport::Udp;
        for (number, _) in sets.iter().enumerate().filter(|(_, set)| wanted(set)) {
            if is_one && number != only {
                continue;
            }
            if !self.write_one_of(zone.first_set(node) + number as u32, owner) {
                return Step::Done(End::Truncated);
            }
        }
        Step::Done(if only_signatures { End::Data } else { End::Alias })
    }

    /// A set of an answer to ANY, signatures being data there, or the signatures of a set.
    fn write_one_of(&mut self, at: u32, owner: Owner<'_>) -> bool {
        let set = self.set(at);
        if self.qtype == rtype::RRSIG {
            return self.writer.signatures(Section::Answer, self.zone, set, owner);
        }
        self.written.push(at);
        let signed = self.dnssec || self.transport == Transport::Tcp;
        self.writer.set(Section::Answer, self.zone, set, owner, signed, |_| {})
    }

    fn write_answer(&mut self, at: u32, owner: Owner<'_>) -> bool {
        self.written.push(at);
        additional::write(self, Section::Answer, at, owner, self.dnssec)
    }

    /// Writes a CNAME set and goes on with its target (RFC 1034 §3.6.2).
    fn alias(&mut self, at: u32, is_wildcard: bool, owner: Owner<'static>) -> Step {
        let zone = self.zone;
        let set = self.set(at);
        let Some(target) = zone.data(set).next() else { return Step::Done(End::Alias) };
        let is_first_visit = !self.written.contains(&at) || is_wildcard;
        if !is_first_visit || self.aliases >= ALIASES {
            return Step::Done(End::Alias);
        }
        self.aliases += 1;
        self.written.push(at);
        let mut name_at = 0;
        let on_record = |data: usize| name_at = if name_at == 0 { data } else { name_at };
        if !self.writer.set(Section::Answer, zone, set, owner, self.dnssec, on_record) {
            return Step::Done(End::Truncated);
        }
        let is_same = target.eq_ignore_ascii_case(self.current.lower());
        self.current.set(target, name_at);
        if is_same { Step::Done(End::Alias) } else { Step::Follow }
    }

    /// Writes a DNAME set and the CNAME that it makes of the name below it (RFC 6672 §3.1).
    fn redirect(&mut self, node: u32) -> Step {
        let zone = self.zone;
        let Some(at) = zone.set_at(node, rtype::DNAME) else { return Step::Done(End::NoData(node)) };
        let set = self.set(at);
        let Some(target) = zone.data(set).next() else { return Step::Done(End::NoData(node)) };
        // A second time it may be a loop: the asker can go on from the last CNAME.
        if self.aliases >= ALIASES || self.written.contains(&at) {
            return Step::Done(End::Alias);
        }
        let owner_octets = zone.node(node).name_length();
        self.written.push(at);
        let owner = self.owner_of(node);
        let mut target_at = 0;
        let on_record = |data| target_at = if target_at == 0 { data } else { target_at };
        if !self.writer.set(Section::Answer, zone, set, owner, self.dnssec, on_record) {
            return Step::Done(End::Truncated);
        }
        // The target is written in full, and the CNAME to come ends in it.
        self.writer.note(target, target_at);
        self.aliases += 1;
        let owner = self.current_owner();
        if !self.current.replace(owner_octets, target) {
            return Step::Done(End::TooLong);
        }
        let ttl = zone.wire(set)[4..8].first_chunk().map_or(0, |&octets| u32::from_be_bytes(octets));
        if !self.write_cname(owner, ttl) {
            return Step::Done(End::Truncated);
        }
        // The query may ask for that CNAME.
        if self.qtype == rtype::CNAME { Step::Done(End::Alias) } else { Step::Follow }
    }

    /// Writes a CNAME to the current name, which then stands there.
    fn write_cname(&mut self, owner: Owner<'_>, ttl: u32) -> bool {
        let mut record = [0; HEAD + ldplayer_core::name::MAX_NAME];
        let name = self.current.own();
        record[..2].copy_from_slice(&rtype::CNAME.to_be_bytes());
        record[2..4].copy_from_slice(&self.zone.class().to_be_bytes());
        record[4..8].copy_from_slice(&ttl.to_be_bytes());
        record[8..10].copy_from_slice(&(name.len() as u16).to_be_bytes());
        record[HEAD..HEAD + name.len()].copy_from_slice(name);
        let length = HEAD + name.len();
        match self.writer.made(Section::Answer, rtype::CNAME, &record[..length], owner) {
            Some(at) => {
                self.current.at = at;
                true
            }
            None => false,
        }
    }

    /// The current name as an owner; it stands in the message.
    fn current_owner(&self) -> Owner<'static> {
        if self.current.len() == 1 { Owner::Name(b"\0") } else { Owner::At(self.current.at) }
    }

    /// A node as an owner, pointed to where it is an ancestor of the question's name.
    pub fn owner_of(&self, node: u32) -> Owner<'z> {
        let name = self.zone.name(self.zone.node(node));
        self.owner_named(name, self.aliases == 0)
    }

    /// The apex as an owner.
    pub fn apex_owner(&self) -> Owner<'z> {
        self.owner_named(self.zone.apex(), true)
    }

    /// The question's name stands uncompressed in the message, and so do its ancestors.
    fn owner_named(&self, name: &'z [u8], is_ancestor: bool) -> Owner<'z> {
        if is_ancestor && name.len() > 1 {
            Owner::At(ldplayer_core::message::HEADER + self.question_length - name.len())
        } else {
            Owner::Name(name)
        }
    }

    fn end(&mut self, end: End) {
        let answered = &mut self.answered;
        match end {
            End::Truncated => answered.truncated = true,
            End::TooLong => (answered.rcode, answered.kind) = (rcode::YXDOMAIN, ReplyKind::YxDomain),
            End::Alias => self.denials(),
            End::Data => self.end_with_data(),
            End::Referral(cut) => self.end_with_referral(cut),
            End::NoData(node) => {
                answered.kind = if self.aliases > 0 { ReplyKind::Answer } else { ReplyKind::NoData };
                self.deny_type(node);
            }
            End::NxDomain(encloser) => {
                answered.rcode = rcode::NXDOMAIN;
                answered.kind = ReplyKind::NxDomain;
                self.deny(encloser);
            }
        }
    }

    /// Proofs for wildcards, then the zone's name servers where they fit, then addresses.
    fn end_with_data(&mut self) {
        self.denials();
        let needs_servers = !matches!(self.qtype, rtype::DNSKEY | rtype::DS) && !self.answered.truncated;
        let servers = self.zone.set_at(0, rtype::NS).filter(|at| needs_servers && !self.written.contains(at));
        if let Some(at) = servers {
            let pending = self.pending.len();
            // Nobody asked for them: they may be left out without a word (RFC 2181 §9).
            if additional::write(self, Section::Authority, at, self.apex_owner(), self.dnssec) {
                self.written.push(at);
            } else {
                self.pending.truncate(pending);
            }
        }
        if !self.answered.truncated {
            additional::addresses(self, None);
        }
    }

    fn end_with_referral(&mut self, cut: u32) {
        self.answered.kind = if self.aliases > 0 { ReplyKind::Answer } else { ReplyKind::Referral };
        let zone = self.zone;
        let Some(at) = zone.set_at(cut, rtype::NS) else { return };
        if self.aliases == 0 && self.copy_referral(cut, at) {
            return;
        }
        self.denials();
        self.written.push(at);
        let owner = self.owner_of(cut);
        // The NS records of a cut are not signed (RFC 4035 §2.2).
        if !additional::write(self, Section::Authority, at, owner, false) {
            self.answered.truncated = true;
            return;
        }
        self.prove_delegation(cut);
        if !self.answered.truncated {
            additional::addresses(self, Some(cut));
        }
    }

    /// Copies the precomputed referral. Returns false, without effect, if there is none or it does not fit.
    #[inline]
    fn copy_referral(&mut self, cut: u32, servers: u32) -> bool {
        let zone = self.zone;
        let node = zone.node(cut);
        let Some(template) = zone.template(node).filter(|template| !(self.dnssec && template.is_signed)) else {
            return false;
        };
        if template.authority.octets.len() + template.additional.octets.len() > self.writer.room() {
            return false;
        }
        let mark = (self.writer.mark(), self.written.len());
        let longer = (self.question_length - node.name_length()) as u16;
        self.writer.copy(Section::Authority, zone.set(servers).count, &template.authority, longer);
        self.written.push(servers);
        self.prove_delegation(cut);
        if self.answered.truncated || template.additional.octets.len() > self.writer.room() {
            self.writer.reset(mark.0);
            self.written.truncate(mark.1);
            self.denials.clear();
            self.denied = 0;
            self.answered.truncated = false;
            return false;
        }
        self.writer.copy(Section::Additional, template.additionals, &template.additional, longer);
        true
    }
}
