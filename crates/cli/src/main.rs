//! The `ldplayer` command: a subcommand is a thin file in `commands/`.

#![forbid(unsafe_code)]
// Both panic where nobody reads; see `printing.rs`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod printing;
mod arguments;
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return arguments::explain(&error),
    };
    // Where they cannot be caught, signals end the process as they would without us.
    let _ = signals::end_unless_caught();
    match cli.command.run() {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Wrapped again for a terminal of a hundred columns, longer lines leave a word on a line of its own.
    #[test]
    fn the_prose_of_help_fits_its_width() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let prose = help.lines().filter(|line| !line.starts_with(' '));
            let long: Vec<&str> = prose.filter(|line| line.chars().count() > 100).collect();
            assert!(long.is_empty(), "{}: {long:?}", command.get_name());
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
