//! Network namespaces held open by a descriptor, with threads and processes run in them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::thread::{CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities, move_into_link_name_space};

use crate::netns::{NetError, enter_user_namespace, unshare};

/// The network namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// Makes sure that this process may make network namespaces: where the right lacks, it enters a user namespace of its own.
/// Returns whether it did. In the second case it must be the only thread of its process.
///
/// # Errors
/// What the system refused, with the way to allow it.
pub fn ensure_rights() -> Result<bool, NetError> {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    if capabilities(None).is_ok_and(|own| own.effective.contains(needed)) {
        return Ok(false);
    }
    enter_user_namespace(UnshareFlags::empty())?;
    Ok(true)
}

/// A network namespace, which lasts as long as this value or a process in it.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// Makes one with nothing but a loopback interface that is down.
    ///
    /// # Errors
    /// Without the right to; see [`ensure_rights`].
    pub fn create() -> Result<Self, NetError> {
        let made = thread::spawn(|| {
            unshare(UnshareFlags::NEWNET)?;
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
        Ok(move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))?)
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

    /// The number that tells namespaces of one kernel apart while they exist.
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

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Moves this process into the user namespace of another one, as whose owner it becomes root there. It must be the only
/// thread of its process. Returns false, and does nothing, when it is in there already.
///
/// # Errors
/// When the process is not there, or another user made the namespace.
pub fn enter_user_of(pid: u32) -> io::Result<bool> {
    let theirs = File::open(format!("/proc/{pid}/ns/user"))?;
    if theirs.metadata()?.ino() == File::open("/proc/self/ns/user")?.metadata()?.ino() {
        return Ok(false);
    }
    move_into_link_name_space(theirs.as_fd(), Some(LinkNameSpaceType::User))?;
    Ok(true)
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
