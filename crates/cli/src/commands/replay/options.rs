//! The options of a replay as typed, laid over a specification.

use std::net::SocketAddr;
use std::path::PathBuf;

use ldplayer_core::time::Span;
use ldplayer_core::{Cidr, IgnoreRule, TraceTime};
use ldplayer_net::clock;
use ldplayer_net::pace::Precision;
use ldplayer_replay::{DohMethod, Mapping, Sources};
use ldplayer_results::Expectation;
use ldplayer_run::{RunSpec, Server, TransportChoice, read_spec};
use ldplayer_trace::Role;
use ldplayer_workload::{Passes, Timing};

use super::cluster::ClusterArgs;
use super::policy::PolicyArgs;
use crate::failure::Failure;

/// Characters of a time without colons, such as `2026-01-31T235959`.
const TO_SECONDS: usize = 17;

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
    ldplayer replay capture.pcap.xz --server 127.0.0.1:5300 --transport tcp --idle-timeout 10s -o runs/tcp

  Write down what a run is, and make it from there; or make an earlier run once more, over TLS:
    ldplayer replay capture.pcap.xz --server 127.0.0.1:5300 --print-spec >run.toml
    ldplayer replay --spec run.toml
    ldplayer replay --again runs/first --transport dot --tls-insecure")]
