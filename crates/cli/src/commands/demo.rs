//! `ldplayer demo`: the main job, end to end, on the bundled capture of a root server.

mod hierarchy;
mod recursive;

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::Context;
use clap::ValueEnum;
use ldplayer_core::Transport;
use ldplayer_emulate::stock::{Kind, Output, Process, Zone};
use ldplayer_net::netns::Testbed;
use ldplayer_net::output;
use ldplayer_net::settings::has_ipv6;
use ldplayer_replay::Sources;
use ldplayer_run::{RunSpec, Server, Speed, TransportChoice};
use tempfile::TempDir;

use super::replay;
use crate::failure::Failure;

/// A minute of real traffic of a root server; origin and licence: `data/README.md`.
const CAPTURE: &[u8] = include_bytes!("../../../../data/l-root-20161006.pcap.xz");
/// The root zone two days later.
const ZONE: &[u8] = include_bytes!("../../../../data/root-2016100801.zone.xz");
/// Where the server listens, in a namespace of its own.
const SERVERS: [&str; 2] = ["127.0.0.1:5300", "[::1]:5300"];
/// The run directory when none is given; an older demo in it is replaced.
const RUN: &str = "runs/demo";

/// Options of `demo`.
#[derive(clap::Args)]
#[command(after_help = "\
Replays a minute of real root server traffic (2,491 clients, each from its own address) against a
server with the root zone of that week, in a namespace of its own: ldplayer's own server, or NSD.
Root is not needed.

With --recursive, 999 real questions of clients go to a stock resolver (unbound, or --resolver)
with an empty cache and its ordinary root hints, which resolves them in an emulated Internet: the
real root zone, and below it a made-up zone for each top-level and second-level domain asked for
(their data is made up, too), 20 ms away.

Examples:
  ldplayer demo --open
  ldplayer demo --server nsd
  ldplayer demo --recursive --resolver knot-resolver")]
pub struct Args {
    /// Server to replay against
    #[arg(long, value_enum, default_value = "ldplayer", conflicts_with = "recursive")]
    server: ServerKind,
    /// Replay to a resolver, which resolves in an emulated Internet
    #[arg(long)]
    recursive: bool,
    /// Resolver: unbound, bind-resolver, knot-resolver or pdns-recursor
    #[arg(long, value_name = "NAME", default_value = "unbound", requires = "recursive", value_parser = Kind::resolver)]
    resolver: Kind,
    /// Open the report in a browser at the end
    #[arg(long)]
    open: bool,
    /// Run directory [default: runs/demo or runs/demo-recursive, which replaces the last demo]
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Replace the run in that directory
    #[arg(long)]
    force: bool,
    /// Speed of the trace's clock: 10 takes 6 seconds instead of 60
    #[arg(long, value_name = "X", default_value = "1")]
    speed: Speed,
}

/// Which server a demo runs against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServerKind {
    /// `ldplayer serve`, in a process of its own
    Ldplayer,
    /// A stock NSD
    Nsd,
}

impl ServerKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Ldplayer => "ldplayer serve",
            Self::Nsd => "NSD",
        }
    }

    /// Starts the server with this root zone, which lies alone in its directory.
    fn start(self, zone: &Path) -> Result<Process, Failure> {
        match self {
            Self::Nsd => {
                Kind::NSD.serving(vec![Zone::new(".", zone)]).start(&addresses()).map_err(Failure::environment)
            }
            Self::Ldplayer => serve(zone.parent().unwrap_or(Path::new("."))),
        }
    }
}

/// Starts this program once more as a server, so that its processor time is measured apart from the replay's.
fn serve(directory: &Path) -> Result<Process, Failure> {
    let program = std::env::current_exe().context("demo: this program's own file")?;
    let listen: Vec<String> = addresses().iter().map(ToString::to_string).collect();
    let mut command = Command::new(program);
    command.arg("serve").arg(directory).args(["--all-zones-everywhere", "--listen", &listen.join(",")]);
    let log = directory.with_extension("log");
    let mut process = Process::start("ldplayer serve", &mut command, Output::Log(log)).map_err(Failure::environment)?;
    addresses().into_iter().try_for_each(|address| process.wait_for(address)).map_err(Failure::environment)?;
    Ok(process)
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.recursive { recursive::run(&args) } else { against_root(&args) }
}

/// The demo of an authoritative server.
fn against_root(args: &Args) -> Result<ExitCode, Failure> {
    let scratch = tempfile::tempdir().context("cannot make a scratch directory; set TMPDIR to one with space")?;
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from(RUN));
    let mut spec = spec(args, &SERVERS, &capture(&scratch)?)?;
    let zone = zone(&scratch)?;
    // The browser must not be in the namespace: who opens it is started before.
    let opener = args.open.then(Opener::start).transpose()?;
    let testbed = Testbed::enter().map_err(Failure::environment)?;
    testbed.shortfalls().iter().for_each(|shortfall| tell!("ldplayer: {shortfall}"));
    let server = args.server.start(&zone)?;
    spec.watch_pid = Some(server.id());
    tell!(
        "ldplayer: 60 s of L-root traffic of 2016-10-06 (ICANN, by way of DNS-STATS compactor, MPL-2.0), against {} \
         with the root zone 2016100801, at speed {}",
        args.server.name(),
        args.speed.0
    );
    let status = replay::execute(spec, &output, replaces(args), replay::Print::SHOWN)?;
    drop(server);
    show_report(&output, opener)?;
    Ok(status)
}

