//! `--metrics`: what the engine shows of a run, as Prometheus asks for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use ldplayer_replay::{Counts, Monitor};
use ldplayer_results::metrics::{ConnectionFigures, Endpoint, Latencies, Listener, Snapshot, WorkerFigures};

use crate::failure::Failure;

/// Listens where it was asked for.
pub fn listen(address: Option<SocketAddr>) -> Result<Option<Listener>, Failure> {
    let listen = |address| {
        Listener::bind(address).map_err(|error| {
            Failure::environment(anyhow::anyhow!("--metrics {address}: {error}; give a free port of this host"))
        })
    };
    address.map(listen).transpose()
}

/// Serves the figures of a run from now on.
pub fn serve(listener: Listener, monitor: &Arc<Monitor>, latencies: &Arc<Latencies>) -> Result<Endpoint, Failure> {
    let (monitor, begun) = (Arc::clone(monitor), Instant::now());
    let endpoint = listener.serve(Arc::clone(latencies), move || snapshot(&monitor, begun.elapsed().as_secs_f64()));
    endpoint.map_err(|error| Failure::environment(anyhow::anyhow!("--metrics: no thread for it: {error}")))
}

fn snapshot(monitor: &Monitor, run_s: f64) -> Snapshot {
    let counts = monitor.connections();
    Snapshot {
        run_s,
        read: monitor.read.load(std::sync::atomic::Ordering::Relaxed),
        workers: monitor.by_worker().map(worker).collect(),
        connections: ConnectionFigures {
            open: counts.open,
            opened: counts.opened,
            failed: counts.failed,
            resumed: counts.resumed,
            closed_by_client: counts.closed_idle + counts.closed_spent + counts.closed_for_room,
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
