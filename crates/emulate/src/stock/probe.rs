//! A probe over UDP: whether a server answers yet, and whether an address is in use.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::StockError;

/// How long to wait for one answer, and the pause before retrying.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often to retry an address in use: a process being started by another thread holds copies of all our sockets for a
/// moment, including those just closed.
const TRIES: usize = 5;
/// ID of the query.
const ID: [u8; 2] = *b"LD";
/// A query with one question and without RD (RFC 1035, section 4.1.1): resolvers refuse it rather than resolve.
const HEADER: [u8; 12] = [ID[0], ID[1], 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
/// `SOA IN`, which follows the name.
const SOA_IN: [u8; 4] = [0, 6, 0, 1];
/// The root name, in wire format.
pub const ROOT: &[u8] = &[0];

/// Whether the server answers now: any DNS response counts, even a refusal. Takes about 100 ms if it does not.
///
/// # Errors
/// This host cannot send to that address.
pub fn answers(server: SocketAddr) -> io::Result<bool> {
    Ok(rcode(server, ROOT)?.is_some())
}

/// The RCODE of the answer to a query for the SOA record of this name (in wire format); `None` without an answer.
///
/// # Errors
/// This host cannot send to that address.
pub fn rcode(server: SocketAddr, name: &[u8]) -> io::Result<Option<u8>> {
    ask(&connected(server)?, name)
}

fn connected(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Sends another query, and waits briefly for an answer to it or an earlier one.
fn ask(socket: &UdpSocket, name: &[u8]) -> io::Result<Option<u8>> {
    let question = [&HEADER, name, &SOA_IN].concat();
    let mut answer = [0; 512];
    match socket.send(&question).and_then(|_| socket.recv(&mut answer)) {
        Ok(length) => Ok(is_response(&answer[..length]).then_some(answer[3] & 0x0f)),
        Err(error) if is_not_yet(error.kind()) => {
            // A closed port answers at once; without a pause, retrying would keep a core busy.
            if error.kind() == io::ErrorKind::ConnectionRefused {
                pause();
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Queries until the server answers, however far away it is; returns whether it does within this time.
///
/// # Errors
/// This host cannot send to that address.
pub fn answers_within(server: SocketAddr, patience: Duration) -> io::Result<bool> {
    let (begun, socket) = (Instant::now(), connected(server)?);
    while ask(&socket, ROOT)?.is_none() {
        if begun.elapsed() > patience {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether it accepts TCP connections now.
pub fn accepts(server: SocketAddr) -> bool {
    let connected = TcpStream::connect_timeout(&server, PATIENCE).is_ok();
    if !connected {
        pause();
    }
    connected
}

/// A pause between probes.
pub fn pause() {
    std::thread::sleep(PATIENCE);
}

/// Checks that the address is not in use over UDP and TCP: another program would answer in place of our server.
///
/// An address that cannot be bound for another reason is left to the server.
///
/// # Errors
/// [`StockError::Taken`].
pub fn ensure_free(address: SocketAddr) -> Result<(), StockError> {
    let mut taken = taken_for(address);
    for _ in 1..TRIES {
        if taken.is_none() {
            break;
        }
        pause();
        taken = taken_for(address);
    }
    taken.map_or(Ok(()), |transport| Err(StockError::Taken { address, transport }))
}

/// Opens a socket on an address that [`ensure_free`] has found free: its own sockets may be there for a moment longer, in a process that
/// another thread is starting.
///
/// # Errors
/// What `open` says, where that is not that the address is in use, or is said again and again.
pub fn open_free<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut opened = open();
    for _ in 1..TRIES {
        if !opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
            break;
        }
        pause();
        opened = open();
    }
    opened
}

/// The transport over which the address is in use.
fn taken_for(address: SocketAddr) -> Option<&'static str> {
    let is_taken = |error: io::Error| error.kind() == io::ErrorKind::AddrInUse;
    if UdpSocket::bind(address).is_err_and(is_taken) {
        return Some("UDP");
    }
    TcpListener::bind(address).is_err_and(is_taken).then_some("TCP")
}

fn is_response(message: &[u8]) -> bool {
    message.len() >= HEADER.len() && message[..2] == ID && message[2] & 0x80 != 0
}

fn is_not_yet(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(kind, ConnectionRefused | Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that gives this reply to the first question it sees.
    fn replying(reply: impl FnOnce([u8; 17]) -> Vec<u8> + Send + 'static) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut question = [0; 17];
            let (_, client) = socket.recv_from(&mut question).unwrap();
            socket.send_to(&reply(question), client).unwrap();
        });
        address
    }

    #[test]
    fn an_answer_counts_and_tells_its_rcode() {
        let refusing = |mut question: [u8; 17]| {
            question[2] |= 0x80;
            question[3] |= 5;
            question.to_vec()
        };
        assert!(answers(replying(refusing)).unwrap());
        assert_eq!(rcode(replying(refusing), ROOT).unwrap(), Some(5));
    }

    #[test]
    fn an_echo_or_a_foreign_message_does_not() {
        assert!(!answers(replying(|question| question.to_vec())).unwrap());
        assert!(!answers(replying(|_| vec![0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0])).unwrap());
        assert!(!answers(replying(|_| Vec::new())).unwrap());
    }

    #[test]
    fn an_answer_may_be_longer_on_its_way_than_the_next_question_is_waited_with() {
        let far = replying(|mut question| {
            std::thread::sleep(PATIENCE * 5 / 2);
            question[2] |= 0x80;
            question.to_vec()
        });
        assert!(answers_within(far, Duration::from_secs(60)).unwrap());
    }

    #[test]
    fn a_server_that_does_not_come_is_not_waited_for_for_ever() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(!answers_within(nobody, Duration::ZERO).unwrap());
    }

    #[test]
    fn a_closed_port_does_not() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(!answers(closed).unwrap());
    }

    #[test]
    fn a_closed_socket_of_which_a_process_being_started_has_a_copy_is_waited_for() {
        let mut said = [io::ErrorKind::AddrInUse, io::ErrorKind::PermissionDenied].into_iter();
        let mut again = || said.next().map_or(Ok(()), |kind| Err(kind.into()));
        assert_eq!(open_free(&mut again).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        open_free(&mut again).unwrap();
    }

    #[test]
    fn an_address_that_somebody_has_is_not_free() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = udp.local_addr().unwrap();
        let error = ensure_free(address).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{address} (UDP) is already in use by another program; ")), "{error}");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = ensure_free(tcp.local_addr().unwrap()).unwrap_err();
        assert!(matches!(error, StockError::Taken { transport: "TCP", .. }), "{error}");
        // Not local, and so the server's to judge.
        ensure_free("192.0.2.1:5300".parse().unwrap()).unwrap();
    }
}
