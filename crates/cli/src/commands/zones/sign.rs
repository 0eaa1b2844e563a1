//! `ldplayer zones sign`: a zone set with DNSSEC as one wants it.

mod anchors;
mod keys;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use ldplayer_core::name::{self, Presentation};
use ldplayer_core::text::counted;
use ldplayer_core::time::NS_PER_S;
use ldplayer_emulate::serve::lame::Lame;
use ldplayer_emulate::serve::set;
use ldplayer_emulate::serve::versions::{self, Content, SetEntry};
use ldplayer_emulate::sources::{self, Source, on_all_cores, threads};
use ldplayer_net::clock;
use ldplayer_net::output::Pending;
use ldplayer_zone::sign::{self, Algorithm, Denial, Key, KeySpec, Links, Member, Policy, Seed, Validity};
use ldplayer_zone::{Oddity, Records, finding, write};
use serde_json::{Value, json};

use crate::commands::including::Including;
use crate::commands::when::When;
use crate::failure::Failure;

/// Zones with so many records are signed by all threads, one after the other; smaller ones side by side.
const LARGE: usize = 2_000;

/// Options of `zones sign`.
#[derive(clap::Args)]
#[command(after_help = "\
Writes the whole set to DIR2, under the same file names. What the zones had of DNSSEC is removed
first. Parents that are signed get the DS records of the zones that are signed with them, lose those
of zones that the set has unsigned, and keep those of zones that are not in the set. DIR2 also gets
trust-anchors.ds (unbound: trust-anchor-file) and trust-anchors.conf (BIND: include, delv: -a).

Example: the set with ECDSA keys, valid at the time of the recording and now
  ldplayer zones sign zones/ -o signed/ --inception 2016-10-01

Example: what if the root had 4096-bit keys, during a rollover of the ZSK
  ldplayer zones sign zones/ -o big/ --algorithm rsasha256 \\
    --ksk-bits 4096 --zsk-bits 4096 --zsks 2

Example: NSEC3 with opt-out for com alone, with keys that are kept
  ldplayer zones sign zones/ -o kept/ --zone com --nsec3 --opt-out --keys keys/")]
pub struct Args {
    /// The zone set
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    including: Including,
    /// Directory to write
    #[arg(short, long, value_name = "DIR2")]
    output: PathBuf,
    /// Zone to sign; several times for several zones [default: all]
    #[arg(long = "zone", value_name = "NAME")]
    zones: Vec<String>,
    /// Algorithm: rsasha256, rsasha512, ecdsap256sha256, ecdsap384sha384 or ed25519
    #[arg(long, default_value = "ecdsap256sha256")]
    algorithm: Algorithm,
    /// Size of RSA key-signing keys in bits, 1024 to 4096
    #[arg(long, value_name = "BITS", default_value = "2048")]
    ksk_bits: usize,
    /// Size of RSA zone-signing keys in bits, 1024 to 4096
    #[arg(long, value_name = "BITS", default_value = "2048")]
    zsk_bits: usize,
    /// Number of key-signing keys per zone; all of them sign and have DS records
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=8))]
    ksks: u8,
    /// Number of zone-signing keys per zone; the first one signs, the others are published as before a rollover
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=8))]
    zsks: u8,
    /// Sign with all zone-signing keys
    #[arg(long)]
    double_signature: bool,
    /// Add N other keys with the tag of the zone-signing key, and N wrong signatures to each record set, as KeyTrap does; not with ECDSA
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true, hide_short_help = true, value_parser = clap::value_parser!(u8).range(..=100))]
    collisions: u8,
    /// NSEC3 in place of NSEC
    #[arg(long)]
    nsec3: bool,
    /// NSEC3 iterations, up to 2500; resolvers may refuse more than a few
    #[arg(long, value_name = "N", default_value = "0", requires = "nsec3", value_parser = clap::value_parser!(u16).range(..=i64::from(sign::MAX_ITERATIONS)))]
    iterations: u16,
    /// NSEC3 salt in hexadecimal; - for none
    #[arg(long, value_name = "HEX", default_value = "-", requires = "nsec3", value_parser = parse_salt)]
    salt: Salt,
    /// NSEC3 opt-out: no NSEC3 records for insecure delegations
    #[arg(long, requires = "nsec3")]
    opt_out: bool,
    /// Inception of the signatures: 2026-01-31, 20260131120000, or -1h from now
    #[arg(long, value_name = "TIME", default_value = "-1h", allow_hyphen_values = true)]
    inception: When,
    /// Expiration of the signatures
    #[arg(long, value_name = "TIME", default_value = "+30d", allow_hyphen_values = true)]
    expiration: When,
    /// Derive the keys from this number, so that they are the same every time [default: random keys]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Directory of keys, as dnssec-keygen writes them; new keys are stored there
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// Print one JSON object about what was done
    #[arg(long)]
    json: bool,
}

