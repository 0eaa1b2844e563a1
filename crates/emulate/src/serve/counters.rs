//! A worker's query counters: by zone, level of the hierarchy, response code and transport.

use std::collections::BTreeMap;

use domain::base::iana::OptRcode;
use ldplayer_core::name;
use ldplayer_core::transport::Transport;
use ldplayer_net::ahead;

/// Response codes with a counter (RFC 6895 §2.3); all others share the last one.
const RCODES: usize = 25;
/// Response codes with a counter per zone (RFC 1035 §4.1.1).
const OF_ZONE: usize = 7;
/// Names of the levels, by number of labels of the answering zone's apex.
pub const LEVELS: [&str; 5] = ["root", "tld", "second", "deeper", "none"];
/// The level of the zone with this apex, as a place in [`LEVELS`].
pub fn level_of(apex: &[u8]) -> usize {
    name::labels(apex).count().min(3)
}

/// The level of queries without a zone.
const NO_ZONE: usize = 4;

/// Number of transports.
const TRANSPORTS: usize = Transport::ALL.len();

/// The counters of one worker.
#[derive(Clone, Debug)]
pub struct Counters {
    /// By level, transport and response code.
    answered: [[[u64; RCODES]; TRANSPORTS]; LEVELS.len()],
    /// Messages that got no response: responses, or too short for a query.
    ignored: u64,
    /// Queries that a fault left without a response.
    dropped: u64,
    /// By zone and response code.
    zones: Vec<[u64; OF_ZONE]>,
    /// The level of each zone.
    levels: Vec<u8>,
}

impl Counters {
    /// Zero counters for zones with these apexes.
    pub fn new<'a>(apexes: impl Iterator<Item = &'a [u8]>) -> Self {
        let levels: Vec<u8> = apexes.map(|apex| level_of(apex) as u8).collect();
        let zones = vec![[0; OF_ZONE]; levels.len()];
        Self { answered: [[[0; RCODES]; TRANSPORTS]; LEVELS.len()], ignored: 0, dropped: 0, zones, levels }
    }

    /// Counts a query answered by a zone, or by none.
    #[inline]
    pub fn count(&mut self, zone: Option<u32>, transport: Transport, rcode: u16) {
        let rcode = usize::from(rcode);
        let level = match zone.and_then(|zone| self.zones.get_mut(zone as usize).zip(self.levels.get(zone as usize))) {
            Some((counts, &level)) => {
                counts[rcode.min(OF_ZONE - 1)] += 1;
                usize::from(level)
            }
            None => NO_ZONE,
        };
        self.answered[level][transport as usize][rcode.min(RCODES - 1)] += 1;
    }

    /// Prefetches a zone's counters into the processor's caches.
    #[inline]
    pub fn fetch(&self, zone: u32) {
        self.zones.get(zone as usize).into_iter().for_each(|counts| ahead::fetch(counts, usize::MAX));
    }

    /// Counts a message that got no response.
    pub const fn count_ignored(&mut self) {
        self.ignored += 1;
    }

    /// Counts a query that a fault left without a response.
    pub const fn count_dropped(&mut self) {
        self.dropped += 1;
    }
}

/// Sums over workers and over reloads.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    answered: [[[u64; RCODES]; TRANSPORTS]; LEVELS.len()],
    /// Messages without a response.
    pub ignored: u64,
    /// Queries that faults left without a response.
    pub dropped: u64,
    zones: BTreeMap<Box<[u8]>, [u64; OF_ZONE]>,
}

