//! `ldplayer zones build`: zone files of the responses in captures.

mod output;
mod versions;

pub(super) use output::prepare;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use ldplayer_core::Transaction;
use ldplayer_core::text::counted;
use ldplayer_trace::{Inspector, Source, open};
use ldplayer_zone::construct::{Builder, Built, Options, Policy, Response, Stock, Suffixes};

use crate::commands::inspect::no_transaction;
use crate::commands::reading::Reading;
use crate::failure::Failure;

/// The value of --side for what a resolver gave its clients.
const CLIENTS: &str = "clients";
/// Public suffixes of registries, as publicsuffix.org had them.
const SUFFIXES: &[u8] = include_bytes!("../../../../../data/public-suffixes-20230209.dat.xz");

/// Options of `zones build`.
#[derive(clap::Args)]
#[command(after_help = "\
Responses are best captured between a resolver with an empty cache and the servers it asks; a
capture at an authoritative server rebuilds what that server has. What servers say is believed of
zones that they are responsible for, and of nothing else. build.json in the output directory lists
what was ignored, where responses disagreed and what was made up so that the zones load and lead to
one another.

Examples:
  ldplayer zones build upstream.pcap.xz -o zones/
  ldplayer zones build monday.pcap tuesday.pcap --conflict majority -o zones/
  ldplayer zones build upstream.pcap.xz --conflict keep -o zones/
  ldplayer zones build clients.pcap --side clients -o zones/
  ldplayer serve zones/ --listen 127.0.0.1:5300 --all-zones-everywhere")]
pub struct Args {
    /// Captures, dnstap, C-DNS or traces with responses, compressed or not; `-` is standard input, `unix:PATH` a socket
    /// to listen on for dnstap
    #[arg(required = true, value_name = "CAPTURE")]
    captures: Vec<String>,
    /// Directory for the zone files
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// When responses disagree about a record set, take the first, the last, the most frequent one, or all records
    ///
    /// `keep` takes the first, and lists all versions in versions.json, for `serve --answers`.
    #[arg(long, value_name = "first|last|majority|union|keep", default_value_t, value_parser = parse_policy)]
    conflict: Policy,
    /// Where the responses were captured: upstream of a resolver, at a server, or between a resolver and its clients
    ///
    /// `resolver` makes a whole hierarchy with a root; `server` makes the zones of that server; `auto` takes the former when
    /// clients are no more than servers; `clients` makes up the smallest hierarchy that gives these their answers.
    #[arg(
        long,
        value_name = "auto|resolver|server|clients",
        default_value = "auto",
        value_parser = ["auto", "resolver", "server", CLIENTS],
        hide_possible_values = true
    )]
    side: String,
    /// Public suffixes, where zones begin with --side clients: a list as of publicsuffix.org [default: that of 2023-02-09]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    suffixes: Option<PathBuf>,
    /// Keep lame delegations lame: a name server that was asked for a zone and never answered does not serve it
    #[arg(long)]
    keep_lame: bool,
    /// Leave out the records for which this server refuses a zone: `bind`, `nsd` or `knot`
    #[arg(long = "for", value_name = "bind|nsd|knot", value_parser = parse_server)]
    server: Option<Stock>,
    #[command(flatten)]
    reading: Reading,
    /// List made-up records, disagreements and unverified zones, which are only counted otherwise
    #[arg(long)]
    verbose: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Zones of what a resolver was recorded to ask.
    pub(super) fn of_harvest(
        captures: Vec<String>,
        output: PathBuf,
        conflict: Policy,
        reading: Reading,
        json: bool,
    ) -> Self {
        Self {
            captures,
            output,
            conflict,
            side: "resolver".to_owned(),
            suffixes: None,
            keep_lame: false,
            server: None,
            reading,
            verbose: false,
            json,
        }
    }
}

fn parse_server(word: &str) -> Result<Stock, String> {
    let known = Stock::ALL.into_iter().find(|server| server.name() == word);
    known.ok_or_else(|| format!("`{word}` is none of bind, nsd, knot"))
}

