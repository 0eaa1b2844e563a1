//! A Unix socket that DNS software sends dnstap to, read as one stream of frames.
//!
//! A writer that begins with READY gets the replies of the bidirectional protocol of Frame Streams; one that begins with START
//! gets none. Data that are no frame stream, or that end within a frame, are passed on as a frame that the reader counts as
//! damaged, at its place.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::dnstap::CONTENT;
use super::framestream::{Control, MAX_CONTROL, MAX_FRAME, control};

/// Maximum number of queued chunks; beyond that, writers are blocked.
const AHEAD: usize = 64;
/// Size of a chunk in octets.
const CHUNK: usize = 64 * 1024;
/// How often the threads check whether to end.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of simultaneous writers; others are refused.
const MAX_WRITERS: usize = 64;

/// The stream: a START frame, then the frames of all writers. It ends after the last writer has gone, or when stopped.
pub(crate) struct Live {
    path: PathBuf,
    chunks: Receiver<Vec<u8>>,
    current: Vec<u8>,
    at: usize,
    /// Set when the reader is gone, to end the threads.
    gone: Arc<AtomicBool>,
    writers: Arc<Writers>,
}

impl Live {
    /// Listens at `path`, until the last writer has gone or `stop` is raised. A socket that nobody listens to any more is
    /// replaced; it is removed at the end.
    ///
    /// # Errors
    /// Another file has the name, another process listens there, or an error of the system.
    pub fn listen(path: &Path, stop: Arc<AtomicBool>) -> io::Result<Self> {
        remove_stale(path)?;
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let (sender, chunks) = sync_channel(AHEAD);
        let gone = Arc::new(AtomicBool::new(false));
        let until = Until { stop, gone: Arc::clone(&gone) };
        let writers = Arc::new(Writers::default());
        let theirs = Arc::clone(&writers);
        thread::spawn(move || accept(&listener, &sender, &until, &theirs));
        let current = Control::new(control::START, Some(CONTENT)).compose();
        Ok(Self { path: path.to_owned(), chunks, current, at: 0, gone, writers })
    }
}

impl Live {
    /// The state of the writers, which may be observed during reading.
    pub fn writers(&self) -> Arc<Writers> {
        Arc::clone(&self.writers)
    }
}

impl Read for Live {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.current.len() {
            // The threads, and with them the channel, end when the last writer has gone or they are stopped.
            let Ok(next) = self.chunks.recv() else { return Ok(0) };
            (self.current, self.at) = (next, 0);
        }
        let count = into.len().min(self.current.len() - self.at);
        into[..count].copy_from_slice(&self.current[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
        // Another process may have removed it already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes a socket left over by a process that has ended.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file with this name exists and is not a socket; choose another name",
        ));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens on this socket; choose another name",
        ));
    }
    std::fs::remove_file(path)
}

/// Conditions for ending.
#[derive(Clone)]
struct Until {
    stop: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
}

impl Until {
    fn is_now(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.gone.load(Ordering::Relaxed)
    }
}

/// The present and past writers.
#[derive(Default)]
pub(crate) struct Writers {
    open: AtomicUsize,
    /// Whether one has sent something: a mere connection attempt does not count.
    came: AtomicBool,
}

impl Writers {
    /// Whether one has sent something.
    pub fn have_come(&self) -> bool {
        self.came.load(Ordering::Acquire)
    }

    fn have_gone(&self) -> bool {
        // In this order, since a writer is counted as come before it is counted as gone.
        self.open.load(Ordering::Acquire) == 0 && self.came.load(Ordering::Acquire)
    }
}