/// Octets of a salt.
#[derive(Clone, Debug)]
struct Salt(Vec<u8>);

/// What became of a zone.
struct Outcome {
    records: usize,
    signatures: usize,
    denials: usize,
    had_digest: bool,
    /// Record sets with their versions.
    versions: Vec<SetEntry>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    if args.iterations > finding::MAX_ITERATIONS {
        tell!("ldplayer: {}", Oddity::Iterations(args.iterations));
    }
    let sources = sources::read(&args.directory, args.including.reading())?;
    let is_chosen = chosen(args, &sources)?;
    ensure_separate(args, &sources)?;
    let keys = all_keys(args, &sources, &is_chosen)?;
    let members: Vec<Member<'_>> = sources
        .iter()
        .zip(&keys)
        .map(|(source, keys)| Member { apex: &source.apex, records: &source.records, keys })
        .collect();
    let links = sign::links(&members)?;
    let content = Content::read(&args.directory)?;
    let by_zone = content.as_ref().map(Content::by_zone).transpose();
    let by_zone = by_zone.map_err(anyhow::Error::msg).context(versions::FILE)?.unwrap_or_default();
    let mut outcomes = sign_all(args, &sources, &keys, &links, &by_zone)?;
    let sets = outcomes.iter_mut().flat_map(|outcome| std::mem::take(&mut outcome.versions)).collect();
    let content = content.map(|content| Content { sets, ..content });
    Content::save(content, &args.output).with_context(|| format!("-o {}", args.output.display()))?;
    anchors::write(&args.output, &links.anchors)?;
    Lame::copy(&args.directory, &args.output).with_context(|| format!("-o {}", args.output.display()))?;
    if let Some(directory) = &args.keys {
        sources.iter().zip(&keys).try_for_each(|(source, keys)| keys::write(directory, &source.apex, keys))?;
    }
    for (source, _) in sources.iter().zip(&outcomes).filter(|(_, outcome)| outcome.had_digest) {
        tell!("ldplayer: {}: its ZONEMD record is removed, since the zone has changed", source.file.display());
    }
    tell(args, &sources, &keys, &outcomes, &links, begun)?;
    Ok(ExitCode::SUCCESS)
}

/// For each zone whether it is to be signed.
fn chosen(args: &Args, sources: &[Source]) -> anyhow::Result<Vec<bool>> {
    let mut names = Vec::with_capacity(args.zones.len());
    for text in &args.zones {
        let mut wire = Vec::new();
        name::parse(text, &mut wire).with_context(|| format!("--zone {text}"))?;
        wire.make_ascii_lowercase();
        if !sources.iter().any(|source| source.apex == wire) {
            bail!("--zone {text}: {} has no such zone", args.directory.display());
        }
        names.push(wire);
    }
    Ok(sources.iter().map(|source| names.is_empty() || names.contains(&source.apex)).collect())
}

