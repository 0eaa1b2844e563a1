//! `ldplayer doctor`: what this machine can do, what limits it, and the command that lifts each limit.

mod checks;
mod finding;
mod frames;
mod noise;
mod precision;
mod probes;
mod table;

use std::process::ExitCode;

use crate::failure::Failure;
use probes::Probe;

/// Options of `doctor`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ldplayer doctor --json | jq '.[] | select(.ok | not)'")]
pub struct Args {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    /// Try one thing, and exit (used by doctor itself, in a process of its own)
    #[arg(long, hide = true)]
    probe: Option<Probe>,
}

/// Exit status when something lacks without which nothing runs.
const LACKING: u8 = 3;

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if let Some(probe) = args.probe {
        return probes::run(probe);
    }
    let findings = checks::all();
    if args.json {
        crate::printing::json(&findings)?;
    } else {
        crate::printing::to_stdout(format_args!("{}", table::render(&findings)))?;
    }
    let lacking = findings.iter().any(|finding| finding.essential && !finding.ok);
    Ok(if lacking { ExitCode::from(LACKING) } else { ExitCode::SUCCESS })
}
