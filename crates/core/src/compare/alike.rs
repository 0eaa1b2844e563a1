//! A fast path for responses that differ only in ID and TTLs, which is most of the equal ones: no record is hashed.

use crate::message::{Message, OPT};

/// Octets of the ID, with which a message begins (RFC 1035 §4.1.1).
const ID: usize = 2;
/// Octets of a TTL …
const TTL: usize = 4;
/// … and those of the length of the data, between it and the data (RFC 1035 §4.1.3).
const LENGTH: usize = 2;

/// Whether two messages are such. `false` says nothing: records may be in another order, or names compressed otherwise. A name that
/// points into a TTL, as no server writes it, counts as the same in both.
pub fn but_for_ttls(expected: &Message<'_>, found: &Message<'_>) -> bool {
    let (a, b) = (expected.octets(), found.octets());
    if a.len() != b.len() {
        return false;
    }
    // What lies before has been compared.
    let mut from = ID;
    for ttl in ttls(found) {
        if a[from..ttl] != b[from..ttl] {
            return false;
        }
        from = ttl + TTL;
    }
    a[from..] == b[from..]
}

/// Where the TTLs of a message are, in their order, up to the first record that is not whole. The OPT record has none: its response code
/// and flags are in that place (RFC 6891 §6.1.3).
fn ttls(message: &Message<'_>) -> impl Iterator<Item = usize> {
    let [_, counts @ ..] = message.counts();
    let records: usize = counts.iter().map(|&count| usize::from(count)).sum();
    let mut at = message.behind_questions();
    let places = (0..records).map_while(move |_| {
        let data = message.rdata_at(at?)?;
        let (behind, rtype) = message.record_at(at?)?;
        at = Some(behind);
        Some((rtype != OPT).then_some(data - LENGTH - TTL))
    });
    places.flatten()
}
