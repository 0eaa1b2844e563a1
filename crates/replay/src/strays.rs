//! Which responses that belong to no query have rows: a server can send any number of them.

use ldplayer_core::Reason;

/// Rows that they have in each machine, however little was sent.
const ROWS: u64 = 10_000;

/// The responses of one machine that belong to no query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    rows: u64,
    unlisted: [u64; Reason::ALL.len()],
}

impl Strays {
    /// Counts one that came once `sent` queries had been sent. Returns whether it has a row: no more have one than queries, beyond
    /// some thousands.
    pub const fn add(&mut self, reason: Reason, sent: u64) -> bool {
        let is_listed = self.rows < ROWS + sent;
        if is_listed {
            self.rows += 1;
        } else {
            self.unlisted[reason as usize] += 1;
        }
        is_listed
    }

    /// Those without a row, by reason.
    pub fn unlisted(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.unlisted).filter(|&(_, count)| count > 0)
    }

    /// Those of two machines.
    pub fn plus(&self, other: &Self) -> Self {
        let unlisted = std::array::from_fn(|at| self.unlisted[at] + other.unlisted[at]);
        Self { rows: self.rows + other.rows, unlisted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_thousand_and_as_many_as_queries_have_rows_and_all_are_counted() {
        let mut strays = Strays::default();
        let listed = (0..50_000).filter(|_| strays.add(Reason::Duplicate, 7)).count();
        assert_eq!(listed, 10_007);
        assert!(!strays.add(Reason::Garbage, 7) && strays.add(Reason::Garbage, 8));
        let all: Vec<_> = strays.plus(&strays).unlisted().collect();
        assert_eq!(all, [(Reason::Duplicate, 2 * 39_993), (Reason::Garbage, 2)]);
    }
}
