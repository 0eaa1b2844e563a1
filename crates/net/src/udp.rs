//! UDP sockets that send from any address, in batches, with kernel receive timestamps.
//!
//! One call of `sendmmsg` or `recvmmsg` moves up to [`BATCH`] datagrams; all buffers are allocated once.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use socket2::{Domain, Protocol, Socket, Type};

pub use crate::datagram::{BATCH, Datagram, Received, SendStamp, UdpOptions};

/// Buffer of one received datagram: the largest that UDP carries.
const DATAGRAM: usize = 65_535;
/// Distance of two receive buffers. Not a power of two, so that their first lines do not share a cache set.
const STRIDE: usize = DATAGRAM + 1 + 128;
/// Room for the control messages of one datagram (packet info, stamps, an error and its sender), 8-octet aligned.
const CONTROL: usize = 256;
/// Datagrams up to this length are copied together: the kernel takes one part faster than two.
const SHORT: usize = 254;

/// A non-blocking UDP socket with packet info, error queue and receive stamps switched on.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    local: SocketAddr,
    connected: bool,
}

impl UdpSocket {
    /// Opens and binds a socket.
    ///
    /// # Errors
    /// What the kernel refused, such as an address that is not local.
    pub fn open(options: &UdpOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(options.bind), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        if options.bind.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if options.freebind {
            set_int(&socket, libc::IPPROTO_IP, libc::IP_FREEBIND, 1)?;
        }
        set_common(&socket, options)?;
        socket.bind(&options.bind.into())?;
        let local = socket.local_addr()?.as_socket().unwrap_or(options.bind);
        Ok(Self { socket, local, connected: false })
    }

    /// Opens a socket to serve from. Others of this user may share its address, whose clients the kernel deals out among
    /// them; the address need not be one that an interface has. Nothing leaves in fragments (RFC 9715 §3.1), unless
    /// [`Self::allow_fragments`] says otherwise.
    ///
    /// # Errors
    /// What the kernel refused, such as an address in use.
    pub fn serve(bind: SocketAddr, buffer: usize) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(bind), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        socket.set_reuse_port(true)?;
        force_buffer(&socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, buffer)?;
        force_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, buffer)?;
        // Path MTUs that packets from outside claim are not believed, as they cannot be checked. And without fragments the
        // kernel need not draw an identification for each datagram.
        if bind.is_ipv4() {
            set_int(&socket, libc::IPPROTO_IP, libc::IP_FREEBIND, 1)?;
            set_int(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
            set_int(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
        } else {
            socket.set_only_v6(true)?;
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1)?;
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        }
        socket.bind(&bind.into())?;
        let local = socket.local_addr()?.as_socket().unwrap_or(bind);
        Ok(Self { socket, local, connected: false })
    }

    /// Allows datagrams above the MTU of the interface to be fragmented, whatever path MTUs packets from outside claim.
    ///
    /// # Errors
    /// Never in practice.
    pub fn allow_fragments(&self) -> io::Result<()> {
        match self.local {
            SocketAddr::V4(_) => set_int(&self.socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT),
            SocketAddr::V6(_) => {
                set_int(&self.socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT)
            }
        }
    }

    /// Connects the socket, so that the kernel reports ICMP errors and filters other senders.
    ///
    /// # Errors
    /// What the kernel refused, such as a peer without a route.
    pub fn connect(&mut self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(&peer.into())?;
        self.connected = true;
        self.local = self.socket.local_addr()?.as_socket().unwrap_or(self.local);
        Ok(())
    }

    /// Has the kernel keep no refusals by destinations (ICMP) for this socket, and forgets those it has kept: for a responder,
    /// whose clients may be gone when it answers. Otherwise each of them fails a later call, whoever that was for, and the
    /// socket counts as ready until its error queue is empty ([`ReceiveBatch::receive_errors`]).
    ///
    /// # Errors
    /// Never in practice.
    pub fn ignore_refusals(&self) -> io::Result<()> {
        match self.local {
            SocketAddr::V4(_) => set_int(&self.socket, libc::IPPROTO_IP, libc::IP_RECVERR, 0),
            SocketAddr::V6(_) => set_int(&self.socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 0),
        }
    }

    /// Lets the kernel stamp datagrams as it hands them to the device. The stamps come through the error queue, each with the
    /// number of its datagram among those sent from now on, counted from 0.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn stamp_sends(&self) -> io::Result<()> {
        stamp_sends_from_zero(&self.socket)
    }

    /// Whether the peer is fixed.
    pub const fn is_connected(&self) -> bool {
        self.connected
    }

    /// Datagrams that the kernel dropped on their way into this socket since it was opened, mostly for lack of room in its
    /// buffer. The count is of 32 bits and begins anew behind them.
    ///
    /// # Errors
    /// When the kernel cannot tell (before Linux 4.12).
    pub fn drops(&self) -> io::Result<u32> {
        // Numbers of linux/sock_diag.h: how many there are, and which one this is.
        const NUMBERS: usize = 9;
        const DROPS: usize = 8;
        let mut numbers = [0_u32; NUMBERS];
        let mut length = mem::size_of_val(&numbers) as libc::socklen_t;
        // SAFETY: the pointers describe `numbers` and its length, which live through the call.
        let status = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                numbers.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if status == 0 { Ok(numbers[DROPS]) } else { Err(io::Error::last_os_error()) }
    }

    /// The local address and port.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }
}

