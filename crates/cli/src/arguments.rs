//! Errors of the arguments, each in one line as every other error, with the argument that was meant where that is certain.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};
use ldplayer_core::nearest;
use ldplayer_core::text::{without_secrets, without_userinfo};

use crate::Cli;
use crate::failure::BAD_INPUT;
use crate::printing;

/// What people come for, and the command that does it: all that `ldplayer` says without arguments.
pub const JOBS: [(&str, &str); 5] = [
    ("See it work", "ldplayer demo"),
    ("See what is in a capture", "ldplayer inspect capture.pcap"),
    ("Replay it against a server", "ldplayer replay capture.pcap --server 127.0.0.1"),
    ("Find how much a server bears", "ldplayer replay names.txt --server 127.0.0.1 --find 'p99 <= 50ms'"),
    ("Compare servers and what-ifs", "ldplayer experiment what-if.toml -o runs/what-if"),
];

fn first_words() -> String {
    let jobs: String = JOBS.iter().map(|(job, command)| format!("  {job}:\n    {command}\n")).collect();
    format!("{jobs}\n`ldplayer help` lists all commands, `ldplayer replay --help` the options of one.\n")
}

/// The command line as records keep it: without users and passwords in URLs.
pub fn given() -> Vec<String> {
    std::env::args_os().map(|argument| without_userinfo(&argument.to_string_lossy())).collect()
}

/// Prints help or version if asked for, and otherwise the error. Returns the exit status.
pub fn explain(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match error.print().and_then(|()| printing::stdout().flush()) {
                // A closed pipe is not an error: the reader has seen enough.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    tell!("ldplayer: {}", printing::of_stdout(error));
                    ExitCode::from(BAD_INPUT)
                }
                _ => ExitCode::SUCCESS,
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if std::env::args_os().len() < 2 => {
            printing::to_stderr(format_args!("{}", first_words()));
            ExitCode::from(BAD_INPUT)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(BAD_INPUT)
        }
        _ => {
            tell!("ldplayer: {}", without_secrets(&one_line(error)));
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// The error, the option that was perhaps meant, and where all are listed.
fn one_line(error: &Error) -> String {
    let rendered = error.render().to_string();
    let first = rendered.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.trim_start_matches("error: ").split_whitespace().collect();
    let what = words.join(" ");
    let command = command(error);
    match meant(error) {
        Some(meant) => format!("{what}: did you mean {meant}?"),
        // What a value may be is said already.
        None if matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) => what,
        None => format!("{what}; see `{command} --help`"),
    }
}

/// The option, value or command that was meant: a synonym's or that without the typing error. clap's own suggestions are by
/// likeness, and name what has nothing to do with the word.
fn meant(error: &Error) -> Option<String> {
    let (kind, known) = match error.kind() {
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, options(&called(error))),
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, commands(&called(error))),
        ErrorKind::InvalidValue => (ContextKind::InvalidValue, words(error, ContextKind::ValidValue)),
        _ => return None,
    };
    let word = words(error, kind).into_iter().next()?;
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    nearest::meant(&word, &known).map(|(meant, value)| match value {
        _ if error.kind() == ErrorKind::UnknownArgument && !meant.starts_with('-') => format!("the argument `{meant}`"),
        Some(value) => format!("`{meant} {value}`"),
        None => format!("`{meant}`"),
    })
}

/// What the error has of a kind.
fn words(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(word)) => vec![word.clone()],
        Some(ContextValue::Strings(words)) => words.clone(),
        _ => Vec::new(),
    }
}

/// The command whose arguments are wrong.
fn called(error: &Error) -> Command {
    let name = command(error);
    name.split(' ')
        .skip(1)
        .fold(Cli::command(), |command, name| command.find_subcommand(name).cloned().unwrap_or(command))
}

/// The options, and the names of the arguments without one.
fn options(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|option| !option.is_hide_set());
    let options = shown.filter_map(|option| option.get_long()).map(|long| format!("--{long}"));
    let names = command.get_positionals().filter_map(|argument| argument.get_value_names()?.first());
    options.chain(names.map(ToString::to_string)).collect()
}

fn commands(command: &Command) -> Vec<String> {
    command.get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// The command as it was called, out of its usage: `ldplayer zones build`.
fn command(error: &Error) -> String {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    let words: Vec<&str> = usage.split_whitespace().skip(1).take_while(is_name).collect();
    if words.is_empty() { "ldplayer".to_owned() } else { words.join(" ") }
}
