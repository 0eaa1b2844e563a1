//! The options of a replay as typed, laid over a specification.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ldplayer_core::size::Size;
use ldplayer_core::time::Span;
use ldplayer_core::{Cidr, IgnoreRule, TraceTime};
use ldplayer_net::clock;
use ldplayer_net::pace::Precision;
use ldplayer_replay::{DohMethod, Mapping, PathChoice, Sources};
use ldplayer_results::Expectation;
use ldplayer_run::{Lag, RunSpec, Server, TransportChoice, read_spec};
use ldplayer_trace::Role;
use ldplayer_workload::{Passes, Qps, Timing};

use super::Printed;
use super::cluster::ClusterArgs;
use super::policy::PolicyArgs;
use super::progress::Show;
use crate::failure::Failure;

/// Characters of a time without colons, such as `2026-01-31T235959`.
const TO_SECONDS: usize = 17;
/// The heading of options about encryption.
const TLS: &str = "TLS and HTTPS";

/// Replay a trace against a server, each query at its own time and from its own client
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "\
Examples:
  ldplayer replay capture.pcap.xz --server 127.0.0.1:5300
  ldplayer replay names.txt --server ::1 --rate 20k --for 30s --clients 100

`ldplayer replay --help` lists every option.",
    after_long_help = "\
Examples:
  Replay a capture against a server on this host, each client from a port of its own:
    ldplayer replay capture.pcap.xz --server 127.0.0.1:5300 -o runs/first

  A list of queries (names and types) at 20,000 queries/s for 30 seconds, from 100 clients:
    ldplayer replay names.txt --server 127.0.0.1:5300 \\
      --rate 20k --for 30s --clients 100

  With every client's own address, in a namespace that ldplayer makes for the server, too:
    ldplayer replay capture.pcap.xz --server 127.0.0.1 \\
      --start-server 'nsd -d -c nsd.conf'

  What if all of it were TCP, with connections that clients close after 10 idle seconds:
    ldplayer replay capture.pcap.xz --server 127.0.0.1:5300 \\
      --transport tcp --idle-timeout 10s

  Write down what a run is, and make it from there; or repeat an earlier run over TLS:
    ldplayer replay capture.pcap.xz --server 127.0.0.1:5300 \\
      --print-spec >run.toml
    ldplayer replay --spec run.toml
    ldplayer replay --again runs/first --transport dot --tls-insecure

Exit status: 0 both verdicts are fine, 1 one of them failed, 2 bad usage or input, 3 the
environment cannot do it, 130 interrupted (what was measured is complete)."
)]
pub struct Args {
    /// Trace to replay, or a list of queries; `-` is standard input
    ///
    /// pcap, pcapng, dnstap, C-DNS, Parquet, TSV or dnsperf text, compressed or not; several are merged by time. A list of
    /// queries (dnsperf text) has neither times nor clients: give --rate and --clients.
    pub trace: Vec<String>,

    /// Server to ask: an address or a name, with or without a port
    ///
    /// Give it several times for one server of each address family, or for several servers, of which each client keeps one.
    /// `recorded` asks the server that each query was recorded for.
    #[arg(long, value_delimiter = ',', help_heading = "Target")]
    pub server: Vec<Server>,
    /// With --server recorded: ask another server in place of a recorded one
    ///
    /// Both with or without a port.
    #[arg(long, value_name = "OLD=NEW", value_delimiter = ',', help_heading = "Target", hide_short_help = true)]
    pub map: Vec<Mapping>,
    /// Allow sending to these addresses of other hosts
    ///
    /// Loopback addresses and namespaces of ldplayer's own need no permission. Permission is of this call
    /// only: that of a file (--spec) or an earlier run (--again) does not count.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = "Target")]
    pub allow_target: Vec<Cidr>,
    /// Start this server first, where every address is local
    ///
    /// In a namespace that ldplayer makes. The command is run by sh, and ended with the run.
    #[arg(long, value_name = "COMMAND", help_heading = "Target")]
    pub start_server: Option<String>,
    /// Record what this process and its children use
    ///
    /// Processor time, memory, sockets and losses of the server [default: those of --start-server].
    #[arg(long, value_name = "PID", help_heading = "Target", hide_short_help = true)]
    pub watch_pid: Option<u32>,
    /// Record what the processes of this systemd unit use
    #[arg(long, value_name = "NAME", conflicts_with = "watch_pid", help_heading = "Target", hide_short_help = true)]
    pub watch_unit: Option<String>,
    /// Expect this of the server: `answered >= 99 %`, `p99 <= 20ms`, …
    ///
    /// `servfail <= 1 %`, `match >= 99.9 %` and so on; several times for several expectations. One that does not hold fails the run (exit status 1).
    #[arg(long, value_name = "EXPR", help_heading = "Target")]
    pub expect: Vec<Expectation>,

