//! The `ldplayer` command: a subcommand is a thin file in `commands/`.

#![forbid(unsafe_code)]

#[macro_use]
mod printing;
mod commands;
mod failure;

use std::process::ExitCode;

use clap::Parser;
use ldplayer_net::signals;

use commands::Command;

/// DNS experimentation testbed: read recorded DNS traffic, replay it precisely on time, and report what happened.
#[derive(Parser)]
#[command(name = "ldplayer", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Where they cannot be caught, signals end the process as they would without us.
    let _ = signals::end_unless_caught();
    match cli.command.run() {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}
