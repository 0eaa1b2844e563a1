//! Numbers the rows of the inputs before anything changes them.

use ldplayer_core::Transaction;
use ldplayer_trace::{Source, Tally, TraceError};

/// A source whose transactions are numbered in the order in which it yields them, from 0.
pub(crate) struct Numbered {
    inner: Box<dyn Source>,
    rows: u64,
}

impl Numbered {
    /// Numbers what `inner` yields.
    pub fn new(inner: Box<dyn Source>) -> Self {
        Self { inner, rows: 0 }
    }
}

impl Source for Numbered {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let begin = batch.len();
        let more = self.inner.read(batch);
        for row in &mut batch[begin..] {
            row.index = self.rows;
            self.rows += 1;
        }
        more
    }

    fn tally(&self) -> &Tally {
        self.inner.tally()
    }

    fn is_list(&self) -> bool {
        self.inner.is_list()
    }
}
