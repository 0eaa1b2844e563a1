//! Small messages in shared allocations.

use bytes::{Bytes, BytesMut};

/// Size of an allocation in octets: room for several messages of maximum length, so that little is wasted.
const BLOCK: usize = 256 * 1024;

/// Copies messages out of a reader's buffer, so that a kept message keeps no more than one such allocation alive.
#[derive(Default)]
pub(crate) struct Arena(BytesMut);

impl Arena {
    /// A copy of `octets`.
    pub fn keep(&mut self, octets: &[u8]) -> Bytes {
        if self.0.capacity() - self.0.len() < octets.len() {
            self.0 = BytesMut::with_capacity(BLOCK.max(octets.len()));
        }
        self.0.extend_from_slice(octets);
        self.0.split().freeze()
    }
}
