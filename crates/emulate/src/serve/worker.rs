//! A server thread: its sockets, its loop, and the handover of its counters.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::task::Waker;

use ldplayer_net::clock::monotonic_ns;
use ldplayer_net::limits;
use ldplayer_net::poll::{Poll, Wake};
use ldplayer_net::udp::UdpSocket;
use rustls::ServerConfig;

use super::responder::Responder;
use super::room::Room;
use super::shared::Shared;
use super::sums::Counted;
use super::tcp::{Answer, Connections, Deed, Ends};
use super::transfer::Transfer;
use super::udp::Datagrams;

/// Maximum wait, in nanoseconds.
const LONGEST: i64 = 60_000_000_000;
/// How long a listener pauses when there is no descriptor for a waiting client, in nanoseconds; it stays ready meanwhile.
const REST: i64 = 100_000_000;
/// Maximum number of connections accepted per turn.
const ACCEPTS: usize = 64;
/// The poll token for waking the worker; sockets have tokens from 1 on.
const WAKE: u64 = 0;

/// What a worker needs to serve.
pub struct Sockets {
    pub udp: Vec<UdpSocket>,
    pub tcp: Vec<TcpListener>,
    /// The settings of TLS, and the first of the listeners whose connections begin with a handshake.
    pub tls: Option<(usize, Arc<ServerConfig>)>,
}

impl Sockets {
    fn tls_of(&self, listener: usize) -> Option<&Arc<ServerConfig>> {
        self.tls.as_ref().filter(|(first, _)| listener >= *first).map(|(_, config)| config)
    }
}

/// One thread of the server.
pub struct Worker {
    poll: Poll,
    wake: Arc<Wake>,
    sockets: Sockets,
    datagrams: Datagrams,
    connections: Connections,
    responder: Responder,
    shared: Arc<Shared>,
    epoch: u64,
    ready: Vec<u64>,
    resting: Resting,
}

/// Paused listeners.
#[derive(Default)]
struct Resting {
    /// Their indices among the listeners.
    listeners: Vec<usize>,
    /// When the pause ends.
    until: i64,
}

impl Answer for Responder {
    #[inline]
    fn look_ahead<'q>(&mut self, queries: impl Iterator<Item = (IpAddr, &'q [u8])>) {
        Self::look_ahead(self, queries);
    }

    #[inline]
    fn transfer(&mut self, ends: &Ends, query: &[u8]) -> Option<Transfer> {
        Self::transfer(self, ends, query)
    }

    #[inline]
    fn answer(&mut self, ends: &Ends, query: &[u8], out: &mut Vec<u8>) -> Deed {
        Self::answer(self, ends, query, out)
    }
}

