//! `ldplayer inspect`.

use std::process::ExitCode;

use crate::failure::Failure;

/// Options of `inspect`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode, Failure> {
    Err(Failure::environment(anyhow::anyhow!("inspect: not built yet")))
}
