//! Finds agents for a run: as many as requested, free, and of a compatible release.

use std::time::{Duration, Instant};

use crate::bus::Bus;
use crate::controller::agents;
use crate::error::ClusterError;
use crate::message::{Hello, PROTOCOL};

/// Timeout of each round of requests.
const LOOK: Duration = Duration::from_millis(500);

/// Waits until there are enough agents that are free and have the same message version.
///
/// # Errors
/// There are too few after `patience`; lists those found and those not free.
pub fn gather(bus: &Bus, asked: usize, patience: Duration) -> Result<Vec<Hello>, ClusterError> {
    let begun = Instant::now();
    loop {
        let all = agents(bus, LOOK, usize::MAX)?;
        let others = all.iter().filter(|hello| hello.protocol != PROTOCOL).count();
        let busy = all.iter().filter(|hello| hello.run.is_some()).count();
        let mut free: Vec<Hello> = all.into_iter().filter(is_free).collect();
        if free.len() >= asked {
            free.truncate(asked);
            return Ok(free);
        }
        if begun.elapsed() > patience {
            let there = free.iter().map(|hello| hello.name.clone()).collect();
            return Err(ClusterError::Few { asked, there, busy, others, seconds: patience.as_secs() });
        }
    }
}

/// Finds a free agent that has not been lost in this run: `is_known` tells by id whether it already has or had a part.
pub fn spare(bus: &Bus, is_known: impl Fn(&str) -> bool) -> Option<Hello> {
    agents(bus, LOOK, usize::MAX).ok()?.into_iter().find(|hello| is_free(hello) && !is_known(&hello.id))
}

fn is_free(hello: &Hello) -> bool {
    hello.protocol == PROTOCOL && hello.run.is_none()
}
