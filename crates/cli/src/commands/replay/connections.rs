//! The options of connections: as typed, as meant, and as told in `run.json`.

use ldplayer_core::time::Span;
use ldplayer_replay::{ConnectionCounts, PIPELINE_MOST, Policy};
use ldplayer_results::Connections;

/// How clients use connections.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Connections")]
pub struct ConnectionArgs {
    /// Clients close a connection on which nothing has been outstanding for so long; 0 closes it with its last answer
    #[arg(long, value_name = "S", default_value = "20s")]
    pub idle_timeout: Span,
    /// Clients close a connection after so many queries [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub queries_per_connection: Option<u32>,
    /// Queries outstanding at once on a connection; the next one opens another [default: 32768, all that there are IDs for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PIPELINE_MOST)))]
    pub pipeline: Option<u32>,
    /// How long a connection may take to come up, handshakes included
    #[arg(long, value_name = "S", default_value = "5s")]
    pub connect_timeout: Span,
    /// Ask again over TCP what was answered truncated over UDP, as a stub does; both are one query
    #[arg(long, value_name = "on|off", default_value = "off", value_parser = parse_switch)]
    pub tc_fallback: bool,
    /// Let small segments wait for the acknowledgement of earlier ones
    #[arg(long, value_name = "on|off", default_value = "off", value_parser = parse_switch)]
    pub nagle: bool,
    /// Send the first query with the first segment (TCP Fast Open), where the server allows it
    #[arg(long, value_name = "on|off", default_value = "off", value_parser = parse_switch)]
    pub fast_open: bool,
}

impl ConnectionArgs {
    /// The policy meant.
    pub fn policy(&self) -> Policy {
        Policy {
            idle_timeout: self.idle_timeout.ns(),
            queries_per_connection: self.queries_per_connection.unwrap_or(u32::MAX),
            pipeline: self.pipeline.unwrap_or(PIPELINE_MOST),
            connect_timeout: self.connect_timeout.ns(),
            nagle: self.nagle,
            fast_open: self.fast_open,
            tc_fallback: self.tc_fallback,
        }
        .bounded()
    }

    /// The policy for `run.json`.
    pub fn config(&self) -> serde_json::Value {
        let policy = self.policy();
        serde_json::json!({
            "idle_timeout_s": policy.idle_timeout as f64 / 1e9,
            "queries_per_connection": self.queries_per_connection,
            "pipeline": policy.pipeline,
            "connect_timeout_s": policy.connect_timeout as f64 / 1e9,
            "tc_fallback": policy.tc_fallback,
            "nagle": policy.nagle,
            "fast_open": policy.fast_open,
        })
    }
}

/// The engine's accounts of connections as the summary has them.
pub fn summary(counts: &ConnectionCounts) -> Connections {
    let closed = [
        ("client_idle", counts.closed_idle),
        ("client_last_query", counts.closed_spent),
        ("client_for_room", counts.closed_for_room),
        ("server", counts.closed_by_server),
        ("reset", counts.reset),
    ];
    let closed = closed.into_iter().filter(|&(_, count)| count > 0);
    Connections {
        opened: counts.opened,
        failed: counts.failed,
        resumed: counts.resumed,
        peak_open: counts.peak_open,
        open_at_end: counts.open,
        closed: closed.map(|(name, count)| (name.to_owned(), count)).collect(),
    }
}

fn parse_switch(word: &str) -> Result<bool, String> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use on or off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_s_accounts_are_all_in_the_summary() {
        let counts = ConnectionCounts { opened: 9, closed_idle: 2, closed_by_server: 3, open: 4, ..Default::default() };
        let summary = summary(&counts);
        assert_eq!(summary.opened, summary.open_at_end + summary.closed.values().sum::<u64>());
        assert_eq!(summary.closed.keys().collect::<Vec<_>>(), ["client_idle", "server"]);
    }

    #[test]
    fn switches_are_on_or_off() {
        assert_eq!((parse_switch("on"), parse_switch("off")), (Ok(true), Ok(false)));
        assert!(parse_switch("yes").is_err());
    }
}
