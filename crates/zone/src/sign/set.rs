//! The chain of trust within a set of zones: DS records for parent zones, and trust anchors.

use std::collections::BTreeMap;

use ldplayer_core::name::Presentation;

use super::key::{Key, Role, ds, key_tag};
use crate::records::Records;
use crate::rtype;
use crate::store::Labels;

/// SHA-256, which all resolvers know (RFC 8624 §3.3).
const DIGEST: u8 = 2;
/// The flag of a secure entry point (RFC 4034 §2.1.1).
const ENTRY: u8 = 1;

/// A zone of the set.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name in wire format, in lower case.
    pub apex: &'a [u8],
    /// Its records, as they are before signing.
    pub records: &'a Records,
    /// The keys that it is to be signed with; empty if it stays unchanged.
    pub keys: &'a [Key],
}

/// What signing some zones of a set means for the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// For each zone the DS records that its delegations get, by name; see [`super::Policy::delegations`].
    pub delegations: Vec<BTreeMap<Vec<u8>, Vec<Vec<u8>>>>,
    /// Signed zones that no signed parent in the set vouches for: name, and DS data of their KSKs.
    pub anchors: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
}

/// A zone cannot be signed with other keys while its parent stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{child} gets new keys, but the signed zone {parent} still has DS records of the old ones: sign {parent} as well"
)]
pub struct StaleParent {
    /// The zone with new keys.
    pub child: String,
    /// Its parent.
    pub parent: String,
}

/// Finds parents and children, and what DS records become of the keys.
///
/// A parent that is signed gets the DS records of the children that are signed with it, and loses those of children that the set has
/// unsigned. DS records of zones that are not in the set stay.
///
/// # Errors
/// When a zone gets keys that the DS records of a signed parent, which is to stay as it is, do not know.
pub fn links(zones: &[Member<'_>]) -> Result<Links, StaleParent> {
    let numbers: Numbers<'_> = zones.iter().map(|zone| zone.apex).zip(0..).collect();
    let zones: Vec<Known<'_>> = zones.iter().map(|zone| Known::of(zone, &numbers)).collect();
    let mut links = Links { delegations: vec![BTreeMap::new(); zones.len()], anchors: Vec::new() };
    for child in &zones {
        let entries = child.entries();
        let made = || entries.iter().filter_map(|key| ds(child.zone.apex, key, DIGEST)).collect::<Vec<_>>();
        let is_trusted = match parent(child.zone.apex, &numbers).map(|number| (number, &zones[number])) {
            Some((number, parent)) if parent.gives_ds_to(child) => {
                links.delegations[number].insert(child.zone.apex.to_vec(), made());
                child.is_signed()
            }
            Some((_, parent)) => parent.trusts(child, &entries)?,
            None => false,
        };
        if child.is_signed() && !is_trusted {
            links.anchors.push((child.zone.apex.to_vec(), made()));
        }
    }
    Ok(links)
}

/// The places of zones by name.
pub(super) type Numbers<'a> = BTreeMap<&'a [u8], usize>;

/// The deepest zone above a name.
pub(super) fn parent(name: &[u8], numbers: &Numbers<'_>) -> Option<usize> {
    let labels = Labels::of(name);
    (1..=labels.count()).find_map(|label| numbers.get(&name[labels.at(label)..]).copied())
}

/// A zone with its records that are about zones of the set.
struct Known<'a> {
    zone: &'a Member<'a>,
    /// Data by owner and type.
    data: BTreeMap<(&'a [u8], u16), Vec<&'a [u8]>>,
}

impl<'a> Known<'a> {
    fn of(zone: &'a Member<'a>, numbers: &Numbers<'_>) -> Self {
        let mut data: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let is_link = |rtype| matches!(rtype, rtype::NS | rtype::DS | rtype::DNSKEY);
        let all = zone.records.iter().filter(|record| is_link(record.rtype) && numbers.contains_key(record.owner));
        all.for_each(|record| data.entry((record.owner, record.rtype)).or_default().push(record.data));
        Self { zone, data }
    }

    fn data(&self, owner: &'a [u8], rtype: u16) -> &[&'a [u8]] {
        self.data.get(&(owner, rtype)).map_or(&[], Vec::as_slice)
    }

    fn is_to_be_signed(&self) -> bool {
        !self.zone.keys.is_empty()
    }

    fn is_signed(&self) -> bool {
        self.is_to_be_signed() || !self.data(self.zone.apex, rtype::DNSKEY).is_empty()
    }

    fn delegates_to(&self, child: &Known<'a>) -> bool {
        !self.data(child.zone.apex, rtype::NS).is_empty()
    }

    /// Whether a child is to have the DS records of its keys, or none. A signed child that stays as it is keeps its own.
    fn gives_ds_to(&self, child: &Self) -> bool {
        self.is_to_be_signed() && self.delegates_to(child) && (child.is_to_be_signed() || !child.is_signed())
    }

    /// Whether the DS records that there are know one of a child's keys.
    fn trusts(&self, child: &Self, keys: &[&[u8]]) -> Result<bool, StaleParent> {
        let present = self.data(child.zone.apex, rtype::DS);
        if !self.is_signed() || !self.delegates_to(child) || present.is_empty() {
            return Ok(false);
        }
        let is_trusted = present.iter().any(|record| is_of_one(record, child.zone.apex, keys));
        if !is_trusted && child.is_to_be_signed() {
            let shown = |zone: &Self| Presentation(zone.zone.apex).to_string();
            return Err(StaleParent { child: shown(child), parent: shown(self) });
        }
        Ok(is_trusted)
    }

    /// DNSKEY data of the keys that DS records are made of: those that the zone gets, or has.
    fn entries(&self) -> Vec<&'a [u8]> {
        if self.is_to_be_signed() {
            return self.zone.keys.iter().filter(|key| key.role() == Role::Ksk).map(Key::data).collect();
        }
        let is_entry = |key: &&[u8]| key.get(1).is_some_and(|flags| flags & ENTRY != 0);
        self.data(self.zone.apex, rtype::DNSKEY).iter().copied().filter(is_entry).collect()
    }
}

