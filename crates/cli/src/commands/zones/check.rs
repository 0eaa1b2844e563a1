//! `ldplayer zones check`: whether a set can be served, reached and validated, and what a trace would be answered with.

mod coverage;
mod dnssec;
mod links;
mod report;
mod stock;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use ldplayer_core::name::{self, Presentation};
use ldplayer_core::time::NS_PER_S;
use ldplayer_emulate::serve::set::{self, SetError, ZoneSet};
use ldplayer_net::clock;
use ldplayer_zone::Zone;
use ldplayer_zone::error::LoadError;

use super::sources::{self, Source, on_all_cores};
use super::when::When;
use crate::commands::reading::Reading;
use crate::failure::{Failure, VERDICT_FAILED};
use report::{Finding, Report};
use stock::Checker;

/// Options of `zones check`.
#[derive(clap::Args)]
#[command(after_help = "\
Checks that every zone loads here, in NSD (nsd-checkzone) and in BIND (named-checkzone); that each
delegation has a name server with an address in the set; that signatures verify and chains of NSEC or
NSEC3 records close, from the topmost signed zones down; and with --trace, what its questions would
be answered with. Findings are one line each, with file and line. Exit status 1 when there are errors.

Example:
  ldplayer zones check zones/ --trace clients.pcap.xz

Example: a recorded zone at the time of the recording, without the stock checkers
  ldplayer zones check zones/ --now 2016-10-09 --without nsd,bind")]
pub struct Args {
    /// The zone set
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Tell what the questions of this trace would be answered with; may be given several times
    #[arg(long = "trace", value_name = "TRACE")]
    traces: Vec<String>,
    #[command(flatten)]
    reading: Reading,
    /// The trace's queries are to a server that has all zones, as `serve --all-zones-everywhere` is one
    #[arg(long, requires = "traces")]
    all_zones_everywhere: bool,
    /// The time at which signatures are to be valid: 2016-10-09, 20161009120000, or from now: +10d [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    now: Option<When>,
    /// Checkers to do without
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = ["nsd", "bind"])]
    without: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let files = set::files(&args.directory)?;
    let wanted = Checker::ALL.into_iter().filter(|checker| !args.without.iter().any(|name| name == checker.name()));
    let checkers = wanted.map(stock::Program::find).collect::<Result<Vec<_>, _>>().map_err(Failure::environment)?;
    let mut report = Report::new(files.len());
    let sources = load(&files, &mut report);
    stock::check(&checkers, &args.directory, &sources, &mut report)?;
    let (zones, sources) = build(sources, &mut report);
    let set = ZoneSet::new(zones, Vec::new())?;
    links::check(&set, &sources, &mut report);
    let now = clock::realtime_ns() / NS_PER_S;
    dnssec::check(&sources, args.now.unwrap_or(When::FromNow(0)).seconds(now), &mut report)?;
    if !args.traces.is_empty() {
        report.coverage = Some(coverage::of(&set, &args.traces, &args.reading, args.all_zones_everywhere)?);
    }
    report.print(args.json)?;
    Ok(if report.errors() == 0 { ExitCode::SUCCESS } else { ExitCode::from(VERDICT_FAILED) })
}

/// Reads all zones, parents before their children; those that cannot be read are told and left out.
fn load(files: &[PathBuf], report: &mut Report) -> Vec<Source> {
    let mut sources: BTreeMap<Vec<u8>, Source> = BTreeMap::new();
    for (file, read) in files.iter().zip(on_all_cores(files, |file| sources::read_one(file))) {
        match read {
            Err(error) => report.add(of_error(file.clone(), &error)),
            Ok(source) => match sources.get(&source.apex) {
                None => drop(sources.insert(source.apex.clone(), source)),
                Some(first) => {
                    let (apex, first) = (Presentation(&source.apex), first.file.display());
                    let text =
                        format!("{first} has the zone {apex}, too; a set has each zone once: remove one of them");
                    report.add(Finding::error("load", file.clone(), 0, text));
                }
            },
        }
    }
    let mut sources: Vec<Source> = sources.into_values().collect();
    sources.sort_by_cached_key(|source| {
        let mut labels: Vec<Vec<u8>> = name::labels(&source.apex).map(<[u8]>::to_vec).collect();
        labels.reverse();
        labels
    });
    sources
}

fn of_error(file: PathBuf, error: &SetError) -> Finding {
    match error {
        SetError::Zone(LoadError::Entry { file, line, problem }) => {
            Finding::error("load", file.clone(), *line, problem.to_string())
        }
        SetError::Zone(LoadError::Zone { problem, .. }) => Finding::error("load", file, 0, problem.to_string()),
        SetError::Zone(LoadError::Read { file, source }) => {
            Finding::error("load", file.clone(), 0, format!("cannot be read: {source}"))
        }
        SetError::Class { class, .. } => {
            Finding::error("load", file, 0, format!("class {class}: only zones of class IN are served"))
        }
        other => Finding::error("load", file, 0, other.to_string()),
    }
}

/// Makes the zones as `serve` does; tells what is odd about them.
fn build(sources: Vec<Source>, report: &mut Report) -> (Vec<Zone>, Vec<Source>) {
    let built = on_all_cores(&sources, |source| Zone::from_records(&source.records));
    let (mut zones, mut kept) = (Vec::with_capacity(sources.len()), Vec::with_capacity(sources.len()));
    for (source, built) in sources.into_iter().zip(built) {
        match built {
            Err(error) => report.add(of_error(source.file.clone(), &error.into())),
            Ok((zone, oddities)) => {
                let odd = oddities
                    .into_iter()
                    .map(|odd| Finding::warning("load", odd.file, odd.line, odd.oddity.to_string()));
                odd.for_each(|finding| report.add(finding));
                zones.push(zone);
                kept.push(source);
            }
        }
    }
    report.loaded.insert("ldplayer", zones.len());
    (zones, kept)
}
