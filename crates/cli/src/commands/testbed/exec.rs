//! `ldplayer testbed exec`: runs a command on a host of a testbed.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ldplayer_emulate::stock::find;
use ldplayer_emulate::testbed::{State, folder};
use ldplayer_net::programs::search_path;

use super::{Name, failure};
use crate::failure::Failure;

/// Options of `testbed exec`.
#[derive(clap::Args)]
#[command(after_help = "\
The command takes the place of this process: signals and its exit status are its own. It resolves
names by the host `resolver` and by nothing of this machine: /etc/resolv.conf and /etc/hosts are the
testbed's, and sockets of name services, such as that of nscd, are not there. --fake-time
lets the program `faketime` give it another time of day, as validating resolvers need for the
signatures of recorded zones.

Examples:
  ldplayer testbed exec clients -- dig @10.53.0.2 example.com
  ldplayer testbed exec --fake-time '2016-10-08 12:00:00' resolver -- unbound -d -c unbound.conf")]
pub struct Args {
    #[command(flatten)]
    name: Name,
    /// Time of day that the command sees, as faketime(1) takes it: it goes on from there
    #[arg(long, value_name = "TIME")]
    fake_time: Option<String>,
    /// clients, resolver or internet
    host: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let folder = folder().map_err(failure)?;
    let state = State::load(&folder, &args.name.name).map_err(failure)?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(anyhow::anyhow!("testbed exec: no command given").into());
    };
    let mut command = match &args.fake_time {
        None => Command::new(program),
        Some(time) => {
            let mut faketime = Command::new(find("faketime", "faketime").map_err(Failure::environment)?);
            faketime.arg(time).arg(program);
            faketime
        }
    };
    state.enter(&folder, &args.host).map_err(failure)?;
    let error = command.args(arguments).env("PATH", search_path()).exec();
    Err(Failure::environment(anyhow::anyhow!("testbed exec: {program}: {error}; give the path of a program")))
}
