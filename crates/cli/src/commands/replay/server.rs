//! `--start-server`: a server in a namespace of its own making, ended with the run.

use std::process::Command;

use ldplayer_emulate::stock::{Output, Process};
use ldplayer_net::netns::{self, Shortfall, Testbed};

use super::options::Args;
use crate::failure::Failure;

/// A running server; dropping it ends it.
pub struct Server {
    process: Process,
    testbed: Testbed,
}

/// Makes the namespace and starts the server, where the user asked for it.
pub fn start(args: &Args) -> Result<Option<Server>, Failure> {
    let Some(command) = &args.start_server else { return Ok(None) };
    let testbed = Testbed::enter().map_err(Failure::environment)?;
    let name = format!("--start-server `{command}`");
    let mut command = shell(command);
    let mut process = Process::start(name, &mut command, Output::Stderr).map_err(Failure::environment)?;
    for &address in args.server.iter().filter(|server| server.is_ipv4() || netns::has_ipv6()) {
        process.wait_for(address).map_err(Failure::environment)?;
    }
    Ok(Some(Server { process, testbed }))
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {command}")]);
    shell
}

impl Server {
    /// What its namespace lacks.
    pub fn shortfalls(&self) -> &[Shortfall] {
        self.testbed.shortfalls()
    }

    /// The id of its main process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
