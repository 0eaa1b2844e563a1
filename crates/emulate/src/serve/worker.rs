//! One thread of the server: its sockets, its loop, and the moments in which it hands over what it has counted.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;

use ldplayer_net::clock::monotonic_ns;
use ldplayer_net::poll::{Poll, Wake};
use ldplayer_net::udp::UdpSocket;

use super::counters::Way;
use super::responder::Responder;
use super::shared::Shared;
use super::sums::Counted;
use super::tcp::{Answer, Connections};
use super::udp::Datagrams;

/// Longest wait, in nanoseconds.
const LONGEST: i64 = 60_000_000_000;
/// Connections accepted before others have their turn.
const ACCEPTS: usize = 64;
/// The token by which the worker is woken; sockets have those from 1 on.
const WAKE: u64 = 0;

/// What a worker serves from.
pub struct Sockets {
    pub udp: Vec<UdpSocket>,
    pub tcp: Vec<TcpListener>,
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
}

/// The responder as connections or datagrams see it.
struct By<'a>(&'a mut Responder, Way);

impl Answer for By<'_> {
    #[inline]
    fn answer(&mut self, local: IpAddr, query: &[u8], out: &mut Vec<u8>) -> bool {
        self.0.answer(local, self.1, query, out)
    }
}

impl Worker {
    /// A worker that waits for all its sockets.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
    pub fn new(
        sockets: Sockets,
        most_connections: usize,
        idle_ns: i64,
        responder: Responder,
        shared: Arc<Shared>,
    ) -> io::Result<(Self, Arc<Wake>)> {
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
        let connections = Connections::new(most_connections, idle_ns, first);
        let (datagrams, epoch, ready) = (Datagrams::new(), shared.epoch(), Vec::new());
        let woken = Arc::clone(&wake);
        Ok((Self { poll, wake, sockets, datagrams, connections, responder, shared, epoch, ready }, woken))
    }

    /// Serves until it is told to stop.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn run(&mut self) -> io::Result<()> {
        while !self.shared.is_stopping() {
            let due = self.connections.poll_timeout();
            let timeout = due.map_or(LONGEST, |due| (due - monotonic_ns()).clamp(0, LONGEST));
            let mut ready = std::mem::take(&mut self.ready);
            ready.extend(self.poll.wait(timeout)?.map(|ready| ready.token));
            let now = monotonic_ns();
            ready.drain(..).for_each(|token| self.handle_ready(now, token));
            self.ready = ready;
            self.connections.handle_timeout(now);
            self.hand_over();
        }
        let counted = self.take_counted();
        self.shared.add(counted);
        Ok(())
    }

    fn handle_ready(&mut self, now: i64, token: u64) {
        let (udp, tcp) = (self.sockets.udp.len(), self.sockets.tcp.len());
        match (token as usize).checked_sub(1) {
            None => self.wake.clear(),
            Some(at) if at < udp => {
                // What the kernel says to receiving, such as that memory is short, passes.
                let mut by = By(&mut self.responder, Way::Udp);
                let _ = self.datagrams.handle_ready(&self.sockets.udp[at], &mut by);
            }
            Some(at) if at < udp + tcp => self.accept(now, at - udp),
            Some(_) => {
                let mut by = By(&mut self.responder, Way::Tcp);
                self.connections.handle_ready(now, token, &self.poll, &mut by);
            }
        }
    }

    fn accept(&mut self, now: i64, listener: usize) {
        for _ in 0..ACCEPTS {
            match self.sockets.tcp[listener].accept() {
                Ok((stream, _)) => self.connections.handle_accepted(now, stream, &self.poll),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors or memory: who waits takes the place of who is idle.
                Err(_) => {
                    if !self.connections.evict() {
                        return;
                    }
                }
            }
        }
    }

    /// After a call of the owner: gives what was counted, and takes the zones that there are now.
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
        let (counters, set) = self.responder.take_counters();
        let (unknown, unlisted) = self.responder.take_unknown();
        let (tcp, unsent) = (self.connections.take_counts(), self.datagrams.take_unsent());
        Counted { counters, set, tcp, unsent, unknown, unlisted }
    }
}
