//! Compares responses with the expected ones, and keeps them.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ldplayer_core::message::set_id;
use ldplayer_core::{
    Attempt, Expected, Fingerprint, Ignore, Message, Outcome, Pair, RunTime, TraceTime, Transaction, compare,
};

/// Octets of responses per shared allocation.
const ARENA: usize = 64 << 10;

/// How a machine handles responses.
#[derive(Debug, Default)]
pub struct ResponseSink {
    /// Ended queries of pairs, waiting to be combined.
    pub halves: Vec<Half>,
    /// What became of attempts, waiting for whoever made them.
    pub attempts: Vec<AttemptEvent>,
    /// What comparisons ignore.
    pub ignore: Arc<Ignore>,
    /// Where responses are kept.
    pub kept: Option<KeptResponses>,
}

/// Sent queries with their responses, waiting to be taken.
#[derive(Debug, Default)]
pub struct KeptResponses {
    arena: BytesMut,
    /// Their times are run times.
    pub rows: Vec<Transaction>,
}

/// A query to one of two servers that has ended.
#[derive(Debug)]
pub struct Half {
    /// The pair, and whether this one went to the reference server.
    pub pair: Pair,
    /// Its row.
    pub row: Outcome,
    /// The fingerprint of its response.
    pub found: Option<Fingerprint>,
}

/// What became of an attempt.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each query")]
#[derive(Debug)]
pub enum AttemptEvent {
    /// It left at this time.
    Sent(Attempt, RunTime),
    /// It ended, or its answer came after that.
    Ended(AttemptEnd),
}

/// How an attempt ended.
#[derive(Debug)]
pub struct AttemptEnd {
    /// Which one.
    pub attempt: Attempt,
    /// Its row.
    pub row: Outcome,
    /// The fingerprint of its response, where it is compared.
    pub found: Option<Fingerprint>,
}

impl ResponseSink {
    /// A query left at this time.
    pub fn note_sent(&mut self, expected: &Expected, at: RunTime) {
        if let Expected::Attempt(attempt) = *expected {
            self.attempts.push(AttemptEvent::Sent(attempt, at));
        }
    }

    /// The row of a response, which is compared with the `expected` one, if any, and kept under the original ID of its
    /// query. `None` for one of
    /// a pair, which waits for the other, and for an attempt of a lookup.
    pub fn judge(
        &mut self,
        row: Outcome,
        wire: &Bytes,
        expected: &Expected,
        response: Option<&Message<'_>>,
    ) -> Option<Outcome> {
        let is_kept = row.status.is_query() && row.submitted.is_some() && expected.is_counted();
        if let Some(kept) = self.kept.as_mut().filter(|_| is_kept) {
            kept.add(&row, wire, response.filter(|_| row.answered.is_some()));
        }
        match *expected {
            Expected::Response(_) => {
                let both = expected.response().zip(response);
                Some(row.judged(both.map(|(expected, found)| compare::responses(&expected, found, &self.ignore))))
            }
            Expected::Attempt(attempt) => {
                let found = response.filter(|_| attempt.is_compared);
                let found = found.map(|response| Fingerprint::of(response, &self.ignore));
                self.attempts.push(AttemptEvent::Ended(AttemptEnd { attempt, row, found }));
                None
            }
            // A late answer belongs to a query that has already ended.
            Expected::Pair(pair) if row.status.is_query() => {
                let found = response.map(|response| Fingerprint::of(response, &self.ignore));
                self.halves.push(Half { pair, row, found });
                None
            }
            Expected::Pair(pair) if pair.is_reference => None,
            Expected::Pair(_) | Expected::Nothing => Some(row),
        }
    }
}

