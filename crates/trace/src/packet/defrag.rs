//! IP reassembly in a table of bounded size.
//!
//! An IPv6 datagram with overlapping fragments is dropped (RFC 5722 §4); of an IPv4 datagram the octets that arrived first are
//! kept.

use std::net::IpAddr;

use hashbrown::HashMap;
use ldplayer_core::damage::Flaw;

use super::Frame;
use super::ip::{Fragment, Packet};

/// Maximum number of incomplete datagrams.
const MAX_DATAGRAMS: usize = 4_096;
/// Maximum total size of all fragments in octets.
const MAX_OCTETS: usize = 16 << 20;
/// Maximum size of a datagram in octets.
const MAX_LENGTH: usize = 65_535;
/// Maximum number of fragments per datagram.
const MAX_PARTS: usize = 64;
/// Reassembly timeout in nanoseconds of the trace (RFC 791 §3.2 and RFC 8200 §4.5 say 15 to 60 s).
const TIMEOUT: u64 = 30_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    id: u32,
    /// The tag or tunnel that carries the datagram: within each, identifications are given anew.
    outer: u64,
}

#[derive(Debug, Default)]
struct Parts {
    /// The frame of the first fragment seen.
    first: Frame,
    length: Option<usize>,
    /// Sorted by offset, without overlaps.
    parts: Vec<(usize, Vec<u8>)>,
    /// Whether fragments overlapped, so that the datagram is dropped, further fragments included.
    is_dropped: bool,
}

/// Incomplete datagrams.
#[derive(Debug, Default)]
pub(crate) struct Defrag {
    table: HashMap<Key, Parts>,
    octets: usize,
    /// Dropped datagrams, each by its first frame, for the caller to collect: they timed out, exceeded a limit, or had
    /// overlapping fragments.
    pub abandoned: Vec<(Frame, Flaw)>,
}

impl Defrag {
    /// Adds a fragment carried by `frame` in a tag or tunnel of the identity `outer`; returns the payload of the datagram if that completes it.
    pub fn add(&mut self, packet: &Packet<'_>, fragment: Fragment, frame: &Frame, outer: u64) -> Option<Vec<u8>> {
        let offset = fragment.offset as usize;
        let end = offset + packet.payload.len();
        if packet.missing > 0 || end > MAX_LENGTH {
            self.abandoned.push((*frame, Flaw::FragmentsLack));
            return None;
        }
        self.make_room(packet.payload.len(), frame.time_ns);
        let (source, destination, protocol) = (packet.source, packet.destination, packet.protocol);
        let key = Key { source, destination, protocol, id: fragment.id, outer };
        // Fragments of an older datagram with the same identification are not mixed with new ones.
        if self.table.get(&key).is_some_and(|parts| parts.first.time_ns.abs_diff(frame.time_ns) > TIMEOUT) {
            self.abandon(&key);
        }
        let parts = self.table.entry(key).or_insert_with(|| Parts { first: *frame, ..Parts::default() });
        if parts.is_dropped {
            return None;
        }
        if source.is_ipv6() && parts.has_overlap(offset, packet.payload) {
            self.octets -= parts.drop_all();
            self.abandoned.push((parts.first, Flaw::FragmentsOverlap));
            return None;
        }
        if !fragment.more {
            parts.length.get_or_insert(end);
        }
        self.octets += parts.insert(offset, packet.payload);
        let whole = parts.assemble()?;
        self.remove(&key);
        Some(whole)
    }

    /// Drops all incomplete datagrams at the end of a capture.
    pub fn finish(&mut self) {
        self.abandoned.extend(self.table.drain().filter_map(|(_, parts)| parts.lacking()));
        self.abandoned.sort_unstable_by_key(|(frame, _)| frame.number);
        self.octets = 0;
    }

