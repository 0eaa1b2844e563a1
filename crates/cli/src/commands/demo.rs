//! `ldplayer demo`: the main job, end to end, on the bundled capture of a root server.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::Context;
use clap::Parser;
use ldplayer_emulate::stock::{Nsd, Stock, Zone};
use ldplayer_net::netns::{Testbed, has_ipv6};
use tempfile::TempDir;

use super::replay;
use crate::failure::Failure;

/// A minute of real traffic of a root server; origin and licence: `data/README.md`.
const CAPTURE: &[u8] = include_bytes!("../../../../data/l-root-20161006.pcap.xz");
/// The root zone two days later.
const ZONE: &[u8] = include_bytes!("../../../../data/root-2016100801.zone.xz");
/// Where NSD listens, in a namespace of its own.
const SERVERS: [&str; 2] = ["127.0.0.1:5300", "[::1]:5300"];
/// The run directory when none is given; an older demo in it is replaced.
const RUN: &str = "runs/demo";

/// Options of `demo`.
#[derive(clap::Args)]
#[command(after_help = "\
Replays a minute of real root server traffic (2,491 clients, each from its own address) against NSD with the root zone
of that week, in a namespace of its own. Needs NSD; root is not needed.

Example:
  ldplayer demo --open")]
pub struct Args {
    /// Show the report in a browser at the end
    #[arg(long)]
    open: bool,
    /// Run directory to write [default: runs/demo, replacing the demo run before]
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Replace the run in the directory, if there is one
    #[arg(long)]
    force: bool,
    /// Speed of the trace's clock: 10 takes 6 seconds instead of 60
    #[arg(long, value_name = "X", default_value = "1")]
    speed: String,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let scratch = tempfile::tempdir().context("cannot make a scratch directory; set TMPDIR to one with space")?;
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from(RUN));
    let mut replay_args = replay_args(&args, &output, &capture(&scratch)?)?;
    let zone = zone(&scratch)?;
    // The browser must not be in the namespace: who opens it is started before.
    let opener = args.open.then(Opener::start).transpose()?;
    let testbed = Testbed::enter().map_err(Failure::environment)?;
    testbed.shortfalls().iter().for_each(|shortfall| eprintln!("ldplayer: {shortfall}"));
    let nsd = Nsd { zones: vec![Zone::new(".", zone)] }.start(&addresses()).map_err(Failure::environment)?;
    replay_args.watch_pid = Some(nsd.id());
    eprintln!(
        "ldplayer: 60 s of L-root traffic of 2016-10-06 (ICANN, by way of DNS-STATS compactor, MPL-2.0), against NSD \
         with the root zone 2016100801, at speed {}",
        args.speed
    );
    let status = replay::run(&replay_args)?;
    let report = fs::canonicalize(output.join("report.html")).context("the run has no report.html")?;
    println!("report: {}", file_url(&report));
    if let Some(opener) = opener {
        opener.open(&report)?;
    }
    Ok(status)
}

/// The options of the replay, read as if typed.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Replay {
    #[command(flatten)]
    args: replay::Args,
}

/// An error is the first line of clap's; to end the program here would leave the scratch directory behind.
fn replay_args(args: &Args, output: &Path, capture: &Path) -> anyhow::Result<replay::Args> {
    let plain = ["--sources", "original", "--transport", "udp", "--speed", &args.speed];
    let servers = SERVERS.iter().flat_map(|server| ["--server", server]);
    let mut words: Vec<OsString> = plain.into_iter().chain(servers).map(OsString::from).collect();
    words.extend(["--output".into(), output.into(), capture.into()]);
    if args.force || args.output.is_none() {
        words.push("--force".into());
    }
    Replay::try_parse_from(words).map(|replay| replay.args).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        anyhow::anyhow!("demo: {}", line.trim_start_matches("error: "))
    })
}

fn addresses() -> Vec<SocketAddr> {
    let parsed = SERVERS.iter().filter_map(|server| server.parse().ok());
    parsed.filter(|server: &SocketAddr| server.is_ipv4() || has_ipv6()).collect()
}

fn capture(scratch: &TempDir) -> anyhow::Result<PathBuf> {
    write(scratch, "l-root-20161006.pcap.xz", CAPTURE)
}

/// The zone as NSD reads it: not compressed.
fn zone(scratch: &TempDir) -> anyhow::Result<PathBuf> {
    let mut text = Vec::new();
    liblzma::read::XzDecoder::new(ZONE).read_to_end(&mut text).context("the bundled zone is damaged")?;
    write(scratch, "root.zone", &text)
}

fn write(scratch: &TempDir, name: &str, octets: &[u8]) -> anyhow::Result<PathBuf> {
    let file = scratch.path().join(name);
    fs::write(&file, octets).with_context(|| format!("cannot write {}; is the disk full?", file.display()))?;
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

/// The path as a URL (RFC 8089): what is not plain in a URL is escaped.
fn file_url(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt;
    let mut url = String::from("file://");
    for &octet in path.as_os_str().as_bytes() {
        if octet.is_ascii_alphanumeric() || b"/-._~".contains(&octet) {
            url.push(char::from(octet));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(url, "%{octet:02X}");
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_escaped() {
        assert_eq!(file_url(Path::new("/a b/é#1/report.html")), "file:///a%20b/%C3%A9%231/report.html");
    }

    #[test]
    fn the_replay_is_the_one_described() {
        let args = Args { open: false, output: None, force: false, speed: "10".to_owned() };
        let replay = replay_args(&args, Path::new(RUN), Path::new("a.pcap")).unwrap();
        assert_eq!(replay.server, addresses());
        assert_eq!(replay.server.len(), SERVERS.len());
        assert_eq!((replay.speed, replay.force, replay.output()), (Some(10.0), true, PathBuf::from(RUN)));
    }

    #[test]
    fn a_run_directory_of_the_user_is_not_replaced_unasked() {
        let args = Args { open: false, output: Some("mine".into()), force: false, speed: "1".to_owned() };
        assert!(!replay_args(&args, Path::new("mine"), Path::new("a.pcap")).unwrap().force);
    }
}
