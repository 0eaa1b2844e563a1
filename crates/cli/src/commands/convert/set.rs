//! `ldplayer convert -o SET/`: many inputs into one data set, several at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use crossbeam_channel::{RecvTimeoutError, bounded, unbounded};
use ldplayer_core::TraceTime;
use ldplayer_core::text::counted;
use ldplayer_net::signals::{INTERRUPTED, Signals};
use ldplayer_trace::set::{Manifest, PartWriter, Settings, Span, files_below, fingerprint};
use ldplayer_trace::{Input, OpenOptions, RecordedRetries, Source, open};

use super::{Args, LOOK, WAITING, read_all};
use crate::failure::{BAD_INPUT, Failure};

/// Shards of a new set where nothing is said.
const SHARDS: u16 = 4;
/// Looks at the inputs between two lines that tell how far it is.
const LOOKS_A_LINE: u32 = 200;
/// Holes that are told one by one.
const TOLD: usize = 10;

/// What became of an input.
enum End {
    Converted,
    /// The set has it, or another input that is the same.
    There,
    Interrupted,
}

/// The work of all threads.
struct Work<'a> {
    set: &'a Path,
    inputs: &'a [PathBuf],
    options: OpenOptions,
    settings: Settings,
    signals: &'a Signals,
    /// The fingerprints that are in the set, or that a thread writes.
    taken: Mutex<BTreeSet<String>>,
    next: AtomicUsize,
    transactions: AtomicU64,
}

/// Whether an output is a data set: a folder that is there, or a name that ends like one.
pub fn is_for(output: &Path) -> bool {
    output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Converts what the set has not yet. A second Ctrl-C ends the process at once.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.to.is_some() || args.force || args.recorded_retries != RecordedRetries::Keep {
        return Err(anyhow!(
            "-o {}: is a directory, and a data set has no --to, --force or --recorded-retries",
            args.output.display()
        )
        .into());
    }
    let manifest = manifest_of(&args.output)?;
    let (inputs, options) = (inputs(&args.inputs, &args.output)?, args.reading.of(&args.inputs).1);
    let settings = settings(args, &manifest)?;
    fs::create_dir_all(&args.output).with_context(|| format!("-o {}", args.output.display()))?;
    let signals = Signals::catch_or_end(Arc::default()).context("signals")?;
    let work = Work {
        set: &args.output,
        inputs: &inputs,
        options,
        settings,
        signals: &signals,
        taken: Mutex::new(manifest.parts.iter().map(|part| part.fingerprint.clone()).collect()),
        next: AtomicUsize::new(0),
        transactions: AtomicU64::new(0),
    };
    let ends = work.all();
    tell_all(&args.output, &ends)?;
    Ok(match ends {
        _ if signals.is_stopped() => ExitCode::from(INTERRUPTED),
        ends if ends.iter().any(Result::is_err) => ExitCode::from(BAD_INPUT),
        _ => ExitCode::SUCCESS,
    })
}

/// The manifest of the set, which is refused if the folder has other files.
fn manifest_of(set: &Path) -> anyhow::Result<Manifest> {
    let manifest = Manifest::of(set)?;
    if manifest.parts.is_empty() && set.is_dir() && !files_below(set)?.is_empty() {
        bail!("-o {}: a folder with other files: give a new one, or that of a data set", set.display());
    }
    Ok(manifest)
}

/// The files that are named, and those in folders that are, without those of the set, which may be in one of these.
fn inputs(words: &[String], set: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let set = std::path::absolute(set).with_context(|| format!("-o {}", set.display()))?;
    let mut files = Vec::new();
    for word in words {
        match Input::from(word.as_str()) {
            Input::File(path) if path.is_dir() => files.extend(files_below(&path).with_context(|| word.clone())?),
            Input::File(path) => files.push(path),
            Input::Stdin | Input::Unix(_) => bail!("{word}: a data set is made of files, which can be read again"),
        }
    }
    files.retain(|file| !std::path::absolute(file).is_ok_and(|file| file.starts_with(&set)));
    if files.is_empty() {
        bail!("{}: no file to convert", words.join(", "));
    }
    Ok(files)
}

/// How inputs are read and divided, which is the same in all of a set.
fn settings(args: &Args, manifest: &Manifest) -> anyhow::Result<Settings> {
    let there = manifest.parts.first().map(|part| &part.settings);
    let settings = Settings {
        capture_ports: args.reading.capture_port.clone(),
        roles: args.reading.role.iter().map(ToString::to_string).collect(),
        drop_duplicates: args.reading.drop_duplicates,
        shards: args.shards.map_or_else(|| there.map_or(SHARDS.into(), |there| there.shards), usize::from),
    };
    match there {
        Some(there) if *there != settings => {
            let (there, here) = (serde_json::to_string(there)?, serde_json::to_string(&settings)?);
            bail!("-o {}: its inputs were read otherwise: {there}, and now {here}", args.output.display())
        }
        _ => Ok(settings),
    }
}

