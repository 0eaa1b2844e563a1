//! `ldplayer zones check`: whether a set can be served, reached and validated, and what a trace would be answered with.

mod print;
mod sum;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use ldplayer_core::time::NS_PER_S;
use ldplayer_emulate::check::coverage::{Asked, Coverage};
use ldplayer_emulate::check::resolved::{ResolveError, Sample, resolve};
use ldplayer_emulate::check::{CheckError, Checker, Program, check};
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::stock::Kind;
use ldplayer_net::clock;
use ldplayer_net::signals::{INTERRUPTED, Signals};
use ldplayer_trace::open;

use super::progress::Progress;
use crate::commands::including::Including;
use crate::commands::reading::Reading;
use crate::commands::when::When;
use crate::failure::{Failure, VERDICT_FAILED};

/// Options of `zones check`.
#[derive(clap::Args)]
#[command(after_help = "\
Checks that every zone loads here, in NSD (nsd-checkzone) and in BIND (named-checkzone); that each
delegation has a name server with an address in the set; that signatures verify and chains of NSEC
or NSEC3 records close, from the topmost signed zones down; and with --trace, what its questions
would be answered with. A set whose delegations lead to none of its zones is an error, and so is
one that answers less than 1 % of the trace. Findings are one line each, with file and line, or
one a kind where there are several; --verbose lists all. Exit status 1 when there are errors.
With --resolver, a stock resolver with the set as its Internet is asked a sample of the questions.

Example:
  ldplayer zones check zones/ --trace clients.pcap.xz

Example: what clients of Unbound would get
  ldplayer zones check zones/ --trace clients.pcap.xz --resolver unbound

Example: a recorded zone at the time of the recording, without the stock checkers
  ldplayer zones check zones/ --now 2016-10-09 --without nsd,bind")]
pub struct Args {
    /// The zone set
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    including: Including,
    /// Show how the questions of this trace would be answered; several times for several traces
    #[arg(long = "trace", value_name = "TRACE")]
    traces: Vec<String>,
    #[command(flatten)]
    reading: Reading,
    /// The queries of the trace go to a server with all zones (`serve --all-zones-everywhere`)
    #[arg(long, requires = "traces")]
    all_zones_everywhere: bool,
    /// Ask this resolver, in a testbed, the questions of the trace: unbound, bind-resolver, knot-resolver, pdns-recursor
    #[arg(long, value_name = "KIND", requires = "traces", value_parser = Kind::resolver)]
    resolver: Option<Kind>,
    /// Maximum number of different questions that the resolver is asked
    #[arg(long, value_name = "N", default_value = "1000", requires = "resolver")]
    sample: NonZeroUsize,
    /// Time at which signatures must be valid: 2016-10-09, 20161009120000, or +10d from now [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    now: Option<When>,
    /// Checkers to leave out
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = ["nsd", "bind"])]
    without: Vec<String>,
    /// List every finding, not only the first of each kind with their number
    #[arg(long)]
    verbose: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let wanted = Checker::ALL.into_iter().filter(|checker| !args.without.iter().any(|name| name == checker.name()));
    let checkers = wanted.map(Program::find).collect::<Result<Vec<_>, _>>().map_err(failure)?;
    let now = args.now.unwrap_or(When::FromNow(0)).seconds(clock::realtime_ns() / NS_PER_S);
    let (set, mut report) = check(&args.directory, &checkers, args.including.reading(), now).map_err(failure)?;
    let mut sample = args.resolver.map(|_| Sample::new(args.sample.get()));
    if !args.traces.is_empty() {
        report.cover(coverage(args, &set, sample.as_mut())?, &args.directory);
    }
    let signals = Signals::catch_or_end(Arc::default()).context("zones check: signals")?;
    if let (Some(kind), Some(sample)) = (args.resolver, sample) {
        let mut progress = Progress::new();
        let resolved =
            resolve(set, kind, sample, signals.stop(), |done, all| progress.show(done, all)).map_err(unresolved)?;
        report.resolve(resolved, &args.directory);
    }
    print::print(&report, args.json, args.verbose)?;
    if signals.is_stopped() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(if report.errors() == 0 { ExitCode::SUCCESS } else { ExitCode::from(VERDICT_FAILED) })
}

fn failure(error: CheckError) -> Failure {
    match error {
        CheckError::Set(_) | CheckError::Zone(_) => error.into(),
        CheckError::Missing { .. } | CheckError::Program { .. } => Failure::environment(error),
    }
}

fn unresolved(error: ResolveError) -> Failure {
    match error {
        ResolveError::NoRoot => error.into(),
        _ => Failure::environment(error),
    }
}

/// What the questions of the traces would be answered with; the sample gets them, too.
fn coverage(args: &Args, set: &ZoneSet, mut sample: Option<&mut Sample>) -> Result<Coverage, Failure> {
    let (inputs, options) = args.reading.of(&args.traces);
    let (mut source, mut batch) = (open(&inputs, &options)?, Vec::new());
    let mut asked = Asked::new(set, args.all_zones_everywhere);
    loop {
        let more = source.read(&mut batch)?;
        batch.drain(..).for_each(|transaction| {
            asked.add(&transaction);
            if let Some(sample) = &mut sample {
                sample.add(&transaction);
            }
        });
        if !more {
            break;
        }
    }
    let none = || anyhow!("{}: no question in it; `ldplayer inspect` tells what is", args.traces.join(", "));
    Ok(asked.coverage().ok_or_else(none)?)
}
