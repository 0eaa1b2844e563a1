//! Sends frames by writing them into a TAP device (tun.rst of the kernel): they arrive at the host at once, as from a wire.
//!
//! One system call writes a batch, by io_uring(7), where that may be used; else there is a call for each frame. Either way the frames have
//! arrived when it returns: as far as the socket that they are for.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode, types};

use super::buffers::Buffers;
use super::sender::is_full;
use super::{BATCH, Interface};
use crate::tun::Tun;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing yet.
    Waiting,
    Left,
    /// It was refused with this error number.
    Refused(i32),
}

/// A queue of a device and its buffers.
pub(super) struct TapSender {
    tap: Arc<Tun>,
    /// `None` where the kernel has none for us.
    uring: Option<IoUring>,
    buffers: Buffers,
    /// Of the frame in each slot.
    states: [State; BATCH],
}

impl TapSender {
    pub(super) fn new(interface: &Interface, tap: Arc<Tun>) -> Self {
        let uring = open_uring(&tap).ok();
        let buffers = Buffers::new(interface);
        Self { tap, uring, buffers, states: [State::Waiting; BATCH] }
    }

    /// As where there is no io_uring.
    #[cfg(test)]
    pub(super) fn by_calls(mut self) -> Self {
        self.uring = None;
        self
    }

    #[cfg(test)]
    pub(super) const fn is_by_one_call(&self) -> bool {
        self.uring.is_some()
    }

    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        self.buffers.room()
    }

    pub(super) fn commit(&mut self, length: usize) {
        if let Some(slot) = self.buffers.commit(length) {
            self.states[slot] = State::Waiting;
        }
    }

    pub(super) const fn queued(&self) -> usize {
        self.buffers.queued()
    }

    pub(super) const fn drops(&self) -> u64 {
        self.buffers.drops()
    }

    pub(super) fn flush(&mut self) -> io::Result<usize> {
        self.write();
        let queued = self.queued();
        let left = (0..queued).take_while(|&number| self.state(number) == State::Left).count();
        if left > 0 || queued == 0 {
            self.buffers.leave(left);
            return Ok(left);
        }
        match self.state(0) {
            State::Refused(number) => {
                self.buffers.give_up();
                Err(io::Error::from_raw_os_error(number))
            }
            _ => {
                self.buffers.count_refusal();
                Ok(0)
            }
        }
    }

    const fn state(&self, number: usize) -> State {
        self.states[self.buffers.slot(number)]
    }

    /// Writes the frames that wait.
    fn write(&mut self) {
        // For a single frame the plain call is the cheaper one.
        if self.queued() > 1
            && let Some(mut uring) = self.uring.take()
            && self.write_batch(&mut uring).is_ok()
        {
            self.uring = Some(uring);
        }
        for number in 0..self.queued() {
            if self.state(number) == State::Waiting {
                let slot = self.buffers.slot(number);
                let written = self.tap.write(self.buffers.frame(slot));
                self.states[slot] = written.map_or_else(|error| State::of(&error), |()| State::Left);
            }
        }
    }

    /// Writes them by one system call. What an error leaves waiting was not written.
    fn write_batch(&mut self, uring: &mut IoUring) -> io::Result<()> {
        let mut slots = [0; BATCH];
        let mut count = 0;
        for number in 0..self.queued() {
            let slot = self.buffers.slot(number);
            if self.states[slot] == State::Waiting {
                push(uring, slot, self.buffers.frame(slot))?;
                slots[count] = slot;
                count += 1;
            }
        }
        let result = submit(uring);
        let taken = count - uring.submission().len();
        slots[..taken].iter().for_each(|&slot| self.states[slot] = State::Left);
        for completion in uring.completion() {
            if let Some(state) = self.states.get_mut(completion.user_data() as usize)
                && completion.result() < 0
            {
                *state = State::of(&io::Error::from_raw_os_error(-completion.result()));
            }
        }
        result
    }
}

impl Drop for TapSender {
    /// Lets go of the device now: the kernel takes its time to give up a ring, and the files that are in it.
    fn drop(&mut self) {
        if let Some(uring) = &self.uring {
            let _ = uring.submitter().unregister_files();
        }
    }
}

impl State {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            _ if is_full(error) => Self::Waiting,
            // A TAP device that is down returns EIO; all other interfaces return ENETDOWN.
            Some(libc::EIO) => Self::Refused(libc::ENETDOWN),
            number => Self::Refused(number.unwrap_or(libc::EIO)),
        }
    }
}

/// A ring that tells of failures only, for one file.
fn open_uring(tap: &Tun) -> io::Result<IoUring> {
    let uring = IoUring::builder().dontfork().setup_coop_taskrun().build(BATCH as u32)?;
    if !uring.params().is_feature_skip_cqe_on_success() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    uring.submitter().register_files(&[tap.as_fd().as_raw_fd()])?;
    Ok(uring)
}

/// Adds the write of a frame.
fn push(uring: &mut IoUring, slot: usize, frame: &[u8]) -> io::Result<()> {
    let write = opcode::Write::new(types::Fixed(0), frame.as_ptr(), frame.len() as u32).build();
    let write = write.flags(Flags::SKIP_SUCCESS).user_data(slot as u64);
    // SAFETY: the frame is in a buffer that lives as long as the sender, and the device never blocks, so that the kernel has read it when
    // `submit` returns: the descriptor is non-blocking, for which io_uring tells of a failure instead of waiting.
    unsafe { uring.submission().push(&write) }.map_err(io::Error::other)
}

/// Submits the added requests to the kernel.
fn submit(uring: &IoUring) -> io::Result<()> {
    loop {
        match uring.submit() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(drop),
        }
    }
}
