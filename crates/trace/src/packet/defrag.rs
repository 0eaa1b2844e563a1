//! IP fragments put together again, in a table that stays small whatever arrives.

use std::net::IpAddr;

use hashbrown::HashMap;

use super::ip::{Fragment, Packet};
use crate::source::Frame;

/// Datagrams in the making at most.
const MAX_DATAGRAMS: usize = 4_096;
/// Octets of all parts together at most.
const MAX_OCTETS: usize = 16 << 20;
/// The longest datagram.
const MAX_LENGTH: usize = 65_535;
/// Parts of one datagram at most.
const MAX_PARTS: usize = 64;
/// How long the parts of a datagram may be apart, in nanoseconds of the trace (RFC 791 §3.2 and RFC 8200 §4.5 say 15 to 60 s).
const TIMEOUT: i64 = 30_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    id: u32,
}

#[derive(Debug, Default)]
struct Parts {
    /// The frame of the part that was seen first.
    first: Frame,
    length: Option<usize>,
    parts: Vec<(usize, Vec<u8>)>,
}

/// Datagrams in the making.
#[derive(Debug, Default)]
pub(crate) struct Defrag {
    table: HashMap<Key, Parts>,
    octets: usize,
    /// Datagrams given up, each by its first frame, for the caller to take: parts lacked for too long, or there were too
    /// many of them.
    pub abandoned: Vec<Frame>,
}

impl Defrag {
    /// Adds a part that `frame` carried; the payload of the whole datagram when it was the last that lacked.
    pub fn add(&mut self, packet: &Packet<'_>, fragment: Fragment, frame: &Frame) -> Option<Vec<u8>> {
        let end = fragment.offset + packet.payload.len();
        if packet.cut || end > MAX_LENGTH {
            self.abandoned.push(*frame);
            return None;
        }
        self.make_room(packet.payload.len(), frame.time_ns);
        let (source, destination, protocol) = (packet.source, packet.destination, packet.protocol);
        let key = Key { source, destination, protocol, id: fragment.id };
        // Parts of an older datagram with the same identification are not mixed with the new one's.
        if self.table.get(&key).is_some_and(|parts| (frame.time_ns - parts.first.time_ns).abs() > TIMEOUT) {
            self.abandon(&key);
        }
        let parts = self.table.entry(key).or_insert_with(|| Parts { first: *frame, ..Parts::default() });
        if !fragment.more {
            parts.length.get_or_insert(end);
        }
        if parts.parts.len() < MAX_PARTS {
            self.octets += packet.payload.len();
            parts.parts.push((fragment.offset, packet.payload.to_vec()));
        }
        let whole = parts.assemble()?;
        self.remove(&key);
        Some(whole)
    }

    /// Gives up all that is unfinished, at the end of a capture.
    pub fn finish(&mut self) {
        self.abandoned.extend(self.table.drain().map(|(_, parts)| parts.first));
        self.abandoned.sort_unstable_by_key(|frame| frame.number);
        self.octets = 0;
    }

    fn make_room(&mut self, octets: usize, now: i64) {
        if self.table.len() < MAX_DATAGRAMS && self.octets + octets <= MAX_OCTETS {
            return;
        }
        let mut old: Vec<(i64, Key)> = self.table.iter().map(|(key, parts)| (parts.first.time_ns, *key)).collect();
        old.sort_unstable_by_key(|(seen, _)| *seen);
        // All that is too old, and an eighth of the rest, so that this is not done for every packet.
        let expired = old.partition_point(|(seen, _)| now - seen > TIMEOUT);
        for (_, key) in old.iter().take(expired.max(old.len().div_ceil(8))) {
            self.abandon(key);
        }
    }

    fn abandon(&mut self, key: &Key) {
        self.abandoned.extend(self.table.get(key).map(|parts| parts.first));
        self.remove(key);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(parts) = self.table.remove(key) {
            self.octets -= parts.parts.iter().map(|(_, part)| part.len()).sum::<usize>();
        }
    }
}

impl Parts {
    /// The whole payload, if no part lacks. Where parts overlap, the one seen first counts.
    fn assemble(&mut self) -> Option<Vec<u8>> {
        let length = self.length?;
        self.parts.sort_by_key(|(offset, _)| *offset);
        let mut whole = Vec::with_capacity(length);
        for (offset, part) in &self.parts {
            let known = whole.len().checked_sub(*offset)?;
            whole.extend_from_slice(part.get(known..).unwrap_or_default());
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
        Packet { source, destination, protocol: 17, payload, cut: false, fragment: None }
    }

    fn at_time(time_ns: i64) -> Frame {
        Frame { time_ns, ..Frame::default() }
    }

    fn place(id: u32, offset: usize, more: bool) -> Fragment {
        Fragment { id, offset, more }
    }

    proptest! {
        #[test]
        fn parts_in_any_order_and_twice_make_the_whole(order in Just((0..8_usize).flat_map(|n| [n, n]).collect::<Vec<_>>()).prop_shuffle()) {
            let whole: Vec<u8> = (0..60).collect();
            let mut defrag = Defrag::default();
            let mut made = Vec::new();
            for at in order {
                let (from, to) = (at * 8, (at * 8 + 8).min(60));
                made.extend(defrag.add(&part(&whole[from..to]), place(1, from, to < 60), &at_time(0)));
            }
            prop_assert_eq!(&made[0], &whole);
        }
    }

    #[test]
    fn a_datagram_with_a_hole_is_never_made() {
        let mut defrag = Defrag::default();
        assert_eq!(defrag.add(&part(&[0; 8]), place(1, 0, true), &at_time(0)), None);
        assert_eq!(defrag.add(&part(&[0; 8]), place(1, 16, false), &at_time(0)), None);
        defrag.finish();
        assert_eq!(defrag.abandoned.len(), 1);
    }

    #[test]
    fn parts_half_a_minute_apart_are_not_mixed() {
        let mut defrag = Defrag::default();
        assert_eq!(defrag.add(&part(&[1; 8]), place(1, 0, true), &at_time(0)), None);
        assert_eq!(defrag.add(&part(&[2; 8]), place(1, 8, false), &at_time(TIMEOUT + 1)), None);
        assert_eq!(defrag.abandoned.len(), 1);
    }

    #[test]
    fn the_table_stays_bounded() {
        let mut defrag = Defrag::default();
        for id in 0..100_000 {
            defrag.add(&part(&[0; 1_400]), place(id, 0, true), &at_time(i64::from(id)));
            assert!(defrag.table.len() <= MAX_DATAGRAMS && defrag.octets <= MAX_OCTETS);
        }
        assert!(defrag.abandoned.len() > 90_000);
    }

    #[test]
    fn the_largest_ping_of_death_is_refused() {
        let mut defrag = Defrag::default();
        assert_eq!(defrag.add(&part(&[0; 100]), place(1, 65_528, false), &at_time(0)), None);
        assert_eq!(defrag.abandoned.len(), 1);
    }
}
