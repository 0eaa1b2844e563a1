//! Sends frames by AF_XDP in copy mode, which needs no BPF program (af_xdp.rst of the kernel): buffers are shared with the kernel,
//! and two rings say which of them are to be sent, and which were.

use std::io;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use socket2::{Domain, Socket, Type};

use super::memory::Memory;
use super::queues::transmit_queues;
use super::sender::is_full;
use super::socket::{get_option, set_option, socket_address};
use super::{BATCH, ETHERNET, Interface, PacketError};

/// Buffers; those beyond a batch are being sent from by slow devices.
const BUFFERS: u32 = 512;
/// Sizes that a buffer may have: powers of two up to a page.
const SIZES: [usize; 2] = [2_048, 4_096];
/// Octets of a line of the caches.
const LINE: usize = 64;
/// Octets of `struct xdp_desc`: address, length, options.
const DESCRIPTOR: usize = 16;
/// Octets of an address in the completion ring.
const ADDRESS: usize = 8;
/// The kernel needs a fill ring, though nothing is received.
const FILL: u32 = 2;
/// Frames that one call may send, since Linux 6.17 (XDP_MAX_TX_SKB_BUDGET); 32 otherwise.
const BUDGET: i32 = 9;
/// A closed socket holds its queue for some milliseconds: how often a queue is tried again, and after what time.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(1);
/// Queues that are looked at most.
const QUEUES: u32 = 4_096;

/// A socket of AF_XDP and what it shares with the kernel.
pub(super) struct XdpSender {
    socket: Socket,
    buffers: Memory,
    /// Octets of a buffer, and of the frame in it.
    size: usize,
    room: usize,
    transmit: Ring,
    complete: Ring,
    /// Numbers of buffers that nobody uses.
    free: Vec<u32>,
    /// The buffer that was handed out to be written.
    open: Option<u32>,
    /// Frames added so far, and those that left; both begin anew behind 32 bits.
    added: u32,
    left: u32,
    /// Frames that the device had no room for.
    dropped: u64,
}

impl XdpSender {
    /// Opens a socket on the first queue of the interface that has none.
    pub(super) fn open(interface: &Interface) -> Result<Self, PacketError> {
        let room = usize::from(interface.mtu) + ETHERNET;
        let size = SIZES.into_iter().find(|&size| size >= room).ok_or_else(|| PacketError::MtuTooLarge {
            name: interface.name.clone(),
            mtu: interface.mtu,
            most: SIZES[1] - ETHERNET,
        })?;
        let socket = open_socket()?;
        let octets = size * BUFFERS as usize;
        let refused = PacketError::of_socket("set up an AF_XDP socket");
        let buffers = Memory::private(octets).map_err(&refused)?;
        register(&socket, &buffers, octets, size)?;
        let offsets = make_rings(&socket).map_err(&refused)?;
        let transmit = Ring::map(&socket, &offsets.tx, BATCH as u32, DESCRIPTOR, libc::XDP_PGOFF_TX_RING);
        let place = libc::XDP_UMEM_PGOFF_COMPLETION_RING.cast_signed();
        let complete = Ring::map(&socket, &offsets.cr, BUFFERS, ADDRESS, place);
        let (transmit, complete) = (transmit.map_err(&refused)?, complete.map_err(&refused)?);
        bind(&socket, interface)?;
        let free = (0..BUFFERS).rev().collect();
        Ok(Self { socket, buffers, size, room, transmit, complete, free, open: None, added: 0, left: 0, dropped: 0 })
    }

    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        if self.open.is_none() && self.queued() < BATCH {
            if self.free.is_empty() {
                self.reclaim();
            }
            self.open = self.free.pop();
        }
        let start = self.start(self.open?);
        // SAFETY: the buffer is on neither ring, so that the kernel does not use it.
        Some(unsafe { self.buffers.write(start, self.room) })
    }

    pub(super) fn commit(&mut self, length: usize) {
        let Some(buffer) = self.open.take() else { return };
        let start = self.start(buffer) as u64;
        // SAFETY: the kernel reads the place only when the ring's producer has passed it.
        let descriptor = unsafe { self.transmit.entry(self.added) };
        let words = [start.to_ne_bytes(), descriptor_word(length.min(self.room))];
        for (to, from) in descriptor.chunks_exact_mut(ADDRESS).zip(words) {
            to.copy_from_slice(&from);
        }
        self.added = self.added.wrapping_add(1);
    }

    pub(super) const fn queued(&self) -> usize {
        self.added.wrapping_sub(self.left) as usize
    }

    pub(super) const fn drops(&self) -> u64 {
        self.dropped
    }

    pub(super) fn flush(&mut self) -> io::Result<usize> {
        self.transmit.memory.store(self.transmit.producer, self.added);
        let mut sent = 0;
        let result = loop {
            if self.queued() == 0 {
                break Ok(());
            }
            let status = send(&self.socket, &[], SendFlags::DONTWAIT);
            let progress = self.take_progress();
            sent += progress;
            match status {
                // The device had no room for the last of them, and it is gone: no more of them now.
                Err(Errno::BUSY) => {
                    let lost = progress.min(1);
                    sent -= lost;
                    self.dropped += lost as u64;
                    break Ok(());
                }
                Err(error) if !is_full(&error.into()) => break Err(error.into()),
                _ if progress == 0 => break Ok(()),
                _ => {}
            }
        };
        self.reclaim();
        if sent == 0 { result.map(|()| 0) } else { Ok(sent) }
    }

    /// Reads how far the kernel has come; returns by how many frames since the last time.
    fn take_progress(&mut self) -> usize {
        let left = self.transmit.memory.load(self.transmit.consumer);
        let progress = left.wrapping_sub(self.left) as usize;
        if progress > self.queued() {
            return 0;
        }
        self.left = left;
        progress
    }

    /// Takes back the buffers that the kernel is done with.
    fn reclaim(&mut self) {
        let (mut at, end) =
            (self.complete.memory.load(self.complete.consumer), self.complete.memory.load(self.complete.producer));
        while at != end && self.free.len() < BUFFERS as usize {
            // SAFETY: the kernel wrote the place before it moved the ring's producer, and writes it again behind our consumer.
            let octets = unsafe { self.complete.entry(at) };
            let address = (*octets).try_into().map_or(u64::MAX, u64::from_ne_bytes);
            let buffer = address / self.size as u64;
            if buffer < BUFFERS.into() {
                self.free.push(buffer as u32);
            }
            at = at.wrapping_add(1);
        }
        self.complete.memory.store(self.complete.consumer, at);
    }

    /// Where the frame in a buffer begins: at different lines in different buffers, which otherwise share cache sets.
    const fn start(&self, buffer: u32) -> usize {
        let shifts = (self.size - self.room) / LINE + 1;
        buffer as usize * self.size + buffer as usize % shifts * LINE
    }
}

