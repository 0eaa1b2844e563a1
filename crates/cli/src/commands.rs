//! The subcommands, in the order of the flow: capture, trace, replay, report; then what helps around them.

mod agent;
mod agents;
mod compare;
mod convert;
mod demo;
mod doctor;
mod experiment;
mod fit;
mod generate;
mod including;
mod inspect;
mod mutate;
mod nats;
mod proxy;
mod ratio;
mod reading;
mod replay;
mod report;
mod serve;
mod testbed;
mod zones;

use std::process::ExitCode;

use crate::failure::Failure;

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Run the main job end to end on the bundled real capture
    Demo(demo::Args),
    /// Say what is in a trace
    Inspect(inspect::Args),
    /// Convert traces to Parquet, TSV, pcap or dnsperf text
    Convert(convert::Args),
    /// Make a trace from a model
    Generate(generate::Args),
    /// Learn a model from a trace
    Fit(fit::Args),
    /// Change a trace by rules, to ask what if
    Mutate(mutate::Args),
    /// Replay a trace against a server
    Replay(Box<replay::Args>),
    /// Play parts of runs that a controller on another host deals
    Agent(agent::Args),
    /// List the agents that are there
    Agents(agents::Args),
    /// Make a matrix of runs from one file: servers, what-ifs, repeats
    Experiment(experiment::Args),
    /// Compare response times over UDP and over new connections, and say why they differ
    Ratio(Box<ratio::Args>),
    /// Write or print the report of a run
    Report(report::Args),
    /// Say what differs between runs, and whether a gate is broken
    Compare(compare::Args),
    /// Work on zone sets
    Zones(zones::Args),
    /// Serve every zone of a set, chosen by the address that is asked
    Serve(serve::Args),
    /// Rewrite addresses on the wire as the paper's proxies do
    Proxy(proxy::Args),
    /// Run a command in a namespace where every address is local
    Testbed(testbed::Args),
    /// Say what this machine can do and what limits it
    Doctor(doctor::Args),
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
            Self::Compare(args) => compare::run(&args),
            Self::Zones(args) => zones::run(&args),
            Self::Serve(args) => serve::run(&args),
            Self::Proxy(args) => proxy::run(&args),
            Self::Testbed(args) => testbed::run(args),
            Self::Doctor(args) => doctor::run(args),
        }
    }
}
