//! What a server may send on a connection that is of no use, before the client closes it.
//!
//! Costs are in octets. What answers a query costs nothing and makes up for costs before it; time does, too, so that a server may
//! say now and then that it is there.

use ldplayer_core::RunTime;
use ldplayer_core::time::NS_PER_S;

/// What a message, frame or record of no use costs beside its octets: the time that it takes to look at.
pub const ITEM: u32 = 256;
/// What a message costs that asks for a derivation of keys: a session ticket, or a new key of TLS.
pub const KEYS: u32 = 4_096;
/// What a server may spend without a query …
const ALLOWANCE: u64 = 256 << 10;
/// … for each query behind others in one stream, which is as much as the padding of a record, twice …
pub const PER_MESSAGE: u64 = 32 << 10;
/// … or for each query with a stream of its own, which is as much as flow control lets the server send before it knows that the answer
/// is not wanted, and what is around it …
pub const PER_STREAM: u64 = 160 << 10;
/// … of so many of them at most: a connection that was useful for long is closed as soon as others …
const QUERIES: u32 = 256;
/// … and what is made up for in a second.
const PER_SECOND: i64 = 16 << 10;
/// What a zone transfer may have behind its first message, which is all that is an answer to a query here: a large zone.
const TRANSFER: u64 = 8 << 30;

/// What the server of one connection has spent.
#[derive(Debug, Default)]
pub struct Budget {
    spent: u64,
    /// When time last made up for some of it.
    since: RunTime,
    /// What it may spend beside what all servers may.
    extra: u64,
}

impl Budget {
    /// The server spends this much at `now`, on a connection that has had so many queries, with so much for each. Returns whether that
    /// is too much.
    pub fn spend(&mut self, cost: u32, (queries, each): (u32, u64), now: RunTime) -> bool {
        let passed = (now - self.since).clamp(0, 3_600 * NS_PER_S);
        if passed > 0 {
            self.earn((passed / 1_000 * PER_SECOND / 1_000_000) as u64);
            self.since = now;
        }
        self.spent += u64::from(cost);
        self.spent > ALLOWANCE + self.extra + each * u64::from(queries.min(QUERIES))
    }

    /// A query was answered with so many octets; adds the allowance for each.
    pub const fn answer(&mut self, octets: usize, each: u64) {
        self.earn(each + 2 * octets as u64);
    }

    /// Something of use came.
    pub const fn earn(&mut self, octets: u64) {
        self.spent = self.spent.saturating_sub(octets);
    }

    /// The first message came of a zone transfer.
    pub const fn allow_transfer(&mut self) {
        self.extra = TRANSFER;
    }

    /// Whether it is as at the beginning.
    pub const fn is_whole(&self) -> bool {
        self.spent == 0 && self.extra == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = NS_PER_S;

    /// Whether a server may spend `each` so many times, at these intervals in nanoseconds.
    fn lasts(budget: &mut Budget, each: u32, times: u32, queries: u32, interval: i64) -> bool {
        (1..=i64::from(times)).all(|number| !budget.spend(each, (queries, PER_MESSAGE), RunTime(number * interval)))
    }

    #[test]
    fn a_server_that_says_now_and_then_that_it_is_there_may_do_so_for_days() {
        let ping = ITEM + 17;
        assert!(lasts(&mut Budget::default(), ping, 1_000_000, 0, SECOND / 10));
        assert!(!lasts(&mut Budget::default(), ping, 1_000_000, 0, SECOND / 1_000));
    }

    #[test]
    fn what_nobody_asked_for_is_bounded_and_each_query_allows_more() {
        let allowed = |queries| (1..).find(|&times| !lasts(&mut Budget::default(), ITEM, times, queries, 0)).unwrap();
        assert_eq!([allowed(0), allowed(1), allowed(2)], [1_025, 1_153, 1_281]);
        assert_eq!(allowed(256), allowed(1_000_000), "a connection that was useful for long is no exception");
    }

    #[test]
    fn answers_make_up_for_what_comes_with_them() {
        let mut budget = Budget::default();
        for queries in 1..100_000 {
            // Each answer comes twice, and is padded to the longest record.
            assert!(!budget.spend(2 * 16_384 + ITEM, (queries, PER_MESSAGE), RunTime(0)));
            budget.answer(512, PER_MESSAGE);
        }
        assert!(budget.is_whole());
    }

    #[test]
    fn a_zone_of_gigabytes_is_no_flood() {
        let mut budget = Budget::default();
        budget.allow_transfer();
        assert!(lasts(&mut budget, 65_535 + ITEM, 100_000, 1, 0));
        assert!(!budget.is_whole());
    }
}
