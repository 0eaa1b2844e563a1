//! The agent's part of distribution: which batch is the next one, which was there before, and which is missing.

use ldplayer_core::wire::BatchHeader;

/// What a batch is by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next one.
    Next,
    /// One that was there before: its acknowledgement was lost.
    Again,
}

/// A batch that cannot be here: what is in it cannot be replayed without a wrong order, or twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// Of another run, left behind in the stream or sent by another controller.
    #[error(
        "a batch of run {found:x} came where those of run {expected:x} were expected: two controllers use one name, or a stream is left over"
    )]
    Run {
        /// The run that it says.
        found: u64,
        /// The one that this agent was told.
        expected: u64,
    },
    /// Of another agent.
    #[error("a batch for agent {found} came to agent {expected}")]
    Shard {
        /// Whose it is.
        found: u32,
        /// Which agent this is.
        expected: u32,
    },
    /// Some are missing at the end.
    #[error("the stream of queries ended with {came} batches of {said}: some are lost")]
    Count {
        /// How many there are.
        said: u64,
        /// How many came.
        came: u64,
    },
    /// Some are missing before it.
    #[error("batch {found} came where batch {expected} was expected: what is between them is lost")]
    Gap {
        /// Its number.
        found: u64,
        /// The number of the next one.
        expected: u64,
    },
}

/// The batches of one agent in one run.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    run: u64,
    shard: u32,
    next: u64,
    /// Whether the first batch may be any: those before it were taken by an agent that was lost.
    anywhere: bool,
}

impl Arrivals {
    /// Those of an agent, before the first.
    pub const fn new(run: u64, shard: u32) -> Self {
        Self { run, shard, next: 0, anywhere: false }
    }

    /// Those that an agent which was lost has left.
    pub const fn left_by_another(run: u64, shard: u32) -> Self {
        Self { run, shard, next: 0, anywhere: true }
    }

    /// Takes the next batch, or says that it was there before.
    ///
    /// # Errors
    /// When it cannot be here. Nothing changes.
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

    /// Checks how many batches there were by the word of who dealt them.
    ///
    /// # Errors
    /// Some at the end are missing.
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
