//! The options of a replay in two layers: as typed ([`Args`]) and as meant ([`Plan`]).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use ldplayer_core::time::Span;
use ldplayer_core::{Cidr, TraceTime, Transport};
use ldplayer_net::{clock, netns, pin};
use ldplayer_replay::{Precision, Settings, Sources, Targets};
use ldplayer_results::{Expectation, RunConfig, VerdictLimits};
use ldplayer_trace::{Input, OpenOptions};
use ldplayer_workload::{ClientClass, PlanOptions, Timing};

use super::classes;
use super::connections::ConnectionArgs;
use crate::commands::reading::Reading;
use crate::failure::Failure;

/// Characters of a time without colons, such as `2026-01-31T235959`.
const TO_SECONDS: usize = 17;
/// Descriptors kept free for files, when each client has a socket.
const SPARE_DESCRIPTORS: u64 = 256;

/// Replays the queries of a trace against a server, each from its own client at its own moment.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  Replay a capture against a server on this host, each client on a port of its own:
    ldplayer replay capture.pcap.xz --server 127.0.0.1:5300 -o runs/first

  The same with every client's own address, in a namespace that ldplayer makes, server included:
    ldplayer replay capture.pcap.xz --sources original --start-server 'nsd -d -c nsd.conf' \\
        --server 127.0.0.1:5300 --server '[::1]:5300' -o runs/second

  What if all of it were TCP, with connections that clients close after 10 idle seconds:
    ldplayer replay capture.pcap.xz --server 127.0.0.1:5300 --transport tcp --idle-timeout 10s -o runs/tcp")]
pub struct Args {
    /// Trace to replay: pcap, pcapng, dnstap, C-DNS, Parquet, TSV or dnsperf text, compressed or not; `-` is standard input
    #[arg(required = true)]
    pub trace: Vec<String>,
    /// Server to ask, ADDR[:PORT]; several times for one of each address family, or for several, among which each client has
    /// one that it keeps
    #[arg(long, required = true, value_delimiter = ',', value_parser = parse_server)]
    pub server: Vec<SocketAddr>,
    /// Rules that change the queries on their way, as `ldplayer mutate` applies them
    #[arg(long, value_name = "FILE")]
    pub rules: Vec<PathBuf>,
    /// Run directory to write [default: runs/ and the time of day]
    #[arg(short, long, value_name = "RUN")]
    pub output: Option<PathBuf>,
    /// Replace the run in the directory, if there is one
    #[arg(long)]
    pub force: bool,
    /// When queries are sent: original, scaled:X (X times as fast), rate:QPS (at even gaps), poisson:QPS (at random gaps),
    /// ramp:FROM-TO/DURATION (at a rate that changes steadily, as in ramp:1k-50k/60s, and then stays) or fast
    #[arg(long, default_value = "original")]
    pub timing: Timing,
    /// Speed of the trace's clock: 2 is twice as fast; the same as --timing scaled:X
    #[arg(long, value_name = "X", value_parser = parse_speed, conflicts_with = "timing")]
    pub speed: Option<f64>,
    /// Leave out so much of the trace at its start (seconds, or with a unit)
    #[arg(long, value_name = "S")]
    pub start: Option<Span>,
    /// End after so much of the trace (seconds from its start, or with a unit)
    #[arg(long, value_name = "S")]
    pub stop: Option<Span>,
    /// Transport of all queries: as-recorded, udp, tcp, dot (DNS over TLS), doq (DNS over QUIC), doh2 or doh3 (DNS over HTTPS,
    /// HTTP/2 or 3); or shares of the clients in percent, such as udp=60,tcp=5,dot=35
    #[arg(long, default_value = "as-recorded", value_parser = parse_transport)]
    pub transport: TransportChoice,
    /// File of classes of clients: each with its share of the clients, its transport, and how it uses connections
    #[arg(long, value_name = "FILE", conflicts_with = "transport")]
    pub transport_shares: Option<PathBuf>,
    /// How clients use connections
    #[command(flatten)]
    pub connections: ConnectionArgs,
    /// Addresses of the clients: original, ports (one port each) or pool:CIDR,… [default: original where every address
    /// is local, ports elsewhere]
    #[arg(long, value_parser = parse_sources)]
    pub sources: Option<Sources>,
    /// How long an answer is waited for
    #[arg(long, value_name = "S", default_value = "5s")]
    pub query_timeout: Span,
    /// Worker threads [default: one less than there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// Pin the workers to these cores
    #[arg(long, value_name = "CORE,…", value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// CPU spent on timing: low (sleep), normal (sleep, then spin) or high (spin: a core for each worker)
    #[arg(long, default_value = "normal")]
    pub precision: Precision,
    /// Queries overdue by more than this many milliseconds are not sent, so that a stall is not followed by a flood
    #[arg(long, value_name = "MS", default_value = "1000")]
    pub max_lag: f64,
    /// Queries outstanding at once in each worker, with --timing fast
    #[arg(long, value_name = "N", default_value = "1000")]
    pub max_outstanding: usize,
    /// Allow sending to these addresses outside of this host
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub allow_target: Vec<Cidr>,
    /// Seed of every random choice
    #[arg(long, default_value = "1")]
    pub seed: u64,
    #[command(flatten)]
    pub reading: Reading,
    /// Make a namespace in which every address is local, and start this server in it (run by sh, ended with the run)
    #[arg(long, value_name = "COMMAND")]
    pub start_server: Option<String>,
    /// Record CPU time and memory of this process and its children, the server's [default: that of --start-server]
    #[arg(long, value_name = "PID")]
    pub watch_pid: Option<u32>,
    /// Serve figures of the run to Prometheus while it lasts, at http://ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,
    /// Expect this of the server, such as `answered >= 99 %`, `servfail <= 1 %` or `p99 <= 20ms`; several times for more
    #[arg(long, value_name = "EXPR")]
    pub expect: Vec<Expectation>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl Args {
    /// The classes of clients asked for.
    fn classes(&self) -> Result<Vec<ClientClass>, Failure> {
        match (&self.transport_shares, &self.transport) {
            (Some(file), _) => classes::read_file(file),
            (None, TransportChoice::Shares(classes)) => Ok(classes.clone()),
            _ => Ok(Vec::new()),
        }
    }

    /// The run directory: as given, or named after the time of this call.
    pub fn output(&self) -> PathBuf {
        let now = || TraceTime(clock::realtime_ns()).to_string().replace(':', "");
        self.output.clone().unwrap_or_else(|| PathBuf::from(format!("runs/{}", &now()[..TO_SECONDS])))
    }
}

/// `--transport`.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportChoice {
    /// Each query keeps its own; what is not available yet is not sent, and counted.
    AsRecorded,
    /// All over this one.
    All(Transport),
    /// Clients have shares of them.
    Shares(Vec<ClientClass>),
}

