//! `ldplayer fit`: a model learned from a trace.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use ldplayer_core::text::counted;
use ldplayer_trace::{Inspector, open};
use ldplayer_workload::generate::{Fit, Fitted};

use super::inspect::no_transaction;
use crate::commands::reading::Reading;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ldplayer fit capture.pcap.xz -o model.toml
  ldplayer generate model.toml -o big.parquet --clients 1M --qps 38k";

/// Options of `fit`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Captures or traces, compressed or not; `-` is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    /// Output file; the names of the model go into a file beside it that ends in .names.txt
    #[arg(short, long, value_name = "MODEL.toml")]
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Replace the output files if they exist
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let list = args.output.with_extension("names.txt");
    for path in [&args.output, &list] {
        if path.exists() && !args.force {
            return Err(anyhow!(
                "{}: already exists; choose another name, or use --force to replace it",
                path.display()
            )
            .into());
        }
    }
    let (inputs, options) = args.reading.of(&args.traces);
    let mut source = open(&inputs, &options)?;
    let (mut fit, mut batch) = (Fit::default(), Vec::new());
    loop {
        let more = source.read(&mut batch)?;
        fit.add(&batch);
        batch.clear();
        if !more {
            break;
        }
    }
    if fit.queries() == 0 {
        return Err(no_transaction(&args.traces, &Inspector::default().summary(source.tally())).into());
    }
    let list_name = list.file_name().unwrap_or_default().to_string_lossy();
    let Fitted { model, names } = fit.finish(&args.traces.join(", "), &list_name);
    write(&list, &names)?;
    write(&args.output, &model)?;
    tell!("{} fitted; names are in {}", counted(fit.queries(), "query", "queries"), list.display());
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    ldplayer_net::output::write(path, text).with_context(|| path.display().to_string())
}
