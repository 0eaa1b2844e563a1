//! `ldplayer ratio`: options make a study, its figures become a table.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use ldplayer_core::printable::Printable;
use ldplayer_core::time::Span;
use ldplayer_core::{Cidr, TraceTime, Transport};
use ldplayer_experiment::{FinishedStudy, Link, NamedServer, Options, RatioError, RatioPlan, Wired, make_ratio};
use ldplayer_link::{Loss, RttSource, Written};
use ldplayer_net::clock;
use ldplayer_net::signals::INTERRUPTED;
use ldplayer_replay::Sources;
use ldplayer_report::ratio::StudyText;
use ldplayer_run::RunSpec;

use super::experiment::screen::{Screen, Shown};
use crate::failure::Failure;
use crate::printing;

/// How long the time of a directory's name is: to the second.
const TO_SECONDS: usize = "2024-01-01T000000".len();

/// Options of `ratio`.
#[derive(clap::Args)]
#[command(after_help = "\
In each round, every client asks every server for the SOA record of a zone over UDP and over each
other transport, always on a new connection. The ratio of the two response times is 2 over TCP
where all is well: one round trip to connect, one to ask. Failures are counted by their reason.
The directory has a run per server, ratio.json, ratio.html and ratio.svg.

With --rtt the study is made in a testbed: the clients are 10.64.0.1, 10.64.0.2, … on a host of
their own, and the server is started at 10.53.0.2 and fd53::2.

Example: a server on this host, and one elsewhere that may be asked
  ldplayer ratio 127.0.0.1:5300 --zone example.
  ldplayer ratio 192.0.2.1 192.0.2.2 --allow-target 192.0.2.0/24 \\
    --transport tcp,dot --tls-insecure

Example: a server 10 to 80 ms away from its 200 clients
  ldplayer ratio 10.53.0.2 --rtt uniform:10ms,80ms --clients 200 \\
    --start-server 'nsd -d -c nsd.conf' -o runs/nsd")]
pub struct Args {
    /// Server: an address or a name, with or without a port; NAME=ADDR names it in the figures
    #[arg(value_name = "ADDR", required = true)]
    servers: Vec<NamedServer>,
    /// Ask for the SOA record of this zone
    #[arg(long, value_name = "NAME", default_value = ".")]
    zone: String,
    /// Transports to compare with UDP: tcp, dot, doq, doh2, doh3
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "tcp")]
    transport: Vec<Transport>,
    /// Number of clients, each with its own address or port
    #[arg(long, value_name = "N", default_value_t = 20)]
    clients: u32,
    /// Number of pairs per client
    #[arg(long, visible_alias = "rounds", value_name = "N", default_value_t = 20)]
    pairs: u32,
    /// Time between two pairs of a client
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: Span,
    /// Addresses of the clients: original, ports or pool:CIDR,… [default: original where every address is local,
    /// else ports]
    #[arg(long, value_name = "SOURCES")]
    sources: Option<Sources>,
    /// Query timeout and connect timeout
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    query_timeout: Span,
    /// Make a testbed with this round-trip time per client: 20ms, uniform:10ms,80ms, lognormal:20ms,0.5, or FILE.csv
    /// with lines `prefix,ms`
    #[arg(long, value_name = "SPEC", requires = "start_server")]
    rtt: Option<Written<RttSource>>,
    /// Packet loss of that testbed in each direction: 1%
    #[arg(long, value_name = "P", requires = "rtt")]
    loss: Option<Written<Loss>>,
    /// Command that starts the server in that testbed; it must stay in the foreground
    #[arg(long, value_name = "COMMAND", requires = "rtt")]
    start_server: Option<String>,
    /// Trust the certificates in this PEM file [default: those that the system trusts]
    #[arg(long, value_name = "FILE", conflicts_with = "tls_insecure", hide_short_help = true)]
    tls_ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long)]
    tls_insecure: bool,
    /// Name in the server's certificate [default: its address]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    tls_name: Option<String>,
    /// Port for DNS over TLS, QUIC and HTTPS [default: 853, and 443 over HTTPS]
    #[arg(long, value_name = "PORT", hide_short_help = true)]
    tls_port: Option<u16>,
    /// Allow sending to these addresses outside of this host
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    allow_target: Vec<Cidr>,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    seed: u64,
    /// Directory of the study [default: runs/ratio- and the time of day]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Replace the study in that directory
    #[arg(long)]
    force: bool,
    /// Print ratio.json in place of the table
    #[arg(long)]
    json: bool,
    /// Print errors only: no progress, no table
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let output = args.output();
    let shown = match args.quiet {
        true => Shown::Off,
        false if io::stderr().is_terminal() => Shown::Auto,
        false => Shown::Plain,
    };
    let mut screen = Screen::new(shown).map_err(Failure::environment)?;
    let options = Options {
        ldplayer: std::env::current_exe().context("ratio: this program's own file")?,
        replace: args.force,
        command_line: crate::arguments::given(),
        allow_target: args.allow_target.clone(),
        replayer: None,
    };
    let made = make_ratio(&args.plan(), &output, &options, &mut screen);
    screen.leave_line();
    let FinishedStudy { study, is_interrupted } = made.map_err(failure)?;
    if args.json {
        printing::json(&study)?;
    } else if !args.quiet {
        printing::to_stdout(format_args!(
            "{}\nfigures: {}\n",
            StudyText(&study),
            Printable(output.join("ratio.html").display())
        ))?;
    }
    Ok(if is_interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

impl Args {
    fn plan(&self) -> RatioPlan {
        RatioPlan {
            servers: self.servers.clone(),
            transports: self.transport.clone(),
            zone: self.zone.clone(),
            clients: self.clients,
            rounds: self.pairs,
            interval: self.interval,
            base: self.base(),
            wire: self.rtt.as_ref().zip(self.start_server.as_ref()).map(|(rtt, start_server)| Wired {
                link: Link { rtt: Some(rtt.clone()), loss: self.loss.clone(), ..Link::default() },
                start_server: start_server.clone(),
            }),
        }
    }

    fn base(&self) -> RunSpec {
        RunSpec {
            sources: self.sources.clone(),
            query_timeout: self.query_timeout,
            tls_ca: self.tls_ca.clone(),
            tls_insecure: self.tls_insecure,
            tls_name: self.tls_name.clone(),
            tls_port: self.tls_port,
            seed: self.seed,
            ..RunSpec::default()
        }
    }

    /// The directory: as given, or named after the time of this call.
    fn output(&self) -> PathBuf {
        let now = || TraceTime(clock::realtime_ns()).to_string().replace(':', "");
        self.output.clone().unwrap_or_else(|| PathBuf::from(format!("runs/ratio-{}", &now()[..TO_SECONDS])))
    }
}

/// The exit status of a study that could not be made.
fn failure(error: RatioError) -> Failure {
    if error.is_of_environment() { Failure::environment(error) } else { Failure::from(error) }
}
