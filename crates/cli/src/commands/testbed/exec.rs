//! `ldplayer testbed exec`: runs a command on a host of a testbed.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, anyhow};
use ldplayer_emulate::stock::{find, probe};
use ldplayer_emulate::testbed::{State, folder};
use ldplayer_net::programs::search_path;

use super::{Name, failure};
use crate::commands::serve::parse_listen;
use crate::failure::Failure;

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of `testbed exec`.
#[derive(clap::Args)]
#[command(after_help = "\
The command replaces this process: signals go to it, and its exit status is the one you get. It
resolves names through the host `resolver` only: /etc/resolv.conf and /etc/hosts are those of the
testbed, and sockets of name services such as nscd are not there. --fake-time runs it under
`faketime`, as validating resolvers need for the signatures of recorded zones.

Examples:
  ldplayer testbed exec resolver -- unbound -d -c unbound.conf &
  ldplayer testbed exec --wait-for 10.53.0.2 clients -- dig example.com
  ldplayer testbed exec --fake-time '2016-10-08 12:00:00' resolver -- \\
    unbound -d -c unbound.conf")]
pub struct Args {
    #[command(flatten)]
    name: Name,
    /// Wait until a server answers at this address, over UDP from this host
    #[arg(long, value_name = "ADDR[:PORT],...", value_delimiter = ',', value_parser = parse_listen)]
    wait_for: Vec<SocketAddr>,
    /// Time of day that the command sees, as faketime(1) takes it
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
        return Err(anyhow!("testbed exec: no command given").into());
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
    args.wait_for.iter().try_for_each(|&address| wait_for(address))?;
    let error = command.args(arguments).env("PATH", search_path()).exec();
    Err(Failure::environment(anyhow!("testbed exec: {program}: {error}; give the path of a program")))
}

fn wait_for(address: SocketAddr) -> Result<(), Failure> {
    let asked = probe::answers_within(address, PATIENCE).with_context(|| format!("testbed exec: --wait-for {address}"));
    if asked.map_err(Failure::environment)? {
        return Ok(());
    }
    let seconds = PATIENCE.as_secs();
    Err(Failure::environment(anyhow!(
        "testbed exec: nothing answers at {address} within {seconds} s; is a server started there, and does it listen on that address?"
    )))
}
