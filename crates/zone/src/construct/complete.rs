//! Completes zones: adds the records needed to load them, to reach them from the root, and to repeat recorded denials.
//!
//! [`Report::made`] lists every addition.

mod cuts;
mod draft;
mod hosts;

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::choose::{self, Chosen};
use super::names::{Name, ROOT};
use super::place::Side;
use super::report::{Conflict, InventionKind, Report, Version};
use super::servers::Authority;
use super::{Absent, BuiltZone, Denied, Facts, TooMuch};
use crate::rtype;
use draft::Draft;

/// A record with this label makes a name exist that was seen to have no data.
const MARK: &[u8] = b"\x09_ldplayer";

/// The zones under construction, by name.
pub(super) struct Plan<'a> {
    pub facts: &'a mut Facts,
    pub authority: &'a Authority,
    pub report: &'a mut Report,
    pub drafts: BTreeMap<Name, Draft>,
}

/// Builds zones from the chosen record sets.
pub(super) fn zones(
    facts: &mut Facts,
    authority: &Authority,
    chosen: Vec<Chosen>,
    report: &mut Report,
) -> Result<Vec<BuiltZone>, TooMuch> {
    let mut plan = Plan { facts, authority, report, drafts: BTreeMap::new() };
    plan.outline(&chosen);
    let others = plan.distribute(chosen);
    plan.delegate(&others);
    plan.reach(&others);
    plan.deny();
    plan.begin();
    plan.finish()
}

