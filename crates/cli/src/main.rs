//! The `ldplayer` command: a subcommand is a thin file in `commands/`.
//!
//! # Files
//!
//! The binary. A subcommand is a file in `commands/` that joins the crates above and words errors for the user. `arguments.rs`
//! words errors of the arguments, `printing.rs` prints what people read.

#![forbid(unsafe_code)]
// Both panic where nobody reads; see `printing.rs`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod printing;
mod arguments;
mod commands;
mod failure;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use ldplayer_net::{process, signals};

use commands::{Command, ELSEWHERE, needs_linux};

/// DNS experimentation testbed: read recorded DNS traffic, replay it precisely on time, and report what happened.
#[derive(Parser)]
#[command(name = "ldplayer", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let (cli, name) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return arguments::explain(&error),
    };
    process::hide_secrets();
    if cfg!(not(target_os = "linux")) && !ELSEWHERE.contains(&&*name) {
        return needs_linux(&name).report();
    }
    // Where they cannot be caught, signals end the process as they would without us.
    let _ = signals::end_unless_caught();
    match cli.command.run() {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}

/// The command line, and the name of the subcommand.
fn parse() -> Result<(Cli, String), clap::Error> {
    let matches = Cli::command().try_get_matches()?;
    let name = matches.subcommand_name().unwrap_or_default().to_owned();
    Ok((Cli::from_arg_matches(&matches)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands below the options of each command, in the short help and in the long one.
    fn notes() -> Vec<(String, String)> {
        let (mut commands, mut notes) = (vec![Cli::command()], Vec::new());
        while let Some(command) = commands.pop() {
            let texts = [command.get_after_help(), command.get_after_long_help()].into_iter().flatten();
            notes.extend(texts.map(|text| (command.get_name().to_owned(), text.to_string())));
            commands.extend(command.get_subcommands().cloned());
        }
        notes
    }

    /// Wrapped again for a terminal of a hundred columns, longer lines leave a word on a line of its own.
    #[test]
    fn the_prose_of_help_fits_its_width() {
        for (command, help) in notes() {
            let prose = help.lines().filter(|line| !line.starts_with(' '));
            let long: Vec<&str> = prose.filter(|line| line.chars().count() > 100).collect();
            assert!(long.is_empty(), "{command}: {long:?}");
        }
    }

    /// The words of an example, as a shell reads them: in single quotes, a blank is one of the word.
    fn words(example: &str) -> Vec<String> {
        let (mut words, mut is_quoted) = (vec![String::new()], false);
        for letter in example.chars() {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                letter => words.last_mut().unwrap().push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// The calls of `ldplayer` in an example, those that another one runs included.
    fn calls(example: &str) -> Vec<Vec<String>> {
        let words = words(example);
        let joins = |word: &String| ["|", "&&", "&"].contains(&word.as_str());
        let mut calls = Vec::new();
        for command in words.split(joins) {
            let end = command.iter().position(|word| word.starts_with('>')).unwrap_or(command.len());
            let starts = (0..end).filter(|&at| command[at] == "ldplayer");
            calls.extend(starts.map(|at| command[at..end].to_vec()));
        }
        calls
    }

    /// A terminal of eighty columns does not wrap them; a wrapped command breaks when it is pasted.
    #[test]
    fn examples_fit_a_terminal_and_are_calls_that_the_command_takes() {
        let mut count = 0;
        for (command, help) in notes() {
            let lines = help.lines().skip_while(|line| !line.starts_with("Example"));
            let examples: Vec<&str> = lines.filter(|line| line.starts_with("  ") && !line.ends_with(':')).collect();
            let long: Vec<&&str> = examples.iter().filter(|line| line.chars().count() > 80).collect();
            assert!(long.is_empty(), "{command}: {long:?}");
            let text = examples.join("\n").replace("\\\n", " ").replace("|\n", "| ").replace("&&\n", "&& ");
            for call in text.lines().flat_map(calls) {
                count += 1;
                Cli::try_parse_from(&call).unwrap_or_else(|error| panic!("{command}: {call:?}: {error}"));
            }
        }
        assert!(count > 60, "{count} examples");
    }

    #[test]
    fn what_other_systems_have_are_subcommands_and_the_rest_is_refused_there_in_one_line() {
        let all: Vec<String> = Cli::command().get_subcommands().map(|one| one.get_name().to_owned()).collect();
        assert!(ELSEWHERE.iter().all(|name| all.iter().any(|one| one == name)), "{all:?}");
        let refused = needs_linux("replay").to_string();
        assert!(refused.starts_with("`ldplayer replay` needs Linux; ") && refused.contains("convert"), "{refused}");
    }

    #[test]
    fn the_commands_for_five_jobs_are_calls_that_are_taken() {
        for (job, command) in arguments::JOBS {
            let [call] = calls(command).try_into().unwrap();
            Cli::try_parse_from(&call).unwrap_or_else(|error| panic!("{job}: {error}"));
        }
    }
}
