//! UDP sockets that send from any address, in batches: on Linux only.
#![allow(missing_docs, reason = "documented where it does something")]

use std::io;
use std::iter::Empty;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use crate::datagram::{BATCH, Datagram, Received, SendStamp, UdpOptions};
use crate::elsewhere::{Never, needs_linux};

#[derive(Debug)]
pub struct UdpSocket(Never);

impl UdpSocket {
    pub fn open(_: &UdpOptions) -> io::Result<Self> {
        Err(needs_linux())
    }

    pub fn serve(_: SocketAddr, _: usize) -> io::Result<Self> {
        Err(needs_linux())
    }

    pub fn allow_fragments(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub fn connect(&mut self, _: SocketAddr) -> io::Result<()> {
        match self.0 {}
    }

    pub fn ignore_refusals(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub fn stamp_sends(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub const fn is_connected(&self) -> bool {
        match self.0 {}
    }

    pub fn drops(&self) -> io::Result<u32> {
        match self.0 {}
    }

    pub const fn local(&self) -> SocketAddr {
        match self.0 {}
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

impl From<UdpSocket> for OwnedFd {
    fn from(socket: UdpSocket) -> Self {
        match socket.0 {}
    }
}

pub fn is_local(_: IpAddr) -> io::Result<bool> {
    Err(needs_linux())
}

/// It has no socket to send by.
#[derive(Default)]
pub struct SendBatch;

impl SendBatch {
    pub fn new() -> Self {
        Self
    }

    pub fn send<'a>(&mut self, socket: &UdpSocket, _: impl Iterator<Item = Datagram<'a>>) -> io::Result<usize> {
        match socket.0 {}
    }
}

/// It has no socket to receive by.
#[derive(Default)]
pub struct ReceiveBatch;

impl ReceiveBatch {
    pub fn new() -> Self {
        Self
    }

    pub fn receive(&mut self, socket: &UdpSocket, _: usize) -> io::Result<usize> {
        match socket.0 {}
    }

    pub fn receive_errors(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        match socket.0 {}
    }

    pub fn iter(&self) -> Empty<Received<'_>> {
        std::iter::empty()
    }
}