pub struct Args {
    /// Trace to replay: pcap, pcapng, dnstap, C-DNS, Parquet, TSV or dnsperf text, compressed or not; `-` is standard input
    pub trace: Vec<String>,
    /// Server to ask: an address or a name, with or without a port; several times for one of each address family, or for
    /// several, of which each client keeps one; recorded asks the server that each query was recorded for
    #[arg(long, value_delimiter = ',')]
    pub server: Vec<Server>,
    /// With --server recorded: asks another server in the place of a recorded one, each with or without a port
    #[arg(long, value_name = "OLD=NEW", value_delimiter = ',')]
    pub map: Vec<Mapping>,
    /// Specification of the run in TOML; options win over it
    #[arg(long, value_name = "FILE", conflicts_with = "again")]
    pub spec: Option<PathBuf>,
    /// Make the run that this run directory describes once more; options win over it
    #[arg(long, value_name = "RUN")]
    pub again: Option<PathBuf>,
    /// Print the specification of the run in TOML, and make none
    #[arg(long)]
    pub print_spec: bool,
    /// Rules that change the queries on their way, as `ldplayer mutate` applies them
    #[arg(long, value_name = "FILE")]
    pub rules: Vec<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Go on with the run on agents in this run directory, whose controller ended before its time
    #[arg(long, value_name = "RUN", requires = "nats", conflicts_with_all = ["trace", "spec", "again", "output", "agents"])]
    pub resume: Option<PathBuf>,
    /// Run directory to write [default: runs/ and the time of day]
    #[arg(short, long, value_name = "RUN")]
    pub output: Option<PathBuf>,
    /// Replace the run in the directory, if there is one
    #[arg(long)]
    pub force: bool,
    /// When queries are sent: original, scaled:X (X times as fast), rate:QPS (at even gaps), poisson:QPS (at random gaps),
    /// ramp:FROM-TO/DURATION (at a rate that changes steadily, as in ramp:1k-50k/60s, and then stays) or fast [default:
    /// original]
    #[arg(long)]
    pub timing: Option<Timing>,
    /// Speed of the trace's clock: 2 is twice as fast; the same as --timing scaled:X
    #[arg(long, value_name = "X", value_parser = parse_speed, conflicts_with = "timing")]
    pub speed: Option<f64>,
    /// Leave out this much of the trace at its start (seconds, or with a unit)
    #[arg(long, value_name = "DURATION")]
    pub start: Option<Span>,
    /// End after this much of the trace (seconds from its start, or with a unit)
    #[arg(long, value_name = "DURATION")]
    pub stop: Option<Span>,
    /// Go through the trace so often (a number, or forever), one pass behind the other [default: 1]
    #[arg(long = "loop", value_name = "N")]
    pub passes: Option<Passes>,
    /// End the run after so long, by the clock of the wall (seconds, or with a unit)
    #[arg(long = "for", value_name = "DURATION")]
    pub duration: Option<Span>,
    /// Send the queries of so many clients only: those of the trace that ask first [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub clients: Option<u64>,
    /// Transport of all queries: as-recorded, udp, tcp, dot (DNS over TLS), doq (DNS over QUIC), doh2 or doh3 (DNS over HTTPS,
    /// HTTP/2 or 3); or shares of the clients in percent, such as udp=60,tcp=5,dot=35 [default: as-recorded]
    #[arg(long)]
    pub transport: Option<TransportChoice>,
    /// File of classes of clients: each with its share of the clients, its transport, and how it uses connections
    #[arg(long, value_name = "FILE", conflicts_with = "transport")]
    pub transport_shares: Option<PathBuf>,
    /// Addresses of the clients: original, ports (one port each) or pool:CIDR,… [default: original where every address
    /// is local, ports elsewhere]
    #[arg(long)]
    pub sources: Option<Sources>,
    /// Query timeout [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub query_timeout: Option<Span>,
    /// Worker threads [default: one less than there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// Pin the workers to these cores
    #[arg(long, value_name = "CORE,…", value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// CPU spent on timing: low (sleep), normal (sleep, then spin) or high (spin: a core for each worker) [default: normal]
    #[arg(long)]
    pub precision: Option<Precision>,
    /// Queries overdue by more than this many milliseconds are not sent, so that a stall is not followed by a flood [default:
    /// 1000]
    #[arg(long, value_name = "MS")]
    pub max_lag: Option<f64>,
    /// Maximum in-flight queries of each worker, with --timing fast [default: 1000]
    #[arg(long, value_name = "N")]
    pub max_outstanding: Option<usize>,
    /// Record when the kernel sent each query over UDP (`sent_ns` of the rows)
    #[arg(long)]
    pub stamp_sends: bool,
    /// Record in how many TCP segments each response came, and how many segments were sent again (`segments` and `retransmits` of
    /// the rows)
    #[arg(long)]
    pub count_segments: bool,
    /// Allow sending to these addresses outside of this host
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub allow_target: Vec<Cidr>,
    /// Seed of every random choice [default: 1]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Port that carries DNS in captures; may be given several times [default: 53]
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub port: Vec<u16>,
    /// Take only messages of these roles from dnstap and C-DNS: auth, resolver, client, forwarder, stub, tool or update
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    pub role: Vec<Role>,
    /// Make a namespace in which every address is local, and start this server in it (run by sh, ended with the run)
    #[arg(long, value_name = "COMMAND")]
    pub start_server: Option<String>,
    /// Record what this process and its children use, the server's: processor time, memory, sockets, losses [default: that of --start-server]
    #[arg(long, value_name = "PID")]
    pub watch_pid: Option<u32>,
    /// Record all processes of this systemd unit instead
    #[arg(long, value_name = "NAME", conflicts_with = "watch_pid")]
    pub watch_unit: Option<String>,
    /// How often to take telemetry, 100ms to 1s [default: 500ms]
    #[arg(long, value_name = "DURATION")]
    pub telemetry_interval: Option<Span>,
    /// Serve figures of the run to Prometheus while it lasts, at http://ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,
    /// Expect this of the server, such as `answered >= 99 %`, `servfail <= 1 %` or `p99 <= 20ms`; several times for more
    #[arg(long, value_name = "EXPR")]
    pub expect: Vec<Expectation>,
    /// Compare each answer with the one recorded in the trace (recorded), or with that of another server that is asked the same at the
    /// same time, by response code, flags and the sets of records; what disagrees is asked for again after the run, and left in
    /// RUN/disagreements.parquet
    #[arg(long, value_name = "recorded|ADDR")]
    pub compare_answers: Option<Server>,
    /// Leave this out of the comparison: aa, tc, ra, ad, answer, authority, additional, or records such as `type == SOA` or
    /// `section == authority and name under example.org`; several times for more
    #[arg(long, value_name = "RULE")]
    pub compare_ignore: Vec<IgnoreRule>,
    /// Keep what the server said in RUN/responses.parquet, a trace that can be inspected, replayed and built into zones
    #[arg(long)]
    pub keep_responses: bool,
    /// Print run.json instead of the report
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors: no progress, no report
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
    /// How clients use connections; last, since its heading holds for all options behind it
    #[command(flatten)]
    pub connections: ConnectionArgs,
}

