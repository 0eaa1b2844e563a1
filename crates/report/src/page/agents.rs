//! The table of the agents of a run of several hosts.

use super::Line;
use ldplayer_results::AgentShare;
use ldplayer_results::numbers::{fixed, grouped};

/// The heads of its columns, after the agent's name.
pub const HEAD: [&str; 11] = [
    "shard",
    "sent",
    "answered",
    "timed out",
    "failed",
    "not sent",
    "late p99 (µs)",
    "latency p50 (ms)",
    "p99 (ms)",
    "clock within (µs)",
    "what became of it",
];

/// A row for each agent.
pub fn lines(agents: &[AgentShare]) -> Vec<Line> {
    agents.iter().map(|agent| Line::new(&agent.name, cells(agent))).collect()
}

fn cells(agent: &AgentShare) -> Vec<String> {
    let counts = [agent.sent, agent.answered, agent.timed_out, agent.failed, agent.not_sent].map(grouped);
    let figures = [(agent.timing_p99_us, 1), (agent.latency_p50_ms, 3), (agent.latency_p99_ms, 3), (agent.skew_us, 1)];
    let figures = figures.map(|(figure, digits)| figure.map_or_else(|| "—".to_owned(), |figure| fixed(figure, digits)));
    let became = match (&agent.lost, &agent.took_over_from) {
        (Some(why), _) => format!("lost: {why}"),
        (None, _) if agent.ended_early.is_some() => {
            format!("ended early: {}", agent.ended_early.as_deref().unwrap_or_default())
        }
        (None, _) if agent.replaced_by.is_some() => "lost for a while; its rows are here".to_owned(),
        (None, Some(before)) => format!("took over from {before}"),
        (None, None) => "its rows are here".to_owned(),
    };
    [agent.shard.to_string()].into_iter().chain(counts).chain(figures).chain([became]).collect()
}
