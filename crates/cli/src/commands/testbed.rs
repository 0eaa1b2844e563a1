//! `ldplayer testbed`: a namespace for one command, or hosts in namespaces that the wire joins.

mod down;
mod exec;
mod options;
mod print;
mod run;
mod status;
mod up;

use std::process::ExitCode;

use ldplayer_emulate::testbed::{StateError, TestbedError};

use crate::failure::Failure;

/// Options of `testbed`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Run a command in a new namespace, which ends with it
    Run(run::Args),
    /// End what `run` has left when it was killed
    #[command(hide = true)]
    Guard(run::Guard),
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
        Verb::Run(args) => run::run(&args),
        Verb::Guard(args) => run::guard(&args),
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
