//! Classifies a response as answer, referral or denial, and picks the relevant record sets.

use ldplayer_core::message::{Message, flag};
use ldplayer_core::name;

use super::message::{Parsed, Record, Section};
use super::names::{Name, Names};
use super::report::{Reason, Report};
use super::seen::{SectionKind, Server, Set};
use super::{Absent, Denied, Facts, Undivided};
use crate::rdata;
use crate::rtype;

/// Maximum number of aliases followed in one answer.
const MOST_ALIASES: usize = 32;
/// Offset of the labels field in the data of a signature (RFC 4034 §3.1.3).
const LABELS_AT: usize = 3;
/// Offset of the signer's name (RFC 4034 §3.1.7).
const SIGNER_AT: usize = 18;

/// Response codes about the name rather than the server (RFC 1035 §4.1.1).
const NOERROR: u8 = 0;
const NXDOMAIN: u8 = 3;

/// The meaning of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The AA flag.
    pub is_authoritative: bool,
    /// Of a referral: the owner of its NS records.
    pub referral: Option<Name>,
    /// Of a denial: what is denied of the name at the end of the alias chain.
    pub denied: Option<(Name, Absent)>,
    /// Of a denial: its zone, the owner of the SOA record (RFC 2308 §3).
    pub denied_by: Option<Name>,
}

/// Rejects unusable responses.
pub(super) fn check_header(message: &Message<'_>) -> Result<(), Reason> {
    if !message.is_response() {
        Err(Reason::NotAResponse)
    } else if message.opcode() != 0 {
        Err(Reason::Opcode)
    } else if message.has(flag::TC) {
        Err(Reason::Truncated)
    } else if !matches!(message.header_rcode(), NOERROR | NXDOMAIN) {
        Err(Reason::Failed)
    } else {
        Ok(())
    }
}

/// Classifies a response. `chain` gets the names from the question along aliases to the answer.
pub(super) fn outcome(
    parsed: &Parsed,
    message: &[u8],
    names: &mut Names,
    chain: &mut Vec<Name>,
) -> Result<Outcome, Reason> {
    let flags = u16::from_be_bytes([message[2], message[3]]);
    let is_authoritative = flags & flag::AA != 0;
    let end = follow(parsed, names, chain);
    let is_answered = parsed
        .section(Section::Answer)
        .any(|record| record.owner == end && (record.rtype == parsed.qtype || parsed.qtype == rtype::ANY));
    let soa = parsed
        .section(Section::Authority)
        .find(|record| record.rtype == rtype::SOA && !record.is_signature)
        .map(|record| record.owner);
    let nxdomain = flags as u8 & 0xf == NXDOMAIN;
    let referral = parsed
        .section(Section::Authority)
        .find(|record| record.rtype == rtype::NS && !record.is_signature)
        .map(|record| record.owner)
        .filter(|_| !is_answered && !nxdomain && soa.is_none());
    if !is_authoritative && referral.is_none() {
        return Err(Reason::NotAuthoritative);
    }
    if let Some(cut) = referral.filter(|_| !is_authoritative)
        && !names.is_within(end, cut)
    {
        return Err(Reason::SidewaysReferral);
    }
    // A chain that leaves the server's zones ends without an answer or a SOA record: nothing is denied.
    let denied = match (nxdomain, is_answered, soa.is_some() || chain.len() == 1 && referral.is_none()) {
        (true, _, true) => Some((end, Absent::Name)),
        (false, false, true) if parsed.qtype != rtype::ANY => Some((end, Absent::Data(parsed.qtype))),
        _ => None,
    };
    Ok(Outcome { is_authoritative, referral, denied, denied_by: soa })
}

