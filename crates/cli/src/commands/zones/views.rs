//! `ldplayer zones views`: BIND with split horizon in place of `serve`, as in the LDplayer paper.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use ldplayer_core::text::counted;
use ldplayer_emulate::views;
use ldplayer_net::output;

use crate::commands::including::Including;
use crate::commands::serve::{load, parse_listen};
use crate::failure::Failure;

/// The configuration's name in the output directory.
const CONFIGURATION: &str = "named.conf";

/// Options of `zones views`.
#[derive(clap::Args)]
#[command(after_help = "\
Writes named.conf: one view for each set of name server addresses that serve the same zones,
chosen by match-clients. BIND sees the address that was asked as its client when the wire rewrites
addresses as the paper's proxies do. The zone files stay where they are and are named by their
paths.

Example:
  ldplayer zones views zones/ -o bind/
  ldplayer testbed up --zones zones/ --proxies
  ldplayer testbed exec internet -- \\
    sh -c 'cd bind && exec named -g -c named.conf'")]
pub struct Args {
    /// The zone set
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    including: Including,
    /// Directory to write
    #[arg(short, long, value_name = "DIR2")]
    output: PathBuf,
    /// Address for BIND to listen on [default: those of the host `internet`]
    #[arg(
        long, value_name = "ADDR[:PORT],...", value_delimiter = ',', value_parser = parse_listen,
        default_value = "10.53.0.3,fd53::3"
    )]
    listen: Vec<SocketAddr>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let set = load(&args.directory, args.including.reading())?;
    let text = views::configuration(&set, &args.listen)?;
    let file = args.output.join(CONFIGURATION);
    fs::create_dir_all(&args.output)
        .and_then(|()| output::write(&file, text))
        .with_context(|| format!("{}: cannot be written; choose another directory with -o", file.display()))?;
    let views = set.index().views().iter().filter(|(_, zones)| !zones.is_empty()).count();
    let zones = set.zones().len();
    write_line!(
        crate::printing::stdout(),
        "{}: {} of {}",
        file.display(),
        counted(views as u64, "view", "views"),
        counted(zones as u64, "zone", "zones")
    )?;
    Ok(ExitCode::SUCCESS)
}