    /// The first N clients of a trace, or N clients for a list of queries
    ///
    /// The queries of a list are dealt to them in turn.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Clients")]
    pub clients: Option<u64>,
    /// udp, tcp, dot, doh2 (or doh), doh3, doq, or shares such as udp=60,dot=40
    ///
    /// dot is DNS over TLS, doh2 and doh3 are DNS over HTTPS (HTTP/2 and HTTP/3), doq is DNS over QUIC. Shares are of the clients, in
    /// percent [default: as-recorded, the transport of each query in the trace].
    #[arg(long, help_heading = "Clients")]
    pub transport: Option<TransportChoice>,
    /// File with classes of clients: share, transport and connection policy of each
    #[arg(long, value_name = "FILE", conflicts_with = "transport", help_heading = "Clients", hide_short_help = true)]
    pub transport_shares: Option<PathBuf>,
    /// original, ports (a port for each client) or pool:CIDR,…
    ///
    /// Where the clients' addresses come from [default: original where every address is local, as in a testbed, and ports
    /// elsewhere].
    #[arg(long, help_heading = "Clients")]
    pub sources: Option<Sources>,
    /// sockets, packets (frames made by ldplayer), packets:xdp, or auto
    ///
    /// How packets of clients reach the network. packets needs no socket for a client: ldplayer makes the frames of all clients, each from its
    /// own address, and opens their TCP connections itself; packets:xdp sends them by AF_XDP. Either needs a namespace made
    /// for that, by --start-server or by `ldplayer testbed run --packets`, or an --interface [default: auto, which is packets in such a
    /// namespace, and sockets elsewhere].
    #[arg(long, value_name = "PATH", help_heading = "Clients", hide_short_help = true)]
    pub path: Option<PathChoice>,
    /// With --path packets: send and receive frames on this interface
    ///
    /// An Ethernet interface of this host, which takes the right to open packet sockets (CAP_NET_RAW); a VLAN is an interface of its own, such
    /// as eth0.5. Clients with --sources pool:CIDR,… are found on the link by their addresses, which no host may have; with original, the route
    /// back to the clients must lead to this interface.
    #[arg(long, value_name = "NAME", help_heading = "Clients", hide_short_help = true)]
    pub interface: Option<String>,
    /// With --interface: router that leads to the servers, one for each family
    ///
    /// [default: the servers themselves are on the link]
    #[arg(
        long,
        value_name = "ADDR",
        value_delimiter = ',',
        requires = "interface",
        help_heading = "Clients",
        hide_short_help = true
    )]
    pub next_hop: Vec<IpAddr>,
    /// With --path packets: round-trip time of each client: 20ms, normal:20ms,5ms, lognormal:20ms,0.5 …
    ///
    /// Also uniform:10ms,30ms, pareto:10ms,2, or FILE.csv with lines `prefix,ms`. The sender itself holds frames back for half of it in each
    /// direction, without a host between; for sockets, `ldplayer testbed up --rtt` does.
    #[arg(long, value_name = "SPEC", help_heading = "Clients", hide_short_help = true)]
    pub rtt: Option<String>,
    /// … jitter of that: 2ms, or a distribution; `,reorder` lets packets overtake each other
    #[arg(long, value_name = "SPEC", help_heading = "Clients", hide_short_help = true)]
    pub jitter: Option<String>,
    /// … packet loss in each direction: 1%, or ge:P,R for bursts (Gilbert-Elliott)
    #[arg(long, value_name = "P", help_heading = "Clients", hide_short_help = true)]
    pub loss: Option<String>,
    /// … bandwidth of each client in each direction: 10Mbit, or with the length of its queue: 10Mbit,50ms
    #[arg(long, value_name = "SPEC", help_heading = "Clients", hide_short_help = true)]
    pub bandwidth: Option<String>,
    /// Rules that change the queries on their way, as `ldplayer mutate` applies them
    #[arg(long, value_name = "FILE", help_heading = "Clients", hide_short_help = true)]
    pub rules: Vec<PathBuf>,

    /// Send this many queries per second, at even gaps: 500, 20k, 1.5M
    ///
    /// The same as --timing rate:QPS.
    #[arg(long, value_name = "QPS", conflicts_with_all = ["timing", "speed"], help_heading = "Timing")]
    pub rate: Option<Qps>,
    /// Speed of the trace's clock: 2 is twice as fast
    ///
    /// The same as --timing scaled:X.
    #[arg(long, value_name = "X", value_parser = parse_speed, conflicts_with = "timing", help_heading = "Timing")]
    pub speed: Option<f64>,
    /// original, scaled:X, rate:QPS, poisson:QPS, ramp:FROM-TO/TIME or fast
    ///
    /// When queries are sent. scaled:X is X times as fast as recorded; rate:QPS sends at even gaps, poisson:QPS at random ones; ramp:1k-50k/60s raises
    /// the rate steadily within a minute and keeps the last one; fast sends as soon as an in-flight query is answered [default:
    /// original].
    #[arg(long, help_heading = "Timing")]
    pub timing: Option<Timing>,
    /// End the run after this time
    ///
    /// Seconds, or with a unit (500ms, 5m). A list of queries is repeated until then, unless --loop says how often. With --timing
    /// fast the clock ends the sending.
    #[arg(long = "for", value_name = "DURATION", help_heading = "Timing")]
    pub duration: Option<Span>,
    /// Replay the trace N times, or forever
    ///
    /// Each pass begins a mean gap after the end of the one before [default: 1].
    #[arg(long = "loop", value_name = "N|forever", help_heading = "Timing")]
    pub passes: Option<Passes>,
    /// Skip this much of the trace at its start (seconds, or with a unit)
    #[arg(long, value_name = "DURATION", help_heading = "Timing", hide_short_help = true)]
    pub start: Option<Span>,
    /// Stop at this time of the trace, counted from its start
    #[arg(long, value_name = "DURATION", help_heading = "Timing", hide_short_help = true)]
    pub stop: Option<Span>,
    /// Processor time spent on precision: low, normal or high
    ///
    /// low sleeps, normal sleeps and then spins for some microseconds, high spins: it takes a core for each worker [default:
    /// normal].
    #[arg(long, help_heading = "Timing", hide_short_help = true)]
    pub precision: Option<Precision>,
    /// Do not send queries that are overdue by more than this
    ///
    /// So that no flood follows a stall. Milliseconds, or with a unit [default: 1s].
    #[arg(long, value_name = "MS", help_heading = "Timing", hide_short_help = true)]
    pub max_lag: Option<Lag>,
    /// With --timing fast: in-flight queries per worker [default: 1000]
    #[arg(long, value_name = "N", help_heading = "Timing", hide_short_help = true)]
    pub max_outstanding: Option<usize>,

    /// Give up on an answer after this time [default: 5s]
    #[arg(long, value_name = "DURATION", help_heading = "Connections")]
    pub query_timeout: Option<Span>,
    #[command(flatten)]
    pub connections: ConnectionArgs,

    /// Run directory [default: runs/ and the time of day]
    #[arg(short, long, value_name = "RUN", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace the run in that directory
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// Compare each answer with the recorded one, or with that of another server
    ///
    /// `recorded`, or the address of a server that is asked the same at the same time. Response codes, flags and record sets are
    /// compared. What disagrees is asked again after the run, and kept in RUN/disagreements.parquet.
    #[arg(long, value_name = "recorded|ADDR", help_heading = "Output", hide_short_help = true)]
    pub compare_answers: Option<Server>,
    /// Leave this out of the comparison: aa, ad, additional, `type == SOA`, …
    ///
    /// aa, tc, ra, ad, answer, authority, additional, or records such as `type == SOA` or `section == authority and name under
    /// example.org`; several times for several.
    #[arg(long, value_name = "RULE", help_heading = "Output", hide_short_help = true)]
    pub compare_ignore: Vec<IgnoreRule>,
    /// Keep the responses in RUN/responses.parquet, a trace of its own
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub keep_responses: bool,
    /// Serve figures of the run to Prometheus while it lasts, at http://ADDR/metrics
    #[arg(long, value_name = "ADDR", help_heading = "Output", hide_short_help = true)]
    pub metrics: Option<SocketAddr>,
    /// Print run.json in place of the report
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Progress on standard error: auto, plain or off
    ///
    /// auto shows a live line on a terminal, and elsewhere, as plain does, a line every ten seconds.
    #[arg(long, value_name = "HOW", default_value = "auto", hide_default_value = true, hide_possible_values = true)]
    #[arg(help_heading = "Output", hide_short_help = true)]
    pub progress: Show,
    /// Print errors only: no progress, no report
    #[arg(short, long, conflicts_with = "json", help_heading = "Output")]
    pub quiet: bool,

    /// Read the run from this file (TOML); options override it
    #[arg(long, value_name = "FILE", conflicts_with = "again", help_heading = "Advanced", hide_short_help = true)]
    pub spec: Option<PathBuf>,
    /// Repeat the run of this run directory; options override it
    #[arg(long, value_name = "RUN", help_heading = "Advanced", hide_short_help = true)]
    pub again: Option<PathBuf>,
    /// Start the command of the run that --again repeats, though it is not this user's of this host
    #[arg(long, requires = "again", help_heading = "Advanced", hide_short_help = true)]
    pub allow_command: bool,
    /// Do not ask each server one question before the run
    ///
    /// Without it, each server is asked the first query of the run over each transport, and what is wrong there is said in one line: nothing
    /// listens, REFUSED, no TLS, a certificate that is not trusted. It is no query of the run. Nothing is asked with --path packets, --nats or --quiet.
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    pub no_probe: bool,
    /// Print the run as a file for --spec, and send nothing
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    pub print_spec: bool,
    /// Worker threads [default: one less than there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Advanced")]
    #[arg(hide_short_help = true)]
    pub workers: Option<u16>,
    /// Pin the workers to these cores
    #[arg(long, value_name = "CORE,…", value_delimiter = ',', help_heading = "Advanced", hide_short_help = true)]
    pub cores: Vec<usize>,
    /// Seed of every random choice [default: 1]
    #[arg(long, value_name = "N", help_heading = "Advanced", hide_short_help = true)]
    pub seed: Option<u64>,
    /// Record when the kernel sent each query over UDP (`sent_ns` of the rows)
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    pub stamp_sends: bool,
    /// Record the TCP segments of each response, and those sent again
    ///
    /// `segments` and `retransmits` of the rows.
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    pub count_segments: bool,
    /// Interval of telemetry, 100ms to 1s [default: 500ms]
    #[arg(long, value_name = "DURATION", help_heading = "Advanced", hide_short_help = true)]
    pub telemetry_interval: Option<Span>,
    /// Port that carries DNS in captures; several times for several ports [default: 53]
    #[arg(long, value_name = "PORT", value_delimiter = ',', help_heading = "Advanced")]
    #[arg(hide_short_help = true)]
    pub capture_port: Vec<u16>,
    /// Roles to take from dnstap and C-DNS: auth, resolver, client, forwarder, stub, tool, update
    #[arg(long, value_name = "ROLE", value_delimiter = ',', help_heading = "Advanced", hide_short_help = true)]
    pub role: Vec<Role>,
    /// Leave out datagrams that a capture has twice: of two interfaces, VLANs, or directions of a mirror
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    pub drop_duplicates: bool,
    /// Refuse a trace of more than SIZE, decompressed, such as 10GB [default: no limit]
    #[arg(long, value_name = "SIZE", help_heading = "Advanced", hide_short_help = true)]
    pub max_input: Option<Size>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Go on with the run in this run directory, whose controller has ended
    #[arg(long, value_name = "RUN", conflicts_with_all = ["trace", "spec", "again", "output", "agents"])]
    #[arg(help_heading = "Several hosts", hide_short_help = true)]
    pub resume: Option<PathBuf>,
}

