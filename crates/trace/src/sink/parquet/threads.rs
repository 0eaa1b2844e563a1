//! The threads that encode row groups, one group each at a time, and the one that writes them to the file.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use ldplayer_columnar::{Compression, EncodedGroup, FileOptions, FileWriter, GroupEncoder, default_threads};
use ldplayer_core::Transaction;
use parquet::errors::{ParquetError, Result};

use super::group::Group;
use super::{Extra, schema};
use crate::sink::Output;

/// Maximum number of batches queued for a packer.
const WAITING_BATCHES: usize = 4;
/// Maximum number of encoded row groups queued for the writer.
const WAITING_GROUPS: usize = 1;

/// Rows, in the order of the file.
type Rows = Vec<Transaction>;

/// A message to a packer.
enum Work {
    Rows(Rows),
    /// The row group is complete.
    End,
}

/// The threads of one file. Row groups go round-robin to the packers, and from them in the same order to the writer.
pub(super) struct Threads {
    packers: Vec<Packer>,
    /// The packer of the current row group.
    turn: usize,
    /// Emptied batches, for reuse.
    empty: Receiver<Rows>,
    writer: JoinHandle<Result<Output>>,
}

/// A thread that gathers rows in columns and encodes these.
struct Packer {
    work: SyncSender<Work>,
    thread: JoinHandle<Result<()>>,
}

impl Threads {
    /// # Errors
    /// When the output refuses the first octets or the system gives no thread.
    pub fn start(output: Output, extra: Option<Extra>) -> Result<Self> {
        let options = FileOptions { compression: Compression::Zstd, sorted_by: Some(0) };
        let file = FileWriter::new(output, &schema(extra), options)?;
        let (done, empty) = channel();
        let start = |_| Packer::start(file.encoder()?, Group::new(extra), done.clone());
        let (packers, groups): (_, Vec<_>) =
            (0..default_threads()).map(start).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let writer = spawn("parquet", move || put(file, &groups))?;
        Ok(Self { packers, turn: 0, empty, writer })
    }

    /// Passes rows to the current row group, in exchange for an empty batch. Returns `false` once a thread has ended with an
    /// error.
    pub fn give(&mut self, rows: &mut Rows) -> bool {
        let empty = self.empty.try_recv().unwrap_or_default();
        self.send(Work::Rows(std::mem::replace(rows, empty)))
    }

    /// Ends the row group; `false` once a thread has ended with an error.
    pub fn end_group(&mut self) -> bool {
        let is_told = self.send(Work::End);
        self.turn = (self.turn + 1) % self.packers.len();
        is_told
    }

    fn send(&self, work: Work) -> bool {
        self.packers[self.turn].work.send(work).is_ok()
    }

    /// Waits until all ended row groups are written.
    ///
    /// # Errors
    /// The one that a thread ended with.
    pub fn end(self) -> Result<Output> {
        let threads: Vec<_> = self.packers.into_iter().map(|Packer { thread, .. }| thread).collect();
        let packed: Vec<Result<()>> = threads.into_iter().map(join).collect();
        let output = join(self.writer)?;
        // A failed packer has ended the file early.
        packed.into_iter().collect::<Result<()>>()?;
        Ok(output)
    }
}

impl Packer {
    fn start(encoder: GroupEncoder, group: Group, done: Sender<Rows>) -> Result<(Self, Receiver<EncodedGroup>)> {
        let (work, waiting) = sync_channel(WAITING_BATCHES);
        let (encoded, groups) = sync_channel(WAITING_GROUPS);
        let thread = spawn("pack", move || pack(encoder, group, &waiting, &done, &encoded))?;
        Ok((Self { work, thread }, groups))
    }
}

/// Encodes row groups until there are no more rows, or the writer is gone.
fn pack(
    mut encoder: GroupEncoder,
    mut group: Group,
    work: &Receiver<Work>,
    done: &Sender<Rows>,
    encoded: &SyncSender<EncodedGroup>,
) -> Result<()> {
    for work in work {
        match work {
            Work::Rows(mut rows) => {
                group.extend(&rows);
                rows.clear();
                // Nobody needs it once all rows are here.
                let _ = done.send(rows);
            }
            Work::End => {
                let pages = encoder.encode(group.rows(), &group.columns())?;
                group.clear();
                if encoded.send(pages).is_err() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Writes the row groups of all packers to the file, round-robin.
fn put(mut file: FileWriter<Output>, packers: &[Receiver<EncodedGroup>]) -> Result<Output> {
    for packer in packers.iter().cycle() {
        match packer.recv() {
            Ok(group) => file.append(group)?,
            Err(_) => break,
        }
    }
    file.finish()
}

fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|error| ParquetError::External(error.into()))
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
