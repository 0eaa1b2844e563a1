//! Opens the sockets of a server.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ldplayer_net::tcp;
use ldplayer_net::udp::UdpSocket;
use rustls::ServerConfig;

use super::{Options, ServeError, UDP_SIZE, encrypted, worker};
use crate::stock::probe;

/// Buffer size of UDP sockets, in octets.
const BUFFER: usize = 4 << 20;
/// Listen backlog of each TCP socket.
const BACKLOG: i32 = 1_024;

/// How often a port is sought that is free for TCP and for UDP.
const TRIES: usize = 20;

/// The sockets of a server.
pub struct Sockets {
    /// Of each worker.
    pub workers: Vec<worker::Sockets>,
    /// Of the thread for HTTP and QUIC, with its certificate.
    pub encrypted: Option<(encrypted::Sockets, Arc<ServerConfig>)>,
}

/// The addresses that a server listens on, with ports.
#[derive(Debug, Default)]
pub struct Listening {
    /// For UDP and TCP.
    pub plain: Vec<SocketAddr>,
    /// For TLS.
    pub dot: Vec<SocketAddr>,
    /// For HTTP/2 and HTTP/3.
    pub doh: Vec<SocketAddr>,
    /// For QUIC.
    pub doq: Vec<SocketAddr>,
}

/// Opens the sockets, all workers' on the same addresses.
///
/// # Errors
/// An address cannot be listened on, or is in use.
pub fn open(options: &Options, workers: usize) -> Result<(Sockets, Listening), ServeError> {
    let none = || worker::Sockets { udp: Vec::new(), tcp: Vec::new(), tls: None };
    let mut all: Vec<worker::Sockets> = (0..workers).map(|_| none()).collect();
    let mut listening = Listening { plain: open_plain(options, &mut all)?, ..Listening::default() };
    let Some(wanted) = &options.encrypted else { return Ok((Sockets { workers: all, encrypted: None }, listening)) };
    listening.dot = open_tls(&wanted.dot, &wanted.config, &mut all)?;
    let mut own = encrypted::Sockets::default();
    for &address in &wanted.doh {
        let (http2, http3) = open_both(address).map_err(|source| ServeError::Listen { address, source })?;
        listening.doh.push(http3.local());
        own.http2.push(http2);
        own.http3.push(OwnedFd::from(http3).into());
    }
    for &address in &wanted.doq {
        let doq = probe::open_free(|| UdpSocket::serve(address, BUFFER));
        let doq = doq.map_err(|source| ServeError::Listen { address, source })?;
        listening.doq.push(doq.local());
        own.doq.push(OwnedFd::from(doq).into());
    }
    let is_needed = !(own.http2.is_empty() && own.doq.is_empty());
    let encrypted = is_needed.then(|| (own, Arc::clone(&wanted.config)));
    Ok((Sockets { workers: all, encrypted }, listening))
}

/// Opens sockets of UDP and TCP for each worker.
fn open_plain(options: &Options, all: &mut [worker::Sockets]) -> Result<Vec<SocketAddr>, ServeError> {
    let listen = &options.listen;
    let mut listening = Vec::new();
    // Another process that shares the ports would silently take a part of the queries. Checked before ours are open: those of all IPv6
    // addresses block those of IPv4 by default.
    listen.iter().try_for_each(|&address| probe::ensure_free(address)).map_err(ServeError::Taken)?;
    for &address in listen {
        let mut bind = address;
        for sockets in &mut *all {
            let failed = |source| ServeError::Listen { address, source };
            let udp = probe::open_free(|| UdpSocket::serve(bind, BUFFER)).map_err(failed)?;
            if options.udp_size > UDP_SIZE {
                udp.allow_fragments().map_err(failed)?;
            }
            // With port 0, the kernel chooses one for the first socket, and the others use the same.
            bind = udp.local();
            sockets.tcp.push(probe::open_free(|| tcp::listen(bind, BACKLOG)).map_err(failed)?);
            sockets.udp.push(udp);
        }
        listening.push(bind);
    }
    Ok(listening)
}

/// Opens listeners for TLS for each worker, behind the others.
fn open_tls(
    listen: &[SocketAddr],
    config: &Arc<ServerConfig>,
    all: &mut [worker::Sockets],
) -> Result<Vec<SocketAddr>, ServeError> {
    let mut listening = Vec::new();
    for &address in listen {
        let failed = |source| ServeError::Listen { address, source };
        let mut bind = address;
        for sockets in &mut *all {
            let listener = probe::open_free(|| tcp::listen(bind, BACKLOG)).map_err(failed)?;
            bind = listener.local_addr().map_err(failed)?;
            sockets.tls.get_or_insert_with(|| (sockets.tcp.len(), Arc::clone(config)));
            sockets.tcp.push(listener);
        }
        listening.push(bind);
    }
    Ok(listening)
}

/// Opens a listener and a socket of UDP with the same port, which the kernel chooses where it is 0.
fn open_both(address: SocketAddr) -> io::Result<(std::net::TcpListener, UdpSocket)> {
    let both = || {
        let listener = tcp::listen(address, BACKLOG)?;
        let socket = UdpSocket::serve(listener.local_addr()?, BUFFER)?;
        Ok((listener, socket))
    };
    let tries = if address.port() == 0 { TRIES } else { 1 };
    (1..tries).find_map(|_| both().ok()).map_or_else(|| probe::open_free(both), Ok)
}