/// Accepts writers until all have gone. Dropping the last sender ends the stream.
fn accept(listener: &UnixListener, sender: &SyncSender<Vec<u8>>, until: &Until, writers: &Arc<Writers>) {
    while !until.is_now() {
        match listener.accept() {
            Ok((stream, _)) if writers.open.load(Ordering::Acquire) < MAX_WRITERS => {
                writers.open.fetch_add(1, Ordering::AcqRel);
                let (sender, until, writers) = (sender.clone(), until.clone(), Arc::clone(writers));
                thread::spawn(move || {
                    if let Ok(writer) = Writer::new(stream, sender, until) {
                        writer.run(&writers.came);
                    }
                    writers.open.fetch_sub(1, Ordering::AcqRel);
                });
            }
            // Closed at once: the writer will try again.
            Ok(_) => {}
            // Checked only now: a pending connection is a writer, too.
            Err(_) if writers.have_gone() => break,
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// Why a connection with a writer ended.
enum End {
    /// It sent STOP, closed the connection between frames, or the reader is gone.
    Clean,
    /// It violated the protocol, or closed the connection within a frame.
    Broken,
}

/// A connected writer.
struct Writer {
    stream: BufReader<UnixStream>,
    /// The frame being read.
    part: Vec<u8>,
    /// Complete frames not yet passed on.
    chunk: Vec<u8>,
    /// Whether it uses the bidirectional protocol.
    answers: bool,
    sender: SyncSender<Vec<u8>>,
    until: Until,
}

impl Writer {
    fn new(stream: UnixStream, sender: SyncSender<Vec<u8>>, until: Until) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        let stream = BufReader::with_capacity(CHUNK, stream);
        Ok(Self { stream, part: Vec::new(), chunk: Vec::new(), answers: false, sender, until })
    }

    fn run(mut self, came: &AtomicBool) {
        let mut frames = self.read();
        if !matches!(frames, Err(End::Clean)) {
            came.store(true, Ordering::Release);
        }
        while frames.is_ok() {
            frames = self.read();
        }
        if let Err(End::Broken) = frames {
            // No dnstap frame, whatever was in it: no field has the number 0.
            self.part.insert(0, 0);
            self.keep();
        }
        self.pass();
    }

    /// Reads a frame.
    fn read(&mut self) -> Result<(), End> {
        self.take(4).map_err(|end| if self.part.is_empty() { End::Clean } else { end })?;
        match self.length() {
            0 => self.control()?,
            length @ 1..=MAX_FRAME => {
                self.take(length)?;
                self.keep();
            }
            _ => return Err(End::Broken),
        }
        if self.chunk.len() < CHUNK || (self.pass() && !self.until.is_now()) { Ok(()) } else { Err(End::Clean) }
    }

    /// Reads a control frame after its zero length, and answers it.
    fn control(&mut self) -> Result<(), End> {
        self.take(4)?;
        let length = self.length();
        if length > MAX_CONTROL {
            return Err(End::Broken);
        }
        self.take(length)?;
        let frame = Control::parse(&self.part).ok_or(End::Broken)?;
        match frame.kind {
            control::READY | control::START if !frame.allows(CONTENT) => Err(End::Broken),
            control::READY => {
                self.answers = true;
                self.answer(&Control::new(control::ACCEPT, Some(CONTENT)))
            }
            control::STOP => {
                if self.answers {
                    self.answer(&Control::new(control::FINISH, None))?;
                }
                Err(End::Clean)
            }
            control::FINISH => Err(End::Clean),
            _ => Ok(()),
        }
    }

    fn answer(&mut self, frame: &Control) -> Result<(), End> {
        self.stream.get_mut().write_all(&frame.compose()).map_err(|_| End::Clean)
    }

    /// Reads `count` octets into `part`, which keeps a partial read if the writer goes.
    fn take(&mut self, count: usize) -> Result<(), End> {
        self.part.clear();
        self.part.resize(count, 0);
        let mut at = 0;
        while at < count {
            match self.stream.read(&mut self.part[at..]) {
                Ok(0) => break,
                Ok(length) => at += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // No data at the moment: complete frames are passed on.
                Err(error) if is_pause(&error) && self.pass() && !self.until.is_now() => {}
                Err(_) => break,
            }
        }
        self.part.truncate(at);
        if at == count { Ok(()) } else { Err(End::Broken) }
    }

    /// The number that was read.
    fn length(&self) -> usize {
        self.part.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets) as usize)
    }

    /// Queues the frame that was read.
    fn keep(&mut self) {
        self.chunk.extend_from_slice(&(self.part.len() as u32).to_be_bytes());
        self.chunk.extend_from_slice(&self.part);
    }

    /// Passes complete frames on; `false` if the reader is gone.
    fn pass(&mut self) -> bool {
        self.chunk.is_empty() || self.sender.send(std::mem::take(&mut self.chunk)).is_ok()
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(octets: &[u8]) -> Vec<u8> {
        [&(octets.len() as u32).to_be_bytes(), octets].concat()
    }

    fn socket() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tap.sock");
        (folder, path)
    }

    fn start() -> Vec<u8> {
        Control::new(control::START, Some(CONTENT)).compose()
    }

    fn ready() -> Vec<u8> {
        Control::new(control::READY, Some(CONTENT)).compose()
    }

    fn expect(stream: &mut UnixStream, wanted: &Control) {
        let mut octets = vec![0; wanted.compose().len()];
        stream.read_exact(&mut octets).unwrap();
        assert_eq!(octets, wanted.compose());
    }

    /// What is read of a socket to which these octets are written, by one writer after the other.
    fn read(writers: &[Vec<u8>]) -> Vec<u8> {
        let (_folder, path) = socket();
        let mut live = Live::listen(&path, Arc::default()).unwrap();
        let mut streams: Vec<UnixStream> = writers.iter().map(|_| UnixStream::connect(&path).unwrap()).collect();
        for (stream, octets) in streams.iter_mut().zip(writers) {
            stream.write_all(octets).unwrap();
        }
        drop(streams);
        let mut all = Vec::new();
        live.read_to_end(&mut all).unwrap();
        all
    }

    #[test]
    fn the_handshake_is_answered_and_frames_come_through() {
        let (_folder, path) = socket();
        let mut live = Live::listen(&path, Arc::default()).unwrap();
        // Somebody who only looks is no writer, and does not end the stream.
        drop(UnixStream::connect(&path).unwrap());
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(&ready()).unwrap();
        expect(&mut stream, &Control::new(control::ACCEPT, Some(CONTENT)));
        stream.write_all(&[start(), frame(b"one"), frame(b"two")].concat()).unwrap();
        stream.write_all(&Control::new(control::STOP, None).compose()).unwrap();
        expect(&mut stream, &Control::new(control::FINISH, None));
        let mut all = Vec::new();
        live.read_to_end(&mut all).unwrap();
        assert_eq!(all, [start(), frame(b"one"), frame(b"two")].concat());
        drop(live);
        assert!(!path.exists());
    }

    #[test]
    fn a_writer_that_wants_no_answer_is_read_too() {
        let octets = [start(), frame(b"one"), Control::new(control::STOP, None).compose()].concat();
        assert_eq!(read(&[octets]), [start(), frame(b"one")].concat());
        assert_eq!(read(&[[start(), frame(b"one")].concat()]), [start(), frame(b"one")].concat());
    }

    #[test]
    fn frames_of_several_writers_are_joined_whole() {
        let large = vec![7; 3 * CHUNK];
        let all = read(&[[start(), frame(&large)].concat(), [start(), frame(b"small")].concat()]);
        let (large, small) = (frame(&large), frame(b"small"));
        let either = [[start(), large.clone(), small.clone()].concat(), [start(), small, large].concat()];
        assert!(either.contains(&all));
    }

    #[test]
    fn what_is_no_frame_stream_becomes_a_damaged_frame() {
        assert_eq!(read(&[b"GET / HTTP/1.1".to_vec()]), [start(), frame(b"\0GET ")].concat());
        let cut = [start(), frame(b"one"), vec![0, 0, 0, 9, b'x']].concat();
        assert_eq!(read(&[cut]), [start(), frame(b"one"), frame(b"\0x")].concat());
        let other = Control::new(control::READY, Some(b"protobuf:other")).compose();
        assert_eq!(read(std::slice::from_ref(&other)), [start(), frame(&[&[0], &other[8..]].concat())].concat());
        assert_eq!(read(&[vec![0, 0, 0, 0, 0, 1, 0, 0]]), [start(), frame(&[0, 0, 1, 0, 0])].concat());
    }

    #[test]
    fn stopping_keeps_what_came_before() {
        let (_folder, path) = socket();
        let stop = Arc::new(AtomicBool::new(false));
        let mut live = Live::listen(&path, Arc::clone(&stop)).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(&[start(), frame(b"one")].concat()).unwrap();
        let mut all = vec![0; start().len() + 7];
        live.read_exact(&mut all).unwrap();
        stream.write_all(&frame(b"two")).unwrap();
        stop.store(true, Ordering::Relaxed);
        live.read_to_end(&mut all).unwrap();
        assert!(all.starts_with(&[start(), frame(b"one")].concat()));
        // Its end is closed, and what it sent last may have been left unread.
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }

    #[test]
    fn only_a_socket_that_nobody_listens_to_is_replaced() {
        let (_folder, path) = socket();
        let refusal = |path: &Path| Live::listen(path, Arc::default()).err().map(|error| error.kind());
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(refusal(&path), None);
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(refusal(&path), Some(io::ErrorKind::AddrInUse));
        drop(listener);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert_eq!(refusal(&path), Some(io::ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
