//! The options of a replay as typed, laid over a specification.

use std::path::PathBuf;

use ldplayer_core::TraceTime;
use ldplayer_net::clock;
use ldplayer_run::keys::heading;
use ldplayer_run::{RunSpec, read_spec};

use super::Printed;
use super::cluster::ClusterArgs;
use super::keys::KeyArgs;
use super::progress::Show;
use crate::commands::summary::Form;
use crate::failure::Failure;

/// Characters of a time without colons, such as `2026-01-31T235959`.
const TO_SECONDS: usize = 17;

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

  Find how many queries per second a server answers in time, on a fifth of a core:
    ldplayer replay capture.pcap.xz --server 127.0.0.1:5300 \\
      --start-server 'nsd -d -c nsd.conf' --server-cpu 20% --find 'p99 <= 50ms'

  Write down what a run is, and make it from there; or repeat an earlier run over TLS:
    ldplayer replay capture.pcap.xz --server 127.0.0.1:5300 \\
      --print-spec >run.toml
    ldplayer replay --spec run.toml
    ldplayer replay --again runs/first --transport dot --tls-insecure

Exit status: 0 both verdicts are fine, 1 one of them failed, 2 bad usage or input, 3 the
environment cannot do it, 130 interrupted (what was measured is complete)."
)]
pub struct Args {
    /// The keys of the run.
    #[command(flatten)]
    pub keys: KeyArgs,

    /// Run directory [default: runs/ and the time of day]
    #[arg(short, long, value_name = "RUN", help_heading = heading::OUTPUT, display_order = 0)]
    pub output: Option<PathBuf>,
    /// Replace the run in that directory
    #[arg(long, help_heading = heading::OUTPUT, display_order = 1)]
    pub force: bool,
    /// Print run.json in place of the report
    #[arg(long, help_heading = heading::OUTPUT)]
    pub json: bool,
    /// Print the figures in one line in place of the report: line, csv or json
    ///
    /// csv has a header; `ldplayer report --summary` prints lines of several runs.
    #[arg(long, value_name = "FORM", conflicts_with_all = ["json", "quiet", "find"], hide_possible_values = true)]
    #[arg(help_heading = heading::OUTPUT)]
    pub summary: Option<Form>,
    /// Progress on standard error: auto, plain or off
    ///
    /// auto shows a live line on a terminal, and elsewhere, as plain does, a line every ten seconds.
    #[arg(long, value_name = "HOW", default_value = "auto", hide_default_value = true, hide_possible_values = true)]
    #[arg(help_heading = heading::OUTPUT, hide_short_help = true)]
    pub progress: Show,
    /// Print errors only: no progress, no report
    #[arg(short, long, conflicts_with = "json", help_heading = heading::OUTPUT)]
    pub quiet: bool,

    /// Read the run from this file (TOML); options override it
    #[arg(long, value_name = "FILE", conflicts_with = "again", help_heading = heading::ADVANCED, hide_short_help = true, display_order = 0)]
    pub spec: Option<PathBuf>,
    /// Repeat the run of this run directory; options override it
    #[arg(long, value_name = "RUN", help_heading = heading::ADVANCED, hide_short_help = true, display_order = 1)]
    pub again: Option<PathBuf>,
    /// Start the command of the run that --again repeats, though it is not this user's of this host
    #[arg(long, requires = "again", help_heading = heading::ADVANCED, hide_short_help = true, display_order = 2)]
    pub allow_command: bool,
    /// Do not ask each server one question before the run
    ///
    /// Without it, each server is asked the first query of the run over each transport, and what is wrong there is said in one line: nothing
    /// listens, REFUSED, no TLS, a certificate that is not trusted. It is no query of the run. Nothing is asked with --path packets, --nats or --quiet.
    #[arg(long, help_heading = heading::ADVANCED, hide_short_help = true, display_order = 3)]
    pub no_probe: bool,
    /// Search for the largest load at which criteria hold, and print it in a line
    ///
    /// The load is queries per second, or handshakes per second, clients or connections if it begins so: 'p99 <= 50ms', 'clients: answered >=
    /// 99.9 % and p99 <= 50ms'. Each trial replays some seconds of the trace. With -o, trials are kept there, as an experiment.
    #[arg(long, value_name = "EXPR", conflicts_with_all = ["agents", "print_spec"])]
    #[arg(help_heading = heading::ADVANCED, hide_short_help = true, display_order = 5)]
    pub find: Option<String>,
    /// Print the run as a file for --spec, and send nothing
    #[arg(long, help_heading = heading::ADVANCED, hide_short_help = true, display_order = 4)]
    pub print_spec: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Go on with the run in this run directory, whose controller has ended
    #[arg(long, value_name = "RUN", conflicts_with_all = ["trace", "spec", "again", "output", "agents"])]
    #[arg(help_heading = "Several hosts", hide_short_help = true)]
    pub resume: Option<PathBuf>,
}

