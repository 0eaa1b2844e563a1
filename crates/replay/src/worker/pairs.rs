//! Sends queries to two servers at the same time and compares their answers.

use std::net::SocketAddr;

use hashbrown::HashMap;
use ldplayer_core::{Expected, Outcome, Pair, Query, RunTime, Status};

use super::transports::Transports;
use crate::response_sink::Half;
use crate::route::{Route, Router};
use crate::targets::{Ports, Targets};

/// The reference server, whose answers are the expected ones.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Where it is.
    pub targets: Targets,
    /// Its port for DNS over TLS and QUIC.
    pub tls_port: u16,
    /// Its port for DNS over HTTPS.
    pub doh_port: u16,
}

impl Reference {
    /// Its ports for encrypted transports.
    pub const fn ports(&self) -> Ports {
        Ports { tls: self.tls_port, doh: self.doh_port }
    }
}

/// Counters of queries to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceCounts {
    /// Queries.
    pub asked: u64,
    /// Queries that it did not answer in time, or that could not be sent.
    pub unanswered: u64,
}

/// Pairs in flight.
pub struct Pairs {
    router: Router,
    servers: Vec<SocketAddr>,
    next: u32,
    /// The half of each pair that ended first.
    waiting: HashMap<u32, Half, foldhash::fast::FixedState>,
    counts: ReferenceCounts,
}

impl Pairs {
    /// No pairs, with the routes to the reference server.
    pub fn new(router: Router, reference: &Reference) -> Self {
        let servers = reference.targets.named().to_vec();
        Self { router, servers, next: 0, waiting: HashMap::default(), counts: ReferenceCounts::default() }
    }

    /// Hands a query to its machine, and the same one for the reference server.
    pub fn ask(&mut self, now: RunTime, query: Query, route: Route, transports: &mut Transports) {
        // Clients are numbered in the order of their first queries, in the same way for both servers.
        let Ok(other) = self.router.route(&query) else { return transports.handle_query(now, query, route) };
        let number = self.next;
        self.next = number.wrapping_add(1);
        let of_pair = |is_reference| Query { expected: Expected::Pair(Pair { number, is_reference }), ..query.clone() };
        transports.handle_query(now, of_pair(false), route);
        transports.handle_query(now, of_pair(true), other);
    }

    /// Makes rows of the pairs that have ended.
    pub fn pair_up(&mut self, transports: &mut Transports) {
        let mut rows = Vec::new();
        for sink in transports.response_sinks() {
            rows.extend(sink.halves.drain(..).filter_map(|half| self.take(half)));
        }
        for outcomes in transports.outcomes() {
            outcomes.retain(|row| !self.is_foreign(row));
        }
        transports.udp.outcomes().append(&mut rows);
    }

    /// Counters of queries to the reference server.
    pub const fn counts(&self) -> ReferenceCounts {
        self.counts
    }

    /// Takes an ended half; returns the row of the query once both have ended.
    fn take(&mut self, half: Half) -> Option<Outcome> {
        if half.pair.is_reference {
            self.counts.asked += 1;
            self.counts.unanswered += u64::from(half.row.status != Status::Answered);
        }
        let Some(first) = self.waiting.remove(&half.pair.number) else {
            self.waiting.insert(half.pair.number, half);
            return None;
        };
        let (reference, own) = if half.pair.is_reference { (half, first) } else { (first, half) };
        let expected = reference.found.filter(|_| reference.row.status == Status::Answered);
        Some(match expected {
            Some(expected) => own.row.judged(own.found.map(|found| expected.judge(found))),
            None => own.row,
        })
    }

    /// Gives new clients no socket beyond the first `most` to reference servers of a family.
    pub const fn limit(&mut self, v6: bool, most: u32) {
        self.router.limit(v6, most);
    }

    /// Whether a row is of an unexpected response of the reference server.
    fn is_foreign(&self, row: &Outcome) -> bool {
        row.status == Status::Stray && self.servers.contains(&row.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Sources;
    use crate::test::{query, response};
    use ldplayer_core::{Answer, Differs, Fingerprint, Ignore, Message, Reason};

    fn pairs() -> Pairs {
        let targets = Targets::Fixed(vec!["192.0.2.9:53".parse().unwrap()]);
        let reference = Reference { targets: targets.clone(), tls_port: 853, doh_port: 443 };
        Pairs::new(Router::new(Sources::Ports, &targets, Ports { tls: 853, doh: 443 }, 9), &reference)
    }

    fn half(number: u32, is_reference: bool, rcode: Option<u8>) -> Half {
        let query = query(7, 1);
        let found = rcode.map(|rcode| {
            let octets = response(&query.wire, rcode);
            Fingerprint::of(&Message::new(&octets).unwrap(), &Ignore::default())
        });
        let status = if rcode.is_some() { Status::Answered } else { Status::Timeout };
        let row = Outcome { status, submitted: Some(RunTime(2)), ..Outcome::unfinished(&query) };
        Half { pair: Pair { number, is_reference }, row, found }
    }

    /// The row of a pair with these response codes, whichever half ends first.
    fn of(own: Option<u8>, reference: Option<u8>) -> (Option<Answer>, Differs, ReferenceCounts) {
        let [a, b] = [false, true].map(|is_reference_first| {
            let mut pairs = pairs();
            let mut halves = [half(3, false, own), half(3, true, reference)];
            if is_reference_first {
                halves.reverse();
            }
            let [first, second] = halves;
            assert!(pairs.take(first).is_none());
            let row = pairs.take(second).unwrap();
            assert!(pairs.waiting.is_empty());
            (row.answer, row.differs, pairs.counts)
        });
        assert_eq!(a, b);
        a
    }

    #[test]
    fn a_row_is_judged_by_the_answer_of_the_other_server() {
        let asked = ReferenceCounts { asked: 1, unanswered: 0 };
        assert_eq!(of(Some(0), Some(0)), (Some(Answer::Match), Differs::NOTHING, asked));
        assert_eq!(of(Some(2), Some(0)), (Some(Answer::Worse), Differs::RCODE, asked));
        assert_eq!(of(None, Some(0)), (Some(Answer::Worse), Differs::UNANSWERED, asked));
    }

    #[test]
    fn what_the_other_server_did_not_answer_is_no_match_and_is_told() {
        let lost = ReferenceCounts { asked: 1, unanswered: 1 };
        assert_eq!(of(Some(0), None), (None, Differs::NOTHING, lost));
        assert_eq!(of(None, None), (None, Differs::NOTHING, lost));
    }

    #[test]
    fn pairs_do_not_mix_and_strays_of_the_other_server_are_no_rows() {
        let mut pairs = pairs();
        assert!(pairs.take(half(1, false, Some(0))).is_none() && pairs.take(half(2, true, Some(2))).is_none());
        assert_eq!(pairs.take(half(1, true, Some(0))).unwrap().answer, Some(Answer::Match));
        assert_eq!(pairs.take(half(2, false, Some(2))).unwrap().answer, Some(Answer::Match));
        let stray = |server: &str| Outcome {
            server: server.parse().unwrap(),
            status: Status::Stray,
            reason: Some(Reason::Duplicate),
            ..Outcome::EMPTY
        };
        assert!(pairs.is_foreign(&stray("192.0.2.9:53")) && !pairs.is_foreign(&stray("192.0.2.8:53")));
    }
}
