//! `ldplayer testbed up`: makes a testbed that stays until it is taken down.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use ldplayer_emulate::testbed::{Claim, State, Testbed, folder};

use super::options::Options;
use super::{Name, failure, print};
use crate::failure::Failure;

/// What the holder says when the testbed is made.
const READY: &str = "ready";
/// Exit status when the holder died without one.
const ENVIRONMENT: u8 = 3;

/// Options of `testbed up`.
#[derive(clap::Args)]
#[command(after_help = "\
Three hosts, in network namespaces of their own that only the wire joins:
  clients   10.53.0.1, fd53::1   every address is its own; those that it sends from belong to it
  resolver  10.53.0.2, fd53::2   for a recursive server, or a server under test
  internet  10.53.0.3, fd53::3   every address is its own: a server there answers from the address that was asked
Nothing leads out. A packet to an address that no host owns is dropped, counted and told by `testbed status`.

Example: 40 ms between clients and resolver, a hundredth of the packets lost
  ldplayer testbed up --rtt 40ms --loss 1%
  ldplayer testbed exec resolver -- unbound -d -c unbound.conf &
  ldplayer testbed exec clients -- ldplayer replay capture.pcap --server 10.53.0.2
  ldplayer testbed down")]
pub struct Args {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    options: Options,
    /// Stay in the foreground until Ctrl-C, then tell what the wire has done
    #[arg(long)]
    foreground: bool,
    /// Hold the testbed for the command that started this one
    #[arg(long, hide = true)]
    hold: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let folder = folder().map_err(failure)?;
    if !args.hold && !args.foreground {
        return start_holder(args, &folder);
    }
    if args.hold {
        // The testbed must not end with the terminal that it was made from. This fails for the head of a group only.
        let _ = rustix::process::setsid();
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("testbed up: signals")?;
    }
    let claim = Claim::new(&folder, &args.name.name).map_err(failure)?;
    let testbed = Testbed::up(&args.options.plan()).map_err(Failure::environment)?;
    let report = claim.hold(testbed, &stop, || tell_ready(args)).map_err(failure)?;
    if args.foreground {
        print::report(&mut std::io::stdout().lock(), &report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Says that the testbed is made. Who started this and is gone need not know.
fn tell_ready(args: &Args) {
    let mut stdout = std::io::stdout().lock();
    let text = if args.hold { READY.to_owned() } else { format!("testbed {} is up; Ctrl-C ends it", args.name.name) };
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// Starts this command once more, in the background, and waits until it holds the testbed or says why it cannot.
fn start_holder(args: &Args, folder: &Path) -> Result<ExitCode, Failure> {
    let mut log = tempfile::tempfile().context("testbed up: a file for messages; set TMPDIR")?;
    let program = std::env::current_exe().context("testbed up: this program's own file")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--hold");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.try_clone().context("testbed up")?);
    let mut holder = command.spawn().context("testbed up: the process that holds the testbed")?;
    let mut said = String::new();
    if let Some(stdout) = holder.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).context("testbed up: the process that holds the testbed")?;
    }
    if said.trim() == READY {
        let state = State::load(folder, &args.name.name).map_err(failure)?;
        print::hosts(&mut std::io::stdout().lock(), &state)?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = holder.wait().context("testbed up: the process that holds the testbed")?;
    repeat(&mut log)?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(ENVIRONMENT)))
}

/// Says what the holder said.
fn repeat(log: &mut File) -> anyhow::Result<()> {
    let mut text = Vec::new();
    log.rewind()?;
    log.read_to_end(&mut text)?;
    Ok(std::io::stderr().write_all(&text)?)
}
