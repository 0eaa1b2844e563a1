//! Counts of answers that were compared with expected ones.

use std::collections::BTreeMap;

use arrow_array::types::Int8Type;
use ldplayer_core::{Answer, Differs, Reason, Status};

use super::accounts::{reason, status};
use super::read::Batch;
use crate::error::ResultsError;
use crate::model::AnswersCompared;

/// Why a query was not compared, as keys of the summary.
const REASONS: [&str; 3] = ["not_sent", "interrupted", "no_reference"];

/// Queries by the result of the comparison of their answers, and by the differing part.
#[derive(Default)]
pub struct Comparison {
    answers: [u64; Answer::ALL.len()],
    differs: [u64; Differs::WORDS.len()],
    not_comparable: [u64; REASONS.len()],
}

impl Comparison {
    /// Adds a batch of rows.
    pub fn add(&mut self, batch: &Batch<'_>) -> Result<(), ResultsError> {
        let status = batch.words::<Int8Type, _>("status", status)?;
        let reason = batch.words::<Int8Type, _>("reason", reason)?;
        let answer = batch.words::<Int8Type, _>("answer", answer)?;
        let differs =
            batch.later_words::<Int8Type, _>("differs", |word| word.parse::<Differs>().unwrap_or_default())?;
        for row in 0..batch.len() {
            let Some(status) = status.at(row).flatten().filter(|status| status.is_query()) else { continue };
            match answer.at(row).flatten() {
                Some(answer) => {
                    self.answers[answer as usize] += 1;
                    self.count_differences(differs.as_ref().and_then(|differs| differs.at(row)).unwrap_or_default());
                }
                None => self.not_comparable[why_not(status, reason.at(row).flatten())] += 1,
            }
        }
        Ok(())
    }

    fn count_differences(&mut self, differs: Differs) {
        for (bit, count) in self.differs.iter_mut().enumerate() {
            *count += u64::from(differs.bits() >> bit & 1);
        }
    }

    /// Queries by the word of how their answers compare; those of no query are left out.
    pub fn by_word(&self) -> BTreeMap<String, u64> {
        named(Answer::ALL.into_iter().map(Answer::as_str).zip(self.answers))
    }

    /// All of it; `None` where nothing was compared.
    pub fn compared(&self) -> Option<AnswersCompared> {
        let reasons: Vec<(&str, u64)> = REASONS.into_iter().zip(self.not_comparable).collect();
        let compared = AnswersCompared::new(self.answers, self.differs, &reasons);
        (compared.compared > 0).then_some(compared)
    }
}

/// An index of [`REASONS`].
const fn why_not(status: Status, reason: Option<Reason>) -> usize {
    match (status, reason) {
        (Status::NotSent, _) => 0,
        (Status::Timeout, Some(Reason::Interrupted)) => 1,
        _ => 2,
    }
}

/// The comparison of its word.
pub fn answer(word: &str) -> Option<Answer> {
    Answer::ALL.into_iter().find(|answer| answer.as_str() == word)
}

fn named<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    counts.filter(|&(_, count)| count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}
