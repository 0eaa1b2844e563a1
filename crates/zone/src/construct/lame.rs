//! Finds lame delegations: servers that were queried but never answered for the zone (RFC 9499 §7).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use ldplayer_core::message::{CLASS_IN, Message, Question, flag};

use super::classify::Outcome;
use super::names::{Name, Names};
use super::servers::Authority;
use super::{Facts, rtype};

/// QTYPEs that are not data types: AXFR, ANY and the like (RFC 6895 §3.1).
const META: RangeInclusive<u16> = 128..=255;

/// Queries to servers, and the zones they answered for. Memory grows with the distinct pairs of name and server.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// The deepest name up to which the server answered, if it did.
    answers: HashMap<(Name, IpAddr), Option<Name>, FixedState>,
}

impl Tries {
    /// Notes a query without a usable answer. A truncated answer is no evidence: the answer over TCP counts.
    pub fn failed(&mut self, names: &mut Names, server: IpAddr, message: &[u8]) {
        let Some(message) = Message::new(message).filter(|message| !message.has(flag::TC)) else { return };
        // Servers may refuse zone transfers, ANY and queries for their identity without being lame.
        let is_of_zones = |question: &Question<'_>| question.qclass == CLASS_IN && !META.contains(&question.qtype);
        if let Some(question) = message.question().filter(is_of_zones) {
            let name = names.intern(&question.name.to_ascii_lowercase());
            self.answers.entry((place(names, name, question.qtype), server)).or_default();
        }
    }

    /// Notes a usable response.
    pub fn answered(&mut self, names: &Names, server: IpAddr, (name, qtype): (Name, u16), outcome: &Outcome) {
        // A denial belongs to the zone of its SOA record, a referral to a zone above the delegated name: neither shows that the server
        // answers for a child zone.
        let spoken_for = match (outcome.is_authoritative, outcome.denied_by, outcome.referral) {
            (true, Some(zone), _) => zone,
            (true, None, _) => name,
            (false, _, Some(cut)) => names.parent(cut),
            (false, _, None) => return,
        };
        let known = self.answers.entry((place(names, name, qtype), server)).or_default();
        if known.is_none_or(|known| names.depth(known) < names.depth(spoken_for)) {
            *known = Some(spoken_for);
        }
    }

    /// The name servers' addresses that never gave a usable answer for names of their zones.
    pub fn lame(&self, facts: &Facts, authority: &Authority, zones: &[Name]) -> BTreeMap<Name, BTreeSet<IpAddr>> {
        let (mut asked, mut good) = (HashSet::<_, FixedState>::default(), HashSet::<_, FixedState>::default());
        for (&(name, server), &spoken_for) in &self.answers {
            let around = || facts.names.upward(name).filter(|&zone| authority.is_cut(zone));
            asked.extend(around().take(1).map(|zone| (zone, server)));
            let is_of = |zone: &Name| spoken_for.is_some_and(|name| facts.names.is_within(name, *zone));
            good.extend(around().filter(is_of).map(|zone| (zone, server)));
        }
        let is_lame = |pair: &(Name, IpAddr)| asked.contains(pair) && !good.contains(pair);
        let mut lame: BTreeMap<Name, BTreeSet<IpAddr>> = BTreeMap::new();
        for &zone in zones {
            let pairs = authority.delegated_addresses(zone).map(|address| (zone, address));
            for (zone, address) in pairs.filter(is_lame) {
                lame.entry(zone).or_default().insert(address);
            }
        }
        lame
    }
}

/// The name whose zone answers a question: for DS records, the parent.
fn place(names: &Names, name: Name, qtype: u16) -> Name {
    if qtype == rtype::DS { names.parent(name) } else { name }
}