/// How clients use connections, and how they use TLS and HTTPS.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Connections")]
pub struct ConnectionArgs {
    /// The connection policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Trust servers whose certificate leads to one in this PEM file, or is in it [default: those that the system trusts]
    #[arg(long, value_name = "FILE", conflicts_with = "tls_insecure")]
    pub tls_ca: Option<PathBuf>,
    /// Trust any server, whatever its certificate
    #[arg(long)]
    pub tls_insecure: bool,
    /// Name that the server is asked for and its certificate must have [default: the address asked]
    #[arg(long, value_name = "NAME")]
    pub tls_name: Option<String>,
    /// Port of the servers for DNS over TLS, QUIC and HTTPS [default: that of --server with --transport dot, doq, doh2 or doh3,
    /// unless it is 53; else 853, and 443 over HTTPS]
    #[arg(long, value_name = "PORT")]
    pub tls_port: Option<u16>,
    /// Port of the servers for DNS over HTTPS, where it is another one than --tls-port
    #[arg(long, value_name = "PORT")]
    pub doh_port: Option<u16>,
    /// How queries are put into HTTPS requests: as their body (post) or in their target (get) [default: post]
    #[arg(long, value_name = "post|get")]
    pub doh_method: Option<DohMethod>,
    /// Path of HTTPS requests [default: /dns-query]
    #[arg(long, value_name = "PATH")]
    pub doh_path: Option<String>,
}

/// Lays options that were given over the keys of a specification that have a default …
macro_rules! give {
    ($from:expr => $onto:expr; $($field:ident),*) => { $(if let Some(value) = $from.$field.clone() { $onto.$field = value; })* };
}
/// … over those that need not be there …
macro_rules! give_some {
    ($from:expr => $onto:expr; $($field:ident),*) => { $(if $from.$field.is_some() { $onto.$field.clone_from(&$from.$field); })* };
}
/// … and over lists.
macro_rules! give_all {
    ($from:expr => $onto:expr; $($field:ident),*) => { $(if !$from.$field.is_empty() { $onto.$field.clone_from(&$from.$field); })* };
}

impl Args {
    /// The specification that the options make, over that of a file or of an earlier run where one is given.
    pub fn spec(&self) -> Result<RunSpec, Failure> {
        let mut spec = self.base()?;
        give_all!(self => spec; trace, server, map, cores, allow_target, port, role, expect, compare_ignore);
        give!(self => spec; timing, transport, query_timeout, precision, max_lag, max_outstanding, telemetry_interval, seed);
        give_some!(self => spec; start, stop, passes, duration, clients, sources, workers, start_server, metrics, compare_answers);
        if !self.rules.is_empty() {
            spec.rules = self.rules.iter().cloned().map(Into::into).collect();
        }
        if self.timing.is_some() || self.speed.is_some() {
            spec.speed = self.speed;
        }
        if self.transport.is_some() {
            (spec.transport_shares, spec.class) = (None, Vec::new());
        }
        if self.transport_shares.is_some() {
            (spec.transport, spec.class) = (TransportChoice::AsRecorded, Vec::new());
            spec.transport_shares.clone_from(&self.transport_shares);
        }
        if self.watch_pid.is_some() || self.watch_unit.is_some() {
            (spec.watch_pid, spec.watch_unit) = (self.watch_pid, self.watch_unit.clone());
        }
        spec.stamp_sends |= self.stamp_sends;
        spec.count_segments |= self.count_segments;
        spec.keep_responses |= self.keep_responses;
        self.connections.lay_over(&mut spec);
        Ok(spec)
    }

    fn base(&self) -> Result<RunSpec, Failure> {
        if let Some(run) = &self.again {
            return Ok(read_spec(run)?);
        }
        let Some(file) = &self.spec else { return Ok(RunSpec::default()) };
        let failed = |error: &dyn std::fmt::Display| anyhow::anyhow!("--spec {}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
        RunSpec::parse(&text).map_err(|error| failed(&error).into())
    }

    /// The run directory: as given, or named after the time of this call.
    pub fn output(&self) -> PathBuf {
        let now = || TraceTime(clock::realtime_ns()).to_string().replace(':', "");
        self.output.clone().unwrap_or_else(|| PathBuf::from(format!("runs/{}", &now()[..TO_SECONDS])))
    }
}

impl ConnectionArgs {
    fn lay_over(&self, spec: &mut RunSpec) {
        spec.policy = self.policy.0.or(spec.policy);
        give_some!(self => spec; tls_name, tls_port, doh_port);
        give!(self => spec; doh_method, doh_path);
        if self.tls_insecure || self.tls_ca.is_some() {
            spec.tls_insecure = self.tls_insecure;
            spec.tls_ca.clone_from(&self.tls_ca);
        }
    }
}

/// Reads a speed of the trace's clock.
pub fn parse_speed(word: &str) -> Result<f64, String> {
    let speed = word.parse().ok().filter(|&speed: &f64| speed > 0.0 && speed.is_finite());
    speed.ok_or_else(|| "give a number above 0, such as 2 for twice as fast".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};
    use ldplayer_core::Transport;
    use ldplayer_core::policy::KEYS;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: Args,
    }

