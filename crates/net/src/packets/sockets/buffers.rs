//! Buffers of frames on their way out, one a frame, allocated once and used in turn.

use super::{BATCH, ETHERNET, Interface};

/// How often a frame finds no room before it is given up: several milliseconds of a full queue.
const REFUSALS: u32 = 10_000;
/// Octets of a line of the caches.
const LINE: usize = 64;

/// A ring of [`BATCH`] buffers: the frames that have not left, from the front.
pub(super) struct Buffers {
    octets: Box<[u8]>,
    /// Octets from one buffer to the next, and of a buffer.
    stride: usize,
    room: usize,
    lengths: [usize; BATCH],
    /// The first frame that has not left, and how many there are from it on.
    first: usize,
    queued: usize,
    /// Whether the room behind them was handed out.
    has_room: bool,
    /// Flushes in a row in which there was no room for the first frame, and frames that were given up.
    refusals: u32,
    dropped: u64,
}

impl Buffers {
    /// For frames of an interface.
    pub(super) fn new(interface: &Interface) -> Self {
        let room = usize::from(interface.mtu) + ETHERNET;
        // An odd number of lines, so that the first lines of frames do not share a cache set.
        let stride = (room.div_ceil(LINE) | 1) * LINE;
        let octets = vec![0; stride * BATCH].into_boxed_slice();
        Self {
            octets,
            stride,
            room,
            lengths: [0; BATCH],
            first: 0,
            queued: 0,
            has_room: false,
            refusals: 0,
            dropped: 0,
        }
    }

    /// The buffer behind the frames, unless all are taken.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        if self.queued == BATCH {
            return None;
        }
        self.has_room = true;
        let start = self.slot(self.queued) * self.stride;
        self.octets.get_mut(start..start + self.room)
    }

    /// Adds the frame written there, and returns its slot.
    pub(super) fn commit(&mut self, length: usize) -> Option<usize> {
        if !std::mem::take(&mut self.has_room) {
            return None;
        }
        let slot = self.slot(self.queued);
        self.lengths[slot] = length.min(self.room);
        self.queued += 1;
        Some(slot)
    }

    /// Frames that have not left.
    pub(super) const fn queued(&self) -> usize {
        self.queued
    }

    /// The slot of the frame with this number from the front: 0 to [`BATCH`] - 1.
    pub(super) const fn slot(&self, number: usize) -> usize {
        (self.first + number) % BATCH
    }

    /// The frame in a slot.
    pub(super) fn frame(&mut self, slot: usize) -> &mut [u8] {
        &mut self.octets[slot * self.stride..][..self.lengths[slot]]
    }

    /// Takes frames off the front.
    pub(super) const fn leave(&mut self, count: usize) {
        self.refusals = 0;
        self.queued -= count;
        // An empty ring begins anew, so that a batch is one run.
        self.first = if self.queued == 0 && !self.has_room { 0 } else { self.slot(count) };
    }
    /// There was no room for the first frame, which is given up if that goes on: the kernel says "no room" to a frame, too, that a device will
    /// never take.
    pub(super) const fn count_refusal(&mut self) {
        self.refusals += 1;
        if self.refusals == REFUSALS {
            self.give_up();
        }
    }

    /// Leaves out the first frame.
    pub(super) const fn give_up(&mut self) {
        self.leave(1);
        self.dropped += 1;
    }

    /// Frames that were given up.
    pub(super) const fn drops(&self) -> u64 {
        self.dropped
    }
}
