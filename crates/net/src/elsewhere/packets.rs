//! Frames of an interface without sockets of the kernel: on Linux only.
#![allow(missing_docs, reason = "documented where it does something")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::{Frame, Interface, Offloads, PacketError, SenderKind};
use crate::elsewhere::{Never, needs_linux};
use crate::tun::Tun;

fn refused<T>() -> Result<T, PacketError> {
    Err(PacketError::System { what: "use frames of an interface", source: needs_linux() })
}

pub(super) fn look_up(_: &str) -> Result<Interface, PacketError> {
    refused()
}

pub fn offloads(_: &str) -> Result<Offloads, PacketError> {
    refused()
}

pub fn switch_off_offloads(_: &str) -> Result<(), PacketError> {
    refused()
}

/// Nothing to filter for.
#[derive(Debug)]
pub struct Filter;

impl Filter {
    pub fn all() -> Self {
        Self
    }

    pub fn of_worker(_: u16, _: u16) -> Self {
        Self
    }

    pub fn neighbours() -> Self {
        Self
    }
}

pub struct FrameSender(Never);

impl FrameSender {
    pub fn open(_: &Interface, _: SenderKind) -> Result<Self, PacketError> {
        refused()
    }

    pub fn open_tap(_: &Interface, _: Arc<Tun>) -> Result<Self, PacketError> {
        refused()
    }

    pub fn room(&mut self) -> Option<&mut [u8]> {
        match self.0 {}
    }

    pub fn commit(&mut self, _: usize) {
        match self.0 {}
    }

    pub fn queued(&self) -> usize {
        match self.0 {}
    }

    pub fn flush(&mut self) -> io::Result<usize> {
        match self.0 {}
    }

    pub fn stamp_sends(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    pub fn read_stamps(&mut self, _: impl FnMut(u32, i64)) -> io::Result<usize> {
        match self.0 {}
    }

    pub fn drops(&self) -> u64 {
        match self.0 {}
    }
}

pub struct FrameRing(Never);

impl FrameRing {
    pub fn open(_: &Interface, _: &Filter, _: usize) -> Result<Self, PacketError> {
        refused()
    }

    pub fn open_with_sent(_: &Interface, _: &Filter, _: usize) -> Result<Self, PacketError> {
        refused()
    }

    pub fn read(&mut self, _: usize, _: impl FnMut(Frame<'_>)) -> usize {
        match self.0 {}
    }

    pub fn join_all_groups(&self, _: &Interface) -> Result<(), PacketError> {
        match self.0 {}
    }

    pub fn drops(&mut self) -> u64 {
        match self.0 {}
    }

    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self.0 {}
    }
}

impl AsFd for FrameRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

pub struct FrameRings(Never);

impl FrameRings {
    pub fn open(_: &Interface, _: Option<&str>, _: &Filter, _: usize) -> Result<Self, PacketError> {
        refused()
    }

    pub fn read(&mut self, _: usize, _: impl FnMut(Frame<'_>)) -> usize {
        match self.0 {}
    }

    pub fn drops(&mut self) -> u64 {
        match self.0 {}
    }

    pub fn wait(&self, _: i64) -> io::Result<bool> {
        match self.0 {}
    }
}
