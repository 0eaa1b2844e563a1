//! The content of an archive as a run directory: links to what goes in as it is, and new files for what is changed.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ldplayer_core::Transaction;
use ldplayer_report::rewrite_page;
use ldplayer_results::store::RunDir;
use ldplayer_results::{DISAGREEMENTS, DISAGREEMENTS_NOW, Document, RESPONSES, TraceFile, join_names, replace_clients};
use ldplayer_trace::set::all_files;
use ldplayer_trace::{Format, Input, OpenOptions, Source, create, open};
use ldplayer_workload::Anonymiser;

use super::{ArchiveError, Contents, heed};
use crate::keys::RunSpec;
use crate::questions::{self, questions};
use crate::{embed, resolve};

/// The folder of the trace, in an archived run.
const TRACE: &str = "trace";
/// The folder of other files that a specification names.
const FILES: &str = "files";
/// The trace of an archive that names no client.
const ANONYMOUS: &str = "trace.parquet";
/// What every run directory has beside its rows.
const TELEMETRY: &str = "telemetry.parquet";
const PAGE: &str = "report.html";

/// Makes in the empty folder `to` what the archive of a run holds.
pub fn stage(run: &Path, to: &Path, contents: &Contents, stop: &AtomicBool) -> Result<(), ArchiveError> {
    let from = RunDir::new(run);
    let mut document = from.read::<RunSpec>()?;
    document.spec = embed::placed(document.spec, run);
    let mut stage = Stage { run, to, anonymiser: contents.key.map(Anonymiser::new), stop };
    if contents.key.is_some() {
        refuse_clients(run, &document.spec)?;
    }
    stage.rows("queries", from.row_files()?.0)?;
    stage.rows("attempts", from.attempt_files()?)?;
    stage.link(TELEMETRY)?;
    stage.files(&mut document.spec)?;
    if !contents.without_names {
        stage.trace(&mut document, &contents.trace)?;
        [RESPONSES, DISAGREEMENTS, DISAGREEMENTS_NOW].into_iter().try_for_each(|name| stage.messages(name))?;
    }
    let names = document.report.summary.names.take();
    let is_changed = contents.without_names || contents.key.is_some();
    if !is_changed {
        document.report.summary.names = names;
        RunDir::new(to).write(&document)?;
        return stage.link(PAGE);
    }
    RunDir::new(to).write(&document)?;
    if names.is_some() && !contents.without_names {
        join_names(to, &questions(to, &document, None)?)?;
    }
    rewrite_page::<RunSpec>(to, None)?;
    Ok(())
}

/// Refuses to name no client where the specification itself does.
fn refuse_clients(run: &Path, spec: &RunSpec) -> Result<(), ArchiveError> {
    let text = |rules: &ldplayer_workload::RulesFile| rules.text.clone().unwrap_or_default();
    let what = if spec.rules.iter().any(|rules| text(rules).contains("client")) {
        "its rules speak of clients"
    } else if spec.rtt.as_ref().is_some_and(|rtt| rtt.file().is_some()) {
        "its table of round-trip times has the addresses of clients"
    } else {
        return Ok(());
    };
    Err(ArchiveError::Clients { run: run.to_owned(), what })
}

struct Stage<'a> {
    run: &'a Path,
    to: &'a Path,
    anonymiser: Option<Anonymiser>,
    stop: &'a AtomicBool,
}

