//! Opens inputs and decompresses them on a thread. The format is detected by content, never by name.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use ldplayer_core::size::Size;
use liblzma::stream::{CONCATENATED, Stream};

use super::limit::{self, Limited};
use super::live::Live;
use super::{Input, OpenOptions};
use crate::TraceError;

/// Octets read from the system at a time.
const BUFFER: usize = 256 * 1024;
/// Decompressed buffers that wait to be read.
const AHEAD: usize = 4;
/// Memory that the decompression of xz may take, in octets: twice what `xz -9` asks for.
const XZ_MEMORY: u64 = 128 << 20;
/// The largest window of zstd, as a power of two: that of `zstd --long` and `zstd --ultra -22`.
const ZSTD_WINDOW_LOG: u32 = 27;

/// An input with its first octets at hand.
pub(crate) struct Opened {
    /// The input as messages name it.
    pub path: PathBuf,
    /// Its content, decompressed.
    pub reader: Content,
    /// How far it was read.
    pub meter: Meter,
    /// Whether the content is a file's, byte by byte, so that it can be read anywhere.
    pub seekable: bool,
}

/// Decompressed content.
pub(crate) type Content = Box<dyn BufRead + Send>;

/// How far an input was read, in stored octets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// All of them; `None` for an input without a length.
    pub stored: Option<u64>,
    reached: Arc<AtomicU64>,
    exceeded: Arc<OnceLock<Size>>,
}

impl Meter {
    /// Octets that were used.
    pub fn reached(&self) -> u64 {
        self.reached.load(Ordering::Relaxed)
    }

    /// The limit that the content exceeds.
    pub fn exceeded(&self) -> Option<Size> {
        self.exceeded.get().copied()
    }

    /// Says that the content exceeds this limit.
    pub fn exceed(&self, max: Size) {
        let _ = self.exceeded.set(max);
    }

    /// Says that all of it was reached, by another way than through the reader that is metered.
    pub fn reach_end(&self) {
        self.reached.store(self.stored.unwrap_or_default(), Ordering::Relaxed);
    }
}

/// A reader that notes how far it has been read.
struct Metered {
    inner: BufReader<Box<dyn Read + Send>>,
    meter: Meter,
}

impl Read for Metered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(into)?;
        self.meter.reached.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

impl BufRead for Metered {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        self.meter.reached.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Opens an input. What comes through a socket ends when `options.stop` is raised.
///
/// # Errors
/// When the system refuses it, or its first octets, or when it is larger than `options.max_input`.
pub(crate) fn open(input: &Input, options: &OpenOptions) -> Result<Opened, TraceError> {
    let path = match input {
        Input::File(path) => path.clone(),
        Input::Stdin | Input::Unix(_) => input.to_string().into(),
    };
    let file_error = |source| TraceError::File { path: path.clone(), source };
    let mut meter = Meter::default();
    let raw: Box<dyn Read + Send> = match input {
        Input::Stdin => Box::new(io::stdin()),
        Input::File(path) => {
            let file = File::open(path).map_err(file_error)?;
            meter.stored = file.metadata().ok().filter(Metadata::is_file).map(|known| known.len());
            Box::new(file)
        }
        Input::Unix(path) => Box::new(Live::listen(path, Arc::clone(&options.stop)).map_err(file_error)?),
    };
    if let Some(max) = options.max_input.filter(|max| meter.stored > Some(max.octets())) {
        return Err(limit::beyond(&path, max));
    }
    let mut raw = Metered { inner: BufReader::with_capacity(BUFFER, raw), meter: meter.clone() };
    let head = raw.fill_buf().map_err(file_error)?;
    let Some(format) = Compression::of(head) else {
        let seekable = matches!(input, Input::File(_));
        let reader: Content = match options.max_input.filter(|_| meter.stored.is_none()) {
            Some(_) => Box::new(BufReader::with_capacity(BUFFER, limited(raw, &path, &meter, options))),
            None => Box::new(raw),
        };
        return Ok(Opened { path, reader, meter, seekable });
    };
    let decoder = format.decoder(Box::new(raw)).map_err(file_error)?;
    let decoder = Box::new(limited(decoder, &path, &meter, options));
    let reader = Box::new(BufReader::with_capacity(BUFFER, Ahead::start(decoder)));
    Ok(Opened { path, reader, meter, seekable: false })
}

fn limited<R>(inner: R, path: &Path, meter: &Meter, options: &OpenOptions) -> Limited<R> {
    let tell = options.tell_expansion.filter(|_| meter.stored.is_some());
    Limited { inner, path: path.to_owned(), meter: meter.clone(), max: options.max_input, tell, read: 0 }
}

/// A format of compression, known by its first octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Gzip,
    Xz,
    Zstd,
    Lz4,
    Bzip2,
}

impl Compression {
    fn of(head: &[u8]) -> Option<Self> {
        const MAGICS: [(&[u8], Compression); 5] = [
            (b"\x1f\x8b", Compression::Gzip),
            (b"\xfd7zXZ\0", Compression::Xz),
            (b"\x28\xb5\x2f\xfd", Compression::Zstd),
            (b"\x04\x22\x4d\x18", Compression::Lz4),
            (b"BZh", Compression::Bzip2),
        ];
        MAGICS.into_iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, format)| format)
    }

    /// Files may be several compressed ones behind each other, as `cat` makes them.
    fn decoder(self, raw: Content) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(raw)),
            Self::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
                Box::new(Explained(liblzma::bufread::XzDecoder::new_stream(raw, stream)))
            }
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(raw)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Box::new(Explained(decoder))
            }
            Self::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(raw)),
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(raw)),
        })
    }
}

