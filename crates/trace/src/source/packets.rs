//! What all capture formats yield: frames with a time and a link type.

use std::io;

use crate::Tally;

/// The longest frame that is believed in a file that does not announce longer ones.
pub(crate) const SANE_LENGTH: usize = 256 * 1024;
/// The longest frame that is read at all.
pub(crate) const MAX_LENGTH: usize = 16 << 20;

/// What is known of a frame beside its octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Number in the capture, from 1.
    pub number: u64,
    /// Where its record begins, in octets.
    pub offset: u64,
    /// When it was captured, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Link type (LINKTYPE_ registry).
    pub link: u32,
}

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Captured<'a> {
    /// What is known of it.
    pub frame: Frame,
    /// Its octets, as far as they were captured.
    pub octets: &'a [u8],
}

/// A capture file that is read.
pub(crate) trait Packets: Send {
    /// The next frame; `None` at the end. Damage of the file itself goes to `tally`, its place in the input `name`.
    fn next(&mut self, tally: &mut Tally, name: &str) -> Option<Captured<'_>>;

    /// What ended the reading early, once; its place is counted as damage.
    fn error(&mut self) -> Option<io::Error>;
}
