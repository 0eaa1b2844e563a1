//! Lookups of clients of each model before machines that send at once.

use super::*;
use crate::test::query;
use ldplayer_core::client::FORMERR;
use ldplayer_core::message::QueryParts;
use ldplayer_core::{Expected, Transport};
use proptest::prelude::*;

const MS: i64 = 1_000_000;
const S: i64 = 1_000 * MS;

/// Status, code, attempts, milliseconds, and whether the client gave up.
type Ended = (Status, Option<u16>, u8, Option<i64>, bool);

/// Lookups of clients of one model, and machines that send at once.
struct Sim {
    lookups: Lookups,
    /// Attempts on their way, with the server.
    sent: Vec<(Attempt, usize, RunTime)>,
}

impl Sim {
    fn new(model: &str, servers: usize) -> Self {
        let policy = Policy { client: model.parse().unwrap(), ..Policy::default() };
        let lookups = Lookups::new(&[policy], &Arc::default()).unwrap();
        let mut sim = Self { lookups, sent: Vec::new() };
        sim.lookups.handle_query(RunTime(0), query(7, 0), servers);
        sim.send(0);
        sim
    }

    fn send(&mut self, now: i64) {
        while let Some(Ask { query, server }) = self.lookups.poll_ask() {
            let Expected::Attempt(attempt) = query.expected else { panic!("{query:?}") };
            self.lookups.handle_event(RunTime(now), AttemptEvent::Sent(attempt, RunTime(now)));
            self.sent.push((attempt, server, RunTime(now)));
        }
    }

    /// An attempt ends.
    fn end(&mut self, number: usize, now: i64, status: Status, rcode: Option<u16>) {
        let (attempt, _, submitted) = self.sent[number];
        let answered = rcode.map(|_| RunTime(now));
        let row = Outcome { submitted: Some(submitted), answered, status, rcode, ..Outcome::unfinished(&query(7, 0)) };
        let end = AttemptEnd { attempt, row, found: None };
        self.lookups.handle_event(RunTime(now), AttemptEvent::Ended(end));
        self.send(now);
    }

    fn answer(&mut self, number: usize, now: i64, rcode: u16) {
        self.end(number, now, Status::Answered, Some(rcode));
    }

    /// Lets time pass, timeout by timeout.
    fn run_until(&mut self, until: i64) {
        while let Some(at) = self.lookups.poll_timeout().filter(|at| at.0 <= until) {
            self.lookups.handle_timeout(at);
            self.send(at.0);
        }
    }

    /// Server and time in milliseconds of each attempt.
    fn asked(&self) -> String {
        let asked = self.sent.iter().map(|(_, server, at)| format!("{server}@{}", at.0 / MS));
        asked.collect::<Vec<_>>().join(" ")
    }

    /// How the lookup ended, once it has.
    fn row(&mut self) -> Option<Ended> {
        let mut rows: Vec<Outcome> = self.lookups.outcomes().drain(..).filter(|row| row.attempt.is_none()).collect();
        assert!(rows.len() <= 1, "{rows:?}");
        let row = rows.pop()?;
        assert_eq!((row.index, row.submitted), (7, Some(RunTime(0))));
        let took = row.answered.map(|answered| (answered - RunTime(0)) / MS);
        Some((row.status, row.rcode, row.attempts, took, row.gave_up))
    }
}

/// The model of musl went on at once after ICMP, which its one socket for all servers does not hear of.
#[test]
fn musl_does_not_hear_that_a_port_is_closed() {
    let refused = |model: &str| {
        let mut sim = Sim::new(model, 1);
        sim.end(0, MS, Status::Refused, None);
        sim.run_until(S);
        (sim.asked(), sim.lookups.open())
    };
    assert_eq!(refused("musl"), ("0@0".to_owned(), 1));
    assert_eq!(refused("glibc"), ("0@0 0@1".to_owned(), 1));
}

#[test]
fn silence_leads_through_the_list_of_servers_and_to_a_timeout() {
    let mut glibc = Sim::new("glibc", 2);
    glibc.run_until(60 * S);
    assert_eq!(glibc.asked(), "0@0 1@5000 0@10000 1@15000");
    assert_eq!(glibc.row(), Some((Status::Timeout, None, 4, None, true)));
    assert_eq!((glibc.lookups.open(), glibc.lookups.counts().timed_out, glibc.lookups.counts().sent), (0, 1, 1));
}

