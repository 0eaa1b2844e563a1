//! Datagrams that are longer than the MTU: cut into fragments, and put together again (RFC 791, RFC 8200 section 4.5).

use std::collections::VecDeque;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use ldplayer_core::RunTime;

use crate::frame::ip::{Fragment, Header, Packet, UDP};
use crate::frame::{Link, udp};

/// Cuts one UDP datagram into the frames of its fragments.
#[derive(Clone, Copy, Debug)]
pub struct Fragmenter<'a> {
    header: Header,
    udp: [u8; udp::HEADER],
    payload: &'a [u8],
    id: u32,
    /// Octets of the datagram in a fragment that is not the last.
    step: usize,
    /// Where the next begins.
    at: usize,
}

impl<'a> Fragmenter<'a> {
    /// The fragments of a datagram in IP packets of at most `mtu` octets. `id` must not be that of another datagram of the
    /// same addresses that may still be on its way; IPv4 takes its last 16 bits. `None` if the payload is too long for UDP, the
    /// addresses are of two families, or the MTU has no room for eight octets.
    pub fn new(
        source: (IpAddr, u16),
        destination: (IpAddr, u16),
        payload: &'a [u8],
        mtu: u16,
        id: u32,
    ) -> Option<Self> {
        let udp = udp::header(source, destination, payload)?;
        let fragment = Some(Fragment { id, offset: 0, more: true });
        let header = Header { fragment, ..Header::new(source.0, destination.0, UDP) };
        let step = usize::from(mtu).checked_sub(header.len())? & !7;
        let is_possible = step > 0 && source.0.is_ipv4() == destination.0.is_ipv4();
        is_possible.then_some(Self { header, udp, payload, id, step, at: 0 })
    }

    /// Whether a datagram with so much payload has to be cut.
    pub fn is_needed(source: IpAddr, payload: usize, mtu: u16) -> bool {
        Header::new(source, source, UDP).len() + udp::HEADER + payload > usize::from(mtu)
    }

    /// Octets of the longest frame.
    pub fn longest(&self, link: &Link) -> usize {
        link.len() + self.header.len() + self.step.min(self.total())
    }

    /// Writes the next frame; returns its length. `None` if there is none left, or it does not fit.
    pub fn write_next(&mut self, frame: &mut [u8], link: &Link) -> Option<usize> {
        let left = self.total().checked_sub(self.at).filter(|&left| left > 0)?;
        let length = left.min(self.step);
        let fragment = Some(Fragment { id: self.id, offset: self.at as u32, more: left > self.step });
        let header = Header { fragment, ..self.header };
        let at = link.write(frame, header.ethertype())?;
        let at = at + header.write(&mut frame[at..], length)?;
        let part = frame.get_mut(at..at + length)?;
        // The UDP header is in the first one, which has room for it.
        let head = udp::HEADER.saturating_sub(self.at);
        part[..head].copy_from_slice(&self.udp[udp::HEADER - head..]);
        let from = self.at + head - udp::HEADER;
        part[head..].copy_from_slice(&self.payload[from..from + length - head]);
        self.at += length;
        Some(at + length)
    }

    fn total(&self) -> usize {
        udp::HEADER + self.payload.len()
    }
}

/// Bounds of reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Datagrams that are put together at once.
    pub datagrams: u32,
    /// Octets of all of them.
    pub octets: usize,
    /// How long a datagram may take, in nanoseconds: 30 s in Linux, 60 s in RFC 8200.
    pub timeout_ns: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { datagrams: 4_096, octets: 4 << 20, timeout_ns: 30_000_000_000 }
    }
}

/// What reassembly has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentCounts {
    /// Fragments that arrived.
    pub fragments: u64,
    /// Datagrams put together.
    pub completed: u64,
    /// Fragments with a length or place that no datagram can have.
    pub bad: u64,
    /// Datagrams dropped since fragments overlapped (RFC 5722).
    pub overlaps: u64,
    /// Datagrams whose missing fragments did not arrive in time.
    pub timeouts: u64,
    /// Datagrams dropped to make room for others.
    pub crowded_out: u64,
}

/// Parts of a datagram. More are a sign of bad intent: the longest datagram has 46 in packets of 1,500 octets.
const PARTS: usize = 128;
/// Longest datagram in octets.
const LONGEST: u32 = 65_535;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    id: u32,
    /// Of IPv4; in IPv6 only the ID tells datagrams apart.
    protocol: u8,
}

