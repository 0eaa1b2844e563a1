//! TUN and TAP devices: read and write the IP packets, or the Ethernet frames, of a network namespace (tun.rst of the kernel).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// The device file that every TUN device begins with.
const DEVICE: &str = "/dev/net/tun";
/// Longest name of an interface, without the NUL at its end.
const NAME: usize = libc::IFNAMSIZ - 1;
/// IP packets, without four octets of packet information before each.
const ONE_QUEUE: libc::c_int = libc::IFF_TUN | libc::IFF_NO_PI;
/// Several descriptors for one device, each a queue of its own.
const MORE_QUEUES: libc::c_int = ONE_QUEUE | libc::IFF_MULTI_QUEUE;
/// Ethernet frames.
const FRAMES: libc::c_int = libc::IFF_TAP | libc::IFF_NO_PI;

/// What keeps a TUN device from being made. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// The device file cannot be opened.
    #[error(
        "cannot open {DEVICE}: {0}; load the driver (modprobe tun) and allow this user to open it (chmod 666 {DEVICE}, as udev does), or give the device to the container (--device {DEVICE})"
    )]
    Open(io::Error),
    /// The name does not fit an interface.
    #[error("invalid interface name `{0}`: use 1 to {NAME} bytes without spaces, slashes or NUL")]
    Name(String),
    /// The kernel refused the device.
    #[error(
        "cannot make the TUN device {name}: {source}; this needs CAP_NET_ADMIN in the network namespace, and an unused name"
    )]
    Create {
        /// Name of the device.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

/// One queue of a TUN device, or of a TAP device, whose packets are Ethernet frames. The device is removed when its last queue is dropped.
///
/// It belongs to the network namespace that the thread was in when it made the device, and stays usable from any other.
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
}

impl Tun {
    /// Makes a device with one queue in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Without the driver, without CAP_NET_ADMIN, or when the name is bad or taken.
    pub fn open(name: &str) -> Result<Self, TunError> {
        Self::attach(name, ONE_QUEUE)
    }

    /// Makes a device with `queues` queues; the kernel keeps the packets of one flow in one queue.
    ///
    /// # Errors
    /// As [`Tun::open`], and with more than 256 queues.
    pub fn open_queues(name: &str, queues: usize) -> Result<Vec<Self>, TunError> {
        (0..queues).map(|_| Self::attach(name, MORE_QUEUES)).collect()
    }

    /// Makes a TAP device that stays when this value is dropped, as long as the namespace does.
    ///
    /// # Errors
    /// As [`Tun::open`].
    pub fn make_tap(name: &str) -> Result<(), TunError> {
        let tap = Self::attach(name, FRAMES)?;
        // SAFETY: TUNSETPERSIST takes a number in place of a pointer.
        let status = unsafe { libc::ioctl(tap.file.as_raw_fd(), libc::TUNSETPERSIST, 1 as libc::c_ulong) };
        if status == 0 {
            return Ok(());
        }
        Err(TunError::Create { name: name.to_owned(), source: io::Error::last_os_error() })
    }

    /// Makes a device in the network namespace of the calling thread, gives it up again, and returns the name that the kernel chose.
    ///
    /// # Errors
    /// As [`Tun::open`].
    pub fn probe() -> Result<String, TunError> {
        let file = open_driver()?;
        let failed = |source| TunError::Create { name: "of a probe".to_owned(), source };
        let name = set_interface(&file, "", ONE_QUEUE).map_err(failed)?;
        Ok(name.iter().take_while(|&&octet| octet != 0).map(|&octet| char::from(octet as u8)).collect())
    }

    /// Takes the queue of a TAP device, which has one, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// As [`Tun::open`]; also when somebody has the queue.
    pub fn open_tap(name: &str) -> Result<Self, TunError> {
        Self::attach(name, FRAMES)
    }

    fn attach(name: &str, flags: libc::c_int) -> Result<Self, TunError> {
        let is_bad = |octet: u8| octet == 0 || octet == b'/' || octet == b'%' || octet.is_ascii_whitespace();
        if name.is_empty() || name.len() > NAME || name.bytes().any(is_bad) {
            return Err(TunError::Name(name.to_owned()));
        }
        let file = open_driver()?;
        set_interface(&file, name, flags).map_err(|source| TunError::Create { name: name.to_owned(), source })?;
        Ok(Self { file })
    }

    /// Reads the next packet sent by the namespace; `None` if there is none. A packet longer than the buffer is truncated.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.file, &mut *buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Hands a packet to the namespace, which has taken it in when this returns.
    ///
    /// # Errors
    /// When the packet is no IP packet, or the device is down.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        loop {
            match rustix::io::write(&self.file, packet) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn open_driver() -> Result<OwnedFd, TunError> {
    let open = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(DEVICE, open, Mode::empty()).map_err(|error| TunError::Open(error.into()))
}

/// Binds an open `/dev/net/tun` to a device, and returns its name. The name is short enough and has no NUL; if it is empty, the kernel chooses one.
fn set_interface(file: &OwnedFd, name: &str, flags: libc::c_int) -> io::Result<[libc::c_char; libc::IFNAMSIZ]> {
    let mut ifr_name = [0; libc::IFNAMSIZ];
    for (to, from) in ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // The flags of TUN fit the 15 bits that the structure has for them.
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_flags: flags as libc::c_short };
    let mut request = libc::ifreq { ifr_name, ifr_ifru };
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `request` is and which lives through the call.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if status == 0 { Ok(request.ifr_name) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_can_have_are_refused() {
        for name in ["", "a/b", "a b", "a-name-that-is-too-long", "a\0b", "wire%d"] {
            assert!(matches!(Tun::open(name), Err(TunError::Name(_))), "{name:?}");
        }
    }
}