/// Whether an address is one of this host: one that a socket can be bound to without further ado.
///
/// # Errors
/// When that cannot be tried: the process is out of file descriptors, or the kernel has no such family.
pub fn is_local(address: IpAddr) -> io::Result<bool> {
    match std::net::UdpSocket::bind((address, 0)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(false),
        Err(error) => Err(error),
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<UdpSocket> for OwnedFd {
    fn from(socket: UdpSocket) -> Self {
        socket.socket.into()
    }
}

fn set_common(socket: &Socket, options: &UdpOptions) -> io::Result<()> {
    force_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, options.buffer)?;
    force_buffer(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, options.buffer)?;
    set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    if options.bind.is_ipv4() {
        // Never fragmented, so that the kernel need not draw an identification for each datagram (5 % of a send).
        set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
        set_int(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, i32::from(options.packet_info))?;
        set_int(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    } else {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, i32::from(options.packet_info))?;
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    }
}

/// Has the kernel timestamp what the socket sends from now on, and restarts their numbers at 0.
pub(crate) fn stamp_sends_from_zero(socket: &Socket) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    // The kernel's count begins anew when numbers are switched on, not when they are on already.
    for flags in [0, flags] {
        set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)?;
    }
    Ok(())
}

/// Tries to pass the system's limit, and takes what the limit allows otherwise.
pub(crate) fn force_buffer(socket: &Socket, force: i32, plain: i32, octets: usize) -> io::Result<()> {
    let octets = i32::try_from(octets).unwrap_or(i32::MAX);
    set_int(socket, libc::SOL_SOCKET, force, octets).or_else(|_| set_int(socket, libc::SOL_SOCKET, plain, octets))
}

