//! The text exposition format of Prometheus, version 0.0.4: families with their help and type, one sample a line.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use super::{BUCKETS_US, Latencies, Snapshot, WorkerFigures};

/// How to get at a figure of a worker, for a family.
type Column = (&'static str, &'static str, fn(&WorkerFigures) -> u64);

/// Counters by worker: name, help, figure.
const OF_WORKERS: [Column; 7] = [
    ("queries_sent_total", "Queries sent.", |worker| worker.sent),
    ("queries_answered_total", "Queries answered in time.", |worker| worker.answered),
    ("queries_timed_out_total", "Queries not answered within the query timeout.", |worker| worker.timed_out),
    ("queries_failed_total", "Queries that failed for another reason than a timeout.", |worker| worker.failed),
    ("queries_not_sent_total", "Queries that were never sent.", |worker| worker.not_sent),
    ("responses_late_total", "Responses that came after the query timeout.", |worker| worker.late),
    ("responses_stray_total", "Responses that belong to no query.", |worker| worker.stray),
];

/// The page of a moment.
pub fn exposition(snapshot: &Snapshot, latencies: &Latencies) -> String {
    let mut page = Page(String::with_capacity(4_096));
    page.one("run_seconds", "gauge", "Seconds since the first query was due.", snapshot.run_s);
    page.one("queries_read_total", "counter", "Queries read from the trace.", snapshot.read);
    for (name, help, figure) in OF_WORKERS {
        page.head(name, "counter", help);
        for (number, worker) in snapshot.workers.iter().enumerate() {
            page.sample(name, &of_worker(snapshot, number), figure(worker));
        }
    }
    page.head("lag_seconds", "gauge", "How late the latest query of the last period was sent.");
    for (number, worker) in snapshot.workers.iter().enumerate() {
        page.sample("lag_seconds", &of_worker(snapshot, number), worker.lag_s);
    }
    page.attempts(latencies);
    page.connections(snapshot);
    page.latencies(latencies);
    page.0
}

/// The labels of a worker: its number, and its agent where there are several hosts.
fn of_worker(snapshot: &Snapshot, number: usize) -> String {
    match snapshot.agents.get(number) {
        Some(agent) => format!("{{worker=\"{number}\",agent=\"{}\"}}", escaped(agent)),
        None => format!("{{worker=\"{number}\"}}"),
    }
}

/// A label's value, escaped as the format requires.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP ldplayer_{name} {help}\n# TYPE ldplayer_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "ldplayer_{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.sample(name, "", value);
    }

    fn attempts(&mut self, latencies: &Latencies) {
        self.head("attempts_total", "counter", "Attempts of clients that react, once they have ended.");
        for (kind, count) in ["first", "retry"].into_iter().zip(&latencies.attempts) {
            self.sample("attempts_total", &format!("{{kind=\"{kind}\"}}"), count.load(Ordering::Relaxed));
        }
    }

    fn connections(&mut self, snapshot: &Snapshot) {
        let counts = &snapshot.connections;
        self.one("connections_open", "gauge", "Connections open now.", counts.open);
        self.one("connections_opened_total", "counter", "Connections established.", counts.opened);
        self.one("connections_failed_total", "counter", "Connections that could not be established.", counts.failed);
        self.one("connections_resumed_total", "counter", "Connections that resumed a TLS session.", counts.resumed);
        self.head("connections_closed_total", "counter", "Connections closed, by who closed them.");
        self.sample("connections_closed_total", "{by=\"client\"}", counts.closed_by_client);
        self.sample("connections_closed_total", "{by=\"server\"}", counts.closed_by_server);
        self.one("queries_resent_total", "counter", "Queries sent again on a new connection.", counts.resent);
    }

    /// Buckets are cumulative, and the count is the last bucket's, so that both are of one moment.
    fn latencies(&mut self, latencies: &Latencies) {
        self.head("latency_seconds", "histogram", "Time from sending a query to its answer.");
        let mut count = 0;
        let bounds = BUCKETS_US.iter().map(|&us| (us as f64 / 1e6).to_string()).chain(["+Inf".to_owned()]);
        for (bound, bucket) in bounds.zip(&latencies.buckets) {
            count += bucket.load(Ordering::Relaxed);
            self.sample("latency_seconds_bucket", &format!("{{le=\"{bound}\"}}"), count);
        }
        self.sample("latency_seconds_sum", "", latencies.sum_ns.load(Ordering::Relaxed) as f64 / 1e9);
        self.sample("latency_seconds_count", "", count);
    }
}