fn parse_policy(word: &str) -> Result<Policy, String> {
    let known = Policy::ALL.into_iter().find(|policy| policy.to_string() == word);
    known.ok_or_else(|| format!("`{word}` is none of first, last, majority, union, keep"))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let _prepared = prepare(&args.output)?;
    finish(args, &build(args)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the zones and prints a summary.
pub(super) fn finish(args: &Args, built: &Built) -> Result<(), Failure> {
    if built.zones.is_empty() {
        return Err(no_zone(args, built).into());
    }
    let summary = output::write(&args.output, built)?;
    Ok(output::print(&summary, args)?)
}

/// Reads all captures, and makes the zones.
pub(super) fn build(args: &Args) -> Result<Built, Failure> {
    let (inputs, options) = args.reading.of(&args.captures);
    let mut source = open(&inputs, &options)?;
    let mut builder = match args.keep_lame {
        _ if args.side == CLIENTS => Builder::of_clients(suffixes(args.suffixes.as_deref())?),
        true => Builder::keeping_lame(),
        false => Builder::default(),
    };
    if args.conflict == Policy::Keep {
        builder.keep_versions();
    }
    let transactions = take_all(&mut *source, &mut builder)?;
    if builder.responses() == 0 {
        return Err(without_responses(args, &*source, transactions).into());
    }
    let resolver_side = match args.side.as_str() {
        "resolver" => Some(true),
        "server" => Some(false),
        _ => None,
    };
    Ok(builder.finish(Options { policy: args.conflict, resolver_side, server: args.server })?)
}

/// The public suffixes of a file, or those that come along.
fn suffixes(file: Option<&Path>) -> anyhow::Result<Suffixes> {
    let named = || file.map_or_else(|| "--suffixes".to_owned(), |file| file.display().to_string());
    let text = match file {
        Some(file) => fs::read_to_string(file).with_context(named)?,
        None => {
            let mut text = String::new();
            liblzma::read::XzDecoder::new(SUFFIXES).read_to_string(&mut text)?;
            text
        }
    };
    Suffixes::parse(&text).with_context(named)
}

/// Gives all responses to the builder, and tells how many transactions there were.
fn take_all(source: &mut dyn Source, builder: &mut Builder) -> Result<u64, Failure> {
    let (mut batch, mut transactions) = (Vec::new(), 0);
    loop {
        let more = source.read(&mut batch)?;
        transactions += batch.len() as u64;
        for transaction in &batch {
            take(transaction, builder)?;
        }
        batch.clear();
        if !more {
            return Ok(transactions);
        }
    }
}

fn take(transaction: &Transaction, builder: &mut Builder) -> Result<(), Failure> {
    let Some(message) = &transaction.response else {
        let query = transaction.query.iter();
        query.for_each(|query| builder.unanswered(transaction.server.ip(), query));
        return Ok(());
    };
    let delay = transaction.response_delay.unwrap_or(0);
    Ok(builder.add(&Response {
        time_ns: transaction.time.0.saturating_add(delay),
        client: transaction.client.ip(),
        server: transaction.server.ip(),
        message,
    })?)
}

/// The error for captures without responses, which says why.
fn without_responses(args: &Args, source: &dyn Source, transactions: u64) -> anyhow::Error {
    let names = args.captures.join(", ");
    match transactions {
        0 => no_transaction(&args.captures, &Inspector::default().summary(source.tally())),
        _ => anyhow!(
            "{names}: {} and no response: zones are made of responses; capture with them, or ask for them with `ldplayer zones fetch`",
            counted(transactions, "query", "queries")
        ),
    }
}

/// The error for responses from which no zone could be made, with the reasons.
fn no_zone(args: &Args, built: &Built) -> anyhow::Error {
    let reasons: Vec<String> = built.report.ignored.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    anyhow!(
        "{}: no zone in {} ({}); capture between a resolver and the servers it asks, or at an authoritative server",
        args.captures.join(", "),
        counted(built.report.responses, "response", "responses"),
        reasons.join(", ")
    )
}
