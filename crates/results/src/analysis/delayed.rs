//! Whether answers over connections came late by the time for which a kernel delays an acknowledgement: a step of 40 ms.
//!
//! A sender with Nagle's algorithm (RFC 9293 §3.7.4) holds a short segment until the one before is acknowledged, and a receiver that has
//! nothing to send delays that (RFC 9293 §3.8.6.3), under Linux by 40 ms.

use ldplayer_core::Transport;

use super::spread::Censored;

/// The transports over TCP.
const OVER_TCP: [Transport; 3] = [Transport::Tcp, Transport::Dot, Transport::Doh2];
/// The step begins so many nanoseconds behind the quick answers, and is so wide.
const DELAY: i64 = 38_000_000;
const WIDTH: i64 = 8_000_000;
/// Quick answers: this share of all is as quick or quicker. If it takes longer than the following, no step can be told from it.
const QUICK: f64 = 0.05;
const SLOWEST_QUICK: i64 = 20_000_000;
/// The step has this share of the answers and so many at least, and so many times more than its neighbours together, each as wide.
const SHARE: f64 = 0.005;
const LEAST: u64 = 20;
const TIMES: u64 = 5;

/// Answers in such a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delayed {
    /// What carried them.
    pub transport: Transport,
    /// Their share of the answers over it.
    pub share: f64,
}

/// The transport with the greatest share of such answers, if one has any.
pub(super) fn most(by_transport: &mut [Censored; Transport::ALL.len()]) -> Option<Delayed> {
    let of = |transport: Transport| Some(Delayed { transport, share: share(&mut by_transport[transport as usize])? });
    OVER_TCP.into_iter().filter_map(of).max_by(|a, b| a.share.total_cmp(&b.share))
}

fn share(latencies: &mut Censored) -> Option<f64> {
    let answers = latencies.known_mut();
    let quick = answers.quantile(QUICK).filter(|&quick| quick < SLOWEST_QUICK)?;
    let start = quick + DELAY;
    let [before, from, to, behind] =
        [start - WIDTH, start, start + WIDTH, start + 2 * WIDTH].map(|ns| answers.up_to(ns));
    let (step, beside) = (to - from, from - before + (behind - to));
    let share = step as f64 / answers.len() as f64;
    (step >= LEAST && share >= SHARE && step >= TIMES * beside).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share found among answers over TCP that took so many milliseconds.
    fn found(ms: impl IntoIterator<Item = f64>) -> Option<f64> {
        let mut all: [Censored; Transport::ALL.len()] = Default::default();
        ms.into_iter().for_each(|ms| all[Transport::Tcp as usize].push(Some((ms * 1e6) as i64)));
        most(&mut all).map(|delayed| delayed.share)
    }

    fn spread(count: u32, from: f64, to: f64) -> impl Iterator<Item = f64> {
        (0..count).map(move |at| from + (to - from) * f64::from(at) / f64::from(count))
    }

    #[test]
    fn a_step_behind_quick_answers_is_told_with_its_share() {
        let share = found(spread(900, 0.1, 2.0).chain(spread(100, 40.1, 44.0))).unwrap();
        assert!((share - 0.1).abs() < 1e-9);
        assert!(found(spread(900, 10.0, 12.0).chain(spread(100, 50.5, 53.0))).is_some(), "behind a way of 10 ms");
        let most_wait = found(spread(300, 0.1, 1.0).chain(spread(700, 41.0, 44.0))).unwrap();
        assert!(most_wait > 0.69, "{most_wait}");
    }

    #[test]
    fn a_way_of_40_ms_is_no_step() {
        assert_eq!(found(spread(1_000, 40.0, 44.0)), None);
        assert_eq!(found(spread(20, 0.1, 0.2).chain(spread(980, 40.0, 44.0))), None, "but for a few");
    }

    #[test]
    fn answers_that_are_slow_anyhow_are_no_step() {
        assert_eq!(found(spread(900, 0.1, 2.0).chain(spread(100, 10.0, 90.0))), None);
        assert_eq!(found(spread(10_000, 0.1, 2.0).chain(spread(30, 40.1, 44.0))), None, "too few");
        assert_eq!(found([]), None);
    }
}
