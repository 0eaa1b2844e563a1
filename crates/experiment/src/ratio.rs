//! The ratio study as runs: each client asks each server in rounds, once over UDP and once over each other transport, every time over
//! a new connection.
//!
//! A study is a trace that is made for it, a [`RunSpec`] for each server, and what [`ldplayer_results::ratio`] makes of the rows.

mod schedule;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use ldplayer_core::time::Span;
use ldplayer_core::{TraceTime, Transport};
use ldplayer_emulate::stock::{Output, Process, StockError};
use ldplayer_emulate::testbed::{Plan as TestbedPlan, RESOLVER, Testbed, TestbedError};
use ldplayer_net::clock;
use ldplayer_results::ratio::{About, Line, Study, read_pairs};
use ldplayer_results::{ResultsError, State, words};
use ldplayer_run::{BadServer, FinishedRun, Observer, Prepared, RunError, RunSpec, Server, TransportChoice, prepare};

use crate::stage::Link;

/// Maximum number of queries per server, since the pairs are held in memory: half a gigabyte.
pub const MAX_QUERIES: u64 = 2_000_000;
/// The file with the figures of a study.
const FIGURES: &str = "ratio.json";
/// Maximum number of clients: as many addresses are reserved.
pub const MAX_CLIENTS: u32 = 1 << 22;

/// The plan of a study.
#[derive(Clone, Debug)]
pub struct RatioPlan {
    /// The servers; each gives one line per transport.
    pub servers: Vec<NamedServer>,
    /// The transports to compare with UDP.
    pub transports: Vec<Transport>,
    /// The name whose SOA record is queried.
    pub zone: String,
    /// Number of clients, from 1 to [`MAX_CLIENTS`].
    pub clients: u32,
    /// Queries of each client over each transport.
    pub rounds: u32,
    /// Time from one round to the next.
    pub interval: Span,
    /// Everything else that its runs share: sources, timeouts, TLS, allowed targets, seed.
    pub base: RunSpec,
    /// A testbed with these round-trip times for the clients.
    pub wire: Option<Wired>,
}

/// A server and its name.
#[derive(Clone, Debug)]
pub struct NamedServer {
    /// The name in figures, beside the address.
    pub name: Option<String>,
    /// The address.
    pub server: Server,
}

impl FromStr for NamedServer {
    type Err = BadServer;

    /// Reads `ADDR` or `NAME=ADDR`.
    fn from_str(word: &str) -> Result<Self, BadServer> {
        let (name, server) =
            word.split_once('=').map_or((None, word), |(name, server)| (Some(name.to_owned()), server));
        Ok(Self { name, server: server.parse()? })
    }
}

/// An address to query, and its name.
#[derive(Clone, Debug)]
struct Target {
    name: Option<String>,
    address: SocketAddr,
}

impl Target {
    fn label(&self) -> String {
        self.name.as_ref().map_or_else(|| self.address.to_string(), |name| format!("{name} ({})", self.address))
    }
}

/// The testbed of a study.
#[derive(Clone, Debug)]
pub struct Wired {
    /// The link between clients and server: round-trip time, loss and so on.
    pub link: Link,
    /// The shell command that starts the servers in the foreground.
    pub start_server: String,
}

/// Observes a study.
pub trait RatioWatcher: Observer {
    /// Called before the queries to a server are sent.
    fn begin(&mut self, server: SocketAddr, prepared: &Prepared);
}

