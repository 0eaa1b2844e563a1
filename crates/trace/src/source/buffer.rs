//! A look-ahead buffer over a stream.

use std::io::{self, Read};

use ldplayer_core::damage::{Ending, Flaw};

use crate::Place;

/// Octets requested per read.
const CHUNK: usize = 256 * 1024;

/// The window.
pub(crate) struct Buffer {
    reader: Box<dyn Read + Send>,
    octets: Vec<u8>,
    from: usize,
    to: usize,
    /// Octets of the stream before `from`.
    passed: u64,
    ended: bool,
    /// The error that ended the stream early, mostly of decompression. The data before it are used.
    error: Option<io::Error>,
    ending: Ending,
}

impl Buffer {
    /// A window at the start of `reader`.
    pub fn new(reader: Box<dyn Read + Send>) -> Self {
        Self {
            reader,
            octets: vec![0; 2 * CHUNK],
            from: 0,
            to: 0,
            passed: 0,
            ended: false,
            error: None,
            ending: Ending::Open,
        }
    }

    /// A window over nothing.
    pub fn empty() -> Self {
        Self {
            reader: Box::new(io::empty()),
            octets: Vec::new(),
            from: 0,
            to: 0,
            passed: 0,
            ended: true,
            error: None,
            ending: Ending::Open,
        }
    }

    /// The next `count` octets, or as many as there are.
    #[inline]
    pub fn peek(&mut self, count: usize) -> &[u8] {
        if self.to - self.from < count && !self.ended {
            self.fill(count);
        }
        &self.octets[self.from..self.to.min(self.from + count)]
    }

    /// All buffered octets.
    pub fn seen(&self) -> &[u8] {
        &self.octets[self.from..self.to]
    }

    /// Takes the error that ended the stream early.
    pub fn error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Whether something ended the stream early.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Whether the rest of the stream is buffered.
    pub fn is_at_end(&self) -> bool {
        self.ended
    }

    /// Notes that the stream ends within a record: it was cut off, or what comes next could not be read.
    pub fn end_within_record(&mut self) -> Flaw {
        match self.ending {
            Ending::Unreadable => Flaw::UnreadableRest,
            _ => {
                self.ending = Ending::Cut;
                Flaw::TruncatedCapture
            }
        }
    }

    /// How far the stream was read, and how that ended.
    pub fn progress(&self) -> (u64, Ending) {
        let ending = match self.ending {
            Ending::Open if self.ended && self.from == self.to => Ending::Whole,
            ending => ending,
        };
        (self.passed, ending)
    }

    /// Skips the rest of the stream, and returns its length.
    pub fn consume_rest(&mut self) -> u64 {
        let start = self.passed;
        loop {
            let length = self.peek(CHUNK).len();
            if length == 0 {
                return self.passed - start;
            }
            self.consume(length);
        }
    }

    /// Consumes `count` buffered octets.
    #[inline]
    pub fn take(&mut self, count: usize) -> &[u8] {
        let from = self.from;
        self.consume(count);
        &self.octets[from..self.from]
    }

    /// The last `count` consumed octets.
    pub fn taken(&self, count: usize) -> &[u8] {
        &self.octets[self.from - count..self.from]
    }

    /// Skips `count` buffered octets.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.to - self.from);
        self.from += count;
        self.passed += count as u64;
    }

    /// Octets of the stream before the window.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// The offset of the window in the stream.
    pub fn place(&self, packet: u64) -> LazyPlace {
        LazyPlace { packet, offset: self.passed }
    }

    fn fill(&mut self, count: usize) {
        self.octets.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        if self.octets.len() < count + CHUNK {
            self.octets.resize(count + CHUNK, 0);
        }
        while self.to < count && !self.ended {
            match self.reader.read(&mut self.octets[self.to..]) {
                Ok(0) => self.ended = true,
                Ok(length) => self.to += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.error = Some(error);
                    self.ending = Ending::Unreadable;
                }
            }
        }
    }
}

/// A place without the name of the input, which costs an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LazyPlace {
    /// Packet number, from 1.
    pub packet: u64,
    /// Octets from the start.
    pub offset: u64,
}

impl LazyPlace {
    /// The place in full.
    pub fn named(self, name: &str) -> Place {
        Place { file: name.to_owned(), packet: self.packet, offset: self.offset }
    }
}
