//! Faults that take records from an answer, or add some.

use domain::base::Rtype;

use super::records::{Any, Parts, is_of};

/// Denials (RFC 4034 §4, RFC 5155 §3).
const DENIALS: [Rtype; 2] = [Rtype::NSEC, Rtype::NSEC3];

/// Changes the records of the answer in `out`.
fn edit(out: &mut Vec<u8>, change: impl FnOnce(&mut Parts)) {
    if let Some(mut parts) = Parts::of(out) {
        change(&mut parts);
        parts.write(out);
    }
}

/// Without DS records and their signatures: a signed child, and neither its DS nor a proof that it has none.
pub fn without_ds(out: &mut Vec<u8>) {
    edit(out, |parts| parts.retain(|record| !is_of(record, &[Rtype::DS])));
}

/// Without NSEC and NSEC3 records and their signatures.
pub fn without_denial(out: &mut Vec<u8>) {
    edit(out, |parts| parts.retain(|record| !is_of(record, &DENIALS)));
}

/// Only the first of the name servers of each zone.
pub fn fewer_servers(out: &mut Vec<u8>) {
    edit(out, |parts| {
        for section in [&mut parts.answers, &mut parts.authorities] {
            let mut owners = Vec::new();
            section.retain(|record| {
                let is_another = record.rtype() == Rtype::NS && owners.contains(record.owner());
                owners.extend((record.rtype() == Rtype::NS).then(|| record.owner().clone()));
                !is_another
            });
        }
    });
}

/// With more records in the additional section, before OPT.
pub fn add(out: &mut Vec<u8>, more: &[Any]) {
    edit(out, |parts| {
        let at = parts.additionals.iter().position(|record| record.rtype() == Rtype::OPT);
        let at = at.unwrap_or(parts.additionals.len());
        parts.additionals.splice(at..at, more.iter().cloned());
    });
}
