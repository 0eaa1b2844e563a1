//! `ldplayer zones fetch`: asks the questions of a trace once, records what the resolver asks in turn, and builds zones of it.

mod resolver;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use ldplayer_core::Cidr;
use ldplayer_core::time::{NS_PER_S, Span};
use ldplayer_emulate::harvest::{Asked, HarvestError, ask};
use ldplayer_net::netns;
use ldplayer_net::signals::{INTERRUPTED, Signals};
use ldplayer_trace::{Source, TraceError, open};
use ldplayer_zone::construct::{Built, Policy};
use ldplayer_zone::harvest::{Journal, Outcome, Question, Questions, Settings, lacking};

use self::resolver::Resolver;
use super::build;
use super::progress::Progress;
use crate::commands::reading::Reading;
use crate::failure::Failure;

/// Rounds in which what the zones still lack is asked for, beside the first.
const PROBES: usize = 2;
/// Options of `zones fetch`.
#[derive(clap::Args)]
#[command(after_help = "\
A stock Unbound with an empty cache is started for it and asked on loopback; what it asks in turn
is recorded with its answers. It asks name servers all over the Internet, at the rate given or
less, and so wants --allow-target 0.0.0.0/0 outside of a testbed. With --resolver another resolver
is asked, whose cache should be empty; it sends dnstap of its own questions to --tap, or its
upstream side is captured by other means and given to `zones build`.

A harvest that ended early goes on where it was when the same command is run again.

Examples:
  ldplayer zones fetch clients.pcap.xz --allow-target 0.0.0.0/0 -o zones/
  ldplayer testbed exec resolver -- \\
    ldplayer zones fetch clients.pcap.xz -o zones/
  ldplayer zones fetch clients.pcap.xz -o zones/ \\
    --resolver 127.0.0.1:5300 --tap /run/tap.sock")]
pub struct Args {
    /// Traces whose questions to ask
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    /// Directory for the zone files
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Directory for the questions and the recorded answers [default: DIR.harvest]
    #[arg(long, value_name = "DIR2")]
    harvest: Option<PathBuf>,
    /// Resolver to ask, `ADDR[:PORT]` [default: one that is started]
    #[arg(long, value_name = "ADDR", value_parser = parse_resolver)]
    resolver: Option<SocketAddr>,
    /// Socket to listen on for the dnstap of that resolver (RESOLVER_QUERY and RESOLVER_RESPONSE)
    #[arg(long, value_name = "PATH", requires = "resolver")]
    tap: Option<PathBuf>,
    /// Root hints for the resolver that is started [default: its own]
    #[arg(long, value_name = "FILE", conflicts_with = "resolver")]
    root_hints: Option<PathBuf>,
    /// Trust anchor for the resolver that is started, so that it fetches DS and DNSKEY records [default: none]
    #[arg(long, value_name = "FILE", conflicts_with = "resolver")]
    trust_anchor: Option<PathBuf>,
    /// Questions per second
    #[arg(long, value_name = "QPS", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Query timeout
    #[arg(long, value_name = "S", default_value = "10s")]
    timeout: Span,
    /// Tries per question while the answer is SERVFAIL or missing
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// Allow sending to these addresses outside of this host
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    allow_target: Vec<Cidr>,
    #[command(flatten)]
    reading: Reading,
    /// Print one JSON object about what was built
    #[arg(long)]
    json: bool,
}

fn parse_resolver(word: &str) -> Result<SocketAddr, String> {
    let address = word.parse().or_else(|_| word.parse().map(|ip| SocketAddr::new(ip, 53)));
    address.map_err(|_| format!("`{word}` is no address; write ADDR or ADDR:PORT"))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    check_target(args)?;
    let folder = args.harvest.clone().unwrap_or_else(|| suffixed(&args.output, ".harvest"));
    let _prepared = build::prepare(&args.output)?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{}: cannot be made; choose another directory with --harvest", folder.display()))?;
    let (inputs, options) = args.reading.of(&args.traces);
    let questions = read(&mut *open(&inputs, &options)?)?;
    if questions.all.is_empty() {
        let names = args.traces.join(", ");
        return Err(anyhow!("{names}: no question that can be asked; see `ldplayer inspect`").into());
    }
    let signals = Signals::catch_or_end(Arc::default()).context("zones fetch: signals")?;
    let mut harvest = Harvest { args, folder, journal: None, signals };
    let asked = harvest.round(&questions.all)?;
    tell(&questions, &asked);
    if harvest.is_stopped() {
        return Ok(interrupted());
    }
    let Some(mut built) = harvest.build()? else { return Ok(without_record()) };
    for _ in 0..PROBES {
        let lacking = lacking(&built);
        if harvest.round(&lacking)?.sent == 0 {
            break;
        }
        if harvest.is_stopped() {
            return Ok(interrupted());
        }
        built = harvest.build()?.unwrap_or(built);
    }
    build::finish(&harvest.build_args(), &built)?;
    Ok(ExitCode::SUCCESS)
}

fn interrupted() -> ExitCode {
    tell!("ldplayer: interrupted; the same command goes on where this one was");
    ExitCode::from(INTERRUPTED)
}

fn without_record() -> ExitCode {
    tell!(
        "ldplayer: all questions have been asked; build zones from a capture at the resolver: `ldplayer zones build`"
    );
    ExitCode::SUCCESS
}

