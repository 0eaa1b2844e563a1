//! `ldplayer serve`: the meta-DNS-server, every zone of a set chosen by the address that is asked.

use std::io::{BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use ldplayer_core::name::Presentation;
use ldplayer_core::text::counted;
use ldplayer_core::time::Span;
use ldplayer_emulate::serve::coverage::Coverage;
use ldplayer_emulate::serve::faults::Faults;
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options, PORT, Server, UDP_SIZE, everything, loopback};
use ldplayer_net::netns;
use ldplayer_net::output::Pending;
use ldplayer_net::signals::Signals;
use ldplayer_zone::load::Reading;

use super::answering::{Answering, Following};
use super::encrypting::{Encrypting, parse_address};
use super::including::Serving;
use super::notifying::Notifying;
use crate::failure::Failure;
use crate::printing::to_stderr;

/// How often signals are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Warnings printed at most; the coverage report has all of them.
const WARNINGS: usize = 20;

/// Options of `serve`.
#[derive(clap::Args)]
#[command(after_help = "\
A query is answered from the zones whose name servers have the address that was asked: from the
deepest one that encloses the name, or with REFUSED if there is none. This needs a host that has
all these addresses: `ldplayer testbed up --zones DIR` makes one and serves there. With
--all-zones-everywhere, every address serves all zones, as an ordinary server does.

Without --listen, programs of this host alone can ask: the server listens on loopback. In the
network of a testbed, which nothing leaves, it listens on all addresses.

SIGHUP reloads the zones and faults. Ctrl-C or SIGTERM ends the server with a summary and exit
status 0; a second one ends it at once.

Example: an ordinary authoritative server on a port of its own
  ldplayer serve zones/ --all-zones-everywhere --listen 127.0.0.1:5300

Example: the same behind a firewall that drops queries with EDNS
  ldplayer serve zones/ --all-zones-everywhere --listen 127.0.0.1:5300 \\
    --faults firewall-drops-edns

Example: addresses that change every ten seconds, of a set made with `zones build --conflict keep`
  ldplayer serve zones/ --all-zones-everywhere --listen 127.0.0.1:5300 \\
    --answers changing:10s

Example: over TLS and HTTPS, too, with a certificate that clients can trust
  ldplayer serve zones/ --all-zones-everywhere --listen 127.0.0.1:5300 \\
    --dot 127.0.0.1:8853 --doh 127.0.0.1:8443 --certificate ca.pem

Example: the hierarchy, on a host of a testbed
  ldplayer testbed exec internet -- \\
    ldplayer serve zones/ --coverage coverage.json")]
