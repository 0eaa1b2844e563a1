//! Opens the sockets of a server.

use std::io;
use std::net::{SocketAddr, TcpListener};
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
        let both = probe::open_free(|| open_both(&mut { address }));
        let (http3, http2) = both.map_err(|source| ServeError::Listen { address, source })?;
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
        // Another port each time where it is 0: the one that the kernel chose for UDP may be in use for TCP.
        let opened = probe::open_free(|| {
            bind = address;
            let both = all.iter().map(|_| {
                let (socket, listener) = open_both(&mut bind)?;
                if options.udp_size > UDP_SIZE {
                    socket.allow_fragments()?;
                }
                Ok((socket, listener))
            });
            both.collect::<io::Result<Vec<_>>>()
        });
        let opened = opened.map_err(|source| ServeError::Listen { address, source })?;
        for (sockets, (udp, tcp)) in all.iter_mut().zip(opened) {
            sockets.udp.push(udp);
            sockets.tcp.push(tcp);
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

/// Opens sockets of UDP and TCP on an address. Port 0 becomes the one that the kernel chooses.
fn open_both(address: &mut SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let socket = UdpSocket::serve(*address, BUFFER)?;
    *address = socket.local();
    Ok((socket, tcp::listen(*address, BACKLOG)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with port 0 did not start, when the port that UDP got was in use for TCP.
    #[test]
    fn another_port_is_taken_where_one_is_free_for_udp_alone() {
        let _ = ldplayer_net::limits::raise_nofile();
        // An address of this test alone. Every other port that the kernel may choose is in use, as far as there are descriptors.
        let address = std::net::Ipv4Addr::new(127, 77, 0, 1);
        let ports = (32_768..61_000_u16).step_by(2).take(8_000);
        let taken: Vec<TcpListener> = ports.map_while(|port| TcpListener::bind((address, port)).ok()).collect();
        let listen = vec![SocketAddr::from((address, 0))];
        let options = Options { listen, ..Options::default() };
        for _ in 0..20 {
            let (sockets, listening) = open(&options, 2).unwrap();
            assert!(sockets.workers.iter().all(|own| own.udp.len() == 1 && own.tcp.len() == 1));
            assert_eq!(sockets.workers[1].tcp[0].local_addr().unwrap(), listening.plain[0]);
        }
        assert!(!taken.is_empty());
    }
}
