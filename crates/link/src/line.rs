//! A link: decides when a packet arrives, or that it is lost.
//!
//! A link has a far side, the clients (or the servers); each of its addresses has its own line with a round-trip
//! time, a rate and a loss state. Random draws depend on the seed, the flow, the direction and the packet's position in
//! its flow, so that the fate of a flow does not depend on other flows.

use std::net::IpAddr;

use ldplayer_core::random::{draw, normal, subkey, unit};
use ldplayer_core::shard::client_hash;
use ldplayer_core::time::NS_PER_S;

use crate::flows::Direction;
use crate::prefixes::LONGEST;
use crate::recent::Recent;
use crate::spec::{Distribution, Jitter, Loss, Rate, Rtt};

/// Maximum number of lines with state; beyond that, the least recently used ones start again.
const LINES: usize = 65_536;

/// Random draws per packet.
const DRAWS: u64 = 4;

/// The properties of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Round-trip time of each line; one way takes half of it.
    pub rtt: Rtt,
    /// Jitter of the delay from packet to packet, in each direction.
    pub jitter: Option<Jitter>,
    /// Loss in each direction.
    pub loss: Option<Loss>,
    /// Rate of each line in each direction.
    pub rate: Option<Rate>,
}

impl Default for LinkSpec {
    /// No delay, no loss, no limit.
    fn default() -> Self {
        Self { rtt: Rtt::Constant(0), jitter: None, loss: None, rate: None }
    }
}

/// A packet crossing the link.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// When it reaches the link.
    pub now: i64,
    /// Its address on the far side.
    pub line: IpAddr,
    /// Whether it comes from the far side.
    pub up: bool,
    /// Its length in octets.
    pub length: usize,
    /// The random sequence of its flow and direction.
    pub flow: u64,
    /// Its index in that.
    pub number: u64,
}

/// The fate of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It arrives at this time.
    At(i64),
    /// It is lost.
    Lost,
    /// It is dropped because the queue of the limited rate is full.
    QueueFull,
}

/// A link with the state of its lines.
#[derive(Debug)]
pub struct Link {
    spec: LinkSpec,
    seed: u64,
    lines: Option<Recent<(IpAddr, bool), Line>>,
}

/// One direction of a line.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// When all earlier packets have been sent.
    free_at: i64,
    /// Packets seen.
    packets: u64,
    is_bad: bool,
}

impl Link {
    /// A link without any packets.
    pub fn new(spec: LinkSpec, seed: u64) -> Self {
        let has_state = spec.rate.is_some() || matches!(spec.loss, Some(Loss::Bursts { .. }));
        Self { spec, seed, lines: has_state.then(|| Recent::new(LINES)) }
    }

    /// Whether the fate of a packet may depend on a random draw.
    pub const fn draws(&self) -> bool {
        self.spec.jitter.is_some() || matches!(self.spec.loss, Some(Loss::Each(_)))
    }

    /// Whether packets of a flow stay in order.
    pub fn keeps_order(&self) -> bool {
        self.spec.jitter.is_none_or(|jitter| !jitter.reorder)
    }

    /// Number of lines whose state was forgotten.
    pub fn forgotten(&self) -> u64 {
        self.lines.as_ref().map_or(0, Recent::forgotten)
    }

    /// Decides the fate of a packet.
    pub fn cross(&mut self, packet: &Crossing) -> Passage {
        let sent = match self.pass_line(packet) {
            Ok(sent) => sent,
            Err(passage) => return passage,
        };
        let sequence = |part| draw(packet.flow, packet.number.wrapping_mul(DRAWS).wrapping_add(part));
        if let Some(Loss::Each(chance)) = self.spec.loss
            && unit(sequence(0)) < chance
        {
            return Passage::Lost;
        }
        let jitter = self.spec.jitter.map_or(0, |jitter| jitter.spread.sample(sequence(1), sequence(2)));
        let delay = self.one_way(packet.line, packet.up).saturating_add(jitter).max(0);
        Passage::At(sent.saturating_add(delay))
    }

    /// Decides the fate of a packet of a flow, which counts it: packets of a flow stay in order unless jitter may reorder them.
    pub fn cross_in_flow(&mut self, packet: &Crossing, flow: Option<&mut Direction>) -> Passage {
        let (draws, number) = flow.as_ref().map_or((0, 0), |flow| (flow.draws, flow.packets));
        let passage = self.cross(&Crossing { flow: draws, number, ..*packet });
        let Some(flow) = flow else { return passage };
        flow.packets = flow.packets.wrapping_add(1);
        match passage {
            Passage::At(due) if self.keeps_order() => {
                flow.last_due = flow.last_due.max(due);
                Passage::At(flow.last_due)
            }
            other => other,
        }
    }