impl Stage<'_> {
    /// Links a file of the run directory, if it has it.
    fn link(&self, name: &str) -> Result<(), ArchiveError> {
        let from = self.run.join(name);
        if from.exists() { link(&from, &self.to.join(name)) } else { Ok(()) }
    }

    /// The files of rows of a folder.
    fn rows(&mut self, folder: &str, files: Vec<PathBuf>) -> Result<(), ArchiveError> {
        if !self.run.join(folder).exists() {
            return Ok(());
        }
        let folder = made(self.to, folder)?;
        for file in files {
            heed(self.stop)?;
            let to = folder.join(file.file_name().unwrap_or_default());
            match &mut self.anonymiser {
                Some(anonymiser) => replace_clients(&file, &to, |client| anonymiser.address(client))?,
                None => link(&file, &to)?,
            }
        }
        Ok(())
    }

    /// Files that the specification names beside the trace, whose paths are in the archive from now on.
    fn files(&self, spec: &mut RunSpec) -> Result<(), ArchiveError> {
        let mut table = spec.rtt.as_ref().and_then(|rtt| rtt.file().map(Path::to_owned));
        for file in [&mut table, &mut spec.tls_ca].into_iter().flatten() {
            let name = Path::new(FILES).join(file.file_name().unwrap_or_default());
            made(self.to, FILES)?;
            link(file, &self.to.join(&name))?;
            *file = name;
        }
        spec.rtt = spec.rtt.take().map(|rtt| rtt.placed(|file| table.unwrap_or_else(|| file.to_owned())));
        Ok(())
    }

    /// The trace that was replayed.
    fn trace(&mut self, document: &mut Document<RunSpec>, given: &[PathBuf]) -> Result<(), ArchiveError> {
        let refused = |what: String| ArchiveError::Trace { run: self.run.to_owned(), what };
        let files = files_of(&document.spec, given).map_err(refused)?;
        for (file, was) in files.iter().zip(&document.report.traces) {
            questions::is_the_same(file, was).map_err(refused)?;
        }
        let folder = made(self.to, TRACE)?;
        let options = resolve::feed_of(&document.spec).open;
        let inputs: Vec<Input> = files.iter().cloned().map(Input::File).collect();
        let names = match &mut self.anonymiser {
            // A list of queries has no clients.
            Some(anonymiser) if !open(&inputs, &options)?.is_list() => {
                rewrite(&inputs, &options, &folder.join(ANONYMOUS), anonymiser, self.stop)?;
                vec![(Path::new(TRACE).join(ANONYMOUS), folder.join(ANONYMOUS))]
            }
            // What is linked is described as the file itself: links do not count among the files of a folder.
            _ => linked(&files, &folder)?.into_iter().zip(files).collect(),
        };
        document.spec.trace = names.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        document.report.traces = names
            .into_iter()
            .map(|(name, path)| {
                let described = questions::described(&path).map_err(ArchiveError::file(&path))?;
                Ok(TraceFile { file: name, ..described })
            })
            .collect::<Result<_, ArchiveError>>()?;
        Ok(())
    }

    /// A trace of what servers answered.
    fn messages(&mut self, name: &str) -> Result<(), ArchiveError> {
        let from = self.run.join(name);
        match &mut self.anonymiser {
            Some(anonymiser) if from.exists() => {
                rewrite(&[Input::File(from)], &OpenOptions::default(), &self.to.join(name), anonymiser, self.stop)
            }
            Some(_) => Ok(()),
            None => self.link(name),
        }
    }
}

/// The files of a trace, where they are now.
fn files_of(spec: &RunSpec, given: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    if !given.is_empty() && given.len() != spec.trace.len() {
        return Err(format!("it was of {} files, and --trace gives {}", spec.trace.len(), given.len()));
    }
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let file = |word: &String| match Input::from(word.as_str()) {
        Input::File(path) => Ok(path),
        Input::Stdin | Input::Unix(_) => {
            Err("it came by a pipe or socket: give a file of it with --trace FILE".to_owned())
        }
    };
    spec.trace.iter().map(file).collect()
}

/// Links the files and folders of a trace; those of one name are numbered.
fn linked(files: &[PathBuf], folder: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let mut names: Vec<PathBuf> = Vec::new();
    for (number, file) in files.iter().enumerate() {
        // That of a folder may end with a dot.
        let whole = std::path::absolute(file).map_err(ArchiveError::file(file))?;
        let name = whole.file_name().unwrap_or_default().to_string_lossy();
        let plain = Path::new(TRACE).join(&*name);
        let name = if names.contains(&plain) { format!("{}-{name}", number + 1) } else { name.into_owned() };
        link_trace(file, &folder.join(&name))?;
        names.push(Path::new(TRACE).join(name));
    }
    Ok(names)
}

/// Links a file, or each file of a folder that is a trace.
fn link_trace(from: &Path, to: &Path) -> Result<(), ArchiveError> {
    if !from.is_dir() {
        return link(from, to);
    }
    for file in all_files(from).map_err(ArchiveError::file(from))? {
        let linked = to.join(file.strip_prefix(from).unwrap_or(&file));
        linked.parent().map_or(Ok(()), fs::create_dir_all).map_err(ArchiveError::file(&linked))?;
        link(&file, &linked)?;
    }
    Ok(())
}

/// Writes transactions without their clients.
fn rewrite(
    inputs: &[Input],
    options: &OpenOptions,
    to: &Path,
    anonymiser: &mut Anonymiser,
    stop: &AtomicBool,
) -> Result<(), ArchiveError> {
    let mut source = open(inputs, options)?;
    let mut sink = create(to, Format::Parquet, false)?;
    let mut batch: Vec<Transaction> = Vec::new();
    loop {
        heed(stop)?;
        let more = source.read(&mut batch)?;
        batch.iter_mut().for_each(|transaction| anonymiser.transaction(transaction));
        sink.write(&mut batch)?;
        if !more {
            break;
        }
    }
    sink.finish()?;
    Ok(())
}

/// Links a file under another name. A run may come from somebody else: what it has instead of a file may lead to files of the user.
fn link(from: &Path, to: &Path) -> Result<(), ArchiveError> {
    let failed = |source| ArchiveError::File { path: from.to_owned(), source };
    let whole = std::path::absolute(from).map_err(failed)?;
    if !fs::symlink_metadata(&whole).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("is not a file, so it is not packed")));
    }
    symlink(whole, to).map_err(ArchiveError::file(to))
}

fn made(parent: &Path, name: &str) -> Result<PathBuf, ArchiveError> {
    let folder = parent.join(name);
    fs::create_dir_all(&folder).map_err(ArchiveError::file(&folder))?;
    Ok(folder)
}
