//! Checks the sequence of arriving batches: next, repeated or missing.

use ldplayer_core::wire::BatchHeader;

/// The position of a batch in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next one.
    Next,
    /// A repeated one: its acknowledgement was lost.
    Again,
}

/// An unexpected batch, which cannot be replayed without loss, repetition or reordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// It belongs to another run: a leftover in the stream, or sent by another controller.
    #[error(
        "received a batch of run {found:x}, expected run {expected:x}: two controllers use the same name, or an old stream was not deleted"
    )]
    Run {
        /// The run in the batch.
        found: u64,
        /// The run of this agent.
        expected: u64,
    },
    /// It belongs to another agent.
    #[error("agent {expected} received a batch for agent {found}")]
    Shard {
        /// The agent in the batch.
        found: u32,
        /// This agent.
        expected: u32,
    },
    /// Batches are missing at the end.
    #[error("the stream of queries ended after {came} of {said} batches: the others were lost")]
    Count {
        /// How many were sent.
        said: u64,
        /// How many arrived.
        came: u64,
    },
    /// Batches are missing before it.
    #[error("received batch {found}, expected batch {expected}: the batches in between were lost")]
    Gap {
        /// Its number.
        found: u64,
        /// The number of the next one.
        expected: u64,
    },
}

/// The sequence of batches of one agent in one run.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    run: u64,
    shard: u32,
    next: u64,
    /// Whether the first batch may have any number: earlier ones were taken by a lost agent.
    anywhere: bool,
}

impl Arrivals {
    /// The sequence of a new agent.
    pub const fn new(run: u64, shard: u32) -> Self {
        Self { run, shard, next: 0, anywhere: false }
    }

    /// The sequence of an agent that takes over from a lost one.
    pub const fn left_by_another(run: u64, shard: u32) -> Self {
        Self { run, shard, next: 0, anywhere: true }
    }

    /// Checks the next batch.
    ///
    /// # Errors
    /// The batch is unexpected. The state is unchanged.
    pub const fn take(&mut self, header: BatchHeader) -> Result<Arrival, Misplaced> {
        let BatchHeader { run, shard, sequence } = header;
        if run != self.run {
            return Err(Misplaced::Run { found: run, expected: self.run });
        }
        if shard != self.shard {
            return Err(Misplaced::Shard { found: shard, expected: self.shard });
        }
        if self.anywhere {
            (self.next, self.anywhere) = (sequence, false);
        }
        if sequence > self.next {
            return Err(Misplaced::Gap { found: sequence, expected: self.next });
        }
        if sequence < self.next {
            return Ok(Arrival::Again);
        }
        self.next += 1;
        Ok(Arrival::Next)
    }

    /// Checks the total number of batches.
    ///
    /// # Errors
    /// Batches at the end are missing.
    pub const fn end(&self, said: u64) -> Result<(), Misplaced> {
        if said == self.next || self.anywhere {
            return Ok(());
        }
        Err(Misplaced::Count { said, came: self.next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(run: u64, shard: u32, sequence: u64) -> BatchHeader {
        BatchHeader { run, shard, sequence }
    }

    #[test]
    fn a_batch_that_comes_twice_is_taken_once() {
        let mut arrivals = Arrivals::new(5, 2);
        let taken: Vec<_> = [0, 1, 1, 0, 2].map(|sequence| arrivals.take(header(5, 2, sequence)).unwrap()).into();
        use Arrival::{Again, Next};
        assert_eq!(taken, [Next, Next, Again, Again, Next]);
        assert_eq!(arrivals.end(3), Ok(()));
        assert_eq!(arrivals.end(4), Err(Misplaced::Count { said: 4, came: 3 }));
    }

    #[test]
    fn what_another_has_left_begins_anywhere_and_has_no_gap() {
        let mut arrivals = Arrivals::left_by_another(5, 2);
        assert_eq!(arrivals.end(9), Ok(()), "the other one took all");
        assert_eq!(arrivals.take(header(5, 2, 7)), Ok(Arrival::Next));
        assert_eq!(arrivals.take(header(5, 2, 9)), Err(Misplaced::Gap { found: 9, expected: 8 }));
        assert_eq!(arrivals.take(header(5, 2, 8)), Ok(Arrival::Next));
        assert_eq!(arrivals.end(9), Ok(()));
    }

    #[test]
    fn what_is_missing_or_anothers_is_told() {
        let mut arrivals = Arrivals::new(5, 2);
        assert_eq!(arrivals.take(header(5, 2, 1)), Err(Misplaced::Gap { found: 1, expected: 0 }));
        assert_eq!(arrivals.take(header(6, 2, 0)), Err(Misplaced::Run { found: 6, expected: 5 }));
        assert_eq!(arrivals.take(header(5, 1, 0)), Err(Misplaced::Shard { found: 1, expected: 2 }));
        assert_eq!(arrivals.take(header(5, 2, 0)), Ok(Arrival::Next));
    }
}