/// Whether a DS record is of one of the keys.
pub(super) fn is_of_one(record: &[u8], owner: &[u8], keys: &[&[u8]]) -> bool {
    let &[high, low, _, digest, ..] = record else { return false };
    let of_tag = keys.iter().filter(|key| key_tag(key) == u16::from_be_bytes([high, low]));
    of_tag.filter_map(|key| ds(owner, key, digest)).any(|made| made == record)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::load;
    use crate::sign::Algorithm;

    fn records(text: &str) -> Records {
        let text = format!("$TTL 60\n@ SOA a b 1 2 3 4 5\n{text}");
        load::text_of(text.as_bytes(), Path::new("z"), Some(b"\0"), &mut |_| unreachable!()).unwrap()
    }

    fn key(number: u8) -> Key {
        Key::generate(Role::Ksk, Algorithm::Ed25519, 0, &[number; 32]).unwrap()
    }

    const A: &[u8] = b"\x01a\0";
    const B: &[u8] = b"\x01b\0";

    /// The links of the root with keys or not, of `a.` with keys or not, and of `b.`, unsigned.
    fn linked(root: &str, root_keys: &[Key], a_keys: &[Key]) -> Result<Links, StaleParent> {
        let (root, a, b) = (records(root), records(""), records(""));
        links(&[
            Member { apex: b"\0", records: &root, keys: root_keys },
            Member { apex: A, records: &a, keys: a_keys },
            Member { apex: B, records: &b, keys: &[] },
        ])
    }

    fn anchors(links: &Links) -> Vec<&[u8]> {
        links.anchors.iter().map(|(apex, _)| apex.as_slice()).collect()
    }

    const ROOT: &str = "a NS x.\nb NS x.\nb DS 1 8 9 00\nc NS x.\nc DS 1 8 9 00\n";

    #[test]
    fn a_signed_parent_gets_the_ds_of_its_children_and_loses_those_of_unsigned_ones() {
        let links = linked(ROOT, &[key(1)], &[key(2)]).unwrap();
        let wanted = BTreeMap::from([(A.to_vec(), vec![ds(A, key(2).data(), 2).unwrap()]), (B.to_vec(), vec![])]);
        assert_eq!(links.delegations, [wanted, BTreeMap::new(), BTreeMap::new()]);
        assert_eq!(links.anchors, [(vec![0], vec![ds(b"\0", key(1).data(), 2).unwrap()])]);
    }

    #[test]
    fn a_zone_that_no_parent_vouches_for_is_an_anchor() {
        assert_eq!(anchors(&linked(ROOT, &[], &[key(2)]).unwrap()), [A], "the parent is not signed");
        assert_eq!(anchors(&linked("b NS x.\n", &[key(1)], &[key(2)]).unwrap()), [&[0][..], A], "nor does it delegate");
        assert_eq!(linked(ROOT, &[], &[]).unwrap().anchors, []);
    }

    #[test]
    fn a_parent_that_stays_must_know_the_keys() {
        let hex = |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
        let signed = |number| {
            let (dnskey, ds) = (hex(key(1).data()), hex(&ds(A, key(number).data(), 2).unwrap()));
            format!("@ DNSKEY \\# 36 {dnskey}\na NS x.\na DS \\# 36 {ds}\n")
        };
        assert_eq!(anchors(&linked(&signed(2), &[], &[key(2)]).unwrap()), [&[0]]);
        let error = linked(&signed(3), &[], &[key(2)]).unwrap_err().to_string();
        assert_eq!(
            error,
            "a. gets new keys, but the signed zone . still has DS records of the old ones: sign . as well"
        );
    }
}