#[test]
fn a_failure_leads_to_the_next_server_at_once_and_is_the_answer_where_nothing_better_comes() {
    let mut glibc = Sim::new("glibc", 2);
    glibc.answer(0, 3 * MS, 2);
    assert_eq!(glibc.asked(), "0@0 1@3");
    glibc.answer(1, 9 * MS, 0);
    assert_eq!(glibc.row(), Some((Status::Answered, Some(0), 2, Some(9), false)));
    let mut alone = Sim::new("glibc", 1);
    [1, 2].into_iter().zip(0..).for_each(|(ms, number)| alone.answer(number, ms * MS, 5));
    assert_eq!(alone.row(), Some((Status::Answered, Some(5), 2, Some(2), true)));
    let mut refused = Sim::new("go", 1);
    [1, 2].into_iter().zip(0..).for_each(|(ms, number)| refused.end(number, ms * MS, Status::Refused, None));
    assert_eq!(refused.row(), Some((Status::Refused, None, 2, None, true)));
    assert_eq!(refused.lookups.counts().failed, 1);
}

#[test]
fn one_that_asks_all_servers_takes_the_first_answer_and_passes_over_refusals() {
    let mut musl = Sim::new("musl", 2);
    assert_eq!(musl.asked(), "0@0 1@0");
    musl.answer(1, MS, 5);
    musl.run_until(3 * S);
    assert_eq!(musl.asked(), "0@0 1@0 0@2500 1@2500");
    musl.answer(0, 3 * S, 3);
    assert_eq!(musl.row(), Some((Status::Answered, Some(3), 4, Some(3_000), false)), "late, but the same ID");
}

#[test]
fn a_server_failure_is_asked_again_twice_in_a_turn_by_musl() {
    let mut musl = Sim::new("musl", 1);
    (0..4).for_each(|number| {
        if number < musl.sent.len() {
            musl.answer(number, 4 * MS, 2)
        }
    });
    assert_eq!(musl.asked(), "0@0 0@4 0@4");
    musl.run_until(2_500 * MS);
    assert_eq!(musl.sent.len(), 4, "{}", musl.asked());
}

#[test]
fn an_answer_to_an_earlier_attempt_is_taken_only_by_those_that_still_listen() {
    let mut glibc = Sim::new("glibc", 1);
    glibc.run_until(5 * S);
    glibc.end(0, 5_100 * MS, Status::Late, Some(0));
    assert_eq!(glibc.row(), Some((Status::Answered, Some(0), 2, Some(5_100), false)));
    let mut go = Sim::new("go", 1);
    go.run_until(5 * S);
    go.end(0, 5_100 * MS, Status::Late, Some(0));
    assert_eq!(go.row(), None);
    go.answer(1, 5_200 * MS, 0);
    assert_eq!(go.row(), Some((Status::Answered, Some(0), 2, Some(5_200), false)));
}

/// The model of glibc took an answer at a port that glibc has closed.
#[test]
fn an_answer_at_a_port_that_was_closed_after_a_failure_is_not_heard() {
    let mut glibc = Sim::new("glibc", 2);
    glibc.run_until(5 * S);
    glibc.answer(1, 5_010 * MS, 2);
    assert_eq!(glibc.asked(), "0@0 1@5000 0@5010");
    glibc.end(0, 5_020 * MS, Status::Late, Some(0));
    assert_eq!(glibc.row(), None);
    glibc.answer(2, 5_030 * MS, 0);
    assert_eq!(glibc.row(), Some((Status::Answered, Some(0), 3, Some(5_030), false)));
}

/// The model of c-ares went back to a server that had failed.
#[test]
fn a_server_that_failed_is_left_out_by_ares() {
    let mut ares = Sim::new("c-ares", 3);
    ares.run_until(5 * S);
    ares.answer(1, 5 * S, 2);
    ares.run_until(60 * S);
    assert_eq!(ares.asked(), "0@0 1@5000 2@5000 0@10000 2@20000 0@30000 2@50000");
    let mut alone = Sim::new("c-ares", 1);
    (0..4).for_each(|number| alone.answer(number, MS, 5));
    assert_eq!(alone.asked(), "0@0 0@1 0@1 0@1");
    let mut all_fail = Sim::new("c-ares", 2);
    (0..2).for_each(|number| all_fail.answer(number, MS, 2));
    assert_eq!(all_fail.row(), Some((Status::Answered, Some(2), 2, Some(1), true)));
}

