//! The names of core subjects: where all agents listen, and where one does.

/// Where all agents are asked who they are.
pub const AGENTS: &str = "ldplayer.agents";

/// Where one agent is asked, by its id.
pub fn agent(id: &str) -> String {
    format!("ldplayer.agent.{id}")
}
