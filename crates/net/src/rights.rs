//! Gets the rights to make namespaces, in a user namespace if necessary, and explains refusals.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{getgid, getuid};

use crate::netlink::Netlink;
use crate::system::{self, Kind};

/// How long a thread may take to end.
const ENDING: Duration = Duration::from_secs(1);

/// Why a testbed cannot be made. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The kernel or a security policy refuses namespaces.
    #[error(
        "cannot make a network namespace: {0}; run as root, or allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000"
    )]
    Namespace(io::Error),
    /// The identity inside the user namespace cannot be set.
    #[error("cannot map this user into the new namespace ({file}): {source}; see user_namespaces(7)")]
    Mapping {
        /// The file of /proc/self that refused it.
        file: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Loopback or its routes cannot be set up.
    #[error("cannot set up {what} in the new namespace: {source}; this needs CAP_NET_ADMIN there")]
    Routing {
        /// What was to be set up.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The namespace is set up, but a test datagram from one address to another did not arrive.
    #[error("a test datagram between two addresses of the new namespace was lost ({0}); see `ldplayer doctor`")]
    Unusable(io::Error),
}

/// Makes sure that this process may make network namespaces: where the right lacks, it enters a user namespace of its own.
/// Returns whether it did. In the second case it must be the only thread of its process.
///
/// # Errors
/// What the system refused, with the way to allow it.
pub fn ensure_rights() -> Result<bool, NetError> {
    if system::may_make_networks() {
        return Ok(false);
    }
    enter_user_namespace(&[Kind::User])?;
    Ok(true)
}

/// Moves this process into the user namespace of another process of the same owner, where it becomes root. It must be the only thread of
/// its process. Returns false, and does nothing, when it is in there already.
///
/// # Errors
/// When the process is not there, or another user made the namespace.
pub fn enter_user_of(pid: u32) -> io::Result<bool> {
    let theirs = File::open(format!("/proc/{pid}/ns/user"))?;
    if theirs.metadata()?.ino() == File::open("/proc/self/ns/user")?.metadata()?.ino() {
        return Ok(false);
    }
    once_alone(|| Ok(system::enter(theirs.as_fd(), Kind::User)?))?;
    Ok(true)
}

/// Goes into a new user namespace with a network of its own, whatever rights there are already, and uses the rights in
/// it: some systems give the namespace without them. For a process that only tries it, and ends.
///
/// # Errors
/// What the system refused.
pub fn try_user_namespace() -> Result<(), NetError> {
    enter_user_namespace(&[Kind::User, Kind::Network])?;
    let up = Netlink::open().and_then(|netlink| netlink.loopback_up());
    up.map_err(|source| NetError::Routing { what: "loopback", source })
}

/// Makes namespaces of these kinds, a user namespace among them, and makes this user root there.
pub(crate) fn enter_user_namespace(kinds: &[Kind]) -> Result<(), NetError> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    once_alone(|| Ok(system::leave(kinds)?)).map_err(NetError::Namespace)?;
    for (file, content) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("0 {uid} 1")), ("gid_map", format!("0 {gid} 1"))]
    {
        fs::write(format!("/proc/self/{file}"), content).map_err(|source| NetError::Mapping { file, source })?;
    }
    Ok(())
}

/// Asks for what only a process of one thread is given (`EINVAL` otherwise, see unshare(2) and setns(2)). Threads that have ended are counted for some
/// moments longer, also when they were waited for.
fn once_alone(mut ask: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let deadline = Instant::now() + ENDING;
    loop {
        match ask() {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// The number of the user that this process acts for.
pub fn user() -> u32 {
    getuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_just_ended_is_waited_for() {
        let mut refusals = vec![libc::EPERM, libc::EINVAL, libc::EINVAL];
        let mut ask = || refusals.pop().map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)));
        assert_eq!(once_alone(&mut ask).unwrap_err().raw_os_error(), Some(libc::EPERM), "no other refusal passes");
        assert!(once_alone(ask).is_ok());
    }

    /// The test is one of several threads.
    #[test]
    fn a_process_of_several_threads_is_refused_in_the_end() {
        std::thread::scope(|scope| {
            let (done, wait) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || wait.recv());
            let error = once_alone(|| Ok(system::leave(&[Kind::User])?)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
            drop(done);
        });
    }
}
