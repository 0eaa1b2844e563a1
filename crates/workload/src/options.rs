//! What is to be replayed, and how.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use ldplayer_trace::{Dependencies, Input, OpenOptions, RecordedRetries};

use crate::open::RulesFile;
use crate::{ClientClass, PlanOptions, Timing};

/// What is to be replayed.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// The trace, merged by time where there are several.
    pub inputs: Vec<Input>,
    /// How it is read.
    pub open: OpenOptions,
    /// What becomes of its retries.
    pub retries: RecordedRetries,
    /// Files of rules that change it, one after the other.
    pub rules: Vec<RulesFile>,
    /// Number of passes; `None` for one, or for a list of queries with a time limit as many as fit.
    pub passes: Option<Passes>,
    /// The schedule.
    pub plan: PlanOptions,
    /// Which queries wait for answers; it needs a timing that keeps the recorded gaps.
    pub dependencies: Dependencies,
    /// Whether answers are compared with the recorded ones.
    pub compare: bool,
    /// Client classes; empty if all clients are alike.
    pub classes: Vec<ClientClass>,
    /// The seed of all draws, unless rules set their own.
    pub seed: u64,
}

impl FeedOptions {
    /// These inputs as they are.
    pub fn of(inputs: Vec<Input>) -> Self {
        Self {
            inputs,
            open: OpenOptions::default(),
            retries: RecordedRetries::default(),
            rules: Vec::new(),
            passes: None,
            plan: PlanOptions::default(),
            dependencies: Dependencies::None,
            compare: false,
            classes: Vec::new(),
            seed: 1,
        }
    }

    /// Whether the queries have no known end; the clock may still end the run.
    pub fn is_endless(&self) -> bool {
        let is_timed_by_the_clock = self.plan.timing == Timing::Fast && self.plan.until.is_some();
        is_timed_by_the_clock
            || self.passes == Some(Passes::Forever) && self.plan.until.is_none() && self.plan.stop.is_none()
    }
}

/// The number of passes through a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// This many.
    Times(NonZeroU32),
    /// Endless, until something else ends the run.
    Forever,
}

impl Passes {
    /// Once.
    pub const ONCE: Self = Self::Times(NonZeroU32::MIN);

    /// Whether another pass follows after this many.
    pub fn has_more(self, done: u32) -> bool {
        match self {
            Self::Times(times) => done < times.get(),
            Self::Forever => true,
        }
    }
}

/// An invalid number of passes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number of passes: use a whole number of at least 1, or forever")]
pub struct BadPasses(String);

impl FromStr for Passes {
    type Err = BadPasses;

    fn from_str(word: &str) -> Result<Self, BadPasses> {
        match word {
            "forever" => Ok(Self::Forever),
            _ => word.parse().map(Self::Times).map_err(|_| BadPasses(word.to_owned())),
        }
    }
}

impl fmt::Display for Passes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) => times.fmt(f),
            Self::Forever => f.write_str("forever"),
        }
    }
}
