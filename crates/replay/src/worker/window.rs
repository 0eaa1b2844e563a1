//! The window of a replay without times: how many queries may be outstanding, and when to fill it again.

use ldplayer_net::udp::BATCH;

use super::Worker;

/// The least time of an answer that others come before, in nanoseconds: no server answers faster over connections.
const ANSWER: i64 = 1_000;
/// A replay without times that waits for many answers looks away for so long, in nanoseconds: as long as it sleeps until
/// something comes, each answer costs the server's core a wake-up of this one.
const NAP: std::ops::RangeInclusive<i64> = 20_000..=200_000;

impl Worker<'_> {
    /// Whether the window has room for a whole batch, or for a quarter of a small window: sending one by one as
    /// answers come would cost a wake-up of the server for each. Where connections are shared it is filled once half of it is
    /// free, so that several queries share a segment; where they are not, so many at once would only flood the server's queue
    /// of connections to accept.
    pub(super) fn has_window(&mut self) -> bool {
        let taken = self.transports.outstanding() + self.transports.udp.queued();
        let room = self.settings.window.saturating_sub(taken);
        if self.on_streams {
            self.filling = room > 0 && (self.filling || room >= self.settings.window / 2);
            return self.filling;
        }
        room >= BATCH.min(self.settings.window.div_ceil(4)) || (room > 0 && self.transports.udp.queued() > 0)
    }

    /// For how long a replay without times has nothing to send at least, in nanoseconds: until half of the window is free.
    pub(super) fn nap(&self) -> Option<i64> {
        let until = self.settings.window - self.settings.window / 2;
        let answers = self.transports.outstanding().saturating_sub(until) as i64;
        let nap = (answers * ANSWER).min(*NAP.end());
        (self.settings.fast && self.on_streams && !self.filling && NAP.contains(&nap)).then_some(nap)
    }
}