/// Follows aliases from the question, until a loop closes.
fn follow(parsed: &Parsed, names: &mut Names, chain: &mut Vec<Name>) -> Name {
    chain.clear();
    chain.push(parsed.qname);
    let mut at = parsed.qname;
    while chain.len() < MOST_ALIASES && !matches!(parsed.qtype, rtype::CNAME | rtype::ANY) {
        let alias = parsed.section(Section::Answer).find(|record| is_alias(record, at));
        let Some(target) = alias.map(|record| parsed.data(record)) else { break };
        let target = names.intern(target);
        if chain.contains(&target) {
            break;
        }
        chain.push(target);
        at = target;
    }
    at
}

fn is_alias(record: &Record, owner: Name) -> bool {
    record.rtype == rtype::CNAME && !record.is_signature && record.owner == owner
}

/// Adds a response to the facts.
pub(super) struct Intake<'a> {
    pub facts: &'a mut Facts,
    pub report: &'a mut Report,
    pub server: Server,
    pub time: i64,
}

impl Intake<'_> {
    /// Notes the zones that the server claims: owners of SOA and NS records, and signers.
    pub fn claims(&mut self, outcome: &Outcome, parsed: &Parsed, chain: &[Name]) {
        for record in parsed.records.iter().filter(|record| record.section != Section::Additional) {
            let zone = match record {
                // In a referral only signatures name the referring zone: those of DS records, or of their denial.
                Record { is_signature: false, .. } if !outcome.is_authoritative => continue,
                Record { is_signature: true, .. } => {
                    self.facts.names.intern(rdata_name(&parsed.data(record)[SIGNER_AT..]))
                }
                Record { rtype: rtype::SOA | rtype::NS, owner, .. } => *owner,
                _ => continue,
            };
            if chain.iter().any(|&name| self.facts.names.is_within(name, zone)) {
                *self.facts.claims.entry((zone, self.server)).or_default() += 1;
            }
        }
    }

    /// Notes a denial.
    pub fn denial(&mut self, outcome: &Outcome) {
        let Some((name, what)) = outcome.denied else { return };
        let (server, time) = (self.server, self.time);
        let never = Denied { server, first: time, last: time, count: 0 };
        self.facts.absent.entry((name, what)).or_insert(never).again(time);
        if let Some(apex) = outcome.denied_by {
            let undivided = Undivided { apex, name, what, server };
            if undivided.names(&self.facts.names).next().is_some() {
                self.facts.undivided.entry(undivided).or_insert(never).again(time);
            }
        }
    }

    /// Notes all record sets of a response, whose records are sorted. `None` if the limit on distinct records is reached.
    pub fn sets(&mut self, outcome: &Outcome, parsed: &Parsed, chain: &[Name]) -> Option<()> {
        let mut rest = &parsed.records[..];
        while let Some(first) = rest.first() {
            let is_same = |record: &Record| {
                (record.section, record.owner, record.rtype) == (first.section, first.owner, first.rtype)
            };
            let (set, behind) = rest.split_at(rest.iter().take_while(|record| is_same(record)).count());
            rest = behind;
            match kind_of(first, outcome, parsed, chain, &self.facts.names) {
                Ok(Some(kind)) => self.set(set, kind, parsed)?,
                Ok(None) => {}
                Err(reason) => self.report.ignore(reason),
            }
        }
        Some(())
    }

    fn set(&mut self, set: &[Record], kind: SectionKind, parsed: &Parsed) -> Option<()> {
        let (records, signatures) = set.split_at(set.partition_point(|record| !record.is_signature));
        let Some(first) = records.first() else {
            self.report.ignore(Reason::SignaturesAlone);
            return Some(());
        };
        let mut buffer = [&[][..]; 64];
        let (mut many, count) = (Vec::new(), set.len());
        let data: &mut [&[u8]] = match count <= buffer.len() {
            true => &mut buffer[..count],
            false => {
                many.resize(count, &[][..]);
                &mut many
            }
        };
        data.iter_mut().zip(set).for_each(|(data, record)| *data = parsed.data(record));
        let (records_data, signatures_data) = data.split_at(records.len());
        let owner = self.owner(first, signatures_data);
        let ttl = records.iter().map(|record| record.ttl).max().unwrap_or(0);
        debug_assert_eq!(signatures.len(), signatures_data.len());
        let set = Set { owner, rtype: first.rtype, ttl, records: records_data, signatures: signatures_data };
        self.facts.versions.add(set, self.server, kind, self.time).map(|_| ())
    }

    /// The owner; of a record set synthesized from a wildcard, the wildcard, by the labels field of its signature (RFC 4034 §3.1.3).
    fn owner(&mut self, record: &Record, signatures: &[&[u8]]) -> Name {
        let (owner, names) = (record.owner, &mut self.facts.names);
        let Some(signature) = signatures.first().filter(|_| can_expand(record.rtype)) else { return owner };
        let (labels, signer) = (signature[LABELS_AT], rdata_name(&signature[SIGNER_AT..]));
        // A wildcard is below the apex of the signer's zone, whatever the labels field says.
        let zone_labels = name::labels(signer).count();
        if labels >= names.depth(owner) || usize::from(labels) < zone_labels || names.is_wildcard(owner) {
            return owner;
        }
        let encloser = names.cut_to(owner, labels);
        let wildcard = [b"\x01*", names.wire(encloser)].concat();
        // No longer than the owner, which has at least one label below the encloser.
        names.intern(&wildcard)
    }
}

