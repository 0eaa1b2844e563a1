//! Repeats a trace: each pass has the same transactions at later times.

use ldplayer_core::{TraceTime, Transaction};
use ldplayer_trace::{Input, Source, Tally, TraceError};

use crate::mutate::{Mutated, Mutator, Pools, RuleAccount};
use crate::open::{WorkloadError, names, open_source, read_rules};
use crate::options::{FeedOptions, Passes};

/// Maximum number of transactions, and octets of their messages, kept for further passes; longer traces are read again.
const KEPT: usize = 1 << 16;
const KEPT_OCTETS: usize = 64 << 20;
/// Number of kept transactions per batch.
const BATCH: usize = 4_096;
/// Nanoseconds between two passes if all transactions have the same time.
const MOMENT: i64 = 1_000_000;

/// Repeats the transactions of a trace after rules. Row numbers continue from pass to pass, and a pass begins one mean gap after the
/// end of the one before.
pub(crate) struct Looped {
    options: FeedOptions,
    inner: Mutated,
    passes: Passes,
    /// The number of clients that take turns with the queries of a list, which records none.
    dealt_to: Option<u64>,
    done: u32,
    /// The tally and rule statistics of the first pass, once it has ended.
    first: Option<(Tally, Vec<RuleAccount>)>,
    /// The transactions of the first pass, if few enough; and how many of them this pass has yielded.
    kept: Option<Vec<Transaction>>,
    octets: usize,
    given: usize,
    pass: Pass,
    shift: i64,
    rows: u64,
}

/// Statistics of a pass.
#[derive(Clone, Copy, Default)]
struct Pass {
    begin: Option<TraceTime>,
    end: TraceTime,
    transactions: u64,
    rows: u64,
    has_query: bool,
}

impl Pass {
    fn see(&mut self, transaction: &Transaction) {
        let begin = *self.begin.get_or_insert(transaction.time);
        self.end = self.end.max(begin).max(transaction.time);
        self.transactions += 1;
        self.rows = self.rows.max(transaction.index + 1);
        self.has_query |= transaction.query.is_some();
    }

    /// Nanoseconds from the start of this pass to that of the next.
    fn period(&self) -> i64 {
        let span = self.begin.map_or(0, |begin| self.end - begin);
        let gaps = self.transactions.saturating_sub(1).max(1) as i64;
        span.saturating_add((span / gaps).max(MOMENT))
    }
}

fn open(options: &FeedOptions) -> Result<Mutated, WorkloadError> {
    let rules = read_rules(&options.rules, &[])?;
    let inner = open_source(&options.inputs, &options.open, options.retries, &rules)?;
    let seed = rules.seed.unwrap_or(options.seed);
    Ok(Mutated::new(inner, Mutator::new(rules, seed, 0)))
}

impl Looped {
    /// Opens the trace.
    ///
    /// # Errors
    /// It cannot be opened, or cannot be read as often as requested.
    pub fn open(options: &FeedOptions) -> Result<Self, WorkloadError> {
        let can_loop = options.inputs.iter().all(|input| matches!(input, Input::File(_)));
        if options.passes.is_some_and(|passes| passes != Passes::ONCE) && !can_loop {
            return Err(WorkloadError::LoopOnce);
        }
        let inner = open(options)?;
        let fills_time = inner.is_list() && can_loop && options.plan.until.is_some();
        let passes = options.passes.unwrap_or(if fills_time { Passes::Forever } else { Passes::ONCE });
        let is_looped = passes != Passes::ONCE;
        Ok(Self {
            options: options.clone(),
            dealt_to: options.plan.clients.filter(|_| inner.is_list()),
            inner,
            passes,
            done: 0,
            first: None,
            kept: is_looped.then(Vec::new),
            octets: 0,
            given: 0,
            pass: Pass::default(),
            shift: 0,
            rows: 0,
        })
    }

    /// The statistics of each rule in the first pass; they are the same in all.
    pub fn accounts(&self) -> Vec<RuleAccount> {
        self.first.as_ref().map_or_else(|| self.inner.mutator().accounts(), |(_, accounts)| accounts.clone())
    }

