//! Checks the chain of trust down from the topmost zones of a set.

use std::collections::BTreeMap;
use std::fmt;

use super::super::Algorithm;
use super::super::set::{Numbers, is_of_one, parent};
use super::{Checked, Fault, LocatedFault};
use crate::records::{Record, Records};
use crate::rtype;

/// Algorithms for signatures that resolvers know beside those that zones are signed with here: RSA with SHA-1.
const OLD: [u8; 2] = [5, 7];
/// Digests of DS records that are known (RFC 8624 §3.3).
const DIGESTS: [u8; 3] = [1, 2, 4];

/// A zone of a set, and the findings about its signatures.
#[derive(Clone, Copy, Debug)]
pub struct ZoneChecked<'a> {
    /// Its name in wire format, in lower case.
    pub apex: &'a [u8],
    /// Its records.
    pub records: &'a Records,
    /// What [`super::check`] says.
    pub checked: &'a Checked,
}

/// What a validating resolver makes of a zone that has the anchors of all topmost signed zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Signed, and no signed zone above vouches for it: resolvers need its keys.
    Anchor,
    /// Signed, and the parent vouches for it.
    Secure,
    /// Not signed, and without a DS record.
    Unsigned,
    /// Something is wrong with it.
    Broken,
    /// A zone above it is broken.
    BelowBroken,
}

/// The word for it.
impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anchor => "anchor",
            Self::Secure => "secure",
            Self::Unsigned => "unsigned",
            Self::Broken => "broken",
            Self::BelowBroken => "below-broken",
        })
    }
}

/// How a zone is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// In a word.
    pub trust: Trust,
    /// What is wrong with its DS records, which are in the parent: the parent's place among the zones, and the fault.
    pub fault: Option<(usize, LocatedFault)>,
}

/// Follows DS records from parents to children; gives the trust of each zone in the order given.
pub fn trust(zones: &[ZoneChecked<'_>]) -> Vec<Trusted> {
    let numbers: Numbers<'_> = zones.iter().map(|zone| zone.apex).zip(0..).collect();
    let delegations: Vec<Delegations<'_>> = zones.iter().map(|zone| Delegations::of(zone, &numbers)).collect();
    let mut all: Vec<Option<Trusted>> = vec![None; zones.len()];
    // Parents are shorter than their children.
    let mut order: Vec<usize> = (0..zones.len()).collect();
    order.sort_by_key(|&at| zones[at].apex.len());
    for at in order {
        let above = parent(zones[at].apex, &numbers).filter(|&above| delegations[above].has(zones[at].apex));
        let above = above.and_then(|above| Some((above, all[above].as_ref()?.trust)));
        all[at] = Some(one(&zones[at], above, &delegations));
    }
    let unknown = Trusted { trust: Trust::Unsigned, fault: None };
    all.into_iter().map(|trusted| trusted.unwrap_or_else(|| unknown.clone())).collect()
}

fn one(zone: &ZoneChecked<'_>, above: Option<(usize, Trust)>, delegations: &[Delegations<'_>]) -> Trusted {
    let checked = zone.checked;
    let own = |trust| match checked.is_broken() {
        true => Trusted { trust: Trust::Broken, fault: None },
        false => Trusted { trust, fault: None },
    };
    let alone = if checked.is_signed { Trust::Anchor } else { Trust::Unsigned };
    match above {
        Some((_, Trust::Broken | Trust::BelowBroken)) => own(Trust::BelowBroken),
        Some((number, Trust::Anchor | Trust::Secure)) => {
            let ds = delegations[number].ds(zone.apex);
            match linked(zone, ds) {
                Ok(true) => {
                    let fault = unsigned_algorithm(zone, ds).map(|found| (number, found));
                    Trusted { fault, ..own(Trust::Secure) }
                }
                Ok(false) => own(alone),
                Err(fault) => Trusted { trust: Trust::Broken, fault: Some((number, fault)) },
            }
        }
        _ => own(alone),
    }
}

/// Whether the parent vouches for the zone; a fault where it does for what is not there. DS records of unknown algorithms say nothing
/// (RFC 4035 §5.2).
fn linked(zone: &ZoneChecked<'_>, ds: &[Record<'_>]) -> Result<bool, LocatedFault> {
    let mut known = ds.iter().filter(|record| is_known(record.data)).peekable();
    let Some(&first) = known.peek() else { return Ok(false) };
    if !zone.checked.is_signed {
        return Err(LocatedFault::of(first, Fault::DsOfUnsigned));
    }
    let keys: Vec<&[u8]> = zone.checked.entries.iter().map(Vec::as_slice).collect();
    if known.any(|record| is_of_one(record.data, zone.apex, &keys)) {
        return Ok(true);
    }
    Err(LocatedFault::of(first, Fault::DsOfNoKey))
}

/// A DS record of an algorithm by which the keys of the zone are not signed.
fn unsigned_algorithm(zone: &ZoneChecked<'_>, ds: &[Record<'_>]) -> Option<LocatedFault> {
    let signs = |algorithm| zone.checked.entries.iter().any(|key| key.get(3) == Some(&algorithm));
    let lost = ds.iter().filter(|record| is_known(record.data)).find(|record| !signs(record.data[2]));
    lost.map(|record| LocatedFault::of(record, Fault::DsAlgorithm(record.data[2])))
}

fn is_known(ds: &[u8]) -> bool {
    let &[_, _, algorithm, digest, ..] = ds else { return false };
    (OLD.contains(&algorithm) || Algorithm::of_number(algorithm).is_some()) && DIGESTS.contains(&digest)
}

/// The delegations of a zone to others of the set, with their DS records.
struct Delegations<'a>(BTreeMap<&'a [u8], (bool, Vec<Record<'a>>)>);

impl<'a> Delegations<'a> {
    fn of(zone: &ZoneChecked<'a>, numbers: &Numbers<'_>) -> Self {
        let mut all: BTreeMap<_, (bool, Vec<_>)> = BTreeMap::new();
        for record in zone.records.iter().filter(|record| matches!(record.rtype, rtype::NS | rtype::DS)) {
            if record.owner != zone.apex && numbers.contains_key(record.owner) {
                let (is_delegated, ds) = all.entry(record.owner).or_default();
                match record.rtype {
                    rtype::NS => *is_delegated = true,
                    _ => ds.push(record),
                }
            }
        }
        Self(all)
    }

    fn has(&self, child: &[u8]) -> bool {
        self.0.get(child).is_some_and(|&(is_delegated, _)| is_delegated)
    }

    fn ds(&self, child: &[u8]) -> &[Record<'a>] {
        self.0.get(child).map_or(&[], |(_, ds)| ds.as_slice())
    }
}
