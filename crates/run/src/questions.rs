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

use crate::embed::placed;
use crate::error::RunError;
use crate::keys::RunSpec;
use crate::load;
use crate::resolve::feed_of;

/// A run of more queries does not read its trace a second time at its end: it would take longer than some seconds.
const SOON_READ: u64 = 4_000_000;
/// Nor does one of more different questions, which take some 200 octets each.
const FEW: usize = 1_000_000;
/// A file of more octets is known again by its size alone.
const SOON_HASHED: u64 = 4 << 30;
/// Octets hashed at a time.
const PIECE: usize = 1 << 18;

/// The questions of a run that has just ended with so many queries; `None` where its trace cannot be read again in some seconds.
pub fn at_end(feed: &FeedOptions, queries: u64) -> Option<Questions> {
    let is_soon_read = queries <= SOON_READ && load::can_be_read_twice(feed);
    // A trace that went away during the run is missed by whoever asks for names.
    is_soon_read.then(|| read(feed, queries, FEW).ok().flatten()).flatten()
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
    let mut feed = feed_of(&placed(document.spec.clone(), run));
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
    Ok(read(&feed, queries, usize::MAX)?.unwrap_or_default())
}

/// Whether this is the file that was replayed.
pub fn is_the_same(path: &Path, was: &TraceFile) -> Result<(), String> {
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

/// A file of a trace, or a folder of such files, as it is now.
pub fn described(path: &Path) -> io::Result<TraceFile> {
    let files = match path.metadata()? {
        found if found.is_file() => vec![path.to_owned()],
        found if found.is_dir() => ldplayer_trace::set::files_below(path)?,
        // A device has no end, and a pipe no second beginning.
        _ => return Err(io::Error::other("not a file")),
    };
    let octets = files.iter().map(|file| Ok(file.metadata()?.len())).sum::<io::Result<u64>>()?;
    let sha256 = (octets <= SOON_HASHED).then(|| hashed(&files)).transpose()?;
    Ok(TraceFile { file: PathBuf::from(path), octets, sha256 })
}

/// The hash of the octets of all files, in their order.
fn hashed(files: &[PathBuf]) -> io::Result<String> {
    let mut hasher = Sha256::new();
    for file in files {
        let mut file = BufReader::with_capacity(PIECE, File::open(file)?);
        loop {
            let piece = file.fill_buf()?;
            if piece.is_empty() {
                break;
            }
            hasher.update(piece);
            let length = piece.len();
            file.consume(length);
        }
    }
    Ok(hasher.finalize().iter().map(|octet| format!("{octet:02x}")).collect())
}

/// Plans the trace as the run did, and keeps the questions of its first queries, so many; `None` if more than `most` of them differ.
fn read(feed: &FeedOptions, queries: u64, most: usize) -> Result<Option<Questions>, WorkloadError> {
    let mut questions = Questions::new(feed.plan.timing != Timing::Fast);
    let mut feed = PlanFeed::open(feed)?;
    let (mut batch, mut more, mut left) = (Vec::new(), true, queries);
    while more && left > 0 {
        more = feed.next(&mut batch)?;
        batch.iter().for_each(|query| add(&mut questions, query));
        left = left.saturating_sub(batch.len() as u64);
        batch.clear();
        if questions.distinct().len() > most {
            return Ok(None);
        }
    }
    Ok(Some(questions))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The feed of a trace of so many queries, each for a name of its own.
    fn feed(folder: &Path, queries: usize) -> FeedOptions {
        let lines: String = (0..queries).map(|at| format!("{at}\t192.0.2.1\tn{at}.example.\tA\n")).collect();
        let file = folder.join("t.tsv");
        std::fs::write(&file, format!("time\tsrc\tqname\tqtype\n{lines}")).unwrap();
        FeedOptions::of(vec![Input::File(file)])
    }

    #[test]
    fn as_many_questions_are_read_as_queries_were_sent_and_no_more_than_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let feed = feed(folder.path(), 9);
        assert_eq!(read(&feed, u64::MAX, 9).unwrap().unwrap().distinct().len(), 9);
        assert!(read(&feed, u64::MAX, 8).unwrap().is_none());
        let forever = FeedOptions { passes: Some(ldplayer_workload::Passes::Forever), ..feed };
        assert_eq!(at_end(&forever, 20).unwrap().distinct().len(), 9, "an endless one ends with the run");
        assert!(at_end(&forever, SOON_READ + 1).is_none());
    }

    #[test]
    fn a_file_is_known_by_its_octets_and_what_is_no_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "abc").unwrap();
        let described = described(&file).unwrap();
        assert_eq!(described.octets, 3);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(described.sha256.as_deref(), Some(abc));
        let of_folder = super::described(folder.path()).unwrap();
        assert_eq!((of_folder.octets, &of_folder.sha256), (3, &described.sha256));
        assert!(is_the_same(Path::new("/dev/zero"), &described).unwrap_err().contains("not a file"));
    }
}
