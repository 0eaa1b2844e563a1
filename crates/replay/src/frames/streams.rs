//! The connections of clients without sockets: carries out the actions of their machine on a TCP of ours, and reports events to it.
//!
//! As [`crate::streams`] does with the kernel's TCP, so that the machine is the same over either path.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use ldplayer_core::{Reason, RunTime};
use ldplayer_link::Ends;
use ldplayer_stack::frame::segment::Outgoing;
use ldplayer_stack::frame::{IcmpError, Segment, ip};
use ldplayer_stack::tcp::{Config, Event, Failure, Handle, OpenError, OpenOptions, Tcp};

use super::usable;
use crate::connections::{Action, Connections, Opening, Stream};
use crate::slab::Slot;
use crate::table::{End, Machine};

/// Octets read at once of what arrived out of order.
const INPUT: usize = 64 << 10;

/// Connections that came to rest last and are not parked, so that few clients with many queries never are.
pub const RESTING: usize = 1_024;

/// The connections of one worker.
pub struct FrameStreams {
    tcp: Tcp,
    /// The connection of each slot of the machine.
    handles: Vec<Option<Handle>>,
    /// The machine's slot of each connection, by the connection's own.
    owners: Vec<Slot>,
    /// Connections that came to rest last, each with the time since when it was idle.
    resting: VecDeque<(Handle, RunTime)>,
    /// How many of these there may be before the first is parked; `None` where none are parked.
    most_resting: Option<usize>,
    nobody: [IpAddr; 2],
    input: Box<[u8]>,
    output: Vec<u8>,
}

impl FrameStreams {
    /// No connections. With `most_resting`, those beyond it that have been idle for longest are parked, if their clients have their own addresses.
    pub fn new(config: Config, nobody: [IpAddr; 2], most_resting: Option<usize>) -> Self {
        Self {
            tcp: Tcp::new(Config { tells_rest: most_resting.is_some(), ..config }),
            handles: Vec::new(),
            owners: Vec::new(),
            resting: VecDeque::new(),
            most_resting,
            nobody,
            input: vec![0; INPUT].into(),
            output: Vec::new(),
        }
    }

    /// Executes all pending actions of the machine at `now`. Returns their number.
    pub fn drive(&mut self, now: RunTime, machine: &mut Connections) -> usize {
        let mut done = 0;
        while let Some(action) = machine.poll_action() {
            match action {
                Action::Open(at) => self.open(at, now, machine),
                Action::Resume(at) => self.resume(at, now, machine),
                Action::Write(at) => self.write(at, now, machine),
                Action::Close(at) => self.close(at, now, machine),
            }
            done += 1;
        }
        done
    }