#[derive(Debug, Default)]
struct Datagram {
    octets: Vec<u8>,
    /// What has arrived: in order, apart, none empty.
    parts: Vec<(u32, u32)>,
    /// The length of the whole, when the last fragment has arrived.
    length: Option<u32>,
    /// The protocol in the first fragment.
    protocol: u8,
    hop_limit: u8,
    /// Its place in the order of arrival.
    number: u64,
    since: i64,
    /// Whether fragments overlapped: it is kept without its octets, so that others of it do not begin it anew.
    is_dropped: bool,
}

/// Puts fragments together.
#[derive(Debug, Default)]
pub struct Reassembler {
    limits: Limits,
    datagrams: HashMap<Key, Datagram, RandomState>,
    /// In the order in which they began. A datagram that is complete leaves its key behind, which has another number then.
    order: VecDeque<(u64, Key)>,
    begun: u64,
    octets: usize,
    whole: Datagram,
    spare: Vec<Datagram>,
    counts: FragmentCounts,
}

/// What becomes of a fragment.
enum Placed {
    /// It is a part of what is missing.
    New,
    /// It has been there before.
    Again,
    /// It says something else about the same octets.
    Overlap,
}

impl Reassembler {
    /// Nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What was counted.
    pub const fn counts(&self) -> &FragmentCounts {
        &self.counts
    }

    /// Datagrams of which something is missing.
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        let &(number, key) = self.order.front()?;
        let is_there = self.datagrams.get(&key).filter(|datagram| datagram.number == number);
        // A key that is left over can go at any time.
        Some(RunTime(is_there.map_or(i64::MIN, |datagram| datagram.since.saturating_add(self.limits.timeout_ns))))
    }

    /// Drops datagrams whose missing fragments did not arrive in time.
    pub fn handle_timeout(&mut self, now: RunTime) {
        while self.poll_timeout().is_some_and(|due| due <= now) {
            if self.drop_first() {
                self.counts.timeouts += 1;
            }
        }
    }

    /// Takes a fragment. Returns the datagram if it was the last of it that was missing; the packet is whole, and valid until
    /// the next call.
    pub fn handle_fragment(&mut self, now: RunTime, packet: &Packet<'_>) -> Option<Packet<'_>> {
        let fragment = packet.fragment?;
        self.handle_timeout(now);
        self.counts.fragments += 1;
        let length = packet.payload.len() as u32;
        let end = fragment.offset + length;
        // All but the last have a multiple of 8 octets (RFC 8200 section 4.5).
        if length == 0 || end > LONGEST || (fragment.more && !length.is_multiple_of(8)) {
            self.counts.bad += 1;
            return None;
        }
        let Packet { source, destination, protocol, .. } = *packet;
        let of_key = if source.is_ipv4() { protocol } else { 0 };
        let key = Key { source, destination, id: fragment.id, protocol: of_key };
        self.begin(now, key);
        let datagram = self.datagrams.get_mut(&key)?;
        if datagram.is_dropped {
            return None;
        }
        let before = datagram.octets.len();
        match datagram.place(packet, fragment.offset, end, fragment.more) {
            Placed::Again => return None,
            Placed::Overlap => {
                datagram.drop_octets();
                self.octets -= before;
                self.counts.overlaps += 1;
                return None;
            }
            Placed::New => self.octets += datagram.octets.len() - before,
        }
        if datagram.is_complete() {
            return self.complete(key, source, destination);
        }
        self.keep_within_limits();
        None
    }

    /// Makes room for a datagram that was not there before.
    fn begin(&mut self, now: RunTime, key: Key) {
        if self.datagrams.contains_key(&key) {
            return;
        }
        while self.datagrams.len() >= self.limits.datagrams.max(1) as usize {
            self.crowd_out();
        }
        // Keys that are left over are as many as datagrams that were complete: they go from the front, and here at the latest.
        while self.order.len() >= 2 * self.limits.datagrams.max(1) as usize {
            self.crowd_out();
        }
        self.begun += 1;
        let mut datagram = self.spare.pop().unwrap_or_default();
        (datagram.number, datagram.since) = (self.begun, now.0);
        self.datagrams.insert(key, datagram);
        self.order.push_back((self.begun, key));
    }

    fn keep_within_limits(&mut self) {
        while self.octets > self.limits.octets && !self.order.is_empty() {
            self.crowd_out();
        }
    }

    fn crowd_out(&mut self) {
        if self.drop_first() {
            self.counts.crowded_out += 1;
        }
    }

    /// Drops the oldest entry; returns whether it was an incomplete datagram.
    fn drop_first(&mut self) -> bool {
        let Some((number, key)) = self.order.pop_front() else { return false };
        if self.datagrams.get(&key).is_none_or(|datagram| datagram.number != number) {
            return false;
        }
        let Some(mut datagram) = self.datagrams.remove(&key) else { return false };
        let was_wanted = !datagram.is_dropped;
        self.octets -= datagram.octets.len();
        datagram.clear();
        self.keep_spare(datagram);
        was_wanted
    }

    fn keep_spare(&mut self, datagram: Datagram) {
        // Enough for the few that are on their way at once; memory of more goes back.
        if self.spare.len() < 16 {
            self.spare.push(datagram);
        }
    }

    fn complete(&mut self, key: Key, source: IpAddr, destination: IpAddr) -> Option<Packet<'_>> {
        let datagram = self.datagrams.remove(&key)?;
        self.octets -= datagram.octets.len();
        let mut last = std::mem::replace(&mut self.whole, datagram);
        last.clear();
        self.keep_spare(last);
        self.counts.completed += 1;
        let Datagram { protocol, hop_limit, ref octets, .. } = self.whole;
        Some(Packet { source, destination, protocol, hop_limit, fragment: None, payload: octets })
    }
}