    /// The next transactions of this pass, at their recorded times.
    fn read_pass(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.done > 0) else { return self.inner.read(batch) };
        let end = kept.len().min(self.given + BATCH);
        batch.extend_from_slice(&kept[self.given..end]);
        self.given = end;
        Ok(end < kept.len())
    }

    /// Assigns the queries of a list to clients in turn.
    fn deal(&self, transactions: &mut [Transaction]) {
        let Some(clients) = self.dealt_to else { return };
        let pool = Pools::default().v4;
        for transaction in transactions {
            // The first address of a block often denotes the block.
            transaction.client.set_ip(pool.nth(1 + transaction.index % clients.min(pool.size() - 1)));
        }
    }

    /// Keeps the transactions of the first pass, up to the limit.
    fn keep(&mut self, transactions: &[Transaction]) {
        let Some(kept) = self.kept.as_mut().filter(|_| self.done == 0) else { return };
        self.octets += transactions.iter().map(Transaction::message_octets).sum::<usize>();
        kept.extend_from_slice(transactions);
        if kept.len() > KEPT || self.octets > KEPT_OCTETS {
            self.kept = None;
        }
    }

    /// Begins the next pass; `false` if there is none.
    fn turn(&mut self) -> Result<bool, TraceError> {
        if self.first.is_none() {
            self.first = Some((self.inner.tally().clone(), self.inner.mutator().accounts()));
        }
        self.done = self.done.saturating_add(1);
        if !self.pass.has_query || !self.passes.has_more(self.done) {
            return Ok(false);
        }
        self.shift = self.shift.saturating_add(self.pass.period());
        self.rows += self.pass.rows;
        (self.pass, self.given) = (Pass::default(), 0);
        if self.kept.is_none() {
            self.inner = open(&self.options).map_err(|error| self.unreadable(error))?;
        }
        Ok(true)
    }

    fn unreadable(&self, error: WorkloadError) -> TraceError {
        match error {
            WorkloadError::Trace(error) => error,
            other => TraceError::Format {
                path: names(&self.options.inputs).into(),
                what: other.to_string(),
                remedy: "do not change the files of a trace during a replay that repeats it".to_owned(),
            },
        }
    }
}

