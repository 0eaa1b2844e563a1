//! Arrival processes: rates over time, and query times drawn from them.

use ldplayer_core::random::{draw, unit};

/// A rate over time, in queries per second and seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// A constant number of nanoseconds between queries.
    Gap(i64),
    /// Linear pieces, repeated periodically: seconds, rate at the start, rate at the end.
    Pieces(Vec<(f64, f64, f64)>),
    /// Alternating low and high rates, each for an exponentially distributed time (a Markov-modulated Poisson process with two
    /// states; Fischer and Meier-Hellstern, "The MMPP cookbook", 1993).
    Bursts {
        /// Rates of both states.
        rates: [f64; 2],
        /// Mean seconds in each.
        means: [f64; 2],
    },
}

impl Rate {
    /// A constant rate.
    pub fn constant(qps: f64) -> Self {
        Self::Pieces(vec![(1.0, qps, qps)])
    }

    /// The long-term mean in queries per second.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Gap(gap) => 1e9 / *gap as f64,
            Self::Pieces(pieces) => {
                let queries: f64 = pieces.iter().map(|(length, from, to)| length * (from + to) / 2.0).sum();
                queries / pieces.iter().map(|(length, ..)| length).sum::<f64>()
            }
            Self::Bursts { rates, means } => (rates[0] * means[0] + rates[1] * means[1]) / (means[0] + means[1]),
        }
    }

    /// The same shape, scaled to another mean.
    pub fn scaled_to(self, qps: f64) -> Self {
        let factor = qps / self.mean();
        match self {
            Self::Gap(_) => Self::Gap((1e9 / qps).round().max(1.0) as i64),
            Self::Pieces(pieces) => Self::Pieces(
                pieces.into_iter().map(|(length, from, to)| (length, from * factor, to * factor)).collect(),
            ),
            Self::Bursts { rates, means } => Self::Bursts { rates: rates.map(|rate| rate * factor), means },
        }
    }
}

/// Query times in nanoseconds from the start.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rate: Rate,
    /// Whether queries are evenly spaced in the rate's integral, rather than random (Poisson).
    is_even: bool,
    key: u64,
    count: u64,
    /// Number of pieces begun.
    pieces: u64,
    /// The current piece: start in seconds, length, rate at the start and at the end.
    piece: (f64, f64, f64, f64),
    /// Seconds into the piece.
    within: f64,
}

impl Arrivals {
    /// Draws times from `key`.
    pub fn new(rate: Rate, is_even: bool, key: u64) -> Self {
        let mut arrivals = Self { rate, is_even, key, count: 0, pieces: 0, piece: (0.0, 0.0, 0.0, 0.0), within: 0.0 };
        arrivals.begin_piece();
        arrivals
    }

    /// The next time.
    pub fn next(&mut self) -> i64 {
        let count = self.count;
        self.count += 1;
        if let Rate::Gap(gap) = self.rate {
            return gap.saturating_mul(count as i64);
        }
        let mut wanted = match (self.is_even, count) {
            (true, 0) => 0.0,
            (true, _) => 1.0,
            (false, _) => -unit(draw(self.key, count)).ln(),
        };
        loop {
            let (start, length, from, to) = self.piece;
            let rate = from + (to - from) * (self.within / length);
            let left = (rate + to) / 2.0 * (length - self.within);
            if wanted <= left {
                self.within += step(rate, (to - from) / length, wanted).min(length - self.within);
                return ((start + self.within) * 1e9).round() as i64;
            }
            wanted -= left;
            self.begin_piece();
        }
    }

    fn begin_piece(&mut self) {
        let (start, length, ..) = self.piece;
        let number = self.pieces;
        self.pieces += 1;
        let (next_length, from, to) = match &self.rate {
            Rate::Gap(_) => (1.0, 0.0, 0.0),
            Rate::Pieces(pieces) => pieces[number as usize % pieces.len()],
            Rate::Bursts { rates, means } => {
                let state = number as usize % 2;
                let length = -unit(draw(!self.key, number)).ln() * means[state];
                (length, rates[state], rates[state])
            }
        };
        (self.piece, self.within) = ((start + length, next_length, from, to), 0.0);
    }
}

/// Seconds until the integral of a rate with constant `slope` (per second) reaches `wanted`.
fn step(rate: f64, slope: f64, wanted: f64) -> f64 {
    // The root of slope/2·t² + rate·t = wanted, in a form that is numerically stable for small slopes.
    let root = (rate * rate + 2.0 * slope * wanted).max(0.0).sqrt();
    if wanted == 0.0 { 0.0 } else { 2.0 * wanted / (rate + root) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rate: Rate, is_even: bool, until: f64) -> Vec<i64> {
        let mut arrivals = Arrivals::new(rate, is_even, 7);
        std::iter::from_fn(|| Some(arrivals.next())).take_while(|&time| (time as f64) < until * 1e9).collect()
    }

    #[test]
    fn gaps_are_exact() {
        let times = times(Rate::Gap(100_000), true, 10.0);
        assert_eq!((times.len(), times[0], times[99_999]), (100_000, 0, 9_999_900_000));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread() {
        let times = times(Rate::constant(5_000.0), false, 20.0);
        assert!((98_500..101_500).contains(&times.len()), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((0.98..1.02).contains(&(deviation / mean)), "{mean} {deviation}");
    }

    #[test]
    fn ramps_rise_from_the_first_rate_to_the_last() {
        let ramp = Rate::Pieces(vec![(10.0, 0.0, 2_000.0)]);
        let times = times(ramp, true, 10.0);
        assert!((9_999..=10_000).contains(&times.len()), "{}", times.len());
        let second = |s: i64| times.iter().filter(|&&time| time / 1_000_000_000 == s).count();
        assert!((99..=101).contains(&second(0)) && (1_899..=1_901).contains(&second(9)), "{} {}", second(0), second(9));
    }

    #[test]
    fn steps_follow_each_other_and_begin_again() {
        let steps = Rate::Pieces(vec![(1.0, 100.0, 100.0), (1.0, 0.0, 0.0), (1.0, 300.0, 300.0)]);
        assert_eq!(steps.mean().round(), 133.0);
        let times = times(steps, true, 6.0);
        let second = |s: i64| times.iter().filter(|&&time| time / 1_000_000_000 == s).count() as i64;
        for (s, wanted) in [(0, 100), (1, 0), (2, 300), (3, 100), (4, 0), (5, 300)] {
            assert!((second(s) - wanted).abs() <= 1, "{s}: {}", second(s));
        }
    }

    #[test]
    fn bursts_have_both_rates() {
        let bursts = Rate::Bursts { rates: [10.0, 1_000.0], means: [2.0, 0.5] };
        let times = times(bursts.clone(), false, 2_000.0);
        let mean = times.len() as f64 / 2_000.0;
        assert!((0.9..1.1).contains(&(mean / bursts.mean())), "{mean}");
        let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().filter(|&&gap| gap < 10_000_000).count() > gaps.len() / 2);
        assert!(gaps.iter().any(|&gap| gap > 200_000_000));
    }

    #[test]
    fn scaling_keeps_the_shape() {
        for rate in [
            Rate::Gap(1_000),
            Rate::Pieces(vec![(1.0, 1.0, 3.0)]),
            Rate::Bursts { rates: [1.0, 9.0], means: [1.0, 2.0] },
        ] {
            assert!((rate.scaled_to(500.0).mean() - 500.0).abs() < 1e-9);
        }
    }
}
