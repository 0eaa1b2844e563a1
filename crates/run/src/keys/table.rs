//! The table of keys, in the order of the help.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ldplayer_core::policy::Scope;
use ldplayer_core::size::Size;
use ldplayer_core::time::{NS_PER_S, Span};
use ldplayer_core::{Cidr, IgnoreRule, PolicyOverrides};
use ldplayer_link::{Jitter, Loss, Rate, RttSource, Written};
use ldplayer_net::pace::Precision;
use ldplayer_replay::{DohMethod, DohSettings, Mapping, PathChoice, Sources};
use ldplayer_results::Expectation;
use ldplayer_trace::{Dependencies, RecordedRetries, Role, TextFormat};
use ldplayer_workload::{ClientClass, Passes, Qps, RulesFile, Timing};

use super::value::Field;
use super::{Choice, Facts, Key, heading};
use crate::words::{CoreShare, Lag, Server, Speed, TransportChoice};

const ARGUMENT: Facts = Facts::NONE;
const TARGET: Facts = Facts { heading: heading::TARGET, ..Facts::NONE };
const CLIENTS: Facts = Facts { heading: heading::CLIENTS, ..Facts::NONE };
const TIMING: Facts = Facts { heading: heading::TIMING, ..Facts::NONE };
const CONNECTIONS: Facts = Facts { heading: heading::CONNECTIONS, ..Facts::NONE };
const TLS: Facts = Facts { heading: heading::TLS, ..Facts::NONE };
const OUTPUT: Facts = Facts { heading: heading::OUTPUT, ..Facts::NONE };
const ADVANCED: Facts = Facts { heading: heading::ADVANCED, ..Facts::NONE };

