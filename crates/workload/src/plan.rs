//! Schedules a replay: turns recorded transactions into queries with due times.
//!
//! The schedule is absolute: each due time is computed from the recorded time or from the query's number, so that no error
//! adds up (paper §2.6 keeps ΔT the same way).

use std::collections::HashSet;
use std::net::IpAddr;

use bytes::Bytes;
use ldplayer_core::{Expected, Query, RunTime, TraceTime, Transaction, Transport};

use crate::timing::{Schedule, Timing};

/// What to plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// When queries are due.
    pub timing: Timing,
    /// Nanoseconds of the trace to skip at its start.
    pub start: i64,
    /// Nanoseconds from the start of the trace at which planning stops.
    pub stop: Option<i64>,
    /// Nanoseconds of the run at which planning stops. It does not apply to [`Timing::Fast`], without due times: there the sender ends
    /// the run by the clock.
    pub until: Option<i64>,
    /// Maximum number of clients to plan: those with the first queries.
    pub clients: Option<u64>,
    /// The transport of all queries; `None` keeps the recorded ones.
    pub transport: Option<Transport>,
}

/// All of the trace as it was recorded.
impl Default for PlanOptions {
    fn default() -> Self {
        Self { timing: Timing::ORIGINAL, start: 0, stop: None, until: None, clients: None, transport: None }
    }
}

/// Turns transactions into queries.
#[derive(Debug)]
pub struct Planner {
    options: PlanOptions,
    first: Option<TraceTime>,
    schedule: Schedule,
    /// The clients planned, if limited; at most that many.
    clients: HashSet<IpAddr>,
    finished: bool,
}

impl Planner {
    /// A planner at the start of a trace; random gaps come from `seed`.
    pub fn new(options: PlanOptions, seed: u64) -> Self {
        let schedule = Schedule::new(options.timing, seed);
        Self { options, first: None, schedule, clients: HashSet::new(), finished: false }
    }

    /// Plans the query of a transaction, taking its message; `None` if it has none, or is outside the part to plan.
    pub fn plan(&mut self, transaction: &mut Transaction) -> Option<Query> {
        let wire = transaction.query.take()?;
        let first = *self.first.get_or_insert(transaction.time);
        let elapsed = transaction.time - first;
        if self.options.stop.is_some_and(|stop| elapsed >= stop) {
            self.finished = true;
        }
        if self.finished || elapsed < self.options.start || !self.is_wanted(transaction.client.ip()) {
            return None;
        }
        let due = self.schedule.next(elapsed - self.options.start);
        self.finished = self.options.until.is_some_and(|until| due.0 >= until);
        (!self.finished).then(|| self.query(due, transaction, wire))
    }

    /// Whether a client's queries are planned.
    fn is_wanted(&mut self, client: IpAddr) -> bool {
        let Some(count) = self.options.clients else { return true };
        self.clients.contains(&client) || (self.clients.len() as u64) < count && self.clients.insert(client)
    }

    /// Whether the end of the part to plan was reached.
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Time of the first query of the trace.
    pub const fn first(&self) -> Option<TraceTime> {
        self.first
    }

    fn query(&self, due: RunTime, transaction: &Transaction, wire: Bytes) -> Query {
        Query {
            index: transaction.index,
            due,
            client: transaction.client.ip(),
            client_port: transaction.client.port(),
            server: transaction.server,
            transport: self.options.transport.unwrap_or(transaction.transport),
            class: None,
            expected: Expected::Nothing,
            dependency: None,
            wire,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(time: i64) -> Transaction {
        Transaction {
            index: 0,
            time: TraceTime(time),
            client: "192.0.2.1:1024".parse().unwrap(),
            server: "192.0.2.2:53".parse().unwrap(),
            transport: Transport::Tcp,
            stream: None,
            query: Some(Bytes::from_static(b"query")),
            response: None,
            response_delay: None,
            retry_of: None,
        }
    }

    fn options(timing: Timing) -> PlanOptions {
        PlanOptions { timing, ..PlanOptions::default() }
    }

    fn dues(options: PlanOptions, times: &[i64]) -> Vec<(u64, i64)> {
        let mut planner = Planner::new(options, 1);
        let planned =
            (0..).zip(times).filter_map(|(index, &time)| planner.plan(&mut Transaction { index, ..transaction(time) }));
        planned.map(|query| (query.index, query.due.0)).collect()
    }

    #[test]
    fn the_first_query_is_at_zero_and_speed_divides() {
        let times = [1_000, 1_500, 4_000];
        assert_eq!(dues(options(Timing::ORIGINAL), &times), [(0, 0), (1, 500), (2, 3_000)]);
        assert_eq!(dues(options(Timing::Scaled(2.0)), &times), [(0, 0), (1, 250), (2, 1_500)]);
    }

    #[test]
    fn an_even_rate_ignores_the_recorded_times() {
        assert_eq!(dues(options(Timing::Rate(1e9 / 7.0)), &[0, 1, 90]), [(0, 0), (1, 7), (2, 14)]);
    }

    #[test]
    fn a_rate_does_not_drift() {
        let mut planner = Planner::new(options(Timing::Rate(30_000.0)), 1);
        let last = (0..=3_000_000).filter_map(|time| planner.plan(&mut transaction(time))).last();
        assert_eq!(last.unwrap().due, RunTime(100_000_000_000));
    }

    #[test]
    fn start_and_stop_cut_the_trace_and_keep_the_row_numbers() {
        let cut = PlanOptions { start: 10, stop: Some(30), ..options(Timing::ORIGINAL) };
        assert_eq!(dues(cut, &[5, 10, 15, 25, 34, 35, 90]), [(2, 0), (3, 10), (4, 19)]);
    }

    #[test]
    fn a_response_alone_plans_nothing() {
        let mut planner = Planner::new(options(Timing::ORIGINAL), 1);
        assert_eq!(planner.plan(&mut Transaction { query: None, ..transaction(0) }), None);
    }

    #[test]
    fn the_transport_can_be_changed() {
        let udp = PlanOptions { transport: Some(Transport::Udp), ..options(Timing::ORIGINAL) };
        assert_eq!(Planner::new(udp, 1).plan(&mut transaction(0)).unwrap().transport, Transport::Udp);
        let kept = Planner::new(options(Timing::ORIGINAL), 1).plan(&mut transaction(0)).unwrap();
        assert_eq!(kept.transport, Transport::Tcp);
    }
}
