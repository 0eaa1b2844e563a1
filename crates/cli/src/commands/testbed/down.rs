//! `ldplayer testbed down`: takes a testbed down, also what a crash has left of it.

use std::process::ExitCode;

use ldplayer_emulate::testbed::{State, Was, folder};

use super::{Name, failure};
use crate::failure::Failure;

/// Options of `testbed down`.
#[derive(clap::Args)]
#[command(after_help = "\
Every process in the testbed is ended, whoever started it: asked first, and killed after five
seconds. Nothing to take down is no error.

Example: ldplayer testbed down --name second")]
pub struct Args {
    #[command(flatten)]
    name: Name,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let name = &args.name.name;
    let down = State::down(&folder().map_err(failure)?, name).map_err(failure)?;
    let ended = match down.ended {
        0 => String::new(),
        1 => "; 1 process in it was ended".to_owned(),
        count => format!("; {count} processes in it were ended"),
    };
    match down.was {
        Was::Up => say!("testbed {name} is down{ended}")?,
        Was::Crashed => say!("what a crash had left of testbed {name} is cleared{ended}")?,
        Was::Absent => say!("testbed {name} was not up")?,
    }
    Ok(ExitCode::SUCCESS)
}