/// Why a study cannot be made; each is one line with a remedy.
#[derive(Debug, thiserror::Error)]
pub enum RatioError {
    /// The plan is invalid.
    #[error("{0}")]
    Plan(String),
    /// The directory of the study cannot be written.
    #[error("{}: {source}; choose another directory with -o", path.display())]
    Output {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A run failed.
    #[error("{server}: {source}")]
    Run {
        /// The server.
        server: SocketAddr,
        /// The reason.
        source: Box<RunError>,
    },
    /// The rows cannot be read back, or the study cannot be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The testbed cannot be made.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The server of the testbed does not start.
    #[error("--start-server: {0}")]
    Server(#[from] StockError),
}

impl RatioError {
    /// Whether the environment is at fault, not the input.
    pub const fn is_of_environment(&self) -> bool {
        match self {
            Self::Run { source, .. } => source.is_of_environment(),
            Self::Testbed(_) | Self::Server(_) => true,
            Self::Plan(_) | Self::Output { .. } | Self::Results(_) => false,
        }
    }
}

/// The result of a study.
#[derive(Debug)]
pub struct FinishedStudy {
    /// Its figures, which are also written to the directory.
    pub study: Study,
    /// Whether it was interrupted.
    pub is_interrupted: bool,
}

/// Makes a study: a run directory for each server, `ratio.json`, `ratio.html` and `ratio.svg`. With `replace`, an earlier study is
/// overwritten.
///
/// If it needs a testbed and this process lacks the right to make namespaces, it enters a user namespace, for which it must be
/// single-threaded.
///
/// # Errors
/// The error that ended it. Finished runs are kept.
pub fn make_ratio(
    plan: &RatioPlan,
    output: &Path,
    replace: bool,
    command_line: &[String],
    watcher: &mut dyn RatioWatcher,
) -> Result<FinishedStudy, RatioError> {
    check(plan)?;
    let servers = targets(&plan.servers)?;
    let earlier = output.join(FIGURES);
    if earlier.exists() && !replace {
        return Err(ResultsError::Exists(output.to_owned()).into());
    }
    if let Some(wire) = &plan.wire {
        check_wired(&servers, wire)?;
    }
    std::fs::create_dir_all(output).map_err(|source| RatioError::Output { path: output.to_owned(), source })?;
    let maker = Maker { plan, output, replace, command_line };
    let started = TraceTime(clock::realtime_ns()).to_string();
    let (lines, is_interrupted) = match &plan.wire {
        None => maker.all(&servers, watcher)?,
        Some(wire) => maker.wired(wire, &servers, watcher)?,
    };
    let about = About {
        started,
        command_line: command_line.to_vec(),
        zone: plan.zone.clone(),
        clients: plan.clients,
        rounds: plan.rounds,
        interval: plan.interval.ns(),
        query_timeout: plan.base.query_timeout.ns(),
        rtt: plan.wire.as_ref().and_then(|wire| wire.link.rtt.as_ref()).map(ToString::to_string),
    };
    let study = Study::new(about, lines);
    ldplayer_report::ratio::write(&study, output)?;
    Ok(FinishedStudy { study, is_interrupted })
}

fn check(plan: &RatioPlan) -> Result<(), RatioError> {
    let bad = |what: String| Err(RatioError::Plan(what));
    if plan.transports.is_empty() || plan.transports.contains(&Transport::Udp) {
        return bad("--transport: give the transports to compare with UDP, such as tcp or tcp,dot,doq".to_owned());
    }
    if !(1..=MAX_CLIENTS).contains(&plan.clients) || plan.rounds == 0 || plan.interval.ns() == 0 {
        return bad(format!(
            "use 1 to {MAX_CLIENTS} --clients, at least one pair (--pairs), and an --interval above 0"
        ));
    }
    let queries = u64::from(plan.clients) * u64::from(plan.rounds) * (1 + plan.transports.len() as u64);
    if queries > MAX_QUERIES {
        return bad(format!(
            "too many queries per server: {queries}, the maximum is {MAX_QUERIES}; use fewer --clients or --pairs"
        ));
    }
    if (1..plan.transports.len()).any(|place| plan.transports[..place].contains(&plan.transports[place])) {
        return bad("--transport: give each transport once".to_owned());
    }
    let says_whom_to_trust = plan.base.tls_ca.is_some() || plan.base.tls_insecure;
    if plan.transports.iter().any(|transport| transport.is_encrypted()) && !says_whom_to_trust {
        return bad("--transport: encrypted transports need --tls-ca FILE or --tls-insecure".to_owned());
    }
    let mut wire = Vec::new();
    ldplayer_core::name::parse(&plan.zone, &mut wire)
        .map_err(|error| RatioError::Plan(format!("--zone {}: {error}", plan.zone)))
}

/// In a testbed, only its own addresses are reachable.
fn check_wired(servers: &[Target], wire: &Wired) -> Result<(), RatioError> {
    wire.link.paths().map_err(|error| RatioError::Plan(error.to_string()))?;
    let own = &TestbedPlan::default().hosts[usize::from(RESOLVER.0)].addresses;
    match servers.iter().map(|server| server.address).find(|server| !own.contains(&server.ip())) {
        Some(server) => {
            Err(RatioError::Plan(format!("{server}: with --rtt, servers must be at {} or {}", own[0], own[1])))
        }
        None => Ok(()),
    }
}

/// Resolves the addresses of the servers.
fn targets(servers: &[NamedServer]) -> Result<Vec<Target>, RatioError> {
    let mut found = Vec::new();
    for NamedServer { name, server } in servers {
        let target = |address| Target { name: name.clone(), address };
        match server {
            Server::Address(address) => found.push(target(*address)),
            Server::Recorded => {
                return Err(RatioError::Plan("`recorded` is not possible here: give an address or a name".to_owned()));
            }
            Server::Name { host, port } => {
                let failed = |error: &dyn std::fmt::Display| RatioError::Plan(format!("{host}: {error}"));
                let all = (host.as_str(), *port).to_socket_addrs().map_err(|error| failed(&error))?;
                let mut all: Vec<SocketAddr> = all.collect();
                all.dedup();
                if all.is_empty() {
                    return Err(failed(&"has no address"));
                }
                found.extend(all.into_iter().map(target));
            }
        }
    }
    let twice =
        (1..found.len()).find(|&place| found[..place].iter().any(|other| other.address == found[place].address));
    match twice {
        Some(place) => Err(RatioError::Plan(format!("{}: give each server once", found[place].address))),
        None if found.is_empty() => Err(RatioError::Plan("no server: give at least one address".to_owned())),
        None => Ok(found),
    }
}

/// The lines of the servers queried so far, and whether the study was interrupted.
type Lines = (Vec<Line>, bool);

struct Maker<'a> {
    plan: &'a RatioPlan,
    output: &'a Path,
    replace: bool,
    command_line: &'a [String],
}

impl Maker<'_> {
    /// Queries the servers one after the other from this thread.
    fn all(&self, servers: &[Target], watcher: &mut dyn RatioWatcher) -> Result<Lines, RatioError> {
        let mut lines = Vec::new();
        for server in servers {
            let (report, directory) = self.run(server.address, watcher)?;
            let replay = unfaithful(&report);
            let mut pairs = read_pairs(&directory)?;
            for &transport in &self.plan.transports {
                let pairs = pairs.remove(&transport).unwrap_or_default();
                lines.push(Line::new(server.label(), transport, &pairs, replay.clone()));
            }
            if report.document.report.state == State::Interrupted {
                return Ok((lines, true));
            }
        }
        Ok((lines, false))
    }

