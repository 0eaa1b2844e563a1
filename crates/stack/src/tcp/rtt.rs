//! Estimates of the round trip, and the retransmission timeout (RFC 6298).

use super::config::Config;

/// Estimates, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rtt {
    /// Smoothed round trip; 0 before the first measurement.
    smoothed: i64,
    /// Its mean deviation.
    deviation: i64,
}

impl Rtt {
    /// Takes a measurement (section 2).
    pub fn measure(&mut self, rtt: i64) {
        let rtt = rtt.max(1);
        if self.smoothed == 0 {
            (self.smoothed, self.deviation) = (rtt, rtt / 2);
        } else {
            self.deviation += ((self.smoothed - rtt).abs() - self.deviation) / 4;
            self.smoothed = (self.smoothed + (rtt - self.smoothed) / 8).max(1);
        }
    }

    /// The timeout after it has doubled `backoff` times.
    pub fn timeout(&self, backoff: u8, config: &Config) -> i64 {
        let plain = match self.smoothed {
            0 => config.initial_rto_ns,
            smoothed => (smoothed + 4 * self.deviation).max(config.min_rto_ns),
        };
        plain.saturating_mul(1 << backoff.min(32)).min(config.max_rto_ns)
    }

    /// The smoothed round trip in units of 2^16 ns, up to 4.29 s, for a connection that becomes idle.
    pub fn packed(&self) -> u16 {
        match self.smoothed {
            0 => 0,
            smoothed => (smoothed >> 16).clamp(1, u16::MAX.into()) as u16,
        }
    }

    /// What [`Self::packed`] has kept, as if it were the first measurement.
    pub fn unpacked(packed: u16) -> Self {
        let mut rtt = Self::default();
        if packed != 0 {
            rtt.measure(i64::from(packed) << 16);
        }
        rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn rfc_6298_section_2_the_timeout_follows_round_trips() {
        let config = Config::default();
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(0, &config), 1_000 * MS);
        rtt.measure(300 * MS);
        assert_eq!(rtt.timeout(0, &config), 900 * MS);
        (0..100).for_each(|_| rtt.measure(300 * MS));
        assert!((300 * MS..330 * MS).contains(&rtt.timeout(0, &config)));
        (0..100).for_each(|_| rtt.measure(MS));
        assert_eq!(rtt.timeout(0, &config), 200 * MS);
    }

    #[test]
    fn rfc_6298_section_5_5_the_timeout_doubles_up_to_a_bound() {
        let config = Config::default();
        let timeouts: Vec<i64> =
            (0..9).map(|backoff| Rtt::default().timeout(backoff, &config) / (1_000 * MS)).collect();
        assert_eq!(timeouts, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
        assert_eq!(Rtt::default().timeout(255, &config), config.max_rto_ns);
    }

    #[test]
    fn an_idle_connection_keeps_its_round_trip() {
        let mut rtt = Rtt::default();
        assert_eq!(Rtt::unpacked(rtt.packed()), rtt);
        rtt.measure(50 * MS);
        let kept = Rtt::unpacked(rtt.packed());
        assert!((kept.smoothed - 50 * MS).abs() < 1 << 16 && kept.deviation == kept.smoothed / 2);
        rtt.measure(1);
        assert_ne!(rtt.packed(), 0);
    }
}
