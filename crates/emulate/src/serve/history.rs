//! What changed in zones from one set to the next, for incremental transfers (RFC 1995).

use std::collections::HashMap;
use std::sync::Arc;

use ldplayer_zone::{Changes, Zone};

use super::set::ZoneSet;

/// The changes of zones, by their numbers.
#[derive(Debug, Default)]
pub struct History {
    /// The oldest first; the last ones lead to the version of the set.
    zones: HashMap<u32, Vec<Arc<Changes>>>,
}

impl History {
    /// What changed until these zones, after those that were served before.
    pub fn new(before: &ZoneSet, zones: &[Zone]) -> Self {
        let changes = |zone: &Zone| Some((zone.number(), changes(before, zone)?));
        Self { zones: zones.iter().filter_map(changes).collect() }
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

/// The latest changes of a zone, as long as they are shorter than the zone.
fn changes(before: &ZoneSet, zone: &Zone) -> Option<Vec<Arc<Changes>>> {
    let old = &before.zones()[before.zone(zone.apex())? as usize];
    let earlier = before.history().of(old);
    if old.serial() == zone.serial() {
        return (!earlier.is_empty() && old.is_same(zone)).then(|| earlier.to_vec());
    }
    let latest = Arc::new(Changes::between(old, zone)?);
    let mut room = zone.octets();
    let all = std::iter::once(&latest).chain(earlier.iter().rev());
    let kept = all.take_while(|changes| {
        let rest = room.checked_sub(changes.octets());
        room = rest.unwrap_or(0);
        rest.is_some()
    });
    let mut kept: Vec<_> = kept.cloned().collect();
    kept.reverse();
    Some(kept)
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
