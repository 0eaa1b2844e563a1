//! Reports delegations denied by servers of the parent zone: the zone changed while it was recorded, or its servers differ.

use std::collections::{BTreeMap, BTreeSet};

use super::Plan;
use crate::construct::choose;
use crate::construct::names::Name;
use crate::construct::place::Side;
use crate::construct::report::{Conflict, Version};
use crate::construct::{Absent, Denied, Undivided};

/// Maximum number of denials and servers that the report lists for a delegation.
const MOST: usize = 8;

impl Plan<'_> {
    /// Reports delegations that a responsible server contradicts: with the delegating zone's SOA record it denied the delegated name, a name below
    /// it, or their data, where it should have sent a referral. The delegations are kept. Returns the zones and names reported because the name
    /// itself was denied.
    pub(super) fn denied_delegations(&mut self) -> BTreeSet<(Name, Name)> {
        let mut contradicted: BTreeMap<(Name, Name, bool), Vec<(Undivided, Denied)>> = BTreeMap::new();
        for (&denial, &denied) in &self.facts.undivided {
            if let Some(cut) = self.denied_cut(denial) {
                contradicted.entry((denial.apex, cut, denial.what == Absent::Name)).or_default().push((denial, denied));
            }
        }
        let mut told = BTreeSet::new();
        for ((zone, cut, is_of_name), mut denials) in contradicted {
            denials.sort_unstable_by_key(|&(denial, denied)| (denied.first, denial));
            if denials.iter().any(|(denial, _)| is_of_name && denial.name == cut) {
                told.insert((zone, cut));
            }
            self.contradicted(zone, cut, if is_of_name { "NXDOMAIN" } else { "NODATA" }, &denials);
        }
        told
    }

    /// The delegated name that a responsible server denied.
    fn denied_cut(&self, denial: Undivided) -> Option<Name> {
        let draft = self.drafts.get(&denial.apex).filter(|_| self.authority.serves(denial.apex, denial.server))?;
        denial.names(&self.facts.names).find(|&name| draft.name_servers(name, Side::Delegation).is_some())
    }

    fn contradicted(&mut self, zone: Name, cut: Name, code: &str, denials: &[(Undivided, Denied)]) {
        let Some(delegation) = self.drafts[&zone].name_servers(cut, Side::Delegation) else { return };
        let delegation = choose::version(self.facts, &delegation.versions, true);
        let records: BTreeSet<String> =
            denials.iter().map(|(denial, _)| format!("{} {code}", choose::shown(self.facts, denial.name))).collect();
        let servers: BTreeSet<_> =
            denials.iter().map(|(denial, _)| self.facts.servers[denial.server as usize]).collect();
        let denial = Version {
            records: records.into_iter().take(MOST).collect(),
            first_ns: denials.iter().map(|(_, denied)| denied.first).min().unwrap_or(0),
            last_ns: denials.iter().map(|(_, denied)| denied.last).max().unwrap_or(0),
            count: denials.iter().map(|(_, denied)| u64::from(denied.count)).sum(),
            servers: servers.into_iter().take(MOST).collect(),
            is_taken: false,
        };
        let mut versions = vec![denial, delegation];
        versions.sort_by_key(|version| version.first_ns);
        let (zone, name) = (choose::shown(self.facts, zone), choose::shown(self.facts, cut));
        self.report.conflicts.push(Conflict { zone, name, what: format!("{code} and delegation"), versions });
    }
}
