//! The ratio study as runs: each client asks each server in rounds, once over UDP and once over each other transport, every time over
//! a new connection.
//!
//! A study is a trace that is made for it, a [`RunSpec`] for each server, and what [`ldplayer_results::ratio`] makes of the rows.

mod schedule;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ldplayer_core::text::counted;
use ldplayer_core::time::Span;
use ldplayer_core::{TraceTime, Transport};
use ldplayer_emulate::stock::StockError;
use ldplayer_emulate::testbed::{Plan as TestbedPlan, RESOLVER};
use ldplayer_net::clock;
use ldplayer_results::ratio::{About, Line, Study, read_pairs};
use ldplayer_results::{ResultsError, State, words};
use ldplayer_run::{BadServer, FinishedRun, RunError, RunSpec, Server, TransportChoice};

use crate::maker::{Look, play};
use crate::place::{self, PlaceError};
use crate::stage::{Link, Stage};
use crate::started::Needs;
use crate::watcher::{Options, Position, Watcher};

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

impl RatioPlan {
    /// Queries to each server.
    fn queries(&self) -> u64 {
        u64::from(self.clients) * u64::from(self.rounds) * (1 + self.transports.len() as u64)
    }
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
    /// The server of the testbed does not start.
    #[error("--start-server: {0}")]
    Server(#[from] StockError),
    /// The testbed cannot be made.
    #[error("{0}")]
    Place(String),
}

impl From<PlaceError> for RatioError {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Server { source, .. } => Self::Server(source),
            other => Self::Place(other.to_string()),
        }
    }
}

impl RatioError {
    /// Whether the environment is at fault, not the input.
    pub const fn is_of_environment(&self) -> bool {
        match self {
            Self::Run { source, .. } => source.is_of_environment(),
            Self::Place(_) | Self::Server(_) => true,
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

/// Makes a study: a run directory for each server, `ratio.json`, `ratio.html` and `ratio.svg`. With `options.replace`, an earlier study is
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
    options: &Options,
    watcher: &mut dyn Watcher,
) -> Result<FinishedStudy, RatioError> {
    check(plan)?;
    let servers = targets(&plan.servers)?;
    if output.join(FIGURES).exists() && !options.replace {
        return Err(ResultsError::Exists(output.to_owned()).into());
    }
    if let Some(wire) = &plan.wire {
        check_wired(&servers, wire)?;
    }
    std::fs::create_dir_all(output).map_err(|source| RatioError::Output { path: output.to_owned(), source })?;
    let mut maker = Maker { plan, output, options, watcher };
    let started = TraceTime(clock::realtime_ns()).to_string();
    let (lines, is_interrupted) = maker.all(&servers)?;
    let about = About {
        started,
        command_line: options.command_line.clone(),
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
    if plan.queries() > MAX_QUERIES {
        return bad(format!(
            "too many queries per server: {}, the maximum is {MAX_QUERIES}; use fewer --clients or --pairs",
            plan.queries()
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
    options: &'a Options,
    watcher: &'a mut dyn Watcher,
}

impl Maker<'_> {
    /// Queries the servers one after the other.
    fn all(&mut self, servers: &[Target]) -> Result<Lines, RatioError> {
        let mut lines = Vec::new();
        for (place, server) in servers.iter().enumerate() {
            let at = self.position(place, servers);
            self.watcher.begin(&at);
            let (report, doubts, directory) = self.run(server.address, &at)?;
            let mut pairs = read_pairs(&directory)?;
            for &transport in &self.plan.transports {
                let pairs = pairs.remove(&transport).unwrap_or_default();
                lines.push(Line::new(server.label(), transport, &pairs, doubts.clone()));
            }
            if report.document.report.state == State::Interrupted {
                return Ok((lines, true));
            }
        }
        Ok((lines, false))
    }

    fn position(&self, place: usize, servers: &[Target]) -> Position {
        let each_s = self.plan.interval.ns() as f64 / 1e9 * f64::from(self.plan.rounds);
        let behind = servers.len() - place - 1;
        Position {
            number: place + 1,
            of: Some(servers.len()),
            cell: servers[place].label(),
            what: counted(self.plan.queries(), "query", "queries"),
            estimated_s: Some((each_s, each_s * behind as f64)),
        }
    }

    /// Makes the run of one server, and says what was unfaithful about it.
    fn run(&mut self, server: SocketAddr, at: &Position) -> Result<(FinishedRun, Vec<String>, PathBuf), RatioError> {
        let name = server.to_string().replace(['[', ']'], "").replace(':', "-");
        let (directory, trace) = (self.output.join(&name), self.output.join(format!("{name}.tsv")));
        schedule::write(self.plan, server, &trace)
            .map_err(|source| RatioError::Output { path: trace.clone(), source })?;
        let wire = self.plan.wire.as_ref();
        let stage = Stage { link: wire.map(|wire| wire.link.clone()), ..Stage::default() };
        let needs = Needs { ldplayer: self.options.ldplayer.clone(), ..Needs::default() };
        let spec = spec(self.plan, server, &trace);
        let whole = RunSpec { start_server: wire.map(|wire| wire.start_server.clone()), ..spec.clone() };
        let mut look = Look { watcher: &mut *self.watcher, at };
        let made = place::make(&stage, &needs, &whole, (&directory, &directory), |found| {
            play(RunSpec { watch_pid: found.watched, ..spec }, &directory, self.options, &mut look)
        });
        let (ran, fallen) = made?;
        let report = ran.map_err(|source| RatioError::Run { server, source: Box::new(source) })?;
        let doubts = fallen.into_iter().chain(unfaithful(&report)).collect();
        Ok((report, doubts, directory))
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
