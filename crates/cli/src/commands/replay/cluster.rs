//! A replay on several hosts: options, and the lab on one host that `--nats embedded` makes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::anyhow;
use ldplayer_cluster::{Bus, ClusterError, Embedded, OnLoss, Order, direct, resume, run_name};
use ldplayer_core::Cidr;
use ldplayer_core::time::Span;
use ldplayer_emulate::stock::{Output, Process};
use ldplayer_results::Document;
use ldplayer_run::{Observer, RunError, RunSpec};

use super::super::nats::Credentials;
use crate::failure::Failure;

/// The heading of these options.
pub const HEADING: &str = "Several hosts";
/// The word for a server of our own.
const EMBEDDED: &str = "embedded";
/// Nanoseconds of the run that agents read ahead.
const AHEAD_NS: i64 = 10_000_000_000;
/// Octets that may wait for all agents at the NATS server, and for one: at least and at most. The server sets them aside.
const ROOM: i64 = 32 << 30;
const ROOM_OF_ONE: (i64, i64) = (64 << 20, 1 << 30);

/// Options of a replay on several hosts.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ClusterArgs {
    /// Replay on the agents of this NATS server; `embedded` makes a lab on this host
    ///
    /// See `ldplayer agent`. `embedded` starts a NATS server and the agents on this host. Without this option, --agents takes
    /// the URL from NATS_URL.
    #[arg(long, value_name = "URL", help_heading = HEADING, hide_short_help = true)]
    pub nats: Option<String>,
    /// Number of agents
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    #[arg(help_heading = HEADING, hide_short_help = true)]
    pub agents: Option<u16>,
    /// When an agent is lost: stop, continue or reassign [default: stop]
    ///
    /// stop ends the run and keeps what the others measured, continue lets the others go on, reassign gives its clients to another
    /// agent.
    #[arg(long, value_name = "POLICY", requires = "agents", help_heading = HEADING, hide_short_help = true)]
    pub on_agent_loss: Option<OnLoss>,
    /// More agents that read and deal the trace with the controller, where one host is too slow
    ///
    /// The trace must be on their hosts under the same name.
    #[arg(long, value_name = "N", requires = "agents", conflicts_with = "local", value_parser = clap::value_parser!(u16).range(1..=100))]
    #[arg(help_heading = HEADING, hide_short_help = true)]
    pub feeders: Option<u16>,
    /// Let each agent read the trace itself, under the same name on its host
    #[arg(long, requires = "agents", help_heading = HEADING, hide_short_help = true)]
    pub local: bool,
    /// With --local: store the trace at the NATS server, from where each agent fetches it
    #[arg(long, requires = "local", help_heading = HEADING, hide_short_help = true)]
    pub upload: bool,
    /// Wait this long for the agents [default: 30s]
    #[arg(long, value_name = "DURATION", requires = "agents", help_heading = HEADING, hide_short_help = true)]
    pub agents_within: Option<Span>,
    /// Copies of the queries in a NATS cluster: with 3 the run survives the loss of a server [default: 1]
    #[arg(long, value_name = "N", requires = "agents", value_parser = clap::value_parser!(u8).range(1..=5), help_heading = HEADING)]
    #[arg(hide_short_help = true)]
    pub nats_replicas: Option<u8>,
    #[command(flatten)]
    pub credentials: Credentials,
}

impl ClusterArgs {
    /// The same with the server of NATS_URL, where agents are asked for and none is named. `resumes` says that their run goes on.
    pub fn resolved(&self, resumes: bool) -> Result<Self, Failure> {
        if self.nats.is_some() || !(resumes || self.agents.is_some()) {
            return Ok(self.clone());
        }
        let option = if resumes { "--resume" } else { "--agents" };
        let url = std::env::var("NATS_URL").ok().filter(|url| !url.is_empty());
        let url = url.ok_or_else(|| anyhow!("{option}: add --nats URL, or set NATS_URL"))?;
        Ok(Self { nats: Some(url), ..self.clone() })
    }

    fn order(&self, agents: u16) -> Order {
        Order {
            name: run_name(),
            agents: usize::from(agents),
            patience: self
                .agents_within
                .map_or(Duration::from_secs(30), |span| Duration::from_nanos(span.ns().unsigned_abs())),
            ahead_ns: AHEAD_NS,
            room: (ROOM / i64::from(agents)).clamp(ROOM_OF_ONE.0, ROOM_OF_ONE.1),
            replicas: usize::from(self.nats_replicas.unwrap_or(1)),
            on_loss: self.on_agent_loss.unwrap_or_default(),
            own_trace: self.local,
            upload: self.upload,
            feeders: usize::from(self.feeders.unwrap_or(0)),
            command_line: crate::arguments::given(),
        }
    }

