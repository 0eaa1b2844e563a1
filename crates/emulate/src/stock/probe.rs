//! One question over UDP, to learn whether a server answers yet.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// How long one answer is waited for.
const PATIENCE: Duration = Duration::from_millis(100);
/// ID of the question.
const ID: [u8; 2] = *b"LD";
/// `. SOA IN` (RFC 1035, section 4.1), which any server answers, be it with a refusal.
const QUESTION: [u8; 17] = [ID[0], ID[1], 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 1];

/// Whether the server answers now. Takes about [`PATIENCE`] when it does not.
///
/// # Errors
/// When this host cannot send to that address at all.
pub fn answers(server: SocketAddr) -> io::Result<bool> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut answer = [0; 512];
    match socket.send(&QUESTION).and_then(|_| socket.recv(&mut answer)) {
        Ok(length) => Ok(length >= 12 && answer[..2] == ID && answer[2] & 0x80 != 0),
        Err(error) if is_not_yet(error.kind()) => {
            // A refused port answers at once; without a pause, asking again would keep a core busy.
            if error.kind() == io::ErrorKind::ConnectionRefused {
                std::thread::sleep(PATIENCE);
            }
            Ok(false)
        }
        Err(error) => Err(error),
    }
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
    fn an_answer_counts() {
        let server = replying(|mut question| {
            question[2] |= 0x80;
            question.to_vec()
        });
        assert!(answers(server).unwrap());
    }

    #[test]
    fn an_echo_or_a_foreign_message_does_not() {
        assert!(!answers(replying(|question| question.to_vec())).unwrap());
        assert!(!answers(replying(|_| vec![0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0])).unwrap());
        assert!(!answers(replying(|_| Vec::new())).unwrap());
    }

    #[test]
    fn a_closed_port_does_not() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(!answers(closed).unwrap());
    }
}
