//! Resolves a specification on this machine: defaults, names and files.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;

use ldplayer_core::client::ClientModel;
use ldplayer_core::time::Span;
use ldplayer_core::{Ignore, Policy, RunTime, Transport};
use ldplayer_net::pace::Precision;
use ldplayer_net::settings::has_ipv6;
use ldplayer_net::{limits, netns, pin};
use ldplayer_replay::{NetworkPath, Reference, Settings, Sources, Targets};
use ldplayer_results::VerdictLimits;
use ldplayer_trace::{Dependencies, Input, OpenOptions, RecordedRetries};
use ldplayer_workload::{ClientClass, FeedOptions, PlanOptions, Timing};

use crate::error::RunError;
use crate::keys::RunSpec;
use crate::words::{DNS_PORT, Server, TransportChoice};
use crate::{classes, path, tls};

/// Descriptors reserved for files, if each client has a socket.
const SPARE_DESCRIPTORS: u64 = 256;

/// The allowed telemetry intervals in nanoseconds: parts of processor time are counted in ticks of 10 ms.
const INTERVALS: RangeInclusive<i64> = 100_000_000..=1_000_000_000;

/// A server name with one of its addresses.
pub type Resolved = (String, SocketAddr);

/// A specification as resolved on this machine.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to replay.
    pub feed: FeedOptions,
    /// How to replay it.
    pub settings: Settings,
    /// What comparisons of answers ignore.
    pub ignore: Ignore,
    /// The reference server for comparisons, if any.
    pub reference: Option<Reference>,
    /// Every address given or resolved for the servers, used or not.
    pub given: Vec<SocketAddr>,
    /// Server names with their addresses.
    pub resolved: Vec<Resolved>,
}

impl Plan {
    /// Resolves a specification. Its files must have been embedded ([`crate::embed`]).
    ///
    /// # Errors
    /// It is invalid, or cannot be carried out here.
    pub fn resolve(spec: &RunSpec) -> Result<Self, RunError> {
        if spec.trace.is_empty() {
            return Err(RunError::Spec("no trace: give at least one file, or - for standard input".to_owned()));
        }
        if !INTERVALS.contains(&spec.telemetry_interval.ns()) {
            let given = spec.telemetry_interval;
            return Err(RunError::Spec(format!("--telemetry-interval {given}: use 100ms to 1s")));
        }
        let (given, mut resolved) = addresses("--server", &spec.server)?;
        let targets = targets(spec, &given)?;
        let classes = spec.classes();
        check_clients(spec, classes)?;
        check_dependencies(spec)?;
        let reference = reference(spec, &mut resolved)?;
        let settings = settings(spec, targets, reference.as_ref(), classes)?;
        let ignore = Ignore::of(&spec.compare_ignore);
        Ok(Self { feed: feed(spec, classes), settings, ignore, reference, given, resolved })
    }

    /// The client classes; empty if all clients are alike.
    pub fn classes(&self) -> &[ClientClass] {
        &self.feed.classes
    }

    /// When the clock ends the run; `None` if its queries do.
    pub fn time_limit(&self) -> Option<RunTime> {
        self.feed.plan.until.filter(|_| self.settings.fast).map(RunTime)
    }

    /// The criteria of the verdict.
    pub fn limits(&self) -> VerdictLimits {
        match self.settings.precision {
            _ if self.settings.fast => VerdictLimits::FAST,
            Precision::High => VerdictLimits::HIGH,
            Precision::Normal => VerdictLimits::NORMAL,
            Precision::Low => VerdictLimits::LOW,
        }
    }

