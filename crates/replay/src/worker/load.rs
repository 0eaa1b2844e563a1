//! Distinguishes a saturated worker from one that spins until its next query is due.

use ldplayer_core::RunTime;

/// Minimum length of a period over which load is judged, in nanoseconds.
const PIECE: i64 = 100_000_000;
/// A worker that is idle for less than a twentieth of the time is busy.
const REST: i64 = 20;
/// Queries are late from this many nanoseconds on.
const LATE: i64 = 10_000_000;

/// How long a worker could not keep up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saturation {
    /// Nanoseconds during which it was busy while its queries became later and later, or during which it sent as fast as it could.
    pub saturated_ns: i64,
    /// Nanoseconds of these in which other threads had its core.
    pub starved_ns: i64,
    /// Nanoseconds of the whole run in which it waited for the recorder.
    pub blocked_ns: i64,
    /// The largest lateness of a query meanwhile, in nanoseconds.
    pub worst_lag_ns: i64,
}

/// The load of one worker by period.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Unpaced: the worker is saturated when it is busy.
    unpaced: bool,
    /// Queries overdue by more are not sent, so that lateness does not grow beyond.
    max_lag: Option<i64>,
    piece: Option<Piece>,
    round: Round,
    /// The largest lateness of the previous period.
    lag_before: i64,
    saturation: Saturation,
}

#[derive(Debug)]
struct Piece {
    began: RunTime,
    /// Processor time of the thread at its beginning.
    cpu: i64,
    rested: i64,
    blocked: i64,
    lag: i64,
}

#[derive(Debug, Default)]
struct Round {
    began: RunTime,
    slept: i64,
    was_idle: bool,
}

impl Load {
    pub(super) fn new(unpaced: bool, max_lag: Option<i64>) -> Self {
        Self { unpaced, max_lag, ..Self::default() }
    }

    /// A round begins. The previous one was idle for the time that it slept, or entirely if it found nothing to do.
    pub(super) fn begin_round(&mut self, now: RunTime) {
        let length = now - self.round.began;
        let rest = if self.round.was_idle { length } else { self.round.slept };
        if let Some(piece) = &mut self.piece {
            piece.rested += rest.clamp(0, length.max(0));
        }
        self.round = Round { began: now, ..Round::default() };
    }

    /// The round found nothing to do.
    pub(super) const fn note_idle(&mut self) {
        self.round.was_idle = true;
    }

    /// The round slept for this long.
    pub(super) const fn note_sleep(&mut self, ns: i64) {
        self.round.slept += ns;
    }

    /// The worker waited for the recorder for this long.
    pub(super) const fn note_blocked(&mut self, ns: i64) {
        self.saturation.blocked_ns += ns;
        if let Some(piece) = &mut self.piece {
            piece.blocked += ns;
        }
    }

    /// A query is late by this much.
    pub(super) fn note_lag(&mut self, lag: i64) {
        if let Some(piece) = &mut self.piece {
            piece.lag = piece.lag.max(lag);
        }
    }

    /// Whether to end the period, for which the thread's processor time must be read.
    pub(super) fn is_due(&self, now: RunTime) -> bool {
        self.piece.as_ref().is_none_or(|piece| now - piece.began >= PIECE)
    }

    /// Ends a period, and begins the next one.
    pub(super) fn end_piece(&mut self, now: RunTime, cpu: i64) {
        let next = Piece { began: now, cpu, rested: 0, blocked: 0, lag: 0 };
        if let Some(piece) = self.piece.replace(next) {
            self.judge(&piece, now - piece.began, cpu - piece.cpu);
            self.lag_before = piece.lag;
        }
    }

    fn judge(&mut self, piece: &Piece, length: i64, ran: i64) {
        let no_rest = piece.rested.saturating_mul(REST) < length;
        // A worker that catches up after a stall is late, too, but less with each period.
        let at_the_limit = self.max_lag.is_some_and(|most| piece.lag >= most - most / 10);
        let later = piece.lag >= LATE && (piece.lag > self.lag_before || at_the_limit);
        if no_rest && (later || self.unpaced) {
            self.saturation.saturated_ns += length;
            self.saturation.starved_ns += (length - ran - piece.blocked).clamp(0, length);
            self.saturation.worst_lag_ns = self.saturation.worst_lag_ns.max(piece.lag);
        }
    }

    pub(super) const fn saturation(&self) -> Saturation {
        self.saturation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Plays two seconds of rounds of a millisecond; what happens in each is up to `each`, by its number.
    fn play(mut load: Load, share_on_core: f64, each: impl Fn(&mut Load, i64)) -> Saturation {
        for round in 0..=2_000 {
            let now = RunTime(round * MS);
            load.begin_round(now);
            if load.is_due(now) {
                load.end_piece(now, (now.0 as f64 * share_on_core) as i64);
            }
            each(&mut load, round);
        }
        load.saturation()
    }

    fn paced() -> Load {
        Load::new(false, Some(1_000 * MS))
    }

    /// `--precision high`: the core is busy all the time, and most of it is waiting.
    #[test]
    fn spinning_is_rest() {
        let spins = |load: &mut Load, round: i64| {
            load.note_lag(round * MS);
            if round % 5 == 0 {
                load.note_idle();
            }
        };
        assert_eq!(play(paced(), 1.0, spins), Saturation::default());
        let sleeps = |load: &mut Load, _: i64| load.note_sleep(MS / 10);
        assert_eq!(play(Load::new(true, None), 0.9, sleeps), Saturation::default());
    }

    #[test]
    fn no_rest_and_later_and_later_is_saturation() {
        let overload = |load: &mut Load, round: i64| load.note_lag(round * MS / 2);
        let found = play(paced(), 1.0, overload);
        assert!((1_800 * MS..=2_000 * MS).contains(&found.saturated_ns) && found.starved_ns == 0, "{found:?}");
        assert!(found.worst_lag_ns > 900 * MS);
        // At the limit nothing becomes later any more.
        let cut_off = |load: &mut Load, _: i64| load.note_lag(999 * MS);
        assert!(play(paced(), 1.0, cut_off).saturated_ns >= 1_800 * MS);
        // Others had the core for half of the time.
        let found = play(paced(), 0.5, overload);
        assert!((found.starved_ns - found.saturated_ns / 2).abs() < 10 * MS, "{found:?}");
    }

    #[test]
    fn busy_and_on_time_or_catching_up_is_not_saturation() {
        assert_eq!(play(paced(), 1.0, |load, _| load.note_lag(MS)).saturated_ns, 0);
        // After a stall: late, and less so with each query.
        let catches_up = |load: &mut Load, round: i64| load.note_lag((500 - round / 4) * MS);
        let found = play(paced(), 1.0, catches_up);
        assert!(found.saturated_ns <= 100 * MS, "{found:?}");
    }

    #[test]
    fn without_times_no_rest_is_enough_and_waiting_for_rows_is_no_loss_of_the_core() {
        assert!(play(Load::new(true, None), 1.0, |_, _| {}).saturated_ns >= 1_900 * MS);
        let blocked = |load: &mut Load, _: i64| load.note_blocked(MS / 2);
        let found = play(Load::new(true, None), 0.5, blocked);
        assert!(found.starved_ns < 20 * MS && found.blocked_ns >= 1_000 * MS, "{found:?}");
    }
}
