//! Frames that arrived at an interface, or left by it: a ring of memory that the kernel fills (packet_mmap.rst of the kernel), with its stamps.
//!
//! The ring is TPACKET_V2, in which a frame is visible at once. Version 3 shows frames in blocks, when a block is full or after a
//! timeout of at least a millisecond. Stamps are equally good in both, but a client that waits for a frame before it sends the next
//! one (a handshake, a full window) would be late by the timeout, and the server would see it late.
//!
//! Slots of version 2 hold frames of the MTU. Longer ones, which offloads make, the kernel queues whole on the socket
//! (PACKET_COPY_THRESH); each is read from there by a system call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{RecvFlags, recv};
use socket2::Socket;

use super::memory::Memory;
use super::socket::{self, get_option, set_option};
use super::{Checksum, ETHERNET, Filter, Frame, Interface, PacketError};
use crate::udp::{force_buffer, set_int};

/// Octets of a block, which the kernel allocates as one: whole pages, and more than a slot.
const BLOCK: usize = 1 << 16;
/// Octets before the frame in a slot: the kernel's header and address, padded.
const BEFORE: usize = 96;
/// Octets of frames that have room in a slot, whatever the MTU is.
const IN_SLOT: usize = 9_216;
/// Octets of the longest frame: an IP packet of 64 KiB behind its header and tag.
const LONGEST: usize = 65_535 + ETHERNET;
/// Octets of long frames that wait on the socket, with the kernel's own; beyond the system's limit only with the right to.
const LONG_FRAMES: usize = 8 << 20;

// Where the fields of `struct tpacket2_hdr` and, behind it, of `struct sockaddr_ll` are.
const STATUS: usize = 0;
const LENGTH: usize = 4;
const CAPTURED: usize = 8;
const FRAME: usize = 12;
const SECONDS: usize = 16;
const NANOSECONDS: usize = 20;
const VLAN: usize = 24;
const KIND: usize = 32 + 10;

/// Frames that arrived at an interface, or left by it, in a ring that is shared with the kernel. Can be polled.
pub struct FrameRing {
    socket: Socket,
    memory: Memory,
    /// Octets of a slot, slots of a block, and blocks of the ring.
    slot: usize,
    slots: usize,
    blocks: usize,
    /// The next slot, and its block.
    next: (usize, usize),
    /// A frame that was too long for its slot.
    long: Box<[u8]>,
    dropped: u64,
}

/// Which frames of an interface get into a ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Arriving,
    /// What this host sends, too.
    Both,
}

impl FrameRing {
    /// Opens a ring of about `octets` octets, one block of 64 KiB at least, for the frames that arrive at an interface and that the
    /// filter lets in.
    ///
    /// # Errors
    /// The interface is gone, down or not Ethernet, the right is missing (CAP_NET_RAW), or memory is short.
    pub fn open(interface: &Interface, filter: &Filter, octets: usize) -> Result<Self, PacketError> {
        Self::open_of(Way::Arriving, interface, filter, octets)
    }

    /// As [`Self::open`], for the frames that this host itself sends by an interface, too.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with_sent(interface: &Interface, filter: &Filter, octets: usize) -> Result<Self, PacketError> {
        Self::open_of(Way::Both, interface, filter, octets)
    }

    fn open_of(way: Way, interface: &Interface, filter: &Filter, octets: usize) -> Result<Self, PacketError> {
        interface.check()?;
        let frame = (usize::from(interface.mtu) + ETHERNET).min(IN_SLOT);
        let slot = (BEFORE + frame).next_multiple_of(libc::TPACKET_ALIGNMENT);
        let (slots, blocks) = (BLOCK / slot, (octets / BLOCK).max(1));
        let socket = socket::open()?;
        let refused = PacketError::of_socket("set up a packet ring");
        // Before there is a ring, and before the socket is bound: nothing unwanted gets in.
        socket.attach_filter(filter.program()).map_err(&refused)?;
        set_up(&socket, way).map_err(&refused)?;
        let size = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: (slots * blocks) as u32,
        };
        // SAFETY: this is the structure of PACKET_RX_RING for version 2.
        unsafe { set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &size) }.map_err(&refused)?;
        let memory = Memory::of_socket(&socket, BLOCK * blocks, 0).map_err(&refused)?;
        socket::bind(&socket, interface, libc::ETH_P_ALL as u16)?;
        let long = vec![0; LONGEST].into_boxed_slice();
        Ok(Self { socket, memory, slot, slots, blocks, next: (0, 0), long, dropped: 0 })
    }

    /// Hands the frames that are there to `take`, `most` at most, and returns how many. There is no system call, but one for each frame
    /// above the MTU. The kernel may use a slot again when `take` returns.
    pub fn read(&mut self, most: usize, mut take: impl FnMut(Frame<'_>)) -> usize {
        let mut count = 0;
        while count < most && self.read_next(&mut take) {
            count += 1;
        }
        count
    }

    /// Also receives frames to all groups, as long as the ring lasts: those that ask for addresses of IPv6 go to a group of each
    /// address (RFC 4291 section 2.7.1), and a device with a wire lets in only the groups that this host is in.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn join_all_groups(&self, interface: &Interface) -> Result<(), PacketError> {
        let membership = libc::packet_mreq {
            mr_ifindex: interface.index.cast_signed(),
            mr_type: libc::PACKET_MR_ALLMULTI as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: this is the structure of PACKET_ADD_MEMBERSHIP.
        unsafe { set_option(&self.socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership) }
            .map_err(PacketError::of_socket("receive frames to groups"))
    }

    /// Frames that the kernel dropped since the ring was opened because it was full.
    pub fn drops(&mut self) -> u64 {
        let mut new = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        // SAFETY: this is the structure of PACKET_STATISTICS.
        let read = unsafe { get_option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut new) };
        // The kernel begins anew after each look.
        if read.is_ok() {
            self.dropped += u64::from(new.tp_drops);
        }
        self.dropped
    }

    /// Takes the error that polling the ring told of, such as that its interface went down.
    ///
    /// # Errors
    /// Never in practice.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    fn read_next(&mut self, take: &mut impl FnMut(Frame<'_>)) -> bool {
        let (slot, block) = self.next;
        let at = block * BLOCK + slot * self.slot;
        let status = self.memory.load(at + STATUS);
        if status & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the kernel does not write to a slot from when its status says so until it is given back below.
        let octets = unsafe { self.memory.read(at, self.slot) };
        if let Some(frame) = read_slot(octets, status, &self.socket, &mut self.long) {
            take(frame);
        }
        self.memory.store(at + STATUS, libc::TP_STATUS_KERNEL);
        self.next = match (slot + 1, block + 1) {
            (slot, _) if slot < self.slots => (slot, block),
            (_, block) if block < self.blocks => (0, block),
            _ => (0, 0),
        };
        true
    }
}

