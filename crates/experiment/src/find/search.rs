//! The search: chooses the next trial from all earlier ones. It knows no server and no clock.
//!
//! Each goal first locates its capacity roughly, with one initial trial per load, and then again with all the evidence that it requires,
//! starting from the bounds found before. Both stages extend the range until there is a bound on either side, and then bisect it on a
//! logarithmic scale. Trials are shared: each counts for all goals.

use std::collections::{BTreeMap, BTreeSet};

use super::goal::{Class, Goal, Target, Trial};
use super::outcome::{Ended, GoalResult, result};

/// The maximum load.
pub const MOST: u64 = 1_000_000_000;

/// How often a load at which the host disturbed every trial is tried again after others: neighbours go.
const LATER: u32 = 2;

/// How many more trials each bound gets that is not sure.
const MORE: usize = 2;

/// The goals and limits of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The goals.
    pub goals: Vec<Goal>,
    /// The first load tried.
    pub start: u64,
    /// The minimum load.
    pub min: u64,
    /// The maximum load.
    pub max: u64,
    /// Maximum number of trials, including those that do not count.
    pub max_trials: u32,
    /// Time limit in seconds for all trials with their overhead; no trial begins after it.
    pub max_time_s: f64,
    /// How often a trial that does not count is repeated at its load.
    pub max_retries: u32,
}

/// A trial to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intended {
    /// The intended load.
    pub load: u64,
    /// The trial duration in seconds.
    pub duration_s: f64,
}

/// Why a trial does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The host disturbed it.
    Disturbed(String),
    /// The client could not make the load.
    Client(String),
    /// The client will never be able to make it, so that no retry is made.
    Never(String),
}

impl Unfit {
    /// In words.
    pub fn reason(&self) -> &str {
        match self {
            Self::Disturbed(why) | Self::Client(why) | Self::Never(why) => why,
        }
    }
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Took {
    /// It was made as intended.
    Measured {
        /// Share of unanswered queries.
        loss_ratio: f64,
        /// Whether it is a high-loss trial, for each goal.
        is_high_loss: Vec<bool>,
    },
    /// It does not count.
    Unfit(Unfit),
}

/// A load that could not be made, and the reason: no load as high is tried again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ceiling {
    pub load: u64,
    pub why: Unfit,
}

/// The bounds of a target, if known.
pub(crate) type Bounds = (Option<u64>, Option<u64>);

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    settings: Settings,
    trials: Vec<Trial>,
    hunts: Vec<Hunt>,
    unfit: BTreeMap<u64, u32>,
    ceiling: Option<Ceiling>,
    /// How often a ceiling was lifted.
    lifted: u32,
    made: u32,
    elapsed_s: f64,
    stopped: Option<Ended>,
}

/// The progress of the search for a goal.
#[derive(Clone, Debug)]
struct Hunt {
    targets: [Target; 2],
    stage: usize,
    /// Final loads of the previous stage, to be tried first.
    hints: [Option<u64>; 2],
    /// By how many doublings the range is extended next, and from which bound it was last extended.
    stride: f64,
    from: Option<u64>,
    /// Bounds that were not sure, each with the number of long trials that it is to have.
    doubted: Vec<(u64, usize)>,
    ended: Option<Ended>,
}

impl Hunt {
    fn new(goal: &Goal, start: u64) -> Self {
        let targets = [goal.first_target(), goal.last_target()];
        Self {
            targets,
            stage: 0,
            hints: [Some(start), None],
            stride: 1.0,
            from: None,
            doubted: Vec::new(),
            ended: None,
        }
    }

    const fn target(&self) -> Target {
        self.targets[self.stage]
    }

    /// Continues with the evidence that the goal requires, or ends.
    fn advance(&mut self, bounds: Bounds, ended: Ended) {
        if self.stage == 1 {
            self.ended = Some(ended);
            return;
        }
        (self.stage, self.hints, self.from) = (1, [bounds.0, bounds.1], None);
        self.stride = (1.0 + 2.0 * self.target().width).log2();
    }

    /// How far the range is extended from a bound: further each time, except for the first ramp, which doubles.
    fn stride(&mut self, from: u64, up: bool) -> f64 {
        if self.from != Some(from) {
            let grows = self.from.is_some() && !(up && self.stage == 0);
            self.stride *= if grows { 2.0 } else { 1.0 };
            self.from = Some(from);
        }
        self.stride
    }
}

/// The gap between two loads relative to the higher one.
fn width(low: u64, high: u64) -> f64 {
    (high - low) as f64 / high as f64
}

