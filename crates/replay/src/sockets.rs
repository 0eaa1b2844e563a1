//! The sockets of a worker: opened when first needed, known by key, waited for together.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hashbrown::HashMap;
use ldplayer_net::poll::{Poll, Ready};
use ldplayer_net::udp::{UdpOptions, UdpSocket};

use crate::route::{SocketKey, Sources};
use crate::targets::Targets;

/// Kernel buffers of a socket that many clients share.
const SHARED_BUFFER: usize = 16 << 20;
/// Kernel buffers of a client's own socket.
const OWN_BUFFER: usize = 256 << 10;

/// What a socket carries. Those of one use know no others, since they may be connected to the port of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carries {
    /// DNS messages.
    Dns,
    /// QUIC, to servers at this port.
    Quic(u16),
}

/// Open sockets by key and use.
pub struct Sockets {
    sources: Sources,
    targets: Targets,
    /// The kernel stamps what those for DNS send.
    stamps: bool,
    poll: Poll,
    open: Vec<(SocketKey, Carries, UdpSocket)>,
    by_key: HashMap<(SocketKey, Carries), usize, foldhash::fast::FixedState>,
    ready: Vec<Ready>,
}

impl Sockets {
    /// No sockets yet. With `stamps` the kernel is to stamp what those for DNS send.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
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

    /// The socket of `key`, opened when it is the first time; one with a single source
    /// address is connected to `server` where nobody asks another one of its family.
    ///
    /// # Errors
    /// What the kernel refused: out of descriptors, ports or addresses.
    pub fn get(&mut self, key: SocketKey, carries: Carries, server: SocketAddr) -> io::Result<&UdpSocket> {
        let at = match self.by_key.get(&(key, carries)) {
            Some(&at) => at,
            None => self.open(key, carries, server)?,
        };
        Ok(&self.open[at].2)
    }

    /// The sockets that wait to be read, after at most `timeout_ns`. See [`Self::ready`].
    ///
    /// # Errors
    /// What the kernel said.
    pub fn wait(&mut self, timeout_ns: i64) -> io::Result<usize> {
        self.ready.clear();
        self.ready.extend(self.poll.wait(timeout_ns)?);
        Ok(self.ready.len())
    }

    /// One of the sockets that [`Self::wait`] found, which may be of a connection.
    pub fn ready(&self, number: usize) -> Ready {
        self.ready[number]
    }

    /// The UDP socket of a token: its key, what it carries, and itself.
    pub fn at(&self, token: u64) -> (SocketKey, Carries, &UdpSocket) {
        let (key, carries, socket) = &self.open[token as usize];
        (*key, *carries, socket)
    }

    /// What is waited for, to add others to.
    pub const fn poll(&self) -> &Poll {
        &self.poll
    }

    /// The socket of `key`, if it is open.
    pub fn find(&self, key: SocketKey, carries: Carries) -> Option<&UdpSocket> {
        self.by_key.get(&(key, carries)).map(|&at| &self.open[at].2)
    }

    /// Datagrams that the kernel dropped on their way into these sockets. Where it cannot tell, they are not known.
    pub fn drops(&self) -> u64 {
        self.open.iter().map(|(_, _, socket)| u64::from(socket.drops().unwrap_or(0))).sum()
    }

    /// How many are open.
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

/// A socket of one address and one server: the kernel looks up the route once and needs no source told.
fn open_connected(bind: SocketAddr, buffer: usize, server: SocketAddr) -> io::Result<UdpSocket> {
    let freebind = !bind.ip().is_unspecified();
    let mut socket = UdpSocket::open(&UdpOptions { bind, buffer, freebind, packet_info: false })?;
    socket.connect(server)?;
    Ok(socket)
}

/// A socket of many servers, and of many addresses where those are told with each datagram.
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
