//! `ldplayer zones views`: BIND with split horizon in place of `serve`, as in the LDplayer paper.

use std::collections::HashMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use ldplayer_core::text::counted;
use ldplayer_emulate::serve::set;
use ldplayer_emulate::views;
use ldplayer_net::output::{self, Pending};
use ldplayer_zone::construct::{Stock, without_refused};
use ldplayer_zone::{Records, write};

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
paths; of a zone with records that BIND refuses, DIR2 has a file without them, which lists them.

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
    let file = args.output.join(CONFIGURATION);
    let unwritable = |file: &Path| format!("{}: cannot be written; choose another directory with -o", file.display());
    fs::create_dir_all(&args.output).with_context(|| unwritable(&file))?;
    let (mut instead, mut left_out) = (HashMap::new(), 0);
    for zone in set.zones() {
        let records = set::records(zone.file(), args.including.reading())?;
        if let Some((records, refused)) = without_refused(zone.apex(), &records, Stock::Bind)? {
            let notes: Vec<String> = refused.iter().map(|one| format!("left out: {one}")).collect();
            let other = args.output.join(zone.file().file_name().unwrap_or_default());
            ensure_other(zone.file(), &other)?;
            save(&other, zone.apex(), &records, &notes).with_context(|| unwritable(&other))?;
            left_out += notes.len() as u64;
            instead.insert(zone.file().to_owned(), other);
        }
    }
    let text = views::configuration(&set, &args.listen, &instead)?;
    output::write(&file, text).with_context(|| unwritable(&file))?;
    let views = set.index().views().iter().filter(|(_, zones)| !zones.is_empty()).count();
    let zones = set.zones().len();
    write_line!(
        crate::printing::stdout(),
        "{}: {} of {}",
        file.display(),
        counted(views as u64, "view", "views"),
        counted(zones as u64, "zone", "zones")
    )?;
    if left_out > 0 {
        let (records, zones) = (counted(left_out, "record", "records"), counted(instead.len() as u64, "zone", "zones"));
        let directory = args.output.display();
        write_line!(
            crate::printing::stdout(),
            "left out {records} of {zones}, which BIND refuses; {directory} has them without"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A zone of the set is not replaced.
fn ensure_other(file: &Path, other: &Path) -> Result<(), Failure> {
    match (file.canonicalize(), other.canonicalize()) {
        (Ok(file), Ok(other)) if file == other => Err(anyhow!(
            "{}: has records that BIND refuses, and -o is the directory of the set: choose another",
            file.display()
        )
        .into()),
        _ => Ok(()),
    }
}

fn save(file: &Path, apex: &[u8], records: &Records, notes: &[String]) -> std::io::Result<()> {
    let mut out = BufWriter::new(Pending::new(file)?);
    write::zone_with_notes(apex, notes, records, &mut out)?;
    out.into_inner()?.finish()
}
