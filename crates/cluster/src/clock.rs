//! The offset between an agent's clock and the controller's, from an exchange of timestamps; the fastest exchanges count.
//!
//! Both clocks are CLOCK_MONOTONIC, which steps of the wall clock do not affect, so that a start time on one can be converted to the
//! other. As in NTP (RFC 5905, section 8), half of the round-trip time bounds the error, however asymmetric the path.

use crate::message::Wall;

/// Exchanges per measurement: the fastest of them comes close to the minimum round trip.
pub const EXCHANGES: usize = 32;

/// One exchange: a request of the controller and the agent's answer, each timestamped by both. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the controller sent the request, on its clock.
    pub asked: i64,
    /// When the agent received it, on the agent's clock.
    pub received: i64,
    /// When the agent answered, on the agent's clock.
    pub answered: i64,
    /// When the controller received the answer, on its clock.
    pub heard: i64,
}

impl Exchange {
    /// The round-trip time, without the agent's processing time.
    pub const fn round_trip(&self) -> i64 {
        (self.heard - self.asked) - (self.answered - self.received)
    }

    /// The agent's clock minus the controller's, assuming a symmetric path.
    const fn offset(&self) -> i64 {
        ((self.received - self.asked) + (self.answered - self.heard)) / 2
    }
}

/// The agent's clock minus the controller's, at one moment. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Offset {
    /// When it was measured, on the controller's clock.
    pub at: i64,
    /// The difference.
    pub offset: i64,
    /// The maximum error: half of the round-trip time.
    pub error: i64,
}

impl Offset {
    /// The offset by the fastest exchange; `None` without a valid exchange.
    pub fn of(exchanges: &[Exchange]) -> Option<Self> {
        // A negative round trip means that the timestamps are not of these clocks.
        let possible = exchanges.iter().filter(|exchange| exchange.round_trip() >= 0);
        let best = possible.min_by_key(|exchange| exchange.round_trip())?;
        Some(Self { at: best.heard, offset: best.offset(), error: best.round_trip().div_euclid(2) + 1 })
    }

    /// The offset by the wall clocks of both hosts, where their synchronisation reports a bound of the error: better
    /// than an exchange on long paths.
    pub fn by_wall(own: &Wall, agent: &Wall) -> Option<Self> {
        let error = own.error_ns? + agent.error_ns?;
        let offset = (agent.monotonic_ns - agent.realtime_ns) - (own.monotonic_ns - own.realtime_ns);
        Some(Self { at: own.monotonic_ns, offset, error })
    }

    /// The more accurate of two measurements.
    pub fn better(self, other: Option<Self>) -> Self {
        other.filter(|other| other.error < self.error).unwrap_or(self)
    }

    /// Converts a time of the controller's clock to the agent's.
    pub const fn on_agent(&self, controller: i64) -> i64 {
        controller + self.offset
    }

    /// Converts a time of the agent's clock to the controller's.
    pub const fn on_controller(&self, agent: i64) -> i64 {
        agent - self.offset
    }
}

/// The accuracy of an agent's start, from measurements before, during and after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Skew {
    /// The maximum error of its start, by the measurement before the run.
    pub start_ns: i64,
    /// The maximum drift of its clock, by a later measurement, which has an error of its own.
    pub drift_ns: i64,
    /// The error of that measurement plus that of the one before the run.
    pub drift_error_ns: i64,
    /// The number of measurements.
    pub measured: usize,
}

impl Skew {
    /// From measurements in time order, the first before the run; the most informative of the others counts.
    pub fn of(measured: &[Offset]) -> Option<Self> {
        let (first, others) = measured.split_first()?;
        let away = |other: &&Offset| (other.offset - first.offset).abs() + other.error;
        let farthest = others.iter().max_by_key(away);
        Some(Self {
            start_ns: first.error,
            drift_ns: farthest.map_or(0, |farthest| farthest.offset - first.offset),
            drift_error_ns: farthest.map_or(0, |farthest| first.error + farthest.error),
            measured: measured.len(),
        })
    }

    /// The maximum error of a time comparison between this agent and the controller at any moment between the measurements.
    pub const fn most_ns(&self) -> i64 {
        self.start_ns + self.drift_ns.abs() + self.drift_error_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An exchange with an agent whose clock is `offset` ahead, whose ways take so long.
    fn exchange(asked: i64, offset: i64, there: i64, thinking: i64, back: i64) -> Exchange {
        let received = asked + there + offset;
        let answered = received + thinking;
        Exchange { asked, received, answered, heard: answered - offset + back }
    }

    #[test]
    fn walls_that_are_kept_well_are_better_than_a_long_way() {
        let wall = |monotonic_ns, realtime_ns, error_ns| Wall { monotonic_ns, realtime_ns, error_ns };
        let (own, agent) = (wall(100, 5_000, Some(7)), wall(950, 5_100, Some(9)));
        let by_wall = Offset::by_wall(&own, &agent).unwrap();
        assert_eq!((by_wall.offset, by_wall.error), (750, 16));
        assert_eq!(Offset::by_wall(&own, &wall(950, 5_100, None)), None, "nobody keeps it");
        let by_exchange = |error| Offset { at: 0, offset: 740, error };
        assert_eq!(by_exchange(20).better(Some(by_wall)), by_wall);
        assert_eq!(by_exchange(10).better(Some(by_wall)), by_exchange(10));
        assert_eq!(by_exchange(20).better(None), by_exchange(20));
    }

    #[test]
    fn equal_ways_tell_the_offset() {
        let found = Offset::of(&[exchange(1_000, 5_000_000, 100, 70, 100)]).unwrap();
        assert_eq!((found.offset, found.error), (5_000_000, 101));
        assert_eq!(found.on_agent(7), 5_000_007);
        assert_eq!(found.on_controller(found.on_agent(7)), 7);
    }

    #[test]
    fn the_shortest_round_trip_counts() {
        let exchanges =
            [exchange(0, -9, 5_000, 1, 90), exchange(9_000, -9, 40, 1, 42), exchange(20_000, -9, 41, 1, 600)];
        let found = Offset::of(&exchanges).unwrap();
        assert_eq!((found.offset, found.error), (-10, 42));
    }

    #[test]
    fn stamps_that_cannot_be_tell_nothing() {
        assert_eq!(Offset::of(&[]), None);
        assert_eq!(Offset::of(&[Exchange { asked: 10, received: 0, answered: 100, heard: 20 }]), None);
    }

    #[test]
    fn a_clock_that_drifts_is_told() {
        let at = |at, offset| Offset { at, offset, error: 50 };
        let skew = Skew::of(&[at(0, 1_000), at(5, 1_200), at(9, 1_900)]).unwrap();
        assert_eq!(skew, Skew { start_ns: 50, drift_ns: 900, drift_error_ns: 100, measured: 3 });
        assert_eq!(skew.most_ns(), 1_050);
        assert_eq!(Skew::of(&[at(0, 1_000)]).unwrap().most_ns(), 50, "one measurement tells no drift");
    }

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_error(
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            ways in proptest::collection::vec((0_i64..50_000_000, 0_i64..1_000_000, 0_i64..50_000_000), 1..40),
        ) {
            let exchanges: Vec<_> = ways.iter().map(|&(there, thinking, back)| exchange(0, offset, there, thinking, back)).collect();
            let found = Offset::of(&exchanges).unwrap();
            prop_assert!((found.offset - offset).abs() <= found.error, "{found:?}");
        }
    }
}
