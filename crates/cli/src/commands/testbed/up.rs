//! `ldplayer testbed up`: makes a testbed that stays until it is taken down.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Context, anyhow};
use ldplayer_emulate::serve::answers::{Answers, Clock};
use ldplayer_emulate::serve::faults::Faults;
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options as ServeOptions, Server, UDP_SIZE};
use ldplayer_emulate::testbed::{Claim, State, Testbed, folder};
use ldplayer_net::signals::Signals;

use super::options::Options;
use super::{Name, failure, print};
use crate::commands::answering::{Answering, Following};
use crate::commands::encrypting::Encrypting;
use crate::commands::including::Serving;
use crate::commands::serve::{self, Sources};
use crate::failure::Failure;

/// What the holder says when the testbed is made.
const READY: &str = "ready";
/// The host that serves zones.
const INTERNET: &str = "internet";
/// Exit status when the holder died without one.
const ENVIRONMENT: u8 = 3;

/// Options of `testbed up`.
#[derive(clap::Args)]
#[command(
    after_help = "\
Example: 40 ms between clients and resolver, 1 % packet loss
  ldplayer testbed up --rtt 40ms --loss 1%

`ldplayer testbed up --help` has the hosts, all options and more examples.",
    after_long_help = "\
Three hosts, in network namespaces of their own that only the wire joins:
  clients   10.53.0.1, fd53::1   every address is its own
  resolver  10.53.0.2, fd53::2   for a recursive server, or a server under test
  internet  10.53.0.3, fd53::3   every address is its own
Clients own the addresses that they send from. A server on `internet` answers from the address
that was asked. Nothing leads out. A packet to an address that no host owns is dropped and
counted; `testbed status` shows it.

With --zones, `internet` owns the addresses of all name servers of the zone set and answers at
each of them from its zones, as `ldplayer serve` does: a recursive server with ordinary root hints
resolves against it. SIGHUP to the holder reloads the zones: new name servers are reached from then
on, and packets to those that are gone are leaks. With --proxies nothing is served: that is
for BIND with the configuration of `ldplayer zones views`.

Example: 40 ms between clients and resolver, 1 % packet loss
  ldplayer testbed up --rtt 40ms --loss 1%
  ldplayer testbed exec resolver -- unbound -d -c unbound.conf &
  ldplayer testbed exec --wait-for 10.53.0.2 clients -- \\
    ldplayer replay capture.pcap --server 10.53.0.2
  ldplayer testbed down

Example: the DNS hierarchy of a zone set, 20 ms away from the resolver
  ldplayer testbed up --zones zones/ --upstream-rtt 20ms --coverage report.json

