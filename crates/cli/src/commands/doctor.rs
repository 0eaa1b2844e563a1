//! `ldplayer doctor`: what this machine can do, what limits it, and the command that lifts each limit.

mod checks;
mod noise;

use std::process::ExitCode;

use crate::failure::Failure;
use checks::Finding;

/// Options of `doctor`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ldplayer doctor --json | jq '.[] | select(.ok | not)'")]
pub struct Args {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    /// Try to make a testbed, and exit (used by doctor itself, in a process of its own)
    #[arg(long, hide = true)]
    probe_testbed: bool,
}

/// Exit status when something lacks without which nothing runs.
const LACKING: u8 = 3;

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.probe_testbed {
        return checks::probe_testbed();
    }
    let findings = checks::all();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        findings.iter().for_each(print);
    }
    let lacking = findings.iter().any(|finding| finding.essential && !finding.ok);
    Ok(if lacking { ExitCode::from(LACKING) } else { ExitCode::SUCCESS })
}

fn print(finding: &Finding) {
    let mark = match (finding.ok, finding.essential) {
        (true, _) => "ok",
        (false, false) => "limit",
        (false, true) => "LACKS",
    };
    println!("{mark:5}  {:22} {:34} {}", finding.name, finding.found, finding.needed);
    if !finding.ok && !finding.lift.is_empty() {
        println!("       {:22} to lift: {}", "", finding.lift);
    }
}
