//! Sockets of TCP with stamps, at any address: on Linux only.
#![allow(missing_docs, reason = "documented where it does something")]

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

pub use crate::connection::{ConnectOptions, TcpCounts};
use crate::elsewhere::needs_linux;

pub fn listen(_: SocketAddr, _: i32) -> io::Result<TcpListener> {
    Err(needs_linux())
}

pub fn connect(_: SocketAddr, _: &ConnectOptions) -> io::Result<TcpStream> {
    Err(needs_linux())
}

pub fn receive(_: &TcpStream, _: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
    Err(needs_linux())
}

pub fn acknowledge(_: &TcpStream) -> io::Result<()> {
    Err(needs_linux())
}

pub fn counts(_: &TcpStream) -> io::Result<TcpCounts> {
    Err(needs_linux())
}