Example: its answers change as they did in the recording, while a replay goes through it
  ldplayer testbed up --zones zones/ --answers recorded --clock run
  ldplayer testbed exec clients -- \\
    ldplayer replay clients.pcap --server 10.53.0.2 -o run"
)]
pub struct Args {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    options: Options,
    /// Serve a zone set on the addresses of its name servers
    #[arg(long, value_name = "DIR")]
    zones: Option<PathBuf>,
    #[command(flatten)]
    reading: Serving,
    /// Maximum size of that server's UDP responses in bytes; those above 1232 may be fragmented
    #[arg(long, value_name = "N", default_value_t = UDP_SIZE, value_parser = clap::value_parser!(u16).range(512..), hide_short_help = true)]
    udp_size: u16,
    /// Make faults on purpose: the rules of a file, or of one that comes along; see `ldplayer serve --help`
    #[arg(long, value_name = "FILE", requires = "zones", conflicts_with = "proxies")]
    faults: Option<PathBuf>,
    #[command(flatten)]
    answering: Answering,
    #[command(flatten)]
    encrypting: Encrypting,
    /// At the end, write the coverage report of the zone set (JSON)
    #[arg(long, value_name = "FILE", requires = "zones")]
    coverage: Option<PathBuf>,
    /// Stay in the foreground until Ctrl-C, then print the counters of the wire
    #[arg(long)]
    foreground: bool,
    /// Hold the testbed for the command that started this one
    #[arg(long, hide = true)]
    hold: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.zones.is_none() && (args.encrypting.is_given() || args.answering.answers != Answers::Fixed) {
        return Err(anyhow!("--dot, --doh, --doq and --answers are of a server of zones: add --zones DIR").into());
    }
    let folder = folder().map_err(failure)?;
    if !args.hold && !args.foreground {
        return start_holder(args, &folder);
    }
    if args.hold {
        // The testbed must not end with the terminal that it was made from. This fails for the head of a group only.
        let _ = rustix::process::setsid();
    }
    // Without zones there is nothing to be read anew.
    let with_hang_up = if args.zones.is_some() { Signals::and_reload } else { Signals::and_hang_up };
    let signals = Signals::catch().and_then(with_hang_up).context("testbed up: signals")?;
    let claim = Claim::new(&folder, &args.name.name).map_err(failure)?;
    let set = args.zones.as_deref().map(|zones| serve::load(zones, args.reading.reading())).transpose()?;
    let addresses = set.as_ref().map(ZoneSet::addresses);
    let testbed = Testbed::up(&args.options.plan(addresses.as_deref())).map_err(Failure::environment)?;
    let mut following = set.as_ref().map(|set| args.answering.follow(set));
    let clock = following.as_ref().map(Following::clock).unwrap_or_default();
    let set = set.filter(|_| !args.options.has_proxies());
    let server = set.map(|set| start_server(&testbed, set, args, clock)).transpose()?;
    let held = Held { testbed: &testbed, server: server.as_ref(), args };
    held.hold(&claim, &signals, following.as_mut())?;
    let report = testbed.down().map_err(Failure::environment)?;
    if let Some(server) = server {
        serve::finish(server.stop(), args.coverage.as_deref())?;
    }
    if args.foreground {
        print::report(&mut crate::printing::stdout(), &report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves the zone set on the Internet's host.
fn start_server(testbed: &Testbed, set: ZoneSet, args: &Args, clock: Arc<Clock>) -> Result<Server, Failure> {
    let faults = serve::read_faults(args.faults.as_deref(), &set)?;
    let marks = args.coverage.is_some();
    let (answers, seed) = (args.answering.answers, args.options.seed());
    let udp_size = args.udp_size;
    let encrypted = args.encrypting.encrypted()?;
    let options = ServeOptions { marks, faults, encrypted, udp_size, answers, seed, clock, ..ServeOptions::default() };
    let started = testbed.run(INTERNET, || Server::start(set, &options)).map_err(Failure::environment)?;
    started.map_err(Failure::environment)
}

/// A running testbed and its servers.
struct Held<'a> {
    testbed: &'a Testbed,
    server: Option<&'a Server>,
    args: &'a Args,
}

impl Held<'_> {
    /// Holds the testbed until a signal ends it, and sees to signals that ask for a reload meanwhile.
    fn hold(&self, claim: &Claim, signals: &Signals, following: Option<&mut Following>) -> Result<(), Failure> {
        let stop = signals.stop();
        thread::scope(|scope| {
            if let (Some(directory), Some(following)) = (&self.args.zones, following) {
                let reading = self.args.reading.reading();
                let sources = Sources { directory, reading, faults: self.args.faults.as_deref() };
                scope.spawn(move || {
                    let watched =
                        serve::watch(self.server, sources, following, signals, |set, faults| self.replace(set, faults));
                    if let Err(failure) = watched {
                        failure.report();
                        stop.store(true, Ordering::Relaxed);
                    }
                });
            }
            let held = claim.hold(self.testbed, stop, || tell_ready(self.args)).map_err(failure);
            stop.store(true, Ordering::Relaxed);
            held
        })
    }

    /// Serves other zones, on the addresses of their name servers.
    fn replace(&self, set: ZoneSet, faults: Option<Arc<Faults>>) -> Result<(), Failure> {
        let plan = self.args.options.plan(Some(&set.addresses()));
        if let Some(server) = self.server {
            server.replace(set, faults);
        }
        // Behind the server, so that a new address answers from the first query on.
        self.testbed.replace_owners(&plan).map_err(Failure::environment)
    }
}

/// Says that the testbed is made. Who started this and is gone need not know.
fn tell_ready(args: &Args) {
    let mut stdout = crate::printing::stdout();
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
        // What it has to say of the zones.
        repeat(&mut log)?;
        let state = State::load(folder, &args.name.name).map_err(failure)?;
        print::hosts(&mut crate::printing::stdout(), &state)?;
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
    Ok(crate::printing::stderr().write_all(&text)?)
}