pub(crate) fn set_int(socket: &Socket, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives through the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(&value).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The arrays of one `sendmmsg`, allocated once.
pub struct SendBatch {
    slots: Box<[SendSlot; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
}

// SAFETY: the pointers inside the headers only point into the boxes beside them, and are set anew by each call.
unsafe impl Send for SendBatch {}

#[repr(C)]
struct SendSlot {
    short: [u8; 2 + SHORT],
    parts: [libc::iovec; 2],
    peer: libc::sockaddr_storage,
    control: Control,
}

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl Default for SendBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl SendBatch {
    /// Empty arrays.
    pub fn new() -> Self {
        Self { slots: zeroed_box(), headers: zeroed_box() }
    }

    /// Sends up to [`BATCH`] datagrams in one system call and returns how many the kernel took.
    ///
    /// # Errors
    /// What the kernel said to the first one; the others were not tried.
    pub fn send<'a>(
        &mut self,
        socket: &UdpSocket,
        datagrams: impl ExactSizeIterator<Item = Datagram<'a>>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for datagram in datagrams.take(BATCH) {
            self.fill(count, &datagram);
            count += 1;
        }
        let (socket, headers) = (socket.socket.as_raw_fd(), self.headers.as_mut_ptr());
        // Not by the function of that name, which is a loop of single sends in musl. The kernel's lengths are wider than musl's; the
        // padding that makes up for it is zero, as everything here is at first.
        // SAFETY: the first `count` headers were just set to point at live slots and payloads; 'a outlives the call.
        let sent = unsafe { libc::syscall(libc::SYS_sendmmsg, socket, headers, count as u32, libc::MSG_NOSIGNAL) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    fn fill(&mut self, at: usize, datagram: &Datagram<'_>) {
        let slot = &mut self.slots[at];
        slot.short[..2].copy_from_slice(&datagram.head);
        let parts = match slot.short.get_mut(2..2 + datagram.tail.len()) {
            Some(rest) => {
                rest.copy_from_slice(datagram.tail);
                slot.parts[0] = part(&slot.short[..2 + datagram.tail.len()]);
                1
            }
            None => {
                slot.parts = [part(&slot.short[..2]), part(datagram.tail)];
                2
            }
        };
        let header = &mut self.headers[at].msg_hdr;
        header.msg_namelen = datagram.peer.map_or(0, |peer| write_address(&mut slot.peer, peer));
        header.msg_name = if header.msg_namelen == 0 { ptr::null_mut() } else { ptr::from_mut(&mut slot.peer).cast() };
        header.msg_iov = slot.parts.as_mut_ptr();
        header.msg_iovlen = parts as _;
        let control = datagram.source.map_or(0, |source| write_source(&mut slot.control, source));
        header.msg_controllen = control as _;
        header.msg_control = slot.control.0.as_mut_ptr().cast();
    }
}

fn part(octets: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() }
}

/// Boxes of plain kernel structures, for which all zeros is a valid value.
pub(crate) fn zeroed_box<T: KernelStruct, const N: usize>() -> Box<[T; N]> {
    // SAFETY: KernelStruct is implemented only for C structures of integers and raw pointers.
    unsafe { Box::<[T; N]>::new_zeroed().assume_init() }
}

/// A C structure of integers and raw pointers only.
///
/// # Safety
/// All zeros must be a valid value of the type.
pub(crate) unsafe trait KernelStruct {}
// SAFETY: integers, raw pointers and arrays of them.
unsafe impl KernelStruct for libc::mmsghdr {}
// SAFETY: as above.
unsafe impl KernelStruct for libc::iovec {}
// SAFETY: as above.
unsafe impl KernelStruct for SendSlot {}
// SAFETY: as above.
unsafe impl KernelStruct for ReceiveSlot {}

/// Writes the kernel's form of an address and returns its length.
fn write_address(storage: &mut libc::sockaddr_storage, address: SocketAddr) -> libc::socklen_t {
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: in_addr(*v4.ip()),
                sin_zero: [0; 8],
            };
            write_raw(storage, raw)
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            write_raw(storage, raw)
        }
    }
}

fn write_raw<T>(storage: &mut libc::sockaddr_storage, raw: T) -> libc::socklen_t {
    const { assert!(mem::size_of::<T>() <= mem::size_of::<libc::sockaddr_storage>()) };
    // SAFETY: the storage is large enough (asserted above) and aligned for every socket address.
    unsafe { ptr::from_mut(storage).cast::<T>().write(raw) };
    mem::size_of::<T>() as libc::socklen_t
}

fn in_addr(address: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) }
}

/// Writes the packet info that names the source address and returns the length of the control messages.
fn write_source(control: &mut Control, source: IpAddr) -> usize {
    match source {
        IpAddr::V4(v4) => {
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: in_addr(v4), ipi_addr: in_addr(v4) };
            write_control(control, libc::IPPROTO_IP, libc::IP_PKTINFO, info)
        }
        IpAddr::V6(v6) => {
            let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: v6.octets() }, ipi6_ifindex: 0 };
            write_control(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
        }
    }
}

fn write_control<T>(control: &mut Control, level: i32, kind: i32, data: T) -> usize {
    const { assert!(mem::size_of::<libc::cmsghdr>() + mem::size_of::<T>() + 8 <= CONTROL) };
    // SAFETY: the buffer is aligned for a header and holds one with `T` behind it (asserted above).
    unsafe {
        let length = mem::size_of::<T>() as u32;
        let header = control.0.as_mut_ptr().cast::<libc::cmsghdr>();
        (*header).cmsg_len = libc::CMSG_LEN(length) as _;
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(data);
        libc::CMSG_SPACE(length) as usize
    }
}