/// Shows the report in a browser, where that is wanted.
fn show_report(output: &Path, opener: Option<Opener>) -> Result<(), Failure> {
    let Some(opener) = opener else { return Ok(()) };
    opener.open(&fs::canonicalize(output.join("report.html")).context("the run has no report.html")?)
}

/// The replay of a capture against these servers, from the clients' own addresses.
fn spec(args: &Args, servers: &[&str], capture: &Path) -> anyhow::Result<RunSpec> {
    let servers: Result<Vec<Server>, _> = servers.iter().map(|server| server.parse()).collect();
    Ok(RunSpec {
        trace: vec![capture.to_str().context("the name of the scratch directory is not UTF-8; set TMPDIR")?.to_owned()],
        server: servers?,
        transport: TransportChoice::All(Transport::Udp),
        sources: Some(Sources::Original),
        // The usual speed is the default, which a report does not list among other settings.
        speed: Some(args.speed).filter(|speed| speed.0 != 1.0),
        ..RunSpec::default()
    })
}

/// Whether an earlier run may be replaced: one of an earlier demo always, one of the user only with `--force`.
const fn replaces(args: &Args) -> bool {
    args.force || args.output.is_none()
}

fn addresses() -> Vec<SocketAddr> {
    let parsed = SERVERS.iter().filter_map(|server| server.parse().ok());
    parsed.filter(|server: &SocketAddr| server.is_ipv4() || has_ipv6()).collect()
}

fn capture(scratch: &TempDir) -> anyhow::Result<PathBuf> {
    write(scratch, "l-root-20161006.pcap.xz", CAPTURE)
}

/// The zone as servers read it: not compressed, alone in a directory.
fn zone(scratch: &TempDir) -> anyhow::Result<PathBuf> {
    let mut text = Vec::new();
    liblzma::read::XzDecoder::new(ZONE).read_to_end(&mut text).context("the bundled zone is damaged")?;
    fs::create_dir(scratch.path().join("zones")).context("cannot make a directory; is the disk full?")?;
    write(scratch, "zones/root.zone", &text)
}

fn write(scratch: &TempDir, name: &str, octets: &[u8]) -> anyhow::Result<PathBuf> {
    let file = scratch.path().join(name);
    output::write(&file, octets).with_context(|| format!("cannot write {}; is the disk full?", file.display()))?;
    Ok(file)
}

/// A process outside of the namespace that waits for the page to show.
struct Opener(Child);

impl Opener {
    fn start() -> Result<Self, Failure> {
        let child = Command::new("sh")
            .args(["-c", "read -r page && exec xdg-open \"$page\""])
            .stdin(Stdio::piped())
            .spawn()
            .context("--open: cannot run sh")
            .map_err(Failure::environment)?;
        Ok(Self(child))
    }

    fn open(mut self, page: &Path) -> Result<(), Failure> {
        let mut input = self.0.stdin.take();
        let written = input.as_mut().map(|input| writeln!(input, "{}", page.display()));
        drop(input);
        let opened = written.is_some_and(|written| written.is_ok()) && self.0.wait().is_ok_and(|end| end.success());
        opened.then_some(()).ok_or_else(|| {
            Failure::environment(anyhow::anyhow!("--open: xdg-open cannot show it; open the report yourself"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_workload::Timing;

    fn args(output: Option<PathBuf>) -> Args {
        Args {
            server: ServerKind::Ldplayer,
            recursive: false,
            resolver: Kind::UNBOUND,
            open: false,
            output,
            force: false,
            speed: Speed(10.0),
        }
    }

    #[test]
    fn the_replay_is_the_one_described() {
        let spec = spec(&args(None), &SERVERS, Path::new("a.pcap")).unwrap();
        assert_eq!(spec.server.iter().map(ToString::to_string).collect::<Vec<_>>(), SERVERS);
        assert_eq!((spec.timing(), spec.sources), (Timing::Scaled(10.0), Some(Sources::Original)));
    }

    /// The report had `--speed 1` among the settings other than the defaults.
    #[test]
    fn the_usual_speed_is_no_setting() {
        let spec = spec(&Args { speed: Speed(1.0), ..args(None) }, &SERVERS, Path::new("a.pcap")).unwrap();
        assert_eq!((spec.timing(), spec.speed), (Timing::ORIGINAL, None));
    }

    #[test]
    fn a_run_directory_of_the_user_is_not_replaced_unasked() {
        assert!(replaces(&args(None)) && !replaces(&args(Some("mine".into()))));
    }
}
