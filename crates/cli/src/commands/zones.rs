//! `ldplayer zones`: what can be made of a zone set.

mod build;
mod check;
mod fetch;
mod progress;
mod sign;
mod views;

use std::process::ExitCode;

use crate::failure::Failure;

/// Options of `zones`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Make zone files of the responses in captures
    Build(build::Args),
    /// Check a set: loading, delegations, DNSSEC, and what a trace would be answered with
    Check(check::Args),
    /// Ask the questions of a trace once, and make zone files of what the resolver found
    Fetch(Box<fetch::Args>),
    /// Sign zones: keys, signatures, NSEC or NSEC3, DS records in the parents, a trust anchor
    Sign(sign::Args),
    /// Write a BIND configuration with a view for each set of name server addresses
    Views(views::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.verb {
        Verb::Build(args) => build::run(args),
        Verb::Check(args) => check::run(args),
        Verb::Fetch(args) => fetch::run(args),
        Verb::Sign(args) => sign::run(args),
        Verb::Views(args) => views::run(args),
    }
}
