//! Handles datagrams that the kernel refused.

use std::io;

use ldplayer_core::Reason;
use ldplayer_net::refusal::Refusal;

/// How often in a row a send may fail with the error of an earlier datagram before the worker turns to something else.
const EARLIER_TRIES: u32 = 8;
/// How often in a row a send may fail without a route until that is taken as its own error: the
/// first failure may report an earlier datagram, whose error is fetched in between.
const UNREACHABLE_TRIES: u32 = 3;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fetch the errors of earlier datagrams and send again.
    Again,
    /// Send later: the kernel's buffer is full.
    Later,
    /// Do not send it, for this reason.
    Never(Reason),
}

/// Consecutive failures of one datagram.
#[derive(Debug, Default)]
pub struct Refusals(u32);

impl Refusals {
    /// What one more failure means.
    pub fn judge(&mut self, error: &io::Error) -> Next {
        self.0 += 1;
        match Refusal::of(error) {
            Refusal::Refused if self.0 < EARLIER_TRIES => Next::Again,
            Refusal::Refused | Refusal::NotNow => Next::Later,
            Refusal::Unreachable if self.0 < UNREACHABLE_TRIES => Next::Again,
            Refusal::Unreachable => Next::Never(Reason::Unreachable),
            Refusal::NoSource => Next::Never(Reason::NoSource),
            Refusal::TooLong => Next::Never(Reason::BadMessage),
            Refusal::Other => Next::Never(Reason::SendError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(kind: io::ErrorKind, times: usize) -> Vec<Next> {
        let raw = match kind {
            io::ErrorKind::NetworkUnreachable => 101,
            io::ErrorKind::ConnectionRefused => 111,
            _ => 11,
        };
        let mut refusals = Refusals::default();
        (0..times).map(|_| refusals.judge(&io::Error::from_raw_os_error(raw))).collect()
    }

    #[test]
    fn no_way_is_believed_when_it_is_said_again() {
        let last = Next::Never(Reason::Unreachable);
        assert_eq!(judge(io::ErrorKind::NetworkUnreachable, 3), [Next::Again, Next::Again, last]);
    }

    #[test]
    fn a_refusal_is_of_an_earlier_datagram_and_no_loop_is_endless() {
        let nexts = judge(io::ErrorKind::ConnectionRefused, 9);
        assert!(nexts[..7].iter().all(|&next| next == Next::Again), "{nexts:?}");
        assert_eq!(nexts[7..], [Next::Later; 2]);
        assert_eq!(judge(io::ErrorKind::WouldBlock, 1), [Next::Later]);
    }
}