impl Worker {
    /// A worker that polls all its sockets.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn new(
        sockets: Sockets,
        room: &Arc<Room>,
        idle_ns: i64,
        responder: Responder,
        shared: Arc<Shared>,
    ) -> io::Result<(Self, Waker)> {
        let (poll, wake) = (Poll::new()?, Arc::new(Wake::new()?));
        poll.add(&*wake, WAKE)?;
        let tokens = WAKE + 1..;
        for (socket, token) in sockets.udp.iter().zip(tokens.clone()) {
            poll.add(socket, token)?;
        }
        for (listener, token) in sockets.tcp.iter().zip(tokens.skip(sockets.udp.len())) {
            poll.add(listener, token)?;
        }
        let first = WAKE + 1 + (sockets.udp.len() + sockets.tcp.len()) as u64;
        let connections = Connections::new(Room::join(room, Arc::clone(&wake).into()), idle_ns, first);
        let (datagrams, epoch, ready) = (Datagrams::new(), shared.epoch(), Vec::new());
        let woken = Arc::clone(&wake).into();
        let resting = Resting::default();
        Ok((Self { poll, wake, sockets, datagrams, connections, responder, shared, epoch, ready, resting }, woken))
    }

    /// Serves until told to stop.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn run(&mut self) -> io::Result<()> {
        while !self.shared.is_stopping() {
            self.turn(LONGEST)?;
        }
        let counted = self.take_counted();
        self.shared.add(counted);
        Ok(())
    }

    /// Waits for events, no longer than `longest`, and handles them; returns their number.
    fn turn(&mut self, longest: i64) -> io::Result<usize> {
        let timeout = self.poll_timeout().map_or(longest, |due| (due - monotonic_ns()).clamp(0, longest));
        let mut ready = std::mem::take(&mut self.ready);
        ready.extend(self.poll.wait(timeout)?.map(|ready| ready.token));
        let (now, count) = (monotonic_ns(), ready.len());
        ready.drain(..).for_each(|token| self.handle_ready(now, token));
        self.ready = ready;
        self.datagrams.handle_timeout(now, &self.sockets.udp);
        self.connections.handle_timeout(now, &self.poll, &mut self.responder);
        self.connections.make_room();
        self.end_rest(now)?;
        self.hand_over();
        Ok(count)
    }

    /// The next timeout.
    fn poll_timeout(&self) -> Option<i64> {
        let rest = (!self.resting.listeners.is_empty()).then_some(self.resting.until);
        [self.connections.poll_timeout(), self.datagrams.poll_timeout(), rest].into_iter().flatten().min()
    }

    fn handle_ready(&mut self, now: i64, token: u64) {
        let (udp, tcp) = (self.sockets.udp.len(), self.sockets.tcp.len());
        match (token as usize).checked_sub(1) {
            None => self.wake.clear(),
            Some(at) if at < udp => {
                // Errors of receiving, such as a shortage of memory, are temporary.
                let _ = self.datagrams.handle_ready(now, &self.sockets.udp, at, &mut self.responder);
            }
            Some(at) if at < udp + tcp => self.accept(now, at - udp),
            Some(_) => {
                self.connections.handle_ready(now, token, &self.poll, &mut self.responder);
            }
        }
    }

    fn accept(&mut self, now: i64, listener: usize) {
        for _ in 0..ACCEPTS {
            match self.sockets.tcp[listener].accept() {
                Ok((stream, peer)) => {
                    let stream = (stream, self.sockets.tls_of(listener));
                    self.connections.handle_accepted(now, stream, peer.ip(), &self.poll);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if limits::is_short(&error) => {
                    // A new client replaces an idle one.
                    if !self.connections.evict() {
                        return self.rest(now, listener);
                    }
                }
                // This client has already gone; the next one may be there.
                Err(_) => {}
            }
        }
    }

    /// Pauses accepting: without a descriptor, a waiting client would keep this thread busy.
    fn rest(&mut self, now: i64, listener: usize) {
        if self.poll.remove(&self.sockets.tcp[listener]).is_ok() {
            self.resting.listeners.push(listener);
            self.resting.until = now.saturating_add(REST);
        }
    }

    fn end_rest(&mut self, now: i64) -> io::Result<()> {
        if now < self.resting.until {
            return Ok(());
        }
        let first = WAKE + 1 + self.sockets.udp.len() as u64;
        let mut rested = self.resting.listeners.drain(..);
        rested.try_for_each(|at| self.poll.add(&self.sockets.tcp[at], first + at as u64))
    }

    /// Handles a call of the owner: hands over the counters, and takes the new zones.
    fn hand_over(&mut self) {
        let epoch = self.shared.epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            let counted = self.take_counted();
            self.shared.add(counted);
            self.responder.renew(self.shared.current());
            self.shared.done();
        }
    }

    fn take_counted(&mut self) -> Counted {
        let (tcp, unsent) = (self.connections.take_counts(), self.datagrams.take_unsent());
        Counted { tcp, unsent, ..self.responder.take_counted() }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::super::set::ZoneSet;
    use super::super::shared::Current;
    use super::*;

    fn worker() -> Worker {
        let address = "127.0.0.1:0".parse().unwrap();
        let tcp = vec![ldplayer_net::tcp::listen(address, 16).unwrap()];
        let sockets = Sockets { udp: vec![UdpSocket::serve(address, 1 << 16).unwrap()], tcp, tls: None };
        let current =
            Current { set: Arc::new(ZoneSet::new(Vec::new(), Vec::new()).unwrap()), marks: None, faults: None };
        let responder = Responder::new(current.clone(), false, ldplayer_zone::UDP_SIZE);
        Worker::new(sockets, &Arc::new(Room::new(10)), i64::MAX, responder, Arc::new(Shared::new(current))).unwrap().0
    }

    #[test]
    fn a_client_that_there_is_no_descriptor_for_waits_without_costing_turns() {
        let mut worker = worker();
        let _client = TcpStream::connect(worker.sockets.tcp[0].local_addr().unwrap()).unwrap();
        assert_eq!(worker.poll.wait(20_000_000_000).unwrap().count(), 1);
        worker.rest(i64::MAX - REST, 0);
        assert_eq!(worker.turn(0).unwrap(), 0, "it is not told of again and again");
        worker.resting.until = monotonic_ns();
        assert_eq!(worker.turn(0).unwrap(), 0);
        assert_eq!(worker.turn(0).unwrap(), 1);
        assert_eq!(worker.connections.take_counts().accepted, 1);
    }
}
