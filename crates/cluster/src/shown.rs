//! What is shown of a run while it lasts: the accounts of all agents together, their latencies, one endpoint for all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ldplayer_core::RunTime;
use ldplayer_core::histogram::Histogram;
use ldplayer_net::clock;
use ldplayer_replay::Counts;
use ldplayer_results::metrics::{Endpoint, Latencies, Listener, Snapshot};
use ldplayer_run::Progress;

use crate::error::ClusterError;
use crate::member::Member;

/// How often agents are asked for their latencies.
const LATENCIES_EVERY: Duration = Duration::from_secs(1);

/// The figures of all agents.
pub struct Board {
    latencies: Arc<Latencies>,
    figures: Arc<Mutex<Snapshot>>,
    _endpoint: Option<Endpoint>,
    /// When latencies were asked for, and what they were.
    before: (Instant, Histogram),
    last_second: Option<(i64, i64)>,
}

impl Board {
    /// Serves the figures where somebody may ask for them.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn open(listener: Option<Listener>) -> Result<Self, ClusterError> {
        let (latencies, figures) = (Arc::<Latencies>::default(), Arc::<Mutex<Snapshot>>::default());
        let serve = |listener: Listener| {
            let figures = Arc::clone(&figures);
            let snapshot = move || figures.lock().unwrap_or_else(PoisonError::into_inner).clone();
            listener.serve(Arc::clone(&latencies), snapshot).map_err(ClusterError::Runtime)
        };
        let endpoint = listener.map(serve).transpose()?;
        let before = (Instant::now(), Histogram::new());
        Ok(Self { latencies, figures, _endpoint: endpoint, before, last_second: None })
    }

    /// Whether it is time to ask for latencies again.
    pub fn wants_latencies(&self) -> bool {
        self.before.0.elapsed() >= LATENCIES_EVERY
    }

    /// Shows what the agents have said last. Run time 0 is at `start_ns` of our CLOCK_MONOTONIC.
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
        Progress { at, counts, lag_ns, latency_ns: self.last_second }
    }

    fn count(&mut self, members: &[Member]) {
        let told = members.iter().filter_map(|member| member.progress.latencies.as_ref());
        let all = self.latencies.show(told);
        let last = all.since(&self.before.1);
        self.last_second = (!last.is_empty()).then(|| (last.quantile(0.5), last.quantile(0.99)));
        self.before = (Instant::now(), all);
    }
}
