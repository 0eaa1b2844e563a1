//! Names as wire octets: their labels, and the canonical order of DNSSEC (RFC 4034 §6.1).

use std::cmp::Ordering;

/// Most labels of a name, the root label among them.
pub(crate) const MAX_LABELS: usize = 128;

/// Where the labels of a name begin.
#[derive(Clone, Copy)]
pub(crate) struct Labels {
    offsets: [u8; MAX_LABELS],
    count: usize,
}

impl Labels {
    /// No labels: the root.
    pub const ROOT: Self = Self { offsets: [0; MAX_LABELS], count: 0 };

    /// The labels of an uncompressed name that is known to be one.
    pub fn of(name: &[u8]) -> Self {
        let mut labels = Self::ROOT;
        labels.set(name);
        labels
    }

    /// Takes another name.
    #[inline]
    pub fn set(&mut self, name: &[u8]) {
        let (mut at, mut count) = (0, 0);
        while let Some(&length) = name.get(at)
            && count < MAX_LABELS
        {
            self.offsets[count] = at as u8;
            if length == 0 {
                break;
            }
            count += 1;
            at += 1 + usize::from(length);
        }
        self.count = count;
    }

    /// How many labels there are, the root label left out.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Where a label begins; at [`Self::count`], the root label.
    #[inline]
    pub fn at(&self, label: usize) -> usize {
        usize::from(self.offsets[label])
    }

    /// A label with its length octet.
    #[inline]
    pub fn label<'a>(&self, name: &'a [u8], label: usize) -> &'a [u8] {
        let at = self.at(label);
        &name[at..=at + usize::from(name[at])]
    }
}

/// Compares two names in lower case by the canonical order.
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (of_a, of_b) = (Labels::of(a), Labels::of(b));
    let shared = of_a.count().min(of_b.count());
    for back in 1..=shared {
        let (x, y) = (of_a.label(a, of_a.count() - back), of_b.label(b, of_b.count() - back));
        match x[1..].cmp(&y[1..]) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    of_a.count().cmp(&of_b.count())
}

/// Appends octets that sort as the name does: its labels from the root on, each ended by a zero. Zeros and ones within
/// labels are written as two octets, so that no octet of a label is below the end of one.
pub(crate) fn push_key(name: &[u8], labels: &Labels, key: &mut Vec<u8>) {
    for label in (0..labels.count()).rev() {
        for &octet in &labels.label(name, label)[1..] {
            match octet {
                0 | 1 => key.extend_from_slice(&[1, octet + 1]),
                _ => key.push(octet),
            }
        }
        key.push(0);
    }
}

/// The first eight octets of the key of the labels below an apex with `above` labels, as a number that sorts alike.
#[inline]
pub(crate) fn prefix(name: &[u8], labels: &Labels, above: usize) -> u64 {
    let (mut value, mut room) = (0_u64, 8_u32);
    let mut push = |octet: u8| {
        value = value << 8 | u64::from(octet);
        room -= 1;
        room == 0
    };
    'labels: for label in (0..labels.count().saturating_sub(above)).rev() {
        for &octet in &labels.label(name, label)[1..] {
            let is_full = if octet <= 1 { push(1) || push(octet + 1) } else { push(octet) };
            if is_full {
                break 'labels;
            }
        }
        if push(0) {
            break;
        }
    }
    if room == 8 { 0 } else { value << (8 * room) }
}

/// Whether `name` is `ancestor` or below it; both in lower case.
pub(crate) fn is_within(name: &[u8], ancestor: &[u8]) -> bool {
    let Some(start) = name.len().checked_sub(ancestor.len()) else { return false };
    if name[start..] != *ancestor {
        return false;
    }
    let mut at = 0;
    while at < start {
        at += 1 + usize::from(name[at]);
    }
    at == start
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wire(text: &str) -> Vec<u8> {
        let mut wire = Vec::new();
        ldplayer_core::name::parse(text, &mut wire).unwrap();
        wire
    }

    fn key(name: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        push_key(name, &Labels::of(name), &mut key);
        key
    }

    #[test]
    fn names_sort_as_in_rfc_4034() {
        // The example of RFC 4034 §6.1, in lower case.
        let names = [
            "example",
            "a.example",
            "yljkjljk.a.example",
            "z.a.example",
            "zabc.a.example",
            "z.example",
            "\\001.z.example",
            "*.z.example",
            "\\200.z.example",
        ];
        let names: Vec<_> = names.iter().map(|name| wire(name)).collect();
        for pair in names.windows(2) {
            assert_eq!(compare(&pair[0], &pair[1]), Ordering::Less);
            assert!(key(&pair[0]) < key(&pair[1]));
        }
    }

    #[test]
    fn a_name_is_within_whole_labels_only() {
        assert!(is_within(&wire("a.example"), &wire("example")));
        assert!(is_within(&wire("example"), &wire("example")));
        assert!(is_within(&wire("example"), &wire(".")));
        assert!(!is_within(&wire("example"), &wire("a.example")));
        assert!(!is_within(b"\x09a\x07example\0", &wire("example")));
    }

    proptest! {
        #[test]
        fn keys_and_prefixes_sort_as_names(
            a in prop::collection::vec(prop::collection::vec(0_u8..4, 1..4), 0..4),
            b in prop::collection::vec(prop::collection::vec(0_u8..4, 1..4), 0..4),
        ) {
            let name = |labels: &[Vec<u8>]| {
                let mut name: Vec<u8> = labels.iter().flat_map(|label| [vec![label.len() as u8], label.clone()].concat()).collect();
                name.push(0);
                name
            };
            let (a, b) = (name(&a), name(&b));
            prop_assert_eq!(compare(&a, &b), key(&a).cmp(&key(&b)));
            let (x, y) = (prefix(&a, &Labels::of(&a), 0), prefix(&b, &Labels::of(&b), 0));
            prop_assert!(x == y || x.cmp(&y) == compare(&a, &b));
        }
    }
}
