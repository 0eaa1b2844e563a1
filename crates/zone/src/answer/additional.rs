//! The additional section: addresses of hosts named in records, and glue (RFC 1034 §4.3.2 step 6, RFC 9471).

use super::resolve::Answer;
use super::{Owner, Section};
use crate::rtype;
use crate::store::{NONE, Zone, is_within, target_offset};

/// A host that was named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Where its addresses are.
    node: u32,
    /// Where its name stands in the message.
    at: usize,
    /// Whether the node stands for it as a wildcard.
    by_wildcard: bool,
}

/// Writes a set and notes the hosts that it names.
pub(super) fn write(answer: &mut Answer<'_, '_>, section: Section, at: u32, owner: Owner<'_>, signed: bool) -> bool {
    let zone = answer.zone;
    let set = answer.set(at);
    let Some(offset) = target_offset(set.rtype).filter(|_| !zone.targets(set).is_empty()) else {
        return answer.writer.set(section, zone, set, owner, signed, |_| {});
    };
    let own_place = if let Owner::At(at) = owner { Some(at) } else { None };
    let mut hosts = zone.targets(set).iter().zip(zone.data(set));
    let noted = answer.pending.len();
    let pending = &mut *answer.pending;
    let fits = answer.writer.set(section, zone, set, owner, signed, |data| {
        let Some((&node, record)) = hosts.next().filter(|&(&node, _)| node != NONE) else { return };
        // A service that names the root has its addresses at its own name (RFC 9460 §2.5.2).
        let place = if record[offset] == 0 { own_place } else { Some(data + offset) };
        pending.extend(place.map(|at| Pending { node, at, by_wildcard: zone.is_wildcard(node) }));
    });
    if !fits {
        answer.pending.truncate(noted);
    }
    fits
}

/// Writes the addresses of all hosts noted, as many as fit. Of a referral those come first that the delegated zone
/// itself holds, and without all of them the message is truncated (RFC 9471 §3.1).
pub(super) fn addresses(answer: &mut Answer<'_, '_>, cut: Option<u32>) {
    let zone = answer.zone;
    let within = cut.map(|cut| zone.name(zone.node(cut)));
    let is_needed = |pending: &Pending| within.is_some_and(|cut| is_within(zone.name(zone.node(pending.node)), cut));
    let asked = answer.written.len();
    for needed in [true, false] {
        for rtype in [rtype::A, rtype::AAAA] {
            for number in 0..answer.pending.len() {
                let pending = answer.pending[number];
                if is_needed(&pending) == needed && !address(answer, zone, pending, rtype) && needed {
                    answer.answered.truncated = true;
                }
            }
        }
    }
    answer.written.truncate(asked);
}

/// False when the addresses do not fit.
fn address(answer: &mut Answer<'_, '_>, zone: &Zone, pending: Pending, rtype: u16) -> bool {
    let Some(at) = zone.set_at(pending.node, rtype) else { return true };
    if !pending.by_wildcard && answer.written.contains(&at) {
        return true;
    }
    let owner = match answer.writer.pointable(pending.at) {
        Some(place) => Owner::At(place),
        None if pending.by_wildcard => return true,
        None => Owner::Name(zone.name(zone.node(pending.node))),
    };
    let signed = answer.dnssec && !zone.is_glue(pending.node);
    let set = answer.set(at);
    let fits = answer.writer.set(Section::Additional, zone, set, owner, signed, |_| {});
    if fits && !pending.by_wildcard {
        answer.written.push(at);
    }
    fits
}
