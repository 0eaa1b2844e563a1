//! Puts transactions in the order of their times within a bounded window.

use std::collections::VecDeque;

use ldplayer_core::{TraceTime, Transaction};

use crate::{Place, Source, Tally, TraceError};

/// Transactions that wait for earlier ones to come.
pub(crate) const WINDOW: usize = 64 * 1024;
/// Octets of messages that wait for earlier ones to come: large answers make the window shorter.
const MAX_OCTETS: usize = 32 << 20;
/// Transactions in a batch.
const BATCH: usize = 4_096;

/// A source in order of time. What comes later than the window allows is kept, and counted as `out_of_order`.
pub(crate) struct Sorted<S> {
    inner: S,
    name: String,
    window: usize,
    incoming: Vec<Transaction>,
    waiting: VecDeque<Transaction>,
    /// Octets of the messages that wait.
    octets: usize,
    newest: Option<TraceTime>,
    yielded: Option<TraceTime>,
    /// Transactions taken from the inner source.
    taken: u64,
    out_of_order: Tally,
    tally: Tally,
    ended: bool,
}

impl<S: Source> Sorted<S> {
    /// Sorts within `window` transactions; with 0 the order is only checked. `name` is the input as the user named it.
    pub fn new(inner: S, name: String, window: usize) -> Self {
        Self {
            inner,
            name,
            window,
            incoming: Vec::new(),
            waiting: VecDeque::new(),
            octets: 0,
            newest: None,
            yielded: None,
            taken: 0,
            out_of_order: Tally::default(),
            tally: Tally::default(),
            ended: false,
        }
    }

    /// Takes a batch of the inner source in, sorting only if it is not in order.
    fn take_batch(&mut self) -> Result<(), TraceError> {
        self.ended = !self.inner.read(&mut self.incoming)?;
        let mut in_order = true;
        for row in self.incoming.drain(..) {
            in_order &= self.newest <= Some(row.time);
            self.newest = self.newest.max(Some(row.time));
            self.taken += 1;
            if self.yielded > Some(row.time) {
                let place = || Place { file: self.name.clone(), packet: self.taken, offset: 0 };
                self.out_of_order.damage("out_of_order", place);
            }
            self.octets += octets(&row);
            self.waiting.push_back(row);
        }
        if !in_order {
            self.waiting.make_contiguous().sort_by_key(|row| row.time);
        }
        self.tally.clone_from(self.inner.tally());
        self.tally.merge(&self.out_of_order);
        Ok(())
    }

    /// Takes in what comes when nothing has to wait: the order is checked, not made.
    fn pass_batch(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let start = batch.len();
        let more = self.inner.read(batch)?;
        for row in &batch[start..] {
            self.taken += 1;
            if self.yielded > Some(row.time) {
                let place = || Place { file: self.name.clone(), packet: self.taken, offset: 0 };
                self.out_of_order.damage("out_of_order", place);
            }
            self.yielded = self.yielded.max(Some(row.time));
        }
        self.tally.clone_from(self.inner.tally());
        self.tally.merge(&self.out_of_order);
        Ok(more)
    }
}

impl<S: Source> Source for Sorted<S> {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        if self.window == 0 {
            return self.pass_batch(batch);
        }
        while !self.ended && self.waiting.len() < self.window + BATCH && self.octets < MAX_OCTETS {
            self.take_batch()?;
        }
        let count = BATCH.min(self.waiting.len());
        self.octets -= self.waiting.iter().take(count).map(octets).sum::<usize>();
        batch.extend(self.waiting.drain(..count));
        self.yielded = self.yielded.max(batch.last().map(|row| row.time));
        Ok(!(self.ended && self.waiting.is_empty()))
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

fn octets(row: &Transaction) -> usize {
    [&row.query, &row.response].into_iter().flatten().map(|message| message.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Times(Vec<i64>, Tally);

    impl Source for Times {
        fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
            let rest = self.0.split_off(self.0.len().min(1_000));
            batch.extend(std::mem::replace(&mut self.0, rest).into_iter().map(row));
            Ok(!self.0.is_empty())
        }

        fn tally(&self) -> &Tally {
            &self.1
        }
    }

    fn row(time: i64) -> Transaction {
        Transaction {
            time: TraceTime(time),
            client: "192.0.2.1:1".parse().unwrap(),
            server: "192.0.2.2:53".parse().unwrap(),
            transport: Default::default(),
            stream: None,
            query: None,
            response: None,
            response_delay: None,
        }
    }

    fn sorted(times: Vec<i64>, window: usize) -> (Vec<i64>, Tally) {
        let mut source = Sorted::new(Times(times, Tally::default()), "t".into(), window);
        let mut batch = Vec::new();
        while source.read(&mut batch).unwrap() {}
        (batch.iter().map(|row| row.time.0).collect(), source.tally)
    }

    #[test]
    fn what_is_within_the_window_is_sorted() {
        // Blocks of 500 times in reverse.
        let times: Vec<i64> = (0..20_000).map(|at| at / 500 * 500 + 499 - at % 500).collect();
        let (times, tally) = sorted(times, 1_000);
        assert_eq!(times, (0..20_000).collect::<Vec<_>>());
        assert!(tally.damaged.is_empty());
    }

    #[test]
    fn what_comes_later_is_kept_and_counted() {
        let mut times: Vec<i64> = (0..20_000).collect();
        times.push(-1);
        for window in [0, 1_000] {
            let (all, tally) = sorted(times.clone(), window);
            assert_eq!(all.len(), 20_001);
            assert_eq!((tally.damaged[0].reason, tally.damaged[0].count), ("out_of_order", 1));
            assert_eq!(tally.damaged[0].first.packet, 20_001);
        }
    }
}
