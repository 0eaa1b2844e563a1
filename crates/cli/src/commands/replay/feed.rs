//! The queries of the trace as the replay engine takes them.

use ldplayer_core::Query;
use ldplayer_replay::{Feed, LinkError};
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