/// Refuses to write over the set itself, or beside zones of another one.
fn ensure_separate(args: &Args, sources: &[Source]) -> anyhow::Result<()> {
    let output = args.output.display();
    fs::create_dir_all(&args.output).with_context(|| format!("-o {output}"))?;
    if args.output.canonicalize()? == args.directory.canonicalize()? {
        bail!("-o {output}: this is the zone set itself; choose another directory");
    }
    let ours = |file: &Path| sources.iter().any(|source| source.file.file_name() == file.file_name());
    match set::files(&args.output).unwrap_or_default().into_iter().find(|file| !ours(file)) {
        Some(other) => {
            bail!("{}: a zone of another set; empty the directory, or choose another with -o", other.display())
        }
        None => Ok(()),
    }
}

/// The keys of each zone; none for those that stay as they are.
fn all_keys(args: &Args, sources: &[Source], is_chosen: &[bool]) -> anyhow::Result<Vec<Vec<Key>>> {
    let spec = KeySpec {
        algorithm: args.algorithm,
        ksk_bits: args.ksk_bits,
        zsk_bits: args.zsk_bits,
        ksks: args.ksks.into(),
        zsks: args.zsks.into(),
    };
    let seed = seed(args.seed)?;
    let present = args.keys.as_deref().map(keys::read).transpose()?.unwrap_or_default();
    let chosen: Vec<(&Source, bool)> = sources.iter().zip(is_chosen.iter().copied()).collect();
    let made = on_all_cores(&chosen, |&(source, is_chosen)| match is_chosen {
        true => spec.keys(&source.apex, &seed, present.get(&source.apex).cloned().unwrap_or_default()),
        false => Ok(Vec::new()),
    });
    Ok(made.into_iter().collect::<Result<_, _>>()?)
}

/// What new keys are made from.
fn seed(number: Option<u64>) -> anyhow::Result<Seed> {
    let mut seed = Seed::default();
    match number {
        Some(number) => seed[..8].copy_from_slice(&number.to_be_bytes()),
        None => {
            File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut seed)).context("/dev/urandom")?
        }
    }
    Ok(seed)
}