/// Declares [`RunSpec`], its defaults and [`KEYS`] from one table. The first paragraph of a key's documentation is its help in one
/// sentence; the others are in the long help only.
macro_rules! keys {
    ($($(#[doc = $line:literal])* $field:ident: $type:ty = $default:expr, $facts:expr;)*) => {
        /// A run specification. All ways to request a run produce this type: options of `ldplayer replay`, a file, an earlier run.
        ///
        /// Keys are the long options of `ldplayer replay` with underscores, and include those of the connection policy
        /// ([`PolicyOverrides`]). Unknown keys are errors.
        #[derive(Clone, Debug, PartialEq)]
        pub struct RunSpec {
            $($(#[doc = $line])* pub $field: $type,)*
            /// Client classes, each with its share, transport and connection policy.
            pub class: Vec<ClientClass>,
            /// Connection policy of all clients.
            pub policy: PolicyOverrides,
        }

        impl Default for RunSpec {
            fn default() -> Self {
                Self { $($field: $default,)* class: Vec::new(), policy: PolicyOverrides::default() }
            }
        }

        /// Every key, in the order of the help.
        pub static KEYS: &[Key] = &[$(Key {
            lines: &[$($line),*],
            field: stringify!($field),
            facts: $facts,
            arity: <$type as Field>::ARITY,
            read: |spec, value| <$type as Field>::read(value).map(|value| spec.$field = value),
            write: |spec| Field::write(&spec.$field),
            reset: |spec| spec.$field = $default,
        },)*];
    };
}

keys! {
    /// Trace to replay, or a list of queries; `-` is standard input
    ///
    /// pcap, pcapng, dnstap, C-DNS, Parquet, TSV or dnsperf text, compressed or not; several are merged by time. A list of
    /// queries (dnsperf text) has neither times nor clients: give --rate and --clients.
    trace: Vec<String> = Vec::new(), Facts { is_common: true, ..ARGUMENT };
    /// Server to ask: an address or a name, with or without a port
    ///
    /// Give it several times for one server of each address family, or for several servers, of which each client keeps one.
    /// `recorded` asks the server that each query was recorded for.
    server: Vec<Server> = Vec::new(), Facts { is_common: true, is_split: true, ..TARGET };
    /// With --server recorded: ask another server in place of a recorded one
    ///
    /// Both with or without a port.
    map: Vec<Mapping> = Vec::new(), Facts { value: "OLD=NEW", is_split: true, ..TARGET };
    /// Allow sending to these addresses of other hosts
    ///
    /// Loopback addresses and namespaces of ldplayer's own need no permission. Permission is of this call
    /// only: that of a file (--spec) or an earlier run (--again) does not count.
    allow_target: Vec<Cidr> = Vec::new(), Facts { value: "CIDR", is_common: true, is_split: true, ..TARGET };
    /// Start this server first, where every address is local
    ///
    /// In a namespace that ldplayer makes. The command is run by sh, and ended with the run.
    start_server: Option<String> = None, Facts { value: "COMMAND", is_common: true, ..TARGET };
    /// Processor time that the started server may use: cores or percent of one, such as 0.2 or 20%
    ///
    /// Its processes together, by a control group that is made and removed; it takes root. So the server is the limit and not the machine that
    /// it shares with the replay: results are of so many cores.
    server_cpu: Option<CoreShare> = None,
        Facts { value: "SHARE", requires: "start_server", default: "no limit", page: "experiments.md#quotas", ..TARGET };
    /// Processors that the started server may run on, such as 1 or 0,2
    server_cpus: Vec<usize> = Vec::new(),
        Facts { value: "CPU,…", requires: "start_server", is_split: true, default: "all", page: "experiments.md#quotas", ..TARGET };
    /// Record what this process and its children use
    ///
    /// Processor time, memory, sockets and losses of the server.
    watch_pid: Option<u32> = None,
        Facts { value: "PID", choice: Some(Choice::Watched), default: "those of --start-server", ..TARGET };
    /// Record what the processes of this systemd unit use
    watch_unit: Option<String> = None, Facts { value: "NAME", choice: Some(Choice::Watched), ..TARGET };
    /// Expect this of the server: `answered >= 99 %`, `p99 <= 20ms`, …
    ///
    /// `servfail <= 1 %`, `match >= 99.9 %` and so on; several times for several expectations. One that does not hold fails the run (exit status 1).
    expect: Vec<Expectation> = Vec::new(),
        Facts { value: "EXPR", is_common: true, page: "report.md", ..TARGET };
    /// The first N clients of a trace, or N clients for a list of queries
    ///
    /// The queries of a list are dealt to them in turn.
    clients: Option<u64> = None, Facts { value: "N", is_common: true, range: Some((1, u64::MAX)), ..CLIENTS };
    /// udp, tcp, dot, doh2 (or doh), doh3, doq, or shares such as udp=60,dot=40
    ///
    /// dot is DNS over TLS, doh2 and doh3 are DNS over HTTPS (HTTP/2 and HTTP/3), doq is DNS over QUIC. Shares are of the clients, in
    /// percent.
    transport: TransportChoice = TransportChoice::AsRecorded,
        Facts {
            is_common: true,
            choice: Some(Choice::Transport),
            default: "as-recorded, the transport of each query in the trace",
            ..CLIENTS
        };
    /// File with classes of clients: share, transport and connection policy of each
    transport_shares: Option<PathBuf> = None,
        Facts { value: "FILE", choice: Some(Choice::Transport), page: "transports.md", ..CLIENTS };
    /// original, ports (a port for each client) or pool:CIDR,…
    ///
    /// Where the clients' addresses come from.
    sources: Option<Sources> = None,
        Facts {
            is_common: true,
            default: "original where every address is local, as in a testbed, and ports elsewhere",
            ..CLIENTS
        };
    /// sockets, packets (frames made by ldplayer), packets:xdp, or auto
    ///
    /// How packets of clients reach the network. packets needs no socket for a client: ldplayer makes the frames of all clients, each from its
    /// own address, and opens their TCP connections itself; packets:xdp sends them by AF_XDP. Either needs a namespace made
    /// for that, by --start-server or by `ldplayer testbed run --packets`, or an --interface.
    path: PathChoice = PathChoice::default(),
        Facts {
            value: "PATH",
            default: "auto, which is packets in such a namespace, and sockets elsewhere",
            page: "packet-path.md",
            ..CLIENTS
        };
    /// With --path packets: send and receive frames on this interface
    ///
    /// An Ethernet interface of this host, which takes the right to open packet sockets (CAP_NET_RAW); a VLAN is an interface of its own, such
    /// as eth0.5. Clients with --sources pool:CIDR,… are found on the link by their addresses, which no host may have; with original, the route
    /// back to the clients must lead to this interface.
    interface: Option<String> = None, Facts { value: "NAME", ..CLIENTS };
    /// With --interface: router that leads to the servers, one for each family
    next_hop: Vec<IpAddr> = Vec::new(),
        Facts {
            value: "ADDR",
            is_split: true,
            requires: "interface",
            default: "the servers themselves are on the link",
            ..CLIENTS
        };
    /// With --path packets: round-trip time of each client: 20ms, normal:20ms,5ms, lognormal:20ms,0.5 …
    ///
    /// Also uniform:10ms,30ms, pareto:10ms,2, or FILE.csv with lines `prefix,ms`. The sender itself holds frames back for half of it in each
    /// direction, without a host between; for sockets, `ldplayer testbed up --rtt` does.
    rtt: Option<Written<RttSource>> = None,
        Facts { value: "SPEC", page: "packet-path.md#distance", ..CLIENTS };
    /// With --path packets: jitter of the round-trip time: 2ms, or a distribution; `,reorder` lets packets overtake each other
    jitter: Option<Written<Jitter>> = None, Facts { value: "SPEC", ..CLIENTS };
    /// With --path packets: packet loss in each direction: 1%, or ge:P,R for bursts (Gilbert-Elliott)
    loss: Option<Written<Loss>> = None, Facts { value: "P", ..CLIENTS };
    /// With --path packets: bandwidth of each client in each direction: 10Mbit, or with the length of its queue: 10Mbit,50ms
    bandwidth: Option<Written<Rate>> = None, Facts { value: "SPEC", ..CLIENTS };
    /// Rules that change the queries on their way, as `ldplayer mutate` applies them
    rules: Vec<RulesFile> = Vec::new(), Facts { value: "FILE", page: "mutate.md", ..CLIENTS };
    /// Send this many queries per second, at even gaps: 500, 20k, 1.5M
    ///
    /// The same as --timing rate:QPS.
    rate: Option<Qps> = None,
        Facts { value: "QPS", is_common: true, choice: Some(Choice::Schedule), ..TIMING };
    /// Speed of the trace's clock: 2 is twice as fast
    ///
    /// The same as --timing scaled:X.
    speed: Option<Speed> = None,
        Facts { value: "X", is_common: true, choice: Some(Choice::Schedule), ..TIMING };
    /// original, scaled:X, rate:QPS, poisson:QPS, ramp:FROM-TO/TIME or fast
    ///
    /// When queries are sent. scaled:X is X times as fast as recorded; rate:QPS sends at even gaps, poisson:QPS at random ones; ramp:1k-50k/60s raises
    /// the rate steadily within a minute and keeps the last one; fast sends as soon as an in-flight query is answered.
    timing: Timing = Timing::ORIGINAL, Facts { is_common: true, choice: Some(Choice::Schedule), ..TIMING };
    /// End the run after this time
    ///
    /// Seconds, or with a unit (500ms, 5m). A list of queries is repeated until then, unless --loop says how often. With --timing
    /// fast the clock ends the sending.
    duration: Option<Span> = None, Facts { name: "for", value: "DURATION", is_common: true, ..TIMING };
    /// Replay the trace N times, or forever
    ///
    /// Each pass begins a mean gap after the end of the one before.
    passes: Option<Passes> = None,
        Facts { name: "loop", value: "N|forever", is_common: true, default: "1", ..TIMING };
    /// Skip this much of the trace at its start (seconds, or with a unit)
    start: Option<Span> = None, Facts { value: "DURATION", ..TIMING };
    /// Stop at this time of the trace, counted from its start
    stop: Option<Span> = None, Facts { value: "DURATION", ..TIMING };
    /// Processor time spent on precision: low, normal or high
    ///
    /// low sleeps, normal sleeps and then spins for some microseconds, high spins: it takes a core for each worker.
    precision: Precision = Precision::default(), TIMING;
    /// Do not send queries that are overdue by more than this
    ///
    /// So that no flood follows a stall. Milliseconds, or with a unit.
    max_lag: Lag = Lag(Span::from_ns(NS_PER_S)), Facts { value: "MS", ..TIMING };
    /// With --timing fast: in-flight queries per worker
    max_outstanding: usize = 1_000, Facts { value: "N", ..TIMING };
    /// Give up on an answer after this time
    query_timeout: Span = Span::from_ns(5 * NS_PER_S),
        Facts { value: "DURATION", is_common: true, ..CONNECTIONS };
    /// Trust the certificates in this PEM file
    tls_ca: Option<PathBuf> = None,
        Facts {
            value: "FILE",
            is_common: true,
            choice: Some(Choice::Trust),
            scope: Some(Scope::Encrypted),
            default: "the system's",
            ..TLS
        };
    /// Trust any certificate
    tls_insecure: bool = false,
        Facts { is_common: true, choice: Some(Choice::Trust), scope: Some(Scope::Encrypted), ..TLS };
    /// Name in the server's certificate, which the server is asked for
    tls_name: Option<String> = None,
        Facts { value: "NAME", scope: Some(Scope::Encrypted), default: "its address", ..TLS };
    /// Port for DNS over TLS, QUIC and HTTPS
    ///
    /// Where all queries go over one of them (--transport dot, doq, doh2 or doh3), a port of --server other than 53 is taken.
    tls_port: Option<u16> = None,
        Facts { value: "PORT", scope: Some(Scope::Encrypted), default: "853, and 443 over HTTPS", ..TLS };
    /// Port for DNS over HTTPS, if it differs from --tls-port
    doh_port: Option<u16> = None, Facts { value: "PORT", scope: Some(Scope::Https), ..TLS };
    /// HTTP method: post or get
    doh_method: DohMethod = DohMethod::default(),
        Facts { value: "post|get", scope: Some(Scope::Https), ..TLS };
    /// Path of HTTPS requests
    doh_path: String = DohSettings::PATH.to_owned(),
        Facts { value: "PATH", scope: Some(Scope::Https), ..TLS };
    /// Compare each answer with the recorded one, or with the answer of another server
    ///
    /// `recorded`, or the address of a server that is asked the same at the same time. Response codes, flags and record sets are
    /// compared. What disagrees is asked again after the run, and kept in RUN/disagreements.parquet.
    compare_answers: Option<Server> = None,
        Facts { value: "recorded|ADDR", page: "compare-answers.md", ..OUTPUT };
    /// Leave this out of the comparison: aa, ad, additional, `type == SOA`, …
    ///
    /// aa, tc, ra, ad, answer, authority, additional, or records such as `type == SOA` or `section == authority and name under
    /// example.org`; several times for several.
    compare_ignore: Vec<IgnoreRule> = Vec::new(),
        Facts { value: "RULE", page: "compare-answers.md#what-is-left-out", ..OUTPUT };
    /// Keep the responses in RUN/responses.parquet, a trace of its own
    keep_responses: bool = false, OUTPUT;
    /// Serve figures of the run to Prometheus while it lasts, at `http://ADDR/metrics`
    metrics: Option<SocketAddr> = None, Facts { value: "ADDR", ..OUTPUT };
    /// Worker threads
    workers: Option<u16> = None,
        Facts { value: "N", range: Some((1, 256)), default: "one less than there are cores", ..ADVANCED };
    /// Pin the workers to these cores
    cores: Vec<usize> = Vec::new(), Facts { value: "CORE,…", is_split: true, ..ADVANCED };
    /// Seed of every random choice
    seed: u64 = 1, Facts { value: "N", ..ADVANCED };
    /// Record when the kernel sent each query over UDP (`sent_ns` of the rows)
    stamp_sends: bool = false, Facts { scope: Some(Scope::Udp), ..ADVANCED };
    /// Record the TCP segments of each response, and those sent again
    ///
    /// `segments` and `retransmits` of the rows.
    count_segments: bool = false, Facts { scope: Some(Scope::Tcp), ..ADVANCED };
    /// Interval of telemetry, 100ms to 1s
    telemetry_interval: Span = Span::from_ns(NS_PER_S / 2), Facts { value: "DURATION", ..ADVANCED };
    /// Port that carries DNS in captures; several times for several ports
    capture_port: Vec<u16> = vec![53],
        Facts { alias: "port", value: "PORT", is_split: true, page: "convert.md", ..ADVANCED };
    /// Roles to take from dnstap and C-DNS: auth, resolver, client, forwarder, stub, tool, update
    role: Vec<Role> = Vec::new(), Facts { value: "ROLE", is_split: true, page: "convert.md", ..ADVANCED };
    /// Leave out datagrams that a capture has twice: of two interfaces, VLANs, or directions of a mirror
    drop_duplicates: bool = false, Facts { page: "convert.md", ..ADVANCED };
    /// What becomes of the retries in the trace: keep, drop or mark
    ///
    /// A retry is a query that its client sent again because an earlier one had no answer yet, or a bad one: load that the recorded server's losses
    /// made. drop sends none of them; mark sends and counts them (`summary.recorded.retries`).
    recorded_retries: Option<RecordedRetries> = None,
        Facts { value: "keep|drop|mark", default: "keep, and drop where a client reacts", page: "clients.md", ..TIMING };
    /// Which queries wait for answers: none, chain or client
    ///
    /// A query that waits is sent its recorded think time after the answer arrives, not at its recorded time. chain: those that follow from an
    /// answer by their names, types and times, as `ldplayer inspect` counts them; client: each that its client sent after an answer.
    dependencies: Dependencies = Dependencies::None,
        Facts { value: "none|chain|client", page: "dependencies.md", ..TIMING };
    /// Format of text without a header line: ldplayer or dnsperf
    text_format: Option<TextFormat> = None,
        Facts { value: "FORMAT", default: "what most of its first lines are", page: "convert.md", ..ADVANCED };
    /// Refuse a trace of more than SIZE, decompressed, such as 10GB
    max_input: Option<Size> = None, Facts { value: "SIZE", default: "no limit", ..ADVANCED };
}
