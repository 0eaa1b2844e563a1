//! `ldplayer testbed status`: who is in a testbed, and what its wire has done.

use std::process::ExitCode;

use ldplayer_emulate::testbed::{State, folder};
use serde_json::json;

use super::{Name, failure, print};
use crate::failure::Failure;

/// Options of `testbed status`.
#[derive(clap::Args)]
#[command(after_help = "\
Example: did anything try to leave?
  ldplayer testbed status --json | jq .wire.leaks")]
pub struct Args {
    #[command(flatten)]
    name: Name,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let folder = folder().map_err(failure)?;
    let state = State::load(&folder, &args.name.name).map_err(failure)?;
    let report = state.report(&folder).map_err(failure)?;
    let mut stdout = crate::printing::stdout();
    if args.json {
        let (name, hosts) = (&state.name, print::hosts_json(&state));
        let object = json!({
            "name": name, "holder": state.holder(), "rootless": state.rootless, "hosts": hosts, "wire": report,
        });
        crate::printing::json(&object)?;
    } else {
        print::hosts(&mut stdout, &state)?;
        print::report(&mut stdout, &report)?;
    }
    Ok(ExitCode::SUCCESS)
}
