//! Live figures of a run: sums over all agents, merged latencies, and one metrics endpoint.

use std::sync::{Arc, Mutex, PoisonError};

use ldplayer_core::RunTime;
use ldplayer_net::clock;
use ldplayer_replay::Counts;
use ldplayer_report::metrics::{Endpoint, Latencies, Listener, Snapshot};
use ldplayer_run::{LastSecond, Progress};

use crate::error::ClusterError;
use crate::member::Member;

/// The figures of all agents.
pub struct Board {
    latencies: Arc<Latencies>,
    figures: Arc<Mutex<Snapshot>>,
    _endpoint: Option<Endpoint>,
    last: LastSecond,
}

impl Board {
    /// Serves the figures, if an endpoint is configured.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn open(listener: Option<Listener>) -> Result<Self, ClusterError> {
        let (latencies, figures) = (Arc::<Latencies>::default(), Arc::<Mutex<Snapshot>>::default());
        let serve = |listener: Listener| {
            let figures = Arc::clone(&figures);
            let snapshot = move || figures.lock().unwrap_or_else(PoisonError::into_inner).clone();
            listener.serve(Arc::clone(&latencies), snapshot).map_err(ClusterError::Runtime)
        };
        let endpoint = listener.map(serve).transpose()?;
        Ok(Self { latencies, figures, _endpoint: endpoint, last: LastSecond::default() })
    }

    /// Whether to request latencies now.
    pub fn wants_latencies(&self) -> bool {
        self.last.is_due()
    }

    /// Shows the agents' last progress. Run time 0 is at `start_ns` of our CLOCK_MONOTONIC.
    pub fn show(&mut self, members: &[Member], start_ns: i64) -> Progress {
        let at = RunTime(clock::monotonic_ns() - start_ns);
        let mut figures = Snapshot { run_s: at.0 as f64 / 1e9, ..Snapshot::default() };
        members.iter().for_each(|member| figures.add(&member.hello.name, &member.progress.figures));
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
        if self.wants_latencies() {
            self.count(members);
        }
        let counts = members.iter().map(Member::counts).fold(Counts::default(), |sum, counts| sum.plus(&counts));
        let lag_ns = members.iter().map(Member::lag_ns).max().unwrap_or(0);
        Progress { at, counts, lag_ns, latency_ns: self.last.quantiles() }
    }

    fn count(&mut self, members: &[Member]) {
        let told = members.iter().filter_map(|member| member.progress.latencies.as_ref());
        self.last.look(self.latencies.show(told));
    }
}
