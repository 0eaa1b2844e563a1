//! `ldplayer find`: a word that people look for; it says where searches are.

use std::process::ExitCode;

use anyhow::anyhow;

use crate::failure::Failure;

/// Whatever was given.
#[derive(clap::Args)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    given: Vec<String>,
}

/// Names the commands that search.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let trace = args.given.first().filter(|word| !word.starts_with('-')).map_or("TRACE", String::as_str);
    Err(anyhow!(
        "find: the largest load is searched by `ldplayer replay {trace} --server ADDRESS --find 'p99 <= 50ms'`, or by [find] in the \
         file of `ldplayer experiment`"
    )
    .into())
}
