//! Compares two traces: transactions in only one of them, and fields that differ.

use std::collections::{BTreeMap, VecDeque};

use ldplayer_core::Transaction;
use ldplayer_trace::{Source, TraceError};
use serde::Serialize;

use super::account::Example;
use super::fields::{NAMES, difference, words};

/// How transactions of two traces are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// By time; several of the same time in order.
    Time,
    /// In order, regardless of time.
    Row,
}

/// The differences.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Transactions of the first trace.
    pub a: u64,
    /// Transactions of the second trace.
    pub b: u64,
    /// Those only in the first one.
    pub only_a: u64,
    /// Those only in the second one.
    pub only_b: u64,
    /// Equal pairs, ignoring the ID, which text traces do not have.
    pub same: u64,
    /// Pairs that differ.
    pub differing: u64,
    /// Pairs that differ in a field. Those that differ in something without a field are under `other`.
    pub fields: BTreeMap<&'static str, u64>,
    /// The first pairs that differ, by their rows in the first trace.
    pub examples: Vec<Example>,
}

/// Compares two traces, and keeps the first `examples` of the differing pairs.
///
/// # Errors
/// When one of them cannot be read.
pub fn compare(
    a: &mut dyn Source,
    b: &mut dyn Source,
    pairing: Pairing,
    examples: usize,
) -> Result<Difference, TraceError> {
    let (mut a, mut b) = (Rows::new(a), Rows::new(b));
    let mut found = Difference::default();
    loop {
        let (next_a, next_b) = (a.peek()?.map(|row| row.time), b.peek()?.map(|row| row.time));
        let (from_a, from_b) = match (next_a, next_b) {
            (None, None) => break,
            (Some(_), None) => (true, false),
            (None, Some(_)) => (false, true),
            (Some(of_a), Some(of_b)) if pairing == Pairing::Time => (of_a <= of_b, of_b <= of_a),
            _ => (true, true),
        };
        match (from_a.then(|| a.take()).flatten(), from_b.then(|| b.take()).flatten()) {
            (Some(row_a), Some(row_b)) => found.pair(&row_a, &row_b, examples),
            (Some(_), None) => found.only_a += 1,
            _ => found.only_b += 1,
        }
        found.a += u64::from(from_a);
        found.b += u64::from(from_b);
    }
    Ok(found)
}

impl Difference {
    fn pair(&mut self, a: &Transaction, b: &Transaction, examples: usize) {
        if is_same(a, b) {
            self.same += 1;
            return;
        }
        self.differing += 1;
        let (before, after) = (words(a), words(b));
        let differing = (0..NAMES.len()).filter(|&at| before[at] != after[at]);
        let mut is_explained = false;
        for at in differing {
            *self.fields.entry(NAMES[at]).or_default() += 1;
            is_explained = true;
        }
        if !is_explained {
            *self.fields.entry("other").or_default() += 1;
        }
        if self.examples.len() < examples {
            self.examples.push(Example { index: self.a, text: difference(&before, &after) });
        }
    }
}

/// Whether two transactions are equal, ignoring the IDs of their messages.
fn is_same(a: &Transaction, b: &Transaction) -> bool {
    let without_id =
        |message: &Option<bytes::Bytes>| message.as_ref().map(|message| message.slice(message.len().min(2)..));
    let is_same_but_for_messages = (a.time, a.client, a.server, a.transport, a.stream, a.response_delay)
        == (b.time, b.client, b.server, b.transport, b.stream, b.response_delay);
    is_same_but_for_messages
        && without_id(&a.query) == without_id(&b.query)
        && without_id(&a.response) == without_id(&b.response)
}

/// A source row by row.
struct Rows<'a> {
    source: &'a mut dyn Source,
    waiting: VecDeque<Transaction>,
    ended: bool,
}

impl<'a> Rows<'a> {
    fn new(source: &'a mut dyn Source) -> Self {
        Self { source, waiting: VecDeque::new(), ended: false }
    }

    fn peek(&mut self) -> Result<Option<&Transaction>, TraceError> {
        let mut batch = Vec::new();
        while self.waiting.is_empty() && !self.ended {
            self.ended = !self.source.read(&mut batch)?;
            self.waiting.extend(batch.drain(..));
        }
        Ok(self.waiting.front())
    }

    fn take(&mut self) -> Option<Transaction> {
        self.waiting.pop_front()
    }
}
