//! `--start-server`: runs a server in a new namespace for the duration of the run.

use std::net::SocketAddr;
use std::sync::Arc;

use ldplayer_emulate::stock::{Output, Process, shell};
use ldplayer_net::cpu_quota::{CpuLimit, QuotaError};
use ldplayer_net::names::{Names, NamesError};
use ldplayer_net::netns::Testbed;
use ldplayer_net::rights::NetError;
use ldplayer_net::settings::{Shortfall, has_ipv6};
use ldplayer_net::veth;

use crate::error::RunError;
use crate::keys::RunSpec;

/// A running server; dropping it ends it.
pub struct Server {
    process: Process,
    shortfalls: Vec<Shortfall>,
}

/// Makes the namespace and starts the server, if there is one to start.
pub fn start(spec: &RunSpec) -> Result<Option<Server>, RunError> {
    let Some(command) = &spec.start_server else { return Ok(None) };
    let names = Arc::new(Names::of_loopback().prepare());
    let testbed = enter(spec).map_err(RunError::environment)?;
    let name = format!("--start-server `{command}`");
    let mut shell = shell(command);
    let mut shortfalls = testbed.shortfalls().to_vec();
    match names.try_enter() {
        Ok(()) => names.start_with(&mut shell),
        Err(error) => shortfalls.push(names_are_seen(&error)),
    }
    let limit = cpu_limit(spec).map_err(|error| RunError::Environment(format!("--server-cpu: {error}")))?;
    let process =
        Process::start_within(name, &mut shell, Output::Stderr, limit.map(Arc::new)).map_err(RunError::environment)?;
    Ok(Some(Server { process, shortfalls }))
}

/// What a started server may have of the processors; `None` for all.
///
/// # Errors
/// There are no control groups, or this process may not make one.
pub fn cpu_limit(spec: &RunSpec) -> Result<Option<CpuLimit>, QuotaError> {
    CpuLimit::new(spec.server_cpu.map(|share| share.0), &spec.server_cpus)
}

/// The namespace: with a link for frames, where these are asked for.
fn enter(spec: &RunSpec) -> Result<Testbed, NetError> {
    if spec.needs_link() { Testbed::enter_with_link(veth::MTU) } else { Testbed::enter() }
}

/// A server is still useful if mounts are refused, as in many containers.
fn names_are_seen(error: &NamesError) -> Shortfall {
    let effect = "the server may resolve names as this host does";
    Shortfall { name: "/etc/resolv.conf", value: "one of its own", why: error.source.to_string(), effect }
}

impl Server {
    /// Waits until the server answers at these addresses.
    pub fn wait_for(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> Result<(), RunError> {
        let mut addresses = addresses.filter(|server| server.is_ipv4() || has_ipv6());
        addresses.try_for_each(|address| self.process.wait_for(address)).map_err(RunError::environment)
    }

    /// Kernel settings that could not be made in its namespace.
    pub fn shortfalls(&self) -> &[Shortfall] {
        &self.shortfalls
    }

    /// The PID of its main process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
