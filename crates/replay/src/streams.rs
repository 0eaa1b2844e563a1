//! The sockets of a worker's connections: carries out the actions of their machine, and reports events to it.

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;

use ldplayer_core::{Reason, RunTime, Segments};
use ldplayer_net::clock;
use ldplayer_net::poll::{Poll, Ready};
use ldplayer_net::refusal::Refusal;
use ldplayer_net::tcp::{self, ConnectOptions};

use crate::connections::{Action, Connections};
use crate::slab::Slot;
use crate::table::{End, Machine};

/// Marks poll tokens of connections.
const MARK: u64 = 1 << 63;
/// Read size in octets.
const INPUT: usize = 64 << 10;

/// The sockets of the connections.
pub struct Streams {
    /// The machine.
    pub machine: Connections,
    origin: i64,
    sockets: Vec<Option<TcpStream>>,
    input: Box<[u8]>,
    output: Vec<u8>,
    /// Whether to read the kernel's segment counters on each read.
    counts_segments: bool,
    /// The kernel's error for the first connection that it refused to open.
    pub refused: Option<String>,
}

impl Streams {
    /// Executes the actions of `machine`, with run time 0 at `origin`. With `counts_segments`, the kernel's counters of
    /// a connection are read
    /// on each read.
    pub fn new(machine: Connections, origin: i64, counts_segments: bool) -> Self {
        let input = vec![0; INPUT].into();
        Self { machine, origin, sockets: Vec::new(), input, output: Vec::new(), counts_segments, refused: None }
    }

    /// Whether a poll token belongs to a connection.
    pub const fn is_ours(token: u64) -> bool {
        token & MARK != 0
    }

    /// Executes all pending actions of the machine. Returns their number.
    pub fn drive(&mut self, poll: &Poll) -> usize {
        let mut done = 0;
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Open(at) => self.open(at, poll),
                // Connections with sockets are not parked.
                Action::Resume(_) => {}
                Action::Write(at) => self.write(at),
                Action::Close(at) => self.close(at),
            }
            done += 1;
        }
        done
    }

    /// Handles the readiness of a connection.
    pub fn handle_ready(&mut self, ready: &Ready) {
        let at = ready.token as Slot;
        if self.machine.number(at).is_none_or(|number| token(at, number) != ready.token) {
            return;
        }
        if self.machine.is_opening(at) && !self.came_up(at) {
            return;
        }
        if ready.writable {
            self.machine.handle_writable(at);
        }
        if ready.readable || ready.error {
            self.read(at, ready.hung_up || ready.error);
        }
    }

    fn now(&self) -> RunTime {
        RunTime(clock::monotonic_ns() - self.origin)
    }

    fn open(&mut self, at: Slot, poll: &Poll) {
        let Some(opening) = self.machine.opening(at) else { return };
        let number = self.machine.number(at).unwrap_or_default();
        let options = ConnectOptions { source: opening.source, nagle: opening.nagle, fast_open: opening.fast_open };
        let before = self.now();
        let opened = tcp::connect(opening.server, &options)
            .and_then(|stream| poll.add_edge(&stream, token(at, number)).map(|()| stream));
        match opened {
            Ok(stream) => {
                self.machine.handle_opening(at, before);
                self.put(at, stream);
            }
            Err(error) => match Unopened::of(&error) {
                Unopened::Here(reason) => {
                    self.refused.get_or_insert_with(|| error.to_string());
                    self.machine.handle_unopened(at, reason);
                }
                Unopened::There(reason) => {
                    self.machine.handle_opening(at, before);
                    self.machine.handle_failed(at, reason);
                }
            },
        }
    }

    /// Closing the only descriptor also removes it from the poll.
    fn close(&mut self, at: Slot) {
        let words = self.machine.take_close_notify(at);
        let socket = self.sockets.get_mut(at as usize).and_then(Option::take);
        if let (Some(words), Some(mut socket)) = (words, socket) {
            // If the shutdown fails, the peer still sees the connection end.
            let _ = socket.write(&words);
        }
    }

    fn put(&mut self, at: Slot, stream: TcpStream) {
        let place = at as usize;
        if self.sockets.len() <= place {
            self.sockets.resize_with(place + 1, || None);
        }
        self.sockets[place] = Some(stream);
    }

    fn socket(&self, at: Slot) -> Option<&TcpStream> {
        self.sockets.get(at as usize)?.as_ref()
    }

    /// Handles the result of opening a connection; returns whether it is established.
    fn came_up(&mut self, at: Slot) -> bool {
        let now = self.now();
        let Some(stream) = self.socket(at) else { return false };
        let error = stream.take_error().unwrap_or_else(Some);
        match error {
            Some(error) => self.machine.handle_failed(at, Unopened::of(&error).reason()),
            None => {
                let port = stream.local_addr().map_or(0, |local| local.port());
                self.machine.handle_opened(at, now, port);
                return true;
            }
        }
        false
    }

    /// Writes the pending data of a connection, in one call.
    fn write(&mut self, at: Slot) {
        let mut output = std::mem::take(&mut self.output);
        output.clear();
        let now = self.now();
        self.machine.compose(at, now, &mut output);
        if !output.is_empty()
            && let Some(stream) = self.socket(at)
        {
            let mut stream: &TcpStream = stream;
            match stream.write(&output) {
                Ok(count) if count == output.len() => {}
                Ok(count) => self.machine.handle_blocked(at, now, &output[count..]),
                Err(error) if is_passing(&error) => self.machine.handle_blocked(at, now, &output),
                Err(_) => self.read_the_last(at),
            }
        }
        self.output = output;
    }

    /// A connection cannot be written any more: reads the remaining answers, and ends it.
    fn read_the_last(&mut self, at: Slot) {
        let Some(number) = self.machine.number(at) else { return };
        self.read(at, true);
        if self.machine.number(at) == Some(number) {
            self.machine.handle_closed(at, self.now(), End::Reset);
        }
    }

    /// Reads everything that has arrived on a connection, and its end if that is known to have come. A short read has
    /// read everything; later data is signalled again. A connection that the machine has given up, possibly during its last write, is
    /// not read: its socket is only to be closed.
    fn read(&mut self, at: Slot, has_ended: bool) {
        let Some(number) = self.machine.number(at) else { return };
        let mut input = std::mem::take(&mut self.input);
        let mut has_more = true;
        while has_more && self.machine.number(at) == Some(number) {
            let Some(stream) = self.socket(at) else { break };
            match tcp::receive(stream, &mut input) {
                Ok((0, _)) => self.machine.handle_closed(at, self.now(), End::Closed),
                Ok((count, stamp)) => {
                    let (arrived, segments) = (self.arrived(stamp), self.segments(stream));
                    self.machine.handle_counted(at, arrived, &input[..count], segments);
                    has_more = has_ended || count == input.len();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => break,
                Err(_) => self.machine.handle_closed(at, self.now(), End::Reset),
            }
        }
        self.input = input;
    }

    /// The kernel's counters of a connection, if requested and available.
    fn segments(&self, stream: &TcpStream) -> Option<Segments> {
        let counts = self.counts_segments.then(|| tcp::counts(stream).ok()).flatten()?;
        let [arrived, resent] =
            [counts.data_segments_in, counts.retransmits].map(|count| count.min(u16::MAX.into()) as u16);
        Some(Segments { arrived, resent })
    }

    /// The run time of a kernel timestamp.
    fn arrived(&self, stamp: Option<i64>) -> RunTime {
        let now = clock::monotonic_ns();
        let at = stamp.map_or(now, |stamp| (stamp - clock::realtime_offset_ns()).min(now));
        RunTime(at - self.origin)
    }
}

