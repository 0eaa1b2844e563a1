//! Which `--precision` this machine can hold, by the limits that verdicts have for it.

use ldplayer_replay::Precision;
use ldplayer_results::VerdictLimits;

use super::finding::Finding;
use super::noise::{Lateness, Noise};

/// Each precision with its limits, the best first.
const ALL: [(Precision, VerdictLimits); 3] = [
    (Precision::High, VerdictLimits::HIGH),
    (Precision::Normal, VerdictLimits::NORMAL),
    (Precision::Low, VerdictLimits::LOW),
];

/// How late due times would be met, and the best precision whose verdict would hold.
pub fn finding(noise: &Noise) -> Finding {
    let best = ALL.iter().find(|(precision, limits)| holds(noise, *precision, limits)).map(|(precision, _)| *precision);
    let word = best.map_or("none", Precision::as_str);
    let found = format!("{word}: p99 {:.0} us asleep, {:.0} us spinning", noise.asleep.p99_us, noise.spinning.p99_us);
    let ok = holds(noise, Precision::Normal, &VerdictLimits::NORMAL);
    let lift = match best {
        Some(Precision::High | Precision::Normal) => "ldplayer replay --precision high, which does not sleep",
        Some(Precision::Low) => "ldplayer replay --precision low; stop other work (see top)",
        None => "stop other work (see top); use a machine of your own",
    };
    Finding::new("precision held", found, "normal: p99 within 1 ms, as its verdict has it", ok, lift)
}

/// Whether due times would be met within the limits. Sleeping costs wake-up latency; spinning suffers only from preemption; `normal` spins
/// away what all but its latest wake-ups cost, so that their p99 counts, not their quartiles.
fn holds(noise: &Noise, precision: Precision, limits: &VerdictLimits) -> bool {
    let Some(limits) = limits.timing else { return false };
    let within = |late: &Lateness| late.p99_us <= limits.p99_us;
    let with_quartile = |late: &Lateness| within(late) && late.p75_us <= limits.quartile_us;
    match precision {
        Precision::High => with_quartile(&noise.spinning),
        Precision::Normal => within(&noise.asleep) && with_quartile(&noise.spinning),
        Precision::Low => with_quartile(&noise.asleep),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(asleep: [f64; 2], spinning: [f64; 2]) -> Noise {
        let lateness = |[p75_us, p99_us]: [f64; 2]| Lateness { p50_us: p75_us / 2.0, p75_us, p99_us };
        Noise { asleep: lateness(asleep), spinning: lateness(spinning), ..Noise::default() }
    }

    #[test]
    fn the_precision_that_is_held_follows_from_the_p99_of_its_verdict() {
        for (asleep, spinning, word, ok) in [
            ([60.0, 400.0], [0.0, 50.0], "high", true),
            // A median of 30 µs said nothing of this.
            ([60.0, 3_000.0], [0.0, 50.0], "high", false),
            ([60.0, 900.0], [0.0, 600.0], "normal", true),
            ([60.0, 3_000.0], [0.0, 600.0], "low", false),
            ([600.0, 3_000.0], [0.0, 600.0], "none", false),
            ([60.0, 9_000.0], [0.0, 9_000.0], "none", false),
            ([60.0, 900.0], [70.0, 900.0], "low", false),
        ] {
            let found = finding(&noise(asleep, spinning));
            assert_eq!((found.found.split(':').next(), found.ok), (Some(word), ok), "{asleep:?} {spinning:?}");
        }
    }
}
