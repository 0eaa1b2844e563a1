//! `ldplayer archive`: packs a run into one file for another host, and unpacks it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow};
use ldplayer_net::signals::{INTERRUPTED, Signals};
use ldplayer_results::numbers::{counted, in_bytes};
use ldplayer_run::archive::{self, Contents, ENDING};
use ldplayer_workload::parse_key;

use crate::failure::Failure;

/// Options of `archive`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ldplayer archive runs/today -o today.tar.zst
  ldplayer archive runs/today -o shared.tar.zst --anonymise --without-names
  ldplayer archive --extract today.tar.zst -o from-alice
  ldplayer report from-alice
  ldplayer replay --again from-alice --server 127.0.0.1:5300 -o runs/mine
  ldplayer compare from-alice runs/mine")]
pub struct Args {
    /// Run directory
    #[arg(required_unless_present = "extract", value_name = "RUN")]
    run: Option<PathBuf>,
    /// Unpack this archive as a run directory
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "without_names", "anonymise", "trace", "force"])]
    extract: Option<PathBuf>,
    /// Archive, or the directory to unpack to [default: the name of the run in the current directory, of an archive with .tar.zst]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Leave out what has names of queries: the trace, kept responses, and names in the report
    #[arg(long)]
    without_names: bool,
    /// Replace clients' addresses in rows, trace and client subnets by pseudonyms (Crypto-PAn), and empty cookies
    #[arg(long)]
    anonymise: bool,
    /// File with the key of pseudonyms, 64 hexadecimal digits [default: a random key that nobody keeps]
    #[arg(long, value_name = "FILE", requires = "anonymise")]
    key: Option<PathBuf>,
    /// The file of the trace, where it is no longer where it was; several times for several files, in their order
    #[arg(long, value_name = "FILE", conflicts_with = "without_names")]
    trace: Vec<PathBuf>,
    /// Replace the archive if it exists
    #[arg(long)]
    force: bool,
}

/// Runs the command. The first Ctrl-C ends it with nothing written, the second at once.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let signals = Signals::catch_or_end(Arc::default()).context("signals")?;
    match pack_or_unpack(args, signals.stop()) {
        Err(failure) if signals.is_stopped() => {
            failure.report();
            Ok(ExitCode::from(INTERRUPTED))
        }
        done => done,
    }
}

fn pack_or_unpack(args: &Args, stop: &AtomicBool) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.extract {
        let directory = archive::unpack(file, args.output.as_deref(), stop)?;
        say!("run: {}", directory.display())?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = args.run.as_deref().unwrap_or(Path::new("."));
    if run.join("experiment.json").exists() {
        return Err(anyhow!("{}: is an experiment: give the directory of one of its runs", run.display()).into());
    }
    let output = args.output.clone().map_or_else(|| named_after(run), Ok)?;
    let contents = Contents {
        without_names: args.without_names,
        key: args.anonymise.then(|| key(args.key.as_deref())).transpose()?,
        trace: args.trace.clone(),
    };
    for file in archive::damaged(run)? {
        tell!(
            "ldplayer: {}: damaged; the archive has it as it is, and its rows are missing there, too",
            file.display()
        );
    }
    let packed = archive::pack(run, &output, &contents, args.force, stop)?;
    say!(
        "archive: {} ({}, {} of {})",
        output.display(),
        counted(packed.files, "file", "files"),
        in_bytes(packed.packed),
        in_bytes(packed.octets)
    )?;
    Ok(ExitCode::SUCCESS)
}

/// An archive of the run's name in the current directory.
fn named_after(run: &Path) -> anyhow::Result<PathBuf> {
    let whole = run.canonicalize().with_context(|| run.display().to_string())?;
    let name = whole.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy());
    Ok(PathBuf::from(format!("{name}{ENDING}")))
}

/// The key in a file, or a random one.
fn key(file: Option<&Path>) -> anyhow::Result<[u8; 32]> {
    if let Some(file) = file {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        return parse_key(&text).ok_or_else(|| anyhow!("{}: a key is 64 hexadecimal digits", file.display()));
    }
    let mut key = [0; 32];
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut key)).context("/dev/urandom")?;
    Ok(key)
}
