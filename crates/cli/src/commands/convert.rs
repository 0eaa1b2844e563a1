//! `ldplayer convert`: any input to Parquet, TSV, pcap or dnsperf text.

use std::path::PathBuf;
use std::process::ExitCode;

use ldplayer_trace::{Damage, Format, Inspector, Tally, Written, create, open};

use super::inspect::no_transaction;
use super::reading::Reading;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ldplayer convert capture.pcap.xz -o trace.parquet
  ldplayer convert --port 53 --port 5353 a.pcap b.pcapng.gz -o both.tsv
  ldplayer convert resolver.dnstap --role client -o clients.parquet
  ldplayer convert unix:/run/ldplayer/dnstap.sock -o live.parquet
  ldplayer convert trace.parquet -o - | head";

/// Options of `convert`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Captures, dnstap, C-DNS, traces or query files, compressed or not, merged by time; `-` is standard input,
    /// `unix:PATH` a socket to listen on for dnstap
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<String>,
    /// Where to; the extension says the format (.parquet, .tsv, .pcap, .txt); `-` is TSV to standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Format, whatever the extension: parquet, tsv, pcap or dnsperf
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    #[command(flatten)]
    reading: Reading,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let format = match args.to {
        Some(format) => format,
        None if args.output.as_os_str() == "-" => Format::Tsv,
        None => Format::of_path(&args.output)?,
    };
    let (inputs, options) = args.reading.of(&args.inputs);
    let mut source = open(&inputs, &options)?;
    let mut sink = create(&args.output, format, args.force)?;
    let (mut read, mut batch) = (0, Vec::new());
    loop {
        let more = source.read(&mut batch)?;
        sink.write(&batch)?;
        read += batch.len();
        batch.clear();
        if !more {
            break;
        }
    }
    if read == 0 {
        return Err(no_transaction(&args.inputs, &Inspector::default().summary(source.tally())).into());
    }
    let written = sink.finish()?;
    account(format, source.tally(), &written);
    Ok(ExitCode::SUCCESS)
}

/// Says on stderr what was written and everything that was not.
fn account(format: Format, tally: &Tally, written: &Written) {
    eprintln!("{} transactions written as {format}", written.transactions);
    for (reason, count) in &written.left_out {
        eprintln!("left out: {reason} {count}, which {format} cannot hold");
    }
    for Damage { reason, count, first } in &tally.damaged {
        let (file, packet, offset) = (&first.file, first.packet, first.offset);
        eprintln!("damaged: {reason} {count}, first in {file}, packet or line {packet}, offset {offset}");
    }
}
