//! `ldplayer testbed run`: a command in a namespace of its own, which ends with it.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, anyhow};
use ldplayer_emulate::stock::{Output, Process, shell};
use ldplayer_emulate::testbed::{Alone, wait_and_end};
use ldplayer_net::process::{exit_status, run_in_place};
use ldplayer_net::programs::search_path;

use crate::commands::serve::parse_listen;
use crate::failure::Failure;

/// Options of `testbed run`.
#[derive(clap::Args)]
#[command(after_help = "\
Every IPv4 and IPv6 address is local in the namespace, and nothing leads out of it. Names are not
resolved as on the host: /etc/resolv.conf names 127.0.0.1, and there is no nscd or
systemd-resolved. Root is not needed. The exit status is the command's; processes that it leaves
in the namespace are ended.

Example: a server and a replay in which each client keeps its own address
  ldplayer testbed run --wait-for 127.0.0.1:5300 \\
    --start-server 'nsd -d -c nsd.conf' -- \\
    ldplayer replay capture.pcap --server 127.0.0.1:5300")]
pub struct Args {
    /// Command that starts a server first; it must stay in the foreground, and is ended after the command
    #[arg(long, value_name = "COMMAND", requires = "wait_for")]
    start_server: Option<String>,
    /// Wait until a server answers at this address, over UDP
    #[arg(long, value_name = "ADDR[:PORT],...", value_delimiter = ',', value_parser = parse_listen, requires = "start_server")]
    wait_for: Vec<SocketAddr>,
    /// Make a link for `ldplayer replay --path packets`
    ///
    /// Whatever is sent to an address other than loopback goes to clients, whose packets are made by ldplayer.
    #[arg(long)]
    packets: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// The arguments of a guard.
#[derive(clap::Args)]
pub struct Guard {
    parent: u32,
    mark: String,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let alone = Alone::enter(args.packets).map_err(Failure::environment)?;
    alone.shortfalls().iter().for_each(|shortfall| tell!("ldplayer: {shortfall}"));
    let mut guard = start_guard(&alone).map_err(Failure::environment)?;
    let status = run_with_server(args);
    let ended = alone.end();
    // It was ended with all others.
    let _ = guard.wait();
    ended.map_err(Failure::environment)?;
    status
}

fn run_with_server(args: &Args) -> Result<ExitCode, Failure> {
    let _server = args.start_server.as_deref().map(|command| start_server(command, &args.wait_for)).transpose()?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(anyhow!("testbed run: no command given").into());
    };
    let ended = run_in_place(Command::new(program).args(arguments).env("PATH", search_path()));
    let status = ended.map_err(|error| {
        Failure::environment(anyhow!("testbed run: {program}: {error}; give the path of a program"))
    })?;
    Ok(ExitCode::from(exit_status(status)))
}

/// Starts a server, whose stderr is ours, and waits until it answers.
fn start_server(command: &str, addresses: &[SocketAddr]) -> Result<Process, Failure> {
    let name = format!("--start-server `{command}`");
    let mut process = Process::start(name, &mut shell(command), Output::Stderr).map_err(Failure::environment)?;
    addresses.iter().try_for_each(|&address| process.wait_for(address)).map_err(Failure::environment)?;
    Ok(process)
}

/// Starts a process that ends all others in the namespace when this one is killed.
fn start_guard(alone: &Alone) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("testbed run: this program's own file")?);
    command.args(["testbed", "guard"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    alone.tell(&mut command);
    // Keys of the terminal are not for it.
    command.process_group(0).spawn().context("testbed run: a process that ends what is left")
}

/// Waits for the process that started this one, and ends what it has left.
pub fn guard(args: &Guard) -> Result<ExitCode, Failure> {
    wait_and_end(args.parent, &args.mark).map_err(Failure::environment)?;
    Ok(ExitCode::SUCCESS)
}
