//! The table of what both ends used.

use super::Line;
use ldplayer_results::numbers::{grouped, in_bytes};
use ldplayer_results::{SideUsage, Telemetry};

/// How a figure is read from a side and shown.
type Row = (&'static str, fn(&SideUsage) -> Option<String>);

/// The rows of the table.
const ROWS: [Row; 29] = [
    ("time (s of the run)", |side| Some(format!("{:.1} to {:.1}", tenths(side.from_s), tenths(side.to_s)))),
    ("processor time (s)", |side| decimal(side.cpu_s)),
    ("  in user mode", |side| decimal(side.cpu_user_s)),
    ("  in the kernel", |side| decimal(side.cpu_system_s)),
    ("processor time a query (µs)", |side| decimal(side.cpu_us_per_query)),
    ("cores used", |side| decimal(side.cores_mean)),
    ("  in the busiest second", |side| decimal(side.cores_peak)),
    ("waited for a core (s)", |side| side.cpu_wait_s.map(|seconds| format!("{seconds:.3}"))),
    ("resident memory at most (RSS)", |side| size(side.rss_peak_bytes)),
    ("shared memory counted once (PSS)", |side| size(side.pss_peak_bytes)),
    ("processes at most", |side| count(side.processes_peak)),
    ("threads at most", |side| count(side.threads_peak)),
    ("context switches, it waited", |side| count(side.context_switches_voluntary)),
    ("context switches, core taken away", |side| count(side.context_switches_involuntary)),
    ("page faults that waited for input", |side| count(side.major_faults)),
    ("bytes in (namespace)", |side| size(side.in_bytes)),
    ("bytes out (namespace)", |side| size(side.out_bytes)),
    ("datagrams dropped by its sockets", |side| count(side.udp_drops)),
    ("datagrams dropped (by anybody in the namespace)", |side| count(side.udp_receive_buffer_errors)),
    ("datagrams not sent, buffer full (namespace)", |side| count(side.udp_send_buffer_errors)),
    ("connections lost, accept queue full (namespace)", |side| count(side.accept_queue_overflows)),
    ("connections lost while listening (namespace)", |side| count(side.listen_drops)),
    ("longest accept queue", |side| count(side.accept_queue_peak)),
    ("TCP segments sent again (namespace)", |side| count(side.tcp_retransmitted)),
    ("TCP sockets at most", |side| count(side.sockets_at_peak.as_ref().map(|peak| peak.all))),
    ("TCP buffers at most (machine)", |side| size(side.tcp_memory_peak_bytes)),
    ("TCP sockets' slabs at most (machine)", |side| size(side.tcp_slab_peak_bytes)),
    ("UDP buffers at most (machine)", |side| size(side.udp_memory_peak_bytes)),
    ("growth of kernel slabs (machine)", |side| size(side.slab_growth_bytes)),
];

/// The table: a column for the server, where it was watched, and one for the client.
pub fn lines(telemetry: &Telemetry) -> Vec<Line> {
    let line = |&(name, show): &Row| {
        let cell = |side: Option<&SideUsage>| side.and_then(show).unwrap_or_else(|| "—".to_owned());
        let server = telemetry.server.as_ref().map(|server| cell(Some(server)));
        let cells = server.into_iter().chain([cell(telemetry.client.as_ref())]).collect();
        let own = name.trim_start();
        if own.len() < name.len() { Line::sub(own, cells) } else { Line::new(own, cells) }
    };
    ROWS.iter().map(line).collect()
}

/// Without a zero that has a sign.
fn tenths(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0 + 0.0
}

fn decimal(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:.2}"))
}

fn count(value: Option<u64>) -> Option<String> {
    value.map(grouped)
}

fn size(bytes: Option<u64>) -> Option<String> {
    bytes.map(in_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash_and_nothing_lost_is_zero() {
        let server = SideUsage { udp_drops: Some(0), rss_peak_bytes: Some(12_345_678), ..SideUsage::default() };
        let both = lines(&Telemetry { server: Some(server), client: Some(SideUsage::default()), replay: None });
        let of = |name: &str| both.iter().find(|line| line.name == name).unwrap().cells.clone();
        assert_eq!(of("datagrams dropped by its sockets"), ["0", "—"]);
        assert_eq!(of("resident memory at most (RSS)"), ["12.3 MB", "—"]);
        let alone = lines(&Telemetry { server: None, client: Some(SideUsage::default()), replay: None });
        assert!(alone.iter().all(|line| line.cells.len() == 1));
    }
}
