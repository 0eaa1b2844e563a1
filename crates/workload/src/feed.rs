//! The queries of a run: reads, changes and plans a trace batch by batch.

use bytes::Bytes;
use ldplayer_core::{Expected, Message, Query, TraceTime, Transaction};
use ldplayer_trace::{DependencyCounts, Source, Tally, TraceError, why_nothing};

use crate::mutate::RuleAccount;
use crate::open::{WorkloadError, names};
use crate::options::FeedOptions;
use crate::passes::Looped;
use crate::recorded::Recorded;
use crate::waits::Waits;
use crate::{ClassDraws, Planner};

/// A trace that is planned while it is read.
pub struct PlanFeed {
    source: Looped,
    planner: Planner,
    waits: Option<Waits>,
    classes: Option<ClassDraws>,
    compare: bool,
    recorded: Recorded,
    comparable: u64,
    transactions: Vec<Transaction>,
    first_batch: Vec<Query>,
    exhausted: bool,
}

impl PlanFeed {
    /// Opens the trace and reads up to its first query.
    ///
    /// # Errors
    /// A file cannot be read or is not what it should be; or there is no query to replay.
    pub fn open(options: &FeedOptions) -> Result<Self, WorkloadError> {
        let source = Looped::open(options)?;
        let planner = Planner::new(options.plan, options.seed);
        let waits = Waits::new(options.dependencies, options.plan.timing);
        let classes = (!options.classes.is_empty()).then(|| ClassDraws::new(&options.classes, options.seed));
        let mut feed = Self {
            source,
            planner,
            waits,
            classes,
            compare: options.compare,
            recorded: Recorded::default(),
            comparable: 0,
            transactions: Vec::new(),
            first_batch: Vec::new(),
            exhausted: false,
        };
        let mut batch = Vec::new();
        while batch.is_empty() && !feed.exhausted {
            feed.read(&mut batch)?;
        }
        if batch.is_empty() {
            return Err(WorkloadError::Empty(feed.explain_emptiness(options)));
        }
        if feed.waits.is_some() && !feed.recorded.has_answers() {
            return Err(WorkloadError::NoAnswers(names(&options.inputs)));
        }
        feed.first_batch = batch;
        Ok(feed)
    }

    /// Appends the next queries, in the order of their due times; `false` at the end.
    ///
    /// # Errors
    /// Reading cannot continue; what was yielded is valid.
    pub fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, TraceError> {
        if !self.first_batch.is_empty() {
            batch.append(&mut self.first_batch);
        } else if !self.exhausted {
            self.read(batch)?;
        }
        Ok(!self.exhausted)
    }

    /// The first query, until it is taken.
    pub fn first_query(&self) -> Option<&Query> {
        self.first_batch.first()
    }

    /// Time of the first query in the trace.
    pub fn first(&self) -> TraceTime {
        self.planner.first().unwrap_or_default()
    }

    /// What each rule did so far.
    pub fn rules(&self) -> Vec<RuleAccount> {
        self.source.accounts()
    }

    /// The reader's tally so far.
    pub fn tally(&self) -> &Tally {
        self.source.tally()
    }

    /// The class draws so far.
    pub const fn classes(&self) -> Option<&ClassDraws> {
        self.classes.as_ref()
    }

    /// The recorded answers to the queries so far; `None` if the trace has no answers.
    pub fn recorded(&self) -> Option<&Recorded> {
        Some(&self.recorded).filter(|recorded| recorded.has_answers())
    }

    /// Queries that wait for answers so far; `None` where none shall.
    pub fn dependencies(&self) -> Option<&DependencyCounts> {
        self.waits.as_ref().map(Waits::counts)
    }

    /// Queries so far whose answers can be compared with recorded ones.
    pub const fn comparable(&self) -> u64 {
        self.comparable
    }

    /// Like [`Self::next`], but appends only the selected queries, with their transactions as planned. `false` at the end.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub fn find(
        &mut self,
        is_wanted: impl Fn(&Query) -> bool,
        found: &mut Vec<(Query, Transaction)>,
    ) -> Result<bool, TraceError> {
        let mut batch = Vec::new();
        let more = self.next(&mut batch)?;
        // Those of the last read, in order; some may not be planned.
        let mut transactions = self.transactions.iter();
        for query in batch {
            let is_its = |row: &&Transaction| row.index == query.index && row.client.ip() == query.client;
            let transaction = transactions.find(is_its).filter(|_| is_wanted(&query));
            let whole = transaction.map(|row| Transaction { query: Some(query.wire.clone()), ..row.clone() });
            found.extend(whole.map(|transaction| (query, transaction)));
        }
        Ok(more)
    }

    fn read(&mut self, batch: &mut Vec<Query>) -> Result<(), TraceError> {
        self.transactions.clear();
        let more = self.source.read(&mut self.transactions)?;
        let begin = batch.len();
        batch.reserve(self.transactions.len());
        for transaction in &mut self.transactions {
            let followed = self.waits.iter_mut().find_map(|waits| waits.see(transaction));
            if let Some(mut query) = self.planner.plan(transaction) {
                self.recorded.count(transaction);
                query.expected = if self.compare { expected(&query, transaction) } else { Expected::Nothing };
                self.comparable += u64::from(query.expected != Expected::Nothing);
                match &mut self.waits {
                    Some(waits) => waits.push(query, followed),
                    None => batch.push(query),
                }
            }
        }
        self.exhausted = !more || self.planner.is_finished();
        self.waits.iter_mut().for_each(|waits| waits.pop_into(batch, self.exhausted));
        if let Some(classes) = &mut self.classes {
            batch[begin..].iter_mut().for_each(|query| classes.assign(query));
        }
        Ok(())
    }

    fn explain_emptiness(&self, options: &FeedOptions) -> String {
        let tally = self.source.tally();
        let (names, packets) = (names(&options.inputs), tally.packets);
        if tally.queries > 0 {
            return format!("{names}: no query between --start and --stop; queries in the trace: {}", tally.queries);
        }
        let why = why_nothing(&tally.skipped, &tally.damaged);
        let ports = &options.open.ports;
        format!("{names}: no DNS queries found; packets or lines read: {packets}, ports: {ports:?}{why}")
    }
}

/// The recorded response, if it still answers the query after changes by rules and was captured whole.
fn expected(query: &Query, transaction: &Transaction) -> Expected {
    let answers = |octets: &&Bytes| {
        let response = Message::new(octets).filter(|message| message.is_response() && !message.is_cut());
        let query = Message::new(&query.wire);
        response
            .zip(query)
            .is_some_and(|(response, query)| response.question().is_none() || response.same_question(&query))
    };
    let recorded = transaction.response.as_ref().filter(answers);
    recorded.map_or(Expected::Nothing, |octets| Expected::Response(octets.clone()))
}
