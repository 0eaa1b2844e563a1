//! When frames were handed to the device, told by the kernel through the error queue of a packet socket.
//!
//! The kernel numbers what it tries to send. Whether a frame that it refuses uses up a number depends on how far it came: one that is
//! longer than the MTU and a tag does not, one just above the MTU and one that a device without a carrier drops do, and one that is too
//! long for the other end of a veth pair even has a stamp. A batch that ends early says nothing of its reason. So each failure ends the
//! kernel's count: the stamps so far are kept, without that of the frame that failed, and the kernel counts from 0 again.

use std::collections::VecDeque;
use std::io;

use socket2::Socket;

use crate::udp::{BATCH, ReceiveBatch, SendStamp, force_buffer, stamp_sends_from_zero};

/// Octets of the error queue, of which a stamp takes just under a thousand; beyond the system's limit only with the right to.
const QUEUE: usize = 4 << 20;
/// Stamps that are kept over failures at most; later ones are lost, as where the queue is full.
const KEPT: usize = 4_096;

/// The stamps of one socket.
pub(super) struct Stamps {
    batch: ReceiveBatch,
    /// Stamps that were there at a failure, by the numbers of frames that left.
    kept: VecDeque<SendStamp>,
    /// Frames that left since stamps were asked for, and how many of them when the kernel began to count. Both begin anew behind 32 bits.
    left: u32,
    first: u32,
}

impl Stamps {
    /// Asks the kernel for send times of all later frames.
    pub(super) fn begin(socket: &Socket) -> io::Result<Self> {
        force_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, QUEUE)?;
        stamp_sends_from_zero(socket)?;
        let mut batch = ReceiveBatch::new();
        drain(&mut batch, socket, |_| ())?;
        Ok(Self { batch, kept: VecDeque::with_capacity(KEPT), left: 0, first: 0 })
    }

    /// Counts frames that left.
    pub(super) const fn count(&mut self, sent: usize) {
        self.left = self.left.wrapping_add(sent as u32);
    }

    /// The frame behind those that left was refused, and may have used up a number. After an error the stamps are of no use.
    pub(super) fn handle_failure(&mut self, socket: &Socket) -> io::Result<()> {
        let Self { batch, kept, left, first } = self;
        let keep = |stamp| {
            if kept.len() < KEPT {
                kept.push_back(stamp);
            }
        };
        drain(batch, socket, frames(*first, *left, keep))?;
        self.first = self.left;
        stamp_sends_from_zero(socket)
    }

    /// Hands over the stamps that are there, and returns how many.
    pub(super) fn read(&mut self, socket: &Socket, mut take: impl FnMut(u32, i64)) -> io::Result<usize> {
        let mut count = 0;
        let mut taken = |stamp: SendStamp| {
            take(stamp.number, stamp.ns);
            count += 1;
        };
        self.kept.drain(..).for_each(&mut taken);
        drain(&mut self.batch, socket, frames(self.first, self.left, taken))?;
        Ok(count)
    }
}

/// Turns the kernel's numbers, of which the first was that of frame `first`, into those of frames that left, and leaves out others.
fn frames(first: u32, left: u32, mut take: impl FnMut(SendStamp)) -> impl FnMut(SendStamp) {
    move |stamp| {
        if stamp.number < left.wrapping_sub(first) {
            take(SendStamp { number: first.wrapping_add(stamp.number), ..stamp });
        }
    }
}

/// Empties the error queue.
fn drain(batch: &mut ReceiveBatch, socket: &Socket, mut take: impl FnMut(SendStamp)) -> io::Result<()> {
    loop {
        let count = batch.receive_errors_of(socket)?;
        batch.iter().filter_map(|entry| entry.sent).for_each(&mut take);
        if count < BATCH {
            return Ok(());
        }
    }
}