    /// Makes the run.
    pub fn execute(
        &self,
        spec: &RunSpec,
        output: (&Path, bool),
        observer: &mut dyn Observer,
    ) -> Result<Document<RunSpec>, Failure> {
        let (hosts, order) = (self.hosts(&spec.allow_target)?, self.order(self.count()?));
        direct(&hosts.bus, spec.clone(), &order, output, observer).map_err(failure)
    }

    /// Goes on with the run in a directory, whose controller ended before its time.
    pub fn resume(&self, run: &Path, observer: &mut dyn Observer) -> Result<Document<RunSpec>, Failure> {
        if self.nats.as_deref() == Some(EMBEDDED) {
            return Err(anyhow!(
                "--resume: the server and the agents of --nats embedded ended with their controller: start a new run"
            )
            .into());
        }
        resume(&self.hosts(&[])?.bus, run, observer).map_err(failure)
    }

    /// Connects to the given NATS server, or starts one here with its agents, which may send load to these blocks.
    pub fn hosts(&self, targets: &[Cidr]) -> Result<Hosts, Failure> {
        let url = self.nats.as_deref().unwrap_or(EMBEDDED);
        let connect = |url: &str| Bus::connect(&self.credentials.link(url), "ldplayer controller");
        if url != EMBEDDED {
            return Ok(Hosts { bus: connect(url).map_err(Failure::environment)?, _lab: None });
        }
        let lab = lab(self.count()? + self.feeders.unwrap_or(0), targets)?;
        let bus = connect(&lab.server.link().url).map_err(Failure::environment)?;
        Ok(Hosts { bus, _lab: Some(lab) })
    }

    /// How many agents are asked for.
    fn count(&self) -> Result<u16, Failure> {
        self.agents.ok_or_else(|| anyhow!("--nats: add --agents N").into())
    }

    /// The run of an experiment on agents.
    pub fn replayer(&self, hosts: Hosts) -> Result<Replayer, Failure> {
        Ok(Replayer { hosts, order: self.order(self.count()?) })
    }
}

/// The way to the agents. A lab on this host ends with it.
#[derive(Debug)]
pub struct Hosts {
    bus: Bus,
    _lab: Option<Lab>,
}

/// Agents as an experiment has its runs made.
#[derive(Debug)]
pub struct Replayer {
    hosts: Hosts,
    order: Order,
}

impl ldplayer_experiment::Replayer for Replayer {
    fn replay(
        &self,
        spec: RunSpec,
        directory: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Document<RunSpec>, RunError> {
        let order = Order { name: run_name(), ..self.order.clone() };
        direct(&self.hosts.bus, spec, &order, (directory, false), observer).map_err(|error| match error {
            ClusterError::Run(error) => error,
            error => RunError::Environment(error.to_string()),
        })
    }
}

/// A NATS server and agents on this host, ended with their owner: the agents first.
#[derive(Debug)]
struct Lab {
    _agents: Vec<Process>,
    server: Embedded,
}

fn lab(agents: u16, targets: &[Cidr]) -> Result<Lab, Failure> {
    let server = Embedded::start().map_err(Failure::environment)?;
    let program = std::env::current_exe()?;
    let agent = |number: u16| {
        let name = format!("agent-{number}");
        let mut command = Command::new(&program);
        // The URL has a password, which would be seen among the arguments.
        // They act for the user of this command, who may read what this command may.
        command.args(["agent", "--name", &name, "--trace-dir", "/"]);
        targets.iter().for_each(|block| {
            command.args(["--allow-target", &block.to_string()]);
        });
        command.env("NATS_URL", &server.link().url);
        Process::start(name, &mut command, Output::Stderr)
    };
    let agents = (1..=agents).map(agent).collect::<Result<Vec<_>, _>>().map_err(Failure::environment)?;
    Ok(Lab { _agents: agents, server })
}

/// Errors of the environment exit with 3, errors of the run itself as in any run.
fn failure(error: ClusterError) -> Failure {
    match error {
        ClusterError::Run(error) => super::failure(error),
        error => Failure::environment(error),
    }
}