pub struct Args {
    /// The zone set: a directory in which every plain file is a zone file
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    reading: Serving,
    /// Address to listen on; 0.0.0.0,:: for all of this host [default: 127.0.0.1,::1, port 53; in
    /// a testbed all]
    #[arg(long, value_name = "ADDR[:PORT],...", value_delimiter = ',', value_parser = parse_listen)]
    listen: Vec<SocketAddr>,
    /// Serve all zones on every address
    #[arg(long)]
    all_zones_everywhere: bool,
    /// Threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,
    /// Maximum number of TCP connections; an idle one is closed to make room
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    connections: u32,
    /// Close TCP connections that are idle for this long (seconds, or with a unit)
    #[arg(long, value_name = "TIME", default_value = "10s", hide_short_help = true)]
    idle_timeout: Span,
    /// Maximum size of UDP responses in bytes; those above 1232 may be fragmented
    #[arg(long, value_name = "N", default_value_t = UDP_SIZE, value_parser = clap::value_parser!(u16).range(512..), hide_short_help = true)]
    udp_size: u16,
    /// Make faults on purpose: the rules of a file, or of firewall-drops-edns, no-tcp, under-attack and others that come along
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    #[command(flatten)]
    answering: Answering,
    #[command(flatten)]
    encrypting: Encrypting,
    /// Let whoever asks over TCP, TLS or QUIC have zones (AXFR, or IXFR: what changed)
    #[arg(long, hide_short_help = true)]
    transfers: bool,
    #[command(flatten)]
    notifying: Notifying,
    /// Seed of what --answers draws
    #[arg(long, value_name = "N", default_value = "0", hide_short_help = true)]
    seed: u64,
    /// At the end, write a coverage report (JSON): queries by zone, questions without a zone, unused records
    #[arg(long, value_name = "FILE")]
    coverage: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let signals = Signals::catch_or_end(Arc::default()).and_then(Signals::and_reload).context("serve: signals")?;
    let set = load(&args.directory, args.reading.reading())?;
    let told = counted(set.zones().len() as u64, "zone", "zones");
    let is_asked = args.all_zones_everywhere || args.is_any_served(&set.addresses());
    let faults = read_faults(args.faults.as_deref(), &set)?;
    let mut following = args.answering.follow(&set);
    let encrypted = args.encrypting.encrypted()?;
    let options = Options { faults, encrypted, clock: following.clock(), ..args.options() };
    let server = Server::start(set, &options).map_err(Failure::environment)?;
    let mut stdout = crate::printing::stdout();
    let over = |(what, listening): (&str, &[SocketAddr])| format!("; over {what} on {}", joined(listening));
    let encrypted: String = server.listening_encrypted().map(over).collect();
    write_line!(stdout, "serving {told} on {}{encrypted}", joined(server.listening())).and_then(|()| stdout.flush())?;
    if args.listen.is_empty() && !netns::is_emulated() {
        tell!("ldplayer: listening on loopback only; --listen 0.0.0.0,:: listens on all addresses of this host");
    }
    args.notifying.tell(&server.set());
    if !is_asked {
        tell!(
            "ldplayer: no zone has a name server at these addresses: every answer is REFUSED (see --all-zones-everywhere, --listen)"
        );
    }
    let sources =
        Sources { directory: &args.directory, reading: args.reading.reading(), faults: args.faults.as_deref() };
    watch(Some(&server), sources, &mut following, &signals, |set, faults| {
        server.replace(set, faults);
        args.notifying.tell(&server.set());
        Ok(())
    })?;
    finish(server.stop(), args.coverage.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn listening(&self) -> Vec<SocketAddr> {
        match &self.listen[..] {
            [] if netns::is_emulated() => everything(PORT),
            [] => loopback(PORT),
            given => given.to_vec(),
        }
    }

    /// Whether a server of the set may be asked at an address that is listened on.
    fn is_any_served(&self, servers: &[IpAddr]) -> bool {
        let is_served = |address: IpAddr| address.is_unspecified() || servers.contains(&address);
        self.listening().iter().any(|address| is_served(address.ip()))
    }

    fn options(&self) -> Options {
        let default = Options::default();
        Options {
            listen: self.listening(),
            everywhere: self.all_zones_everywhere,
            workers: self.workers.map_or(default.workers, usize::from),
            connections: self.connections as usize,
            idle_ns: self.idle_timeout.ns(),
            udp_size: self.udp_size,
            marks: self.coverage.is_some(),
            answers: self.answering.answers,
            seed: self.seed,
            transfers: self.transfers,
            ..default
        }
    }
}

/// Reads a zone set and reports its oddities.
pub fn load(directory: &Path, reading: Reading) -> Result<ZoneSet, Failure> {
    let set = ZoneSet::load_with(directory, reading)?;
    let warnings = set.warnings();
    warnings.iter().take(WARNINGS).for_each(|warning| tell!("ldplayer: {warning}"));
    if let Some(more @ 1..) = warnings.len().checked_sub(WARNINGS) {
        tell!("ldplayer: and {more} more like these; the coverage report has all of them");
    }
    Ok(set)
}

/// Reads a file of faults, and tells of zones in it that are not served.
pub fn read_faults(file: Option<&Path>, set: &ZoneSet) -> Result<Option<Arc<Faults>>, Failure> {
    let Some(file) = file else { return Ok(None) };
    let faults = Faults::read(file)?;
    for (fault, zone) in faults.zones().filter(|(_, zone)| set.zone(zone).is_none()) {
        tell!("ldplayer: {}: {fault}: the set has no zone {}", file.display(), Presentation(zone));
    }
    Ok(Some(Arc::new(faults)))
}

/// What a server reads anew when it is told to.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    pub directory: &'a Path,
    pub reading: Reading,
    pub faults: Option<&'a Path>,
}

/// Sees to signals until one says to stop. Zones and faults that are read anew go to `replace`; what cannot be read leaves those that are
/// served in place. Without a server, the signals alone are seen to.
pub fn watch(
    server: Option<&Server>,
    sources: Sources<'_>,
    following: &mut Following,
    signals: &Signals,
    replace: impl Fn(ZoneSet, Option<Arc<Faults>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    while !signals.is_stopped() {
        if signals.take_reload() {
            reload(sources, &replace)?;
        }
        following.look();
        if let Some(failure) = server.and_then(Server::failure) {
            return Err(Failure::environment(anyhow::anyhow!("a worker has stopped: {failure}")));
        }
        thread::park_timeout(LOOK);
    }
    Ok(())
}

fn reload(
    Sources { directory, reading, faults }: Sources<'_>,
    replace: impl Fn(ZoneSet, Option<Arc<Faults>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match load(directory, reading).and_then(|set| Ok((read_faults(faults, &set)?, set))) {
        Ok((faults, set)) => {
            let zones = set.zones().len();
            replace(set, faults)?;
            tell!("ldplayer: {}: reloaded, {}", directory.display(), counted(zones as u64, "zone", "zones"));
        }
        Err(failure) => {
            failure.report();
            tell!("ldplayer: the old zones stay in service");
        }
    }
    Ok(())
}

/// Prints the counts of queries.
pub fn finish(coverage: Coverage, file: Option<&Path>) -> anyhow::Result<()> {
    to_stderr(format_args!("ldplayer: {coverage}\n"));
    let Some(file) = file else { return Ok(()) };
    let failed = || format!("--coverage {}", file.display());
    let mut out = BufWriter::new(Pending::new(file).with_context(failed)?);
    coverage.write(&mut out).with_context(failed)?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error).and_then(Pending::finish).with_context(failed)
}

fn joined(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An address to listen on.
pub fn parse_listen(word: &str) -> Result<SocketAddr, String> {
    parse_address(word, PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_or_that_of_dns() {
        for (word, address) in [
            ("127.0.0.1", "127.0.0.1:53"),
            ("::1", "[::1]:53"),
            ("[::1]:5300", "[::1]:5300"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("[::ffff:127.0.0.1]:5300", "127.0.0.1:5300"),
        ] {
            assert_eq!(parse_listen(word).unwrap().to_string(), address);
        }
        assert!(parse_listen("localhost").is_err());
    }
}
