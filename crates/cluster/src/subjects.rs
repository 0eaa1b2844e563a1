//! The names of NATS core subjects.

/// The subject on which all agents answer who they are.
pub const AGENTS: &str = "ldplayer.agents";

/// The subject of one agent, by its id.
pub fn agent(id: &str) -> String {
    format!("ldplayer.agent.{id}")
}
