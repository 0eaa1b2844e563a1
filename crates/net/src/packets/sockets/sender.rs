//! Frames on their way out: one face for both kinds of sockets, and for a TAP device.

use std::io;
use std::sync::Arc;

use super::batch::BatchSender;
use super::tap::TapSender;
use super::xdp::XdpSender;
use super::{Interface, PacketError, SenderKind};
use crate::refusal::Refusal;
use crate::tun::Tun;

/// Octets of an Ethernet header without a tag.
const HEADER: usize = 14;

/// Frames on their way out of an interface, in batches; all memory is allocated once.
///
/// The caller writes a frame into [`Self::room`] and adds it by [`Self::commit`]; [`Self::flush`] sends the frames added so far.
pub struct FrameSender {
    by: By,
}

enum By {
    Packet(Box<BatchSender>),
    Xdp(Box<XdpSender>),
    Tap(Box<TapSender>),
}

impl FrameSender {
    /// Opens a socket that sends on an interface and receives nothing.
    ///
    /// # Errors
    /// The interface is gone, down or not Ethernet, or the right is missing (CAP_NET_RAW). Of AF_XDP also: the kernel has none, all
    /// queues have a socket, the MTU is above what a page holds, or locked memory is short.
    pub fn open(interface: &Interface, kind: SenderKind) -> Result<Self, PacketError> {
        interface.check()?;
        let by = match kind {
            SenderKind::Packet => By::Packet(Box::new(BatchSender::open(interface)?)),
            SenderKind::Xdp => By::Xdp(Box::new(XdpSender::open(interface)?)),
        };
        Ok(Self { by })
    }

    /// Sends through a TAP device, whose frames arrive at this host: `interface` is the device, and `tap` its queue, which several senders
    /// may share.
    ///
    /// # Errors
    /// The interface is gone or down.
    pub fn open_tap(interface: &Interface, tap: Arc<Tun>) -> Result<Self, PacketError> {
        interface.check()?;
        Ok(Self { by: By::Tap(Box::new(TapSender::new(interface, tap))) })
    }

    /// Room for one more frame, of the interface's MTU and [`super::ETHERNET`] octets: whatever an earlier frame left there.
    /// `None` when the batch is full, or buffers are still being sent from: then flush. The same room until [`Self::commit`].
    #[inline]
    pub fn room(&mut self) -> Option<&mut [u8]> {
        match &mut self.by {
            By::Packet(batch) => batch.buffers().room(),
            By::Xdp(xdp) => xdp.room(),
            By::Tap(tap) => tap.room(),
        }
    }

    /// Adds the first `length` octets of the last [`Self::room`] to the batch, or all of it if it is shorter. Nothing is added without
    /// a room, or of less than an Ethernet header (14 octets).
    #[inline]
    pub fn commit(&mut self, length: usize) {
        // AF_XDP would never give the buffer of an empty frame back.
        if length < HEADER {
            return;
        }
        match &mut self.by {
            By::Packet(batch) => drop(batch.buffers().commit(length)),
            By::Xdp(xdp) => xdp.commit(length),
            By::Tap(tap) => tap.commit(length),
        }
    }

    /// Frames that were added and have not left.
    pub fn queued(&self) -> usize {
        match &self.by {
            By::Packet(batch) => batch.queued(),
            By::Xdp(xdp) => xdp.queued(),
            By::Tap(tap) => tap.queued(),
        }
    }

    /// Sends the batch, by one system call where the kernel takes it at once, and returns how many frames left, from the front. Lost frames
    /// follow them; [`Self::drops`] counts these. The others stay queued if the kernel or the device has no room now.
    ///
    /// # Errors
    /// What the kernel said to the first frame, such as that the interface is down. AF_PACKET and a TAP device give that frame up, so that it
    /// does not hold up the others for ever; AF_XDP keeps it, as the kernel has it already.
    pub fn flush(&mut self) -> io::Result<usize> {
        match &mut self.by {
            By::Packet(batch) => batch.flush(),
            By::Xdp(xdp) => xdp.flush(),
            By::Tap(tap) => tap.flush(),
        }
    }

    /// Has the kernel stamp frames from now on as it hands them to the device, at a cost for each. Calling it again begins anew.
    ///
    /// # Errors
    /// AF_XDP has no stamps of its own without a driver's help, and a TAP device none ([`io::ErrorKind::Unsupported`]), or what the kernel
    /// refused.
    pub fn stamp_sends(&mut self) -> io::Result<()> {
        match &mut self.by {
            By::Packet(batch) => batch.stamp_sends(),
            By::Xdp(_) | By::Tap(_) => Err(no_stamps()),
        }
    }

    /// Hands over the stamps that are there, without blocking: each the number of a frame among those that have left since
    /// [`Self::stamp_sends`] (from 0, and again from 0 behind 2^32), and the nanoseconds since 1970 (CLOCK_REALTIME) at which it did.
    /// Returns how many; none before stamps were asked for.
    ///
    /// Numbers rise, and those of frames that did not leave ([`Self::drops`]) are not among them. The kernel keeps a few thousand stamps; of
    /// frames that leave while so many have not been read there is none, so a gap in the numbers is possible. A device that queues frames in
    /// another one (a VLAN, a bond) may stamp them late: a stamp that comes only after a flush has failed is left out or told of a
    /// later frame.
    ///
    /// # Errors
    /// As [`Self::stamp_sends`].
    pub fn read_stamps(&mut self, take: impl FnMut(u32, i64)) -> io::Result<usize> {
        match &mut self.by {
            By::Packet(batch) => batch.read_stamps(take),
            By::Xdp(_) | By::Tap(_) => Err(no_stamps()),
        }
    }

    /// Frames that did not leave and are not tried again, since the socket was opened: AF_XDP loses a frame when the device has no room
    /// for it, the others one that was refused, or that has found no room in thousands of flushes (there is no carrier, or the other
    /// end of a veth pair has a smaller MTU).
    pub fn drops(&self) -> u64 {
        match &self.by {
            By::Packet(batch) => batch.drops(),
            By::Xdp(xdp) => xdp.drops(),
            By::Tap(tap) => tap.drops(),
        }
    }
}

fn no_stamps() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "only AF_PACKET stamps what it sends")
}

/// Whether the kernel may take the frame later: its queue or the device's is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    Refusal::of(error) == Refusal::NotNow
}
