//! The result of a search: bounds, confidence, and why it ended.

use serde::{Deserialize, Serialize};

use super::goal::{Class, Goal, Trial, misjudged};
use super::search::Unfit;

/// Why the search for a goal ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ended", content = "reason")]
pub enum Ended {
    /// The relevant bounds are within the goal width.
    Width,
    /// The maximum load is a lower bound.
    MaxLoad,
    /// The minimum load is an upper bound.
    MinLoad,
    /// The client cannot make higher loads.
    ClientLimit(String),
    /// The host disturbed every trial at a load.
    Disturbed(String),
    /// The bounds are as close as was wanted, and the upper one may not be the server's.
    Crowded(String),
    /// The maximum number of trials was reached.
    Trials,
    /// The time limit was reached.
    Time,
    /// It was interrupted.
    Interrupted,
    /// A trial failed.
    Failed(String),
}

impl From<Unfit> for Ended {
    fn from(why: Unfit) -> Self {
        match why {
            Unfit::Disturbed(why) => Self::Disturbed(why),
            Unfit::Client(why) | Unfit::Never(why) => Self::ClientLimit(why),
        }
    }
}

impl Ended {
    /// Whether the search found an answer.
    pub const fn is_answer(&self) -> bool {
        matches!(self, Self::Width | Self::MaxLoad)
    }
}

/// A description for the end of a line.
impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Width => f.write_str("reached the wanted width"),
            Self::MaxLoad => f.write_str("the goal is met at `max`, the highest load tried"),
            Self::MinLoad => f.write_str("the goal is not met at `min`, the lowest load tried"),
            Self::ClientLimit(why) => write!(f, "limited by the client, not the server: {why}"),
            Self::Disturbed(why) => write!(f, "the host disturbed every trial: {why}"),
            Self::Crowded(why) => write!(f, "the machine may be the limit, not the server: {why}"),
            Self::Trials => f.write_str("reached `max_trials`"),
            Self::Time => f.write_str("reached `max_time`"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Failed(why) => write!(f, "a trial failed: {why}"),
        }
    }
}

/// The goal result of the draft: regular with both bounds, irregular otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal's name.
    pub goal: String,
    /// Relevant lower bound: the largest load known to meet the goal, and the answer of the search; `null` if there is none.
    pub lower: Option<u64>,
    /// Relevant upper bound: the smallest load known not to meet it; `null` if there is none.
    pub upper: Option<u64>,
    /// Confidence in percent that the capacity is between the two, if trials are spoilt as often as observed; `null` without both bounds.
    pub confidence_percent: Option<f64>,
    /// The answered load at the lower bound.
    pub conditional_throughput: Option<f64>,
    /// Loads above the upper bound that meet the goal (loss inversion).
    pub inversions: Vec<u64>,
    /// Trials that counted.
    pub trials: usize,
    /// Their total duration in seconds.
    pub trials_s: f64,
    /// What limited the server at the upper bound, where that was not its processors; `null` if it was, or nobody watched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Why it ended.
    #[serde(flatten)]
    pub ended: Ended,
}

/// Below this confidence in percent, bounds are more likely wrong than right.
const SURE: f64 = 50.0;

/// Text forms.
impl GoalResult {
    /// Whether the capacity is between the bounds more likely than not; also where there is no interval to be sure of.
    pub fn is_sure(&self) -> bool {
        self.confidence_percent.is_none_or(|percent| percent >= SURE)
    }

    /// The capacity, in the unit of the loads.
    pub fn capacity(&self) -> String {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => format!("{lower} to {upper}"),
            (Some(lower), None) => format!("at least {lower}"),
            (None, Some(upper)) => format!("less than {upper}"),
            // There were too few trials to classify a load.
            (None, None) if self.trials > 0 => "undecided".to_owned(),
            (None, None) => "not measured".to_owned(),
        }
    }
}

/// The result for a goal with these bounds.
pub(crate) fn result(
    at: usize,
    goal: &Goal,
    trials: &[Trial],
    (lower, upper): (Option<u64>, Option<u64>),
    ended: Ended,
) -> GoalResult {
    let target = goal.last_target();
    let mut loads: Vec<u64> = trials.iter().map(|trial| trial.load).collect();
    loads.sort_unstable();
    loads.dedup();
    let at_load = |load: u64| trials.iter().filter(move |trial| trial.load == load);
    let class = |load: u64| target.classify(at, at_load(load));
    let above = loads.iter().copied().filter(|&load| upper.is_some_and(|upper| load > upper));
    let throughput = |load: u64| target.conditional_throughput(at, load, &at_load(load).collect::<Vec<_>>());
    let judged: Vec<(u64, Class)> =
        loads.iter().map(|&load| (load, class(load))).filter(|(_, class)| *class != Class::Undecided).collect();
    GoalResult {
        goal: goal.name.clone(),
        lower,
        upper,
        confidence_percent: lower.and(upper).map(|_| confidence(at, goal, trials, &judged) * 100.0),
        conditional_throughput: lower.map(throughput),
        inversions: above.filter(|&load| class(load) == Class::Lower).collect(),
        trials: trials.len(),
        trials_s: trials.iter().map(|trial| trial.duration_s).sum(),
        limit: None,
        ended,
    }
}

/// The confidence in the bounds. Each judged load may have been misjudged because of trials that show the opposite of the truth; their
/// probability is estimated from the trials that disagree with the verdict on their load. Trials at a load end with one that confirms the
/// verdict, so that one trial of each load does not count as a draw (inverse sampling); half a trial is added for and against (Jeffreys).
fn confidence(at: usize, goal: &Goal, trials: &[Trial], judged: &[(u64, Class)]) -> f64 {
    let class = |load: u64| judged.iter().find(|(judged, _)| *judged == load).map(|(_, class)| *class);
    let long = trials.iter().filter(|trial| trial.duration_s >= goal.final_trial_duration_s);
    let odds: Vec<bool> =
        long.filter_map(|trial| Some((class(trial.load)? == Class::Upper) != trial.is_high_loss[at])).collect();
    let odd = odds.iter().filter(|odd| **odd).count() as f64;
    let draws = odds.len().saturating_sub(judged.len()) as f64;
    let spoilt = (odd + 0.5) / (draws + 1.0);
    let each = misjudged(goal.trials_at_a_load(), goal.exceed_ratio, spoilt.min(0.5));
    (1.0 - judged.len() as f64 * each).max(0.0)
}
