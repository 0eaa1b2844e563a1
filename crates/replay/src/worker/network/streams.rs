//! The sockets of a worker's connections: carries out the actions of their machine, and reports events to it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;

use ldplayer_core::{Reason, Segments};
use ldplayer_net::poll::{Poll, Ready};
use ldplayer_net::refusal::Refusal;
use ldplayer_net::tcp::{self, ConnectOptions};

use crate::connections::{Action, Connections};
use crate::slab::Slot;
use crate::table::{End, Machine};
use crate::worker::clock::RunClock;

use super::Reading;

/// Marks poll tokens of connections.
const MARK: u64 = 1 << 63;
/// Octets read of a connection in a round, so that none keeps the worker from the others and from its queries.
const INPUT: usize = 64 << 10;

/// The socket of a connection.
struct Socket {
    stream: TcpStream,
    /// Whether it is on the list of those with more to read, …
    is_unread: bool,
    /// … and whether the end of what there is to read is known to have come.
    has_ended: bool,
}

/// The sockets of the connections.
pub struct SocketStreams {
    clock: RunClock,
    sockets: Vec<Option<Socket>>,
    /// Connections with more to read, which is not signalled again, by their poll tokens.
    unread: VecDeque<u64>,
    input: Box<[u8]>,
    output: Vec<u8>,
    /// Whether to read the kernel's segment counters on each read.
    counts_segments: bool,
    /// Whether the data read is acknowledged at once while the connection awaits more.
    acknowledges: bool,
    /// The kernel's error for the first connection that it refused to open.
    refused: Option<String>,
}

impl SocketStreams {
    /// No sockets. With `counts_segments`, the kernel's counters of a connection are read on each read. With `acknowledges`, an answer is
    /// acknowledged at once where the connection awaits others: a server with Nagle's algorithm holds these until then, and a replay without
    /// times could wait for them with all that it may ask.
    pub fn new(clock: RunClock, counts_segments: bool, acknowledges: bool) -> Self {
        Self {
            clock,
            sockets: Vec::new(),
            unread: VecDeque::new(),
            input: vec![0; INPUT].into(),
            output: Vec::new(),
            counts_segments,
            acknowledges,
            refused: None,
        }
    }

    /// The kernel's error for the first connection that it refused to open.
    pub fn take_refused(&mut self) -> Option<String> {
        self.refused.take()
    }

    /// Whether a poll token belongs to a connection.
    pub const fn is_ours(token: u64) -> bool {
        token & MARK != 0
    }

    /// Executes all pending actions of the machine. Returns their number.
    pub fn drive(&mut self, machine: &mut Connections, poll: &Poll) -> usize {
        let mut done = 0;
        while let Some(action) = machine.poll_action() {
            match action {
                Action::Open(at) => self.open(machine, at, poll),
                // Connections with sockets are not parked.
                Action::Resume(_) => {}
                Action::Write(at) => self.write(machine, at),
                Action::Close(at) => self.close(machine, at),
            }
            done += 1;
        }
        done
    }

    /// Handles the readiness of a connection, which is read now or put on the list of those to be read.
    pub fn handle_ready(&mut self, machine: &mut Connections, ready: &Ready, may_read: bool) {
        let Some(at) = slot(machine, ready.token) else { return };
        if machine.is_opening(at) && !self.came_up(machine, at) {
            return;
        }
        if ready.writable {
            machine.handle_writable(at);
        }
        if ready.readable || ready.error {
            self.note_readable(at, ready.hung_up || ready.error);
            if may_read && self.socket(at).is_some_and(|socket| !socket.is_unread) {
                self.read(machine, at);
            } else {
                self.postpone(machine, at);
            }
        }
    }

