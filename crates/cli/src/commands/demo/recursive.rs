//! `ldplayer demo --recursive`: real questions of clients, a stock resolver, and an emulated Internet behind it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use ldplayer_emulate::serve::coverage::Coverage;
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options, Server};
use ldplayer_emulate::stock::{Kind, StockSettings};
use ldplayer_emulate::testbed::{INTERNET, Plan, RESOLVER, Report, Testbed};
use ldplayer_emulate::wire::{LinkSpec, WirePath};
use ldplayer_run::RunSpec;

use super::hierarchy::{self, HierarchySize};
use super::{Args, Opener, replaces, replay, show_report, spec, write, zone};
use crate::failure::Failure;
use crate::printing::to_stderr;

/// 999 questions of clients; origin and licence: `data/README.md`.
const QUESTIONS: &[u8] = include_bytes!("../../../../../data/clients-20160629.pcap.xz");
/// Where the resolver listens.
const SERVER: &str = "10.53.0.2:53";
/// Round-trip time from the resolver to every name server.
const UPSTREAM_RTT: &str = "20ms";
/// The run directory when none is given.
const RUN: &str = "runs/demo-recursive";

/// Runs the demo.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let scratch = tempfile::tempdir().context("cannot make a scratch directory; set TMPDIR to one with space")?;
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from(RUN));
    let capture = write(&scratch, "clients-20160629.pcap.xz", QUESTIONS)?;
    let spec = spec(args, &[SERVER], &capture)?;
    let made = hierarchy::write(&zone(&scratch)?, &capture)?;
    let set = ZoneSet::load(&scratch.path().join("zones"))?;
    let opener = args.open.then(Opener::start).transpose()?;
    tell(&made, args.speed.0, args.resolver);
    let testbed = Testbed::up(&plan(&set)?).map_err(Failure::environment)?;
    let server = on(&testbed, "internet", || Server::start(set, &Options::default()).map_err(Failure::environment))?;
    let status = on(&testbed, "resolver", || resolve(&testbed, spec, &output, args))?;
    let report = testbed.down().map_err(Failure::environment)?;
    tell_upstream(&server.stop(), &report);
    show_report(&output, opener)?;
    Ok(status)
}

/// Works on a thread on a host.
fn on<T: Send>(testbed: &Testbed, host: &str, work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    testbed.run(host, work).map_err(Failure::environment)?
}

/// Starts the resolver on this thread's host, with the root hints that it has built in, and replays on the clients'.
fn resolve(testbed: &Testbed, mut spec: RunSpec, output: &Path, args: &Args) -> Result<ExitCode, Failure> {
    let listen = [SERVER.parse().context("the resolver's address")?];
    let resolver = args.resolver.with(StockSettings::default()).start(&listen).map_err(Failure::environment)?;
    spec.watch_pid = Some(resolver.id());
    on(testbed, "clients", || replay::execute(spec, output, replaces(args), replay::Print::SHOWN))
}

/// Hosts as usual; the Internet owns the addresses of all name servers.
fn plan(set: &ZoneSet) -> anyhow::Result<Plan> {
    let mut plan = Plan::of(set);
    let rtt = UPSTREAM_RTT.parse().context("the round-trip time of the demo")?;
    plan.paths = vec![WirePath { far: INTERNET, near: RESOLVER, link: LinkSpec { rtt, ..LinkSpec::default() } }];
    Ok(plan)
}

fn tell(made: &HierarchySize, speed: f64, resolver: Kind) {
    tell!(
        "ldplayer: 10 s of client questions of 2016-06-29 (ICANN, by way of DNS-STATS compactor, MPL-2.0), at speed {speed}, to \
         {} with an empty cache and its own root hints",
        resolver.name()
    );
    tell!(
        "ldplayer: the Internet is the root zone 2016100801 and, made up, {} top-level and {} second-level zones with the \
         {} names asked for, {UPSTREAM_RTT} away",
        made.top,
        made.second,
        made.names
    );
}

fn tell_upstream(coverage: &Coverage, report: &Report) {
    to_stderr(format_args!("ldplayer: the emulated Internet was asked: {coverage}\n"));
    tell!("ldplayer: packets that tried to leave: {}", report.wire.dropped.leaked);
}
