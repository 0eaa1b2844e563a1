//! `ldplayer mutate`: changes a trace by rules, counts what they did, and compares two traces.

mod explain;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use ldplayer_core::text::counted;
use ldplayer_trace::{Format, Inspector, RecordedRetries, Source, open};
use ldplayer_workload::mutate::{Mutated, Mutator, Pairing, RuleAccount, compare};
use ldplayer_workload::{RulesFile, open_source, read_rules};

use super::convert::{account, catch, copy, create_for, format_of};
use super::inspect::no_transaction;
use crate::commands::reading::{Reading, is_live};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ldplayer mutate trace.parquet -o all-do.parquet --set do=true
  ldplayer mutate trace.parquet -o what-if.parquet --rules what-if.toml --seed 7
  ldplayer mutate trace.parquet --explain \\
    --set 'where=qname under com' --set 'share=70 %' --set transport=tcp
  ldplayer mutate --diff trace.parquet what-if.parquet
  tcpdump -w - port 53 | ldplayer mutate - -o - --to pcap --set transport=tcp |
    ldplayer replay - --server 127.0.0.1";

/// Examples of each rule that are shown.
const SHOWN: usize = 3;
/// The seed unless another one is given.
const DEFAULT_SEED: u64 = 1;

/// Options of `mutate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Captures, traces or lists of queries, compressed or not, merged by time; `-` is standard input
    #[arg(required_unless_present = "diff", value_name = "IN")]
    inputs: Vec<String>,
    /// Output file; its extension is the format (.parquet, .tsv, .pcap, .txt); `-` is TSV on standard output
    #[arg(short, long, value_name = "OUT", required_unless_present_any = ["explain", "diff"])]
    output: Option<PathBuf>,
    /// File of rules (TOML); several are applied one after the other
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// KEY=VALUE of one more rule, as in a file of rules; several make up one rule
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of every random choice [default: the rules' seed, or 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print what each rule changes, with examples; without -o, write nothing
    #[arg(long)]
    explain: bool,
    /// Compare two traces: transactions that only one has, and fields that differ
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["inputs", "output", "rules", "set", "explain"])]
    diff: Vec<String>,
    /// With --diff: pair transactions by row, not by time
    #[arg(long, requires = "diff")]
    by_row: bool,
    /// Print the explanation or the comparison as JSON
    #[arg(long)]
    json: bool,
    /// Output format, if not by the extension: parquet, tsv, pcap or dnsperf
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// What becomes of the retries in the input, before any rule: keep, drop, or mark in a column `retry_of`
    #[arg(long, value_name = "keep|drop|mark", default_value_t, hide_default_value = true, hide_short_help = true)]
    recorded_retries: RecordedRetries,
    #[command(flatten)]
    reading: Reading,
    /// Replace the output file if it exists
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let [a, b] = &args.diff[..] {
        return diff(args, a, b);
    }
    let files: Vec<RulesFile> = args.rules.iter().cloned().map(RulesFile::from).collect();
    let rules = read_rules(&files, &args.set)?;
    if rules.is_empty() {
        return Err(anyhow!("no rules: give --rules FILE or --set KEY=VALUE, such as --set do=true").into());
    }
    let seed = args.seed.or(rules.seed).unwrap_or(DEFAULT_SEED);
    let (inputs, options) = args.reading.of(&args.inputs);
    let source = open_source(&inputs, &options, args.recorded_retries, &rules)?;
    let mutator = Mutator::new(rules, seed, if args.explain { SHOWN } else { 0 });
    let mut source = Mutated::new(source, mutator);
    match &args.output {
        Some(output) => {
            let format = format_of(output, args.to)?;
            let signals = catch(!is_live(&inputs))?;
            let sink = create_for(args.recorded_retries, output, format, args.force)?;
            let (_, sink) = copy(&mut source, sink, signals.as_ref())?;
            refuse_nothing(args, &source)?;
            account(format, source.tally(), &sink.finish()?);
        }
        None => {
            pass(&mut source)?;
            refuse_nothing(args, &source)?;
        }
    }
    let accounts = source.mutator().accounts();
    if args.explain {
        let to_stderr = args.output.as_ref().is_some_and(|output| output.as_os_str() == "-");
        explain::print(&accounts, seed, args.json, to_stderr)?;
    }
    warn(&accounts);
    Ok(ExitCode::SUCCESS)
}

/// How two traces differ.
fn diff(args: &Args, a: &str, b: &str) -> Result<ExitCode, Failure> {
    let one = |word: &str| {
        let (inputs, options) = args.reading.of(&[word.to_owned()]);
        open(&inputs, &options)
    };
    let pairing = if args.by_row { Pairing::Row } else { Pairing::Time };
    let found = compare(&mut *one(a)?, &mut *one(b)?, pairing, SHOWN)?;
    explain::print_difference(&found, a, b, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads everything and writes nothing.
fn pass(source: &mut dyn Source) -> Result<(), Failure> {
    let mut batch = Vec::new();
    while source.read(&mut batch)? {
        batch.clear();
    }
    Ok(())
}

fn refuse_nothing(args: &Args, source: &Mutated) -> Result<(), Failure> {
    match source.mutator().transactions() {
        0 => Err(no_transaction(&args.inputs, &Inspector::default().summary(source.tally())).into()),
        _ => Ok(()),
    }
}

/// Reports on stderr the rules without effect, and the queries that could not be changed.
pub(super) fn warn(accounts: &[RuleAccount]) {
    for account in accounts {
        if account.matched == 0 {
            tell!(
                "warning: `{}` matched none of {}; see its `where`",
                account.name,
                counted(account.of, "transaction", "transactions")
            );
        }
        for (reason, count) in &account.kept {
            tell!("not changed by `{}`: {reason} {count}", account.name);
        }
    }
}
