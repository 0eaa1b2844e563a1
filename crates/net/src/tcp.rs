//! TCP sockets that serve: shared addresses, non-blocking.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Opens a non-blocking listener. Others of this user may share its address, whose clients the kernel deals out among them;
/// the address need not be one that an interface has. Connections inherit TCP_NODELAY.
///
/// # Errors
/// What the kernel refused, such as an address in use.
pub fn listen(bind: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(bind), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // Connections of a server before that wait for their last packets (TIME_WAIT) do not keep the address.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    if bind.is_ipv4() {
        socket.set_freebind_v4(true)?;
    } else {
        socket.set_only_v6(true)?;
        socket.set_freebind_v6(true)?;
    }
    socket.bind(&bind.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn listeners_share_an_address_and_tell_the_one_asked() {
        for (wildcard, asked) in [("0.0.0.0:0", "127.3.2.1"), ("[::]:0", "::1")] {
            let first = listen(wildcard.parse().unwrap(), 16).unwrap();
            let second = listen(first.local_addr().unwrap(), 16).unwrap();
            let asked = SocketAddr::new(asked.parse().unwrap(), first.local_addr().unwrap().port());
            let client = TcpStream::connect(asked).unwrap();
            let mut accepted = [&first, &second].into_iter().filter_map(|listener| listener.accept().ok());
            let (stream, peer) = accepted.next().unwrap();
            assert_eq!((stream.local_addr().unwrap(), peer), (asked, client.local_addr().unwrap()));
            assert!(stream.nodelay().unwrap());
        }
    }
}
