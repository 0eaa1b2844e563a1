//! `ldplayer inspect`: what is in a trace.

use std::io::Write;
use std::process::ExitCode;

use anyhow::anyhow;
use ldplayer_core::text::counted;
use ldplayer_trace::{Inspector, Summary, open, why_nothing};

use super::reading::Reading;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ldplayer inspect capture.pcap.xz
  ldplayer inspect --json monday.parquet tuesday.parquet | jq .qps_peak";

/// Options of `inspect`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Captures, dnstap, C-DNS, traces or lists of queries, compressed or not; `-` is standard input, `unix:PATH` a
    /// socket to listen on for dnstap
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    #[command(flatten)]
    reading: Reading,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let (inputs, options) = args.reading.of(&args.traces);
    let mut source = open(&inputs, &options)?;
    let (mut inspector, mut batch) = (Inspector::default(), Vec::new());
    loop {
        let more = source.read(&mut batch)?;
        inspector.add(&batch);
        batch.clear();
        if !more {
            break;
        }
    }
    let summary = inspector.summary(source.tally());
    if summary.transactions == 0 {
        return Err(no_transaction(&args.traces, &summary).into());
    }
    print(&summary, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn print(summary: &Summary, json: bool) -> anyhow::Result<()> {
    let mut stdout = crate::printing::stdout();
    match json {
        true => return Ok(crate::printing::json(summary)?),
        false => write!(stdout, "{summary}")?,
    }
    Ok(stdout.flush()?)
}

/// The error for a trace in which there is nothing to use, with the reasons that say why and what helps.
pub(super) fn no_transaction(traces: &[String], summary: &Summary) -> anyhow::Error {
    let why = why_nothing(&summary.skipped, &summary.damaged);
    let (names, packets) = (traces.join(", "), counted(summary.packets, "packet or line", "packets or lines"));
    anyhow!("{names}: no DNS transaction in {packets}{why}")
}
