//! System calls that only Linux has: refused.
#![allow(missing_docs, reason = "documented where it does something")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::SocketAddr as UnixAddress;

use rustix::io::{Errno, Result};
use rustix::process::{Pid, Signal};

use crate::elsewhere::{Never, needs_linux};
pub(crate) use crate::kinds::{Kind, NetlinkOf};

pub(crate) fn leave(_: &[Kind]) -> Result<()> {
    Err(Errno::NOSYS)
}

pub(crate) fn enter(_: BorrowedFd<'_>, _: Kind) -> Result<()> {
    Err(Errno::NOSYS)
}

pub(crate) fn may_make_networks() -> bool {
    false
}

pub(crate) fn make_mounts_private() -> Result<()> {
    Err(Errno::NOSYS)
}

pub(crate) fn mount_memory(_: &CStr, _: &CStr, _: &CStr) -> Result<()> {
    Err(Errno::NOSYS)
}

pub(crate) fn bind_mount(_: &CStr, _: &CStr) -> Result<()> {
    Err(Errno::NOSYS)
}

pub(crate) fn unmount(_: &CStr) -> Result<()> {
    Err(Errno::NOSYS)
}

pub(crate) fn name_to_index(_: impl AsFd, _: &str) -> Result<u32> {
    Err(Errno::NOSYS)
}

pub(crate) fn netlink_socket(_: NetlinkOf) -> io::Result<OwnedFd> {
    Err(needs_linux())
}

pub(crate) fn set_timer_slack(_: u64) -> Result<()> {
    Err(Errno::NOSYS)
}

/// What reads of a thread by its number is not there either.
pub(crate) fn own_thread() -> u32 {
    0
}

pub(crate) fn own_descriptors(_: u32) -> io::Result<()> {
    Err(needs_linux())
}

/// Every number is taken for one that cannot be.
pub(crate) struct Cores(Never);

impl Cores {
    pub(crate) fn of(numbers: &[usize]) -> std::result::Result<Self, usize> {
        Err(numbers.first().copied().unwrap_or_default())
    }

    pub(crate) fn own() -> Result<Vec<usize>> {
        Err(Errno::NOSYS)
    }

    pub(crate) fn keep_to(&self) -> Result<()> {
        match self.0 {}
    }
}

#[derive(Debug)]
pub struct ProcessHandle(Never);

impl ProcessHandle {
    pub fn open(_: Pid) -> io::Result<Self> {
        Err(needs_linux())
    }

    pub fn signal(&self, _: Signal) -> io::Result<()> {
        match self.0 {}
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

pub(crate) fn abstract_address(_: &[u8]) -> io::Result<UnixAddress> {
    Err(needs_linux())
}

pub(crate) fn end_with_parent() -> Result<()> {
    Err(Errno::NOSYS)
}

pub(crate) fn process_cpu_ns(_: u32) -> Option<i64> {
    None
}

pub(crate) fn sleep_until(ns: i64) {
    let left = ns - crate::clock::monotonic_ns();
    std::thread::sleep(std::time::Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
}