    fn make_room(&mut self, octets: usize, now: i64) {
        if self.table.len() < MAX_DATAGRAMS && self.octets + octets <= MAX_OCTETS {
            return;
        }
        let mut old: Vec<(i64, Key)> = self.table.iter().map(|(key, parts)| (parts.first.time_ns, *key)).collect();
        old.sort_unstable_by_key(|(seen, _)| *seen);
        // All that timed out, and an eighth of the rest, so that this happens rarely.
        let expired = old.partition_point(|(seen, _)| *seen < now && seen.abs_diff(now) > TIMEOUT);
        for (_, key) in old.iter().take(expired.max(old.len().div_ceil(8))) {
            self.abandon(key);
        }
    }

    fn abandon(&mut self, key: &Key) {
        self.abandoned.extend(self.table.get(key).and_then(Parts::lacking));
        self.remove(key);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(parts) = self.table.remove(key) {
            self.octets -= parts.parts.iter().map(|(_, part)| part.len()).sum::<usize>();
        }
    }
}

impl Parts {
    /// The frame to report missing fragments with; `None` if the datagram was already reported.
    fn lacking(&self) -> Option<(Frame, Flaw)> {
        (!self.is_dropped).then_some((self.first, Flaw::FragmentsLack))
    }

    /// Whether a fragment overlaps an earlier one, other than an exact duplicate (RFC 8200 §4.5).
    fn has_overlap(&self, offset: usize, payload: &[u8]) -> bool {
        let lies_over = |(at, part): &(usize, Vec<u8>)| *at < offset + payload.len() && offset < at + part.len();
        let same = |(at, part): &(usize, Vec<u8>)| *at == offset && part == payload;
        self.parts.iter().any(|part| lies_over(part) && !same(part))
    }

    /// Drops the datagram and returns its octets.
    fn drop_all(&mut self) -> usize {
        self.is_dropped = true;
        std::mem::take(&mut self.parts).iter().map(|(_, part)| part.len()).sum()
    }

    /// Adds the new octets of a fragment and returns their number: of overlapping IPv4 fragments, the octets seen first are
    /// kept.
    fn insert(&mut self, offset: usize, payload: &[u8]) -> usize {
        let (mut from, end) = (offset, offset + payload.len());
        let mut new = Vec::new();
        for (at, part) in &self.parts {
            if from < *at && from < end {
                new.push((from, payload[from - offset..end.min(*at) - offset].to_vec()));
            }
            from = from.max(at + part.len());
        }
        if from < end {
            new.push((from, payload[from - offset..].to_vec()));
        }
        if self.parts.len() + new.len() > MAX_PARTS {
            return 0;
        }
        let octets = new.iter().map(|(_, part)| part.len()).sum();
        self.parts.append(&mut new);
        self.parts.sort_unstable_by_key(|(at, _)| *at);
        octets
    }

    /// The whole payload, if no fragment is missing.
    fn assemble(&self) -> Option<Vec<u8>> {
        let length = self.length?;
        let mut whole = Vec::with_capacity(length);
        for (offset, part) in &self.parts {
            if *offset != whole.len() {
                return None;
            }
            whole.extend_from_slice(part);
        }
        whole.truncate(length);
        (whole.len() == length).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(payload: &[u8]) -> Packet<'_> {
        let (source, destination) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        Packet { source, destination, protocol: 17, payload, missing: 0, fragment: None }
    }

    fn at_time(time_ns: i64) -> Frame {
        Frame { time_ns, ..Frame::default() }
    }

    fn place(id: u32, offset: usize, more: bool) -> Fragment {
        Fragment { id, offset: offset as u32, more }
    }

    proptest! {
        #[test]
        fn parts_in_any_order_and_twice_make_the_whole(order in Just((0..8_usize).flat_map(|n| [n, n]).collect::<Vec<_>>()).prop_shuffle()) {
            let whole: Vec<u8> = (0..60).collect();
            let mut defrag = Defrag::default();
            let mut made = Vec::new();
            for at in order {
                let (from, to) = (at * 8, (at * 8 + 8).min(60));
                made.extend(defrag.add(&part(&whole[from..to]), place(1, from, to < 60), &at_time(0), 0));
            }
            prop_assert_eq!(&made[0], &whole);
        }
    }

