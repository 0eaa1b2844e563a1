//! Counters of connections.

use super::End;

/// What became of the connections of a worker. opened = open + all that were closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Came up.
    pub opened: u64,
    /// Did not come up.
    pub failed: u64,
    /// Opened with a resumed TLS session.
    pub resumed: u64,
    /// Open now.
    pub open: u64,
    /// Most open at a time.
    pub peak_open: u64,
    /// Closed by the client for being idle.
    pub closed_idle: u64,
    /// Closed by the client after the last query that it is used for.
    pub closed_spent: u64,
    /// Closed by the client to make room for another.
    pub closed_for_room: u64,
    /// Closed by the server in order.
    pub closed_by_server: u64,
    /// Ended by a reset or an error.
    pub reset: u64,
    /// Closed by the client since the server sent too much that is of no use.
    pub flooded: u64,
    /// Queries sent again since their connection ended.
    pub resent: u64,
}

impl ConnectionCounts {
    /// One came up.
    pub fn open(&mut self) {
        self.opened += 1;
        self.open += 1;
        self.peak_open = self.peak_open.max(self.open);
    }

    /// One that was up ended.
    pub const fn close(&mut self, end: End) {
        self.open -= 1;
        let account = match end {
            End::Idle => &mut self.closed_idle,
            End::Spent => &mut self.closed_spent,
            End::Room => &mut self.closed_for_room,
            End::Closed => &mut self.closed_by_server,
            End::Reset => &mut self.reset,
            End::Flooded => &mut self.flooded,
        };
        *account += 1;
    }

    /// Those that the client closed, whatever for.
    pub const fn closed_by_client(&self) -> u64 {
        self.closed_idle + self.closed_spent + self.closed_for_room + self.flooded
    }

    /// The accounts of two workers together; of their peaks the sum, which they may not have reached at once.
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            opened: self.opened + other.opened,
            failed: self.failed + other.failed,
            resumed: self.resumed + other.resumed,
            open: self.open + other.open,
            peak_open: self.peak_open + other.peak_open,
            closed_idle: self.closed_idle + other.closed_idle,
            closed_spent: self.closed_spent + other.closed_spent,
            closed_for_room: self.closed_for_room + other.closed_for_room,
            closed_by_server: self.closed_by_server + other.closed_by_server,
            reset: self.reset + other.reset,
            flooded: self.flooded + other.flooded,
            resent: self.resent + other.resent,
        }
    }
}
