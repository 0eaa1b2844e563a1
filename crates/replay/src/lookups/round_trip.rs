//! How long a client waits for a server, by the round trips that it has seen (RFC 6298, with Unbound's limits).

/// The shortest and the longest timeout, in nanoseconds.
const SHORTEST: i64 = 50_000_000;
const LONGEST: i64 = 120_000_000_000;

/// What a client knows of the time that a server takes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    smoothed: i64,
    variation: i64,
    /// How long it waits.
    pub timeout: i64,
}

impl RoundTrip {
    /// Of a server that nothing is known of.
    pub const fn first(timeout: i64) -> Self {
        Self { smoothed: 0, variation: timeout / 4, timeout }
    }

    /// It answered within so long.
    pub fn note_answer(&mut self, took: i64) {
        let off = took.clamp(0, LONGEST) - self.smoothed;
        self.smoothed += off / 8;
        self.variation += (off.abs() - self.variation) / 4;
        self.timeout = (self.smoothed + 4 * self.variation).clamp(SHORTEST, LONGEST);
    }

    /// It did not answer within this timeout. An answer to another lookup may have come meanwhile, and have made it shorter.
    pub fn note_silence(&mut self, timeout: i64) {
        if self.timeout >= timeout {
            self.timeout = self.timeout.max(timeout.saturating_mul(2)).min(LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_timeout_falls_with_answers_and_doubles_with_silence() {
        let mut server = RoundTrip::first(376 * MS);
        server.note_answer(0);
        assert_eq!(server.timeout, 282 * MS);
        (0..50).for_each(|_| server.note_answer(0));
        assert_eq!(server.timeout, SHORTEST);
        server.note_answer(100 * MS);
        assert!((110 * MS..130 * MS).contains(&server.timeout), "{server:?}");
        let mut silent = RoundTrip::first(376 * MS);
        silent.note_silence(376 * MS);
        silent.note_silence(376 * MS);
        assert_eq!(silent.timeout, 752 * MS, "two lookups were silent at once");
        (0..20).for_each(|_| silent.note_silence(silent.timeout));
        assert_eq!(silent.timeout, LONGEST);
        silent.note_answer(i64::MAX);
        silent.note_silence(i64::MAX);
        assert_eq!(silent.timeout, LONGEST);
    }
}