/// The arrays of one `recvmmsg`, allocated once.
pub struct ReceiveBatch {
    slots: Box<[ReceiveSlot; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
    octets: Box<[MaybeUninit<u8>]>,
    received: usize,
}

// SAFETY: the pointers inside the headers only point into the boxes beside them, and are set anew by each call.
unsafe impl Send for ReceiveBatch {}

#[repr(C)]
struct ReceiveSlot {
    part: libc::iovec,
    peer: libc::sockaddr_storage,
    control: Control,
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBatch {
    /// Empty buffers.
    pub fn new() -> Self {
        let octets = Box::new_uninit_slice(BATCH * STRIDE);
        Self { slots: zeroed_box(), headers: zeroed_box(), octets, received: 0 }
    }

    /// Takes up to `limit` waiting datagrams (at most [`BATCH`]) without blocking and returns how many; 0 if none waits.
    ///
    /// # Errors
    /// The kernel's error, such as an ICMP error for a connected socket.
    pub fn receive(&mut self, socket: &UdpSocket, limit: usize) -> io::Result<usize> {
        self.receive_flags(&socket.socket, limit, libc::MSG_DONTWAIT)
    }

    /// As [`Self::receive`], from the error queue: datagrams that were refused by their destination.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn receive_errors(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.receive_errors_of(&socket.socket)
    }

    /// As [`Self::receive_errors`], of a socket of any kind.
    pub(crate) fn receive_errors_of(&mut self, socket: &Socket) -> io::Result<usize> {
        self.receive_flags(socket, BATCH, libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE)
    }

    fn receive_flags(&mut self, socket: &Socket, limit: usize, flags: i32) -> io::Result<usize> {
        self.received = 0;
        let limit = limit.min(BATCH);
        (0..limit).for_each(|at| self.prepare(at));
        // SAFETY: the first `limit` headers were just set to point at live slots and buffers of the lengths told.
        let count = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), limit as u32, flags as _, ptr::null_mut())
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        }
        self.received = count as usize;
        Ok(self.received)
    }

    fn prepare(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let buffer = &mut self.octets[at * STRIDE..at * STRIDE + DATAGRAM];
        slot.part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: DATAGRAM };
        let header = &mut self.headers[at].msg_hdr;
        header.msg_name = ptr::from_mut(&mut slot.peer).cast();
        header.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_iov = &raw mut slot.part;
        header.msg_iovlen = 1;
        header.msg_control = slot.control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL as _;
        header.msg_flags = 0;
    }

    /// The datagrams of the last call.
    pub fn iter(&self) -> impl Iterator<Item = Received<'_>> {
        (0..self.received).map(|at| self.get(at))
    }

    fn get(&self, at: usize) -> Received<'_> {
        let header = &self.headers[at];
        let length = (header.msg_len as usize).min(DATAGRAM);
        let buffer = &self.octets[at * STRIDE..at * STRIDE + length];
        // SAFETY: the kernel has written `msg_len` octets to this buffer.
        let octets = unsafe { &*(ptr::from_ref(buffer) as *const [u8]) };
        let peer = read_address(&self.slots[at].peer, header.msg_hdr.msg_namelen);
        let mut received = Received { octets, peer, local: None, stamp_ns: None, sent: None };
        read_control(&header.msg_hdr, &mut received);
        received
    }
}

