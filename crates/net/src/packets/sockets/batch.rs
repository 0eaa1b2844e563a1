//! Sends frames by `sendmmsg` on a packet socket, out of buffers that are allocated once.

use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;

use super::buffers::Buffers;
use super::sender::is_full;
use super::stamps::Stamps;
use super::{BATCH, Interface, PacketError, socket};
use crate::udp::{force_buffer, set_int, zeroed_box};

/// Octets that the socket may have in flight.
const IN_FLIGHT: usize = 4 << 20;

/// A packet socket and its buffers.
pub(super) struct BatchSender {
    socket: Socket,
    buffers: Buffers,
    parts: Box<[libc::iovec; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
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
        Ok(Self { socket, buffers: Buffers::new(interface), parts: zeroed_box(), headers: zeroed_box(), stamps: None })
    }

    pub(super) const fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    pub(super) const fn queued(&self) -> usize {
        self.buffers.queued()
    }

    pub(super) const fn drops(&self) -> u64 {
        self.buffers.drops()
    }

    pub(super) fn stamp_sends(&mut self) -> io::Result<()> {
        self.stamps = Some(Box::new(Stamps::begin(&self.socket)?));
        Ok(())
    }

    pub(super) fn read_stamps(&mut self, take: impl FnMut(u32, i64)) -> io::Result<usize> {
        self.stamps.as_mut().map_or(Ok(0), |stamps| stamps.read(&self.socket, take))
    }

    pub(super) fn flush(&mut self) -> io::Result<usize> {
        let before = self.queued();
        while self.queued() > 0 {
            // What goes on at the beginning of the ring takes a second call.
            let run = self.queued().min(BATCH - self.buffers.slot(0));
            match self.send_counted(run) {
                Ok(sent) => {
                    self.buffers.leave(sent);
                    if sent < run {
                        break;
                    }
                }
                // Whatever it was, the next flush hears of it first.
                Err(_) if self.queued() < before => break,
                Err(error) if is_full(&error) => {
                    self.buffers.count_refusal();
                    return Ok(0);
                }
                Err(error) => {
                    self.buffers.give_up();
                    return Err(error);
                }
            }
        }
        Ok(before - self.queued())
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
        let first = self.buffers.slot(0);
        for at in first..first + run {
            let frame = self.buffers.frame(at);
            self.parts[at] = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
            let header = &mut self.headers[at].msg_hdr;
            header.msg_iov = &raw mut self.parts[at];
            header.msg_iovlen = 1;
        }
        let headers = self.headers[first..][..run].as_mut_ptr();
        // Not by the function of that name, which is a loop of single sends in musl; see `SendBatch::send` of crate::udp.
        // SAFETY: the `run` headers were just set to point at live parts, and these at live frames.
        let sent = unsafe {
            libc::syscall(libc::SYS_sendmmsg, self.socket.as_raw_fd(), headers, run as u32, libc::MSG_NOSIGNAL)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}