/// A ring of entries that one side writes and the other takes off.
struct Ring {
    memory: Memory,
    producer: usize,
    consumer: usize,
    entries: usize,
    mask: u32,
    octets: usize,
}

impl Ring {
    fn map(
        socket: &Socket,
        offsets: &libc::xdp_ring_offset,
        count: u32,
        octets: usize,
        place: libc::off_t,
    ) -> io::Result<Self> {
        let entries = offsets.desc as usize;
        let memory = Memory::of_socket(socket, entries + count as usize * octets, place)?;
        let (producer, consumer) = (offsets.producer as usize, offsets.consumer as usize);
        Ok(Self { memory, producer, consumer, entries, mask: count - 1, octets })
    }

    /// The entry of this number, which begins anew behind the last one.
    ///
    /// # Safety
    /// The kernel must not use the entry while the result lives.
    unsafe fn entry(&mut self, number: u32) -> &mut [u8] {
        let at = self.entries + (number & self.mask) as usize * self.octets;
        // SAFETY: the caller vouches for it.
        unsafe { self.memory.write(at, self.octets) }
    }
}

/// The second half of a descriptor: the length, and no options.
fn descriptor_word(length: usize) -> [u8; 8] {
    let mut octets = [0; 8];
    octets[..4].copy_from_slice(&(length as u32).to_ne_bytes());
    octets
}

fn open_socket() -> Result<Socket, PacketError> {
    let socket = Socket::new(Domain::from(libc::AF_XDP), Type::RAW.nonblocking(), None);
    socket.map_err(|source| match source.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => PacketError::NoXdp,
        _ => PacketError::of_socket("open an AF_XDP socket")(source),
    })
}

/// Tells the kernel where the buffers are; it locks them in memory.
fn register(socket: &Socket, buffers: &Memory, octets: usize, size: usize) -> Result<(), PacketError> {
    let region =
        libc::xdp_umem_reg_v1 { addr: buffers.address(), len: octets as u64, chunk_size: size as u32, headroom: 0 };
    // SAFETY: this is the structure of XDP_UMEM_REG. The kernel holds on to the pages by itself, whatever becomes of the mapping.
    let result = unsafe { set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &region) };
    result.map_err(|source| match source.raw_os_error() {
        Some(libc::ENOBUFS) => PacketError::LockedMemory { octets },
        _ => PacketError::of_socket("register the buffers of an AF_XDP socket")(source),
    })
}

/// Has the kernel make the rings, and returns where their parts are.
fn make_rings(socket: &Socket) -> io::Result<libc::xdp_mmap_offsets> {
    let sizes = [
        (libc::XDP_UMEM_FILL_RING, FILL),
        (libc::XDP_UMEM_COMPLETION_RING, BUFFERS),
        (libc::XDP_TX_RING, BATCH as u32),
    ];
    for (ring, entries) in sizes {
        // SAFETY: each of these options is a number of 32 bits.
        unsafe { set_option(socket, libc::SOL_XDP, ring, &entries)? };
    }
    // Kernels that do not know it send a batch by several calls.
    // SAFETY: as above.
    let _ = unsafe { set_option(socket, libc::SOL_XDP, BUDGET, &(BATCH as u32)) };
    let none = libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
    let mut offsets = libc::xdp_mmap_offsets { rx: none, tx: none, fr: none, cr: none };
    // SAFETY: this is the structure of XDP_MMAP_OFFSETS.
    unsafe { get_option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut offsets)? };
    Ok(offsets)
}

/// Binds to the first transmit queue that is free, now or in a moment. Binding to an RX-only queue also succeeds, but then nothing is ever
/// sent.
fn bind(socket: &Socket, interface: &Interface) -> Result<(), PacketError> {
    let most = transmit_queues(&interface.name)?.unwrap_or(QUEUES).min(QUEUES);
    let mut queues = most;
    for _ in 0..TRIES {
        for queue in 0..most {
            match bind_queue(socket, interface, queue) {
                Ok(()) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                // There is no such queue.
                Err(error) if queue > 0 && error.raw_os_error() == Some(libc::EINVAL) => {
                    queues = queue;
                    break;
                }
                Err(error) => return Err(PacketError::of_socket("bind an AF_XDP socket")(error)),
            }
        }
        thread::sleep(PAUSE);
    }
    Err(PacketError::QueuesTaken { name: interface.name.clone(), queues })
}

fn bind_queue(socket: &Socket, interface: &Interface, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface.index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: this is the address of AF_XDP.
    socket.bind(&unsafe { socket_address(address) })
}
