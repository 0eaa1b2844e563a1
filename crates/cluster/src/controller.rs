//! The controller's questions to agents: who is there, and what their clocks show.

use std::time::Duration;

use ldplayer_net::clock;

use crate::bus::Bus;
use crate::clock::{EXCHANGES, Exchange, Offset};
use crate::error::ClusterError;
use crate::message::{Ask, Hello, Say};
use crate::subjects;

/// How long agents have to say that they are there.
pub const HELLO_WITHIN: Duration = Duration::from_secs(1);
/// How long an agent may take to show its clock.
const CLOCK_WITHIN: Duration = Duration::from_secs(2);

/// The agents that answer, by name and then by id. It ends early where `enough` are there.
///
/// # Errors
/// When nobody can be asked.
pub fn agents(bus: &Bus, within: Duration, enough: usize) -> Result<Vec<Hello>, ClusterError> {
    let hellos = |said: &[Say]| said.iter().filter(|say| matches!(say, Say::Hello(_))).count();
    let said = bus.ask_all(subjects::AGENTS, &Ask::Who, within, |said: &[Say]| hellos(said) >= enough)?;
    let mut found: Vec<Hello> =
        said.into_iter().filter_map(|say| if let Say::Hello(hello) = say { Some(hello) } else { None }).collect();
    found.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    Ok(found)
}

/// How far an agent's clock is from ours, by the quickest of some exchanges.
///
/// # Errors
/// When the agent does not answer.
pub fn offset(bus: &Bus, agent: &Hello) -> Result<Offset, ClusterError> {
    let exchanges = (0..EXCHANGES).map(|_| exchange(bus, agent)).collect::<Result<Vec<_>, _>>()?;
    Offset::of(&exchanges)
        .ok_or_else(|| ClusterError::store("clocks", format!("agent {} shows times that cannot be", agent.name)))
}

fn exchange(bus: &Bus, agent: &Hello) -> Result<Exchange, ClusterError> {
    let asked = clock::monotonic_ns();
    let who = format!("agent {}", agent.name);
    let say = bus.ask(&subjects::agent(&agent.id), &Ask::Clock, (&who, "what its clock shows"), CLOCK_WITHIN)?;
    let heard = clock::monotonic_ns();
    match say {
        Say::Clock { received_ns, answered_ns } => {
            Ok(Exchange { asked, received: received_ns, answered: answered_ns, heard })
        }
        other => Err(ClusterError::store("clocks", format!("{who} says {other:?}"))),
    }
}