impl Datagram {
    fn clear(&mut self) {
        let (mut octets, mut parts) = (std::mem::take(&mut self.octets), std::mem::take(&mut self.parts));
        octets.clear();
        parts.clear();
        *self = Self { octets, parts, ..Self::default() };
    }

    fn drop_octets(&mut self) {
        self.octets = Vec::new();
        self.parts = Vec::new();
        self.is_dropped = true;
    }

    /// Puts a fragment into its place.
    fn place(&mut self, packet: &Packet<'_>, offset: u32, end: u32, more: bool) -> Placed {
        let range = offset as usize..end as usize;
        let from = self.parts.partition_point(|part| part.1 <= offset);
        let overlapped = self.parts.get(from).filter(|part| part.0 < end);
        if let Some(&(first, last)) = overlapped {
            // The same once more is no overlap (RFC 8200 section 4.5).
            let is_inside = first <= offset && end <= last;
            let is_same = is_inside && self.octets[range] == *packet.payload && self.fits(end, more);
            return if is_same { Placed::Again } else { Placed::Overlap };
        }
        if !self.fits(end, more) || self.parts.len() == PARTS {
            return Placed::Overlap;
        }
        if !more {
            self.length = Some(end);
        }
        if offset == 0 {
            (self.protocol, self.hop_limit) = (packet.protocol, packet.hop_limit);
        }
        if self.octets.len() < range.end {
            self.octets.resize(range.end, 0);
        }
        self.octets[range].copy_from_slice(packet.payload);
        self.parts.insert(from, (offset, end));
        self.join(from);
        Placed::New
    }

    /// Whether a fragment up to `end` fits the known length.
    fn fits(&self, end: u32, more: bool) -> bool {
        match self.length {
            Some(length) => (end < length && more) || (end == length && !more),
            None => more || self.parts.last().is_none_or(|part| part.1 <= end),
        }
    }

    /// Joins the part at `at` with those that it touches.
    fn join(&mut self, at: usize) {
        if let Some(&(first, end)) = self.parts.get(at + 1)
            && self.parts[at].1 == first
        {
            self.parts[at].1 = end;
            self.parts.remove(at + 1);
        }
        if at > 0 && self.parts[at - 1].1 == self.parts[at].0 {
            self.parts[at - 1].1 = self.parts[at].1;
            self.parts.remove(at);
        }
    }

