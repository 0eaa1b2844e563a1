//! `ldplayer replay`: options make a specification, the run's report becomes words.

mod cluster;
mod options;
mod policy;
pub mod progress;

use std::path::Path;
use std::process::ExitCode;

use ldplayer_core::printable::Printable;
use ldplayer_net::signals::INTERRUPTED;
use ldplayer_results::{AgentShare, Document, State};
use ldplayer_run::{Prepared, RunError, RunReport, RunSpec, prepare};

use crate::failure::{Failure, VERDICT_FAILED};
pub use cluster::ClusterArgs;
pub use options::{Args, parse_speed};
use progress::Progress;

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let print = match (args.quiet, args.json) {
        (true, _) => Print::Nothing,
        (false, true) => Print::Json,
        (false, false) => Print::Report,
    };
    if let Some(run) = &args.resume {
        return on_agents(run, print, |progress| args.cluster.resume(run, progress));
    }
    let spec = args.spec()?;
    if args.print_spec {
        print!("{}", spec.to_toml());
        return Ok(ExitCode::SUCCESS);
    }
    if args.cluster.nats.is_some() {
        let output = args.output();
        return on_agents(&output, print, |progress| args.cluster.execute(&spec, (&output, args.force), progress));
    }
    execute(spec, &args.output(), args.force, print)
}

/// Makes the run on agents and prints its report.
fn on_agents(
    output: &Path,
    print: Print,
    make: impl FnOnce(&mut Progress) -> Result<Document<RunSpec>, Failure>,
) -> Result<ExitCode, Failure> {
    let mut progress = Progress::new(print != Print::Nothing).map_err(Failure::environment)?;
    let made = make(&mut progress);
    progress.end();
    show(&made?, output, print)
}

/// What is printed of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Print {
    /// The report, and progress on a terminal.
    Report,
    /// run.json, and progress on a terminal.
    Json,
    /// Errors only.
    Nothing,
}

/// Makes the run in `output` and prints its report.
pub fn execute(spec: RunSpec, output: &Path, force: bool, print: Print) -> Result<ExitCode, Failure> {
    let prepared = prepare(spec).map_err(failure)?;
    announce(&prepared)?;
    let mut progress = Progress::new(print != Print::Nothing).map_err(Failure::environment)?;
    let made = prepared.execute(output, force, std::env::args().collect(), &mut progress);
    progress.end();
    let RunReport { document, rules } = made.map_err(failure)?;
    let status = show(&document, output, print)?;
    if print != Print::Nothing {
        super::mutate::warn(&rules);
    }
    Ok(status)
}

/// Prints what became of a run. Returns its exit status.
fn show(document: &Document<RunSpec>, output: &Path, print: Print) -> Result<ExitCode, Failure> {
    match print {
        Print::Report => println!("{}\nrun directory: {}", document.report, Printable(output.display())),
        Print::Json => println!("{}", serde_json::to_string_pretty(&document)?),
        Print::Nothing => {}
    }
    let is_lost =
        |agent: &AgentShare| agent.lost.is_some() || agent.replaced_by.is_some() || agent.ended_early.is_some();
    let has_lost = document.report.agents.iter().any(is_lost);
    Ok(match document.report.state {
        // Nobody interrupted it: it is a run that failed.
        _ if has_lost => ExitCode::from(VERDICT_FAILED),
        State::Interrupted => ExitCode::from(INTERRUPTED),
        _ if document.report.verdict.passes() => ExitCode::SUCCESS,
        _ => ExitCode::from(VERDICT_FAILED),
    })
}

/// Says what names mean, and what is about to be sent to public addresses, before the first packet.
pub fn announce(prepared: &Prepared) -> Result<(), Failure> {
    prepared.resolved().for_each(|line| tell!("ldplayer: {line}"));
    if prepared.public_targets().is_empty() {
        return Ok(());
    }
    let load = match prepared.load().map_err(failure)? {
        Some(load) => format!("up to {} queries ({} bytes)", load.queries, load.octets),
        None => "the queries of its input, as they come,".to_owned(),
    };
    for server in prepared.public_targets() {
        tell!("ldplayer: about to send {load} to the public address {server}");
    }
    Ok(())
}

/// The exit status of a run that could not be made.
fn failure(error: RunError) -> Failure {
    if error.is_of_environment() { Failure::environment(error) } else { Failure::from(error) }
}
