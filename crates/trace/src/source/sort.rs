//! Sorts transactions by time within a bounded window.

use std::collections::VecDeque;
use std::path::Path;

use ldplayer_core::damage::Flaw;
use ldplayer_core::{TraceTime, Transaction};

use super::BATCH_OCTETS;
use super::compressed::Meter;
use super::limit;
use crate::{Place, Source, Tally, TraceError};

/// Limits of the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Transactions; with 0 the order is only checked.
    pub rows: usize,
    /// Octets of messages: large answers make the window shorter.
    pub octets: usize,
}

impl Window {
    /// No window.
    pub const NONE: Self = Self { rows: 0, octets: 0 };

    /// The window for one of several inputs, which share the limits.
    pub fn one_of(inputs: usize) -> Self {
        let inputs = inputs.max(1);
        Self { rows: 64 * 1024 / inputs, octets: (16 << 20) / inputs }
    }
}

/// Transactions in a batch.
const BATCH: usize = 4_096;

/// A source sorted by time. Transactions that come too late for the window are kept, and counted as `out_of_order`.
///
/// Transactions stay in their batches, so that sorted input is not moved.
pub(crate) struct Sorted<S> {
    inner: S,
    name: String,
    meter: Meter,
    window: Window,
    /// Non-empty batches in the order of time, without overlap.
    waiting: VecDeque<Vec<Transaction>>,
    /// Transactions in the window.
    rows: usize,
    /// Octets of messages in the window.
    octets: usize,
    /// An emptied batch.
    spare: Vec<Transaction>,
    newest: Option<TraceTime>,
    yielded: Option<TraceTime>,
    /// Transactions taken from the inner source.
    taken: u64,
    out_of_order: Tally,
    tally: Tally,
    ended: bool,
}

impl<S: Source> Sorted<S> {
    /// Sorts within a window. `name` is the input as the user named it; the meter says how far it was read.
    pub fn new(inner: S, name: String, meter: Meter, window: Window) -> Self {
        Self {
            inner,
            name,
            meter,
            window,
            waiting: VecDeque::new(),
            rows: 0,
            octets: 0,
            spare: Vec::new(),
            newest: None,
            yielded: None,
            taken: 0,
            out_of_order: Tally::default(),
            tally: Tally::default(),
            ended: false,
        }
    }

    /// Adds a batch of the inner source, sorted if necessary.
    fn take_batch(&mut self) -> Result<(), TraceError> {
        let mut incoming = std::mem::take(&mut self.spare);
        self.ended = !self.inner.read(&mut incoming)?;
        let mut in_order = true;
        for row in &incoming {
            in_order &= self.newest <= Some(row.time);
            self.newest = self.newest.max(Some(row.time));
            self.taken += 1;
            if self.yielded > Some(row.time) {
                let place = || Place { file: self.name.clone(), packet: self.taken, offset: 0 };
                self.out_of_order.damage(Flaw::OutOfOrder, 0, place);
            }
            self.octets += row.message_octets();
        }
        self.rows += incoming.len();
        match (incoming.is_empty(), in_order) {
            (true, _) => self.spare = incoming,
            (false, true) => self.waiting.push_back(incoming),
            (false, false) => self.merge(incoming),
        }
        self.account();
        Ok(())
    }

    /// Sorts a batch together with those before it that end later than it begins.
    fn merge(&mut self, mut batch: Vec<Transaction>) {
        let earliest = batch.iter().map(|row| row.time).min();
        let overlap = self.waiting.iter().rev().take_while(|part| part.last().map(|row| row.time) > earliest).count();
        let mut all: Vec<Transaction> = self.waiting.drain(self.waiting.len() - overlap..).flatten().collect();
        all.append(&mut batch);
        all.sort_by_key(|row| row.time);
        let (mut part, mut size) = (Vec::new(), 0);
        for row in all {
            if part.len() == BATCH || size > BATCH_OCTETS {
                self.waiting.push_back(std::mem::take(&mut part));
                size = 0;
            }
            size += row.message_octets();
            part.push(row);
        }
        self.waiting.push_back(part);
    }

