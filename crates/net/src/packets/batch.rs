//! Sends frames by `sendmmsg` on a packet socket, out of buffers that are allocated once.

use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;

use super::sender::{BATCH, is_full};
use super::stamps::Stamps;
use super::{ETHERNET, Interface, PacketError, socket};
use crate::udp::{force_buffer, set_int, zeroed_box};

/// Octets that the socket may have in flight.
const IN_FLIGHT: usize = 4 << 20;
/// How often a frame finds no room before it is given up: several milliseconds of a full queue.
const REFUSALS: u32 = 10_000;
/// Octets of a line of the caches.
const LINE: usize = 64;

/// A packet socket and a ring of buffers, one a frame.
pub(super) struct BatchSender {
    socket: Socket,
    octets: Box<[u8]>,
    /// Octets from one buffer to the next, and of a buffer.
    stride: usize,
    room: usize,
    lengths: [usize; BATCH],
    parts: Box<[libc::iovec; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
    /// The first frame that has not left, and how many there are from it on.
    first: usize,
    queued: usize,
    /// Whether the room behind them was handed out.
    has_room: bool,
    /// Flushes in a row in which there was no room for the first frame, and frames that were given up.
    refusals: u32,
    dropped: u64,
    /// Where the kernel stamps frames.
    stamps: Option<Box<Stamps>>,
}

// SAFETY: the pointers inside parts and headers only point into the boxes beside them, and are set anew by each call.
unsafe impl Send for BatchSender {}

impl BatchSender {
    /// Opens a socket on an interface.
    pub(super) fn open(interface: &Interface) -> Result<Self, PacketError> {
        let socket = socket::open()?;
        let refused = PacketError::of_socket("set up a packet socket");
        // Straight to the device: a queueing discipline would only delay frames, and drop them without a word.
        set_int(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1).map_err(&refused)?;
        force_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, IN_FLIGHT).map_err(&refused)?;
        socket::bind(&socket, interface, 0)?;
        let room = usize::from(interface.mtu) + ETHERNET;
        // An odd number of lines, so that the first lines of frames do not share a cache set.
        let stride = (room.div_ceil(LINE) | 1) * LINE;
        Ok(Self {
            socket,
            octets: vec![0; stride * BATCH].into_boxed_slice(),
            stride,
            room,
            lengths: [0; BATCH],
            parts: zeroed_box(),
            headers: zeroed_box(),
            first: 0,
            queued: 0,
            has_room: false,
            refusals: 0,
            dropped: 0,
            stamps: None,
        })
    }

    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        if self.queued == BATCH {
            return None;
        }
        self.has_room = true;
        let start = self.last() * self.stride;
        self.octets.get_mut(start..start + self.room)
    }

    pub(super) fn commit(&mut self, length: usize) {
        if std::mem::take(&mut self.has_room) {
            self.lengths[self.last()] = length.min(self.room);
            self.queued += 1;
        }
    }

    pub(super) const fn queued(&self) -> usize {
        self.queued
    }

    pub(super) const fn drops(&self) -> u64 {
        self.dropped
    }

    pub(super) fn stamp_sends(&mut self) -> io::Result<()> {
        self.stamps = Some(Box::new(Stamps::begin(&self.socket)?));
        Ok(())
    }

    pub(super) fn read_stamps(&mut self, take: impl FnMut(u32, i64)) -> io::Result<usize> {
        self.stamps.as_mut().map_or(Ok(0), |stamps| stamps.read(&self.socket, take))
    }

    pub(super) fn flush(&mut self) -> io::Result<usize> {
        let before = self.queued;
        while self.queued > 0 {
            // What goes on at the beginning of the ring takes a second call.
            let run = self.queued.min(BATCH - self.first);
            match self.send_counted(run) {
                Ok(sent) => {
                    self.leave(sent);
                    self.refusals = 0;
                    if sent < run {
                        break;
                    }
                }
                // Whatever it was, the next flush hears of it first.
                Err(_) if self.queued < before => break,
                Err(error) if is_full(&error) => {
                    self.count_refusal();
                    return Ok(0);
                }
                Err(error) => {
                    self.give_up();
                    return Err(error);
                }
            }
        }
        Ok(before - self.queued)
    }

    /// The kernel says "no room" to a frame, too, that a device will never take.
    const fn count_refusal(&mut self) {
        self.refusals += 1;
        if self.refusals == REFUSALS {
            self.give_up();
        }
    }

    /// Leaves out the first frame.
    const fn give_up(&mut self) {
        self.leave(1);
        self.refusals = 0;
        self.dropped += 1;
    }

    /// As [`Self::send`], with the frames counted for their stamps.
    fn send_counted(&mut self, run: usize) -> io::Result<usize> {
        let result = self.send(run);
        if let Some(stamps) = &mut self.stamps {
            let sent = result.as_ref().map_or(0, |sent| *sent);
            stamps.count(sent);
            if sent < run && stamps.handle_failure(&self.socket).is_err() {
                self.stamps = None;
            }
        }
        result
    }

    /// Sends up to `run` frames from the first one on, which are one behind the other.
    fn send(&mut self, run: usize) -> io::Result<usize> {
        for at in self.first..self.first + run {
            let frame = &mut self.octets[at * self.stride..][..self.lengths[at]];
            self.parts[at] = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
            let header = &mut self.headers[at].msg_hdr;
            header.msg_iov = &raw mut self.parts[at];
            header.msg_iovlen = 1;
        }
        let headers = self.headers[self.first..][..run].as_mut_ptr();
        // Not by the function of that name, which is a loop of single sends in musl; see `SendBatch::send` of crate::udp.
        // SAFETY: the `run` headers were just set to point at live parts, and these at live frames.
        let sent = unsafe {
            libc::syscall(libc::SYS_sendmmsg, self.socket.as_raw_fd(), headers, run as u32, libc::MSG_NOSIGNAL)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// Takes frames off the front.
    const fn leave(&mut self, count: usize) {
        self.queued -= count;
        // An empty ring begins anew, so that a batch is one run.
        self.first = if self.queued == 0 && !self.has_room { 0 } else { (self.first + count) % BATCH };
    }

    /// The place behind the frames that are queued.
    const fn last(&self) -> usize {
        (self.first + self.queued) % BATCH
    }
}
