//! `ldplayer convert`.

use std::process::ExitCode;

use crate::failure::Failure;

/// Options of `convert`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> Result<ExitCode, Failure> {
    Err(Failure::environment(anyhow::anyhow!("convert: not built yet")))
}