    #[test]
    fn a_datagram_with_a_hole_is_never_made() {
        let mut defrag = Defrag::default();
        assert_eq!(defrag.add(&part(&[0; 8]), place(1, 0, true), &at_time(0), 0), None);
        assert_eq!(defrag.add(&part(&[0; 8]), place(1, 16, false), &at_time(0), 0), None);
        defrag.finish();
        assert_eq!(defrag.abandoned.len(), 1);
    }

    #[test]
    fn of_overlapping_parts_of_ipv4_the_octets_seen_first_count() {
        let mut defrag = Defrag::default();
        assert_eq!(defrag.add(&part(&[2; 16]), place(1, 8, true), &at_time(0), 0), None);
        // It begins earlier, but arrived later.
        assert_eq!(defrag.add(&part(&[1; 16]), place(1, 0, true), &at_time(0), 0), None);
        let whole = defrag.add(&part(&[3; 24]), place(1, 16, false), &at_time(0), 0);
        assert_eq!(whole, Some([[1; 8], [2; 8], [2; 8], [3; 8], [3; 8]].concat()));
        assert_eq!(defrag.octets, 0);
    }

    #[test]
    fn an_ipv6_datagram_with_overlapping_parts_is_dropped_with_all_that_still_comes_of_it() {
        let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let part = |payload| Packet { source, destination, ..part(payload) };
        let mut defrag = Defrag::default();
        assert_eq!(defrag.add(&part(&[1; 16]), place(1, 0, true), &at_time(0), 0), None);
        assert_eq!(defrag.add(&part(&[2; 16]), place(1, 8, true), &at_time(0), 0), None);
        assert_eq!(defrag.abandoned, [(at_time(0), Flaw::FragmentsOverlap)]);
        for (offset, more) in [(0, true), (16, false), (8, true)] {
            assert_eq!(defrag.add(&part(&[1; 16]), place(1, offset, more), &at_time(5), 0), None);
        }
        defrag.finish();
        assert_eq!((defrag.abandoned.len(), defrag.octets), (1, 0));
        // An exact duplicate is no overlap.
        for _ in 0..2 {
            assert_eq!(defrag.add(&part(&[1; 16]), place(2, 0, true), &at_time(0), 0), None);
        }
        assert_eq!(defrag.add(&part(&[2; 8]), place(2, 16, false), &at_time(0), 0).map(|whole| whole.len()), Some(24));
    }

    #[test]
    fn parts_of_two_tags_or_tunnels_are_not_mixed() {
        let mut defrag = Defrag::default();
        for (outer, octet) in [(0, 1), (7, 2), (8, 3)] {
            assert_eq!(defrag.add(&part(&[octet; 8]), place(1, 0, true), &at_time(0), outer), None);
        }
        for (outer, octet) in [(8, 3), (7, 2), (0, 1)] {
            let whole = defrag.add(&part(&[octet; 8]), place(1, 8, false), &at_time(0), outer);
            assert_eq!(whole, Some(vec![octet; 16]));
        }
    }

    #[test]
    fn parts_half_a_minute_apart_are_not_mixed() {
        let mut defrag = Defrag::default();
        assert_eq!(defrag.add(&part(&[1; 8]), place(1, 0, true), &at_time(0), 0), None);
        assert_eq!(defrag.add(&part(&[2; 8]), place(1, 8, false), &at_time(TIMEOUT as i64 + 1), 0), None);
        assert_eq!(defrag.abandoned.len(), 1);
    }

    #[test]
    fn the_table_stays_bounded() {
        let mut defrag = Defrag::default();
        for id in 0..100_000 {
            defrag.add(&part(&[0; 1_400]), place(id, 0, true), &at_time(i64::from(id)), 0);
            assert!(defrag.table.len() <= MAX_DATAGRAMS && defrag.octets <= MAX_OCTETS);
        }
        assert!(defrag.abandoned.len() > 90_000);
    }

    #[test]
    fn the_largest_ping_of_death_is_refused() {
        let mut defrag = Defrag::default();
        assert_eq!(defrag.add(&part(&[0; 100]), place(1, 65_528, false), &at_time(0), 0), None);
        assert_eq!(defrag.abandoned.len(), 1);
    }
}
