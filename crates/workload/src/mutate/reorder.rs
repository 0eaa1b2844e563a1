//! Restores time order after rules have moved transactions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ldplayer_core::{TraceTime, Transaction};

/// Maximum number of transactions held back; beyond that, the earliest is released.
const MAX_WAITING: usize = 128 * 1024;
/// Maximum size in octets of messages held back.
const MAX_OCTETS: usize = 32 << 20;

/// Holds transactions back until no earlier one can follow.
#[derive(Debug, Default)]
pub struct Reorder {
    waiting: BinaryHeap<Reverse<Waiting>>,
    octets: usize,
    given: u64,
    newest_out: Option<TraceTime>,
    late: u64,
}

/// A transaction held back; the number keeps those of the same time in order.
#[derive(Debug)]
struct Waiting {
    number: u64,
    row: Transaction,
}

impl Waiting {
    fn key(&self) -> (TraceTime, u64) {
        (self.row.time, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Reorder {
    /// Adds a transaction.
    pub fn push(&mut self, row: Transaction) {
        self.octets += row.message_octets();
        self.given += 1;
        self.waiting.push(Reverse(Waiting { number: self.given, row }));
    }

    /// Releases transactions before `until`, and those beyond the limit.
    pub fn release(&mut self, until: TraceTime, out: &mut Vec<Transaction>) {
        while let Some(Reverse(Waiting { row, .. })) = self.waiting.peek() {
            if row.time >= until && self.waiting.len() <= MAX_WAITING && self.octets <= MAX_OCTETS {
                break;
            }
            self.pop(out);
        }
    }

    /// Releases everything.
    pub fn finish(&mut self, out: &mut Vec<Transaction>) {
        while !self.waiting.is_empty() {
            self.pop(out);
        }
    }

    /// Transactions released after later ones because of the limits.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn pop(&mut self, out: &mut Vec<Transaction>) {
        let Some(Reverse(Waiting { row, .. })) = self.waiting.pop() else { return };
        self.octets -= row.message_octets();
        self.late += u64::from(self.newest_out > Some(row.time));
        self.newest_out = self.newest_out.max(Some(row.time));
        out.push(row);
    }
}
