//! The search: which trial is to be made next, by all that were made. It knows no server and no clock.
//!
//! Each goal first finds out roughly where its capacity is, by one initial trial a load, and then does the same by all the evidence that it
//! asks for, beginning at the bounds found before. In both stages it extends the range until it has a bound on either side and then bisects,
//! in logarithms. Trials are shared: each counts for all goals.

use std::collections::{BTreeMap, BTreeSet};

use super::goal::{Class, Goal, Target, Trial};
use super::outcome::{Ended, GoalResult, result};

/// The highest load that can be meant.
pub const MOST: u64 = 1_000_000_000;

/// What a search is to find, and within which limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The goals.
    pub goals: Vec<Goal>,
    /// The load that is tried first.
    pub start: u64,
    /// The lowest load that is tried.
    pub min: u64,
    /// The highest.
    pub max: u64,
    /// Trials at most, those that count for nothing included.
    pub max_trials: u32,
    /// Seconds at most, of all trials and what is around them; none begins behind.
    pub max_time_s: f64,
    /// How often a trial that says nothing of the server is made again at its load.
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

/// Why a trial says nothing of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The host disturbed it.
    Disturbed(String),
    /// The client could not make the load.
    Client(String),
    /// The client can never make it, so that no other try is worth its time.
    Never(String),
}

/// What a trial came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Took {
    /// It was made as intended.
    Measured {
        /// Share of the queries without an answer.
        loss_ratio: f64,
        /// Whether it is a high-loss trial, for each goal.
        is_high_loss: Vec<bool>,
    },
    /// It says nothing of the server.
    Unfit(Unfit),
}

/// A load that could not be made, and why: none as high is tried.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ceiling {
    pub load: u64,
    pub why: Unfit,
}

/// Bounds of a target: loads, where there are any.
pub(crate) type Bounds = (Option<u64>, Option<u64>);

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    settings: Settings,
    trials: Vec<Trial>,
    hunts: Vec<Hunt>,
    unfit: BTreeMap<u64, u32>,
    ceiling: Option<Ceiling>,
    made: u32,
    elapsed_s: f64,
    stopped: Option<Ended>,
}

/// How far the search for a goal is.
#[derive(Clone, Debug)]
struct Hunt {
    targets: [Target; 2],
    stage: usize,
    /// Loads that the stage before ended at, to be looked at first.
    hints: [Option<u64>; 2],
    /// By how many doublings the range is extended next, and the bound that it was last extended from.
    stride: f64,
    from: Option<u64>,
    ended: Option<Ended>,
}

impl Hunt {
    fn new(goal: &Goal, start: u64) -> Self {
        let targets = [goal.first_target(), goal.last_target()];
        Self { targets, stage: 0, hints: [Some(start), None], stride: 1.0, from: None, ended: None }
    }

    const fn target(&self) -> Target {
        self.targets[self.stage]
    }

    /// Goes on with the evidence that the goal asks for, or ends.
    fn advance(&mut self, bounds: Bounds, ended: Ended) {
        if self.stage == 1 {
            self.ended = Some(ended);
            return;
        }
        (self.stage, self.hints, self.from) = (1, [bounds.0, bounds.1], None);
        self.stride = (1.0 + 2.0 * self.target().width).log2();
    }

    /// How far the range is extended from a bound: further each time, but for the first way up, which is a ramp of doublings.
    fn stride(&mut self, from: u64, up: bool) -> f64 {
        if self.from != Some(from) {
            let grows = self.from.is_some() && !(up && self.stage == 0);
            self.stride *= if grows { 2.0 } else { 1.0 };
            self.from = Some(from);
        }
        self.stride
    }
}

/// What is between two loads, as a share of the higher one.
fn width(low: u64, high: u64) -> f64 {
    (high - low) as f64 / high as f64
}

/// The load in the middle of two, in logarithms; none where there is none between them.
fn middle(low: u64, high: u64) -> Option<u64> {
    let middle = (low as f64 * high as f64).sqrt().round() as u64;
    (high > low + 1).then(|| middle.clamp(low + 1, high - 1))
}

impl Search {
    /// A search of which nothing is known.
    pub fn new(settings: Settings) -> Self {
        let start = settings.start.clamp(settings.min, settings.max);
        Self {
            hunts: settings.goals.iter().map(|goal| Hunt::new(goal, start)).collect(),
            settings,
            trials: Vec::new(),
            unfit: BTreeMap::new(),
            ceiling: None,
            made: 0,
            elapsed_s: 0.0,
            stopped: None,
        }
    }

    /// The next trial: of those that the goals want, one of the shortest. `None` when all is done.
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

    /// Takes what the trial came to that was to be made, and how many seconds it took with all around it.
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

    /// Ends the search for all goals that are not reached yet.
    pub fn stop(&mut self, why: Ended) {
        self.stopped.get_or_insert(why);
    }

    /// Trials so far, those that count for nothing included.
    pub const fn made(&self) -> u32 {
        self.made
    }

    /// The bounds of a goal as far as they are known: those by all the evidence that it asks for, and where there are none yet, those by
    /// less.
    pub fn bounds(&self, goal: usize) -> (Option<u64>, Option<u64>) {
        let [first, last] = self.hunts[goal].targets.map(|target| self.bounds_of(goal, target));
        let lower = last.0.or(first.0.filter(|lower| last.1.is_none_or(|upper| *lower < upper)));
        let upper = last.1.or(first.1.filter(|upper| last.0.is_none_or(|lower| lower < *upper)));
        (lower, upper)
    }

    /// What was found for each goal.
    pub fn results(&self) -> Vec<GoalResult> {
        let of = |(goal, hunt): (usize, &Hunt)| {
            let ended = hunt.ended.clone().or_else(|| self.stopped.clone()).unwrap_or(Ended::Interrupted);
            let bounds = self.bounds_of(goal, hunt.targets[1]);
            result(goal, &self.settings.goals[goal], &self.trials, bounds, ended)
        };
        self.hunts.iter().enumerate().map(of).collect()
    }

    /// What a load is classified as.
    pub(crate) fn class(&self, goal: usize, target: Target, load: u64) -> Class {
        target.classify(goal, self.trials.iter().filter(|trial| trial.load == load))
    }

    /// The relevant bounds: the smallest load that is an upper bound, and the largest lower bound below it.
    fn bounds_of(&self, goal: usize, target: Target) -> Bounds {
        let loads: BTreeSet<u64> = self.trials.iter().map(|trial| trial.load).collect();
        let upper = loads.iter().copied().find(|&load| self.class(goal, target, load) == Class::Upper);
        let below = loads.iter().rev().copied().filter(|&load| upper.is_none_or(|upper| load < upper));
        let lower = { below }.find(|&load| self.class(goal, target, load) == Class::Lower);
        (lower, upper)
    }

    /// The load that a goal wants tried next; `None` where it wants none any more.
    fn nominate(&mut self, goal: usize) -> Option<u64> {
        while self.hunts[goal].ended.is_none() {
            let bounds = self.bounds_of(goal, self.hunts[goal].target());
            match self.candidate(goal, bounds) {
                Ok(load) => return Some(load),
                Err(ended) => self.hunts[goal].advance(bounds, ended),
            }
        }
        None
    }

    /// The load to try at this stage; or why it is through.
    fn candidate(&mut self, goal: usize, (lower, upper): Bounds) -> Result<u64, Ended> {
        let target = self.hunts[goal].target();
        // What cannot be made bounds the range as an upper bound does, but is none.
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
            // There is a load between, as the width says.
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
