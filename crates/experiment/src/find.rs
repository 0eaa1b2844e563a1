//! `[find]`: the search for the largest load that meets a goal, by the algorithm of MLRsearch (RFC 9971).
//!
//! ```text
//! [find] ──► Find ──► Search, one a cell: next_trial ──► a RunSpec with the load in it ──► run ──► judge ──► took ──► GoalResult
//! ```

mod bind;
mod crowd;
mod goal;
mod judge;
mod outcome;
mod penalty;
mod recorded;
mod search;
#[cfg(test)]
mod simulated;

use ldplayer_core::time::Span;
use ldplayer_results::Expectation;
use ldplayer_workload::spec::{BadSpec, Item, Table};
use serde::{Deserialize, Serialize};

use crate::values::expectations;

pub(crate) use crowd::{Allowed, Limit, ServerUse};
pub use goal::{Class, Goal, Trial};
pub use outcome::{Ended, GoalResult};
pub use penalty::{Ratio, by_transport};
pub use recorded::{Discarded, SearchRecord, TrialRecord};
pub use search::{Intended, MOST, Search, Settings, Took, Unfit};

/// Default seconds of a final and of an initial trial.
const FINAL_S: f64 = 5.0;
const INITIAL_S: f64 = 2.0;
/// Default duration sum, in final trials.
const TRIALS: f64 = 3.0;
/// Default maximum of trials and of seconds of a search.
const MAX_TRIALS: u32 = 200;
const MAX_TIME_S: f64 = 3_600.0;
/// Keys of a goal, which may also be set at the top level for all goals.
const OF_GOALS: [&str; 7] = [
    "while",
    "goal_loss_ratio",
    "exceed_ratio",
    "initial_trial_duration",
    "final_trial_duration",
    "duration_sum",
    "width",
];
/// Keys of the search.
const OF_SEARCHES: [&str; 9] =
    ["what", "start", "min", "max", "max_trials", "max_time", "late_at_most", "keep_rows", "goal"];

/// A search for the largest load that meets a goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Find {
    /// The kind of load.
    pub what: Load,
    /// The goals; each has its own capacity.
    pub goals: Vec<Goal>,
    /// The first load tried.
    pub start: u64,
    /// The minimum load.
    pub min: u64,
    /// The maximum load.
    pub max: u64,
    /// Maximum number of trials.
    pub max_trials: u32,
    /// Maximum duration in seconds; no trial begins after it.
    pub max_time_s: f64,
    /// Maximum lateness of queries in seconds (99th percentile) in a trial that misses a goal; `None` for the limits of the run.
    pub late_at_most_s: Option<f64>,
    /// Whether to keep the rows of trials.
    pub keep_rows: bool,
}

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Queries per second.
    Qps,
    /// New connections per second, each with a query.
    Handshakes,
    /// Clients of the trace, each with all its queries.
    Clients,
    /// Concurrently open connections.
    Connections,
}

impl Load {
    /// All kinds by the words that ask for them; the first is the usual one.
    pub const ALL: [(&'static str, Self); 4] = [
        ("qps", Self::Qps),
        ("handshakes", Self::Handshakes),
        ("clients", Self::Clients),
        ("connections", Self::Connections),
    ];

    /// The unit of the load.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Qps => "q/s",
            Self::Handshakes => "handshakes/s",
            Self::Clients => "clients",
            Self::Connections => "connections",
        }
    }

    /// Whether it is a rate, and not a number of clients.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Qps | Self::Handshakes)
    }

    /// The words, for messages.
    pub fn words() -> String {
        Self::ALL.map(|(word, _)| word).join(", ")
    }

    /// The default of the first load tried.
    const fn start(self) -> u64 {
        match self {
            Self::Qps => 1_000,
            Self::Handshakes | Self::Clients | Self::Connections => 100,
        }
    }
}