    /// The delay of one direction, in nanoseconds: both add up exactly to the round-trip time.
    pub fn one_way(&self, line: IpAddr, up: bool) -> i64 {
        let rtt = self.rtt(line);
        if up { rtt / 2 } else { rtt - rtt / 2 }
    }

    /// The round-trip time of a line in nanoseconds, without jitter.
    pub fn rtt(&self, line: IpAddr) -> i64 {
        match &self.spec.rtt {
            Rtt::Constant(ns) => *ns,
            Rtt::Prefixes(prefixes) => prefixes.of(line).next().copied().unwrap_or(0),
            Rtt::Drawn(distribution) => {
                let key = subkey(self.seed, client_hash(line));
                distribution.sample(draw(key, 0), draw(key, 1)).max(0)
            }
        }
    }

    /// Queues, sends and possibly loses the packet on its line; returns when it has been sent.
    fn pass_line(&mut self, packet: &Crossing) -> Result<i64, Passage> {
        let Some(lines) = &mut self.lines else { return Ok(packet.now) };
        let hash = subkey(self.seed, client_hash(packet.line) ^ u64::from(packet.up));
        let key = (packet.line, packet.up);
        let line = lines.at(hash, &key, packet.now, |lost| Line::new(hash, lost, self.spec.loss));
        let sent = match self.spec.rate {
            Some(rate) => line.send(packet.now, packet.length, rate).ok_or(Passage::QueueFull)?,
            None => packet.now,
        };
        if line.loses(hash, self.spec.loss) { Err(Passage::Lost) } else { Ok(sent) }
    }
}

impl Line {
    /// A line that has not been used (lately). It is in the bad state as often as on average.
    fn new(hash: u64, lost: u32, loss: Option<Loss>) -> Self {
        // Draws go on elsewhere each time that the line begins anew.
        let packets = u64::from(lost) << 40;
        let is_bad = match loss {
            Some(Loss::Bursts { to_bad, to_good, .. }) if to_bad + to_good > 0.0 => {
                unit(draw(hash, packets.wrapping_mul(DRAWS).wrapping_add(2))) < to_bad / (to_bad + to_good)
            }
            _ => false,
        };
        Self { free_at: i64::MIN, packets, is_bad }
    }

    /// Takes the packet into the queue, if there is room; when its last bit is sent. An empty queue has room for any packet.
    fn send(&mut self, now: i64, octets: usize, rate: Rate) -> Option<i64> {
        let begin = self.free_at.max(now);
        if begin - now > rate.queue_ns {
            return None;
        }
        let bits = octets as u128 * 8 * NS_PER_S as u128;
        let takes = i64::try_from(bits / u128::from(rate.bits_per_s.max(1))).unwrap_or(LONGEST);
        self.free_at = begin.saturating_add(takes);
        Some(self.free_at)
    }

    /// Whether a packet is lost in the present state; then the state may turn.
    fn loses(&mut self, hash: u64, loss: Option<Loss>) -> bool {
        let Some(Loss::Bursts { to_bad, to_good, in_bad, in_good }) = loss else { return false };
        let at = self.packets.wrapping_mul(DRAWS);
        self.packets = self.packets.wrapping_add(1);
        let (chance, turn) = if self.is_bad { (in_bad, to_good) } else { (in_good, to_bad) };
        self.is_bad ^= unit(draw(hash, at.wrapping_add(1))) < turn;
        unit(draw(hash, at)) < chance
    }
}

