//! Network namespaces held open by a file descriptor, and threads and processes in them.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::netlink::{LOOPBACK, Netlink};
use crate::rights::NetError;
use crate::system::{self, Kind};

/// The network namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace, which lasts as long as this value or a process in it.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// Makes one with nothing but a loopback interface that is down.
    ///
    /// # Errors
    /// Without the right to; see [`crate::rights::ensure_rights`].
    pub fn create() -> Result<Self, NetError> {
        let made = thread::spawn(|| {
            system::leave(&[Kind::Network])?;
            Self::open(Path::new(OWN))
        });
        made.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(NetError::Namespace)
    }

    /// Opens a namespace by its file, such as `/proc/PID/ns/net`, or one made by `ip netns add`.
    ///
    /// # Errors
    /// When the file is not there or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: File::open(path)?.into() })
    }

    /// Moves the calling thread into the namespace.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN in the user namespace that owns it.
    pub fn enter(&self) -> io::Result<()> {
        Ok(system::enter(self.fd.as_fd(), Kind::Network)?)
    }

    /// Runs `work` on a thread in the namespace and returns what it returned. Sockets and devices that it opens stay there.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or `work` panicked.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| self.enter().map(|()| work()));
            inside.join().unwrap_or_else(|_| Err(io::Error::other("the work in the namespace panicked")))
        })
    }

    /// Makes `command` start in the namespace.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
    pub fn start_in(&self, command: &mut Command) -> io::Result<()> {
        let namespace = Self { fd: self.fd.try_clone()? };
        // SAFETY: the closure runs between fork and exec and makes one system call; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(move || namespace.enter()) };
        Ok(())
    }

    /// Gives loopback one more address in the namespace.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace.
    pub fn add_loopback(&self, address: Ipv4Addr) -> io::Result<()> {
        self.run(|| Netlink::open()?.add_address(LOOPBACK, address.into()))?
    }

    /// The inode number, which identifies a namespace while it exists.
    ///
    /// # Errors
    /// Never in practice.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(File::from(self.fd.try_clone()?).metadata()?.ino())
    }

    /// The descriptor's number: others reach the namespace as `/proc/PID/fd/NUMBER` while it is open.
    pub fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// The number of the network namespace that the calling thread is in.
///
/// # Errors
/// Without `/proc`.
pub fn own_number() -> io::Result<u64> {
    Ok(File::open(OWN)?.metadata()?.ino())
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The namespace of the calling thread.
    fn own() -> u64 {
        Namespace::open(Path::new(OWN)).unwrap().inode().unwrap()
    }

    #[test]
    fn work_runs_inside_and_the_caller_stays_outside() {
        let before = own();
        let namespace = Namespace::create().unwrap();
        assert_eq!(namespace.run(own).unwrap(), namespace.inode().unwrap());
        assert_ne!(namespace.inode().unwrap(), before);
        assert_eq!(own(), before);
    }

    #[test]
    fn a_command_starts_inside() {
        let namespace = Namespace::create().unwrap();
        let mut command = Command::new("readlink");
        namespace.start_in(command.arg("/proc/self/ns/net")).unwrap();
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(said.trim(), format!("net:[{}]", namespace.inode().unwrap()));
    }
}
