//! The sockets of a worker: opened on first use, identified by key, polled together.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hashbrown::HashMap;
use ldplayer_net::poll::{Poll, Ready};
use ldplayer_net::udp::{UdpOptions, UdpSocket};

use crate::route::{SocketKey, Sources};
use crate::targets::Targets;

/// Kernel buffer size of a shared socket.
const SHARED_BUFFER: usize = 16 << 20;
/// Kernel buffer size of a client's own socket.
const OWN_BUFFER: usize = 256 << 10;

/// The protocol of a socket. Protocols do not share sockets, which may be connected to the port of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carries {
    /// DNS messages.
    Dns,
    /// QUIC, to servers at this port.
    Quic(u16),
}

/// Open sockets by key and protocol.
pub struct Sockets {
    sources: Sources,
    targets: Targets,
    /// Whether the kernel timestamps sent DNS messages.
    stamps: bool,
    poll: Poll,
    open: Vec<(SocketKey, Carries, UdpSocket)>,
    by_key: HashMap<(SocketKey, Carries), usize, foldhash::fast::FixedState>,
    ready: Vec<Ready>,
}

impl Sockets {
    /// No sockets. With `stamps`, the kernel timestamps sent DNS messages.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn new(sources: Sources, targets: Targets, stamps: bool) -> io::Result<Self> {
        Ok(Self {
            sources,
            targets,
            stamps,
            poll: Poll::new()?,
            open: Vec::new(),
            by_key: HashMap::default(),
            ready: Vec::new(),
        })
    }

    /// The socket of `key`, opened on first use; one with a single source
    /// address is connected to `server` if that is the only one of its family.
    ///
    /// # Errors
    /// The kernel is out of descriptors, ports or addresses.
    pub fn get(&mut self, key: SocketKey, carries: Carries, server: SocketAddr) -> io::Result<&UdpSocket> {
        let at = match self.by_key.get(&(key, carries)) {
            Some(&at) => at,
            None => self.open(key, carries, server)?,
        };
        Ok(&self.open[at].2)
    }

    /// Waits for sockets to read, up to `timeout_ns`; returns their number. See [`Self::ready`].
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn wait(&mut self, timeout_ns: i64) -> io::Result<usize> {
        self.ready.clear();
        self.ready.extend(self.poll.wait(timeout_ns)?);
        Ok(self.ready.len())
    }

    /// A ready socket found by [`Self::wait`], which may belong to a connection.
    pub fn ready(&self, number: usize) -> Ready {
        self.ready[number]
    }

    /// The UDP socket of a token, with its key and protocol.
    pub fn at(&self, token: u64) -> (SocketKey, Carries, &UdpSocket) {
        let (key, carries, socket) = &self.open[token as usize];
        (*key, *carries, socket)
    }

    /// The poll, to add other sockets.
    pub const fn poll(&self) -> &Poll {
        &self.poll
    }

    /// The socket of `key`, if it is open.
    pub fn find(&self, key: SocketKey, carries: Carries) -> Option<&UdpSocket> {
        self.by_key.get(&(key, carries)).map(|&at| &self.open[at].2)
    }

    /// Datagrams dropped by the kernel on these sockets, as far as known.
    pub fn drops(&self) -> u64 {
        self.open.iter().map(|(_, _, socket)| u64::from(socket.drops().unwrap_or(0))).sum()
    }

    /// The number of open sockets.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    fn open(&mut self, key: SocketKey, carries: Carries, server: SocketAddr) -> io::Result<usize> {
        let is_only = self.targets.only(server.is_ipv6()).is_some();
        let socket = match key {
            SocketKey::Own(_) if is_only => open_connected(any_address(server), OWN_BUFFER, server)?,
            SocketKey::Own(_) => open_unconnected(server, OWN_BUFFER, false)?,
            SocketKey::Shared { .. } => match self.sources.only(server.is_ipv6()).filter(|_| is_only) {
                Some(address) => open_connected(SocketAddr::new(address, 0), SHARED_BUFFER, server)?,
                None => open_unconnected(server, SHARED_BUFFER, true)?,
            },
        };
        if self.stamps && carries == Carries::Dns {
            socket.stamp_sends()?;
        }
        let at = self.open.len();
        self.poll.add(&socket, at as u64)?;
        self.open.push((key, carries, socket));
        self.by_key.insert((key, carries), at);
        Ok(at)
    }
}

/// A socket for one source address and one server: the kernel looks up the route once, and datagrams need no source address.
fn open_connected(bind: SocketAddr, buffer: usize, server: SocketAddr) -> io::Result<UdpSocket> {
    let freebind = !bind.ip().is_unspecified();
    let mut socket = UdpSocket::open(&UdpOptions { bind, buffer, freebind, packet_info: false })?;
    socket.connect(server)?;
    Ok(socket)
}

/// A socket for many servers, and for many source addresses if these are given per datagram.
fn open_unconnected(server: SocketAddr, buffer: usize, packet_info: bool) -> io::Result<UdpSocket> {
    let bind = any_address(server);
    UdpSocket::open(&UdpOptions { bind, buffer, freebind: packet_info, packet_info })
}

fn any_address(server: SocketAddr) -> SocketAddr {
    match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
