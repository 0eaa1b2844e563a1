//! Search goals of MLRsearch (RFC 9971, draft-ietf-bmwg-mlrsearch), and what the trials at a load say by them: the load classification of
//! its appendix A, and the conditional throughput of its appendix B.

use ldplayer_results::Expectation;
use serde::{Deserialize, Serialize};

/// A goal of a search: the conditions, and how much evidence is required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Its name.
    pub name: String,
    /// The conditions; a trial that misses one is a high-loss trial.
    pub hold: Vec<Expectation>,
    /// Goal loss ratio, 0 to 1: a trial with a larger share of unanswered queries is a high-loss trial, too.
    pub loss_ratio: Option<f64>,
    /// Goal exceed ratio: the share of the trial durations at a load that may be of high-loss trials. From 0 to below 1.
    pub exceed_ratio: f64,
    /// Goal initial trial duration, in seconds: of the trials that roughly locate the capacity.
    pub initial_trial_duration_s: f64,
    /// Goal final trial duration, in seconds: only trials of at least this length decide.
    pub final_trial_duration_s: f64,
    /// Goal duration sum, in seconds: the total duration of trials that classifies a load.
    pub duration_sum_s: f64,
    /// Goal width: the difference of the relevant bounds relative to the upper one. 0 to 1.
    pub width: f64,
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Intended load.
    pub load: u64,
    /// Trial duration, in seconds.
    pub duration_s: f64,
    /// Trial loss ratio: the share of unanswered queries. 0 to 1.
    pub loss_ratio: f64,
    /// Whether it is a high-loss trial, for each goal.
    pub is_high_loss: Vec<bool>,
}

/// The classification of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A lower bound: the load meets the goal.
    Lower,
    /// An upper bound: it does not.
    Upper,
    /// Undecided: more trials are needed.
    Undecided,
}

/// The evidence required at a stage of the search: the goal's, or less at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    pub trial_duration_s: f64,
    pub duration_sum_s: f64,
    pub exceed_ratio: f64,
    pub width: f64,
}

impl Goal {
    /// The requirements of the goal.
    pub(crate) const fn last_target(&self) -> Target {
        Target {
            trial_duration_s: self.final_trial_duration_s,
            duration_sum_s: self.duration_sum_s,
            exceed_ratio: self.exceed_ratio,
            width: self.width,
        }
    }

    /// One initial trial per load, and a multiple of the width.
    pub(crate) fn first_target(&self) -> Target {
        let trial_duration_s = self.initial_trial_duration_s.min(self.final_trial_duration_s);
        let width = (self.width * 4.0).clamp(0.05, 0.5).max(self.width);
        Target { trial_duration_s, duration_sum_s: trial_duration_s, width, ..self.last_target() }
    }

    /// The number of final trials in the duration sum.
    pub(crate) fn trials_at_a_load(&self) -> u32 {
        (self.duration_sum_s / self.final_trial_duration_s).ceil().max(1.0) as u32
    }
}

/// Sums of trial durations at one load.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    good_long: f64,
    bad_long: f64,
    good_short: f64,
    bad_short: f64,
}

