//! Counters of a running worker.

use ldplayer_core::Status;

/// The accounts of queries so far: taken = sent + not sent + still queued;
/// sent = answered + timed out + failed + still outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Queries taken from the plan.
    pub taken: u64,
    /// Queries accepted by the kernel.
    pub sent: u64,
    /// Queries answered in time.
    pub answered: u64,
    /// Queries that timed out.
    pub timed_out: u64,
    /// Queries that failed after they were sent, other than by timeout.
    pub failed: u64,
    /// Queries that were never sent.
    pub not_sent: u64,
    /// Responses that belong to no query.
    pub stray: u64,
    /// Answers to queries that had timed out.
    pub late: u64,
}

impl Counts {
    /// Counts a finished row.
    pub const fn add(&mut self, status: Status) {
        let account = match status {
            Status::Answered => &mut self.answered,
            Status::Timeout => &mut self.timed_out,
            Status::NotSent => &mut self.not_sent,
            Status::Stray => &mut self.stray,
            Status::Late => &mut self.late,
            Status::Refused | Status::Reset | Status::ConnectFailed | Status::TlsFailed => &mut self.failed,
        };
        *account += 1;
    }

    /// Sent queries with an outcome.
    pub const fn finished(&self) -> u64 {
        self.answered + self.timed_out + self.failed
    }

    /// The sum of the accounts of two workers.
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            taken: self.taken + other.taken,
            sent: self.sent + other.sent,
            answered: self.answered + other.answered,
            timed_out: self.timed_out + other.timed_out,
            failed: self.failed + other.failed,
            not_sent: self.not_sent + other.not_sent,
            stray: self.stray + other.stray,
            late: self.late + other.late,
        }
    }
}