/// Whether records of the type can be synthesized from a wildcard: not those of an apex, and not NSEC or NSEC3 (RFC 4592 §4).
const fn can_expand(rtype: u16) -> bool {
    !matches!(rtype, rtype::NSEC | rtype::NSEC3 | rtype::NS | rtype::SOA | rtype::DS)
}

/// The name at the start of the rest of a signature's data.
fn rdata_name(data: &[u8]) -> &[u8] {
    &data[..rdata::name_length(data).unwrap_or(0)]
}

/// The role of a record set in its response; `Ok(None)` if it is ignored silently.
fn kind_of(
    record: &Record,
    outcome: &Outcome,
    parsed: &Parsed,
    chain: &[Name],
    names: &Names,
) -> Result<Option<SectionKind>, Reason> {
    let encloses = || chain.iter().any(|&name| names.is_within(name, record.owner));
    match record.section {
        Section::Answer if record.rtype == rtype::DNAME && encloses() => authoritative(outcome, SectionKind::Answer),
        Section::Answer if !chain.contains(&record.owner) => Err(Reason::Unrelated),
        Section::Answer if is_synthesized(record, parsed, names) => Err(Reason::Synthesized),
        Section::Answer => authoritative(outcome, SectionKind::Answer),
        Section::Authority => match record.rtype {
            rtype::NS | rtype::SOA if !encloses() => Err(Reason::Unrelated),
            rtype::NS | rtype::DS | rtype::NSEC | rtype::NSEC3 if !outcome.is_authoritative => {
                Ok(Some(SectionKind::Referral))
            }
            rtype::NS | rtype::SOA | rtype::DS | rtype::NSEC | rtype::NSEC3 => {
                authoritative(outcome, SectionKind::Authority)
            }
            _ => Err(Reason::Unrelated),
        },
        Section::Additional if matches!(record.rtype, rtype::A | rtype::AAAA) => {
            Ok(Some(if outcome.is_authoritative { SectionKind::Additional } else { SectionKind::Glue }))
        }
        Section::Additional => Ok(None),
    }
}

fn authoritative(outcome: &Outcome, kind: SectionKind) -> Result<Option<SectionKind>, Reason> {
    if outcome.is_authoritative { Ok(Some(kind)) } else { Err(Reason::NotAuthoritative) }
}

/// Whether a CNAME record is synthesized from a DNAME record of the response.
fn is_synthesized(record: &Record, parsed: &Parsed, names: &Names) -> bool {
    let redirects = |other: &Record| {
        other.rtype == rtype::DNAME && other.owner != record.owner && names.is_within(record.owner, other.owner)
    };
    record.rtype == rtype::CNAME && !record.is_signature && parsed.section(Section::Answer).any(redirects)
}