    /// The next segment to be sent at `now`.
    pub fn poll_transmit(&mut self, now: RunTime) -> Option<Outgoing<'_>> {
        self.tcp.poll_transmit(now)
    }

    /// Whether something of a connection is in flight, in either direction.
    pub fn is_active(&self) -> bool {
        self.tcp.active() > 0
    }

    /// When [`Self::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        self.tcp.poll_timeout()
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: RunTime, machine: &mut Connections) {
        self.tcp.handle_timeout(now);
        self.report(now, machine);
    }

    /// Handles a segment that arrived at `now`; `present` is the current time, at which actions are taken.
    pub fn handle_segment(
        &mut self,
        (now, present): (RunTime, RunTime),
        (from, to): (SocketAddr, SocketAddr),
        segment: &Segment<'_>,
        machine: &mut Connections,
    ) {
        self.wake(present, (from, to), machine);
        let input = self.tcp.handle_segment(now, from, to, segment);
        // A connection is reported as open before its data.
        let end = self.report_opened(now, machine);
        if let Some(input) = input
            && let Some(at) = self.owner(input.at, machine)
        {
            machine.handle_counted(at, now, input.octets, None);
        }
        if let Some(event) = end {
            self.handle_event(now, event, machine);
        }
        self.report(now, machine);
    }

    /// Takes up the stream to which a segment belongs, if it was parked: TCP would not know it.
    fn wake(&mut self, present: RunTime, (from, to): (SocketAddr, SocketAddr), machine: &mut Connections) {
        if (machine.has_parked() || machine.has_resumed()) && !self.tcp.knows(to, from) {
            machine.wake(to, from);
            if machine.has_resumed() {
                self.drive(present, machine);
            }
        }
    }

    /// Handles an ICMP error about a segment of ours, at `now`.
    pub fn handle_icmp(&mut self, now: RunTime, error: &IcmpError<'_>, machine: &mut Connections) {
        self.tcp.handle_icmp(error);
        self.report(now, machine);
    }

    /// Closes up to `most` connections towards their servers, at the end of a run; returns whether there are others.
    pub fn close_some(&mut self, now: RunTime, most: usize, machine: &mut Connections) -> bool {
        for _ in 0..most {
            if let Some(last) = self.handles.pop() {
                last.into_iter().for_each(|handle| self.tcp.close(handle, now));
            } else if let Some(Stream { client, server, parked }) = machine.take_parked() {
                let handle = self.tcp.resume(client, server, &parked);
                handle.into_iter().for_each(|handle| self.tcp.close(handle, now));
            } else {
                return false;
            }
        }
        !self.handles.is_empty() || machine.has_parked()
    }

    /// Reports connections that came up or rest, up to the first event of another kind, which is returned.
    fn report_opened(&mut self, now: RunTime, machine: &mut Connections) -> Option<Event> {
        loop {
            match self.tcp.poll_event()? {
                event @ (Event::Opened(_) | Event::Rests(_)) => self.handle_event(now, event, machine),
                other => return Some(other),
            }
        }
    }

    fn report(&mut self, now: RunTime, machine: &mut Connections) {
        while let Some(event) = self.tcp.poll_event() {
            self.handle_event(now, event, machine);
        }
    }

    fn handle_event(&mut self, now: RunTime, event: Event, machine: &mut Connections) {
        match event {
            Event::Opened(handle) => self.opened(handle, now, machine),
            Event::Data(handle) => self.read(handle, now, machine),
            Event::Rests(handle) => self.rest(handle, machine),
            Event::Writable(handle) => {
                self.owner(handle, machine).into_iter().for_each(|at| machine.handle_writable(at));
            }
            Event::Closed(handle) => {
                self.owner(handle, machine).into_iter().for_each(|at| machine.handle_closed(at, now, End::Closed));
            }
            Event::Reset(handle) => {
                self.forget(handle, machine).into_iter().for_each(|at| machine.handle_closed(at, now, End::Reset));
            }
            Event::Failed(handle, failure) => {
                self.forget(handle, machine).into_iter().for_each(|at| fail(at, now, failure, machine));
            }
        }
    }

    fn open(&mut self, at: Slot, now: RunTime, machine: &mut Connections) {
        let Some(opening) = machine.opening(at) else { return };
        match self.open_tcp(now, &opening) {
            Ok((handle, port)) => {
                self.own(at, handle);
                machine.handle_opening(at, now);
                if self.tcp.takes_early_data(handle) {
                    // Queries go with the first segment: the machine may write as if it was up.
                    machine.handle_opened(at, now, port);
                }
            }
            Err(reason) => machine.handle_unopened(at, reason),
        }
    }

    /// Takes up the stream of a connection that was parked.
    fn resume(&mut self, at: Slot, now: RunTime, machine: &mut Connections) {
        let Some(Stream { client, server, parked }) = machine.take_resumed() else { return };
        match self.tcp.resume(client, server, &parked) {
            Some(handle) => self.own(at, handle),
            // The machine may have given the slot to another connection, which it has not opened yet.
            None if machine.is_begun(at) => machine.handle_closed(at, now, End::Reset),
            None => {}
        }
    }

    /// A connection has come to rest: if too many have, the first that is still idle is parked.
    fn rest(&mut self, handle: Handle, machine: &mut Connections) {
        let (Some(at), Some(most)) = (self.owner(handle, machine), self.most_resting) else { return };
        let Some(since) = machine.idle_since(at) else { return };
        self.resting.push_back((handle, since));
        if self.resting.len() > most
            && let Some((handle, since)) = self.resting.pop_front()
        {
            self.park(handle, since, machine);
        }
    }

    /// Parks a connection that has been idle since then.
    fn park(&mut self, handle: Handle, since: RunTime, machine: &mut Connections) {
        let Some(at) = self.owner(handle, machine).filter(|&at| machine.idle_since(at) == Some(since)) else { return };
        let (Some((client, server)), Some((local, _))) = (machine.ends(at), self.tcp.tuple(handle)) else { return };
        if local.ip() != client {
            return;
        }
        let Some(parked) = self.tcp.park(handle) else { return };
        self.handles[at as usize] = None;
        if !machine.park(at, parked) {
            self.tcp.resume(client, server, &parked).into_iter().for_each(|handle| self.own(at, handle));
        }
    }

    fn open_tcp(&mut self, now: RunTime, opening: &Opening) -> Result<(Handle, u16), Reason> {
        let server = opening.server;
        let source = usable(opening.source.unwrap_or(self.nobody[usize::from(server.is_ipv6())]))?;
        let options = OpenOptions { nagle: opening.nagle, fast_open: opening.fast_open, data: &[] };
        self.tcp.open(now, source, server, &options).map_err(|error| match error {
            OpenError::Family => Reason::Family,
            OpenError::TooManyConnections | OpenError::TooManyServers | OpenError::NoPort => Reason::NoSource,
        })
    }

    fn opened(&mut self, handle: Handle, now: RunTime, machine: &mut Connections) {
        let Some(at) = self.owner(handle, machine).filter(|&at| machine.is_opening(at)) else { return };
        let port = self.tcp.tuple(handle).map_or(0, |(local, _)| local.port());
        machine.handle_opened(at, now, port);
    }

    fn read(&mut self, handle: Handle, now: RunTime, machine: &mut Connections) {
        while let Some(at) = self.owner(handle, machine) {
            let count = self.tcp.read(handle, &mut self.input);
            if count == 0 {
                return;
            }
            machine.handle_counted(at, now, &self.input[..count], None);
        }
    }

    fn write(&mut self, at: Slot, now: RunTime, machine: &mut Connections) {
        self.output.clear();
        machine.compose(at, now, &mut self.output);
        let Some(handle) = self.handle(at).filter(|_| !self.output.is_empty()) else { return };
        let count = self.tcp.write(handle, now, &self.output);
        if count < self.output.len() {
            machine.handle_blocked(at, now, &self.output[count..]);
        }
    }

    fn close(&mut self, at: Slot, now: RunTime, machine: &mut Connections) {
        let words = machine.take_close_notify(at);
        let Some(handle) = self.handles.get_mut(at as usize).and_then(Option::take) else { return };
        if let Some(words) = words {
            // What there is no room for is not missed: the peer sees the connection end.
            self.tcp.write(handle, now, &words);
        }
        self.tcp.close(handle, now);
    }

    fn own(&mut self, at: Slot, handle: Handle) {
        let (at_place, owner_place) = (at as usize, handle.slot() as usize);
        if self.handles.len() <= at_place {
            self.handles.resize(at_place + 1, None);
        }
        if self.owners.len() <= owner_place {
            self.owners.resize(owner_place + 1, 0);
        }
        self.handles[at_place] = Some(handle);
        self.owners[owner_place] = at;
    }

    fn handle(&self, at: Slot) -> Option<Handle> {
        self.handles.get(at as usize).copied().flatten()
    }

    /// The machine's slot of a connection that it has not closed. It may have given the slot to another, which it has not
    /// opened yet.
    fn owner(&self, handle: Handle, machine: &Connections) -> Option<Slot> {
        let &at = self.owners.get(handle.slot() as usize)?;
        (machine.is_begun(at) && self.handle(at) == Some(handle)).then_some(at)
    }

    /// The same, for a connection that is gone.
    fn forget(&mut self, handle: Handle, machine: &Connections) -> Option<Slot> {
        let &at = self.owners.get(handle.slot() as usize)?;
        let owner = self.owner(handle, machine);
        if self.handle(at) == Some(handle) {
            self.handles[at as usize] = None;
        }
        owner
    }
}