    /// The ports of the servers; `recorded` are those of the trace.
    pub fn ports(&self, recorded: &[u16]) -> Vec<u16> {
        let settings = &self.settings;
        let mut ports: Vec<u16> = settings.targets.named().iter().map(SocketAddr::port).collect();
        if let Targets::Recorded(maps) = &settings.targets {
            ports.extend(recorded.iter().copied().chain([DNS_PORT]));
            ports.extend(maps.iter().filter_map(|map| map.to_port));
        }
        if settings.tls.is_some() {
            ports.extend([settings.tls_port, settings.doh_port]);
        }
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// The relation of the schedule to the trace, unless it is the recorded one.
    pub fn speed_note(&self) -> Option<String> {
        let timing = self.feed.plan.timing;
        (timing != Timing::ORIGINAL).then(|| timing.to_string())
    }
}

/// The transport common to all queries, if there is one.
fn transport_of_all(spec: &RunSpec) -> Option<Transport> {
    match spec.transport {
        TransportChoice::All(transport) => Some(transport),
        TransportChoice::AsRecorded | TransportChoice::Shares(_) => None,
    }
}

/// The feed of a specification with embedded files, regardless of its targets.
pub fn feed_of(spec: &RunSpec) -> FeedOptions {
    feed(spec, spec.classes())
}

fn feed(spec: &RunSpec, classes: &[ClientClass]) -> FeedOptions {
    FeedOptions {
        inputs: spec.trace.iter().map(|word| Input::from(word.as_str())).collect(),
        open: OpenOptions {
            ports: spec.capture_port.clone(),
            roles: spec.role.clone(),
            drop_duplicates: spec.drop_duplicates,
            text_format: spec.text_format,
            max_input: spec.max_input,
            ..OpenOptions::default()
        },
        retries: recorded_retries(spec, classes),
        dependencies: spec.dependencies,
        rules: spec.rules.clone(),
        plan: PlanOptions {
            timing: spec.timing(),
            start: spec.start.map_or(0, Span::ns),
            stop: spec.stop.map(Span::ns),
            until: spec.duration.map(Span::ns),
            clients: spec.clients,
            transport: transport_of_all(spec),
        },
        passes: spec.passes,
        classes: classes.to_vec(),
        compare: spec.compare_answers == Some(Server::Recorded),
        seed: spec.seed,
    }
}

/// What becomes of recorded retries: clients that react make their own.
fn recorded_retries(spec: &RunSpec, classes: &[ClientClass]) -> RecordedRetries {
    let default = if reacts(spec, classes) { RecordedRetries::Drop } else { RecordedRetries::Keep };
    spec.recorded_retries.unwrap_or(default)
}

/// Whether clients of any class ask more than once.
pub fn reacts(spec: &RunSpec, classes: &[ClientClass]) -> bool {
    let base = spec.policy.over(Policy::default());
    let policies = classes::policies(classes, base);
    policies.iter().chain(policies.is_empty().then_some(&base)).any(|policy| policy.client != ClientModel::Open)
}

/// Refuses what has one answer for each query where clients may get several.
fn check_clients(spec: &RunSpec, classes: &[ClientClass]) -> Result<(), RunError> {
    let asks_two = spec.compare_answers.as_ref().is_some_and(|with| *with != Server::Recorded);
    let option = match (spec.keep_responses, asks_two) {
        (true, _) => "--keep-responses",
        (_, true) => "--compare-answers with another server",
        _ => return Ok(()),
    };
    let refused = || RunError::Spec(format!("--client: clients that ask several times do not go with {option}"));
    if reacts(spec, classes) { Err(refused()) } else { Ok(()) }
}

/// Refuses dependencies where there are no recorded think times, or where a query has two answers.
fn check_dependencies(spec: &RunSpec) -> Result<(), RunError> {
    let asks_two = spec.compare_answers.as_ref().is_some_and(|with| *with != Server::Recorded);
    let what = match spec.timing() {
        _ if spec.dependencies == Dependencies::None => return Ok(()),
        Timing::Scaled(_) if asks_two => "each query is sent to two servers with --compare-answers: leave one out",
        Timing::Scaled(_) => return Ok(()),
        _ => "queries wait by the recorded think times: use --timing original or scaled",
    };
    Err(RunError::Spec(format!("--dependencies {}: {what}", spec.dependencies)))
}

/// The reference server. The ports given for encrypted DNS apply to it as well.
fn reference(spec: &RunSpec, resolved: &mut Vec<Resolved>) -> Result<Option<Reference>, RunError> {
    let Some(other) = spec.compare_answers.as_ref().filter(|with| **with != Server::Recorded) else { return Ok(None) };
    let (given, names) = addresses("--compare-answers", std::slice::from_ref(other))?;
    resolved.extend(names);
    let transport = transport_of_all(spec);
    Ok(Some(Reference {
        tls_port: tls::port(spec, Transport::Dot, transport, &given),
        doh_port: tls::port(spec, Transport::Doh3, transport, &given),
        targets: servers(&given, has_ipv6()).map(Targets::Fixed)?,
    }))
}

fn settings(
    spec: &RunSpec,
    targets: Targets,
    reference: Option<&Reference>,
    classes: &[ClientClass],
) -> Result<Settings, RunError> {
    let fast = spec.timing() == Timing::Fast;
    let policy = spec.policy.over(Policy::default()).bounded();
    let transport = transport_of_all(spec);
    let encrypted = transport.or_else(|| classes::encrypted(classes));
    let path = path::of(spec, &targets, reference)?;
    Ok(Settings {
        sources: sources(spec, &path)?,
        tls_port: tls::port(spec, Transport::Dot, transport, targets.named()),
        doh_port: tls::port(spec, Transport::Doh3, transport, targets.named()),
        targets,
        workers: workers(spec)?,
        cores: spec.cores.clone(),
        precision: spec.precision,
        query_timeout: spec.query_timeout.ns().max(1),
        max_lag: (!fast).then_some(spec.max_lag.0.ns()),
        fast,
        window: spec.max_outstanding.max(1),
        max_sockets: max_sockets(&path),
        path,
        policy,
        classes: classes::policies(classes, policy),
        tls: tls::settings(spec, encrypted)?,
        doh: tls::doh(spec)?,
        count_segments: spec.count_segments,
        seed: spec.seed,
    })
}

fn workers(spec: &RunSpec) -> Result<usize, RunError> {
    let cores = pin::allowed_cores().map_err(RunError::environment)?;
    if let Some(core) = spec.cores.iter().find(|core| !cores.contains(core)) {
        return Err(RunError::Spec(format!("--cores {core}: this process may use only the cores {cores:?}")));
    }
    let default = if spec.cores.is_empty() { cores.len().saturating_sub(1).max(1) } else { spec.cores.len() };
    Ok(spec.workers.map_or(default, usize::from))
}

fn sources(spec: &RunSpec, path: &NetworkPath) -> Result<Sources, RunError> {
    if path.packets().is_some() {
        return path::sources(spec);
    }
    let any_ip = netns::has_any_ip();
    match &spec.sources {
        None if any_ip => Ok(Sources::Original),
        None => Ok(Sources::Ports),
        Some(Sources::Original) if !any_ip => Err(RunError::environment(
            "--sources original: the clients' addresses are not local to this host; add --start-server COMMAND, or run the \
            command in a namespace: ldplayer testbed run -- COMMAND",
        )),
        Some(sources) => match sources.not_local() {
            Some(address) => Err(RunError::Environment(format!(
                "--sources {sources}: {address} is not an address of this host; give addresses of this host (see `ip \
                address`), add --start-server COMMAND, or run the command in a namespace: ldplayer testbed run -- COMMAND"
            ))),
            None => Ok(sources.clone()),
        },
    }
}

/// The addresses of the servers, each name resolved once, and the names.
fn addresses(option: &str, servers: &[Server]) -> Result<(Vec<SocketAddr>, Vec<Resolved>), RunError> {
    let (mut addresses, mut resolved) = (Vec::new(), Vec::new());
    for server in servers {
        match server {
            Server::Address(address) => addresses.push(*address),
            Server::Name { host, port } => {
                let found = resolve_name(option, host, *port)?;
                resolved.extend(found.iter().map(|&address| (host.clone(), address)));
                addresses.extend(found);
            }
            Server::Recorded => {}
        }
    }
    Ok((addresses, resolved))
}

/// The first address of each family for a name.
fn resolve_name(option: &str, host: &str, port: u16) -> Result<Vec<SocketAddr>, RunError> {
    let failed = |what: &dyn std::fmt::Display| RunError::Spec(format!("{option} {host}: {what}"));
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(|error| failed(&error))?.collect();
    let first = |v4: bool| found.iter().find(|address| address.is_ipv4() == v4).copied();
    let found: Vec<SocketAddr> = [first(true), first(false)].into_iter().flatten().collect();
    if found.is_empty() { Err(failed(&"has no address")) } else { Ok(found) }
}

/// The target servers: those given, or the recorded ones.
fn targets(spec: &RunSpec, given: &[SocketAddr]) -> Result<Targets, RunError> {
    let is_recorded = spec.server.contains(&Server::Recorded);
    match (is_recorded, given) {
        (true, []) => Ok(Targets::Recorded(spec.map.clone())),
        (true, _) => Err(RunError::Spec(
            "--server recorded: cannot be combined with other servers; use --map OLD=NEW".to_owned(),
        )),
        (false, _) if !spec.map.is_empty() => Err(RunError::Spec("--map: needs --server recorded".to_owned())),
        (false, []) => Err(RunError::Spec("no server: give --server ADDR[:PORT]".to_owned())),
        (false, given) => servers(given, has_ipv6()).map(Targets::Fixed),
    }
}

/// Drops IPv6 servers if the kernel has no IPv6, so that IPv4 is still replayed.
fn servers(given: &[SocketAddr], with_v6: bool) -> Result<Vec<SocketAddr>, RunError> {
    let servers: Vec<SocketAddr> = given.iter().copied().filter(|server| server.is_ipv4() || with_v6).collect();
    if servers.is_empty() {
        let what = "--server: IPv6 is disabled in this kernel (ipv6.disable=1): give an IPv4 server, or boot with IPv6";
        return Err(RunError::environment(what));
    }
    Ok(servers)
}

/// The number of sockets per worker within the limit of file descriptors, or of connections without sockets.
fn max_sockets(path: &NetworkPath) -> u32 {
    if path.packets().is_some() {
        return path::MAX_CONNECTIONS;
    }
    let limit = limits::raise_nofile().unwrap_or(1_024);
    u32::try_from(limit.saturating_sub(SPARE_DESCRIPTORS).max(16)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_ipv6_only_ipv4_servers_are_asked() {
        let given: Vec<SocketAddr> =
            ["192.0.2.1:53", "[2001:db8::1]:53"].map(|server| server.parse().unwrap()).to_vec();
        assert_eq!(servers(&given, true).ok(), Some(given.clone()));
        assert_eq!(servers(&given, false).ok(), Some(given[..1].to_vec()));
        assert!(servers(&given[1..], false).is_err() && servers(&given[1..], true).is_ok());
    }

    #[test]
    fn names_are_resolved_once_with_an_address_of_each_family_at_most() {
        let (found, resolved) = addresses("--server", &["localhost:5300".parse().unwrap()]).unwrap();
        assert_eq!(resolved.len(), found.len());
        assert!(!found.is_empty() && found.iter().all(|server| server.ip().is_loopback() && server.port() == 5300));
        assert!(found.iter().filter(|server| server.is_ipv4()).count() < 2);
        let error = addresses("--server", &["no-such-host.invalid".parse().unwrap()]).unwrap_err().to_string();
        assert!(error.starts_with("--server no-such-host.invalid: "), "{error}");
    }

    #[test]
    fn what_is_missing_is_told() {
        let refusal = |spec: &RunSpec| Plan::resolve(spec).unwrap_err().to_string();
        assert!(refusal(&RunSpec::default()).starts_with("no trace"));
        let spec = RunSpec { trace: vec!["a.pcap".into()], ..RunSpec::default() };
        assert!(refusal(&spec).starts_with("no server"));
        let servers = |words: &[&str]| words.iter().map(|word| word.parse().unwrap()).collect();
        let spec = RunSpec { server: servers(&["recorded", "127.0.0.1"]), ..spec };
        assert!(refusal(&spec).contains("cannot be combined with other servers"));
        let map = vec!["198.41.0.4=127.0.0.1".parse().unwrap()];
        let spec = RunSpec { server: servers(&["127.0.0.1"]), map, ..spec };
        assert!(refusal(&spec).contains("needs --server recorded"));
    }
}