/// The options as meant.
pub struct Plan {
    /// The trace.
    pub inputs: Vec<Input>,
    /// How it is read.
    pub open: OpenOptions,
    /// Files of rules that change it.
    pub rules: Vec<PathBuf>,
    /// How it is planned.
    pub plan: PlanOptions,
    /// Classes of clients; empty where all are alike.
    pub classes: Vec<ClientClass>,
    /// How it is replayed.
    pub settings: Settings,
    /// Addresses outside of this host that may be sent to.
    pub allowed: Vec<Cidr>,
}

impl Plan {
    /// Makes out what the options mean on this machine.
    pub fn resolve(args: &Args) -> Result<Self, Failure> {
        let workers = workers(args)?;
        let sources = sources(args)?;
        let fast = args.timing == Timing::Fast;
        let (inputs, open) = args.reading.of(&args.trace);
        let transport = match args.transport {
            TransportChoice::AsRecorded | TransportChoice::Shares(_) => None,
            TransportChoice::All(transport) => Some(transport),
        };
        let classes = args.classes()?;
        let policy = args.connections.policy();
        let encrypted = transport.or_else(|| classes::encrypted(&classes));
        let servers = servers(&args.server, netns::has_ipv6())?;
        Ok(Self {
            inputs,
            open,
            rules: args.rules.clone(),
            plan: PlanOptions {
                timing: args.speed.map_or(args.timing, Timing::Scaled),
                start: args.start.map_or(0, Span::ns),
                stop: args.stop.map(Span::ns),
                transport,
            },
            settings: Settings {
                sources,
                tls_port: args.connections.port(Transport::Dot, transport, &servers),
                doh_port: args.connections.port(Transport::Doh3, transport, &servers),
                targets: Targets::Fixed(servers),
                workers,
                cores: args.cores.clone(),
                precision: args.precision,
                query_timeout: args.query_timeout.ns().max(1),
                max_lag: (!fast).then_some((args.max_lag * 1e6) as i64),
                fast,
                window: args.max_outstanding.max(1),
                max_sockets: max_sockets(),
                policy,
                classes: classes::policies(&classes, policy),
                tls: args.connections.tls(encrypted)?,
                doh: args.connections.doh()?,
                seed: args.seed,
            },
            classes,
            allowed: args.allow_target.clone(),
        })
    }

