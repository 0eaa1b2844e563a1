//! Waits for sockets: on Linux only.
#![allow(missing_docs, reason = "documented where it does something")]

use std::io;
use std::iter::Empty;
use std::os::fd::{AsFd, BorrowedFd};

use crate::elsewhere::{Never, needs_linux};
pub use crate::ready::{Interest, Ready};

pub const EVENTS: usize = 256;

pub struct Poll(Never);

impl Poll {
    pub fn new() -> io::Result<Self> {
        Err(needs_linux())
    }

    pub fn add(&self, _: impl AsFd, _: u64) -> io::Result<()> {
        match self.0 {}
    }

    pub fn add_edge(&self, _: impl AsFd, _: u64) -> io::Result<()> {
        match self.0 {}
    }

    pub fn change(&self, _: impl AsFd, _: u64, _: Interest) -> io::Result<()> {
        match self.0 {}
    }

    pub fn remove(&self, _: impl AsFd) -> io::Result<()> {
        match self.0 {}
    }

    pub fn wait(&mut self, _: i64) -> io::Result<Empty<Ready>> {
        match self.0 {}
    }
}

#[derive(Debug)]
pub struct Wake(Never);

impl Wake {
    pub fn new() -> io::Result<Self> {
        Err(needs_linux())
    }

    pub fn wake(&self) {
        match self.0 {}
    }

    pub fn clear(&self) {
        match self.0 {}
    }
}

impl std::task::Wake for Wake {
    fn wake(self: std::sync::Arc<Self>) {
        match self.0 {}
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
