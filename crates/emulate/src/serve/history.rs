//! What changed in zones from one set to the next, for incremental transfers (RFC 1995).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ldplayer_zone::{Changes, Zone};

use super::set::ZoneSet;

/// The changes of zones, by their numbers.
#[derive(Debug, Default)]
pub struct History {
    /// The oldest first; the last ones lead to the version of the set.
    zones: HashMap<u32, Vec<Arc<Changes>>>,
    /// Zones whose serial number stood for other records before: an asker that has it may have either.
    ambiguous: HashSet<u32>,
}

impl History {
    /// What changed until these zones, after those that were served before.
    pub fn new(before: &ZoneSet, zones: &[Zone]) -> Self {
        let mut history = Self::default();
        for zone in zones {
            let Some(old) = before.zone(zone.apex()).map(|number| &before.zones()[number as usize]) else { continue };
            history.follow(before.history(), old, zone);
        }
        history
    }

    /// Goes on from one version of a zone to the next.
    fn follow(&mut self, before: &Self, old: &Zone, zone: &Zone) {
        let is_ambiguous = before.ambiguous.contains(&old.number());
        if old.serial() != zone.serial() {
            let latest = if is_ambiguous { None } else { Changes::between(old, zone) };
            self.zones.extend(latest.map(|latest| (zone.number(), kept(latest, before.of(old), zone.octets()))));
        } else if is_ambiguous || !old.is_same(zone) {
            self.ambiguous.insert(zone.number());
        } else if let known @ [_, ..] = before.of(old) {
            self.zones.insert(zone.number(), known.to_vec());
        }
    }

    /// What changed since the version of a zone with this serial number; nothing if that is not known.
    pub fn since(&self, zone: &Zone, serial: u32) -> &[Arc<Changes>] {
        let all = self.of(zone);
        all.iter().position(|changes| changes.from() == serial).map_or(&[], |at| &all[at..])
    }

    fn of(&self, zone: &Zone) -> &[Arc<Changes>] {
        self.zones.get(&zone.number()).map_or(&[], |changes| changes)
    }
}

/// The latest changes and those before them, as far as all together have no more than so many octets.
fn kept(latest: Changes, earlier: &[Arc<Changes>], mut room: usize) -> Vec<Arc<Changes>> {
    let latest = Arc::new(latest);
    let all = std::iter::once(&latest).chain(earlier.iter().rev());
    let kept = all.take_while(|changes| {
        let rest = room.checked_sub(changes.octets());
        room = rest.unwrap_or(0);
        rest.is_some()
    });
    let mut kept: Vec<_> = kept.cloned().collect();
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A set of one zone with ten hosts and these records.
    fn set(serial: u32, records: &str) -> ZoneSet {
        let hosts: String = (0..10).map(|host| format!("h{host} A 192.0.2.{host}\n")).collect();
        let text = format!("$TTL 60\n@ SOA a b {serial} 2 3 4 5\n@ NS ns.test.\n{hosts}{records}");
        let apex = b"\x07example\0";
        let mut none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
        let records = ldplayer_zone::load::text_of(text.as_bytes(), Path::new("zone"), Some(apex), &mut none).unwrap();
        ZoneSet::new(vec![Zone::from_records(&records).unwrap().0], Vec::new()).unwrap()
    }

    /// The serial numbers from which changes are known, after each of these sets.
    fn known(sets: &[(u32, &str)]) -> Vec<Vec<u32>> {
        let mut sets = sets.iter().map(|(serial, records)| set(*serial, records));
        let mut before = sets.next().unwrap();
        let mut known = Vec::new();
        for mut set in sets {
            set.remember(&before);
            known.push(set.history().of(&set.zones()[0]).iter().map(|changes| changes.from()).collect());
            before = set;
        }
        known
    }

    #[test]
    fn changes_are_kept_from_reload_to_reload() {
        let sets = [(1, ""), (2, "x A 192.0.2.1\n"), (2, "x A 192.0.2.1\n"), (4, "y A 192.0.2.1\n")];
        assert_eq!(known(&sets), [vec![1], vec![1], vec![1, 2]]);
    }

    /// The changes led from the second set to the third, and an asker might have had the first.
    #[test]
    fn a_number_of_two_versions_is_none_that_changes_begin_with() {
        let sets = [(1, ""), (1, "x A 192.0.2.1\n"), (1, "x A 192.0.2.1\n"), (2, ""), (3, "")];
        assert_eq!(known(&sets), [vec![], vec![], vec![], vec![2]]);
    }

    #[test]
    fn what_does_not_lead_to_the_zone_is_forgotten() {
        assert_eq!(
            known(&[(1, ""), (2, ""), (2, "x A 192.0.2.1\n")]),
            [vec![1], vec![]],
            "other records under a number"
        );
        assert_eq!(known(&[(1, ""), (2, ""), (1, "")]), [vec![1], vec![]], "a number that goes down");
        let long = format!("x TXT {}\n", "abc ".repeat(200));
        assert_eq!(known(&[(1, &long), (2, "")]), [vec![0_u32; 0]], "changes that are longer than the zone");
    }
}
