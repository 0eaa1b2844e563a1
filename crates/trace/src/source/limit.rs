//! How much of an input is read (`--max-input`), and word of archives that expand to far more than is stored.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ldplayer_core::printable::Printable;
use ldplayer_core::size::Size;

use super::compressed::Meter;
use crate::TraceError;

/// Octets of content after which the expansion of an archive is reported, at each doubling.
const TOLD_FROM: u64 = 1 << 30;
/// The ratio of content to stored octets below which nothing is reported.
const FAR: u64 = 100;

/// How far an archive has expanded, and what ends that.
#[derive(Clone, Copy, Debug)]
pub struct Expansion<'a> {
    path: &'a Path,
    content: u64,
    stored: u64,
}

impl fmt::Display for Expansion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, content, stored } = self;
        let (content, stored) = (*content as f64 / 1e9, *stored as f64 / 1e6);
        write!(
            f,
            "{}: {content:.1} GB were decompressed of {stored:.1} MB, and there is more; --max-input SIZE would end this",
            Printable(path.display())
        )
    }
}

/// Content that ends with an error where it exceeds the limit.
pub(crate) struct Limited<R> {
    pub inner: R,
    pub path: PathBuf,
    pub meter: Meter,
    pub max: Option<Size>,
    /// Told of archives that expand far.
    pub tell: Option<fn(Expansion<'_>)>,
    /// Octets read.
    pub read: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(into)?;
        let before = self.read;
        self.read += length as u64;
        if let Some(max) = self.max.filter(|max| self.read > max.octets()) {
            self.meter.exceed(max);
            return Err(io::Error::other(beyond(&self.path, max)));
        }
        if let Some(tell) = self.tell.filter(|_| doubles(before, self.read)) {
            let stored = self.meter.reached();
            if self.read / FAR >= stored {
                tell(Expansion { path: &self.path, content: self.read, stored });
            }
        }
        Ok(length)
    }
}

/// Whether [`TOLD_FROM`], or a doubling of it, lies between the two.
fn doubles(before: u64, now: u64) -> bool {
    now >= TOLD_FROM && (before < TOLD_FROM || before.ilog2() != now.ilog2())
}

/// The error of an input that exceeds the limit.
pub(crate) fn beyond(path: &Path, max: Size) -> TraceError {
    TraceError::Format {
        path: path.to_owned(),
        what: format!("there is more than the {max} of --max-input"),
        remedy: "give a larger --max-input, or leave it out to read all".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_an_archive_expanded_is_told_at_each_doubling() {
        let steps: Vec<u64> = (1..=40).map(|step| step * (1 << 28)).collect();
        let told: Vec<u64> =
            steps.windows(2).filter(|pair| doubles(pair[0], pair[1])).map(|pair| pair[1] >> 30).collect();
        assert_eq!(told, [1, 2, 4, 8]);
        let path = Path::new("x\u{1b}.gz");
        let expansion = Expansion { path, content: 2_100_000_000, stored: 1_500_000 };
        let shown =
            "x\\u{1b}.gz: 2.1 GB were decompressed of 1.5 MB, and there is more; --max-input SIZE would end this";
        assert_eq!(expansion.to_string(), shown);
    }
}