/// A path with something behind its name.
fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    // Through its components, so that a slash at its end does not count.
    let mut name = path.components().collect::<PathBuf>().into_os_string();
    name.push(suffix);
    name.into()
}

/// Refuses to ask outside of this host what the user has not allowed.
fn check_target(args: &Args) -> Result<(), Failure> {
    if netns::is_emulated() {
        return Ok(());
    }
    let (target, what) = match args.resolver {
        Some(resolver) if resolver.ip().is_loopback() => return Ok(()),
        Some(resolver) => (resolver.ip(), format!("--resolver {resolver}: not an address of this host")),
        // Whoever allows this address allows all.
        None => (std::net::IpAddr::from([255; 4]), "the resolver that is started asks name servers everywhere".into()),
    };
    if args.allow_target.iter().any(|block| block.contains(target)) {
        return Ok(());
    }
    let block = args.resolver.map_or("0.0.0.0/0".to_owned(), |resolver| resolver.ip().to_string());
    Err(anyhow!("{what}; if that may be, add --allow-target {block}").into())
}

impl Args {
    fn settings(&self) -> Settings {
        let interval = NS_PER_S / i64::from(self.rate);
        Settings { interval, timeout: self.timeout.ns().max(1), tries: self.tries }
    }
}

fn failure(error: HarvestError) -> Failure {
    match error {
        HarvestError::Socket { .. } => Failure::environment(error),
        HarvestError::Journal(_) => error.into(),
    }
}

/// Reads the questions of a trace.
fn read(source: &mut dyn Source) -> Result<Questions, TraceError> {
    let (mut questions, mut batch) = (Questions::default(), Vec::new());
    loop {
        let more = source.read(&mut batch)?;
        batch.iter().for_each(|transaction| questions.take(transaction));
        batch.clear();
        if !more {
            return Ok(questions);
        }
    }
}

fn tell(questions: &Questions, asked: &Asked) {
    let codes: Vec<String> = asked.codes.iter().map(|(code, count)| format!("rcode {code}: {count}")).collect();
    tell!(
        "ldplayer: {} different questions, {} settled before, {} asked now; {}; without answer: {}",
        questions.all.len(),
        asked.before,
        asked.sent,
        if codes.is_empty() { "no answers".to_owned() } else { codes.join(", ") },
        asked.silent
    );
    for (reason, count) in &questions.skipped {
        tell!("ldplayer: not asked: {reason} {count}");
    }
}

/// The work on one set of questions after the other.
struct Harvest<'a> {
    args: &'a Args,
    folder: PathBuf,
    journal: Option<Journal>,
    signals: Signals,
}

impl Harvest<'_> {
    fn is_stopped(&self) -> bool {
        self.signals.is_stopped()
    }

    /// Sends the remaining questions to a resolver with an empty cache.
    fn round(&mut self, questions: &[Question]) -> Result<Asked, Failure> {
        let mut journal = match self.journal.take() {
            Some(journal) => journal,
            None => Journal::open(&self.folder)?,
        };
        let is_settled =
            |question: &&Question| matches!(journal.outcome(question), Some(Outcome::Answered(code)) if code != 2);
        let left: Vec<Question> = questions.iter().filter(|question| !is_settled(question)).cloned().collect();
        let mut asked = Asked::default();
        if !left.is_empty() {
            let resolver = Resolver::start(self.args, &self.next_record())?;
            let mut progress = Progress::new();
            let (settings, stop) = (self.args.settings(), self.signals.stop());
            let result =
                ask(resolver.address, &left, settings, &mut journal, stop, |done| progress.show(done, left.len()));
            journal.flush()?;
            resolver.finish()?;
            asked = result.map_err(failure)?;
        }
        asked.before = questions.len() - left.len();
        self.journal = Some(journal);
        Ok(asked)
    }

    /// The files of the rounds so far.
    fn records(&self) -> Vec<PathBuf> {
        let numbered = (1..).map(|number| self.folder.join(format!("upstream-{number}.dnstap")));
        numbered.take_while(|path| path.exists()).collect()
    }

    fn next_record(&self) -> PathBuf {
        self.folder.join(format!("upstream-{}.dnstap", self.records().len() + 1))
    }

    fn build_args(&self) -> build::Args {
        let captures = self.records().iter().map(|path| path.display().to_string()).collect();
        let reading = Reading::of_resolver();
        build::Args::of_harvest(captures, self.args.output.clone(), Policy::default(), reading, self.args.json)
    }

    /// Builds zones of all that was recorded; `None` where nothing was.
    fn build(&self) -> Result<Option<Built>, Failure> {
        if self.records().is_empty() {
            return Ok(None);
        }
        build::build(&self.build_args()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harvest_lies_beside_the_zones() {
        for output in ["zones", "zones/", "a/../zones"] {
            assert!(suffixed(Path::new(output), ".harvest").to_str().unwrap().ends_with("zones.harvest"), "{output}");
        }
    }

    #[test]
    fn resolvers_have_addresses() {
        assert_eq!(parse_resolver("192.0.2.1"), Ok("192.0.2.1:53".parse().unwrap()));
        assert_eq!(parse_resolver("[::1]:5300"), Ok("[::1]:5300".parse().unwrap()));
        assert_eq!(parse_resolver("::1"), Ok("[::1]:53".parse().unwrap()));
        assert!(parse_resolver("localhost").is_err());
    }
}