    fn spec(words: &str) -> RunSpec {
        let words = ["replay"].into_iter().chain(words.split_whitespace());
        Typed::parse_from(words).args.spec().map_err(|_| "no specification").unwrap()
    }

    /// Every key of a specification is an option of this command, or an argument, but for the version and classes in place.
    #[test]
    fn every_key_of_a_specification_is_an_option() {
        let command = Typed::command();
        let options: Vec<String> =
            command.get_arguments().filter_map(|option| option.get_long().map(|long| long.replace('-', "_"))).collect();
        for key in RunSpec::keys() {
            let is_argument = ["version", "trace", "class"].contains(&key.as_str());
            assert!(is_argument || options.contains(&key), "{key}");
        }
        let help = Typed::command().render_long_help().to_string();
        for key in KEYS {
            assert!(help.contains(&format!("--{} <{}>", key.option(), key.kind.placeholder())), "{}", key.name);
        }
    }

    #[test]
    fn options_make_the_specification_that_a_file_would() {
        let typed = spec(
            "a.pcap --server 127.0.0.1:5300 --server localhost --map 192.0.2.1=::1 --rules do.toml --timing rate:100 --start 1 --stop 2s --loop 3 --for 9s --clients 4 \
             --transport dot --sources ports --query-timeout 2s --workers 2 --cores 0,1 --precision low --max-lag 5 \
             --max-outstanding 9 --stamp-sends --count-segments --allow-target 192.0.2.0/24 --seed 3 --port 53,5353 --role client --watch-pid 7 --telemetry-interval 200ms \
             --compare-answers recorded --compare-ignore ad --compare-ignore additional --keep-responses \
             --tls-insecure --tls-name a.example --tls-port 8853 --doh-method get --doh-path /q --nagle on --pipeline 3",
        );
        let file = "trace = 'a.pcap'\nserver = ['127.0.0.1:5300', 'localhost']\nmap = '192.0.2.1=::1'\nrules = 'do.toml'\ntiming = 'rate:100'\n\
            start = 1\nstop = '2s'\nloop = 3\nfor = '9s'\nclients = 4\ntransport = 'dot'\nsources = 'ports'\nquery_timeout = 2\nworkers = 2\ncores = [0, 1]\n\
            precision = 'low'\nmax_lag = 5\nmax_outstanding = 9\nstamp_sends = true\ncount_segments = true\nallow_target = '192.0.2.0/24'\nseed = 3\n\
            port = [53, 5353]\nrole = 'client'\nwatch_pid = 7\ntelemetry_interval = 0.2\n\
            compare_answers = 'recorded'\ncompare_ignore = ['ad', 'additional']\nkeep_responses = true\ntls_insecure = true\ntls_name = 'a.example'\n\
            tls_port = 8853\ndoh_method = 'get'\ndoh_path = '/q'\nnagle = true\npipeline = 3";
        assert_eq!(typed, RunSpec::parse(file).unwrap());
        assert_eq!(spec("a.pcap --speed 2").timing(), Timing::Scaled(2.0));
    }

    #[test]
    fn options_win_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.toml");
        let text = "trace = 'a.pcap'\nserver = '127.0.0.1'\nspeed = 3\ntransport = 'udp=50,tcp=50'\nseed = 9\n\
            tls_ca = 'a.pem'\nidle_timeout = '1s'\nnagle = true";
        std::fs::write(&file, text).unwrap();
        let with = |words: &str| spec(&format!("--spec {} {words}", file.display()));
        assert_eq!(with(""), RunSpec::parse(text).unwrap());
        let other = with("b.pcap --timing fast --transport tcp --tls-insecure --idle-timeout 2s");
        assert_eq!((other.trace.as_slice(), other.seed), (&["b.pcap".to_owned()][..], 9));
        assert_eq!((other.timing(), other.transport), (Timing::Fast, TransportChoice::All(Transport::Tcp)));
        assert_eq!((other.tls_ca, other.tls_insecure), (None, true));
        assert_eq!((other.policy.idle_timeout, other.policy.nagle), (Some(2_000_000_000), Some(true)));
    }
}
