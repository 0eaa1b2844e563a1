//! Small messages in shared allocations.

use bytes::{Bytes, BytesMut};

/// Octets that the messages of one allocation take: some of the longest, so that little is left over.
const BLOCK: usize = 256 * 1024;

/// Copies messages out of a reader's buffer, so that one message keeps no more than an allocation of others alive.
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
