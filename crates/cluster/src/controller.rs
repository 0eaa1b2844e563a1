//! The controller's requests to find agents and compare clocks.

use std::time::Duration;

use futures_util::future::join_all;
use ldplayer_net::clock;

use crate::bus::{Bus, ask};
use crate::clock::{EXCHANGES, Exchange, Offset};
use crate::error::ClusterError;
use crate::host;
use crate::message::{Ask, Hello, Say};
use crate::subjects;

/// How long agents have to introduce themselves.
pub const HELLO_WITHIN: Duration = Duration::from_secs(1);
/// Maximum number of agents whose clocks are measured at the same time, so that their answers do not delay each other.
const AT_A_TIME: usize = 8;
/// Timeout of a clock request.
const CLOCK_WITHIN: Duration = Duration::from_secs(2);

/// Finds agents, sorted by name and id. Returns early once there are `enough`.
///
/// # Errors
/// The request cannot be sent.
pub fn agents(bus: &Bus, within: Duration, enough: usize) -> Result<Vec<Hello>, ClusterError> {
    let hellos = |said: &[Say]| said.iter().filter(|say| matches!(say, Say::Hello(_))).count();
    let said = bus.ask_all(subjects::AGENTS, &Ask::Who, within, |said: &[Say]| hellos(said) >= enough)?;
    let mut found: Vec<Hello> =
        said.into_iter().filter_map(|say| if let Say::Hello(hello) = say { Some(hello) } else { None }).collect();
    found.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    Ok(found)
}

/// The offset of an agent's clock, by the fastest of several exchanges.
///
/// # Errors
/// The agent does not answer.
pub fn offset(bus: &Bus, agent: &Hello) -> Result<Offset, ClusterError> {
    let exchanges = (0..EXCHANGES).map(|_| exchange(bus, agent)).collect::<Result<Vec<_>, _>>()?;
    Ok(best(agent, &exchanges)?.better(walls(bus, std::slice::from_ref(agent)).pop().flatten()))
}

/// The offsets by the wall clocks, where the synchronisation on both sides reports a bound of the error.
fn walls(bus: &Bus, agents: &[Hello]) -> Vec<Option<Offset>> {
    let own = host::wall();
    if own.error_ns.is_none() {
        return vec![None; agents.len()];
    }
    let asked: Vec<_> =
        agents.iter().map(|agent| (subjects::agent(&agent.id), Ask::Wall, agent.name.clone())).collect();
    let said = bus.ask_each(&asked, "wall clock request", CLOCK_WITHIN).into_iter();
    said.map(|said| if let Ok(Say::Wall(agent)) = said { Offset::by_wall(&own, &agent) } else { None }).collect()
}

/// The offsets of several agents, in order; a limited number is measured at a time.
pub fn offsets(bus: &Bus, agents: &[Hello]) -> Vec<Result<Offset, ClusterError>> {
    agents.chunks(AT_A_TIME).flat_map(|some| offsets_at_once(bus, some)).collect()
}

fn offsets_at_once(bus: &Bus, agents: &[Hello]) -> Vec<Result<Offset, ClusterError>> {
    if let [one] = agents {
        return vec![offset(bus, one)];
    }
    let mut exchanges = vec![Vec::with_capacity(EXCHANGES); agents.len()];
    let mut failed: Vec<Option<ClusterError>> = agents.iter().map(|_| None).collect();
    for _ in 0..EXCHANGES {
        // An agent that did not answer is not asked again.
        let there: Vec<usize> = (0..agents.len()).filter(|&at| failed[at].is_none()).collect();
        let found = bus.wait(join_all(there.iter().map(|&at| exchange_with(bus, &agents[at]))));
        for (at, found) in there.into_iter().zip(found) {
            match found {
                Ok(found) => exchanges[at].push(found),
                Err(error) => failed[at] = Some(error),
            }
        }
    }
    let mut found = Vec::with_capacity(agents.len());
    for (((agent, exchanges), failed), wall) in agents.iter().zip(exchanges).zip(failed).zip(walls(bus, agents)) {
        let measured = failed.map_or_else(|| best(agent, &exchanges), Err);
        found.push(measured.map(|measured| measured.better(wall)));
    }
    found
}

/// Evaluates the exchanges. Agents on this host share the controller's clock, unless they are in another time namespace
/// (time_namespaces(7)),
/// which the exchanges would show.
fn best(agent: &Hello, exchanges: &[Exchange]) -> Result<Offset, ClusterError> {
    let measured = Offset::of(exchanges)
        .ok_or_else(|| ClusterError::store("clocks", format!("agent {} reports impossible times", agent.name)))?;
    let is_ours = !agent.boot.is_empty() && agent.boot == host::boot();
    let is_none = is_ours && measured.offset.abs() <= measured.error;
    Ok(if is_none { Offset { offset: 0, error: 0, ..measured } } else { measured })
}

fn exchange(bus: &Bus, agent: &Hello) -> Result<Exchange, ClusterError> {
    bus.wait(exchange_with(bus, agent))
}

async fn exchange_with(bus: &Bus, agent: &Hello) -> Result<Exchange, ClusterError> {
    let (subject, who) = (subjects::agent(&agent.id), format!("agent {}", agent.name));
    let asked = clock::monotonic_ns();
    let say = ask(bus.client(), &subject, &Ask::Clock, (&who, "clock request"), CLOCK_WITHIN).await?;
    let heard = clock::monotonic_ns();
    match say {
        Say::Clock { received_ns, answered_ns } => {
            Ok(Exchange { asked, received: received_ns, answered: answered_ns, heard })
        }
        other => Err(ClusterError::store("clocks", format!("unexpected answer of {who}: {other:?}"))),
    }
}
