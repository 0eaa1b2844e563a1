//! `ldplayer convert`: any input to Parquet, TSV, pcap or dnsperf text, or many to a data set.

mod set;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use ldplayer_core::Transaction;
use ldplayer_core::text::counted;
use ldplayer_net::signals::{INTERRUPTED, Signals};
use ldplayer_trace::{
    Damage, Format, Inspector, RecordedRetries, Sink, Source, Tally, TraceError, Written, create, create_marked,
};
use ldplayer_workload::mutate::Rules;
use ldplayer_workload::open_source;

use super::inspect::no_transaction;
use super::reading::{Reading, is_live};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ldplayer convert capture.pcap.xz -o trace.parquet
  ldplayer convert --capture-port 53,5353 a.pcap b.pcapng.gz -o both.tsv
  ldplayer convert resolver.dnstap --role client -o clients.parquet
  ldplayer convert unix:/run/ldplayer/dnstap.sock -o live.parquet
  ldplayer convert trace.parquet -o - | head
  ldplayer convert captures/ -o set/ --shards 8";

/// Batches that wait to be written; a batch has at most some megabytes.
const WAITING: usize = 4;
/// How often signals are looked for while nothing comes.
const LOOK: Duration = Duration::from_millis(50);

/// What goes from the reader to the writer, and back when it is empty.
type Batch = Vec<Transaction>;

/// Options of `convert`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Captures, dnstap, C-DNS, traces or lists of queries, compressed or not, or folders of them, merged by time; `-` is
    /// standard input, `unix:PATH` a socket to listen on for dnstap
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<String>,
    /// Output file; its extension is the format (.parquet, .tsv, .pcap, .txt); `-` is TSV on standard output. A folder (`set/`)
    /// is a data set: Parquet by hour and shard of the clients, of all inputs that it does not have yet
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Shards of the clients in a data set [default: 4, or those that it has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    shards: Option<u16>,
    /// Output format, if not by the extension: parquet, tsv, pcap or dnsperf
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// What becomes of the retries in the input: keep, drop, or mark in a column `retry_of`
    #[arg(long, value_name = "keep|drop|mark", default_value_t, hide_default_value = true, hide_short_help = true)]
    recorded_retries: RecordedRetries,
    #[command(flatten)]
    reading: Reading,
    /// Replace the output file if it exists
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if set::is_for(&args.output) {
        return set::run(&args);
    }
    if args.shards.is_some() {
        return Err(anyhow!("--shards divides a data set: give -o a folder, such as `set/`").into());
    }
    let format = format_of(&args.output, args.to)?;
    let (inputs, options) = args.reading.of(&args.inputs);
    let mut source = open_source(&inputs, &options, args.recorded_retries, &Rules::default())?;
    let signals = catch(!is_live(&inputs))?;
    let sink = create_for(args.recorded_retries, &args.output, format, args.force)?;
    let (count, sink) = copy(&mut *source, sink, signals.as_ref())?;
    if count == 0 {
        return Err(no_transaction(&args.inputs, &Inspector::default().summary(source.tally())).into());
    }
    let written = sink.finish()?;
    account(format, source.tally(), &written);
    Ok(ExitCode::SUCCESS)
}

/// The given format, or the extension's, or TSV on standard output.
pub(super) fn format_of(output: &Path, asked: Option<Format>) -> Result<Format, Failure> {
    match asked {
        Some(format) => Ok(format),
        None if output.as_os_str() == "-" => Ok(Format::Tsv),
        None => Ok(Format::of_path(output)?),
    }
}

/// Opens an output, with a column for retries where they are marked.
pub(super) fn create_for(
    retries: RecordedRetries,
    output: &Path,
    format: Format,
    force: bool,
) -> Result<Box<dyn Sink>, TraceError> {
    let open = if retries == RecordedRetries::Mark { create_marked } else { create };
    open(output, format, force)
}

/// Writes all that a source yields, and says how many transactions that were. Reading and writing each have a thread. What was
/// written so far is given up upon a signal: half a trace would pass for a whole one.
pub(super) fn copy(
    source: &mut dyn Source,
    mut sink: Box<dyn Sink>,
    signals: Option<&Signals>,
) -> Result<(usize, Box<dyn Sink>), Failure> {
    std::thread::scope(|scope| {
        let (sender, receiver) = crossbeam_channel::bounded(WAITING);
        let (done, empty) = crossbeam_channel::unbounded();
        let reader = scope.spawn(move || read_all(source, &sender, &empty));
        let mut written = 0;
        loop {
            if signals.is_some_and(Signals::is_stopped) {
                give_up(sink);
            }
            let mut batch = match receiver.recv_timeout(LOOK) {
                Ok(batch) => batch,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            written += batch.len();
            sink.write(&mut batch)?;
            // A reader that has ended needs no more memory.
            let _ = done.send(batch);
        }
        drop(receiver);
        match reader.join() {
            Ok(result) => Ok(result.map(|()| (written, sink))?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Signals for [`copy`], where they do not end the input regularly.
pub(super) fn catch(gives_up: bool) -> anyhow::Result<Option<Signals>> {
    gives_up.then(Signals::catch).transpose().context("signals")
}

/// Ends the process, whatever the reader waits for; the temporary file is removed.
fn give_up(sink: Box<dyn Sink>) -> ! {
    drop(sink);
    tell!("ldplayer: interrupted; nothing was written");
    std::process::exit(INTERRUPTED.into())
}

/// Sends all that a source yields, until nobody takes it any more, in the batches that come back.
fn read_all(source: &mut dyn Source, sender: &Sender<Batch>, empty: &Receiver<Batch>) -> Result<(), TraceError> {
    loop {
        let mut batch = empty.try_recv().unwrap_or_default();
        let more = source.read(&mut batch)?;
        if sender.send(batch).is_err() || !more {
            return Ok(());
        }
    }
}

/// Prints on stderr the counts of rows written and of everything left out.
pub(super) fn account(format: Format, tally: &Tally, written: &Written) {
    tell!("{} written as {format}", counted(written.transactions, "transaction", "transactions"));
    for (reason, count) in &written.left_out {
        tell!("left out: {reason} {count}, which {format} cannot hold");
    }
    tell_lacking(tally);
}

/// Prints on stderr what an input did not keep, and its damage.
fn tell_lacking(tally: &Tally) {
    for (what, count) in &tally.lost {
        tell!("missing in the input: {what} ({count} times); the default is used");
    }
    for Damage { reason, count, first, .. } in &tally.damaged {
        let (file, packet, offset) = (&first.file, first.packet, first.offset);
        tell!("damaged: {reason} {count}, first in {file}, packet or line {packet}, offset {offset}");
    }
}