/// The logarithmic middle of two loads; `None` if there is no load in between.
fn middle(low: u64, high: u64) -> Option<u64> {
    let middle = (low as f64 * high as f64).sqrt().round() as u64;
    (high > low + 1).then(|| middle.clamp(low + 1, high - 1))
}

impl Search {
    /// A search without any trials.
    pub fn new(settings: Settings) -> Self {
        let start = settings.start.clamp(settings.min, settings.max);
        Self {
            hunts: settings.goals.iter().map(|goal| Hunt::new(goal, start)).collect(),
            settings,
            trials: Vec::new(),
            unfit: BTreeMap::new(),
            ceiling: None,
            lifted: 0,
            made: 0,
            elapsed_s: 0.0,
            stopped: None,
        }
    }

    /// The next trial: the shortest of those that the goals need. `None` when all are done.
    pub fn next_trial(&mut self) -> Option<Intended> {
        let mut wanted: Option<Intended> = None;
        for goal in 0..self.hunts.len() {
            let Some(load) = self.nominate(goal) else { continue };
            let duration_s = self.hunts[goal].target().trial_duration_s;
            if wanted.is_none_or(|other| duration_s < other.duration_s) {
                wanted = Some(Intended { load, duration_s });
            }
        }
        if wanted.is_some() && self.made >= self.settings.max_trials {
            self.stop(Ended::Trials);
        } else if wanted.is_some() && self.elapsed_s >= self.settings.max_time_s {
            self.stop(Ended::Time);
        }
        wanted.filter(|_| self.stopped.is_none())
    }

    /// Records the result of the pending trial, and the seconds it took with overhead.
    pub fn took(&mut self, intended: Intended, took: Took, seconds: f64) {
        self.made += 1;
        self.elapsed_s += seconds;
        let Intended { load, duration_s } = intended;
        match took {
            Took::Measured { loss_ratio, is_high_loss } => {
                self.trials.push(Trial { load, duration_s, loss_ratio, is_high_loss });
            }
            Took::Unfit(why) => {
                let tries = self.unfit.entry(load).or_default();
                *tries += 1;
                let is_enough = *tries > self.settings.max_retries || matches!(why, Unfit::Never(_));
                if is_enough && self.ceiling.as_ref().is_none_or(|ceiling| load < ceiling.load) {
                    self.ceiling = Some(Ceiling { load, why });
                }
            }
        }
    }

    /// Ends the search for all unfinished goals.
    pub fn stop(&mut self, why: Ended) {
        self.stopped.get_or_insert(why);
    }

    /// Trials so far, including those that do not count.
    pub const fn made(&self) -> u32 {
        self.made
    }

    /// The bounds of a goal so far: by full evidence, or else by less.
    pub fn bounds(&self, goal: usize) -> (Option<u64>, Option<u64>) {
        let [first, last] = self.hunts[goal].targets.map(|target| self.bounds_of(goal, target));
        let lower = last.0.or(first.0.filter(|lower| last.1.is_none_or(|upper| *lower < upper)));
        let upper = last.1.or(first.1.filter(|upper| last.0.is_none_or(|lower| lower < *upper)));
        (lower, upper)
    }

    /// The result for each goal.
    pub fn results(&self) -> Vec<GoalResult> {
        let of = |(goal, hunt): (usize, &Hunt)| {
            let ended = hunt.ended.clone().or_else(|| self.stopped.clone()).unwrap_or(Ended::Interrupted);
            let bounds = self.bounds_of(goal, hunt.targets[1]);
            result(goal, &self.settings.goals[goal], &self.trials, bounds, ended)
        };
        self.hunts.iter().enumerate().map(of).collect()
    }

    /// The classification of a load.
    pub(crate) fn class(&self, goal: usize, target: Target, load: u64) -> Class {
        target.classify(goal, self.trials.iter().filter(|trial| trial.load == load))
    }

    /// The relevant bounds: the smallest upper bound, and the largest lower bound below it.
    fn bounds_of(&self, goal: usize, target: Target) -> Bounds {
        let loads: BTreeSet<u64> = self.trials.iter().map(|trial| trial.load).collect();
        let upper = loads.iter().copied().find(|&load| self.class(goal, target, load) == Class::Upper);
        let below = loads.iter().rev().copied().filter(|&load| upper.is_none_or(|upper| load < upper));
        let lower = { below }.find(|&load| self.class(goal, target, load) == Class::Lower);
        (lower, upper)
    }

