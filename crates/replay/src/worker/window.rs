//! The window of an unpaced replay: the maximum of outstanding queries, and when to refill it.

use ldplayer_core::RunTime;
use ldplayer_net::udp::BATCH;

use super::clock::RunClock;
use super::transports::{Transports, policies};
use crate::route::Sources;
use crate::settings::Settings;
use crate::table::Policy;
use crate::targets::Targets;

/// Lower bound of the time per answer over connections, in nanoseconds: no server is faster.
const ANSWER: i64 = 1_000;
/// Sleep while an unpaced replay's window is full, in nanoseconds: waking up for
/// each answer slows the server's core.
const NAP: std::ops::RangeInclusive<i64> = 20_000..=200_000;
/// How long a window over connections stays partly empty, in nanoseconds.
const FILL_EVERY: i64 = 1_000_000;
/// Queries in flight from which on a worker with frames sleeps between two looks at its ring, whatever it waits for, instead of being
/// woken for each frame: a quarter of them is then answered in less time than a sleep takes.
const MANY: usize = BATCH;

/// The window of a worker.
pub struct Window {
    clock: RunClock,
    /// Whether the replay is unpaced: a timed one has no window.
    is_unpaced: bool,
    /// Maximum of outstanding queries.
    size: usize,
    /// Maximum number of queries over UDP that are taken at once.
    batch: usize,
    /// Whether queries may share a connection.
    shares: bool,
    /// Whether the last query was for such a connection …
    on_streams: bool,
    /// … and whether the window is being filled …
    filling: bool,
    /// … or when it was last full.
    filled: RunTime,
}

impl Window {
    /// The window of a worker with these settings, which is to be filled.
    pub fn new(clock: RunClock, settings: &Settings) -> Self {
        let shares = |policy: &Policy| policy.pipeline.min(policy.queries_per_connection) > 1;
        Self {
            clock,
            is_unpaced: settings.fast,
            size: settings.window,
            batch: batch(&settings.sources, &settings.targets),
            shares: policies(settings).iter().any(shares),
            on_streams: false,
            filling: true,
            filled: RunTime(0),
        }
    }

    /// Maximum number of queries over UDP that an unpaced replay takes at once.
    pub const fn batch(&self) -> usize {
        self.batch
    }

    /// Notes whether the query that is taken now goes over UDP.
    pub const fn note_query(&mut self, is_datagram: bool) {
        self.on_streams = self.shares && !is_datagram;
    }

    /// Whether the window has room for a batch of each shared socket, or for a quarter of a small window: sending queries one by one as
    /// answers arrive would cost a wake-up of the server for each. If connections are shared, it is filled once half of it is
    /// free, so that several queries share a segment; otherwise so many at once would only flood the server's accept
    /// queue. It is filled every [`FILL_EVERY`] besides: the kernel acknowledges with the next query, or after 40 ms, and a server with
    /// Nagle's algorithm holds further answers until then.
    pub fn has_room(&mut self, transports: &mut Transports) -> bool {
        if !transports.udp.has_ids() {
            return false;
        }
        let room = self.room(transports);
        if self.on_streams {
            if room == 0 {
                self.filled = self.clock.now();
            }
            let is_silent = || room >= least_refill(self.size) && self.clock.now() - self.filled >= FILL_EVERY;
            self.filling = room > 0 && (self.filling || room >= self.size / 2 || is_silent());
            return self.filling;
        }
        room >= least_room(self.batch, self.size) || (room > 0 && transports.udp.queued() > 0)
    }

    fn room(&self, transports: &Transports) -> usize {
        self.size.saturating_sub(transports.outstanding() + transports.udp.queued())
    }

    /// Whether a window over connections has room for a refill and is not filled yet. Answers are then read as they come: sleeping for the rest of
    /// [`FILL_EVERY`] would add to their times. A full window waits for answers and for nothing else.
    pub fn waits_to_fill(&self, transports: &Transports, has_next: bool) -> bool {
        self.is_unpaced
            && self.on_streams
            && !self.filling
            && has_next
            && self.room(transports) >= least_refill(self.size)
    }

    /// When the window is filled again at the latest, in nanoseconds of run time, where it waits for that.
    pub const fn fill_deadline(&self) -> i64 {
        self.filled.0 + FILL_EVERY
    }

    /// Minimum time for which an unpaced replay has nothing to send, in nanoseconds: until the window is to be filled again.
    pub fn nap(&self, transports: &Transports) -> Option<i64> {
        let (outstanding, room) = match self.on_streams {
            true if self.filling => return None,
            true => (transports.outstanding(), self.size / 2),
            false => (transports.udp.outstanding(), least_room(self.batch, self.size)),
        };
        let answers = outstanding.saturating_sub(self.size - room) as i64;
        let nap = (answers * ANSWER).min(*NAP.end());
        (self.is_unpaced && NAP.contains(&nap)).then_some(nap)
    }

    /// The same for a worker with a ring, which looks at it after each sleep without a system call.
    pub fn nap_between_looks(&self, transports: &Transports) -> Option<i64> {
        let is_busy = self.is_unpaced && transports.outstanding() >= MANY;
        is_busy.then(|| self.nap(transports).unwrap_or(*NAP.start()))
    }
}

/// Maximum number of queries over UDP that an unpaced replay takes at once: a batch for each shared socket, since what is taken
/// is divided among them.
fn batch(sources: &Sources, targets: &Targets) -> usize {
    let families = [false, true].into_iter().filter(|&v6| targets.has_family(v6));
    BATCH * families.map(|v6| sources.spread(v6) as usize).max().unwrap_or(1)
}

/// Room in the window required to send queries over UDP.
fn least_room(batch: usize, window: usize) -> usize {
    batch.min(window.div_ceil(4))
}

/// Room in the window required to fill it before half of it is free: with less, queries would leave one by one as answers arrive.
fn least_refill(window: usize) -> usize {
    window.div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_sockets_of_few_addresses_has_a_batch_and_small_windows_are_filled_by_quarters() {
        let targets = Targets::Fixed(vec!["127.0.0.1:53".parse().unwrap()]);
        let of = |sources: &str| batch(&sources.parse().unwrap(), &targets);
        assert_eq!([of("original"), of("pool:10.0.0.0/8")], [BATCH; 2]);
        assert_eq!(of("pool:10.0.0.1/32"), 32 * BATCH);
        assert_eq!(least_room(of("pool:10.0.0.1/32"), 1_000), 250);
        assert_eq!(least_room(of("pool:10.0.0.1/32"), 200_000), 32 * BATCH);
        assert_eq!([least_room(BATCH, 1_000), least_room(BATCH, 10), least_room(BATCH, 1)], [BATCH, 3, 1]);
    }
}
