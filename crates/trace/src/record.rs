//! Records dnstap from a Unix socket to a file, unchanged.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::TraceError;
use crate::source::{Live, Writers, stop_frame};

/// Octets copied at a time.
const CHUNK: usize = 64 * 1024;

/// A listening socket, and the file that receives its frames.
pub struct Recording {
    file: PathBuf,
    stop: Arc<AtomicBool>,
    octets: Arc<AtomicU64>,
    writers: Arc<Writers>,
    thread: JoinHandle<io::Result<()>>,
}

impl Recording {
    /// Listens at `socket` and writes to `file`, which must not exist.
    ///
    /// # Errors
    /// When the system refuses the socket or the file.
    pub fn start(socket: &Path, file: &Path) -> Result<Self, TraceError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TraceError::File { path, source }
        };
        let (stop, octets) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let live = Live::listen(socket, Arc::clone(&stop)).map_err(failed(socket))?;
        let writers = live.writers();
        let into = File::create_new(file).map_err(failed(file))?;
        let written = Arc::clone(&octets);
        let thread = thread::spawn(move || copy(live, into, &written));
        Ok(Self { file: file.to_owned(), stop, octets, writers, thread })
    }

    /// Whether a sender has connected, even if it has only announced frames.
    pub fn has_writer(&self) -> bool {
        self.writers.have_come()
    }

    /// The number of octets received so far.
    pub fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }

    /// Stops recording and completes the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(self) -> Result<(), TraceError> {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has written what it could.
        let written = self.thread.join().unwrap_or(Ok(()));
        written.map_err(|source| TraceError::File { path: self.file, source })
    }
}

fn copy(mut live: Live, mut into: File, octets: &AtomicU64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = live.read(&mut chunk)?;
        if length == 0 {
            into.write_all(&stop_frame())?;
            return into.sync_all();
        }
        into.write_all(&chunk[..length])?;
        octets.fetch_add(length as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, OpenOptions, open};
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_file_is_what_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, file) = (folder.path().join("s"), folder.path().join("f"));
        let recording = Recording::start(&socket, &file).unwrap();
        let sent = include_bytes!("../tests/data/dnstap.fstrm");
        assert!(!recording.has_writer());
        UnixStream::connect(&socket).unwrap().write_all(sent).unwrap();
        while recording.octets() < sent.len() as u64 - 12 {
            thread::yield_now();
        }
        assert!(recording.has_writer());
        recording.finish().unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), sent);
        let mut source = open(&[Input::File(file.clone())], &OpenOptions::default()).unwrap();
        let mut rows = Vec::new();
        while source.read(&mut rows).unwrap() {}
        assert_eq!((rows.len(), source.tally().damaged.len()), (1, 0));
        let refusal = Recording::start(&socket, &file).err().unwrap().to_string();
        assert!(refusal.contains("exists"), "{refusal}");
    }
}