    /// What the run is judged by.
    pub fn limits(&self) -> VerdictLimits {
        match self.settings.precision {
            _ if self.settings.fast => VerdictLimits::FAST,
            Precision::High => VerdictLimits::HIGH,
            Precision::Normal => VerdictLimits::NORMAL,
            Precision::Low => VerdictLimits::LOW,
        }
    }

    /// The options for `run.json`.
    pub fn config(&self, args: &Args) -> RunConfig {
        let settings = &self.settings;
        let with_tls = |port: u16| settings.tls.as_ref().map(|_| port);
        let all = self.plan.transport.map_or("as-recorded", Transport::as_str);
        RunConfig {
            command_line: std::env::args().collect(),
            trace: args.trace.clone(),
            rules: args.rules.clone(),
            servers: settings.targets.named().iter().map(SocketAddr::to_string).collect(),
            timing: self.plan.timing.to_string(),
            start_s: self.plan.start as f64 / 1e9,
            stop_s: self.plan.stop.map(|stop| stop as f64 / 1e9),
            transport: if self.classes.is_empty() { all } else { "by-class" }.to_owned(),
            transport_shares: args.transport_shares.clone(),
            classes: classes::config(&self.classes, self.settings.policy),
            connections: args.connections.config(),
            tls_port: with_tls(settings.tls_port),
            doh_port: with_tls(settings.doh_port),
            sources: describe_sources(&settings.sources),
            query_timeout_s: settings.query_timeout as f64 / 1e9,
            workers: settings.workers,
            cores: settings.cores.clone(),
            precision: settings.precision.as_str().to_owned(),
            max_lag_ms: settings.max_lag.map(|lag| lag as f64 / 1e6),
            max_outstanding: settings.fast.then_some(settings.window),
            ports: self.open.ports.clone(),
            start_server: args.start_server.clone(),
            seed: settings.seed,
        }
    }

    /// How the schedule relates to the trace, where it is not the recorded one.
    pub fn speed_note(&self) -> Option<String> {
        let timing = self.plan.timing;
        (timing != Timing::ORIGINAL).then(|| timing.to_string())
    }
}

fn describe_sources(sources: &Sources) -> String {
    match sources {
        Sources::Original => "original".to_owned(),
        Sources::Ports => "ports".to_owned(),
        Sources::Pool(blocks) => {
            let blocks: Vec<String> = blocks.iter().map(Cidr::to_string).collect();
            format!("pool:{}", blocks.join(","))
        }
    }
}

fn workers(args: &Args) -> Result<usize, Failure> {
    let cores = pin::allowed_cores().map_err(Failure::environment)?;
    if let Some(core) = args.cores.iter().find(|core| !cores.contains(core)) {
        return Err(anyhow::anyhow!("--cores {core}: this process may use the cores {cores:?}").into());
    }
    let default = if args.cores.is_empty() { cores.len().saturating_sub(1).max(1) } else { args.cores.len() };
    Ok(args.workers.map_or(default, usize::from))
}

fn sources(args: &Args) -> Result<Sources, Failure> {
    let any_ip = netns::has_any_ip();
    match &args.sources {
        None if any_ip => Ok(Sources::Original),
        None => Ok(Sources::Ports),
        Some(Sources::Original) if !any_ip => Err(Failure::environment(anyhow::anyhow!(
            "--sources original: the clients' addresses are not local here; add --start-server COMMAND, or run all of \
             it in a namespace: ldplayer testbed run -- COMMAND"
        ))),
        Some(sources) => match sources.not_local() {
            Some(address) => Err(Failure::environment(anyhow::anyhow!(
                "--sources {}: {address} is not an address of this host; name addresses that it has (see `ip address`), add \
                 --start-server COMMAND, or run all of it in a namespace: ldplayer testbed run -- COMMAND",
                describe_sources(sources)
            ))),
            None => Ok(sources.clone()),
        },
    }
}