    /// The next load for a goal; `None` if it is done.
    fn nominate(&mut self, goal: usize) -> Option<u64> {
        while self.hunts[goal].ended.is_none() {
            if let Some(load) = self.doubted(goal) {
                return Some(load);
            }
            let bounds = self.bounds_of(goal, self.hunts[goal].target());
            match self.candidate(goal, bounds) {
                Ok(load) => return Some(load),
                Err(Ended::Disturbed(_)) if self.lift() => {}
                Err(Ended::Width) if self.doubt(goal, bounds) => {}
                Err(ended) => self.hunts[goal].advance(bounds, ended),
            }
        }
        None
    }

    /// Asks for more trials at bounds that are not sure; `false` if they are sure, or had them.
    fn doubt(&mut self, goal: usize, bounds: Bounds) -> bool {
        let hunt = &self.hunts[goal];
        let is_final = hunt.stage == 1;
        if !is_final || result(goal, &self.settings.goals[goal], &self.trials, bounds, Ended::Width).is_sure() {
            return false;
        }
        let is_new = |load: &u64| !hunt.doubted.iter().any(|(doubted, _)| doubted == load);
        let new = [bounds.0, bounds.1].into_iter().flatten().filter(is_new);
        let new: Vec<(u64, usize)> = new.map(|load| (load, self.long_trials(goal, load) + MORE)).collect();
        self.hunts[goal].doubted.extend(&new);
        !new.is_empty()
    }

    /// A bound that is not sure and still lacks trials.
    fn doubted(&self, goal: usize) -> Option<u64> {
        let can_be_made = |load: u64| self.ceiling.as_ref().is_none_or(|ceiling| load < ceiling.load);
        let lacks = |&&(load, wanted): &&(u64, usize)| can_be_made(load) && self.long_trials(goal, load) < wanted;
        self.hunts[goal].doubted.iter().find(lacks).map(|(load, _)| *load)
    }

    /// Trials at a load that are as long as the final ones of a goal.
    fn long_trials(&self, goal: usize, load: u64) -> usize {
        let least = self.hunts[goal].targets[1].trial_duration_s;
        self.trials.iter().filter(|trial| trial.load == load && trial.duration_s >= least).count()
    }

    /// Tries the load at which every trial was disturbed once more, now that there is no other to try; `false` when that was done often enough.
    fn lift(&mut self) -> bool {
        let Some(ceiling) = self.ceiling.take_if(|_| self.lifted < LATER) else { return false };
        self.lifted += 1;
        self.unfit.remove(&ceiling.load);
        true
    }

    /// The next load at this stage, or why the stage has ended.
    fn candidate(&mut self, goal: usize, (lower, upper): Bounds) -> Result<u64, Ended> {
        let target = self.hunts[goal].target();
        // A load that cannot be made limits the range like an upper bound, but is not one.
        let ceiling = self.ceiling.clone().filter(|ceiling| upper.is_none_or(|upper| ceiling.load < upper));
        let top = ceiling.as_ref().map(|ceiling| ceiling.load).or(upper);
        let ended = |otherwise| ceiling.map_or(otherwise, |ceiling| Ended::from(ceiling.why));
        if let (Some(low), Some(high)) = (lower, top)
            && (low >= high || width(low, high) <= target.width || high <= low + 1)
        {
            return Err(ended(Ended::Width));
        }
        let is_between = |load: &u64| lower.is_none_or(|low| *load > low) && top.is_none_or(|high| *load < high);
        if let Some(hint) = self.hunts[goal].hints.into_iter().flatten().find(is_between) {
            return Ok(hint);
        }
        match (lower, top) {
            // The width guarantees that there is a load in between.
            (Some(low), Some(high)) => middle(low, high).ok_or(Ended::Width),
            (Some(low), None) => self.above(goal, low).ok_or(Ended::MaxLoad),
            (None, Some(high)) => self.below(goal, high).ok_or(ended(Ended::MinLoad)),
            (None, None) => Ok(self.settings.start.clamp(self.settings.min, self.settings.max)),
        }
    }

    fn above(&mut self, goal: usize, low: u64) -> Option<u64> {
        let max = self.settings.max;
        let stride = self.hunts[goal].stride(low, true);
        let load = (low as f64 * stride.exp2()).round().min(max as f64) as u64;
        (low < max).then(|| load.max(low + 1))
    }

    fn below(&mut self, goal: usize, high: u64) -> Option<u64> {
        let min = self.settings.min;
        let stride = self.hunts[goal].stride(high, false);
        let load = (high as f64 * (-stride).exp2()).round().max(min as f64) as u64;
        (high > min).then(|| load.min(high - 1))
    }
}
