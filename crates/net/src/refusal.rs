//! Interprets the kernel's errors for datagrams and connections: the only place that knows error numbers.

use std::io;

/// The meaning of an error of a send, a receive or a connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room, or nothing to read, now; or it is under way. Another time it may be otherwise.
    NotNow,
    /// The other host refused: a closed port, or a connection reset. On a socket of datagrams, that was an earlier one.
    Refused,
    /// There is no way to the other host: no route here, or a router or this host said so. On a socket of datagrams that may
    /// have been said of an earlier one, too.
    Unreachable,
    /// No local address, port or descriptor of the needed kind is left.
    NoSource,
    /// The message is too long for the way to the other host.
    TooLong,
    /// Anything else.
    Other,
}

impl Refusal {
    /// The meaning of an error.
    pub fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINPROGRESS | libc::EINTR) => Self::NotNow,
            Some(libc::ECONNREFUSED | libc::ECONNRESET) => Self::Refused,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN | libc::ETIMEDOUT) => {
                Self::Unreachable
            }
            #[cfg(target_os = "linux")]
            Some(libc::ENONET) => Self::Unreachable,
            Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE | libc::EMFILE | libc::ENFILE) => Self::NoSource,
            Some(libc::EMSGSIZE) => Self::TooLong,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn of(number: i32) -> Refusal {
        Refusal::of(&io::Error::from_raw_os_error(number))
    }

    #[test]
    fn errors_of_the_kernel_itself_are_understood() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let empty = socket.recv(&mut [0]).unwrap_err();
        let foreign = UdpSocket::bind("192.0.2.1:0").unwrap_err();
        let long = socket.send_to(&[0; 65_508], socket.local_addr().unwrap()).unwrap_err();
        let refusals = [empty, foreign, long].map(|error| Refusal::of(&error));
        assert_eq!(refusals, [Refusal::NotNow, Refusal::NoSource, Refusal::TooLong]);
    }

    #[test]
    fn a_missing_route_is_told_from_a_closed_port() {
        assert_eq!([libc::ENETUNREACH, libc::EHOSTUNREACH].map(of), [Refusal::Unreachable; 2]);
        assert_eq!([libc::ECONNREFUSED, libc::ECONNRESET].map(of), [Refusal::Refused; 2]);
        assert_eq!(of(libc::EPERM), Refusal::Other);
        assert_eq!(Refusal::of(&io::Error::other("of no number")), Refusal::Other);
    }
}
