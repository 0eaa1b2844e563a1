//! `--keep-responses`: writes responses as a trace on a separate thread.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use ldplayer_core::text::counted;
use ldplayer_core::{TraceTime, Transaction};
use ldplayer_net::disk;
use ldplayer_results::{NsidCounts, Warning, WarningCode};
use ldplayer_trace::{Sink, TraceError, create_numbered, open_numbered};

/// Queued batches of transactions; workers block when it is full.
const WAITING: usize = 64;
/// Maximum number of transactions held for sorting …
const HELD: usize = 128 << 10;
/// … or of octets of their messages. Later ones are written out of order.
const HELD_OCTETS: usize = 64 << 20;
/// Octets of free disk space reserved for the rows of the run: with less, no more responses are kept.
const LEFT_FREE: u64 = 64 << 20;

/// The thread that writes responses.
pub struct Responses {
    transactions: Sender<Vec<Transaction>>,
    writer: JoinHandle<WrittenResponses>,
}

/// What was written.
#[derive(Debug, Default)]
pub struct WrittenResponses {
    /// Queries in the file.
    pub written: u64,
    /// Their responses by the server that sent them.
    pub nsid: NsidCounts,
    /// Queries missing in it, because the disk is full or writing failed …
    pub lost: u64,
    /// … and the reason.
    pub why: Option<String>,
}

impl Responses {
    /// Creates a file; run time 0 is at `started`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn start(path: &Path, started: TraceTime) -> Result<Self, TraceError> {
        let (transactions, waiting) = bounded(WAITING);
        let sink = create_numbered(path, true)?;
        let writer = Writer::new(path, started, sink);
        Ok(Self { transactions, writer: thread::spawn(move || writer.run(&waiting)) })
    }

    /// The queue of transactions.
    pub fn sender(&self) -> Sender<Vec<Transaction>> {
        self.transactions.clone()
    }

    /// Waits until everything is written; all senders must be gone.
    pub fn end(self) -> WrittenResponses {
        drop(self.transactions);
        let panicked =
            || WrittenResponses { why: Some("its thread panicked".to_owned()), ..WrittenResponses::default() };
        self.writer.join().unwrap_or_else(|_| panicked())
    }
}

impl WrittenResponses {
    /// A warning if responses are missing.
    pub fn warning(&self) -> Option<Warning> {
        let why = self.why.as_deref()?;
        Some(Warning::new(
            WarningCode::ResponsesLost,
            format!("{} without a kept response: {why}", counted(self.lost, "query", "queries")),
        ))
    }
}

/// Joins the files of several hosts, with this many queries, into one in time order, and removes them. They are kept if any part is missing.
pub fn join(parts: &[PathBuf], queries: u64, path: &Path) -> WrittenResponses {
    let mut kept = try_joining(parts, path)
        .unwrap_or_else(|error| WrittenResponses { why: Some(error.to_string()), ..WrittenResponses::default() });
    kept.lost = queries.saturating_sub(kept.written);
    match kept.lost {
        // A leftover takes space but does no harm.
        0 => parts.iter().for_each(|part| drop(fs::remove_file(part))),
        _ => drop(kept.why.get_or_insert_with(|| "the file kept by an agent is damaged".to_owned())),
    }
    kept
}

fn try_joining(parts: &[PathBuf], path: &Path) -> Result<WrittenResponses, TraceError> {
    let mut source = open_numbered(parts)?;
    // Their times are already on one clock.
    let mut writer = Writer::new(path, TraceTime(0), create_numbered(path, true)?);
    let mut more = true;
    while more {
        let mut batch = Vec::new();
        more = source.read(&mut batch)?;
        writer.take(batch);
    }
    Ok(writer.end())
}

struct Writer {
    folder: PathBuf,
    started: TraceTime,
    /// `None` once the disk is full or writing has failed.
    sink: Option<Box<dyn Sink>>,
    held: Vec<Transaction>,
    octets: usize,
    kept: WrittenResponses,
}

impl Writer {
    fn new(path: &Path, started: TraceTime, sink: Box<dyn Sink>) -> Self {
        Self {
            folder: path.parent().map(Path::to_owned).unwrap_or_default(),
            started,
            sink: Some(sink),
            held: Vec::new(),
            octets: 0,
            kept: WrittenResponses::default(),
        }
    }

    fn run(mut self, waiting: &Receiver<Vec<Transaction>>) -> WrittenResponses {
        for batch in waiting {
            self.take(batch);
        }
        self.end()
    }

    /// Writes all held transactions, and closes the file.
    fn end(mut self) -> WrittenResponses {
        self.write(self.held.len());
        self.close();
        self.kept
    }

    fn take(&mut self, batch: Vec<Transaction>) {
        if self.sink.is_none() {
            self.kept.lost += batch.len() as u64;
            return;
        }
        if disk::free(&self.folder).is_some_and(|free| free < LEFT_FREE) {
            self.kept.why = Some(format!("less than {} MB of disk space is left", LEFT_FREE >> 20));
            self.write(self.held.len());
            self.close();
            self.kept.lost += batch.len() as u64;
            return;
        }
        self.octets += batch.iter().map(Transaction::message_octets).sum::<usize>();
        self.held.extend(batch);
        if self.held.len() > HELD || self.octets > HELD_OCTETS {
            self.write(self.held.len() / 2);
        }
    }