impl Distribution {
    /// A time in nanoseconds, from minus to plus [`LONGEST`], made of two draws.
    pub fn sample(&self, first: u64, second: u64) -> i64 {
        let ns = match *self {
            Self::Normal(mean, deviation) => normal(first, second).mul_add(deviation, mean),
            Self::Uniform(least, most) => unit(first).mul_add(most - least, least),
            Self::LogNormal(median, sigma) => median * (normal(first, second) * sigma).exp(),
            Self::Pareto(least, shape) => least * unit(first).powf(-1.0 / shape),
        };
        ns.clamp(-LONGEST as f64, LONGEST as f64).round() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn link(rtt: &str, jitter: Option<&str>, loss: Option<&str>, rate: Option<&str>) -> Link {
        let spec = LinkSpec {
            rtt: rtt.parse().unwrap(),
            jitter: jitter.map(|text| text.parse().unwrap()),
            loss: loss.map(|text| text.parse().unwrap()),
            rate: rate.map(|text| text.parse().unwrap()),
        };
        Link::new(spec, 7)
    }

    fn packet(client: u32, number: u64) -> Crossing {
        let line = std::net::Ipv4Addr::from_bits(client).into();
        Crossing { now: 0, line, up: true, length: 1_250, flow: subkey(9, client.into()), number }
    }

    #[test]
    fn both_ways_add_up_to_the_round_trip_time() {
        for rtt in ["20ms", "3ns", "normal:20ms,5ms"] {
            let link = link(rtt, None, None, None);
            let line = packet(5, 0).line;
            assert_eq!(link.one_way(line, true) + link.one_way(line, false), link.rtt(line), "{rtt}");
        }
    }

    #[test]
    fn a_client_keeps_its_round_trip_time_and_clients_follow_the_distribution() {
        let sorted = |spec: &str| {
            let link = link(spec, None, None, None);
            let mut rtts: Vec<i64> = (0..20_000).map(|client| link.rtt(packet(client, 0).line)).collect();
            assert!((0..100).all(|client| link.rtt(packet(client, 0).line) == rtts[client as usize]));
            rtts.sort_unstable();
            rtts
        };
        let near = |rtts: &[i64], expected: &[(usize, f64)]| {
            for &(rank, ms) in expected {
                assert!((rtts[rank] as f64 / MS as f64 - ms).abs() < ms * 0.04, "{rank} {ms} {}", rtts[rank]);
            }
        };
        // Quantiles of the distributions as their definitions give them.
        near(&sorted("normal:20ms,2ms"), &[(10_000, 20.0), (16_827, 22.0)]);
        near(&sorted("uniform:10ms,30ms"), &[(0, 10.0), (5_000, 15.0), (19_999, 30.0)]);
        near(&sorted("lognormal:20ms,0.5"), &[(10_000, 20.0), (16_827, 20.0 * 0.5_f64.exp())]);
        near(&sorted("pareto:10ms,2"), &[(0, 10.0), (15_000, 20.0)]);
        assert!(sorted("normal:1ms,5ms")[0] == 0 && *sorted("pareto:10s,0.1").last().unwrap() == LONGEST);
    }

    #[test]
    fn loss_comes_as_often_as_asked_for() {
        for (loss, expected) in [
            ("10%", 0.10),
            ("ge:1%,9%", 0.10),
            ("ge:10%,40%,50%,5%", 0.2 * 0.5 + 0.8 * 0.05),
            ("0", 0.0),
            ("100%", 1.0),
        ] {
            let mut link = link("0", None, Some(loss), None);
            let lost =
                (0..200_000).filter(|&n| link.cross(&packet((n % 100) as u32, n / 100)) == Passage::Lost).count();
            assert!((lost as f64 / 200_000.0 - expected).abs() < 0.01, "{loss}: {lost}");
        }
    }

    #[test]
    fn bursts_are_as_long_as_asked_for() {
        let mut link = link("0", None, Some("ge:1%,10%"), None);
        let fates: Vec<bool> = (0..200_000).map(|n| link.cross(&packet(1, n)) == Passage::Lost).collect();
        let bursts = fates.windows(2).filter(|pair| pair[1] && !pair[0]).count();
        let mean = fates.iter().filter(|&&lost| lost).count() as f64 / bursts as f64;
        assert!((9.0..11.0).contains(&mean), "{mean}");
    }

    #[test]
    fn the_fate_of_a_flow_does_not_hang_on_others() {
        let fates = |others: u32| {
            let mut link = link("20ms", Some("5ms"), Some("ge:5%,20%"), None);
            let mut fates = Vec::new();
            for number in 0..200 {
                let crossed = (0..others).map(|other| link.cross(&packet(100 + other, number)));
                assert_eq!(crossed.count(), others as usize);
                fates.push(link.cross(&packet(1, number)));
            }
            fates
        };
        assert_eq!(fates(0), fates(7));
    }

    #[test]
    fn a_rate_spaces_packets_and_drops_what_would_wait_too_long() {
        // 1,250 octets take 1 ms at 10 Mbit/s; with 3 ms of queue, the packet being sent and three more find a place.
        let mut link = link("2ms", None, None, Some("10Mbit,3ms"));
        let fates: Vec<Passage> = (0..6).map(|number| link.cross(&packet(1, number))).collect();
        let at = |ms: i64| Passage::At(ms * MS);
        assert_eq!(fates, [at(2), at(3), at(4), at(5), Passage::QueueFull, Passage::QueueFull]);
        assert_eq!(link.cross(&packet(2, 0)), at(2));
        assert_eq!(link.cross(&Crossing { now: 4 * MS, ..packet(1, 6) }), at(6));
    }

    #[test]
    fn jitter_moves_packets_around_the_delay_and_never_before_now() {
        let mut link = link("20ms", Some("2ms"), None, None);
        let times: Vec<i64> = (0..1_000)
            .map(|number| match link.cross(&packet(1, number)) {
                Passage::At(time) => time,
                other => panic!("{other:?}"),
            })
            .collect();
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!((8 * MS..8_100_000).contains(least) && (11_900_000..=12 * MS).contains(most), "{least} {most}");
        let mut short = self::link("1ms", Some("5ms"), None, None);
        assert!((0..1_000).all(|number| matches!(short.cross(&packet(1, number)), Passage::At(0..))));
    }
}
