//! TUN and TAP devices: on Linux only.
#![allow(missing_docs, reason = "documented where it does something")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::elsewhere::{Never, needs_linux};

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TunError(#[from] io::Error);

#[derive(Debug)]
pub struct Tun(Never);

impl Tun {
    pub fn open(_: &str) -> Result<Self, TunError> {
        Err(needs_linux().into())
    }

    pub fn open_queues(_: &str, _: usize) -> Result<Vec<Self>, TunError> {
        Err(needs_linux().into())
    }

    pub fn make_tap(_: &str) -> Result<(), TunError> {
        Err(needs_linux().into())
    }

    pub fn probe() -> Result<String, TunError> {
        Err(needs_linux().into())
    }

    pub fn open_tap(_: &str) -> Result<Self, TunError> {
        Err(needs_linux().into())
    }

    pub fn read(&self, _: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0 {}
    }

    pub fn write(&self, _: &[u8]) -> io::Result<()> {
        match self.0 {}
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