impl Args {
    /// The specification from the options, which take precedence over a file or an earlier run.
    pub fn spec(&self) -> Result<RunSpec, Failure> {
        let mut spec = self.base()?;
        // Permission is this call's: a file or a run may be of somebody else.
        spec.allow_target.clear();
        self.keys.lay_over(&mut spec).map_err(anyhow::Error::msg)?;
        Ok(spec)
    }

    /// What is printed when the run has ended.
    pub const fn printed(&self) -> Printed {
        match (self.quiet, self.json, self.summary) {
            (true, ..) => Printed::Nothing,
            (_, true, _) => Printed::Json,
            (_, _, Some(form)) => Printed::Summary(form),
            _ => Printed::Report,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use ldplayer_core::Transport;
    use ldplayer_run::TransportChoice;
    use ldplayer_workload::Timing;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: Args,
    }

    fn spec(words: &str) -> RunSpec {
        let words = ["replay"].into_iter().chain(words.split_whitespace());
        Typed::parse_from(words).args.spec().map_err(|_| "no specification").unwrap()
    }

    #[test]
    fn options_make_the_specification_that_a_file_would() {
        let typed = spec(
            "a.pcap --server 127.0.0.1:5300 --server localhost --map 192.0.2.1=::1 --rules do.toml --timing rate:100 --start 1 --stop 2s --loop 3 --for 9s --clients 4 \
             --transport dot --sources ports --path packets --interface eth0 --next-hop 192.0.2.1,fe80::1 --rtt normal:20ms,5ms --jitter 2ms --loss 1% --bandwidth 10Mbit --query-timeout 2s --workers 2 --cores 0,1 --precision low --max-lag 5 \
             --max-outstanding 9 --stamp-sends --count-segments --allow-target 192.0.2.0/24 --seed 3 --capture-port 53,5353 --role client --watch-pid 7 --telemetry-interval 200ms \
             --compare-answers recorded --compare-ignore ad --compare-ignore additional --keep-responses --drop-duplicates --text-format dnsperf --max-input 9GB \
             --tls-insecure --tls-name a.example --tls-port 8853 --doh-method get --doh-path /q --nagle on --pipeline 3",
        );
        let file = "trace = 'a.pcap'\nserver = ['127.0.0.1:5300', 'localhost']\nmap = '192.0.2.1=::1'\nrules = 'do.toml'\ntiming = 'rate:100'\n\
            start = 1\nstop = '2s'\nloop = 3\nfor = '9s'\nclients = 4\ntransport = 'dot'\nsources = 'ports'\npath = 'packets'\ninterface = 'eth0'\nnext_hop = ['192.0.2.1', 'fe80::1']\nrtt = 'normal:20ms,5ms'\njitter = '2ms'\nloss = '1%'\nbandwidth = '10Mbit'\nquery_timeout = 2\nworkers = 2\ncores = [0, 1]\n\
            precision = 'low'\nmax_lag = 5\nmax_outstanding = 9\nstamp_sends = true\ncount_segments = true\nallow_target = '192.0.2.0/24'\nseed = 3\n\
            capture_port = [53, 5353]\nrole = 'client'\nwatch_pid = 7\ntelemetry_interval = 0.2\n\
            compare_answers = 'recorded'\ncompare_ignore = ['ad', 'additional']\nkeep_responses = true\ndrop_duplicates = true\ntext_format = 'dnsperf'\nmax_input = '9 GB'\ntls_insecure = true\ntls_name = 'a.example'\n\
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
