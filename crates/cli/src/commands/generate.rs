//! `ldplayer generate`: a trace made from a model.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use ldplayer_core::time::Span;
use ldplayer_trace::{Format, Source, create};
use ldplayer_workload::generate::{Generator, MAX_CLIENTS, Model, PRESETS};

use super::convert::{account, catch, copy, format_of};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ldplayer generate syn-3 -o syn-3.parquet
  ldplayer generate poisson -o p.parquet --qps 20k --clients 65k --duration 30s
  ldplayer fit capture.pcap.xz -o model.toml &&
    ldplayer generate model.toml -o big.parquet --clients 1M --qps 38k
  ldplayer generate root-like --print > mine.toml";

/// Options of `generate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A model in TOML, or a preset: syn-0 to syn-4, poisson, bursts, ramp, steps, identical, resolver, root-like
    #[arg(value_name = "SPEC")]
    spec: String,
    /// Output file; its extension is the format (.parquet, .tsv, .pcap, .txt); `-` is TSV on standard output
    #[arg(short, long, value_name = "OUT", required_unless_present = "print")]
    output: Option<PathBuf>,
    /// Number of clients, overriding the model: 5000, 20k, 1M
    #[arg(long, value_name = "N", value_parser = parse_count)]
    clients: Option<u64>,
    /// Mean queries per second, overriding the model; the shape of its rate stays
    #[arg(long, value_name = "N", value_parser = parse_count)]
    qps: Option<u64>,
    /// Length of the trace, overriding the model
    #[arg(long, value_name = "S")]
    duration: Option<Span>,
    /// Maximum number of queries
    #[arg(long, value_name = "N", value_parser = parse_count)]
    queries: Option<u64>,
    /// Seed of every random choice [default: that of the model, or 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print the model, and write no trace
    #[arg(long)]
    print: bool,
    /// Output format, if not by the extension: parquet, tsv, pcap or dnsperf
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// Replace the output file if it exists
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (text, folder) = read_spec(&args.spec)?;
    let mut model = Model::parse(&text, &folder).with_context(|| args.spec.clone())?;
    if args.print {
        crate::printing::text(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    model.seed = args.seed.unwrap_or(model.seed);
    model.duration = args.duration.map(Span::ns).or(model.duration);
    model.queries = args.queries.or(model.queries);
    if let Some(count) = args.clients {
        let fitting = u32::try_from(count).ok().filter(|_| count <= MAX_CLIENTS);
        model.clients.count = fitting.ok_or_else(|| anyhow!("--clients {count}: {MAX_CLIENTS} at most"))?;
    }
    if let Some(qps) = args.qps {
        model.rate = model.rate.scaled_to(qps as f64);
    }
    let mut generator = Generator::new(&model).with_context(|| args.spec.clone())?;
    let output = args.output.as_deref().unwrap_or(Path::new("-"));
    let format = format_of(output, args.to)?;
    let signals = catch(true)?;
    let sink = create(output, format, args.force)?;
    let (count, sink) = copy(&mut generator, sink, signals.as_ref())?;
    if count == 0 {
        return Err(anyhow!("{}: the model ends before its first query: give a longer --duration", args.spec).into());
    }
    account(format, generator.tally(), &sink.finish()?);
    Ok(ExitCode::SUCCESS)
}

/// The text of a preset or of a file, and the folder in which its lists are looked for.
fn read_spec(spec: &str) -> anyhow::Result<(String, PathBuf)> {
    if let Some((_, text)) = PRESETS.iter().find(|(name, _)| *name == spec) {
        return Ok(((*text).to_owned(), PathBuf::new()));
    }
    let path = Path::new(spec);
    let text = std::fs::read_to_string(path).with_context(|| {
        let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
        format!("{spec}: neither a file that can be read nor one of {}", names.join(", "))
    })?;
    Ok((text, path.parent().map(Path::to_owned).unwrap_or_default()))
}

/// Reads 5000, 20k, 1.5M.
fn parse_count(word: &str) -> Result<u64, String> {
    let scales = [('k', 1e3), ('K', 1e3), ('M', 1e6)];
    let scaled = scales.iter().find_map(|(suffix, scale)| Some((word.strip_suffix(*suffix)?, *scale)));
    let (number, scale) = scaled.unwrap_or((word, 1.0));
    let count = number.parse::<f64>().ok().map(|number| (number * scale).round());
    let in_range = count.filter(|count| (1.0..=1e12).contains(count)).map(|count| count as u64);
    in_range.ok_or_else(|| "give a number from 1, such as 5000, 20k or 1.5M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_suffixes() {
        for (word, count) in [("1", 1), ("20k", 20_000), ("1.07M", 1_070_000), ("38K", 38_000)] {
            assert_eq!(parse_count(word), Ok(count));
        }
        for bad in ["", "0", "-1", "k", "1G", "nan", "1e30"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
    }
}