impl Target {
    fn sums<'a>(&self, goal: usize, trials: impl Iterator<Item = &'a Trial>) -> Sums {
        trials.fold(Sums::default(), |mut sums, trial| {
            let is_long = trial.duration_s >= self.trial_duration_s;
            let sum = match (trial.is_high_loss[goal], is_long) {
                (false, true) => &mut sums.good_long,
                (true, true) => &mut sums.bad_long,
                (false, false) => &mut sums.good_short,
                (true, false) => &mut sums.bad_short,
            };
            *sum += trial.duration_s;
            sums
        })
    }

    /// Classifies a load by its trials (appendix A). Short trials without loss only cancel short ones with loss. The load is decided as soon
    /// as no further trial could change it.
    pub fn classify<'a>(&self, goal: usize, trials: impl Iterator<Item = &'a Trial>) -> Class {
        let sums = self.sums(goal, trials);
        let balancing = sums.good_short * self.exceed_ratio / (1.0 - self.exceed_ratio);
        let bad = sums.bad_long + (sums.bad_short - balancing).max(0.0);
        let whole = (sums.good_long + bad).max(self.duration_sum_s);
        let allowed = whole * self.exceed_ratio;
        // If all further trials were good, and if none were.
        match (bad <= allowed, whole - sums.good_long <= allowed) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }

    /// The conditional throughput of a load (appendix B): the answered load of the long trials at the quantile given by
    /// the exceed ratio. Missing
    /// duration counts as lost.
    pub fn conditional_throughput(&self, goal: usize, load: u64, trials: &[&Trial]) -> f64 {
        let mut long: Vec<&&Trial> = trials.iter().filter(|trial| trial.duration_s >= self.trial_duration_s).collect();
        // Sorted by loss as in appendix B, with trials that failed for other reasons last.
        long.sort_by(|one, other| {
            let key = |trial: &Trial| (trial.is_high_loss[goal], trial.loss_ratio);
            let (one, other) = (key(one), key(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        let all: f64 = long.iter().map(|trial| trial.duration_s).sum();
        let mut remaining = all.max(self.duration_sum_s) * (1.0 - self.exceed_ratio);
        let mut quantile = None;
        for trial in long {
            if quantile.is_some() && remaining <= 0.0 {
                break;
            }
            quantile = Some(trial.loss_ratio);
            remaining -= trial.duration_s;
        }
        let quantile = if remaining > 0.0 { 1.0 } else { quantile.unwrap_or(1.0) };
        load as f64 * (1.0 - quantile)
    }
}

/// The probability of misjudging a load after `trials` trials, each of which shows the opposite of the truth with probability `spoilt`.
pub(crate) fn misjudged(trials: u32, exceed_ratio: f64, spoilt: f64) -> f64 {
    let allowed = (f64::from(trials) * exceed_ratio).floor() as u32;
    let good_is_taken_for_bad = at_least(trials, allowed + 1, spoilt);
    let bad_is_taken_for_good = at_least(trials, trials - allowed.min(trials), spoilt);
    good_is_taken_for_bad.max(bad_is_taken_for_good)
}

/// The probability of at least `least` of `of` independent events.
fn at_least(of: u32, least: u32, probability: f64) -> f64 {
    let mut chance = (1.0 - probability).powi(of as i32);
    let mut sum = if least == 0 { chance } else { 0.0 };
    for count in 1..=of {
        chance *= probability / (1.0 - probability) * f64::from(of - count + 1) / f64::from(count);
        sum += if count >= least { chance } else { 0.0 };
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { trial_duration_s: 5.0, duration_sum_s: 15.0, exceed_ratio: 0.5, width: 0.02 };

    fn trial(duration_s: f64, loss_ratio: f64) -> Trial {
        Trial { load: 1_000, duration_s, loss_ratio, is_high_loss: vec![loss_ratio > 0.0] }
    }

    fn class(target: Target, trials: &[(f64, f64)]) -> Class {
        let trials: Vec<Trial> = trials.iter().map(|&(duration, loss)| trial(duration, loss)).collect();
        target.classify(0, trials.iter())
    }

    #[test]
    fn a_load_is_classified_as_soon_as_nothing_can_change_it() {
        assert_eq!(class(TARGET, &[]), Class::Undecided);
        assert_eq!(class(TARGET, &[(5.0, 0.0)]), Class::Undecided);
        assert_eq!(class(TARGET, &[(5.0, 0.0), (5.0, 0.0)]), Class::Lower);
        assert_eq!(class(TARGET, &[(5.0, 0.1), (5.0, 0.1)]), Class::Upper);
        assert_eq!(class(TARGET, &[(5.0, 0.1), (5.0, 0.0)]), Class::Undecided);
        assert_eq!(class(TARGET, &[(5.0, 0.1), (5.0, 0.0), (5.0, 0.0)]), Class::Lower, "one spoilt trial of three");
    }

    #[test]
    fn without_an_exceed_ratio_one_trial_with_loss_is_enough_against_a_load() {
        let strict = Target { exceed_ratio: 0.0, ..TARGET };
        assert_eq!(class(strict, &[(5.0, 0.0), (5.0, 0.0)]), Class::Undecided);
        assert_eq!(class(strict, &[(5.0, 0.0), (5.0, 0.1)]), Class::Upper);
        // RFC 2544: one trial decides.
        let single = Target { duration_sum_s: 5.0, ..strict };
        assert_eq!((class(single, &[(5.0, 0.0)]), class(single, &[(5.0, 0.1)])), (Class::Lower, Class::Upper));
    }

    #[test]
    fn short_trials_count_against_a_load_unless_others_outweigh_them_and_never_for_it() {
        assert_eq!(class(TARGET, &[(1.0, 0.0); 100]), Class::Undecided);
        assert_eq!(class(TARGET, &[(1.0, 0.1); 8]), Class::Upper);
        let mixed: Vec<(f64, f64)> = [(1.0, 0.1), (1.0, 0.0)].into_iter().cycle().take(40).collect();
        assert_eq!(class(TARGET, &mixed), Class::Undecided);
    }

    #[test]
    fn conditional_throughput_is_the_load_less_the_loss_at_the_quantile() {
        let of = |target: Target, losses: &[f64]| {
            let trials: Vec<Trial> = losses.iter().map(|&loss| trial(5.0, loss)).collect();
            target.conditional_throughput(0, 1_000, &trials.iter().collect::<Vec<_>>())
        };
        assert_eq!(of(TARGET, &[0.0, 0.0]), 1_000.0);
        assert_eq!(of(TARGET, &[0.3, 0.0, 0.1]), 900.0, "the median of three");
        assert_eq!(of(Target { exceed_ratio: 0.0, ..TARGET }, &[0.3, 0.0, 0.1]), 700.0);
        assert_eq!(of(TARGET, &[0.0]), 0.0, "what was not measured counts as lost");
        assert_eq!(of(TARGET, &[]), 0.0);
    }

    #[test]
    fn misjudging_is_a_matter_of_how_many_trials_are_spoilt() {
        assert!((misjudged(1, 0.0, 0.1) - 0.1).abs() < 1e-12);
        assert!((misjudged(3, 0.5, 0.1) - 0.028).abs() < 1e-12);
        assert!((misjudged(3, 0.0, 0.1) - (1.0 - 0.9_f64.powi(3))).abs() < 1e-12);
        assert!(misjudged(7, 0.5, 0.1) < 0.003 && misjudged(7, 0.5, 0.0) == 0.0);
    }
}
