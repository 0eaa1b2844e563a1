//! The link between clients and servers, in the sender itself: frames wait in it for their delay, in either direction, and some are lost.
//!
//! A query is sent when it enters the link and an answer arrives when it leaves it, as for clients at a distance; the server's host sees
//! a frame when that has crossed the link.

use ldplayer_core::RunTime;
use ldplayer_core::random::subkey;
use ldplayer_link::{Crossing, Ends, Flows, Link, LinkSpec, Passage, Schedule};
use ldplayer_net::packets::{Checksum, ETHERNET, Frame, FrameSender};

/// Frames on the link at most, in each direction.
const WAITING: usize = 1 << 18;
/// Minimum number of flows whose order and position in their random sequence are remembered.
const FLOWS: usize = 1 << 16;
/// Octets of the longest frame that waits: an IP packet of 64 KiB, as offloads make them.
const LONGEST: usize = 65_535 + ETHERNET;
/// Octets of an Ethernet header, which is no part of an IP packet.
const HEADER: usize = 14;

/// What became of frames that came to the link, those in both directions together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Frames that crossed it, or are still on it.
    pub crossed: u64,
    /// Frames that it lost, as it was told to.
    pub lost: u64,
    /// Frames that found the queue of a client's limited rate full.
    pub queue_full: u64,
    /// Frames that were dropped since too many waited.
    pub no_room: u64,
    /// How much later than its delay a frame left at the most, in nanoseconds: the worker was busy.
    pub latest_ns: i64,
}

/// The frames on the link of one worker's clients.
#[derive(Debug)]
pub struct DelayedFrames {
    link: Link,
    flows: Flows,
    to_servers: Schedule<()>,
    to_clients: Schedule<Arrived>,
    counts: LinkCounts,
}

/// What is known of a frame that arrived, beside its octets.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    length: usize,
    vlan: Option<u16>,
    checksum: Checksum,
}

impl DelayedFrames {
    /// An empty link. The same seed gives clients the same round-trip times as on the link of a testbed.
    pub fn new(spec: LinkSpec, seed: u64) -> Self {
        Self {
            link: Link::new(spec, subkey(seed, 0)),
            flows: Flows::new(FLOWS, seed),
            to_servers: Schedule::new(LONGEST, WAITING),
            to_clients: Schedule::new(LONGEST, WAITING),
            counts: LinkCounts::default(),
        }
    }

    /// What became of frames so far.
    pub const fn counts(&self) -> &LinkCounts {
        &self.counts
    }

    /// Whether no frame is on its way to a server.
    pub fn is_idle(&self) -> bool {
        self.to_servers.is_empty()
    }

