//! What is wrong with the arguments, in one line as for every other error, with the nearest word that there is.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::BAD_INPUT;
use crate::printing;

/// Prints help or the version where that was asked for, and otherwise what is wrong. Returns the exit status.
pub fn explain(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match error.print().and_then(|()| io::stdout().flush()) {
                // A reader who has gone has read what they wanted.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    tell!("ldplayer: {}", printing::of_stdout(error));
                    ExitCode::from(BAD_INPUT)
                }
                _ => ExitCode::SUCCESS,
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(BAD_INPUT)
        }
        _ => {
            tell!("ldplayer: {}", one_line(error));
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// The error, what was perhaps meant, and where the options are listed.
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

/// The nearest argument, value or command.
fn meant(error: &Error) -> Option<String> {
    let nearest = |kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.clone()),
        ContextValue::Strings(words) => words.first().cloned(),
        _ => None,
    };
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    kinds.into_iter().find_map(nearest).map(|word| format!("`{word}`"))
}

/// The command as it was called, out of its usage: `ldplayer zones build`.
fn command(error: &Error) -> String {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    let words: Vec<&str> = usage.split_whitespace().skip(1).take_while(is_name).collect();
    if words.is_empty() { "ldplayer".to_owned() } else { words.join(" ") }
}
