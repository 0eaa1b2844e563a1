//! `ldplayer replay`: options make a specification, the run's report becomes words.

mod cluster;
mod find;
mod keys;
mod options;
pub mod progress;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use ldplayer_net::signals::INTERRUPTED;
use ldplayer_report::RunText;
use ldplayer_results::{AgentShare, Document, State};
use ldplayer_run::{FinishedRun, RunError, RunSpec, check_output, ineffective, ineffective_in_words, prepare};

use super::summary::{self, Form};
use crate::failure::{Failure, VERDICT_FAILED};
use crate::printing::{self, file_url};
pub use cluster::{ClusterArgs, HEADING};
pub use options::Args;
use progress::{Progress, Show};

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let progress = if args.quiet { Show::Off } else { args.progress };
    let print = Print { what: args.printed(), progress, probe: !args.no_probe && !args.quiet };
    let cluster = args.cluster.resolved(args.resume.is_some())?;
    if let Some(run) = &args.resume {
        return on_agents(run, print, |progress| cluster.resume(run, progress));
    }
    let spec = args.spec()?;
    heed_command(args, &spec)?;
    if args.print_spec {
        printing::text(&spec.to_toml())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(lacking) = spec.lacking() {
        return Err(anyhow::anyhow!(lacking).into());
    }
    if let Some(wanted) = &args.find {
        return find::run(args, &spec, wanted);
    }
    let output = args.output();
    check_output(&output, args.force).map_err(RunError::from).map_err(failure)?;
    if !args.quiet {
        ineffective_in_words(&ineffective(&spec)).iter().for_each(|line| tell!("ldplayer: {line}"));
    }
    if cluster.nats.is_some() {
        return on_agents(&output, print, |progress| cluster.execute(&spec, (&output, args.force), progress));
    }
    execute(spec, &output, args.force, print)
}

/// Announces the command that a file or an earlier run starts, and refuses the command of a run that somebody else may have made.
fn heed_command(args: &Args, spec: &RunSpec) -> Result<(), Failure> {
    let Some(command) = spec.start_server.as_ref().filter(|_| !args.keys.has("start_server") && !args.print_spec)
    else {
        return Ok(());
    };
    let source = args.again.as_ref().or(args.spec.as_ref()).map_or_else(String::new, |path| path.display().to_string());
    if let Some(run) = args.again.as_ref().filter(|run| !args.allow_command && !is_own(run)) {
        let what = "this user did not make it on this host; if that is what you want to run, add --allow-command";
        return Err(anyhow::anyhow!("--again {}: it starts `{command}`, and {what}", run.display()).into());
    }
    tell!("ldplayer: {source}: starts `{command}`");
    Ok(())
}

/// Whether this user has made a run on this host: its file is theirs, and says so.
fn is_own(run: &Path) -> bool {
    let is_theirs =
        std::fs::metadata(run.join("run.json")).is_ok_and(|file| file.uid() == ldplayer_net::rights::user());
    let host = ldplayer_net::machine::facts().host;
    let made = ldplayer_results::read_document::<serde_json::Value>(run);
    is_theirs && made.is_ok_and(|made| made.report.environment.machine.host == host)
}

/// Makes the run on agents and prints its report.
fn on_agents(
    output: &Path,
    print: Print,
    make: impl FnOnce(&mut Progress) -> Result<Document<RunSpec>, Failure>,
) -> Result<ExitCode, Failure> {
    let mut progress = Progress::new(print.progress).map_err(Failure::environment)?;
    let made = make(&mut progress);
    progress.end();
    show(&made?, output, print.what)
}

/// What is printed of a run.
#[derive(Clone, Copy, Debug)]
pub struct Print {
    /// When it has ended, on standard output.
    pub what: Printed,
    /// While it lasts, on standard error.
    pub progress: Show,
    /// Before it, on standard error: what one question to each server shows to be wrong.
    pub probe: bool,
}

impl Print {
    /// The report, and progress as it suits.
    pub const SHOWN: Self = Self { what: Printed::Report, progress: Show::Auto, probe: false };
}

/// What is printed when a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    /// The report.
    Report,
    /// run.json.
    Json,
    /// One line.
    Summary(Form),
    /// Nothing, or one line where a verdict failed.
    Nothing,
}

/// Makes the run in `output` and prints its report.
pub fn execute(spec: RunSpec, output: &Path, force: bool, print: Print) -> Result<ExitCode, Failure> {
    let prepared = prepare(spec).map_err(failure)?;
    prepared.announcements().map_err(failure)?.iter().for_each(|line| tell!("ldplayer: {line}"));
    let mut progress = Progress::new(print.progress).map_err(Failure::environment)?;
    if print.probe {
        prepared.probe(&mut progress).iter().for_each(|line| tell!("ldplayer: {line}"));
    }
    if progress.is_shown() {
        progress.set_total(prepared.expected_ns());
    }
    let made = prepared.execute(output, force, crate::arguments::given(), &mut progress);
    progress.end();
    let FinishedRun { document, rules } = made.map_err(failure)?;
    let status = show(&document, output, print.what)?;
    if print.what != Printed::Nothing {
        super::mutate::warn(&rules);
    }
    Ok(status)
}

/// Prints the report of a run: figures, and in the last line both verdicts and the page that has more.
pub fn print_report(report: &ldplayer_results::RunReport, page: &Path) -> std::io::Result<()> {
    printing::report(format_args!("{}\n{} · report: {}\n", RunText(report), RunText(report).outcome(), file_url(page)))
}

/// Prints the result of a run. Returns its exit status.
fn show(document: &Document<RunSpec>, output: &Path, printed: Printed) -> Result<ExitCode, Failure> {
    match printed {
        Printed::Report => print_report(&document.report, &output.join("report.html"))?,
        Printed::Json => printing::json(&document)?,
        Printed::Summary(form) => summary::print(form, &[(output, &document.report)])?,
        Printed::Nothing if !document.report.verdict.passes() => {
            tell!("ldplayer: {}", RunText(&document.report).outcome())
        }
        Printed::Nothing => {}
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

/// The exit status of a run that could not be made.
fn failure(error: RunError) -> Failure {
    if error.is_of_environment() { Failure::environment(error) } else { Failure::from(error) }
}