impl Work<'_> {
    /// Converts all inputs on all cores.
    fn all(&self) -> Vec<Result<End, Failure>> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(self.inputs.len());
        let began = Instant::now();
        thread::scope(|scope| {
            let (sender, receiver) = unbounded();
            for _ in 0..threads {
                let sender = sender.clone();
                scope.spawn(move || {
                    while let Some(input) = self.inputs.get(self.next.fetch_add(1, Ordering::Relaxed)) {
                        // The receiver is there as long as threads are.
                        let _ = sender.send(self.convert(input));
                    }
                });
            }
            drop(sender);
            let (mut ends, mut looks) = (Vec::new(), 0);
            loop {
                match receiver.recv_timeout(LOOK) {
                    Ok(end) => ends.push(end),
                    Err(RecvTimeoutError::Timeout) => {}
                    // All threads have ended.
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                looks += 1;
                if looks % LOOKS_A_LINE == 0 {
                    self.tell(ends.len(), began);
                }
            }
            ends
        })
    }

    fn tell(&self, inputs: usize, began: Instant) {
        let transactions = self.transactions.load(Ordering::Relaxed);
        let rate = transactions as f64 / began.elapsed().as_secs_f64() / 1e6;
        tell!(
            "{inputs} of {} inputs, {} so far, {rate:.2} million a second",
            self.inputs.len(),
            counted(transactions, "transaction", "transactions")
        );
    }

    fn convert(&self, input: &Path) -> Result<End, Failure> {
        if self.signals.is_stopped() {
            return Ok(End::Interrupted);
        }
        let fingerprint = fingerprint(input)?;
        let is_new = self.taken.lock().is_ok_and(|mut taken| taken.insert(fingerprint.clone()));
        if !is_new {
            return Ok(End::There);
        }
        let mut source = open(&[Input::File(input.to_owned())], &self.options)?;
        if source.is_list() {
            return Err(anyhow!(
                "{}: a list of queries, without times: a data set is divided by hours",
                input.display()
            )
            .into());
        }
        let mut part = PartWriter::new(self.set, input, fingerprint, self.settings.clone())?;
        if !self.copy(&mut *source, &mut part)? {
            return Ok(End::Interrupted);
        }
        part.finish(source.tally())?;
        Ok(End::Converted)
    }

    /// Writes all of an input, which another thread reads; `false` upon a signal.
    fn copy(&self, source: &mut dyn Source, part: &mut PartWriter) -> Result<bool, Failure> {
        thread::scope(|scope| {
            let (sender, receiver) = bounded(WAITING);
            let (done, empty) = unbounded();
            let reader = scope.spawn(move || read_all(source, &sender, &empty));
            for mut batch in &receiver {
                if self.signals.is_stopped() {
                    break;
                }
                self.transactions.fetch_add(batch.len() as u64, Ordering::Relaxed);
                part.write(&mut batch)?;
                // A reader that has ended needs no more memory.
                let _ = done.send(batch);
            }
            drop(receiver);
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(!self.signals.is_stopped())
        })
    }
}

/// Tells what is in the set, what its inputs lack, and what is not in it.
fn tell_all(set: &Path, ends: &[Result<End, Failure>]) -> anyhow::Result<()> {
    let manifest = Manifest::of(set)?;
    let transactions = manifest.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.transactions));
    let (transactions, inputs) =
        (counted(transactions, "transaction", "transactions"), counted(manifest.parts.len() as u64, "input", "inputs"));
    tell!("{}: {transactions} of {inputs}", set.display());
    let there = ends.iter().filter(|end| matches!(end, Ok(End::There))).count();
    if there > 0 {
        tell!("{} of these were in it, or are given twice", counted(there as u64, "input", "inputs"));
    }
    for part in manifest.parts.iter().filter(|part| part.transactions == 0) {
        tell!("{}: no DNS transaction", part.input);
    }
    super::tell_lacking(&manifest.tally());
    tell_order(&manifest);
    for failure in ends.iter().filter_map(|end| end.as_ref().err()) {
        tell!("not in it: {failure}");
    }
    let interrupted = ends.iter().filter(|end| matches!(end, Ok(End::Interrupted))).count();
    if interrupted > 0 {
        tell!("interrupted: {} to go; the same command goes on", counted(interrupted as u64, "input", "inputs"));
    }
    Ok(())
}

fn tell_order(manifest: &Manifest) {
    let holes = manifest.holes();
    for Span { first, last } in holes.iter().take(TOLD) {
        let seconds = last.0.saturating_sub(first.0) as f64 / 1e9;
        tell!("hole: nothing for {seconds:.0} s after {}", when(*first));
    }
    if holes.len() > TOLD {
        tell!("hole: {} more", holes.len() - TOLD);
    }
    let overlaps = manifest.overlaps();
    if overlaps > 0 {
        tell!(
            "{} before another ends: of several places, or the same traffic twice",
            counted(overlaps as u64, "input begins", "inputs begin")
        );
    }
}

fn when(time: TraceTime) -> String {
    jiff::Timestamp::from_nanosecond(time.0.into()).unwrap_or_default().to_string()
}
