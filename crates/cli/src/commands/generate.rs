//! `ldplayer generate`: a trace made from a model.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use ldplayer_core::time::Span;
use ldplayer_trace::{Format, Source, create};
use ldplayer_workload::generate::{Generator, MAX_CLIENTS, Model, PRESETS, Stock};
use ldplayer_zone::{Zone, load};

use super::convert::{account, catch, copy, format_of};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ldplayer generate syn-3 -o syn-3.parquet
  ldplayer generate poisson -o p.parquet --qps 20k --clients 65k --duration 30s
  ldplayer fit capture.pcap.xz -o model.toml &&
    ldplayer generate model.toml -o big.parquet --clients 1M --qps 38k
  ldplayer generate root-like -o root.parquet --zone root.zone --queries 1M
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
    /// Length of the trace, in place of the model's length and number of queries
    #[arg(long, value_name = "S", conflicts_with = "queries")]
    duration: Option<Span>,
    /// Number of queries, in place of the model's number and length; how long they take, --qps says
    #[arg(long, value_name = "N", value_parser = parse_count)]
    queries: Option<u64>,
    /// Ask for the zones that this zone delegates, and for names below them, in place of the model's names
    #[arg(long, value_name = "FILE")]
    zone: Option<PathBuf>,
    /// Seed of every random choice [default: the model's seed, or 1]
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
    if args.duration.is_some() || args.queries.is_some() {
        (model.duration, model.queries) = (args.duration.map(Span::ns), args.queries);
    }
    if let Some(zone) = &args.zone {
        model.names.stock = Stock::Zones(delegated(zone, &model.names.stock)?);
    }
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

/// The zones that a zone delegates: first the zones of the model's own list, in the order of their popularity.
fn delegated(file: &Path, own: &Stock) -> anyhow::Result<Vec<Box<[u8]>>> {
    let (zone, _) = Zone::from_records(&load::file(file, None)?)?;
    let mut cuts: Vec<Box<[u8]>> = zone.delegations().map(|(cut, _)| cut.to_ascii_lowercase().into()).collect();
    cuts.dedup();
    if cuts.is_empty() {
        return Err(anyhow!("{}: the zone delegates no zone", file.display()));
    }
    let Stock::Zones(own) = own else { return Ok(cuts) };
    let places: HashMap<&[u8], usize> = own.iter().enumerate().map(|(place, zone)| (&**zone, place)).collect();
    cuts.sort_by_key(|cut| places.get(&**cut).copied().unwrap_or(usize::MAX));
    Ok(cuts)
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
