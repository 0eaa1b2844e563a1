//! The canonical form of record data (RFC 4034 §6.2, RFC 6840 §5.1).

use std::borrow::Cow;

use super::tree::Tree;
use crate::rdata;

/// Types whose data has names that the canonical form has in lower case: those of RFC 4034 §6.2 without NSEC (RFC 6840 §5.1), as
/// far as zone files may hold them by field.
const FOLDED: [u16; 21] = [2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 17, 18, 21, 24, 26, 33, 35, 36, 39, 46];

/// Data in canonical form.
pub(crate) fn data(rtype: u16, data: &[u8]) -> Cow<'_, [u8]> {
    if !FOLDED.contains(&rtype) || !data.iter().any(u8::is_ascii_uppercase) {
        return Cow::Borrowed(data);
    }
    let mut folded = data.to_vec();
    for range in rdata::names(rtype, data) {
        // Lengths of labels are below the letters.
        folded[range].make_ascii_lowercase();
    }
    Cow::Owned(folded)
}

/// A set as it is signed (RFC 4034 §3.1.8.1): its records in canonical form and order, with this owner and TTL.
pub(crate) fn set(tree: &Tree<'_>, set: &[u32], owner: &[u8], ttl: u32) -> Vec<u8> {
    let mut head = owner.to_vec();
    head.extend(tree.rtype(set).to_be_bytes());
    head.extend(tree.class().to_be_bytes());
    head.extend(ttl.to_be_bytes());
    let mut octets = Vec::with_capacity(set.len() * (head.len() + 64));
    for record in tree.data(set) {
        let record = data(tree.rtype(set), record);
        octets.extend_from_slice(&head);
        // Data has no more octets than its length can tell.
        octets.extend((record.len() as u16).to_be_bytes());
        octets.extend_from_slice(&record);
    }
    octets
}

/// How many labels a signature's owner has: neither the root label nor a first `*` counts (RFC 4034 §3.1.3).
pub(crate) fn label_count(owner: &[u8]) -> u8 {
    let labels = crate::store::Labels::of(owner).count() - usize::from(owner.starts_with(b"\x01*"));
    // A name has 127 labels at most.
    labels as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded_where_the_rfcs_say_so() {
        assert_eq!(*data(15, b"\0A\x01A\0"), *b"\0A\x01a\0");
        assert_eq!(*data(33, b"AAAAAA\x02AB\0"), *b"AAAAAA\x02ab\0");
        // NAPTR: the strings before the name stay.
        assert_eq!(*data(35, b"\0\x01\0\x01\x01S\x01E\0\x01R\0"), *b"\0\x01\0\x01\x01S\x01E\0\x01r\0");
        for (rtype, octets) in [(47, &b"\x01A\0\0\x01\x40"[..]), (16, b"\x01A"), (64, b"\0\x01\x01A\0")] {
            assert_eq!(*data(rtype, octets), *octets, "{rtype}");
        }
    }

    #[test]
    fn labels_are_counted_without_root_and_wildcard() {
        for (owner, count) in
            [(&b"\0"[..], 0), (b"\x01*\0", 0), (b"\x01a\x01b\0", 2), (b"\x01*\x01b\0", 1), (b"\x01a\x01*\0", 2)]
        {
            assert_eq!(label_count(owner), count);
        }
    }
}