    /// Writes the earliest of the held transactions.
    fn write(&mut self, count: usize) {
        self.held.sort_by_key(|transaction| transaction.time);
        let mut first: Vec<Transaction> = self.held.drain(..count).collect();
        let octets: usize = first.iter().map(Transaction::message_octets).sum();
        self.octets = self.octets.saturating_sub(octets);
        first.iter().for_each(|transaction| self.kept.nsid.add(transaction));
        let started = self.started;
        first.iter_mut().for_each(|transaction| transaction.time = started + transaction.time.0);
        let count = first.len() as u64;
        match self.sink.as_mut().map(|sink| sink.write(&mut first)) {
            Some(Ok(())) => self.kept.written += count,
            Some(Err(error)) => self.fail(&error, count),
            None => self.kept.lost += count,
        }
    }

    fn close(&mut self) {
        let finished = self.sink.take().map(Sink::finish);
        if let Some(Err(error)) = finished {
            self.fail(&error, 0);
        }
    }

    /// Stops keeping responses; the file is removed to free space for rows.
    fn fail(&mut self, error: &TraceError, more: u64) {
        self.sink = None;
        self.kept.nsid = NsidCounts::default();
        self.kept.lost += std::mem::take(&mut self.kept.written) + more;
        self.kept.why = Some(error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::Transport;
    use ldplayer_trace::{Input, OpenOptions, open};

    fn transaction(index: u64, time: i64) -> Transaction {
        Transaction {
            index,
            time: TraceTime(time),
            client: "192.0.2.1:1024".parse().unwrap(),
            server: "192.0.2.2:53".parse().unwrap(),
            transport: Transport::Udp,
            stream: None,
            query: Some(vec![0; 17].into()),
            response: None,
            response_delay: None,
            retry_of: None,
        }
    }

    #[test]
    fn what_was_given_is_a_trace_in_the_order_of_sending() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("responses.parquet");
        let responses = Responses::start(&path, TraceTime(1_000)).unwrap();
        let sender = responses.sender();
        sender.send(vec![transaction(2, 30), transaction(0, 10)]).unwrap();
        sender.send(vec![transaction(1, 20)]).unwrap();
        drop(sender);
        let kept = responses.end();
        assert_eq!((kept.written, kept.lost, kept.warning()), (3, 0, None));
        let (mut source, mut rows) = (open(&[Input::File(path)], &OpenOptions::default()).unwrap(), Vec::new());
        while source.read(&mut rows).unwrap() {}
        assert_eq!(rows.iter().map(|row| row.time.0).collect::<Vec<_>>(), [1_010, 1_020, 1_030]);
        assert!(source.tally().damaged.is_empty(), "{:?}", source.tally());
    }

    #[test]
    fn what_several_hosts_kept_becomes_one_trace_that_tells_the_rows_of_queries() {
        let folder = tempfile::tempdir().unwrap();
        let parts = ["a", "b"].map(|name| folder.path().join(name));
        for (path, rows) in parts.iter().zip([[(7, 10), (3, 30)], [(9, 20), (1, 40)]]) {
            let responses = Responses::start(path, TraceTime(1_000)).unwrap();
            responses.sender().send(rows.map(|(index, time)| transaction(index, time)).to_vec()).unwrap();
            assert_eq!(responses.end().written, 2);
        }
        let whole = folder.path().join("responses.parquet");
        let kept = join(&parts, 4, &whole);
        assert_eq!((kept.written, kept.lost, kept.warning()), (4, 0, None));
        let (mut source, mut rows) = (open_numbered(&[whole]).unwrap(), Vec::new());
        while source.read(&mut rows).unwrap() {}
        let found: Vec<(u64, i64)> = rows.iter().map(|row| (row.index, row.time.0)).collect();
        assert_eq!(found, [(7, 1_010), (9, 1_020), (3, 1_030), (1, 1_040)]);
        assert!(parts.iter().all(|part| !part.exists()));
    }

    #[test]
    fn what_one_host_kept_and_cannot_be_read_is_told_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("a");
        std::fs::write(&part, "PAR1 and then nothing").unwrap();
        let kept = join(std::slice::from_ref(&part), 5, &folder.path().join("responses.parquet"));
        let told = kept.warning().unwrap().text;
        assert!(told.starts_with("5 queries") && told.contains("damaged Parquet file") && part.exists(), "{kept:?}");
    }

    #[test]
    fn a_disk_that_refuses_ends_the_keeping_and_nothing_else() {
        let responses = Responses::start(Path::new("/dev/full"), TraceTime(0)).unwrap();
        responses.sender().send((0..10).map(|index| transaction(index, 1)).collect()).unwrap();
        let kept = responses.end();
        assert_eq!((kept.written, kept.lost), (0, 10));
        assert!(kept.warning().unwrap().text.contains("the disk is full"), "{kept:?}");
    }
}