impl Totals {
    /// Adds what a worker has counted for zones with these apexes.
    pub fn add<'a>(&mut self, counters: &Counters, apexes: impl Iterator<Item = &'a [u8]>) {
        let more = counters.answered.as_flattened().as_flattened();
        for (sum, more) in self.answered.as_flattened_mut().as_flattened_mut().iter_mut().zip(more) {
            *sum += more;
        }
        self.ignored += counters.ignored;
        self.dropped += counters.dropped;
        for (apex, counts) in apexes.zip(&counters.zones) {
            // Includes zones that were never queried.
            let sums = self.zones.entry(apex.into()).or_default();
            sums.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more);
        }
    }

    /// Queries by response code, of one level (see [`LEVELS`]) or of all.
    pub fn rcodes(&self, level: Option<usize>) -> BTreeMap<String, u64> {
        let levels = self.answered.iter().enumerate().filter(|(at, _)| level.is_none_or(|level| level == *at));
        let mut sums = [0; RCODES];
        for counts in levels.flat_map(|(_, transports)| transports) {
            sums.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more);
        }
        named(&sums)
    }

    /// Queries by transport.
    pub fn by_transport(&self, transport: Transport) -> u64 {
        self.answered.iter().map(|counts| counts[transport as usize].iter().sum::<u64>()).sum()
    }

    /// All answered queries, including refusals.
    pub fn answered(&self) -> u64 {
        self.answered.as_flattened().as_flattened().iter().sum()
    }

    /// The apexes of zones, with their queries by response code.
    pub fn zones(&self) -> impl Iterator<Item = (&[u8], BTreeMap<String, u64>)> {
        self.zones.iter().map(|(apex, counts)| (&**apex, named(counts)))
    }
}

/// Nonzero counts by response code name; the last one is for all other codes.
fn named(counts: &[u64]) -> BTreeMap<String, u64> {
    let name = |at: usize| match u16::try_from(at) {
        Ok(rcode) if at + 1 < counts.len() => rcode_name(rcode),
        _ => "other".to_owned(),
    };
    counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, &count)| (name(at), count)).collect()
}

/// The mnemonic of an extended response code (RFC 6891 §6.1.3).
pub fn rcode_name(rcode: u16) -> String {
    OptRcode::masked_from_int(rcode).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const APEXES: [&[u8]; 3] = [b"\0", b"\x03com\0", b"\x01a\x01b\x01c\x01d\0"];

    #[test]
    fn sums_are_by_zone_level_code_and_transport_and_outlive_a_reload() {
        let mut first = Counters::new(APEXES.into_iter());
        first.count(Some(0), Transport::Udp, 0);
        first.count(Some(0), Transport::Tcp, 3);
        first.count(Some(2), Transport::Udp, 16);
        first.count(None, Transport::Udp, 5);
        first.count_ignored();
        first.count_dropped();
        // Another worker after a reload, with other zones: the second is gone.
        let mut second = Counters::new([APEXES[0], APEXES[2]].into_iter());
        second.count(Some(1), Transport::Udp, 0);
        second.count(Some(0), Transport::Udp, 4_000);
        let mut totals = Totals::default();
        totals.add(&first, APEXES.into_iter());
        totals.add(&second, [APEXES[0], APEXES[2]].into_iter());
        let rcodes = |level| format!("{:?}", totals.rcodes(level));
        assert_eq!(rcodes(Some(0)), r#"{"NOERROR": 1, "NXDOMAIN": 1, "other": 1}"#);
        assert_eq!(rcodes(Some(3)), r#"{"BADVERS": 1, "NOERROR": 1}"#);
        assert_eq!(rcodes(Some(NO_ZONE)), r#"{"REFUSED": 1}"#);
        assert_eq!(rcodes(None), r#"{"BADVERS": 1, "NOERROR": 2, "NXDOMAIN": 1, "REFUSED": 1, "other": 1}"#);
        assert_eq!(
            (
                totals.by_transport(Transport::Udp),
                totals.by_transport(Transport::Tcp),
                totals.answered(),
                totals.ignored
            ),
            (5, 1, 6, 1)
        );
        assert_eq!(totals.dropped, 1);
        let zones: Vec<_> = totals.zones().map(|(apex, counts)| (apex.len(), format!("{counts:?}"))).collect();
        assert_eq!(zones[0], (1, r#"{"NOERROR": 1, "NXDOMAIN": 1, "other": 1}"#.to_owned()));
        assert_eq!((zones.len(), zones.iter().filter(|(_, counts)| counts == "{}").count()), (3, 1));
    }
}
