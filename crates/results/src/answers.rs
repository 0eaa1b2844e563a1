//! What two servers said, compared afterwards from the responses that both kept.

mod disagreeing;
mod responses;

use std::collections::VecDeque;
use std::path::Path;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use ldplayer_core::{Answer, Differs, Ignore};

pub use self::disagreeing::disagreeing;
use self::responses::{KeptResponse, KeptResponses, Row};
use crate::error::ResultsError;
use crate::model::AnswersCompared;
use crate::store::RESPONSES;

/// Queries of one run at most that wait for those of the other (some 300 MB). Two runs of one trace send its queries in nearly the
/// same order, so that thousands wait; more than this wait only where they do not go together.
const WAITING_MOST: usize = 4 << 20;

/// The same where their messages wait with them.
const WAITING_WITH_MESSAGES: usize = 1 << 18;

/// Compares what two runs of the same trace kept of the server's responses, query by query: how the answers of `b` are to those of `a`.
///
/// Queries are paired by their row in the trace and their question, several of a kind in their order. Those that only one of the runs
/// sent cannot be compared (`only_in_a`, `only_in_b`), nor can those that have no answer in `a` (`no_reference`). One that has an answer
/// in `a` alone is worse. `None` when either of the runs kept no responses.
///
/// Memory: what one of the runs is ahead of the other, some 80 octets a query; what is more than that allows is not compared
/// (`out_of_step`).
///
/// # Errors
/// A file cannot be read, or is not one that a run has written.
pub fn compare_runs(a: &Path, b: &Path, ignore: &Ignore) -> Result<Option<AnswersCompared>, ResultsError> {
    compare_within(a, b, ignore, WAITING_MOST, &mut Counts::default())
}

/// Passes on each answer of `b` that is not as that of `a`, where both runs kept responses; `false` where they did not.
///
/// # Errors
/// As for [`compare_runs`].
pub fn changed(a: &Path, b: &Path, ignore: &Ignore, mut each: impl FnMut(Changed<'_>)) -> Result<bool, ResultsError> {
    let mut counts = Counts { each: Some(&mut each), ..Counts::default() };
    Ok(compare_within(a, b, ignore, WAITING_WITH_MESSAGES, &mut counts)?.is_some())
}

/// An answer that changed: messages in wire format.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    /// How it changed.
    pub answer: Answer,
    /// The query.
    pub query: &'a [u8],
    /// The response in the first run; `None` if there was none.
    pub old: Option<&'a [u8]>,
    /// The same in the other run.
    pub new: Option<&'a [u8]>,
}

fn compare_within(
    a: &Path,
    b: &Path,
    ignore: &Ignore,
    most: usize,
    counts: &mut Counts<'_>,
) -> Result<Option<AnswersCompared>, ResultsError> {
    let [a, b] = [a, b].map(|run| run.join(RESPONSES));
    if !(a.exists() && b.exists()) {
        return Ok(None);
    }
    let with_messages = counts.each.is_some();
    let open = |run: &Path| KeptResponses::open(run, with_messages).map(Side::new);
    let mut runs = [open(&a)?, open(&b)?];
    while runs.iter().any(|run| !run.ended) {
        // The run that is behind is read on, so that little waits.
        let behind = usize::from(runs[0].ended || (!runs[1].ended && runs[1].reached < runs[0].reached));
        let Some(batch) = runs[behind].kept.next(ignore)? else {
            runs[behind].ended = true;
            continue;
        };
        batch.into_iter().for_each(|row| pair(&mut runs, behind, row, counts));
        for run in &mut runs {
            counts.out_of_step += run.forget_beyond(most);
        }
    }
    Ok(Some(counts.summary(&runs)))
}

/// A run that is read.
struct Side {
    kept: KeptResponses,
    /// The last row of the trace that was reached.
    reached: u64,
    ended: bool,
    /// What the other run has not come to yet: by row of the trace and question, the responses in their order.
    waiting: HashMap<(u64, u64), VecDeque<KeptResponse>>,
    rows: usize,
}

impl Side {
    fn new(kept: KeptResponses) -> Self {
        Self { kept, reached: 0, ended: false, waiting: HashMap::new(), rows: 0 }
    }

    fn take(&mut self, key: (u64, u64)) -> Option<KeptResponse> {
        let Entry::Occupied(mut found) = self.waiting.entry(key) else { return None };
        let first = found.get_mut().pop_front();
        if found.get().is_empty() {
            found.remove();
        }
        self.rows -= usize::from(first.is_some());
        first
    }

    fn wait(&mut self, row: Row) {
        self.waiting.entry((row.index, row.question)).or_default().push_back(row.kept);
        self.rows += 1;
    }

    /// Forgets all that waits where it is too much: these runs do not go together. Returns how many queries that was.
    fn forget_beyond(&mut self, most: usize) -> u64 {
        if self.rows <= most {
            return 0;
        }
        self.waiting.clear();
        std::mem::take(&mut self.rows) as u64
    }
}

/// Pairs a row of one run with what the other has, or lets it wait.
fn pair(runs: &mut [Side; 2], of: usize, row: Row, counts: &mut Counts<'_>) {
    runs[of].reached = runs[of].reached.max(row.index);
    match runs[1 - of].take((row.index, row.question)) {
        Some(other) if of == 0 => counts.judge(&row.kept, &other),
        Some(other) => counts.judge(&other, &row.kept),
        None => runs[of].wait(row),
    }
}

#[derive(Default)]
struct Counts<'e> {
    /// Who wants to see the answers that are not as expected.
    each: Option<&'e mut dyn FnMut(Changed<'_>)>,
    answers: [u64; Answer::ALL.len()],
    differs: [u64; Differs::WORDS.len()],
    no_reference: u64,
    out_of_step: u64,
}

impl Counts<'_> {
    fn judge(&mut self, old: &KeptResponse, new: &KeptResponse) {
        let Some(expected) = old.response else {
            self.no_reference += 1;
            return;
        };
        let (answer, differs) =
            new.response.map_or((Answer::Worse, Differs::UNANSWERED), |found| expected.judge(found));
        self.answers[answer as usize] += 1;
        for (bit, count) in self.differs.iter_mut().enumerate() {
            *count += u64::from(differs.bits() >> bit & 1);
        }
        if let (Some(each), Some(query)) = (&mut self.each, &old.query)
            && answer != Answer::Match
        {
            each(Changed { answer, query, old: old.message.as_deref(), new: new.message.as_deref() });
        }
    }

    fn summary(&self, [a, b]: &[Side; 2]) -> AnswersCompared {
        let reasons = [
            ("no_reference", self.no_reference),
            ("only_in_a", a.rows as u64),
            ("only_in_b", b.rows as u64),
            ("out_of_step", self.out_of_step),
        ];
        AnswersCompared::new(self.answers, self.differs, &reasons)
    }
}

#[cfg(test)]
mod tests;
