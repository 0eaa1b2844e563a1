//! Non-blocking TCP sockets: servers share addresses, clients connect from any address.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::ptr;

use socket2::{Domain, Protocol, Socket, Type};

pub use crate::connection::{ConnectOptions, TcpCounts};
use crate::udp::set_int;

/// Room for the one control message of a read, the stamp.
const CONTROL: usize = 64;

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

/// Begins to open a non-blocking connection whose reads tell the kernel's receive stamp. It becomes writable when it is up;
/// [`TcpStream::take_error`] says why it did not come up.
///
/// # Errors
/// What the kernel refused: no descriptor or port left, an address that is not local, no way to the server.
pub fn connect(server: SocketAddr, options: &ConnectOptions) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    set_int(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    if !options.nagle {
        socket.set_tcp_nodelay(true)?;
    }
    if options.fast_open {
        set_int(&socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)?;
    }
    if let Some(source) = options.source {
        set_int(&socket, libc::IPPROTO_IP, libc::IP_FREEBIND, 1)?;
        // The port is chosen with the server's address known, so that each server leaves the whole range of ports.
        set_int(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Reads what has arrived, and the kernel's receive stamp of its end in nanoseconds of CLOCK_REALTIME; 0 octets once the peer
/// has ended its side.
///
/// # Errors
/// What the kernel said: nothing there ([`io::ErrorKind::WouldBlock`]), or how the connection ended.
pub fn receive(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([MaybeUninit::uninit(); CONTROL]);
    // SAFETY: all zeros is a valid message header: null pointers and no lengths.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    // SAFETY: the header describes `part`, which describes `buffer`, and `control`; all live through the call.
    let count = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((count as usize, stamp(&header)))
}

/// Has the kernel acknowledge now what it would acknowledge with the next data, or after 40 ms (tcp(7), `TCP_QUICKACK`). What arrives later is
/// acknowledged as ever: with 1 instead of 2 as its value, the kernel would go on to acknowledge each segment at once, a third more segments
/// for both ends.
///
/// # Errors
/// What the kernel refused.
pub fn acknowledge(stream: &TcpStream) -> io::Result<()> {
    let once: libc::c_int = 2;
    // SAFETY: the value is an integer that lives through the call, and its length is given.
    let set = unsafe {
        let (value, length) = ((&raw const once).cast(), size_of_val(&once) as libc::socklen_t);
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, value, length)
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Octets of `struct tcp_info` up to what is read of it, and where that is: `tcpi_total_retrans` and `tcpi_data_segs_in`, which
/// kernels have told since 4.6.
const TCP_INFO: usize = 160;
const TOTAL_RETRANS: usize = 100;
const DATA_SEGS_IN: usize = 152;

/// What the kernel has counted of a connection so far. It takes a system call and no right.
///
/// # Errors
/// What the kernel refused; of a kernel that does not count segments, [`io::ErrorKind::Unsupported`].
pub fn counts(stream: &TcpStream) -> io::Result<TcpCounts> {
    let [data_segments_in, retransmits] = info(stream, [DATA_SEGS_IN, TOTAL_RETRANS])?;
    Ok(TcpCounts { data_segments_in, retransmits })
}

/// The words at these places of the kernel's `struct tcp_info`.
fn info<const N: usize>(stream: &TcpStream, places: [usize; N]) -> io::Result<[u32; N]> {
    let mut info = [0_u8; TCP_INFO];
    let mut length = TCP_INFO as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` octets into `info`, and how many those were into `length`; both live through the call.
    let result = unsafe {
        let (option, octets) = (libc::TCP_INFO, info.as_mut_ptr().cast());
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, option, octets, &raw mut length)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    if (length as usize) < TCP_INFO {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(places.map(|at| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]])))
}

#[repr(align(8))]
struct Control([MaybeUninit<u8>; CONTROL]);

/// The stamp among the control messages that the kernel wrote.
fn stamp(header: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel wrote well-formed control messages of `msg_controllen` octets, of which this is the first.
    let message = unsafe { libc::CMSG_FIRSTHDR(header) };
    if message.is_null() {
        return None;
    }
    // SAFETY: `message` is a header inside the control buffer, and its data is read as what the header names.
    unsafe {
        if ((*message).cmsg_level, (*message).cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            return None;
        }
        let stamp = ptr::read_unaligned(libc::CMSG_DATA(message).cast::<libc::timespec>());
        Some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Poll;
    use std::io::{Read, Write};
    use std::net::IpAddr;

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

    const PLAIN: ConnectOptions = ConnectOptions { source: None, nagle: false, fast_open: false };

    fn wait(stream: &TcpStream) {
        let mut poll = Poll::new().unwrap();
        poll.add_edge(stream, 0).unwrap();
        assert_eq!(poll.wait(2_000_000_000).unwrap().count(), 1);
    }

    #[test]
    fn a_connection_leaves_from_the_source_told_and_its_reads_are_stamped() {
        for (listen, source) in [("127.0.0.1:0", "127.8.7.6"), ("[::1]:0", "::1")] {
            let listener = TcpListener::bind(listen).unwrap();
            let source: IpAddr = source.parse().unwrap();
            let options = ConnectOptions { source: Some(source), ..PLAIN };
            let stream = connect(listener.local_addr().unwrap(), &options).unwrap();
            let (mut accepted, peer) = listener.accept().unwrap();
            assert_eq!((peer.ip(), stream.local_addr().unwrap()), (source, peer));
            let mut buffer = [0; 16];
            assert_eq!(receive(&stream, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            // The kernel begins to stamp some time after the first socket asked for it.
            let mut ask = || {
                accepted.write_all(b"answer").unwrap();
                wait(&stream);
                let (count, stamp) = receive(&stream, &mut buffer).unwrap();
                assert_eq!(&buffer[..count], b"answer");
                stamp
            };
            let stamp = (0..10_000).find_map(|_| ask()).unwrap();
            assert!((crate::clock::realtime_ns() - stamp).abs() < 60_000_000_000);
            drop(accepted);
            wait(&stream);
            assert_eq!(receive(&stream, &mut buffer).unwrap().0, 0);
        }
    }

    /// Also of segments that came to be read in one piece, as they do on loopback.
    #[test]
    fn segments_with_data_are_counted_however_they_are_read() {
        for writes in [&["length and response"][..], &["le", "response"], &["l", "e", "response"]] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = connect(listener.local_addr().unwrap(), &PLAIN).unwrap();
            let (mut accepted, _) = listener.accept().unwrap();
            wait(&stream);
            assert_eq!(counts(&stream).unwrap(), TcpCounts { data_segments_in: 0, retransmits: 0 });
            accepted.set_nodelay(true).unwrap();
            writes.iter().for_each(|part| accepted.write_all(part.as_bytes()).unwrap());
            drop(accepted);
            let mut left: usize = writes.iter().map(|part| part.len()).sum();
            while left > 0 {
                wait(&stream);
                left -= receive(&stream, &mut [0; 64]).map_or(0, |(count, _)| count);
            }
            assert_eq!(counts(&stream).unwrap().data_segments_in, writes.len() as u32, "{writes:?}");
        }
    }

    /// Otherwise client and server send and take a segment more for each answer. On a busy machine a try may take longer than the kernel waits
    /// for data to acknowledge with.
    #[test]
    fn what_arrives_after_an_acknowledgement_is_acknowledged_with_the_next_data() {
        const TRIES: usize = 100;
        // `tcpi_segs_out` and `tcpi_data_segs_out`.
        let bare = |stream: &TcpStream| info(stream, [136, 156]).map(|[all, with_data]| all - with_data).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let say = |from: &TcpStream, to: &TcpStream| {
            let (mut from, mut to) = (from, to);
            from.write_all(b"message").unwrap();
            to.read_exact(&mut [0; 7]).unwrap();
        };
        [&client, &server].iter().for_each(|stream| stream.set_nodelay(true).unwrap());
        let is_once = (0..TRIES).any(|_| {
            // The kernel learns that each answer is followed by a query, and none waits to be acknowledged.
            (0..20).for_each(|_| [(&server, &client), (&client, &server)].iter().for_each(|(from, to)| say(from, to)));
            let before = bare(&client);
            say(&server, &client);
            acknowledge(&client).unwrap();
            let acknowledged = bare(&client);
            say(&server, &client);
            acknowledged == before + 1 && bare(&client) == acknowledged
        });
        assert!(is_once);
    }

    #[test]
    fn a_closed_port_is_told() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = connect(closed, &PLAIN).and_then(|stream| {
            wait(&stream);
            stream.take_error().map(|error| error.unwrap())
        });
        assert_eq!(error.unwrap_or_else(|error| error).kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn many_connections_share_a_source_port_range() {
        // More connections of one source than it would have ports, if each took one for all servers, cannot be tried quickly;
        // that the port is left to the connect can: it is not chosen before.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = ConnectOptions { source: Some("127.8.7.5".parse().unwrap()), fast_open: true, ..PLAIN };
        let streams: Vec<TcpStream> =
            (0..8).map(|_| connect(listener.local_addr().unwrap(), &options).unwrap()).collect();
        let mut ports: Vec<u16> = streams.iter().map(|stream| stream.local_addr().unwrap().port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 8);
    }
}
