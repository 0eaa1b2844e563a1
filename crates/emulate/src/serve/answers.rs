//! Which versions of record sets a server answers with, and the clock of the recording that they are from.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ldplayer_core::Cidr;
use ldplayer_core::time::Span;
use ldplayer_zone::Pick;

/// Which versions answers have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// Those of the zone files.
    #[default]
    Fixed,
    /// Those that held at this moment of the recording.
    Recorded,
    /// One after the other, answer by answer.
    Rotate,
    /// Drawn by how often each was seen.
    Weighted,
    /// Those that the client's subnet was given, or the asker.
    BySubnet,
    /// All sets go on to the next version after so many nanoseconds.
    Changing(i64),
}

/// The words for them, but for the last one.
const WORDS: [(&str, Answers); 5] = [
    ("fixed", Answers::Fixed),
    ("recorded", Answers::Recorded),
    ("rotate", Answers::Rotate),
    ("weighted", Answers::Weighted),
    ("by-subnet", Answers::BySubnet),
];
const CHANGING: &str = "changing:";

impl FromStr for Answers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, answers)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(*answers);
        }
        let interval = text.strip_prefix(CHANGING).and_then(|rest| Span::with_unit(rest).ok());
        match interval.map(|span| span.ns()).filter(|&ns| ns > 0) {
            Some(ns) => Ok(Self::Changing(ns)),
            None => {
                Err("expected fixed, recorded, rotate, weighted, by-subnet, or changing:INTERVAL as changing:10s"
                    .into())
            }
        }
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, WORDS.iter().find(|(_, answers)| answers == self)) {
            (Self::Changing(ns), _) => write!(f, "{CHANGING}{}", Span::from_ns(*ns)),
            (_, word) => f.write_str(word.map_or("", |(word, _)| word)),
        }
    }
}

/// How the recording goes on while it is served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// A moment in nanoseconds of CLOCK_MONOTONIC.
    pub moment_ns: i64,
    /// What the recording is at then: nanoseconds since its start.
    pub recorded_ns: i64,
    /// How many seconds of it go by in one.
    pub speed: f64,
}

/// The clock of a recording. Until it is set, the recording stands at its start. It is set before queries are expected: one that comes at that
/// very moment may see a part of the old setting.
#[derive(Debug, Default)]
pub struct Clock {
    moment_ns: AtomicI64,
    recorded_ns: AtomicI64,
    /// The bits of the speed.
    speed: AtomicU64,
}

impl Clock {
    /// Sets it.
    pub fn set(&self, course: Course) {
        self.moment_ns.store(course.moment_ns, Ordering::Relaxed);
        self.recorded_ns.store(course.recorded_ns, Ordering::Relaxed);
        self.speed.store(course.speed.to_bits(), Ordering::Relaxed);
    }

    /// What the recording is at, in nanoseconds since its start; `now_ns` is of CLOCK_MONOTONIC.
    pub fn at(&self, now_ns: i64) -> i64 {
        let elapsed = now_ns.saturating_sub(self.moment_ns.load(Ordering::Relaxed));
        let speed = f64::from_bits(self.speed.load(Ordering::Relaxed));
        self.recorded_ns.load(Ordering::Relaxed).saturating_add((elapsed as f64 * speed) as i64)
    }
}

/// Says for each answer which versions it takes.
#[derive(Clone, Debug)]
pub struct Chooser {
    /// Which versions.
    pub answers: Answers,
    /// The seed for random choices; with `rotate`, the number of the first version.
    pub seed: u64,
    /// The clock of the recording.
    pub clock: Arc<Clock>,
    /// When the server began, in nanoseconds of CLOCK_MONOTONIC.
    pub begun_ns: i64,
}

impl Chooser {
    /// The versions for an answer at this moment of CLOCK_MONOTONIC.
    #[inline]
    pub fn pick(&self, now_ns: i64, peer: IpAddr) -> Pick {
        match self.answers {
            Answers::Fixed => Pick::Fixed,
            Answers::Recorded => Pick::Recorded(self.clock.at(now_ns)),
            Answers::Rotate => Pick::Rotate(self.seed),
            Answers::Weighted => Pick::Weighted(self.seed),
            Answers::BySubnet => Pick::BySubnet(Cidr::new(peer, u8::MAX)),
            Answers::Changing(interval) => Pick::Changing(((now_ns - self.begun_ns).max(0) / interval) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn words_are_read_back() {
        for text in ["fixed", "recorded", "rotate", "weighted", "by-subnet", "changing:10s", "changing:1.5s"] {
            assert_eq!(text.parse::<Answers>().unwrap().to_string(), text);
        }
        for text in ["", "random", "changing", "changing:", "changing:0s", "changing:10", "changing:-1s"] {
            assert!(text.parse::<Answers>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_recording_stands_at_its_start_until_its_clock_is_set() {
        let clock = Clock::default();
        assert_eq!(clock.at(77 * S), 0);
        clock.set(Course { moment_ns: 100 * S, recorded_ns: 5 * S, speed: 2.0 });
        assert_eq!([clock.at(100 * S), clock.at(103 * S), clock.at(99 * S)], [5 * S, 11 * S, 3 * S]);
    }

    #[test]
    fn steps_are_counted_from_the_start_of_the_server() {
        let chooser = Chooser { answers: Answers::Changing(10 * S), seed: 0, clock: Arc::default(), begun_ns: 100 * S };
        let step = |now| chooser.pick(now, [192, 0, 2, 1].into());
        assert_eq!(
            [step(99 * S), step(109 * S), step(130 * S)],
            [Pick::Changing(0), Pick::Changing(0), Pick::Changing(3)]
        );
    }
}