    /// When the next frame has crossed the link, in either direction.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        let due = [self.to_servers.next_due(), self.to_clients.next_due()];
        due.into_iter().flatten().min().map(RunTime)
    }

    /// Takes a frame from a client at `now`.
    pub fn handle_frame(&mut self, now: RunTime, ends: &Ends, frame: &[u8]) {
        if let Some(due) = self.cross(now, true, ends, frame.len()) {
            let has_room = self.to_servers.push(due, (), frame);
            self.count_pushed(has_room);
        }
    }

    /// Takes a frame from a server, which arrived at `at`.
    pub fn handle_arrival(&mut self, at: RunTime, ends: &Ends, frame: &Frame<'_>) {
        if let Some(due) = self.cross(at, false, ends, frame.length) {
            let &Frame { length, vlan, checksum, octets, .. } = frame;
            let has_room = self.to_clients.push(due, Arrived { length, vlan, checksum }, octets);
            self.count_pushed(has_room);
        }
    }

    /// Adds frames that have crossed the link at `now` to the batch, as many as there is room for. Returns their number.
    pub fn transmit(&mut self, now: RunTime, sender: &mut FrameSender) -> usize {
        let mut count = 0;
        while let Some(room) = sender.room()
            && let Some(due) = self.to_servers.pop(now.0)
        {
            let length = due.packet.len();
            // It was written into such a room.
            room[..length].copy_from_slice(due.packet);
            self.counts.latest_ns = self.counts.latest_ns.max(now.0 - due.due);
            sender.commit(length);
            count += 1;
        }
        count
    }

    /// Hands over frames that have crossed the link at `now`, each with when it did. Returns their number.
    pub fn deliver(&mut self, now: RunTime, mut take: impl FnMut(RunTime, &Frame<'_>)) -> usize {
        let mut count = 0;
        while let Some(due) = self.to_clients.pop(now.0) {
            let Arrived { length, vlan, checksum } = due.tag;
            let frame = Frame { octets: due.packet, length, stamp_ns: due.due, vlan, checksum, is_outgoing: false };
            take(RunTime(due.due), &frame);
            count += 1;
        }
        count
    }

    /// When a frame has crossed the link; `None` if it does not.
    fn cross(&mut self, now: RunTime, up: bool, ends: &Ends, octets: usize) -> Option<i64> {
        let line = if up { ends.from.0 } else { ends.to.0 };
        let flow = self.link.draws().then(|| self.flows.of(ends, now.0));
        let length = octets.saturating_sub(HEADER);
        match self.link.cross_in_flow(&Crossing { now: now.0, line, up, length, flow: 0, number: 0 }, flow) {
            Passage::At(due) => return Some(due),
            Passage::Lost => self.counts.lost += 1,
            Passage::QueueFull => self.counts.queue_full += 1,
        }
        None
    }

    const fn count_pushed(&mut self, has_room: bool) {
        if has_room {
            self.counts.crossed += 1;
        } else {
            self.counts.no_room += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn link(rtt: &str, loss: Option<&str>) -> DelayedFrames {
        let (rtt, loss) = (rtt.parse().unwrap(), loss.map(|loss| loss.parse().unwrap()));
        DelayedFrames::new(LinkSpec { rtt, loss, ..LinkSpec::default() }, 1)
    }

    fn ends() -> Ends {
        let [server, client] = [("192.0.2.53", 53), ("10.0.0.1", 16_384)].map(|(ip, port)| (ip.parse().unwrap(), port));
        Ends { from: server, to: client, protocol: 17 }
    }

    fn frame(octets: &[u8]) -> Frame<'_> {
        let (length, checksum) = (octets.len(), Checksum::Valid);
        Frame { octets, length, stamp_ns: 0, vlan: Some(5), checksum, is_outgoing: false }
    }

    #[test]
    fn a_frame_arrives_after_half_of_the_round_trip_time_with_what_was_known_of_it() {
        let mut link = link("20ms", None);
        link.handle_arrival(RunTime(3 * MS), &ends(), &frame(&[1; 60]));
        link.handle_arrival(RunTime(4 * MS), &ends(), &frame(&[2; 3_000]));
        assert_eq!(link.poll_timeout(), Some(RunTime(13 * MS)));
        let mut arrived = Vec::new();
        let mut deliver = |now: i64| {
            link.deliver(RunTime(now), |at, it| {
                arrived.push((at.0, it.octets.to_vec(), it.length, it.vlan, it.checksum))
            })
        };
        assert_eq!([deliver(13 * MS - 1), deliver(13 * MS), deliver(20 * MS)], [0, 1, 1]);
        let known =
            |at: i64, octet: u8, length: usize| (at * MS, vec![octet; length], length, Some(5), Checksum::Valid);
        assert_eq!(
            arrived,
            [known(13, 1, 60), known(14, 2, 3_000)],
            "each with its own time, however late it is taken"
        );
        assert_eq!(*link.counts(), LinkCounts { crossed: 2, ..LinkCounts::default() });
        assert!(link.is_idle() && link.poll_timeout().is_none());
    }

    #[test]
    fn frames_to_servers_wait_and_what_is_lost_is_counted() {
        let mut half = link("0ms", Some("50%"));
        for number in 0..1_000 {
            half.handle_frame(RunTime(number), &ends(), &[0; 60]);
        }
        let LinkCounts { crossed, lost, .. } = *half.counts();
        assert!(crossed + lost == 1_000 && (400..600).contains(&lost), "{lost}");
        assert!(!half.is_idle());
    }

    #[test]
    fn clients_have_the_round_trip_times_that_they_have_on_the_wire_of_a_testbed() {
        let (spec, seed) = (LinkSpec { rtt: "uniform:10ms,90ms".parse().unwrap(), ..LinkSpec::default() }, 7);
        // As `ldplayer_emulate::wire::Wire` does with its first path, which is that of the clients.
        let wire = Link::new(spec.clone(), subkey(seed, 0));
        let mut ours = DelayedFrames::new(spec, seed);
        for client in ["10.0.0.1", "10.0.0.2", "2001:db8::1"] {
            let ends = Ends { to: (client.parse().unwrap(), 1), ..ends() };
            ours.handle_arrival(RunTime(0), &ends, &frame(&[0; 60]));
            let mut at = None;
            ours.deliver(RunTime(i64::MAX), |due, _| at = Some(due.0));
            assert_eq!(at, Some(wire.one_way(ends.to.0, false)), "{client}");
        }
    }
}