impl Find {
    /// Reads the table.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn read(item: &Item<'_>) -> Result<Self, BadSpec> {
        let table = item.table()?;
        table.items(&[&OF_SEARCHES[..], &OF_GOALS[..]].concat())?;
        let what = what(item, &table)?;
        let load = |key: &str, default: u64| table.get(key).map_or(Ok(default), |given| given.integer(1..=MOST));
        let min = load("min", 1)?;
        let max = load("max", MOST)?;
        if min > max {
            return Err(item.bad(format!("min = {min} is above max = {max}")));
        }
        let max_trials = table.get("max_trials").map(|given| given.integer(1..=100_000)).transpose()?;
        let keep_rows = table.get("keep_rows").map(|given| given.truth()).transpose()?;
        Ok(Self {
            what,
            goals: goals(item, &table)?,
            start: load("start", what.start())?.clamp(min, max),
            min,
            max,
            max_trials: max_trials.map_or(MAX_TRIALS, |trials| trials as u32),
            max_time_s: seconds(&table, "max_time")?.unwrap_or(MAX_TIME_S),
            late_at_most_s: seconds(&table, "late_at_most")?,
            keep_rows: keep_rows.unwrap_or(false),
        })
    }

    /// The search of one cell.
    pub fn search(&self, max_retries: u32) -> Search {
        Search::new(Settings {
            goals: self.goals.clone(),
            start: self.start,
            min: self.min,
            max: self.max,
            max_trials: self.max_trials,
            max_time_s: self.max_time_s,
            max_retries,
        })
    }

    /// Estimated trials and seconds of a search, if each trial takes `overhead_s` in addition to its duration, for a noiseless server whose
    /// capacity is a small multiple of the first load.
    pub fn estimate(&self, overhead_s: f64) -> (u32, f64) {
        let capacity = self.start.saturating_mul(11).min(self.max);
        let (mut search, mut seconds) = (self.search(0), 0.0);
        while let Some(intended) = search.next_trial() {
            let is_high_loss = vec![intended.load > capacity; self.goals.len()];
            let took = intended.duration_s + overhead_s;
            seconds += took;
            search.took(intended, Took::Measured { loss_ratio: 0.0, is_high_loss }, took);
        }
        (search.made(), seconds)
    }
}

fn what(item: &Item<'_>, table: &Table<'_>) -> Result<Load, BadSpec> {
    let Some(what) = table.get("what") else {
        return Err(
            item.bad("nothing to search for: add what = \"qps\", \"handshakes\", \"clients\" or \"connections\"")
        );
    };
    let found = Load::ALL.into_iter().find(|(word, _)| what.text().is_ok_and(|given| given == *word));
    found.map(|(_, load)| load).ok_or_else(|| what.bad(format!("expected one of {}", Load::words())))
}

/// The goals in `[[find.goal]]`, with the top-level keys as defaults; or the single goal at the top level.
fn goals(item: &Item<'_>, top: &Table<'_>) -> Result<Vec<Goal>, BadSpec> {
    let Some(given) = top.get("goal") else { return Ok(vec![goal(item, top, None, "1".to_owned())?]) };
    let mut goals: Vec<Goal> = Vec::new();
    for own in given.list()? {
        let table = own.table()?;
        table.items(&[&["name"][..], &OF_GOALS[..]].concat())?;
        let name = table.get("name").map(|name| name.text().map(str::to_owned)).transpose()?;
        let name = name.unwrap_or_else(|| (goals.len() + 1).to_string());
        if goals.iter().any(|other| other.name == name) {
            return Err(own.bad(format!("the goal name `{name}` is used twice")));
        }
        goals.push(goal(&own, &table, Some(top), name)?);
    }
    if goals.is_empty() { Err(given.bad("no goal: add at least one [[find.goal]]")) } else { Ok(goals) }
}

