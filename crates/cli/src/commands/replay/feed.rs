//! The trace as the replay engine sees it: read, planned, one batch ahead.

use ldplayer_core::{Query, TraceTime, Transaction};
use ldplayer_replay::{Feed, LinkError};
use ldplayer_trace::Source;
use ldplayer_workload::mutate::{Mutated, Mutator};
use ldplayer_workload::{ClassDraws, Planner};

use super::super::mutate;
use super::options::Plan;
use crate::failure::Failure;

/// A trace that is planned while it is read.
pub struct PlanFeed {
    source: Mutated,
    planner: Planner,
    classes: Option<ClassDraws>,
    transactions: Vec<Transaction>,
    first_batch: Vec<Query>,
    exhausted: bool,
}

impl PlanFeed {
    /// Opens the trace and reads up to its first query.
    pub fn open(plan: &Plan) -> Result<Self, Failure> {
        let rules = mutate::read_rules(&plan.rules, &[])?;
        let inner = mutate::open_source(&plan.inputs, &plan.open, &rules)?;
        let seed = rules.seed.unwrap_or(plan.settings.seed);
        let source = Mutated::new(inner, Mutator::new(rules, seed, 0));
        let planner = Planner::new(plan.plan);
        let classes = (!plan.classes.is_empty()).then(|| ClassDraws::new(&plan.classes, plan.settings.seed));
        let mut feed =
            Self { source, planner, classes, transactions: Vec::new(), first_batch: Vec::new(), exhausted: false };
        let mut batch = Vec::new();
        while batch.is_empty() && !feed.exhausted {
            feed.read(&mut batch)?;
        }
        if batch.is_empty() {
            return Err(anyhow::anyhow!("{}", feed.explain_emptiness(plan)).into());
        }
        feed.first_batch = batch;
        Ok(feed)
    }

    /// Time of the first query in the trace.
    pub fn first(&self) -> TraceTime {
        self.planner.first().unwrap_or_default()
    }

    /// Says on stderr which rules were for nothing, and what they could not change.
    pub fn warn_of_rules(&self) {
        mutate::warn(&self.source.mutator().accounts());
    }

    /// What the reader saw, for `run.json`.
    pub fn tally(&self) -> serde_json::Value {
        let tally = self.source.tally();
        serde_json::json!({
            "packets": tally.packets,
            "dns_messages": tally.dns_messages,
            "queries": tally.queries,
            "responses": tally.responses,
            "skipped": tally.skipped,
            "kinds": tally.kinds,
            "lost": tally.lost,
            "damaged": tally.damaged,
        })
    }

    /// What clients have drawn their classes so far.
    pub const fn classes(&self) -> Option<&ClassDraws> {
        self.classes.as_ref()
    }

    /// Queries that the trace has after later ones, further apart than they can be sorted.
    pub fn out_of_order(&self) -> u64 {
        self.source.tally().damage_count("out_of_order")
    }

    fn read(&mut self, batch: &mut Vec<Query>) -> Result<(), ldplayer_trace::TraceError> {
        self.transactions.clear();
        let more = self.source.read(&mut self.transactions)?;
        let (planner, begin) = (&mut self.planner, batch.len());
        batch.reserve(self.transactions.len());
        batch.extend(self.transactions.iter_mut().filter_map(|transaction| planner.plan(transaction)));
        if let Some(classes) = &mut self.classes {
            batch[begin..].iter_mut().for_each(|query| classes.assign(query));
        }
        self.exhausted = !more || self.planner.is_finished();
        Ok(())
    }

    fn explain_emptiness(&self, plan: &Plan) -> String {
        let tally = self.source.tally();
        let names: Vec<String> = plan.inputs.iter().map(ToString::to_string).collect();
        let (names, packets) = (names.join(", "), tally.packets);
        if tally.queries > 0 {
            return format!("{names}: none of its {} queries lies between --start and --stop", tally.queries);
        }
        format!(
            "{names}: no DNS query in {packets} packets (ports {:?}); see `ldplayer inspect`, or give --port",
            plan.open.ports
        )
    }
}

impl Feed for PlanFeed {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        if !self.first_batch.is_empty() {
            batch.append(&mut self.first_batch);
        } else if !self.exhausted {
            self.read(batch)?;
        }
        Ok(!self.exhausted)
    }
}