impl Source for Looped {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let begin = batch.len();
        let more = self.read_pass(batch)?;
        if self.passes == Passes::ONCE {
            self.deal(&mut batch[begin..]);
            return Ok(more);
        }
        self.keep(&batch[begin..]);
        for transaction in &mut batch[begin..] {
            self.pass.see(transaction);
            transaction.time = TraceTime(transaction.time.0.saturating_add(self.shift));
            transaction.index += self.rows;
            transaction.retry_of = transaction.retry_of.map(|first| first + self.rows);
        }
        self.deal(&mut batch[begin..]);
        if more { Ok(true) } else { self.turn() }
    }

    fn tally(&self) -> &Tally {
        self.first.as_ref().map_or_else(|| self.inner.tally(), |(tally, _)| tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PlanFeed, PlanOptions, Timing};

    /// Queries of two clients at 0, 100 and 300 ms.
    const TRACE: &str = "time\tsrc\tqname\tqtype\n5\t192.0.2.1\ta.\tA\n5.1\t192.0.2.2\tb.\tA\n5.3\t192.0.2.1\tc.\tA\n";

    fn feed(text: &str, passes: &str, plan: PlanOptions) -> (tempfile::TempDir, PlanFeed) {
        feed_of(text, Some(passes.parse().unwrap()), plan)
    }

    fn feed_of(text: &str, passes: Option<Passes>, plan: PlanOptions) -> (tempfile::TempDir, PlanFeed) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tsv");
        std::fs::write(&file, text).unwrap();
        let options = FeedOptions { passes, plan, ..FeedOptions::of(vec![Input::File(file)]) };
        (folder, PlanFeed::open(&options).unwrap())
    }

    /// The rows and due times in milliseconds of the queries.
    fn queries(passes: &str, plan: PlanOptions) -> Vec<(u64, i64)> {
        let (_folder, mut feed) = feed(TRACE, passes, plan);
        let mut all = Vec::new();
        while feed.next(&mut all).unwrap() {}
        all.iter().map(|query| (query.index, query.due.0 / 1_000_000)).collect()
    }

    #[test]
    fn a_pass_begins_a_mean_gap_behind_the_one_before_and_rows_are_numbered_on() {
        assert_eq!(queries("1", PlanOptions::default()), [(0, 0), (1, 100), (2, 300)]);
        let twice = [(0, 0), (1, 100), (2, 300), (3, 450), (4, 550), (5, 750)];
        assert_eq!(queries("2", PlanOptions::default()), twice);
        let cut = PlanOptions { start: 300_000_000, stop: Some(560_000_000), ..PlanOptions::default() };
        assert_eq!(queries("forever", cut), [(2, 0), (3, 150), (4, 250)]);
    }

    #[test]
    fn a_run_ends_by_the_clock_however_long_the_trace_is() {
        let timing = Timing::Rate(100.0);
        let plan = PlanOptions { timing, until: Some(95_000_000), ..PlanOptions::default() };
        let all = queries("forever", plan);
        assert_eq!((all.len(), all[9]), (10, (9, 90)));
        let short = PlanOptions { until: Some(i64::MAX), ..plan };
        assert_eq!(queries("3", short).len(), 9, "the trace may end first");
    }

    #[test]
    fn the_first_clients_are_those_that_ask_first() {
        let one = PlanOptions { clients: Some(1), ..PlanOptions::default() };
        assert_eq!(queries("2", one), [(0, 0), (2, 300), (3, 450), (5, 750)]);
        assert_eq!(queries("1", PlanOptions { clients: Some(9), ..one }).len(), 3);
    }

    /// What a list of three names becomes: rows, clients and due times in milliseconds.
    fn of_list(plan: PlanOptions, passes: Option<Passes>) -> Vec<(u64, String, i64)> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("names.txt");
        std::fs::write(&file, "a.example A\nb.example A\nc.example A\n").unwrap();
        let options = FeedOptions { passes, plan, ..FeedOptions::of(vec![Input::File(file)]) };
        let (mut feed, mut all) = (PlanFeed::open(&options).unwrap(), Vec::new());
        while feed.next(&mut all).unwrap() {}
        all.iter().map(|query| (query.index, query.client.to_string(), query.due.0 / 1_000_000)).collect()
    }

    #[test]
    fn a_list_of_queries_fills_the_time_that_it_is_given() {
        let timing = Timing::Rate(100.0);
        let plan = PlanOptions { timing, until: Some(75_000_000), ..PlanOptions::default() };
        let rows: Vec<u64> = of_list(plan, None).into_iter().map(|(row, ..)| row).collect();
        assert_eq!(rows, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of_list(plan, Some(Passes::ONCE)).len(), 3, "unless its passes are given");
        assert_eq!(of_list(PlanOptions { timing, ..PlanOptions::default() }, None).len(), 3);
        assert_eq!(of_list(PlanOptions { timing: Timing::Fast, ..plan }, Some(Passes::ONCE)).len(), 3);
        let trace = PlanOptions { until: Some(i64::MAX), ..PlanOptions::default() };
        let (_folder, mut feed) = feed_of(TRACE, None, trace);
        let mut all = Vec::new();
        while feed.next(&mut all).unwrap() {}
        assert_eq!(all.len(), 3, "a trace has its own end");
    }

    #[test]
    fn the_queries_of_a_list_are_dealt_to_as_many_clients_as_are_wanted() {
        let plan = PlanOptions { clients: Some(2), timing: Timing::Rate(100.0), ..PlanOptions::default() };
        let found = of_list(plan, Some("2".parse().unwrap()));
        let clients: Vec<&str> = found.iter().map(|(_, client, _)| client.as_str()).collect();
        assert_eq!(clients, ["10.0.0.1", "10.0.0.2"].repeat(3));
        let one = of_list(PlanOptions::default(), None);
        assert!(one.iter().all(|(_, client, _)| client == "127.0.0.1"), "{one:?}");
    }

    #[test]
    fn a_trace_that_is_too_long_to_keep_is_read_again() {
        let rows: String = (0..=KEPT).map(|row| format!("{}\t192.0.2.1\ta.\tA\n", row as f64 / 1e6)).collect();
        let (_folder, mut feed) = feed(&format!("time\tsrc\tqname\tqtype\n{rows}"), "2", PlanOptions::default());
        let mut all = Vec::new();
        while feed.next(&mut all).unwrap() {}
        assert_eq!(all.len(), 2 * (KEPT + 1));
        assert!(all.is_sorted_by_key(|query| (query.due.0, query.index)));
        assert_eq!((all[KEPT + 1].index, feed.tally().queries), (KEPT as u64 + 1, KEPT as u64 + 1));
    }

    #[test]
    fn what_cannot_be_gone_through_again_is_refused() {
        let options = |input| FeedOptions { passes: Some(Passes::Forever), ..FeedOptions::of(vec![input]) };
        let error = PlanFeed::open(&options(Input::Stdin)).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("--loop"), "{error}");
        for bad in ["0", "-1", "", "always"] {
            assert!(bad.parse::<Passes>().is_err(), "{bad}");
        }
        assert_eq!("forever".parse::<Passes>().map(|passes| passes.to_string()), Ok("forever".to_owned()));
    }
}