/// A lookup of a query with EDNS whose client has these servers.
fn with_edns(model: &str, servers: usize) -> Sim {
    let policy = Policy { client: model.parse().unwrap(), ..Policy::default() };
    let mut sim = Sim { lookups: Lookups::new(&[policy], &Arc::default()).unwrap(), sent: Vec::new() };
    let mut wire = Vec::new();
    let parts = QueryParts { id: 1, flags: 0, name: &[1, b'a', 0], qtype: 1, qclass: 1, edns: Some((1_232, false)) };
    parts.compose(&mut wire);
    sim.lookups.handle_query(RunTime(0), Query { wire: wire.into(), ..query(7, 0) }, servers);
    sim.send(0);
    sim
}

#[test]
fn after_formerr_ares_leaves_edns_out_and_glibc_gives_up() {
    let octets =
        |sim: &Sim| sim.lookups.open.slots().map(|slot| sim.lookups.open.get(slot).unwrap().query.wire.len()).max();
    let mut ares = with_edns("c-ares", 2);
    let before = octets(&ares);
    ares.answer(0, MS, FORMERR);
    assert_eq!((ares.asked(), octets(&ares)), ("0@0 0@1".to_owned(), before.map(|octets| octets - 11)));
    ares.answer(1, 2 * MS, FORMERR);
    assert_eq!(ares.row(), Some((Status::Answered, Some(1), 2, Some(2), true)), "without EDNS it is the last answer");
    let mut glibc = with_edns("glibc", 2);
    glibc.answer(0, MS, FORMERR);
    // A lookup for AAAA may come.
    glibc.run_until(10 * MS);
    assert_eq!(glibc.row(), Some((Status::Answered, Some(1), 1, Some(1), true)));
}

/// The same client looks up something else, and these were asked: server and milliseconds.
fn asked_next(sim: &mut Sim, at: i64, servers: usize) -> String {
    sim.sent.clear();
    sim.lookups.handle_query(RunTime(at), query(8, at), servers);
    sim.send(at);
    sim.asked()
}

#[test]
fn resolved_stays_with_the_server_that_answers() {
    let mut resolved = Sim::new("systemd-resolved", 2);
    resolved.run_until(5 * S);
    resolved.answer(1, 5_001 * MS, 0);
    assert_eq!((resolved.asked(), resolved.row().unwrap().2), ("0@0 1@5000".to_owned(), 2));
    assert_eq!(asked_next(&mut resolved, 6 * S, 2), "1@6000");
    resolved.answer(0, 6_001 * MS, 5);
    assert_eq!(resolved.asked(), "1@6000 0@6001", "refused");
    resolved.answer(1, 6_002 * MS, 5);
    resolved.lookups.outcomes().clear();
    assert_eq!(asked_next(&mut resolved, 7 * S, 2), "0@7000");
}

#[test]
fn resolved_asks_again_then_without_edns_then_another_server_and_remembers() {
    let mut resolved = with_edns("systemd-resolved", 2);
    (0..3).for_each(|number| resolved.answer(number, (number as i64 + 1) * MS, 2));
    assert_eq!(resolved.asked(), "0@0 0@1 0@2 1@3");
    resolved.answer(3, 4 * MS, 2);
    assert_eq!(resolved.row(), Some((Status::Answered, Some(2), 4, Some(4), true)), "both fail");
    let mut lacks = with_edns("systemd-resolved", 1);
    lacks.answer(0, MS, FORMERR);
    lacks.answer(1, 2 * MS, 0);
    assert_eq!((lacks.asked(), lacks.row().unwrap().1), ("0@0 0@1".to_owned(), Some(0)));
    let client = query(7, 0).client;
    assert_eq!(lacks.lookups.memory.level(client, 0), memory::Level::WithoutEdns);
}

#[test]
fn a_server_that_stays_silent_is_asked_over_tcp_by_resolved() {
    let mut resolved = Sim::new("systemd-resolved", 1);
    let mut over_tcp = Vec::new();
    while let Some(at) = resolved.lookups.poll_timeout().filter(|at| at.0 < 60 * S) {
        resolved.lookups.handle_timeout(at);
        over_tcp.extend(resolved.lookups.asks.iter().map(|ask| (at.0 / S, ask.query.transport == Transport::Tcp)));
        resolved.send(at.0);
    }
    let expected = [5, 10, 15, 20, 25].map(|at| (at, false));
    assert_eq!(over_tcp[..5], expected);
    assert_eq!(over_tcp[5..8], [(30, true), (40, true), (50, true)]);
}