/// A decoder whose error says what to do about a window above its limit.
struct Explained<R>(R);

impl<R: Read> Read for Explained<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| if wants_memory(&error) { too_much_memory() } else { error })
    }
}

fn wants_memory(error: &io::Error) -> bool {
    let xz = error.get_ref().and_then(|error| error.downcast_ref::<liblzma::stream::Error>());
    // The zstd binding distinguishes its errors by their text only.
    matches!(xz, Some(liblzma::stream::Error::MemLimit)) || error.to_string().contains("requires too much memory")
}

fn too_much_memory() -> io::Error {
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        "decompression needs more than 128 MB of memory; compress the file again with a smaller window than xz -9 or zstd --long use",
    )
}

/// Reads ahead on a separate thread, a bounded number of buffers.
struct Ahead {
    buffers: Receiver<io::Result<Vec<u8>>>,
    current: Vec<u8>,
    at: usize,
}

impl Ahead {
    fn start(mut decoder: Box<dyn Read + Send>) -> Self {
        let (sender, buffers) = sync_channel(AHEAD);
        thread::spawn(move || {
            loop {
                let mut buffer = Vec::with_capacity(BUFFER);
                let read = decoder.by_ref().take(BUFFER as u64).read_to_end(&mut buffer);
                let ended = !matches!(read, Ok(length) if length > 0);
                // What was decompressed before an error is given first. A reader that went away ends the thread.
                let sent = buffer.is_empty() || sender.send(Ok(buffer)).is_ok();
                if let Err(error) = read {
                    let _ = sender.send(Err(error));
                }
                if ended || !sent {
                    break;
                }
            }
        });
        Self { buffers, current: Vec::new(), at: 0 }
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.current.len() {
            let Ok(next) = self.buffers.recv() else { return Ok(0) };
            (self.current, self.at) = (next?, 0);
        }
        let count = into.len().min(self.current.len() - self.at);
        into[..count].copy_from_slice(&self.current[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const TEXT: &[u8] = b"the same octets in every format";

    fn read(content: &[u8]) -> io::Result<Vec<u8>> {
        read_at_most(content, None)
    }

    fn read_at_most(content: &[u8], max_input: Option<Size>) -> io::Result<Vec<u8>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let mut octets = Vec::new();
        open(&Input::File(file.path().to_owned()), &OpenOptions { max_input, ..OpenOptions::default() })
            .map_err(io::Error::other)?
            .reader
            .read_to_end(&mut octets)?;
        Ok(octets)
    }

    fn compressed() -> Vec<Vec<u8>> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(TEXT).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(TEXT).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(TEXT).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(TEXT).unwrap();
        let zstd = zstd::encode_all(TEXT, 1).unwrap();
        vec![gzip.finish().unwrap(), xz.finish().unwrap(), zstd, lz4.finish().unwrap(), bzip2.finish().unwrap()]
    }

    #[test]
    fn every_format_is_known_by_its_content() {
        assert_eq!(read(TEXT).unwrap(), TEXT);
        for content in compressed() {
            assert_eq!(read(&content).unwrap(), TEXT);
        }
    }

    #[test]
    fn nothing_larger_than_the_limit_is_read_whatever_its_format() {
        let content = [TEXT; 40].concat();
        let zstd = zstd::encode_all(&content[..], 1).unwrap();
        assert!(zstd.len() < 100);
        for content in [&content, &zstd] {
            let whole = format!("{} B", TEXT.len() * 40).parse().unwrap();
            assert_eq!(read_at_most(content, Some(whole)).unwrap().len(), TEXT.len() * 40);
            let error = read_at_most(content, Some("1000 B".parse().unwrap())).unwrap_err().to_string();
            assert!(
                error.ends_with(
                    "there is more than the 1 kB of --max-input; give a larger --max-input, or leave it out to read all"
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn files_behind_each_other_are_read_to_the_end() {
        for content in compressed() {
            assert_eq!(read(&[&content[..], &content].concat()).unwrap(), [TEXT, TEXT].concat());
        }
    }

    #[test]
    fn a_window_of_gigabytes_is_refused_and_that_of_the_strongest_level_is_not() {
        // A zstd frame of one empty block: window 2^28 or 2^27 octets (RFC 8878 §3.1.1.1.2).
        let zstd = |exponent: u8| vec![0x28, 0xb5, 0x2f, 0xfd, 0, (exponent - 10) << 3, 1, 0, 0];
        let error = read(&zstd(28)).unwrap_err().to_string();
        assert!(error.contains("smaller window"), "{error}");
        assert_eq!(read(&zstd(27)).unwrap(), b"");
        let error = read(&xz_with_dictionary(34)).unwrap_err().to_string();
        assert!(error.contains("smaller window"), "{error}");
        assert_eq!(read(&xz_with_dictionary(28)).unwrap(), TEXT);
    }

    /// The text by xz, its dictionary said to be of 2^(size / 2 + 12) octets (an even `size`; the .xz file format §5.3.1).
    fn xz_with_dictionary(size: u8) -> Vec<u8> {
        let mut xz = compressed().swap_remove(1);
        let (header, length) = (12, (usize::from(xz[12]) + 1) * 4);
        assert_eq!(xz[header + 2..header + 4], [0x21, 1]);
        xz[header + 4] = size;
        let mut sum = flate2::Crc::new();
        sum.update(&xz[header..header + length - 4]);
        xz[header + length - 4..header + length].copy_from_slice(&sum.sum().to_le_bytes());
        xz
    }

    #[test]
    fn a_file_cut_short_is_an_error() {
        for content in compressed() {
            assert!(read(&content[..content.len() - 6]).is_err());
        }
    }
}