/// The poll token of a connection: its slot, and its number to detect reuse of the slot.
const fn token(at: Slot, number: u64) -> u64 {
    MARK | (number & 0x7fff_ffff) << 32 | at as u64
}

/// Whether the operation would block, or the first data segment (TCP Fast Open) is in transit.
fn is_passing(error: &io::Error) -> bool {
    Refusal::of(error) == Refusal::NotNow
}

/// Why a connection was not opened.
enum Unopened {
    /// This host could not try.
    Here(Reason),
    /// The attempt failed.
    There(Reason),
}

impl Unopened {
    fn of(error: &io::Error) -> Self {
        match Refusal::of(error) {
            Refusal::Refused => Self::There(Reason::ConnectionRefused),
            Refusal::Unreachable => Self::There(Reason::Unreachable),
            Refusal::NoSource => Self::Here(Reason::NoSource),
            Refusal::NotNow | Refusal::TooLong | Refusal::Other => Self::Here(Reason::SendError),
        }
    }

    const fn reason(&self) -> Reason {
        match self {
            Self::Here(reason) | Self::There(reason) => *reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::simulation::config;
    use ldplayer_core::Policy;

    #[test]
    fn a_token_tells_a_slot_from_its_next_user_and_from_other_sockets() {
        assert!(Streams::is_ours(token(0, 0)) && !Streams::is_ours(u64::from(u32::MAX)));
        assert_ne!(token(7, 1), token(7, 2));
        assert_eq!(token(7, u64::MAX) as Slot, 7);
    }

    #[test]
    fn the_socket_of_a_connection_that_was_given_up_is_not_read_for_ever() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        let machine = Connections::new(config(Policy::default()), None);
        let mut streams = Streams::new(machine, clock::monotonic_ns(), false);
        streams.put(0, stream);
        streams.read_the_last(0);
        streams.read(0, true);
        assert!(streams.socket(0).is_some(), "it is closed when the machine says so");
    }
}