impl Plan<'_> {
    /// The zones to build: those with data, and on the resolver's side also all zones above them, up to the root.
    fn outline(&mut self, chosen: &[Chosen]) {
        for zone in chosen.iter().filter(|one| one.side == Side::Own).map(|one| one.zone) {
            if self.drafts.contains_key(&zone) {
                continue;
            }
            let above = self.facts.names.upward(zone).filter(|&name| self.authority.is_cut(name));
            // On an authoritative server's side, data of other servers' zones appear only by chance.
            let most = if self.report.resolver_side { usize::MAX } else { 1 };
            for zone in above.take(most).collect::<Vec<_>>() {
                self.drafts.entry(zone).or_default();
            }
        }
        if self.report.resolver_side && !self.drafts.is_empty() {
            self.drafts.entry(ROOT).or_default();
        }
        if self.drafts.is_empty() {
            // A server that sent only referrals: its zone is unknown.
            let referring = chosen.iter().filter(|one| one.side == Side::Delegation);
            self.drafts = referring.map(|one| (one.zone, Draft::default())).collect();
        }
    }

    /// Moves record sets into their zones. The rest may still supply other zones with addresses.
    fn distribute(&mut self, chosen: Vec<Chosen>) -> Vec<Chosen> {
        let (own, others): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|one| one.side == Side::Own);
        for one in own {
            self.drafts.entry(one.zone).or_default().put(one);
        }
        for one in others.iter().filter(|one| one.side == Side::Delegation) {
            if let Some(draft) = self.drafts.get_mut(&one.zone) {
                draft.put(one.clone());
            }
        }
        others
    }

    /// The closest enclosing zone of a name among those being built.
    pub fn zone_of(&self, name: Name) -> Option<Name> {
        self.facts.names.upward(name).find(|name| self.drafts.contains_key(name))
    }

    /// The parent zone.
    pub fn parent_of(&self, zone: Name) -> Option<Name> {
        (zone != ROOT).then(|| self.zone_of(self.facts.names.parent(zone))).flatten()
    }

    pub fn made(&mut self, kind: InventionKind, zone: Name, record: String) {
        let zone_name = choose::shown(self.facts, zone);
        // Other responses showed addresses.
        if let Some(draft) = self.drafts.get_mut(&zone).filter(|_| kind != InventionKind::Address) {
            draft.notes.push(format!("{kind}: {record}"));
        }
        self.report.made.push(super::Invention { kind, zone: zone_name, record });
    }

    /// Ensures NS records at every apex and at every zone cut, copying from the other side where one has none.
    fn delegate(&mut self, others: &[Chosen]) {
        let zones: Vec<Name> = self.drafts.keys().copied().collect();
        let delegations = others.iter().filter(|one| one.side == Side::Delegation);
        let delegations: BTreeMap<Name, &Chosen> = delegations.map(|one| (one.owner, one)).collect();
        for zone in zones {
            let apex = self.drafts[&zone].name_servers(zone, Side::Own).cloned();
            let known = match (apex, delegations.get(&zone)) {
                (Some(apex), _) => apex,
                (None, Some(&delegation)) => {
                    self.copy(delegation, zone, Side::Own, InventionKind::ApexNs);
                    delegation.clone()
                }
                (None, None) => {
                    self.name_servers_of_addresses(zone);
                    continue;
                }
            };
            let parent = self.parent_of(zone);
            if let Some(parent) =
                parent.filter(|parent| self.drafts[parent].name_servers(zone, Side::Delegation).is_none())
            {
                self.copy(&known, parent, Side::Delegation, InventionKind::Delegation);
            }
        }
    }

    /// Copies NS records from another zone.
    fn copy(&mut self, known: &Chosen, zone: Name, side: Side, kind: InventionKind) {
        let lines: Vec<String> = known.versions.iter().flat_map(|&id| choose::lines(self.facts, id)).collect();
        let set = Chosen { zone, side, ..known.clone() };
        self.drafts.entry(zone).or_default().put(set);
        lines.into_iter().for_each(|line| self.made(kind, zone, line));
    }

    /// Adds records to names that exist without data, and reports where data and denials contradict each other: data take precedence.
    fn deny(&mut self) {
        let told = self.denied_delegations();
        let existing = self.existing();
        let mut absent: Vec<(Name, Absent, Denied)> =
            self.facts.absent.iter().map(|(&(name, what), &denied)| (name, what, denied)).collect();
        absent.sort_unstable_by_key(|&(name, what, _)| (name, what));
        for (name, what, denied) in absent {
            let Some(zone) = self.zone_of(name).filter(|_| self.authority.is_above(self.facts, name, denied.server))
            else {
                continue;
            };
            match what {
                Absent::Name if told.contains(&(zone, name)) => {}
                Absent::Name if existing.contains(&name) => {
                    self.contradiction(zone, name, "NXDOMAIN and data", denied, None)
                }
                Absent::Name => {}
                Absent::Data(rtype) if self.drafts[&zone].find(name, rtype).is_some() => {
                    let what = format!("NODATA and {}", rtype::name_of(rtype));
                    self.contradiction(zone, name, &what, denied, Some(rtype));
                }
                Absent::Data(rtype)
                    if !existing.contains(&name) && !self.is_wildcards(zone, name, rtype, &existing) =>
                {
                    self.mark(zone, name);
                }
                Absent::Data(_) => {}
            }
        }
    }

    /// All names with data, and their ancestors.
    fn existing(&self) -> HashSet<Name, FixedState> {
        let mut existing = HashSet::default();
        let owners = self.drafts.values().flat_map(Draft::owners).chain(self.drafts.keys().copied());
        for owner in owners {
            for name in self.facts.names.upward(owner) {
                if !existing.insert(name) {
                    break;
                }
            }
        }
        existing
    }

    /// Whether a wildcard covers a nonexistent name and lacks the type, too.
    fn is_wildcards(&self, zone: Name, name: Name, rtype: u16, existing: &HashSet<Name, FixedState>) -> bool {
        let Some(encloser) = self.facts.names.upward(name).find(|name| existing.contains(name)) else { return false };
        let wildcard = self.facts.names.find(&[b"\x01*", self.facts.names.wire(encloser)].concat());
        wildcard
            .is_some_and(|wildcard| existing.contains(&wildcard) && self.drafts[&zone].find(wildcard, rtype).is_none())
    }

    fn mark(&mut self, zone: Name, name: Name) {
        let wire = [MARK, self.facts.names.wire(name)].concat();
        if wire.len() > ldplayer_core::name::MAX_NAME {
            return;
        }
        let owner = self.facts.names.intern(&wire);
        let text = b"\x18makes parent name exist.";
        let draft = self.drafts.entry(zone).or_default();
        // One such record is enough for all types.
        if draft.add(owner, rtype::TXT, 0, text) {
            let shown = choose::shown(self.facts, name);
            self.made(InventionKind::EmptyName, zone, shown);
        }
    }

    fn contradiction(&mut self, zone: Name, name: Name, what: &str, denied: Denied, rtype: Option<u16>) {
        let server = self.facts.servers[denied.server as usize];
        let denial = Version {
            records: vec![what.split(' ').next().unwrap_or_default().to_owned()],
            first_ns: denied.first,
            last_ns: denied.last,
            count: denied.count.into(),
            servers: vec![server],
            is_taken: false,
        };
        let data = rtype.and_then(|rtype| self.drafts[&zone].find(name, rtype));
        let data = data.map(|chosen| choose::version(self.facts, &chosen.versions, true));
        let conflict = Conflict {
            zone: choose::shown(self.facts, zone),
            name: choose::shown(self.facts, name),
            what: what.to_owned(),
            versions: std::iter::once(denial).chain(data).collect(),
        };
        self.report.conflicts.push(conflict);
    }

    /// Ensures a SOA record in every zone, and notes zones that are entirely invented.
    fn begin(&mut self) {
        let zones: Vec<Name> = self.drafts.keys().copied().collect();
        for zone in zones {
            if !self.authority.is_cut(zone) {
                self.made(InventionKind::Zone, zone, choose::shown(self.facts, zone));
            }
            if self.drafts[&zone].find(zone, rtype::SOA).is_none() {
                let data = draft::soa(self.facts.names.wire(zone));
                self.drafts.entry(zone).or_default().add(zone, rtype::SOA, draft::SOA_TTL, &data);
                let line = draft::line(self.facts, zone, rtype::SOA, draft::SOA_TTL, &data);
                self.made(InventionKind::Soa, zone, line);
            }
        }
    }

    fn finish(self) -> Result<Vec<BuiltZone>, TooMuch> {
        let facts = &*self.facts;
        let mut zones = self
            .drafts
            .into_iter()
            .map(|(zone, draft)| draft.finish(facts, zone).ok_or(TooMuch))
            .collect::<Result<Vec<_>, _>>()?;
        zones.sort_unstable_by(|a, b| crate::store::compare(&a.apex, &b.apex));
        Ok(zones)
    }
}
