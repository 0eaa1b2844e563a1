//! The recorded answers of a trace, to compare a run with.

use std::collections::BTreeMap;

use ldplayer_core::{Message, Transaction};
use ldplayer_trace::columns::rcode_name;

/// Number of codes counted in a table; greater ones, which need EDNS, are in a map.
const COMMON: usize = 24;

/// Counts of the recorded answers to planned queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    common: [u64; COMMON],
    others: BTreeMap<u16, u64>,
    unanswered: u64,
    retries: u64,
}

impl Recorded {
    /// Counts the answer of a planned query.
    pub(crate) fn count(&mut self, transaction: &Transaction) {
        self.retries += u64::from(transaction.retry_of.is_some());
        match transaction.response.as_deref().and_then(Message::new) {
            None => self.unanswered += 1,
            Some(response) => {
                let rcode = response.rcode();
                match self.common.get_mut(usize::from(rcode)) {
                    Some(count) => *count += 1,
                    None => *self.others.entry(rcode).or_default() += 1,
                }
            }
        }
    }

    /// Queries with a recorded response, by the mnemonic of its response code.
    pub fn rcodes(&self) -> BTreeMap<String, u64> {
        let common = (0..).zip(self.common).filter(|(_, count)| *count > 0);
        common.chain(self.others.clone()).map(|(rcode, count)| (rcode_name(rcode).to_string(), count)).collect()
    }

    /// Queries without a recorded response.
    pub const fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Queries that are marked as retries.
    pub const fn retries(&self) -> u64 {
        self.retries
    }

    /// Whether there are any answers: a trace of queries alone says nothing about the server.
    pub fn has_answers(&self) -> bool {
        !self.others.is_empty() || self.common.iter().any(|&count| count > 0)
    }
}