#[test]
fn dnsmasq_asks_all_servers_first_and_then_the_one_that_answered() {
    let mut dnsmasq = Sim::new("dnsmasq", 2);
    assert_eq!(dnsmasq.asked(), "0@0 1@0");
    dnsmasq.answer(1, MS, 0);
    assert_eq!(dnsmasq.row(), Some((Status::Answered, Some(0), 2, Some(1), false)));
    assert_eq!(asked_next(&mut dnsmasq, S, 2), "1@1000");
    dnsmasq.answer(0, 1_001 * MS, 2);
    assert_eq!(dnsmasq.asked(), "1@1000 0@1001 1@1001", "all of them, at once");
    dnsmasq.answer(1, 1_002 * MS, 5);
    assert_eq!(dnsmasq.lookups.open(), 1);
    dnsmasq.answer(2, 1_002 * MS, 5);
    let rows = dnsmasq.lookups.outcomes().drain(..).filter(|row| row.attempt.is_none()).count();
    assert_eq!((rows, asked_next(&mut dnsmasq, 2 * S, 2)), (1, "1@2000".to_owned()));
    dnsmasq.run_until(7 * S);
    assert_eq!(dnsmasq.asked(), "1@2000 0@7000 1@7000", "asked again, it asks all");
    dnsmasq.answer(1, 7_001 * MS, 5);
    assert_eq!(dnsmasq.lookups.open(), 1, "the other may answer");
    dnsmasq.answer(2, 7_002 * MS, 0);
    assert_eq!(dnsmasq.lookups.open(), 0);
}

/// It waited for the answer of the other one, which dnsmasq 2.90 does after REFUSED only.
#[test]
fn dnsmasq_passes_on_the_first_servfail_of_servers_asked_at_once_and_stays_with_who_sent_it() {
    let mut dnsmasq = Sim::new("dnsmasq", 2);
    assert_eq!(dnsmasq.asked(), "0@0 1@0");
    dnsmasq.answer(0, MS, 2);
    assert_eq!(dnsmasq.row(), Some((Status::Answered, Some(2), 2, Some(1), true)));
    assert_eq!(asked_next(&mut dnsmasq, S, 2), "0@1000");
    dnsmasq.answer(0, 1_001 * MS, 2);
    assert_eq!(dnsmasq.asked(), "0@1000 0@1001 1@1001", "one alone may fail");
    dnsmasq.answer(1, 1_002 * MS, 2);
    assert_eq!(dnsmasq.lookups.open(), 0);
}

/// As Unbound 1.17 did before a server that is silent, and before one that fails.
#[test]
fn unbound_waits_for_a_silent_server_twice_as_long_each_time_and_asks_it_twice_while_that_is_short() {
    let mut silent = with_edns("unbound-forwarder", 1);
    silent.run_until(60 * S);
    assert_eq!(silent.asked(), "0@0 0@376 0@752 0@1504 0@2256 0@3760 0@5264 0@8272 0@11280");
    assert_eq!(silent.row(), Some((Status::Timeout, None, 9, None, true)));
    let mut fails = with_edns("unbound-forwarder", 1);
    (0..5).for_each(|number| fails.answer(number, MS, 2));
    assert_eq!(fails.asked(), "0@0 0@1 0@1 0@1 0@1");
    assert_eq!(fails.row(), Some((Status::Answered, Some(2), 5, Some(1), true)));
}

/// The model went on at once after ICMP, at which Unbound 1.17 waits as if nothing had come.
#[test]
fn unbound_does_not_hear_that_a_port_is_closed() {
    let mut unbound = with_edns("unbound-forwarder", 1);
    unbound.end(0, MS, Status::Refused, None);
    unbound.run_until(400 * MS);
    assert_eq!(unbound.asked(), "0@0 0@376");
}

