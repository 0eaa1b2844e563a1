//! Questions to the kernel about an interface, by ioctl (netdevice(7)).

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use socket2::{Domain, Socket, Type};

use super::{Interface, PacketError};

/// Longest name of an interface, without the NUL at its end.
const NAME: usize = libc::IFNAMSIZ - 1;

/// An interface of the network namespace of the calling thread.
pub(in crate::packets) fn look_up(name: &str) -> Result<Interface, PacketError> {
    let asked = Request::new(name)?;
    // SAFETY: each ioctl sets the member of the union that is read after it.
    let (index, hardware, mtu, flags) = unsafe {
        (
            asked.ask(libc::SIOCGIFINDEX)?.ifru_ifindex,
            asked.ask(libc::SIOCGIFHWADDR)?.ifru_hwaddr,
            asked.ask(libc::SIOCGIFMTU)?.ifru_mtu,
            asked.ask(libc::SIOCGIFFLAGS)?.ifru_flags,
        )
    };
    let is_ethernet = hardware.sa_family == libc::ARPHRD_ETHER;
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(hardware.sa_data).filter(|_| is_ethernet) {
        *to = from as u8;
    }
    let is_up = i32::from(flags) & libc::IFF_UP != 0;
    let mtu = mtu.try_into().unwrap_or(u16::MAX);
    Ok(Interface { name: name.to_owned(), index: index.cast_unsigned(), mac, mtu, is_up, is_ethernet })
}

/// Questions to the kernel about an interface of this name.
pub(super) struct Request<'a> {
    socket: Socket,
    name: &'a str,
    ifr_name: [libc::c_char; libc::IFNAMSIZ],
}

impl<'a> Request<'a> {
    /// Opens a socket to ask through.
    pub(super) fn new(name: &'a str) -> Result<Self, PacketError> {
        if name.is_empty() || name.len() > NAME || name.contains('\0') {
            return Err(PacketError::NoInterface { name: name.to_owned() });
        }
        let mut ifr_name = [0; libc::IFNAMSIZ];
        for (to, from) in ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let socket = Socket::new(Domain::UNIX, Type::DGRAM, None);
        let socket = socket.map_err(|source| PacketError::System { what: "open a socket", source })?;
        Ok(Self { socket, name, ifr_name })
    }

    /// One question that the kernel answers in the union of its `struct ifreq`.
    fn ask(&self, number: libc::c_ulong) -> Result<libc::__c_anonymous_ifr_ifru, PacketError> {
        // SAFETY: all zeros is a value of each of the union's members, and these requests (SIOCGIF…) follow no pointer in it.
        unsafe { self.exchange(number, mem::zeroed()) }
            .map_err(|source| self.error("look up a network interface", source))
    }

    /// Makes a request and returns what the union is then.
    ///
    /// # Safety
    /// What `union` points at must be what the request with this number reads and writes.
    pub(super) unsafe fn exchange(
        &self,
        number: libc::c_ulong,
        union: libc::__c_anonymous_ifr_ifru,
    ) -> io::Result<libc::__c_anonymous_ifr_ifru> {
        let mut request = libc::ifreq { ifr_name: self.ifr_name, ifr_ifru: union };
        // SAFETY: `request` lives through the call; the caller vouches for its content.
        let status = unsafe { libc::ioctl(self.socket.as_raw_fd(), number as libc::Ioctl, &raw mut request) };
        if status == 0 { Ok(request.ifr_ifru) } else { Err(io::Error::last_os_error()) }
    }

    /// The error for what the kernel said to a request.
    pub(super) fn error(&self, what: &'static str, source: io::Error) -> PacketError {
        match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => PacketError::NoInterface { name: self.name.to_owned() },
            _ => PacketError::refused(what, "cap_net_admin", source),
        }
    }
}