/// How clients use connections, and how they use TLS and HTTPS.
#[derive(clap::Args, Clone, Debug)]
pub struct ConnectionArgs {
    /// The connection policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Trust the certificates in this PEM file [default: the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "tls_insecure", help_heading = TLS)]
    pub tls_ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long, help_heading = TLS)]
    pub tls_insecure: bool,
    /// Name in the server's certificate, which the server is asked for [default: its address]
    #[arg(long, value_name = "NAME", help_heading = TLS, hide_short_help = true)]
    pub tls_name: Option<String>,
    /// Port for DNS over TLS, QUIC and HTTPS [default: 853, and 443 over HTTPS]
    ///
    /// Where all queries go over one of them (--transport dot, doq, doh2 or doh3), a port of --server other than 53 is taken.
    #[arg(long, value_name = "PORT", help_heading = TLS, hide_short_help = true)]
    pub tls_port: Option<u16>,
    /// Port for DNS over HTTPS, if it differs from --tls-port
    #[arg(long, value_name = "PORT", help_heading = TLS, hide_short_help = true)]
    pub doh_port: Option<u16>,
    /// HTTP method: post or get [default: post]
    #[arg(long, value_name = "post|get", help_heading = TLS, hide_short_help = true)]
    pub doh_method: Option<DohMethod>,
    /// Path of HTTPS requests [default: /dns-query]
    #[arg(long, value_name = "PATH", help_heading = TLS, hide_short_help = true)]
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
        // Permission is this call's: a file or a run may be of somebody else.
        spec.allow_target.clone_from(&self.allow_target);
        give_all!(self => spec; trace, server, map, next_hop, cores, capture_port, role, expect, compare_ignore);
        give!(self => spec; timing, transport, path, query_timeout, precision, max_lag, max_outstanding, telemetry_interval, seed);
        give_some!(self => spec; start, stop, passes, duration, clients, sources, interface, rtt, jitter, loss, bandwidth, workers, start_server, metrics, compare_answers);
        if !self.rules.is_empty() {
            spec.rules = self.rules.iter().cloned().map(Into::into).collect();
        }
        if self.timing.is_some() || self.speed.is_some() || self.rate.is_some() {
            (spec.speed, spec.rate) = (self.speed, self.rate);
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
        spec.drop_duplicates |= self.drop_duplicates;
        spec.max_input = self.max_input.or(spec.max_input);
        self.connections.lay_over(&mut spec);
        Ok(spec)
    }

    /// What is printed when the run has ended.
    pub const fn printed(&self) -> Printed {
        match (self.quiet, self.json) {
            (true, _) => Printed::Nothing,
            (false, true) => Printed::Json,
            (false, false) => Printed::Report,
        }
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
             --transport dot --sources ports --path packets --interface eth0 --next-hop 192.0.2.1,fe80::1 --rtt normal:20ms,5ms --jitter 2ms --loss 1% --bandwidth 10Mbit --query-timeout 2s --workers 2 --cores 0,1 --precision low --max-lag 5 \
             --max-outstanding 9 --stamp-sends --count-segments --allow-target 192.0.2.0/24 --seed 3 --capture-port 53,5353 --role client --watch-pid 7 --telemetry-interval 200ms \
             --compare-answers recorded --compare-ignore ad --compare-ignore additional --keep-responses --drop-duplicates --max-input 9GB \
             --tls-insecure --tls-name a.example --tls-port 8853 --doh-method get --doh-path /q --nagle on --pipeline 3",
        );
        let file = "trace = 'a.pcap'\nserver = ['127.0.0.1:5300', 'localhost']\nmap = '192.0.2.1=::1'\nrules = 'do.toml'\ntiming = 'rate:100'\n\
            start = 1\nstop = '2s'\nloop = 3\nfor = '9s'\nclients = 4\ntransport = 'dot'\nsources = 'ports'\npath = 'packets'\ninterface = 'eth0'\nnext_hop = ['192.0.2.1', 'fe80::1']\nrtt = 'normal:20ms,5ms'\njitter = '2ms'\nloss = '1%'\nbandwidth = '10Mbit'\nquery_timeout = 2\nworkers = 2\ncores = [0, 1]\n\
            precision = 'low'\nmax_lag = 5\nmax_outstanding = 9\nstamp_sends = true\ncount_segments = true\nallow_target = '192.0.2.0/24'\nseed = 3\n\
            capture_port = [53, 5353]\nrole = 'client'\nwatch_pid = 7\ntelemetry_interval = 0.2\n\
            compare_answers = 'recorded'\ncompare_ignore = ['ad', 'additional']\nkeep_responses = true\ndrop_duplicates = true\nmax_input = '9 GB'\ntls_insecure = true\ntls_name = 'a.example'\n\
            tls_port = 8853\ndoh_method = 'get'\ndoh_path = '/q'\nnagle = true\npipeline = 3";
        assert_eq!(typed, RunSpec::parse(file).unwrap());
        assert_eq!(spec("a.pcap --speed 2").timing(), Timing::Scaled(2.0));
        assert_eq!(spec("a.pcap --rate 20k").timing(), Timing::Rate(20_000.0));
        assert_eq!(spec("a.pcap --max-lag 1s --transport doh --capture-port 5353"), {
            RunSpec::parse("trace = 'a.pcap'\nmax_lag = 1000\ntransport = 'doh2'\nport = 5353").unwrap()
        });
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
