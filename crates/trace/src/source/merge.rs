//! Merges several inputs in time order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ldplayer_core::{TraceTime, Transaction};

use super::BATCH_OCTETS;
use crate::{Source, Tally, TraceError};

/// Transactions in a batch.
const BATCH: usize = 4_096;

/// Merges sources that are each sorted by time. Ties are resolved in the order of the inputs.
pub(crate) struct Merged {
    inputs: Vec<Part>,
    /// The times of the next transactions, with the numbers of their inputs.
    next: BinaryHeap<Reverse<(TraceTime, usize)>>,
    has_begun: bool,
    tally: Tally,
}

struct Part {
    source: Box<dyn Source>,
    waiting: VecDeque<Transaction>,
    ended: bool,
}

impl Merged {
    /// Merges `sources`.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Self {
        let part = |source| Part { source, waiting: VecDeque::new(), ended: false };
        let inputs = sources.into_iter().map(part).collect();
        Self { inputs, next: BinaryHeap::new(), has_begun: false, tally: Tally::default() }
    }

    /// Notes when the next transaction of an input is.
    fn look(&mut self, at: usize) -> Result<(), TraceError> {
        let part = &mut self.inputs[at];
        part.fill()?;
        self.next.extend(part.next_time().map(|time| Reverse((time, at))));
        Ok(())
    }

    fn account(&mut self) {
        self.tally = Tally::default();
        for part in &self.inputs {
            self.tally.merge(part.source.tally());
        }
    }
}

impl Part {
    fn next_time(&self) -> Option<TraceTime> {
        self.waiting.front().map(|row| row.time)
    }

    /// Refills the buffer of an input, unless it has ended.
    fn fill(&mut self) -> Result<(), TraceError> {
        let mut batch = Vec::new();
        while self.waiting.is_empty() && !self.ended {
            self.ended = !self.source.read(&mut batch)?;
            self.waiting.extend(batch.drain(..));
        }
        Ok(())
    }
}

impl Source for Merged {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            (0..self.inputs.len()).try_for_each(|at| self.look(at))?;
        }
        let full = batch.len() + BATCH;
        let mut octets = 0;
        while batch.len() < full && octets < BATCH_OCTETS {
            let Some(Reverse((_, at))) = self.next.pop() else { break };
            let row = self.inputs[at].waiting.pop_front();
            octets += row.as_ref().map_or(0, Transaction::message_octets);
            batch.extend(row);
            self.look(at)?;
        }
        self.account();
        Ok(!self.next.is_empty())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn is_list(&self) -> bool {
        self.inputs.iter().all(|part| part.source.is_list())
    }
}

#[cfg(test)]
mod tests {
    use super::super::compressed::Meter;
    use super::super::sort::{Sorted, Window};
    use super::super::text;
    use super::*;

    #[test]
    fn inputs_are_merged_by_time_and_their_accounts_added() {
        let open = |text: &'static str| {
            let rows = text::TextSource::open(std::path::Path::new("t"), Box::new(text.as_bytes()), None).unwrap();
            Box::new(Sorted::new(rows, "t".into(), Meter::default(), Window::one_of(2))) as Box<dyn Source>
        };
        let a = "time\tsrc\tqname\tqtype\n1\t192.0.2.1\ta\tA\n3\t192.0.2.1\ta\tA\n3\tx\ta\tA\n";
        let b = "time\tsrc\tqname\tqtype\n0\t192.0.2.2\ta\tA\n3\t192.0.2.2\ta\tA\n9\t192.0.2.2\ta\tA\n";
        let mut merged = Merged::new(vec![open(a), open(b)]);
        let mut all = Vec::new();
        while merged.read(&mut all).unwrap() {}
        let rows: Vec<String> =
            all.iter().map(|row| format!("{} {}", row.time.0 / 1_000_000_000, row.client.ip())).collect();
        assert_eq!(rows, ["0 192.0.2.2", "1 192.0.2.1", "3 192.0.2.1", "3 192.0.2.2", "9 192.0.2.2"]);
        assert_eq!((merged.tally().queries, merged.tally().damaged[0].count), (5, 1));
    }
}
