//! `ldplayer testbed exec`: runs a command on a host of a testbed.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ldplayer_emulate::testbed::{State, folder};

use super::{Name, failure};
use crate::failure::Failure;

/// Options of `testbed exec`.
#[derive(clap::Args)]
#[command(after_help = "\
The command takes the place of this process: signals and its exit status are its own.

Example: ldplayer testbed exec clients -- dig @10.53.0.2 example.com")]
pub struct Args {
    #[command(flatten)]
    name: Name,
    /// clients, resolver or internet
    host: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let state = State::load(&folder().map_err(failure)?, &args.name.name).map_err(failure)?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(anyhow::anyhow!("testbed exec: no command given").into());
    };
    state.enter(&args.host).map_err(failure)?;
    let (variable, value) = state.mark();
    let error = Command::new(program).args(arguments).env(variable, value).exec();
    Err(Failure::environment(anyhow::anyhow!("testbed exec: {program}: {error}; give the path of a program")))
}