fn fail(at: Slot, now: RunTime, failure: Failure, machine: &mut Connections) {
    if !machine.is_opening(at) {
        return machine.handle_closed(at, now, End::Reset);
    }
    machine.handle_failed(
        at,
        match failure {
            Failure::Refused => Reason::ConnectionRefused,
            Failure::Unreachable => Reason::Unreachable,
            Failure::TimedOut | Failure::ZeroWindow => Reason::ConnectTimeout,
        },
    );
}

fn ends(outgoing: &Outgoing<'_>) -> Ends {
    let [from, to] = [outgoing.from, outgoing.to].map(|end| (end.ip(), end.port()));
    Ends { from, to, protocol: ip::TCP }
}

impl super::Frames {
    /// Adds the frames of segments that are to be sent at `now`, as many as the batch has room for; returns whether that was all.
    pub fn put_segments(&mut self, now: RunTime) -> bool {
        let Self { sender, cargo, streams, outward, delayed, .. } = self;
        loop {
            let Some(frame) = sender.room() else { return false };
            let Some(outgoing) = streams.poll_transmit(now) else { return true };
            // A segment that does not fit, since the interface's MTU has become less, is lost, and sent again.
            let Some(length) = outgoing.write(frame, outward.links.to(outgoing.to.ip())) else { continue };
            if let Some(delayed) = delayed {
                delayed.handle_frame(now, &ends(&outgoing), &frame[..length]);
            } else {
                sender.commit(length);
                cargo.push_back(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::framing;
    use crate::connections::simulation::{config, policy, route, tcp_query};
    use crate::table::Policy;
    use ldplayer_stack::frame::{Flags, Options};

    const NOW: RunTime = RunTime(0);

    /// What the server says to the client at `to`.
    fn hear(streams: &mut FrameStreams, machine: &mut Connections, to: SocketAddr, said: (Flags, [u32; 2], &[u8])) {
        let (flags, [sequence, acknowledgement], payload) = said;
        let from = route().server;
        let (source_port, destination_port) = (from.port(), to.port());
        let options = Options::default();
        let segment = Segment {
            source_port,
            destination_port,
            sequence,
            acknowledgement,
            flags,
            window: 60_000,
            options,
            payload,
        };
        streams.handle_segment((NOW, NOW), (from, to), &segment, machine);
    }

    /// The machine may give the slot of a connection to the next before the worker has closed the first.
    #[test]
    fn a_reset_of_the_connection_before_is_not_the_next_ones_in_its_slot() {
        let mut machine = Connections::new(config(Policy { queries_per_connection: 1, ..policy() }), None);
        let mut streams =
            FrameStreams::new(Config::default(), ["192.0.2.9".parse().unwrap(), "2001:db8::9".parse().unwrap()], None);
        machine.handle_query(NOW, tcp_query(0, 1, 0), route());
        streams.drive(NOW, &mut machine);
        let syn = streams.poll_transmit(NOW).unwrap();
        let (client, next) = (syn.from, syn.segment.sequence.wrapping_add(1));
        hear(&mut streams, &mut machine, client, (Flags::SYN | Flags::ACK, [7, next], &[]));
        let mut query = Vec::new();
        let Some(Action::Write(at)) = machine.poll_action() else { panic!("the query is to be written") };
        machine.compose(at, NOW, &mut query);
        let mut answer = Vec::new();
        let response = crate::test::response(&query[2..], 0);
        framing::append(&mut answer, &response, u16::from_be_bytes([response[0], response[1]]), 0);
        hear(&mut streams, &mut machine, client, (Flags::ACK, [8, next], &answer));
        assert_eq!(machine.counts().answered, 1);
        machine.handle_query(NOW, tcp_query(1, 2, 0), route());
        let next_number = machine.number(at);
        assert!(next_number.is_some() && !machine.is_begun(at), "the next has its slot, and waits");
        hear(&mut streams, &mut machine, client, (Flags::RST, [8 + answer.len() as u32, 0], &[]));
        assert_eq!((streams.tcp.counts().resets_in, machine.number(at)), (1, next_number));
        streams.drive(NOW, &mut machine);
        assert!(machine.is_opening(at));
    }
}