fn goal(item: &Item<'_>, own: &Table<'_>, top: Option<&Table<'_>>, name: String) -> Result<Goal, BadSpec> {
    let get = |key: &str| own.get(key).or_else(|| top?.get(key));
    let share = |key: &str, is_fine: fn(f64) -> bool| {
        let percent = get(key).map(|given| given.parsed(|word| percent(word, key, is_fine)));
        Ok(percent.transpose()?.map(|percent| percent / 100.0))
    };
    let time = |key: &str| get(key).map(|given| duration(&given)).transpose();
    let hold = get("while").map_or(Ok(Vec::new()), |given| criteria(&given))?;
    let loss_ratio = share("goal_loss_ratio", |percent| (0.0..100.0).contains(&percent))?;
    if hold.is_empty() && loss_ratio.is_none() {
        return Err(item.bad("no criteria: add while = [\"answered >= 99.9 %\"], or goal_loss_ratio = \"0.1 %\""));
    }
    let last = time("final_trial_duration")?.unwrap_or(FINAL_S);
    let first = time("initial_trial_duration")?.unwrap_or(INITIAL_S.min(last));
    let sum = time("duration_sum")?.unwrap_or(TRIALS * last);
    if first > last || sum < last {
        let what = format!(
            "initial_trial_duration ({first} s), final_trial_duration ({last} s) and duration_sum ({sum} s) must be in ascending order"
        );
        return Err(item.bad(what));
    }
    Ok(Goal {
        name,
        hold,
        loss_ratio,
        exceed_ratio: share("exceed_ratio", |percent| (0.0..100.0).contains(&percent))?.unwrap_or(0.5),
        initial_trial_duration_s: first,
        final_trial_duration_s: last,
        duration_sum_s: sum,
        width: share("width", |percent| percent > 0.0 && percent <= 100.0)?.unwrap_or(0.02),
    })
}

fn criteria(item: &Item<'_>) -> Result<Vec<Expectation>, BadSpec> {
    let hold = expectations(item)?;
    match hold.iter().find(|expectation| expectation.is_relative()) {
        Some(relative) => Err(item.bad(format!("`{relative}` is relative to another run: use an absolute bound"))),
        None => Ok(hold),
    }
}

fn seconds(table: &Table<'_>, key: &str) -> Result<Option<f64>, BadSpec> {
    table.get(key).map(|given| duration(&given)).transpose()
}

/// A duration above 0, in seconds.
fn duration(item: &Item<'_>) -> Result<f64, BadSpec> {
    let ns = item.parsed(|word| word.parse::<Span>().map(Span::ns))?;
    if ns > 0 { Ok(ns as f64 / 1e9) } else { Err(item.bad("expected a duration above 0 such as \"5s\"")) }
}