fn read_address(storage: &libc::sockaddr_storage, length: libc::socklen_t) -> Option<SocketAddr> {
    if length == 0 {
        return None;
    }
    let raw = ptr::from_ref(storage);
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote an address of this family; the storage is larger and aligned.
            let v4 = unsafe { &*raw.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*raw.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn read_control(header: &libc::msghdr, received: &mut Received<'_>) {
    let (mut sent_ns, mut number) = (None, None);
    // SAFETY: the kernel wrote well-formed control messages of `msg_controllen` octets, which these macros walk.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: `message` is a header inside the control buffer; the data read is of the kind that it names.
        unsafe {
            let data = libc::CMSG_DATA(message);
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let stamp = data.cast::<libc::timespec>().read_unaligned();
                    received.stamp_ns = Some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    received.local = Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    received.local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    // The first of three is the software's.
                    let stamp = data.cast::<libc::timespec>().read_unaligned();
                    sent_ns = Some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec);
                }
                (libc::IPPROTO_IP, libc::IP_RECVERR)
                | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
                | (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP) => {
                    let error = data.cast::<libc::sock_extended_err>().read_unaligned();
                    let is_stamp = error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING;
                    number = is_stamp.then_some(error.ee_data);
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    received.sent = number.zip(sent_ns).map(|(number, ns)| SendStamp { number, ns });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket as Plain;

    fn open(bind: &str) -> UdpSocket {
        UdpSocket::open(&UdpOptions {
            bind: bind.parse().unwrap(),
            buffer: 1 << 20,
            freebind: false,
            packet_info: true,
        })
        .unwrap()
    }

    fn readable(socket: &UdpSocket) {
        let mut poll = crate::poll::Poll::new().unwrap();
        poll.add(socket, 0).unwrap();
        assert_eq!(poll.wait(2_000_000_000).unwrap().count(), 1);
    }

    #[test]
    fn each_datagram_leaves_from_its_own_source() {
        let (peer, socket) = (Plain::bind("127.0.0.1:0").unwrap(), open("0.0.0.0:0"));
        let to = Some(peer.local_addr().unwrap());
        let sources = ["127.0.0.9", "127.1.2.3"].map(|text| text.parse::<IpAddr>().unwrap());
        let datagrams = sources.map(|ip| Datagram { head: *b"ab", tail: b"cd", source: Some(ip), peer: to });
        assert_eq!(SendBatch::new().send(&socket, datagrams.into_iter()).unwrap(), 2);
        let mut buffer = [0; 16];
        for source in sources {
            let (length, from) = peer.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.ip()), (&b"abcd"[..], source));
        }
    }

    #[test]
    fn received_datagrams_tell_peer_local_address_and_stamp() {
        for (bind, peer) in [("0.0.0.0:0", "127.0.0.1:0"), ("[::]:0", "[::1]:0")] {
            let (socket, peer) = (open(bind), Plain::bind(peer).unwrap());
            let local = SocketAddr::new(peer.local_addr().unwrap().ip(), socket.local().port());
            peer.send_to(b"one", local).unwrap();
            peer.send_to(b"three", local).unwrap();
            readable(&socket);
            let mut batch = ReceiveBatch::new();
            assert_eq!(batch.receive(&socket, BATCH).unwrap(), 2);
            let first = batch.iter().next().unwrap();
            assert_eq!((first.octets, first.peer), (&b"one"[..], Some(peer.local_addr().unwrap())));
            assert_eq!(first.local, Some(local.ip()));
            assert!((crate::clock::realtime_ns() - first.stamp_ns.unwrap()).abs() < 60_000_000_000);
            assert_eq!(batch.receive(&socket, BATCH).unwrap(), 0);
        }
    }

    #[test]
    fn sockets_that_serve_share_an_address_and_answer_from_the_one_asked() {
        for (wildcard, client, asked) in [("0.0.0.0:0", "127.0.0.1:0", "127.3.2.1"), ("[::]:0", "[::1]:0", "::1")] {
            let first = UdpSocket::serve(wildcard.parse().unwrap(), 1 << 20).unwrap();
            let second = UdpSocket::serve(first.local(), 1 << 20).unwrap();
            let client = Plain::bind(client).unwrap();
            let asked = SocketAddr::new(asked.parse().unwrap(), first.local().port());
            client.send_to(b"query", asked).unwrap();
            let mut batch = ReceiveBatch::new();
            let socket =
                [&first, &second].into_iter().find(|socket| batch.receive(socket, BATCH).unwrap() == 1).unwrap();
            let got = batch.iter().next().unwrap();
            // Longer than a packet of loopback, which holds 65,536 octets with its headers.
            let long = vec![7; 65_000];
            let answer = Datagram { head: *b"an", tail: &long, source: got.local, peer: got.peer };
            assert_eq!(SendBatch::new().send(socket, std::iter::once(answer)).unwrap(), 1);
            let mut buffer = vec![0; 66_000];
            assert_eq!(client.recv_from(&mut buffer).unwrap(), (65_002, asked));
        }
    }

    #[test]
    fn refusals_that_are_ignored_leave_the_socket_idle() {
        let closed = Plain::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = open("0.0.0.0:0");
        let datagram = Datagram { head: [1, 2], tail: b"answer", source: None, peer: Some(closed) };
        SendBatch::new().send(&socket, [datagram].into_iter()).unwrap();
        readable(&socket);
        socket.ignore_refusals().unwrap();
        let mut poll = crate::poll::Poll::new().unwrap();
        poll.add(&socket, 0).unwrap();
        for _ in 0..9 {
            // The first may still be told of the refusal from before.
            let _ = SendBatch::new().send(&socket, [datagram].into_iter());
        }
        assert_eq!(poll.wait(0).unwrap().count(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_by_its_socket_alone() {
        let options =
            UdpOptions { bind: "127.0.0.1:0".parse().unwrap(), buffer: 4_096, freebind: false, packet_info: false };
        let [full, other] = [(); 2].map(|()| UdpSocket::open(&options).unwrap());
        let peer = Plain::bind("127.0.0.1:0").unwrap();
        (0..100).for_each(|_| assert_eq!(peer.send_to(&[0; 500], full.local()).unwrap(), 500));
        let mut batch = ReceiveBatch::new();
        let mut received = 0;
        while let Ok(count @ 1..) = batch.receive(&full, BATCH) {
            received += count as u32;
        }
        assert!(received < 100);
        assert_eq!((full.drops().unwrap(), other.drops().unwrap()), (100 - received, 0));
    }

    #[test]
    fn sent_datagrams_are_stamped_by_number_and_received_ones_keep_their_own() {
        for (bind, peer) in [("0.0.0.0:0", "127.0.0.1:0"), ("[::]:0", "[::1]:0")] {
            let (socket, peer) = (open(bind), Plain::bind(peer).unwrap());
            socket.stamp_sends().unwrap();
            let to = Some(peer.local_addr().unwrap());
            let before = crate::clock::realtime_ns();
            let datagram = Datagram { head: [1, 2], tail: b"query", source: None, peer: to };
            assert_eq!(SendBatch::new().send(&socket, [datagram; 3].into_iter()).unwrap(), 3);
            readable(&socket);
            let mut batch = ReceiveBatch::new();
            assert_eq!(batch.receive_errors(&socket).unwrap(), 3);
            let sent: Vec<SendStamp> = batch.iter().filter_map(|entry| entry.sent).collect();
            assert_eq!(sent.iter().map(|stamp| stamp.number).collect::<Vec<_>>(), [0, 1, 2]);
            assert!(sent.iter().all(|stamp| (before..=crate::clock::realtime_ns()).contains(&stamp.ns)));
            let local = SocketAddr::new(peer.local_addr().unwrap().ip(), socket.local().port());
            peer.send_to(b"answer", local).unwrap();
            readable(&socket);
            assert_eq!(batch.receive(&socket, BATCH).unwrap(), 1);
            let answer = batch.iter().next().unwrap();
            assert_eq!((answer.sent, answer.local), (None, Some(local.ip())));
            assert!(answer.stamp_ns.is_some());
        }
    }

    #[test]
    fn only_addresses_of_this_host_are_local() {
        for (address, expected) in [("127.0.0.1", true), ("127.9.9.9", true), ("192.0.2.1", false), ("0.0.0.0", true)] {
            assert_eq!(is_local(address.parse().unwrap()).unwrap(), expected, "{address}");
        }
    }

    #[test]
    fn a_refused_datagram_comes_back_in_the_error_queue() {
        let closed = Plain::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = open("0.0.0.0:0");
        let datagram = Datagram { head: [1, 2], tail: b"query", source: None, peer: Some(closed) };
        SendBatch::new().send(&socket, [datagram].into_iter()).unwrap();
        readable(&socket);
        let mut batch = ReceiveBatch::new();
        assert_eq!(batch.receive_errors(&socket).unwrap(), 1);
        let refused = batch.iter().next().unwrap();
        assert_eq!((refused.octets, refused.peer), (&b"\x01\x02query"[..], Some(closed)));
    }
}