    /// Whether any connection has more to read.
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Reads the connections with more to read, each once, as long as there is time. Returns their number.
    pub fn read_more(&mut self, machine: &mut Connections, reading: Reading) -> usize {
        let waiting = self.unread.len();
        for done in 0..waiting {
            if reading.is_over() {
                return done;
            }
            let at = self.unread.pop_front().and_then(|token| slot(machine, token));
            if let Some(at) = at
                && let Some(socket) = self.socket_mut(at)
            {
                socket.is_unread = false;
                self.read(machine, at);
            }
        }
        waiting
    }

    fn note_readable(&mut self, at: Slot, has_ended: bool) {
        if let Some(socket) = self.socket_mut(at) {
            socket.has_ended |= has_ended;
        }
    }

    /// Puts a connection on the list of those with more to read.
    fn postpone(&mut self, machine: &Connections, at: Slot) {
        let Some(number) = machine.number(at) else { return };
        let Some(socket) = self.socket_mut(at) else { return };
        if !std::mem::replace(&mut socket.is_unread, true) {
            self.unread.push_back(token(at, number));
        }
    }

    fn open(&mut self, machine: &mut Connections, at: Slot, poll: &Poll) {
        let Some(opening) = machine.opening(at) else { return };
        let number = machine.number(at).unwrap_or_default();
        let options = ConnectOptions { source: opening.source, nagle: opening.nagle, fast_open: opening.fast_open };
        let before = self.clock.now();
        let opened = tcp::connect(opening.server, &options)
            .and_then(|stream| poll.add_edge(&stream, token(at, number)).map(|()| stream));
        match opened {
            Ok(stream) => {
                machine.handle_opening(at, before);
                self.put(at, stream);
            }
            Err(error) => match Unopened::of(&error) {
                Unopened::Here(reason) => {
                    self.refused.get_or_insert_with(|| error.to_string());
                    machine.handle_unopened(at, reason);
                }
                Unopened::There(reason) => {
                    machine.handle_opening(at, before);
                    machine.handle_failed(at, reason);
                }
            },
        }
    }

    /// Closing the only descriptor also removes it from the poll.
    fn close(&mut self, machine: &mut Connections, at: Slot) {
        let words = machine.take_close_notify(at);
        let socket = self.sockets.get_mut(at as usize).and_then(Option::take);
        if let (Some(words), Some(mut socket)) = (words, socket) {
            // If the shutdown fails, the peer still sees the connection end.
            let _ = socket.stream.write(&words);
        }
    }

    fn put(&mut self, at: Slot, stream: TcpStream) {
        let place = at as usize;
        if self.sockets.len() <= place {
            self.sockets.resize_with(place + 1, || None);
        }
        self.sockets[place] = Some(Socket { stream, is_unread: false, has_ended: false });
    }

    fn socket(&self, at: Slot) -> Option<&Socket> {
        self.sockets.get(at as usize)?.as_ref()
    }

    fn socket_mut(&mut self, at: Slot) -> Option<&mut Socket> {
        self.sockets.get_mut(at as usize)?.as_mut()
    }

    /// Handles the result of opening a connection; returns whether it is established.
    fn came_up(&self, machine: &mut Connections, at: Slot) -> bool {
        let now = self.clock.now();
        let Some(Socket { stream, .. }) = self.socket(at) else { return false };
        let error = stream.take_error().unwrap_or_else(Some);
        match error {
            Some(error) => machine.handle_failed(at, Unopened::of(&error).reason()),
            None => {
                let port = stream.local_addr().map_or(0, |local| local.port());
                machine.handle_opened(at, now, port);
                return true;
            }
        }
        false
    }

    /// Writes the pending data of a connection, in one call.
    fn write(&mut self, machine: &mut Connections, at: Slot) {
        let mut output = std::mem::take(&mut self.output);
        output.clear();
        let now = self.clock.now();
        machine.compose(at, now, &mut output);
        if !output.is_empty()
            && let Some(socket) = self.socket(at)
        {
            let mut stream: &TcpStream = &socket.stream;
            match stream.write(&output) {
                Ok(count) if count == output.len() => {}
                Ok(count) => machine.handle_blocked(at, now, &output[count..]),
                Err(error) if is_passing(&error) => machine.handle_blocked(at, now, &output),
                Err(_) => self.read_the_last(machine, at),
            }
        }
        self.output = output;
    }

