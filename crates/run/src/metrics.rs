//! `--metrics`: a Prometheus endpoint for the running engine.

use std::net::SocketAddr;
use std::sync::Arc;

use ldplayer_net::clock;
use ldplayer_replay::{Counts, Monitor};
use ldplayer_report::metrics::{ConnectionFigures, Endpoint, Latencies, Listener, Snapshot, WorkerFigures};

use crate::error::RunError;

/// Listens on the given address.
pub fn listen(address: Option<SocketAddr>) -> Result<Option<Listener>, RunError> {
    let listen = |address| {
        Listener::bind(address).map_err(|error| {
            RunError::Environment(format!("--metrics {address}: {error}; give an address and free port of this host"))
        })
    };
    address.map(listen).transpose()
}

/// Starts serving the figures of a run. Run time 0 is at `origin` of CLOCK_MONOTONIC.
pub fn serve(
    listener: Listener,
    monitor: &Arc<Monitor>,
    latencies: &Arc<Latencies>,
    origin: i64,
) -> Result<Endpoint, RunError> {
    let monitor = Arc::clone(monitor);
    let run_s = move || (clock::monotonic_ns() - origin) as f64 / 1e9;
    let endpoint = listener.serve(Arc::clone(latencies), move || snapshot(&monitor, run_s()));
    endpoint.map_err(|error| RunError::Environment(format!("--metrics: cannot start a thread: {error}")))
}

pub fn snapshot(monitor: &Monitor, run_s: f64) -> Snapshot {
    let counts = monitor.connections();
    Snapshot {
        run_s,
        read: monitor.read.load(std::sync::atomic::Ordering::Relaxed),
        workers: monitor.by_worker().map(worker).collect(),
        agents: Vec::new(),
        connections: ConnectionFigures {
            open: counts.open,
            opened: counts.opened,
            failed: counts.failed,
            resumed: counts.resumed,
            closed_by_client: counts.closed_by_client(),
            closed_by_server: counts.closed_by_server + counts.reset,
            resent: counts.resent,
        },
    }
}

fn worker((counts, lag_ns): (Counts, i64)) -> WorkerFigures {
    let Counts { taken: _, sent, answered, timed_out, failed, not_sent, stray, late } = counts;
    WorkerFigures { sent, answered, timed_out, failed, not_sent, late, stray, lag_s: lag_ns as f64 / 1e9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_the_accounts_of_the_engine() {
        let monitor = Monitor::new(2);
        let counts =
            Counts { sent: 9, answered: 5, timed_out: 3, failed: 1, not_sent: 2, stray: 4, ..Counts::default() };
        monitor.workers[1].set(&counts);
        let snapshot = snapshot(&monitor, 1.5);
        assert_eq!((snapshot.run_s, snapshot.workers[0]), (1.5, WorkerFigures::default()));
        let expected = WorkerFigures {
            sent: 9,
            answered: 5,
            timed_out: 3,
            failed: 1,
            not_sent: 2,
            stray: 4,
            ..Default::default()
        };
        assert_eq!(snapshot.workers[1], expected);
    }
}
