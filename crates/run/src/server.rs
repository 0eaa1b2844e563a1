//! `--start-server`: a server in a namespace of its own making, ended with the run.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use ldplayer_emulate::stock::{Output, Process};
use ldplayer_net::names::Names;
use ldplayer_net::netns::{self, Shortfall, Testbed};

use crate::error::RunError;
use crate::spec::RunSpec;

/// A running server; dropping it ends it.
pub struct Server {
    process: Process,
    testbed: Testbed,
}

/// Makes the namespace and starts the server, where the user asked for it.
pub fn start(spec: &RunSpec) -> Result<Option<Server>, RunError> {
    let Some(command) = &spec.start_server else { return Ok(None) };
    let names = Arc::new(Names::of_loopback().prepare());
    let testbed = Testbed::enter().map_err(RunError::environment)?;
    let name = format!("--start-server `{command}`");
    let mut shell = shell(command);
    names.start_with(&mut shell);
    let process = Process::start(name, &mut shell, Output::Stderr).map_err(RunError::environment)?;
    Ok(Some(Server { process, testbed }))
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {command}")]);
    shell
}

impl Server {
    /// Waits until it answers at these addresses.
    pub fn wait_for(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> Result<(), RunError> {
        let mut addresses = addresses.filter(|server| server.is_ipv4() || netns::has_ipv6());
        addresses.try_for_each(|address| self.process.wait_for(address)).map_err(RunError::environment)
    }

    /// What its namespace lacks.
    pub fn shortfalls(&self) -> &[Shortfall] {
        self.testbed.shortfalls()
    }

    /// The id of its main process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