    fn is_complete(&self) -> bool {
        self.length.is_some_and(|length| self.parts == [(0, length)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Check, Content, Ethernet, Transport};
    use proptest::prelude::*;

    const S: i64 = 1_000_000_000;

    fn addresses(v6: bool) -> [IpAddr; 2] {
        let texts = if v6 { ["2001:db8::1", "2001:db8::53"] } else { ["192.0.2.1", "192.0.2.53"] };
        texts.map(|text| text.parse().unwrap())
    }

    /// The frames of a datagram.
    fn frames(v6: bool, payload: &[u8], mtu: u16, id: u32) -> Vec<Vec<u8>> {
        let [source, destination] = addresses(v6);
        let link = Link::new([1; 6], [2; 6], None);
        let mut fragmenter = Fragmenter::new((source, 1_234), (destination, 53), payload, mtu, id).unwrap();
        let longest = fragmenter.longest(&link);
        let next = || {
            let mut frame = vec![0; longest];
            let length = fragmenter.write_next(&mut frame, &link)?;
            frame.truncate(length);
            Some(frame)
        };
        std::iter::from_fn(next).collect()
    }

    fn packet(frame: &[u8]) -> Packet<'_> {
        let ethernet = Ethernet::read(frame).unwrap();
        match Content::read(ethernet.ethertype, ethernet.payload, Check::Verify) {
            Ok(Content::Fragment(packet)) => packet,
            other => panic!("{other:?}"),
        }
    }

    /// The payload of the datagram that a fragment completes.
    fn put(reassembler: &mut Reassembler, now: i64, frame: &[u8]) -> Option<Vec<u8>> {
        let whole = reassembler.handle_fragment(RunTime(now), &packet(frame))?;
        match Transport::read(&whole, Check::Verify) {
            Ok(Transport::Udp(datagram)) => Some(datagram.payload.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn fragments_in_any_order_and_twice_become_the_datagram(
            v6: bool, payload in prop::collection::vec(any::<u8>(), 1_300..9_000), mtu in 600_u16..1_300, id: u32,
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let mut frames = frames(v6, &payload, mtu, id);
            prop_assert!(frames.iter().all(|frame| frame.len() <= 14 + usize::from(mtu)) && frames.len() > 1);
            let mut reassembler = Reassembler::default();
            let (mut done, last) = (0, frames.len());
            order.iter().for_each(|index| {
                let at = index.index(frames.len());
                frames.swap(0, at);
            });
            for (number, frame) in frames.iter().enumerate() {
                let whole = put(&mut reassembler, 0, frame);
                prop_assert_eq!(whole.is_some(), number + 1 == last);
                if let Some(whole) = whole {
                    prop_assert_eq!(&whole, &payload);
                    done += 1;
                } else {
                    prop_assert_eq!(put(&mut reassembler, 0, frame), None, "twice");
                }
            }
            prop_assert_eq!((done, reassembler.len(), reassembler.octets), (1, 0, 0));
            prop_assert_eq!(reassembler.counts().overlaps, 0);
        }

        #[test]
        fn any_fragments_stay_within_the_limits(
            steps in prop::collection::vec((0_u32..6, 0_u32..60, any::<bool>(), 0_usize..200, any::<u8>()), 0..200),
        ) {
            let limits = Limits { datagrams: 4, octets: 800, timeout_ns: 5 };
            let mut reassembler = Reassembler::new(limits);
            let [source, destination] = addresses(true);
            for (now, (id, offset, more, length, octet)) in steps.into_iter().enumerate() {
                let payload = vec![octet; length];
                let fragment = Some(Fragment { id, offset: offset * 8, more });
                let packet = Packet { source, destination, protocol: UDP, hop_limit: 64, fragment, payload: &payload };
                reassembler.handle_fragment(RunTime(now as i64), &packet);
                let held: usize = reassembler.datagrams.values().map(|datagram| datagram.octets.len()).sum();
                prop_assert!(held == reassembler.octets && held <= limits.octets && reassembler.len() <= 4);
                prop_assert!(reassembler.order.len() <= 8);
            }
            reassembler.handle_timeout(RunTime(i64::MAX));
            prop_assert!(reassembler.is_empty() && reassembler.octets == 0 && reassembler.poll_timeout().is_none());
        }
    }

    #[test]
    fn a_datagram_is_cut_if_it_is_longer_than_the_mtu() {
        for (v6, payload) in [(false, 1_472), (true, 1_452)] {
            assert!(!Fragmenter::is_needed(addresses(v6)[0], payload, 1_500));
            assert!(Fragmenter::is_needed(addresses(v6)[0], payload + 1, 1_500));
        }
        let [source, destination] = addresses(false);
        assert!(Fragmenter::new((source, 1), (destination, 2), &[0; 100], 27, 0).is_none());
        assert!(Fragmenter::new((source, 1), (addresses(true)[0], 2), &[0; 100], 1_500, 0).is_none());
        assert!(Fragmenter::new((source, 1), (destination, 2), &vec![0; 65_528], 1_500, 0).is_none());
    }

    #[test]
    fn a_buffer_that_is_too_small_takes_nothing() {
        let [source, destination] = addresses(false);
        let mut fragmenter = Fragmenter::new((source, 1), (destination, 2), &[7; 3_000], 1_500, 1).unwrap();
        assert_eq!(fragmenter.write_next(&mut [0; 1_000], &Link::none()), None);
        assert_eq!(fragmenter.write_next(&mut [0; 1_500], &Link::none()), Some(1_500));
    }

    #[test]
    fn rfc_5722_a_datagram_whose_fragments_overlap_is_dropped_with_all_that_follow() {
        for v6 in [false, true] {
            let (first, second) = (frames(v6, &[1; 3_000], 1_280, 9), frames(v6, &[2; 3_000], 1_000, 9));
            let mut reassembler = Reassembler::default();
            assert_eq!(put(&mut reassembler, 0, &first[0]), None);
            assert_eq!(put(&mut reassembler, 0, &second[1]), None);
            assert_eq!((reassembler.counts().overlaps, reassembler.octets), (1, 0));
            for frame in &first {
                assert_eq!(put(&mut reassembler, 1, frame), None);
            }
            assert_eq!((reassembler.counts().completed, reassembler.len()), (0, 1));
            // When its time is over, a datagram of the same ID is a new one.
            let whole: Vec<_> = first.iter().filter_map(|frame| put(&mut reassembler, 31 * S, frame)).collect();
            assert_eq!(whole, [vec![1; 3_000]]);
            assert_eq!(reassembler.counts().timeouts, 0);
        }
    }

    #[test]
    fn a_last_fragment_in_another_place_is_an_overlap() {
        let (short, long) = (frames(false, &[1; 2_000], 1_500, 9), frames(false, &[1; 4_000], 1_500, 9));
        for order in [[&short[1], &long[2]], [&long[2], &short[1]]] {
            let mut reassembler = Reassembler::default();
            order.iter().for_each(|frame| assert_eq!(put(&mut reassembler, 0, frame), None));
            assert_eq!(reassembler.counts().overlaps, 1);
        }
    }

    #[test]
    fn what_does_not_come_in_time_is_forgotten_and_counted() {
        let frames = frames(true, &[1; 3_000], 1_500, 9);
        let mut reassembler = Reassembler::default();
        put(&mut reassembler, 0, &frames[0]);
        assert_eq!(reassembler.poll_timeout(), Some(RunTime(30 * S)));
        reassembler.handle_timeout(RunTime(30 * S - 1));
        assert_eq!(reassembler.len(), 1);
        reassembler.handle_timeout(RunTime(30 * S));
        assert_eq!((reassembler.len(), reassembler.counts().timeouts, reassembler.poll_timeout()), (0, 1, None));
        assert_eq!(put(&mut reassembler, 31 * S, &frames[1]), None);
    }

    #[test]
    fn the_oldest_makes_room_for_others() {
        let mut reassembler = Reassembler::new(Limits { datagrams: 2, ..Limits::default() });
        let all: Vec<_> = (0..3).map(|id| frames(false, &[id as u8; 2_000], 1_500, id)).collect();
        all.iter().for_each(|frames| assert_eq!(put(&mut reassembler, 0, &frames[0]), None));
        assert_eq!((reassembler.len(), reassembler.counts().crowded_out), (2, 1));
        assert_eq!(put(&mut reassembler, 0, &all[2][1]), Some(vec![2; 2_000]));
        assert_eq!(put(&mut reassembler, 0, &all[1][1]), Some(vec![1; 2_000]));
        assert_eq!(put(&mut reassembler, 0, &all[0][1]), None);
    }

    #[test]
    fn impossible_fragments_are_bad() {
        let [source, destination] = addresses(false);
        let mut reassembler = Reassembler::default();
        for (offset, length, more) in [(0, 9, true), (65_528, 8, false), (8, 0, false)] {
            let payload = vec![0; length];
            let fragment = Some(Fragment { id: 1, offset, more });
            let packet = Packet { source, destination, protocol: UDP, hop_limit: 64, fragment, payload: &payload };
            assert!(reassembler.handle_fragment(RunTime(0), &packet).is_none());
        }
        assert_eq!((reassembler.counts().bad, reassembler.len()), (3, 0));
    }
}
