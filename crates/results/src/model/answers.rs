//! What became of the comparison of answers: keys of `run.json`.

use std::collections::BTreeMap;

use ldplayer_core::{Answer, Differs};
use serde::{Deserialize, Serialize};

/// Answers compared with expected ones, by result and by differing part. Everything counts queries.
///
/// `match` + `better` + `worse` + `changed` = `compared`, and that with `not_comparable` is all queries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswersCompared {
    /// Queries for which there is an expected answer, and which were waited for.
    pub compared: u64,
    /// Both answers say the same.
    #[serde(rename = "match")]
    pub matching: u64,
    /// An answer, where an error or a truncated response was expected.
    pub better: u64,
    /// The other way round, or no answer at all.
    pub worse: u64,
    /// Neither is better, and they say different things.
    pub changed: u64,
    /// Those of the worse that have no answer.
    pub unanswered: u64,
    /// Queries that could not be compared.
    pub not_comparable: u64,
    /// The same by reason: `not_sent`, `interrupted`, or `no_reference` where there is no expected answer; of two runs also
    /// `only_in_a`, `only_in_b` and `out_of_step`.
    pub not_comparable_by_reason: BTreeMap<String, u64>,
    /// In what the answers differ that are not `match`: `rcode`, `flags`, `answer`, `authority`, `additional`. An answer may differ
    /// in several.
    pub by_field: BTreeMap<String, u64>,
    /// What became of those that disagree when they were asked again; `null` where nobody asked.
    pub again: Option<AskedAgain>,
}

impl AnswersCompared {
    /// Counts by [`Answer`], by the bits of [`Differs`], and by the reason why answers were not comparable.
    pub(crate) fn new(
        answers: [u64; Answer::ALL.len()],
        differs: [u64; Differs::WORDS.len()],
        not_comparable: &[(&str, u64)],
    ) -> Self {
        let [matching, better, worse, changed] = answers;
        let (unanswered, fields) = (differs[Differs::WORDS.len() - 1], Differs::WORDS.into_iter().zip(differs));
        Self {
            compared: answers.iter().sum(),
            matching,
            better,
            worse,
            changed,
            unanswered,
            not_comparable: not_comparable.iter().map(|&(_, count)| count).sum(),
            not_comparable_by_reason: named(not_comparable.iter().copied()),
            by_field: named(fields.take(Differs::WORDS.len() - 1)),
            again: None,
        }
    }
}

fn named<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    counts.filter(|&(_, count)| count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Queries whose answers were `better`, `worse` or `changed`, asked once more after the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AskedAgain {
    /// Queries asked.
    pub asked: u64,
    /// Those of them whose answer is the expected one now.
    pub flapped: u64,
    /// Those whose answer still is not: what `disagreements.parquet` holds.
    pub confirmed: u64,
    /// Disagreements that were not asked about again: more than the most that are, or an interrupted run.
    pub left_out: u64,
}
