//! `ldplayer proxy`: the paper's two proxies as rules on the wire of a testbed.

use std::process::ExitCode;

use clap::ValueEnum;
use ldplayer_emulate::testbed::{State, folder};
use ldplayer_emulate::wire::ProxyKind;

use super::testbed::{Name, failure};
use crate::failure::Failure;

/// Options of `proxy`.
#[derive(clap::Args)]
#[command(after_help = "\
The recursive proxy takes what host `resolver` sends to port 53 of a name server A, and sends it to
host `internet` as if A had; the authoritative proxy takes the responses and sends them to the
resolver that asked as if A had. Any number of resolvers is told apart, over UDP and TCP, IPv4 and
IPv6. `testbed up --proxies` starts both.

Example: BIND with a view for each name server
  ldplayer testbed up --zones zones/ --proxies
  ldplayer zones views zones/ -o bind/
  ldplayer testbed exec internet -- \\
    sh -c 'cd bind && exec named -g -c named.conf'

Example: both in a testbed that is up already
  ldplayer proxy recursive && ldplayer proxy authoritative")]
pub struct Args {
    /// Which proxy
    #[arg(value_enum)]
    kind: Kind,
    /// Stop it
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    name: Name,
}

/// The proxies as they are typed.
#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Rewrites queries on the side of resolvers
    Recursive,
    /// Rewrites responses on the side of the server
    Authoritative,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let folder = folder().map_err(failure)?;
    let state = State::load(&folder, &args.name.name).map_err(failure)?;
    let kind = match args.kind {
        Kind::Recursive => ProxyKind::Recursive,
        Kind::Authoritative => ProxyKind::Authoritative,
    };
    state.switch_proxy(&folder, kind, !args.off).map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}