/// Signs and writes all zones.
fn sign_all(
    args: &Args,
    sources: &[Source],
    keys: &[Vec<Key>],
    links: &Links,
    by_zone: &HashMap<Vec<u8>, Vec<SetEntry>>,
) -> anyhow::Result<Vec<Outcome>> {
    let now = clock::realtime_ns() / NS_PER_S;
    let validity = Validity { inception: args.inception.seconds(now), expiration: args.expiration.seconds(now) };
    if validity.expiration.wrapping_sub(validity.inception).cast_signed() <= 0 {
        bail!(
            "--expiration: signatures would expire before their inception, or more than 68 years after it (RFC 4034 3.1.5)"
        );
    }
    let one = |at: usize, threads: usize| {
        let source = &sources[at];
        let mut versions = by_zone.get(&source.apex).cloned().unwrap_or_default();
        if keys[at].is_empty() {
            return save(args, source, &source.records).map(|()| Outcome::unsigned(source, versions));
        }
        let policy = Policy {
            keys: &keys[at],
            active_zsks: if args.double_signature { args.zsks.into() } else { 1 },
            collisions: args.collisions,
            denial: args.denial(),
            validity,
            delegations: &links.delegations[at],
            threads,
        };
        let signed = sign::zone(&source.records, &policy).with_context(|| source.file.display().to_string())?;
        save(args, source, &signed.records)?;
        versions::sign(&mut versions, &source.apex, &signed.records, &policy).map_err(anyhow::Error::msg)?;
        Ok(Outcome { versions, ..Outcome::of(&signed) })
    };
    let (large, small): (Vec<usize>, Vec<usize>) =
        (0..sources.len()).partition(|&at| sources[at].records.len() >= LARGE);
    let mut done = on_all_cores(&small, |&at| one(at, 1).map(|outcome| (at, outcome)));
    done.extend(large.iter().map(|&at| one(at, threads()).map(|outcome| (at, outcome))));
    let mut done: Vec<(usize, Outcome)> = done.into_iter().collect::<anyhow::Result<_>>()?;
    done.sort_unstable_by_key(|&(at, _)| at);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Writes a zone under the name of the file that it came from.
fn save(args: &Args, source: &Source, records: &Records) -> anyhow::Result<()> {
    let file = args.output.join(source.file.file_name().unwrap_or_default());
    let written = Pending::new(&file).and_then(|out| {
        let mut out = BufWriter::new(out);
        write::zone(&source.apex, records, &mut out)?;
        out.into_inner()?.finish()
    });
    written.with_context(|| format!("{}: cannot be written", file.display()))
}

impl Args {
    fn denial(&self) -> Denial {
        match self.nsec3 {
            true => Denial::Nsec3 { iterations: self.iterations, salt: self.salt.0.clone(), opt_out: self.opt_out },
            false => Denial::Nsec,
        }
    }
}

impl Outcome {
    fn of(signed: &sign::Signed) -> Self {
        let (records, had_digest) = (signed.records.len(), signed.had_digest);
        Self { records, signatures: signed.signatures, denials: signed.denials, had_digest, versions: Vec::new() }
    }

    fn unsigned(source: &Source, versions: Vec<SetEntry>) -> Self {
        Self { records: source.records.len(), signatures: 0, denials: 0, had_digest: false, versions }
    }
}

fn parse_salt(text: &str) -> Result<Salt, String> {
    let digits = if text == "-" { "" } else { text };
    let pair = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let octets: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(pair).collect();
    let octets = octets.filter(|octets| octets.len() <= sign::MAX_SALT && !digits.contains('+'));
    octets.map(Salt).ok_or_else(|| "expected pairs of hexadecimal digits, up to 255, or - for none".to_owned())
}

/// Prints a summary of the signed zones.
fn tell(
    args: &Args,
    sources: &[Source],
    keys: &[Vec<Key>],
    outcomes: &[Outcome],
    links: &Links,
    begun: Instant,
) -> anyhow::Result<()> {
    let mut out = crate::printing::stdout();
    let anchored: Vec<String> = links.anchors.iter().map(|(zone, _)| Presentation(zone).to_string()).collect();
    let elapsed_s = begun.elapsed().as_secs_f64();
    let all = sources.iter().zip(keys).zip(outcomes);
    if args.json {
        let zones: Vec<Value> = all.map(|((source, keys), outcome)| as_json(source, keys, outcome)).collect();
        drop(out);
        return Ok(crate::printing::json(&json!({ "zones": zones, "anchors": anchored, "elapsed_s": elapsed_s }))?);
    }
    for ((source, keys), outcome) in all.filter(|((_, keys), _)| !keys.is_empty()) {
        let shown: Vec<String> = keys.iter().map(|key| format!("{} {}", key.role(), key.tag())).collect();
        let (zone, Outcome { records, signatures, .. }) = (Presentation(&source.apex), outcome);
        write_line!(
            out,
            "{zone} {} {}: {}, {}",
            args.algorithm,
            shown.join(" "),
            counted(*records as u64, "record", "records"),
            counted(*signatures as u64, "signature", "signatures")
        )?;
    }
    let signed = keys.iter().filter(|keys| !keys.is_empty()).count();
    let (output, anchor) = (args.output.display(), args.output.join(anchors::RECORDS));
    let (total, anchor) = (sources.len(), anchor.display());
    let trusted = if anchored.is_empty() { "none".to_owned() } else { anchored.join(" ") };
    write_line!(
        out,
        "{output}: {signed} of {total} zones signed in {elapsed_s:.1} s; trust anchors in {anchor}: {trusted}"
    )?;
    Ok(())
}

fn as_json(source: &Source, keys: &[Key], outcome: &Outcome) -> Value {
    let keys: Vec<Value> = keys
        .iter()
        .map(|key| {
            json!({ "role": key.role().to_string(), "tag": key.tag(), "algorithm": key.algorithm().name(), "bits": key.bits() })
        })
        .collect();
    json!({
        "zone": Presentation(&source.apex).to_string(),
        "file": source.file,
        "keys": keys,
        "records": outcome.records,
        "signatures": outcome.signatures,
        "denials": outcome.denials,
    })
}
