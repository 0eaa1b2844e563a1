//! The interface of capture formats: frames with a time and a link type.

use super::buffer::Buffer;
use crate::Tally;
use crate::packet::Frame;

/// Maximum frame length in files that do not declare a larger one.
pub(crate) const SANE_LENGTH: usize = 256 * 1024;
/// Maximum frame length in any file.
pub(crate) const MAX_LENGTH: usize = 16 << 20;

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Captured<'a> {
    /// Its metadata.
    pub frame: Frame,
    /// Its octets, as far as they were captured.
    pub octets: &'a [u8],
}

/// Octets of a frame without the frame check sequence at its end: `fcs` of the octets that it had on the link, of which
/// fewer may have been captured.
pub(crate) fn without_fcs(captured: usize, original: usize, fcs: usize) -> usize {
    captured.min(original.max(captured).saturating_sub(fcs))
}

/// A capture file being read.
pub(crate) trait Packets: Send {
    /// The next frame; `None` at the end. Damage of the file itself goes to `tally`, its place in the input `name`.
    fn next(&mut self, tally: &mut Tally, name: &str) -> Option<Captured<'_>>;

    /// The window over the file.
    fn buffer(&mut self) -> &mut Buffer;
}
