//! A replay on several hosts: options, and the lab on one host that `--nats embedded` makes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ldplayer_cluster::{Bus, ClusterError, Embedded, Order, direct, run_name};
use ldplayer_core::time::Span;
use ldplayer_emulate::stock::{Output, Process};
use ldplayer_results::Document;
use ldplayer_run::{Observer, RunSpec};

use super::super::nats::Credentials;
use crate::failure::Failure;

/// The word for a server of our own.
const EMBEDDED: &str = "embedded";
/// Nanoseconds of the run that agents read ahead.
const AHEAD_NS: i64 = 10_000_000_000;
/// Octets that may wait for one agent at the NATS server.
const ROOM: i64 = 1 << 30;

/// Options of a replay on several hosts.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ClusterArgs {
    /// Replay on the agents of this NATS server (see `ldplayer agent`); embedded starts a server and the agents on this host
    #[arg(long, value_name = "URL", requires = "agents")]
    pub nats: Option<String>,
    /// Replay on so many agents
    #[arg(long, value_name = "N", requires = "nats", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub agents: Option<u16>,
    /// How long so many agents are waited for
    #[arg(long, value_name = "TIME", requires = "nats")]
    pub agents_within: Option<Span>,
    /// Servers of a NATS cluster that keep a copy of what waits for agents: 3 stand the loss of one
    #[arg(long, value_name = "N", requires = "nats", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub nats_replicas: Option<u8>,
    #[command(flatten)]
    pub credentials: Credentials,
}

impl ClusterArgs {
    fn order(&self, agents: u16) -> Order {
        Order {
            name: run_name(),
            agents: usize::from(agents),
            patience: self
                .agents_within
                .map_or(Duration::from_secs(30), |span| Duration::from_nanos(span.ns().unsigned_abs())),
            ahead_ns: AHEAD_NS,
            room: ROOM,
            replicas: usize::from(self.nats_replicas.unwrap_or(1)),
            command_line: std::env::args().collect(),
        }
    }

    /// Makes the run.
    pub fn execute(
        &self,
        spec: &RunSpec,
        output: (&Path, bool),
        observer: &mut dyn Observer,
    ) -> Result<Document<RunSpec>, Failure> {
        let (url, agents) = (self.nats.as_deref().unwrap_or(EMBEDDED), self.agents.unwrap_or(1));
        if url != EMBEDDED {
            return self.direct(spec, url, agents, output, observer);
        }
        let lab = lab(agents)?;
        self.direct(spec, &lab.server.link().url, agents, output, observer)
    }

    fn direct(
        &self,
        spec: &RunSpec,
        url: &str,
        agents: u16,
        output: (&Path, bool),
        observer: &mut dyn Observer,
    ) -> Result<Document<RunSpec>, Failure> {
        let bus = Bus::connect(&self.credentials.link(url), "ldplayer controller").map_err(Failure::environment)?;
        direct(&bus, spec.clone(), &self.order(agents), output, observer).map_err(failure)
    }
}

/// A NATS server and agents on this host, ended with their owner: the agents first.
struct Lab {
    _agents: Vec<Process>,
    server: Embedded,
}

fn lab(agents: u16) -> Result<Lab, Failure> {
    let server = Embedded::start().map_err(Failure::environment)?;
    let program = std::env::current_exe()?;
    let agent = |number: u16| {
        let name = format!("agent-{number}");
        let mut command = Command::new(&program);
        // The URL has a password, which would be seen among the arguments.
        command.args(["agent", "--name", &name]).env("NATS_URL", &server.link().url);
        Process::start(name, &mut command, Output::Stderr)
    };
    let agents = (1..=agents).map(agent).collect::<Result<Vec<_>, _>>().map_err(Failure::environment)?;
    Ok(Lab { _agents: agents, server })
}

/// What cannot be here has exit status 3; what is wrong with the run itself has that of any run.
fn failure(error: ClusterError) -> Failure {
    match error {
        ClusterError::Run(error) => super::failure(error),
        error => Failure::environment(error),
    }
}
