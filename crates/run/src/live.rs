//! The progress that a host reports of its share of a run, to be summed up over hosts.

use std::sync::{Arc, OnceLock};

use ldplayer_net::clock;
use ldplayer_replay::Monitor;
use ldplayer_report::metrics::{Latencies, LatencyCounts, Snapshot};

use crate::metrics;

/// The live figures of a share; empty before its start.
#[derive(Debug, Default)]
pub struct Live {
    latencies: Arc<Latencies>,
    /// The monitor of the engine, and run time 0 on CLOCK_MONOTONIC.
    engine: OnceLock<(Arc<Monitor>, i64)>,
}

impl Live {
    /// The current counters.
    pub fn snapshot(&self) -> Snapshot {
        let Some((monitor, origin)) = self.engine.get() else { return Snapshot::default() };
        metrics::snapshot(monitor, (clock::monotonic_ns() - origin) as f64 / 1e9)
    }

    /// The latencies so far.
    pub fn latencies(&self) -> LatencyCounts {
        self.latencies.counts()
    }

    /// Sets where latencies are counted.
    pub(crate) fn begin(&self, monitor: &Arc<Monitor>, origin: i64) -> Arc<Latencies> {
        // A share begins only once.
        let _ = self.engine.set((Arc::clone(monitor), origin));
        Arc::clone(&self.latencies)
    }
}
