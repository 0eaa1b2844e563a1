//! Accounts for every query of a run in which agents may have been lost.

use std::collections::BTreeMap;

use crate::distribute::Hand;

/// Taken by a lost agent; sent or not.
const WITH_AGENT: &str = "with_agent";
/// Dealt to a lost agent, but not taken from its stream.
const LEFT_IN_STREAM: &str = "left_in_stream";
/// Skipped by the agent that took over.
const DUE_BEFORE: &str = "due_before_takeover";
/// Taken by an agent that came back and stopped before it read them.
const NOT_READ: &str = "not_read";

/// The final account of an agent's share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The shard it played.
    pub shard: usize,
    /// Its rows, if they were returned.
    pub rows: Option<Rows>,
    /// Queries skipped because they were due before it took over.
    pub skipped: u64,
    /// Whether it was lost, even if it came back.
    pub was_lost: bool,
    /// Whether it ended early by itself; it may then have sent queries without a row.
    pub ended_early: bool,
}

/// The returned rows of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Queries with a row.
    pub queries: u64,
    /// Queries that the agent had read.
    pub read: u64,
}

/// The queries of the run, and those without a row by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub queries: u64,
    pub lost: BTreeMap<String, u64>,
}

/// Sums up all shards. `taken` is the number of batches that left the stream of a shard, if known. If the run was ended early
/// (`is_cut_short`), agents did not read everything that was dealt to them.
pub fn account(hands: &[Hand], shares: &[Share], is_cut_short: bool, taken: impl Fn(usize) -> Option<u64>) -> Account {
    let mut account = Account::default();
    for (shard, hand) in hands.iter().enumerate() {
        let of_shard: Vec<Share> = shares.iter().filter(|share| share.shard == shard).copied().collect();
        if of_shard.iter().any(|share| share.was_lost) {
            account.queries += hand.queries;
            let took_over = of_shard.len() > 1;
            let left = if took_over { 0 } else { taken(shard).map_or(0, |taken| hand.left(taken)) };
            account.add_lost(hand, &of_shard, left);
        } else if is_cut_short {
            account.queries += of_shard.iter().filter_map(|share| share.rows).map(|rows| rows.read).sum::<u64>();
        } else {
            account.queries += hand.queries;
        }
    }
    account
}

impl Account {
    fn add_lost(&mut self, hand: &Hand, shares: &[Share], left: u64) {
        let rows: u64 = shares.iter().filter_map(|share| share.rows).map(|rows| rows.queries).sum();
        let missing = hand.queries.saturating_sub(rows);
        let left = left.min(missing);
        let skipped = shares.iter().map(|share| share.skipped).sum::<u64>().min(missing - left);
        let tells_all = |share: &Share| share.rows.is_some() && !share.ended_early;
        let rest = if shares.iter().all(tells_all) { NOT_READ } else { WITH_AGENT };
        for (why, queries) in [(LEFT_IN_STREAM, left), (DUE_BEFORE, skipped), (rest, missing - left - skipped)] {
            if queries > 0 {
                *self.lost.entry(why.to_owned()).or_default() += queries;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hand(batches: &[u32]) -> Hand {
        Hand { queries: batches.iter().map(|&queries| u64::from(queries)).sum(), batches: batches.to_vec() }
    }

    fn returned(shard: usize, queries: u64) -> Share {
        Share { shard, rows: Some(Rows { queries, read: queries }), ..Share::default() }
    }

    fn lost(shard: usize) -> Share {
        Share { shard, was_lost: true, ..Share::default() }
    }

    fn reasons(account: &Account) -> Vec<(&str, u64)> {
        account.lost.iter().map(|(why, &queries)| (why.as_str(), queries)).collect()
    }

    #[test]
    fn nothing_is_lost_where_all_agents_are_here() {
        let account = account(&[hand(&[3, 4]), hand(&[5])], &[returned(0, 7), returned(1, 5)], false, |_| None);
        assert_eq!(account, Account { queries: 12, lost: BTreeMap::new() });
    }

    #[test]
    fn rows_that_are_missing_of_an_agent_that_is_here_are_not_made_up() {
        let account = account(&[hand(&[3, 4])], &[returned(0, 6)], false, |_| None);
        assert_eq!((account.queries, account.lost.len()), (7, 0), "the accounts of the run must fail");
    }

    #[test]
    fn what_a_lost_agent_took_and_what_it_left_are_told_apart() {
        let account = account(&[hand(&[3, 4]), hand(&[5, 6, 7])], &[returned(0, 7), lost(1)], false, |_| Some(1));
        assert_eq!(account.queries, 25);
        assert_eq!(reasons(&account), [(LEFT_IN_STREAM, 13), (WITH_AGENT, 5)]);
    }

    #[test]
    fn who_takes_over_has_rows_of_the_rest() {
        let after = Share { skipped: 4, ..returned(0, 8) };
        let account = account(&[hand(&[10, 10])], &[lost(0), after], false, |_| Some(2));
        assert_eq!((account.queries, reasons(&account)), (20, vec![(DUE_BEFORE, 4), (WITH_AGENT, 8)]));
    }

    #[test]
    fn an_agent_that_comes_back_has_sent_nothing_that_it_has_no_row_of() {
        let back = Share { was_lost: true, ..returned(0, 6) };
        let after = Share { skipped: 4, ..returned(0, 8) };
        let account = account(&[hand(&[10, 10])], &[back, after], false, |_| Some(2));
        assert_eq!((account.queries, reasons(&account)), (20, vec![(DUE_BEFORE, 4), (NOT_READ, 2)]));
    }

    #[test]
    fn an_agent_with_a_full_disk_may_have_sent_what_it_has_no_row_of() {
        let full = Share { was_lost: true, ended_early: true, ..returned(0, 6) };
        let account = account(&[hand(&[10, 10])], &[full], false, |_| Some(1));
        assert_eq!((account.queries, reasons(&account)), (20, vec![(LEFT_IN_STREAM, 10), (WITH_AGENT, 4)]));
    }

    #[test]
    fn the_trace_of_a_run_that_was_ended_early_is_what_was_read() {
        let account = account(&[hand(&[9]), hand(&[9])], &[returned(0, 5), lost(1)], true, |_| Some(0));
        assert_eq!((account.queries, reasons(&account)), (14, vec![(LEFT_IN_STREAM, 9)]));
    }
}
