//! System calls that only Linux has and that several modules make.

use std::ffi::CStr;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddress;

use rustix::io::Result;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_parent_process_death_signal};
use rustix::thread::{CapabilitySet, CpuSet, LinkNameSpaceType, UnshareFlags, clock_nanosleep_absolute};
use rustix::thread::{capabilities, gettid, move_into_link_name_space, set_current_timer_slack};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, Timespec};

pub(crate) use crate::kinds::{Kind, NetlinkOf};
pub(crate) use rustix::mount::mount_bind as bind_mount;
pub(crate) use rustix::net::netdevice::name_to_index;

/// Leaves the namespaces of these kinds for new ones.
pub(crate) fn leave(kinds: &[Kind]) -> Result<()> {
    let flags = kinds.iter().map(|kind| match kind {
        Kind::User => UnshareFlags::NEWUSER,
        Kind::Network => UnshareFlags::NEWNET,
        Kind::Mount => UnshareFlags::NEWNS,
    });
    // SAFETY: none of the flags unshares file descriptors. The one for mounts unshares what the thread has as root and working directory from
    // other threads, where they stay the same.
    unsafe { rustix::thread::unshare_unsafe(flags.collect()) }
}

/// Goes into a namespace that somebody has made.
pub(crate) fn enter(namespace: BorrowedFd<'_>, kind: Kind) -> Result<()> {
    let kind = match kind {
        Kind::User => LinkNameSpaceType::User,
        Kind::Network => LinkNameSpaceType::Network,
        Kind::Mount => LinkNameSpaceType::Mount,
    };
    move_into_link_name_space(namespace, Some(kind))
}

/// Whether this process may make namespaces and set up networks.
pub(crate) fn may_make_networks() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    capabilities(None).is_ok_and(|own| own.effective.contains(needed))
}

/// Lets mounts of this namespace and of others not show in each other.
pub(crate) fn make_mounts_private() -> Result<()> {
    mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// Mounts an empty folder in memory that holds as much as `room` says.
pub(crate) fn mount_memory(mark: &CStr, folder: &CStr, room: &CStr) -> Result<()> {
    mount(mark, folder, c"tmpfs", MountFlags::NOSUID | MountFlags::NODEV, room)
}

/// Removes a mount from the folders; who has a file of it open keeps it.
pub(crate) fn unmount(folder: &CStr) -> Result<()> {
    rustix::mount::unmount(folder, UnmountFlags::DETACH)
}

/// Opens a socket to the kernel's tables of this namespace (netlink(7)).
pub(crate) fn netlink_socket(of: NetlinkOf) -> io::Result<OwnedFd> {
    let protocol = match of {
        // The protocol of routes has the number 0.
        NetlinkOf::Routes => None,
        NetlinkOf::Sockets => Some(netlink::SOCK_DIAG),
    };
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?)
}

/// Sets the timer slack of the calling thread, in nanoseconds.
pub(crate) fn set_timer_slack(ns: u64) -> Result<()> {
    set_current_timer_slack(NonZeroU64::new(ns))
}

/// The number of the calling thread.
pub(crate) fn own_thread() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Gives the calling thread a table of descriptors of its own, without those from `first` on.
pub(crate) fn own_descriptors(first: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers only. It closes the descriptors of others in this thread's copy of the table, not in theirs.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Processors that a thread may run on.
pub(crate) struct Cores(CpuSet);

impl Cores {
    /// Those with these numbers; the first that cannot be, if there is one.
    pub(crate) fn of(numbers: &[usize]) -> std::result::Result<Self, usize> {
        let mut set = CpuSet::new();
        for &number in numbers {
            if number >= CpuSet::MAX_CPU {
                return Err(number);
            }
            set.set(number);
        }
        Ok(Self(set))
    }

    /// Those of the calling thread.
    pub(crate) fn own() -> Result<Vec<usize>> {
        let set = sched_getaffinity(None)?;
        Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
    }

    /// Lets the calling thread run on these only. Neither allocates nor takes a lock.
    pub(crate) fn keep_to(&self) -> Result<()> {
        sched_setaffinity(None, &self.0)
    }
}

/// A process that is meant whatever becomes of its number.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Of the process that has the number now.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When it has ended, or is another user's.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, signal)?)
    }
}

/// Becomes readable when the process has ended.
impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The address of a socket that no file stands for.
pub(crate) fn abstract_address(name: &[u8]) -> io::Result<UnixAddress> {
    UnixAddress::from_abstract_name(name)
}

/// Has the kernel kill this process when the thread ends that has started it. Neither allocates nor takes a lock.
pub(crate) fn end_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
}

/// Sleeps until `ns` of CLOCK_MONOTONIC, or less where a signal comes.
pub(crate) fn sleep_until(ns: i64) {
    let until = Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    // It fails for a signal and for a time that is none; either way the caller looks at the clock again.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
}

/// Processor time of all threads of a process so far, in nanoseconds.
pub(crate) fn process_cpu_ns(pid: u32) -> Option<i64> {
    /// The scheduler's clock of a thread group (`CPUCLOCK_SCHED`).
    const SCHED: libc::clockid_t = 2;
    let pid = libc::pid_t::try_from(pid).ok().filter(|&pid| pid > 0)?;
    // How the kernel and clock_getcpuclockid(3) number the clock of a process.
    let clock = (!pid).checked_mul(8)? | SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec of ours that the call writes; a clock that does not exist is refused.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (status == 0).then(|| time.tv_sec * 1_000_000_000 + time.tv_nsec)
}