impl KeptResponses {
    fn add(&mut self, row: &Outcome, wire: &Bytes, response: Option<&Message<'_>>) {
        let submitted = row.submitted.unwrap_or_default();
        self.rows.push(Transaction {
            index: row.index,
            time: TraceTime(submitted.0),
            client: (row.client, row.client_port).into(),
            server: row.server,
            transport: row.transport,
            stream: row.connection,
            query: Some(wire.clone()),
            response: response.map(|response| copy(&mut self.arena, response.octets(), wire)),
            response_delay: row.answered.map(|answered| answered - submitted),
            retry_of: None,
        });
    }
}

/// A copy of a response in shared memory, with the original ID of its query, which was replaced for sending.
fn copy(arena: &mut BytesMut, octets: &[u8], query: &[u8]) -> Bytes {
    if arena.capacity() < octets.len() {
        *arena = BytesMut::with_capacity(ARENA.max(octets.len()));
    }
    arena.extend_from_slice(octets);
    if let Some(query) = Message::new(query) {
        set_id(arena, query.id());
    }
    arena.split().freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{query, response};
    use ldplayer_core::{Answer, Differs, Reason, Status};

    fn row(status: Status, reason: Option<Reason>) -> Outcome {
        let answered = matches!(status, Status::Answered | Status::Late).then_some(RunTime(9));
        Outcome { submitted: Some(RunTime(2)), status, reason, answered, ..Outcome::unfinished(&query(7, 1)) }
    }

    #[test]
    fn what_has_no_answer_is_worse_than_an_answer_unless_nobody_waited_for_it() {
        let wire = query(7, 1).wire;
        let octets = response(&wire, 0);
        let message = Message::new(&octets).unwrap();
        let mut sink = ResponseSink::default();
        let expected = Expected::Response(octets.clone().into());
        let mut of = |status, reason, response| {
            let judged = sink.judge(row(status, reason), &wire, &expected, response).unwrap();
            (judged.answer, judged.differs)
        };
        let unanswered = (Some(Answer::Worse), Differs::UNANSWERED);
        assert_eq!(of(Status::Answered, None, Some(&message)), (Some(Answer::Match), Differs::NOTHING));
        for status in [Status::Timeout, Status::Refused, Status::Reset, Status::ConnectFailed, Status::TlsFailed] {
            assert_eq!(of(status, None, None), unanswered, "{status}");
        }
        let not_judged = (None, Differs::NOTHING);
        assert_eq!(of(Status::Timeout, Some(Reason::Interrupted), None), not_judged);
        assert_eq!(of(Status::NotSent, Some(Reason::Lag), None), not_judged);
        assert_eq!(of(Status::Late, None, Some(&message)), not_judged);
    }

    #[test]
    fn responses_are_kept_under_the_id_of_their_query_and_queries_without_one_are_kept_too() {
        let wire = query(7, 1).wire;
        let mut octets = response(&wire, 0);
        octets[..2].copy_from_slice(&[0xab, 0xcd]);
        let message = Message::new(&octets).unwrap();
        let mut sink = ResponseSink { kept: Some(KeptResponses::default()), ..ResponseSink::default() };
        sink.judge(row(Status::Answered, None), &wire, &Expected::Nothing, Some(&message));
        sink.judge(row(Status::Timeout, None), &wire, &Expected::Nothing, None);
        sink.judge(row(Status::Late, None), &wire, &Expected::Nothing, Some(&message));
        sink.judge(
            Outcome { submitted: None, ..row(Status::NotSent, Some(Reason::Lag)) },
            &wire,
            &Expected::Nothing,
            None,
        );
        let rows = sink.kept.unwrap().rows;
        assert_eq!(
            rows.len(),
            2,
            "late answers are of queries that have timed out, and what was not sent was not asked"
        );
        assert_eq!(rows[0].response.as_deref(), Some(&response(&wire, 0)[..]));
        assert_eq!((rows[0].index, rows[0].time, rows[0].response_delay), (7, TraceTime(2), Some(7)));
        assert_eq!((&rows[1].response, rows[1].query.as_ref()), (&None, Some(&wire)));
    }
}