#[test]
fn unbound_keeps_to_servers_that_are_not_much_slower_than_the_quickest() {
    let mut unbound = with_edns("unbound-forwarder", 2);
    let silent = unbound.sent[0].1;
    while unbound.sent.iter().all(|(_, server, _)| *server == silent) {
        unbound.run_until(unbound.lookups.poll_timeout().unwrap().0);
    }
    let quick = unbound.sent.len() - 1;
    unbound.answer(quick, unbound.sent[quick].2.0 + 20 * MS, 0);
    let asked: Vec<String> = (3..20).map(|second| asked_next(&mut unbound, second * S, 2)).collect();
    let client = query(7, 0).client;
    let timeouts = [silent, 1 - silent].map(|server| unbound.lookups.memory.timeout(client, server, 376 * MS) / MS);
    assert!(timeouts[0] >= 752 && timeouts[1] < 376, "{timeouts:?}");
    let to_quick = asked.iter().filter(|asked| asked.starts_with(&(1 - silent).to_string())).count();
    assert_eq!(to_quick, asked.len(), "{asked:?}");
}

#[test]
fn what_cannot_be_sent_was_not_asked() {
    let policy = Policy { client: "glibc".parse().unwrap(), ..Policy::default() };
    let mut lookups = Lookups::new(&[policy], &Arc::default()).unwrap();
    lookups.handle_query(RunTime(0), query(7, 0), 1);
    while let Some(Ask { query, .. }) = lookups.poll_ask() {
        let Expected::Attempt(attempt) = query.expected else { panic!() };
        let row = Outcome::not_sent(&query, Reason::OutOfIds);
        lookups.handle_event(RunTime(0), AttemptEvent::Ended(AttemptEnd { attempt, row, found: None }));
    }
    let rows: Vec<_> = lookups.outcomes().drain(..).map(|row| (row.status, row.reason, row.attempt)).collect();
    assert_eq!(rows, [(Status::NotSent, Some(Reason::OutOfIds), None)]);
    assert_eq!((lookups.counts().sent, lookups.counts().not_sent), (0, 1));
}

#[test]
fn an_interrupt_ends_every_lookup() {
    let mut sim = Sim::new("glibc", 2);
    sim.lookups.handle_interrupt();
    assert_eq!(sim.row(), Some((Status::Timeout, None, 1, None, true)));
    assert!(sim.lookups.poll_ask().is_none() && sim.lookups.open() == 0);
    sim.end(0, S, Status::Timeout, None);
    assert_eq!(sim.lookups.outcomes().len(), 1, "the attempt has its row all the same");
}

#[test]
fn clients_that_do_not_react_have_no_lookups() {
    assert!(Lookups::new(&[Policy::default()], &Arc::default()).is_none());
    let classes = [Policy::default(), Policy { client: "go".parse().unwrap(), ..Policy::default() }];
    let lookups = Lookups::new(&classes, &Arc::default()).unwrap();
    let of = |class| lookups.is_for(&Query { class, ..query(1, 0) });
    assert_eq!([None, Some(0), Some(1), Some(9)].map(of), [false, false, true, false]);
}

proptest! {
    /// Whatever the servers do, each lookup has one row, with as many attempts as were sent, and ends in bounded time.
    #[test]
    fn a_lookup_ends_once_with_all_its_attempts(
        model in prop::sample::select(vec!["glibc", "musl", "go", "c-ares", "windows", "systemd-resolved", "dnsmasq", "unbound-forwarder", "custom:rotate=on,order=then-all", "custom:rotate=on,skip-failed=on"]),
        servers in 1..4_usize,
        ends in prop::collection::vec((0..8_u8, 0..4_000_i64), 0..40),
    ) {
        let mut sim = Sim::new(model, servers);
        let mut ended = 0;
        let mut now = 0;
        for (what, after) in ends {
            now += after * MS;
            sim.run_until(now);
            if ended >= sim.sent.len() {
                continue;
            }
            match what {
                0..=5 => sim.answer(ended, now, [0, 2, 3, 4, 5, 2][usize::from(what)]),
                6 => sim.end(ended, now, Status::Refused, None),
                _ => sim.end(ended, now, Status::Timeout, None),
            }
            ended += 1;
        }
        sim.run_until(i64::MAX / 4);
        let attempts = sim.sent.len();
        let (.., told, _, _) = sim.row().unwrap();
        prop_assert_eq!(usize::from(told), attempts);
        prop_assert_eq!((sim.lookups.open(), sim.lookups.poll_ask().is_none()), (0, true));
    }
}