    /// Queries them from the clients of a testbed, with the servers started in it.
    fn wired(&self, wire: &Wired, servers: &[Target], watcher: &mut dyn RatioWatcher) -> Result<Lines, RatioError> {
        let paths = wire.link.paths().map_err(|error| RatioError::Plan(error.to_string()))?;
        let testbed = Testbed::up(&TestbedPlan { seed: self.plan.base.seed, paths, ..TestbedPlan::default() })?;
        let lines = testbed.run("resolver", || {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("exec {}", wire.start_server)]);
            let mut process = Process::start(format!("`{}`", wire.start_server), &mut shell, Output::Stderr)?;
            servers.iter().try_for_each(|server| process.wait_for(server.address))?;
            testbed.run("clients", || self.all(servers, watcher))?
        })?;
        testbed.down()?;
        lines
    }

    /// Makes the run of one server.
    fn run(&self, server: SocketAddr, watcher: &mut dyn RatioWatcher) -> Result<(FinishedRun, PathBuf), RatioError> {
        let name = server.to_string().replace(['[', ']'], "").replace(':', "-");
        let (directory, trace) = (self.output.join(&name), self.output.join(format!("{name}.tsv")));
        schedule::write(self.plan, server, &trace)
            .map_err(|source| RatioError::Output { path: trace.clone(), source })?;
        let failed = |error| RatioError::Run { server, source: Box::new(error) };
        let prepared = prepare(spec(self.plan, server, &trace)).map_err(failed)?;
        watcher.begin(server, &prepared);
        let made = prepared.execute(&directory, self.replace, self.command_line.to_vec(), &mut Passed(watcher));
        Ok((made.map_err(failed)?, directory))
    }
}

/// Passes the observer of a study on to a run.
struct Passed<'a>(&'a mut dyn RatioWatcher);

impl Observer for Passed<'_> {
    fn look(&mut self, progress: &ldplayer_run::Progress) -> ldplayer_run::Wish {
        self.0.look(progress)
    }
}

/// The run specification for one server.
fn spec(plan: &RatioPlan, server: SocketAddr, trace: &Path) -> RunSpec {
    let mut spec = RunSpec {
        trace: vec![trace.to_string_lossy().into_owned()],
        server: vec![Server::Address(server)],
        transport: TransportChoice::AsRecorded,
        count_segments: true,
        ..plan.base.clone()
    };
    let patience = plan.base.query_timeout.ns();
    spec.policy.connect_timeout.get_or_insert(patience);
    spec.policy.handshake_timeout.get_or_insert(patience);
    // Each query pays for a full connection of its own.
    (spec.policy.queries_per_connection, spec.policy.resumption) = (Some(1), Some(false));
    spec
}

/// The failed checks of the replay's verdict, except those of timing: response times count from when the query was sent.
fn unfaithful(report: &FinishedRun) -> Vec<String> {
    let is_of_timing = |name: &str| name.starts_with("timing") || name.starts_with("rate");
    let checks = report.document.report.verdict.checks.iter();
    let checks = checks.filter(|check| !check.ok && !is_of_timing(&check.name));
    checks
        .map(|check| {
            let name = words::check(&check.name);
            format!("not faithful: {name} is {}, the limit is {}", check.value, check.limit)
        })
        .collect()
}