/// The servers asked. Where the kernel has no IPv6, IPv6 servers are left out, so that IPv4 is replayed still.
fn servers(given: &[SocketAddr], with_v6: bool) -> Result<Vec<SocketAddr>, Failure> {
    let servers: Vec<SocketAddr> = given.iter().copied().filter(|server| server.is_ipv4() || with_v6).collect();
    if servers.is_empty() {
        let error = "--server: this kernel has no IPv6 (ipv6.disable=1): give an IPv4 server, or boot with IPv6";
        return Err(Failure::environment(anyhow::anyhow!(error)));
    }
    Ok(servers)
}

/// How many sockets each worker may open within the limit of file descriptors, which it has for itself.
fn max_sockets() -> u32 {
    let limit = ldplayer_net::limits::raise_nofile().unwrap_or(1_024);
    u32::try_from(limit.saturating_sub(SPARE_DESCRIPTORS).max(16)).unwrap_or(u32::MAX)
}

fn parse_server(word: &str) -> Result<SocketAddr, String> {
    if let Ok(server) = word.parse() {
        return Ok(server);
    }
    let bare = word.trim_start_matches('[').trim_end_matches(']');
    let address: IpAddr = bare
        .parse()
        .map_err(|_| "give an address, with or without a port: 192.0.2.1:53 or [2001:db8::1]:53".to_owned())?;
    Ok(SocketAddr::new(address, 53))
}

fn parse_speed(word: &str) -> Result<f64, String> {
    let speed = word.parse().ok().filter(|&speed: &f64| speed > 0.0 && speed.is_finite());
    speed.ok_or_else(|| "give a number above 0, such as 2 for twice as fast".to_owned())
}

fn parse_transport(word: &str) -> Result<TransportChoice, String> {
    if word == "as-recorded" {
        return Ok(TransportChoice::AsRecorded);
    }
    if word.contains('=') {
        return classes::parse_shares(word).map(TransportChoice::Shares);
    }
    Transport::from_str(word).map(TransportChoice::All).map_err(|error| error.to_string())
}

fn parse_sources(word: &str) -> Result<Sources, String> {
    match word.split_once(':') {
        None if word == "original" => Ok(Sources::Original),
        None if word == "ports" => Ok(Sources::Ports),
        Some(("pool", blocks)) => {
            let blocks: Result<Vec<Cidr>, _> = blocks.split(',').map(Cidr::from_str).collect();
            blocks.map(Sources::Pool).map_err(|error| error.to_string())
        }
        _ => Err("use original, ports or pool:CIDR,…".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_may_omit_their_port() {
        for (word, server) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5300", "192.0.2.1:5300"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5300", "[::1]:5300"),
        ] {
            assert_eq!(parse_server(word).unwrap().to_string(), server);
        }
        assert!(parse_server("ns1.example").is_err());
    }

    #[test]
    fn without_ipv6_only_ipv4_servers_are_asked() {
        let given: Vec<SocketAddr> =
            ["192.0.2.1:53", "[2001:db8::1]:53"].map(|server| server.parse().unwrap()).to_vec();
        assert_eq!(servers(&given, true).ok(), Some(given.clone()));
        assert_eq!(servers(&given, false).ok(), Some(given[..1].to_vec()));
        assert!(servers(&given[1..], false).is_err() && servers(&given[1..], true).is_ok());
    }

    #[test]
    fn sources_are_read_and_described_alike() {
        for word in ["original", "ports", "pool:127.0.1.0/24,::1/128"] {
            assert_eq!(describe_sources(&parse_sources(word).unwrap()), word);
        }
        assert!(parse_sources("pool:").is_err() && parse_sources("spoof").is_err());
    }

    #[test]
    fn a_transport_is_one_that_exists() {
        for transport in Transport::ALL {
            assert_eq!(parse_transport(transport.as_str()), Ok(TransportChoice::All(transport)));
        }
        assert!(parse_transport("sctp").unwrap_err().contains("sctp"));
    }
}