impl AsFd for FrameRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Options of a ring's socket.
fn set_up(socket: &Socket, way: Way) -> io::Result<()> {
    set_int(socket, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
    set_int(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, 1)?;
    force_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, LONG_FRAMES)?;
    // The software's stamps, which the kernel takes on arrival only while a socket asks for them by the second option.
    set_int(socket, libc::SOL_PACKET, libc::PACKET_TIMESTAMP, 0)?;
    set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    match set_int(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, i32::from(way == Way::Arriving)) {
        Err(error) if error.raw_os_error() != Some(libc::ENOPROTOOPT) => Err(error),
        _ => Ok(()),
    }
}

/// The frame in a slot; `None` if the slot header is invalid.
fn read_slot<'a>(slot: &'a [u8], status: u32, socket: &Socket, long: &'a mut [u8]) -> Option<Frame<'a>> {
    let (start, captured) = (usize::from(half(slot, FRAME)?), word(slot, CAPTURED)? as usize);
    let mut octets = slot.get(start..start.checked_add(captured)?)?;
    let mut length = word(slot, LENGTH)? as usize;
    if status & libc::TP_STATUS_COPY != 0
        && let Ok((_, whole)) = recv(socket, &mut *long, RecvFlags::DONTWAIT | RecvFlags::TRUNC)
    {
        octets = &long[..whole.min(long.len())];
        length = whole;
    }
    let checksum = match status {
        _ if status & libc::TP_STATUS_CSUMNOTREADY != 0 => Checksum::NotReady,
        _ if status & libc::TP_STATUS_CSUM_VALID != 0 => Checksum::Valid,
        _ => Checksum::Unknown,
    };
    let has_vlan = status & libc::TP_STATUS_VLAN_VALID != 0;
    Some(Frame {
        octets,
        length,
        stamp_ns: i64::from(word(slot, SECONDS)?) * 1_000_000_000 + i64::from(word(slot, NANOSECONDS)?),
        vlan: half(slot, VLAN).filter(|_| has_vlan),
        checksum,
        is_outgoing: slot.get(KIND) == Some(&libc::PACKET_OUTGOING),
    })
}

fn word(slot: &[u8], at: usize) -> Option<u32> {
    slot.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn half(slot: &[u8], at: usize) -> Option<u16> {
    slot.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    /// What is read of a slot of 200 octets that says its frame is of `captured` octets from `start` on.
    fn slot(start: u16, captured: u32) -> Option<(Vec<u8>, usize)> {
        let mut slot = vec![7; 200];
        slot[LENGTH..][..4].copy_from_slice(&1_000_u32.to_ne_bytes());
        slot[CAPTURED..][..4].copy_from_slice(&captured.to_ne_bytes());
        slot[FRAME..][..2].copy_from_slice(&start.to_ne_bytes());
        let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), None).unwrap();
        // Sets TP_STATUS_COPY although no copy is queued.
        let status = libc::TP_STATUS_USER | libc::TP_STATUS_COPY;
        read_slot(&slot, status, &socket, &mut [0; 9]).map(|frame| (frame.octets.to_vec(), frame.length))
    }

    #[test]
    fn a_slot_is_never_read_beyond_its_end() {
        for (start, captured) in [(200, 1), (0, 201), (66, 135), (66, u32::MAX), (u16::MAX, u32::MAX)] {
            assert_eq!(slot(start, captured), None, "{captured} octets from {start} on");
        }
        assert_eq!(slot(66, 134), Some((vec![7; 134], 1_000)), "what is missing shows in the length");
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        assert!((0..24).all(|length| read_slot(&vec![0; length], 1, &socket, &mut []).is_none()));
    }
}
