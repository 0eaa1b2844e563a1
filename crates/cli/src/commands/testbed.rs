//! `ldplayer testbed`: a namespace in which every address is local, for a command and all that it starts.

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

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
Every IPv4 and IPv6 address is local in the namespace, and nothing leads out of it. Root is not needed.

Example: a server and a replay in which each client keeps its own address
  ldplayer testbed run -- sh -c 'nsd -d -c nsd.conf & ldplayer replay capture.pcap --server 127.0.0.1:5300; kill %1'")]
    Run {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let Verb::Run { command } = args.verb;
    let testbed = Testbed::enter().map_err(Failure::environment)?;
    testbed.shortfalls().iter().for_each(|shortfall| eprintln!("ldplayer: {shortfall}"));
    let Some((program, arguments)) = command.split_first() else {
        return Err(anyhow::anyhow!("testbed run: no command given").into());
    };
    // The command takes the place of this process, so that signals and its exit status need no passing on.
    let error = std::process::Command::new(program).args(arguments).exec();
    Err(Failure::environment(anyhow::anyhow!("testbed run: {program}: {error}; give the path of a program")))
}
