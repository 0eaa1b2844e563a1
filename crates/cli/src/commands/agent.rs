//! `ldplayer agent`: plays the parts of runs that a controller deals, until it is interrupted.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use ldplayer_cluster::{Agent, Bus, Limits, host_name};
use ldplayer_core::Cidr;
use ldplayer_core::text::counted;
use ldplayer_net::limits;
use ldplayer_net::signals::Signals;

use super::nats::Credentials;
use crate::failure::Failure;

/// Options of `agent`.
#[derive(clap::Args)]
#[command(after_help = "\
An agent sends the queries that a controller assigns to it, from this host, and keeps its rows
until the controller has them. Anybody who may use the NATS server can make agents send queries
to what --allow-target names: protect it with users and passwords. A server without them on a
public address is refused.

Example: an agent on each host, and a run on four of them
  ldplayer agent --nats nats://ldplayer:PASSWORD@10.0.0.1 \\
    --allow-target 10.0.0.9
  ldplayer replay trace.parquet --server 10.0.0.9 --agents 4 \\
    --nats nats://ldplayer:PASSWORD@10.0.0.1")]
pub struct Args {
    /// NATS server: nats://USER:PASSWORD@HOST:PORT, or tls:// for TLS; several, separated by commas, for a cluster
    #[arg(long, value_name = "URL", env = "NATS_URL", hide_env_values = true)]
    nats: String,
    #[command(flatten)]
    credentials: Credentials,
    /// Name of the agent [default: the host's name]
    #[arg(long)]
    name: Option<String>,
    /// Addresses that the agent may send from, shown by `ldplayer agents`
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',')]
    source: Vec<IpAddr>,
    /// Directory for rows until the controller has them [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Address blocks outside this host that the agent may send load to
    ///
    /// Runs bring no permission of their own: whoever has the password of the NATS server could
    /// send load anywhere.
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',')]
    allow_target: Vec<Cidr>,
    /// Directory of the traces that the agent may read, for --local and --feeders [default: none]
    #[arg(long, value_name = "DIR")]
    trace_dir: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let signals = Signals::catch_or_end(Arc::default()).context("agent: signals")?;
    // As many as this user may have: a part of a run may need a socket for each client.
    let _ = limits::raise_nofile();
    let name = args.name.unwrap_or_else(host_name);
    let bus = Bus::connect(&args.credentials.link(&args.nats), &name).map_err(Failure::environment)?;
    let scratch = args.scratch.unwrap_or_else(std::env::temp_dir);
    let limits = Limits::new(args.allow_target, args.trace_dir.as_deref())?;
    let url = bus.url().to_owned();
    let agent = Agent::register(bus, &name, &args.source, scratch, limits).map_err(Failure::environment)?;
    tell!("ldplayer: agent {name} ({}) waits for runs at {url}", counted(agent.hello().cores as u64, "core", "cores"));
    agent.run(signals.stop());
    Ok(ExitCode::SUCCESS)
}
