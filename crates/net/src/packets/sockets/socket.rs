//! Sockets of AF_PACKET, and options of any type.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::ptr;

use socket2::{Domain, SockAddr, SockAddrStorage, Socket, Type};

use super::{Interface, PacketError};

/// Opens a socket that receives nothing until it is bound.
pub(super) fn open() -> Result<Socket, PacketError> {
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None);
    socket.map_err(PacketError::of_socket("open a packet socket"))
}

/// Binds a packet socket to an interface, to receive this protocol (0: nothing).
pub(super) fn bind(socket: &Socket, interface: &Interface, protocol: u16) -> Result<(), PacketError> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface.index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: this is the address of AF_PACKET (packet(7)).
    let address = unsafe { socket_address(address) };
    socket.bind(&address).map_err(PacketError::of_socket("bind a packet socket"))
}

/// An address for `bind` from the kernel's structure.
///
/// # Safety
/// `T` must be a socket address in C, of integers only, that begins with its family.
pub(super) unsafe fn socket_address<T: Copy>(address: T) -> SockAddr {
    const { assert!(size_of::<T>() <= size_of::<SockAddrStorage>()) };
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the storage is at least as long and as aligned as any address; the caller vouches for the type.
    unsafe {
        ptr::from_mut(&mut storage).cast::<T>().write_unaligned(address);
        SockAddr::new(storage, size_of::<T>() as libc::socklen_t)
    }
}

/// Sets an option whose value is a C structure or an integer.
///
/// # Safety
/// `T` must be what the kernel reads for this option; what it points at must live as long as the kernel uses it.
pub(super) unsafe fn set_option<T>(socket: &Socket, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which lives through the call.
    let status = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(value).cast(), length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option whose value is a C structure into `value`; fields that the kernel does not know keep their values.
///
/// # Safety
/// `T` must be what the kernel writes for this option, of integers only.
pub(super) unsafe fn get_option<T>(socket: &Socket, level: i32, name: i32, value: &mut T) -> io::Result<()> {
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which lives through the call.
    let status =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, ptr::from_mut(value).cast(), &raw mut length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
