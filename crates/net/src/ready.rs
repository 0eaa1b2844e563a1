//! What is waited for at a socket, and what is found.

/// Events to wait for, in addition to errors and hang-ups, which are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Until it can be read.
    Read,
    /// Until it can be written.
    Write,
    /// Until it can be read or written.
    Both,
    /// Until there is an error.
    Nothing,
}

/// A socket that can be read (or written, where that is waited for), or has an error to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number given to [`crate::poll::Poll::add`].
    pub token: u64,
    /// There is an error to be fetched.
    pub error: bool,
    /// It can be read, or the peer has ended its side.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
    /// The peer has closed its side, or both sides are closed: reported for edge-triggered sockets only.
    pub hung_up: bool,
}
