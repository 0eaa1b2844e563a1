//! `ldplayer testbed`: a namespace for one command, or hosts in namespaces that the wire joins.

mod down;
mod exec;
mod options;
mod print;
mod status;
mod up;

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use ldplayer_emulate::testbed::{StateError, TestbedError};
use ldplayer_net::names::Names;
use ldplayer_net::netns::Testbed;

use crate::failure::Failure;

/// Options of `testbed`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Run a command in a new namespace; it ends with the command
    #[command(after_help = "\
Every IPv4 and IPv6 address is local in the namespace, and nothing leads out of it. Nor are names
resolved as the host does: /etc/resolv.conf names 127.0.0.1, and there is no nscd or systemd-resolved.
Root is not needed.

Example: a server and a replay in which each client keeps its own address
  ldplayer testbed run -- sh -c 'nsd -d -c nsd.conf & ldplayer replay capture.pcap --server 127.0.0.1:5300; kill %1'")]
    Run {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Make hosts for clients, a resolver and the Internet, joined by the wire
    Up(Box<up::Args>),
    /// Take them down, also after a crash
    Down(down::Args),
    /// Tell what the wire has done
    Status(status::Args),
    /// Run a command on a host
    Exec(exec::Args),
}

/// Which testbed.
#[derive(clap::Args)]
pub struct Name {
    /// Name of the testbed; several may be up at once
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub name: String,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.verb {
        Verb::Run { command } => run_alone(&command),
        Verb::Up(args) => up::run(&args),
        Verb::Down(args) => down::run(&args),
        Verb::Status(args) => status::run(&args),
        Verb::Exec(args) => exec::run(&args),
    }
}

/// What names a testbed or host that cannot be is bad usage; all else is the environment.
pub fn failure(error: StateError) -> Failure {
    match error {
        StateError::Name(_) | StateError::Testbed(TestbedError::UnknownHost { .. }) => error.into(),
        error => Failure::environment(error),
    }
}

/// Runs a command in a namespace of its own.
fn run_alone(command: &[String]) -> Result<ExitCode, Failure> {
    let names = Names::of_loopback().prepare();
    let testbed = Testbed::enter().map_err(Failure::environment)?;
    names.enter().map_err(Failure::environment)?;
    testbed.shortfalls().iter().for_each(|shortfall| eprintln!("ldplayer: {shortfall}"));
    let Some((program, arguments)) = command.split_first() else {
        return Err(anyhow::anyhow!("testbed run: no command given").into());
    };
    // The command takes the place of this process, so that signals and its exit status need no passing on.
    let error = std::process::Command::new(program).args(arguments).exec();
    Err(Failure::environment(anyhow::anyhow!("testbed run: {program}: {error}; give the path of a program")))
}
