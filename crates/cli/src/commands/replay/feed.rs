//! The queries of the trace as the replay engine takes them, and what `run.json` says of reading them.

use ldplayer_core::Query;
use ldplayer_replay::{Feed, LinkError};
use ldplayer_trace::Tally;
use ldplayer_workload::{FeedOptions, PlanFeed};

use super::options::Plan;

/// The trace, opened as the options say.
pub fn open(plan: &Plan) -> Result<PlanFeed, ldplayer_workload::WorkloadError> {
    PlanFeed::open(&FeedOptions {
        inputs: plan.inputs.clone(),
        open: plan.open.clone(),
        rules: plan.rules.clone(),
        plan: plan.plan,
        classes: plan.classes.clone(),
        seed: plan.settings.seed,
    })
}

/// The trace as the engine sees it.
pub struct Queries(pub PlanFeed);

impl Feed for Queries {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        Ok(self.0.next(batch)?)
    }
}

/// What the reader saw, for `run.json`.
pub fn tally(tally: &Tally) -> serde_json::Value {
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