    /// A connection cannot be written any more: reads the remaining answers, and ends it.
    fn read_the_last(&mut self, machine: &mut Connections, at: Slot) {
        let Some(number) = machine.number(at) else { return };
        self.note_readable(at, true);
        while self.read_once(machine, at) {}
        if machine.number(at) == Some(number) {
            machine.handle_closed(at, self.clock.now(), End::Reset);
        }
    }

    /// Reads what has arrived on a connection, up to [`INPUT`] octets; if there may be more, which later data would not signal, it is read
    /// in the next round. A connection that the machine has given up, possibly during its last write, is not read: its socket is only
    /// to be closed.
    fn read(&mut self, machine: &mut Connections, at: Slot) {
        if self.read_once(machine, at) {
            self.postpone(machine, at);
        }
    }

    /// The same; returns whether there may be more. A short read has read everything, unless the end is known to have come.
    fn read_once(&mut self, machine: &mut Connections, at: Slot) -> bool {
        let Some(number) = machine.number(at) else { return false };
        let Some(socket) = self.socket(at) else { return false };
        let (has_ended, mut input) = (socket.has_ended, std::mem::take(&mut self.input));
        let received = self.socket(at).map(|socket| tcp::receive(&socket.stream, &mut input));
        let may_be_more = match received {
            Some(Ok((0, _))) => {
                machine.handle_closed(at, self.clock.now(), End::Closed);
                false
            }
            Some(Ok((count, stamp))) => {
                let (arrived, segments) = (self.clock.arrived(stamp), self.segments(at));
                machine.handle_counted(at, arrived, &input[..count], segments);
                if self.acknowledges && machine.awaits_answers(at) {
                    // The acknowledgement is late where it fails.
                    let _ = self.socket(at).map(|socket| tcp::acknowledge(&socket.stream));
                }
                has_ended || count == input.len()
            }
            Some(Err(error)) if error.kind() == ErrorKind::Interrupted => true,
            Some(Err(error)) if is_passing(&error) => false,
            Some(Err(_)) => {
                machine.handle_closed(at, self.clock.now(), End::Reset);
                false
            }
            None => false,
        };
        self.input = input;
        may_be_more && machine.number(at) == Some(number)
    }

    /// The kernel's counters of a connection, if requested and available.
    fn segments(&self, at: Slot) -> Option<Segments> {
        let socket = self.socket(at).filter(|_| self.counts_segments)?;
        let counts = tcp::counts(&socket.stream).ok()?;
        let [arrived, resent] =
            [counts.data_segments_in, counts.retransmits].map(|count| count.min(u16::MAX.into()) as u16);
        Some(Segments { arrived, resent })
    }
}

/// The slot of the connection of a poll token; `None` if it is gone.
fn slot(machine: &Connections, token_of: u64) -> Option<Slot> {
    let at = token_of as Slot;
    machine.number(at).is_some_and(|number| token(at, number) == token_of).then_some(at)
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
    use ldplayer_net::clock;

    #[test]
    fn a_token_tells_a_slot_from_its_next_user_and_from_other_sockets() {
        assert!(SocketStreams::is_ours(token(0, 0)) && !SocketStreams::is_ours(u64::from(u32::MAX)));
        assert_ne!(token(7, 1), token(7, 2));
        assert_eq!(token(7, u64::MAX) as Slot, 7);
    }

    #[test]
    fn the_socket_of_a_connection_that_was_given_up_is_not_read_for_ever() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        let mut machine = Connections::new(config(Policy::default()), None);
        let mut streams = SocketStreams::new(RunClock::new(clock::monotonic_ns()), false, false);
        streams.put(0, stream);
        streams.read_the_last(&mut machine, 0);
        streams.read(&mut machine, 0);
        assert!(streams.socket(0).is_some(), "it is closed when the machine says so");
    }
}