fn percent(word: &str, key: &str, is_fine: fn(f64) -> bool) -> Result<f64, String> {
    let number = word.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let allowed = if key == "width" { "above 0 % and up to 100 %" } else { "at least 0 % and below 100 %" };
    number
        .filter(|percent| is_fine(*percent))
        .ok_or_else(|| format!("`{word}` is not a valid {key}: use a share {allowed}, such as \"2 %\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_workload::spec::read;

    fn find(text: &str) -> Result<Find, String> {
        read(&format!("[find]\n{text}"), |root| Find::read(&root.get("find").expect("a table")))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_search_is_typed_and_its_defaults_are_those_of_the_page() {
        let found = find("what = 'qps'\nwhile = 'answered >= 99.9 %'\nwidth = '2 %'").unwrap();
        assert_eq!((found.what, found.start, found.min, found.max), (Load::Qps, 1_000, 1, MOST));
        let [goal] = &found.goals[..] else { panic!("{found:?}") };
        assert_eq!((goal.hold.len(), goal.width, goal.exceed_ratio), (1, 0.02, 0.5));
        assert_eq!((goal.initial_trial_duration_s, goal.final_trial_duration_s, goal.duration_sum_s), (2.0, 5.0, 15.0));
    }

    #[test]
    fn goals_take_from_the_top_what_they_do_not_say() {
        let text = "what = 'clients'\nstart = 50\nmax = 20\nfinal_trial_duration = '1s'\nduration_sum = '7s'\nwidth = '5 %'\n\
            [[find.goal]]\nname = 'loss'\ngoal_loss_ratio = '0.5 %'\nexceed_ratio = '0 %'\n\
            [[find.goal]]\nwhile = ['p99 <= 50ms', 'servfail = 0']\nwidth = '1 %'";
        let found = find(text).unwrap();
        assert_eq!((found.start, found.goals.len()), (20, 2));
        let (loss, late) = (&found.goals[0], &found.goals[1]);
        assert_eq!((loss.loss_ratio, loss.exceed_ratio, loss.width), (Some(0.005), 0.0, 0.05));
        assert_eq!((&*late.name, late.hold.len(), late.exceed_ratio, late.width), ("2", 2, 0.5, 0.01));
        assert_eq!((late.duration_sum_s, late.initial_trial_duration_s), (7.0, 1.0));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, wanted) in [
            ("what = 'speed'", "line 2: `what`: expected one of qps, handshakes, clients, connections"),
            ("while = 'p99 <= 1ms'", "nothing to search for"),
            ("what = 'qps'", "no criteria: add while"),
            ("what = 'qps'\nwhile = []", "no criteria: add while"),
            ("what = 'qps'\nwhlie = 'p99 <= 1ms'", "line 3: unknown key `whlie`: did you mean `while`?"),
            ("what = 'qps'\nwhile = 'p99 <= 1.1 x'", "line 3: `while`: `p99 <= 1.1 x` is relative"),
            ("what = 'qps'\nwhile = 'p99 <= 1ms'\nwidth = '0 %'", "line 4: `width`: `0 %` is not a valid width"),
            ("what = 'qps'\nwhile = 'p99 <= 1ms'\nwidth = 'wide'", "2 %"),
            ("what = 'qps'\nwhile = 'p99 <= 1ms'\nexceed_ratio = '100 %'", "below 100 %"),
            ("what = 'qps'\nwhile = 'p99 <= 1ms'\nduration_sum = '1s'", "must be in ascending order"),
            ("what = 'qps'\nwhile = 'p99 <= 1ms'\nfinal_trial_duration = '0s'", "above 0"),
            ("what = 'qps'\nwhile = 'p99 <= 1ms'\nmin = 9\nmax = 8", "min = 9 is above max = 8"),
            ("what = 'qps'\nwhile = 'p99 <= 1ms'\nmin = 0", "line 4: `min`"),
            ("what = 'qps'\n[[find.goal]]\nname = 'a'", "line 3: `goal`: no criteria"),
            (
                "what = 'qps'\nwhile = 'p99 <= 1ms'\n[[find.goal]]\nname = 'a'\n[[find.goal]]\nname = 'a'",
                "the goal name `a` is used twice",
            ),
            ("what = 'qps'\nwhile = 'p99 <= 1ms'\n[[find.goal]]\nstart = 1", "unknown key `start`"),
        ] {
            let told = find(text).expect_err(text);
            assert!(told.contains(wanted) && !told.contains('\n'), "{text}: {told}");
        }
    }

    #[test]
    fn an_estimate_is_a_search_that_nobody_disturbs() {
        let found = find("what = 'qps'\nwhile = 'p99 <= 1ms'\nstart = 1000").unwrap();
        let (trials, seconds) = found.estimate(3.0);
        assert!((10..40).contains(&trials), "{trials}");
        assert!(seconds > f64::from(trials) * 5.0 && seconds < f64::from(trials) * 8.0, "{seconds}");
        let short = find("what = 'qps'\nwhile = 'p99 <= 1ms'\nstart = 1000\nmax_trials = 3").unwrap();
        assert_eq!(short.estimate(3.0).0, 3);
    }
}
