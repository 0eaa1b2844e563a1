//! The subcommands, in the order of the flow: capture, trace, replay, report; then what helps around them.

mod agent;
mod agents;
mod answering;
mod archive;
mod compare;
mod completions;
mod convert;
mod demo;
mod doctor;
mod encrypting;
mod experiment;
mod find;
mod fit;
mod generate;
mod including;
mod inspect;
mod man;
mod mutate;
mod nats;
mod notifying;
mod proxy;
mod ratio;
mod reading;
mod replay;
mod report;
mod rows;
mod serve;
mod summary;
mod testbed;
mod when;
mod zones;

use std::process::ExitCode;

use anyhow::anyhow;

use crate::failure::Failure;

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Replay a bundled capture of a root server, end to end
    Demo(demo::Args),
    /// Show what is in a trace
    Inspect(inspect::Args),
    /// Convert traces to Parquet, TSV, pcap or dnsperf text
    Convert(convert::Args),
    /// Generate a trace from a model
    Generate(generate::Args),
    /// Fit a model to a trace
    Fit(fit::Args),
    /// Change a trace by rules: what if?
    Mutate(mutate::Args),
    /// Replay a trace against a server
    Replay(Box<replay::Args>),
    /// Take part in replays of a controller on another host
    Agent(agent::Args),
    /// List the agents of a NATS server
    Agents(agents::Args),
    /// Run a matrix of replays from one file: servers, what-ifs, repeats
    Experiment(experiment::Args),
    /// Compare response times over UDP with those over new connections
    Ratio(Box<ratio::Args>),
    /// Print the report of a run, and write its page again
    Report(report::Args),
    /// Print rows of a run
    Rows(rows::Args),
    /// Pack a run into one file for another host
    Archive(archive::Args),
    /// Compare runs, with confidence, and check gates
    Compare(compare::Args),
    /// Build, fetch, check and sign zones
    Zones(zones::Args),
    /// Serve a zone set: the zone is chosen by the address that is asked
    Serve(serve::Args),
    /// Rewrite addresses on the wire, as the proxies of the LDplayer paper do
    Proxy(proxy::Args),
    /// Make network namespaces in which every address is local
    Testbed(testbed::Args),
    /// Show what this machine can do, and how to lift each limit
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Say where searches are
    #[command(hide = true)]
    Find(find::Args),
    /// Write manual pages (used by packages)
    #[command(hide = true)]
    Man(man::Args),
}

/// The subcommands that there are on other systems than Linux, too.
pub const ELSEWHERE: [&str; 13] = [
    "inspect",
    "convert",
    "generate",
    "fit",
    "mutate",
    "zones",
    "report",
    "rows",
    "archive",
    "compare",
    "completions",
    "find",
    "man",
];

/// Refuses a subcommand that needs Linux.
pub fn needs_linux(name: &str) -> Failure {
    let others = ELSEWHERE.join(", ");
    Failure::environment(anyhow!("`ldplayer {name}` needs Linux; on this system there are: {others}"))
}

impl Command {
    /// Runs the subcommand.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Demo(args) => demo::run(args),
            Self::Inspect(args) => inspect::run(args),
            Self::Convert(args) => convert::run(args),
            Self::Generate(args) => generate::run(&args),
            Self::Fit(args) => fit::run(&args),
            Self::Mutate(args) => mutate::run(&args),
            Self::Replay(args) => replay::run(&args),
            Self::Agent(args) => agent::run(args),
            Self::Agents(args) => agents::run(&args),
            Self::Experiment(args) => experiment::run(&args),
            Self::Ratio(args) => ratio::run(&args),
            Self::Report(args) => report::run(args),
            Self::Rows(args) => rows::run(&args),
            Self::Archive(args) => archive::run(&args),
            Self::Compare(args) => compare::run(&args),
            Self::Zones(args) => zones::run(&args),
            Self::Serve(args) => serve::run(&args),
            Self::Proxy(args) => proxy::run(&args),
            Self::Testbed(args) => testbed::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Completions(args) => completions::run(&args),
            Self::Find(args) => find::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}
