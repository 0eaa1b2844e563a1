//! Finding agents for a run: as many as asked for, free, and of this release's messages.

use std::time::{Duration, Instant};

use crate::bus::Bus;
use crate::controller::agents;
use crate::error::ClusterError;
use crate::message::{Hello, PROTOCOL};

/// How long agents have to answer at a time.
const LOOK: Duration = Duration::from_millis(500);

/// Waits until so many agents are there that have no run and the same messages.
///
/// # Errors
/// There are fewer after `patience`: it says who is there, and who is not free.
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

/// An agent that has no part of any run and none of whose parts was lost: `is_known` says by its id whether it had one.
pub fn spare(bus: &Bus, is_known: impl Fn(&str) -> bool) -> Option<Hello> {
    agents(bus, LOOK, usize::MAX).ok()?.into_iter().find(|hello| is_free(hello) && !is_known(&hello.id))
}

fn is_free(hello: &Hello) -> bool {
    hello.protocol == PROTOCOL && hello.run.is_none()
}
