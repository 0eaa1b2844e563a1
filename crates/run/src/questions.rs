//! The questions of a run's queries, read from its trace again: rows have none of their own.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use ldplayer_core::message::Question as OnTheWire;
use ldplayer_core::name::Presentation;
use ldplayer_core::{Message, Query};
use ldplayer_results::{Document, Question, Questions, TraceFile};
use ldplayer_trace::Input;
use ldplayer_trace::columns::type_name;
use ldplayer_workload::{FeedOptions, PlanFeed, Timing, WorkloadError};
use sha2::{Digest, Sha256};

use crate::error::RunError;
use crate::keys::RunSpec;
use crate::load;
use crate::resolve::feed_of;

/// A run of more queries does not read its trace a second time at its end: it would take longer than some seconds.
const SOON_READ: u64 = 4_000_000;
/// A file of more octets is known again by its size alone.
const SOON_HASHED: u64 = 4 << 30;
/// Octets hashed at a time.
const PIECE: usize = 1 << 18;

/// The questions of a run that has just ended with so many queries; `None` where its trace cannot be read again in some seconds.
pub fn at_end(feed: &FeedOptions, queries: u64) -> Option<Questions> {
    let is_soon_read = queries <= SOON_READ && load::can_be_read_twice(feed);
    // A trace that went away during the run is missed by whoever asks for names.
    is_soon_read.then(|| read(feed, queries).ok()).flatten()
}

/// The files of a trace, as they are now.
pub fn files(feed: &FeedOptions) -> Vec<TraceFile> {
    let files = feed.inputs.iter().filter_map(|input| match input {
        Input::File(path) => described(path).ok(),
        Input::Stdin | Input::Unix(_) => None,
    });
    files.collect()
}

/// The questions of a run of this directory, out of its trace or of the file given in its place.
///
/// # Errors
/// The trace can be read only once, is not where it was or not the same, or cannot be read.
pub fn questions(run: &Path, document: &Document<RunSpec>, trace: Option<&Path>) -> Result<Questions, RunError> {
    let mut feed = feed_of(&document.spec);
    let refused = |what: String| RunError::Spec(format!("{}: its trace has the names: {what}", run.display()));
    if let Some(trace) = trace {
        feed.inputs = vec![Input::File(trace.to_owned())];
    }
    if !load::can_be_read_twice(&feed) {
        return Err(refused("it came by a pipe or socket: give a file of it with --trace FILE".to_owned()));
    }
    for (input, was) in feed.inputs.iter().zip(&document.report.traces) {
        let Input::File(path) = input else { continue };
        is_the_same(path, was).map_err(refused)?;
    }
    let queries = document.report.summary.queries.trace.unwrap_or(u64::MAX);
    Ok(read(&feed, queries)?)
}

/// Whether this is the file that was replayed.
fn is_the_same(path: &Path, was: &TraceFile) -> Result<(), String> {
    let is = described(path).map_err(|error| format!("{}: {error}: give it with --trace FILE", path.display()))?;
    let differs = match (&is.sha256, &was.sha256) {
        _ if is.octets != was.octets => Some("size"),
        (Some(is), Some(was)) if is != was => Some("SHA-256"),
        _ => None,
    };
    match differs {
        None => Ok(()),
        Some(what) => Err(format!(
            "{} has another {what} than it had in the run: give that file with --trace FILE",
            path.display()
        )),
    }
}

fn described(path: &Path) -> io::Result<TraceFile> {
    let metadata = path.metadata()?;
    // A device has no end, and a pipe no second beginning.
    if !metadata.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let sha256 = (metadata.len() <= SOON_HASHED).then(|| hashed(path)).transpose()?;
    Ok(TraceFile { file: PathBuf::from(path), octets: metadata.len(), sha256 })
}

fn hashed(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = BufReader::with_capacity(PIECE, File::open(path)?);
    loop {
        let piece = file.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        hasher.update(piece);
        let length = piece.len();
        file.consume(length);
    }
    Ok(hasher.finalize().iter().map(|octet| format!("{octet:02x}")).collect())
}

/// Plans the trace as the run did, and keeps the questions of its first queries, so many.
fn read(feed: &FeedOptions, queries: u64) -> Result<Questions, WorkloadError> {
    let mut questions = Questions::new(feed.plan.timing != Timing::Fast);
    let mut feed = PlanFeed::open(feed)?;
    let (mut batch, mut more, mut left) = (Vec::new(), true, queries);
    while more && left > 0 {
        more = feed.next(&mut batch)?;
        batch.iter().for_each(|query| add(&mut questions, query));
        left = left.saturating_sub(batch.len() as u64);
        batch.clear();
    }
    Ok(questions)
}

fn add(questions: &mut Questions, query: &Query) {
    let message = Message::new(&query.wire);
    let Some((octets, question)) = message.and_then(|message| Some((message.question_octets()?, message.question()?)))
    else {
        return;
    };
    questions.add(query.index, query.due.0, octets, || shown(&question));
}

fn shown(question: &OnTheWire<'_>) -> Question {
    Question {
        name: Presentation(question.name).to_string().into(),
        kind: type_name(question.qtype).to_string().into(),
    }
}
