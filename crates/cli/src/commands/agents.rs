//! `ldplayer agents`: lists the agents that are there.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use ldplayer_cluster::message::Hello;
use ldplayer_cluster::{Bus, agents};
use ldplayer_core::printable::Printable;
use ldplayer_core::time::Span;

use super::nats::Credentials;
use crate::failure::Failure;

/// Options of `agents`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ldplayer agents --nats nats://ldplayer:PASSWORD@10.0.0.1")]
pub struct Args {
    /// NATS server
    #[arg(long, value_name = "URL", env = "NATS_URL", hide_env_values = true)]
    nats: String,
    #[command(flatten)]
    credentials: Credentials,
    /// Wait this long for answers
    #[arg(long, value_name = "TIME", default_value = "1s")]
    within: Span,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let bus = Bus::connect(&args.credentials.link(&args.nats), "ldplayer agents").map_err(Failure::environment)?;
    let within = Duration::from_nanos(args.within.ns().unsigned_abs());
    let found = agents(&bus, within, usize::MAX).map_err(Failure::environment)?;
    let mut stdout = crate::printing::stdout();
    if args.json {
        crate::printing::json(&found)?;
    } else {
        write!(stdout, "{}", table(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One line an agent.
fn table(agents: &[Hello]) -> String {
    let row = |hello: &Hello| {
        let sources: Vec<String> = hello.sources.iter().map(ToString::to_string).collect();
        [
            hello.name.clone(),
            hello.run.clone().map_or_else(|| "free".to_owned(), |run| format!("has {run}")),
            hello.cores.to_string(),
            hello.files.to_string(),
            hello.ports.to_string(),
            if sources.is_empty() { "the host's".to_owned() } else { sources.join(" ") },
            hello.clock.clone(),
            hello.release.clone(),
        ]
        .map(|cell| Printable(cell).to_string())
    };
    let head =
        ["agent", "state", "cores", "open files", "ports", "sources", "clock kept by", "release"].map(str::to_owned);
    let rows: Vec<[String; 8]> = [head].into_iter().chain(agents.iter().map(row)).collect();
    let widths: Vec<usize> =
        (0..8).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String; 8]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let listed: String = rows.iter().map(line).collect();
    if agents.is_empty() { "no agent answers; start one with `ldplayer agent --nats URL`\n".to_owned() } else { listed }
}