    /// Adds a batch without a window: the order is only checked.
    fn pass_batch(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let start = batch.len();
        let more = self.inner.read(batch)?;
        for row in &batch[start..] {
            self.taken += 1;
            if self.yielded > Some(row.time) {
                let place = || Place { file: self.name.clone(), packet: self.taken, offset: 0 };
                self.out_of_order.damage(Flaw::OutOfOrder, 0, place);
            }
            self.yielded = self.yielded.max(Some(row.time));
        }
        self.account();
        Ok(more)
    }

    /// Updates the tally: the inner source's, the order, and how much of the input was read.
    fn account(&mut self) {
        self.tally.clone_from(self.inner.tally());
        let mut extent = self.tally.inputs.pop().unwrap_or_default();
        extent.file.clone_from(&self.name);
        (extent.stored, extent.reached) = (self.meter.stored, self.meter.reached());
        extent.unread = self.tally.unread().map(|damage| damage.octets).sum();
        self.tally.inputs.push(extent);
        self.tally.merge(&self.out_of_order);
    }
}

impl<S: Source> Source for Sorted<S> {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        if self.window.rows == 0 {
            return self.pass_batch(batch);
        }
        let start = batch.len();
        while !self.ended && self.rows < self.window.rows + BATCH && self.octets <= self.window.octets {
            self.take_batch()?;
        }
        if let Some(mut next) = self.waiting.pop_front() {
            self.rows -= next.len();
            self.octets -= next.iter().map(Transaction::message_octets).sum::<usize>();
            self.yielded = self.yielded.max(next.last().map(|row| row.time));
            if batch.is_empty() {
                std::mem::swap(batch, &mut next);
            } else {
                batch.append(&mut next);
            }
            self.spare = next;
        }
        if !self.ended || !self.waiting.is_empty() {
            return Ok(true);
        }
        match self.meter.exceeded() {
            // What was read before is handed over first.
            Some(max) if batch.len() == start => Err(limit::beyond(Path::new(&self.name), max)),
            exceeded => Ok(exceeded.is_some()),
        }
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn is_list(&self) -> bool {
        self.inner.is_list()
    }
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
            index: 0,
            time: TraceTime(time),
            client: "192.0.2.1:1".parse().unwrap(),
            server: "192.0.2.2:53".parse().unwrap(),
            transport: Default::default(),
            stream: None,
            query: None,
            response: None,
            response_delay: None,
            retry_of: None,
        }
    }

    fn numbered(time: i64, port: u16) -> Transaction {
        let mut row = row(time);
        row.client.set_port(port);
        row
    }

    fn sorted(times: Vec<i64>, window: usize) -> (Vec<i64>, Tally) {
        let mut source = Sorted::new(
            Times(times, Tally::default()),
            "t".into(),
            Meter::default(),
            Window { rows: window, octets: 1 << 20 },
        );
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
    fn of_equal_times_the_first_stays_the_first() {
        let rows: Vec<(i64, u16)> = (0..9_000).map(|at| (at / 100 * 10 - at % 7, at as u16)).collect();
        let mut expected = rows.clone();
        expected.sort_by_key(|(time, _)| *time);
        let mut source = Sorted::new(
            Times(Vec::new(), Tally::default()),
            "t".into(),
            Meter::default(),
            Window { rows: 1_000, octets: 1 << 20 },
        );
        for part in rows.chunks(300) {
            let part: Vec<Transaction> = part.iter().map(|&(time, port)| numbered(time, port)).collect();
            source.rows += part.len();
            source.merge(part);
        }
        let mut batch = Vec::new();
        while source.read(&mut batch).unwrap() {}
        assert_eq!(batch.iter().map(|row| (row.time.0, row.client.port())).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_comes_later_is_kept_and_counted() {
        let mut times: Vec<i64> = (0..20_000).collect();
        times.push(-1);
        for window in [0, 1_000] {
            let (all, tally) = sorted(times.clone(), window);
            assert_eq!(all.len(), 20_001);
            assert_eq!((tally.damaged[0].reason.as_str(), tally.damaged[0].count), ("out_of_order", 1));
            assert_eq!(tally.damaged[0].first.packet, 20_001);
        }
    }
}
