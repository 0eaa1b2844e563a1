//! The frames for one worker's clients, from both interfaces that they may come by.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Filter, Frame, FrameRing, Interface, PacketError};

/// A ring of what arrives at an interface, and perhaps one of what the host sends to clients by another.
pub struct FrameRings {
    arriving: FrameRing,
    answers: Option<FrameRing>,
}

impl FrameRings {
    /// Opens rings of about `octets` octets each for the frames that the filter lets in: those that arrive at `interface`, and those that this
    /// host sends by the interface of the name `answers`, if there is one.
    ///
    /// # Errors
    /// As [`FrameRing::open`].
    pub fn open(
        interface: &Interface,
        answers: Option<&str>,
        filter: &Filter,
        octets: usize,
    ) -> Result<Self, PacketError> {
        let arriving = FrameRing::open(interface, filter, octets)?;
        let open = |name| FrameRing::open_with_sent(&Interface::find(name)?, filter, octets);
        let answers = answers.map(open).transpose()?;
        Ok(Self { arriving, answers })
    }

    /// Hands the frames that are there to `take`, `most` of each ring at most, and returns how many: as [`FrameRing::read`].
    pub fn read(&mut self, most: usize, mut take: impl FnMut(Frame<'_>)) -> usize {
        let answers = self.answers.as_mut().map_or(0, |ring| ring.read(most, &mut take));
        answers + self.arriving.read(most, take)
    }

    /// Frames that the kernel dropped since the rings were opened because one was full.
    pub fn drops(&mut self) -> u64 {
        self.arriving.drops() + self.answers.as_mut().map_or(0, FrameRing::drops)
    }

    /// Waits up to `timeout_ns` for a frame, and returns whether there is one; a signal ends the wait early. A ring in a [`crate::poll::Poll`] has a
    /// waiter all the time, which the kernel calls for each frame on the core of whoever sends it; this way it has one during the wait alone.
    ///
    /// # Errors
    /// The rings' own, once each, such as that an interface went down.
    pub fn wait(&self, timeout_ns: i64) -> io::Result<bool> {
        let timeout = Timespec { tv_sec: timeout_ns / 1_000_000_000, tv_nsec: timeout_ns % 1_000_000_000 };
        // One ring may as well be asked twice.
        let rings = [&self.arriving, self.answers.as_ref().unwrap_or(&self.arriving)];
        let mut waited = rings.map(|ring| PollFd::new(ring, PollFlags::IN));
        match poll(&mut waited, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        for (ring, waited) in rings.iter().zip(&waited) {
            if waited.revents().contains(PollFlags::ERR) {
                ring.take_error()?.map_or(Ok(()), Err)?;
            }
        }
        Ok(waited.iter().any(|waited| waited.revents().contains(PollFlags::IN)))
    }
}
