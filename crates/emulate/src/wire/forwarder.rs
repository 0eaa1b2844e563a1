//! The thread that moves packets between TUN devices as the wire decides.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use ldplayer_net::pace::{Pace, Wait};
use ldplayer_net::poll::Poll;
use ldplayer_net::tun::Tun;
use ldplayer_net::{clock, pin};

use super::{Counts, Fate, HostId, Owners, Precision, ProxyKind, ProxySettings, Tap, Wire};

/// Maximum number of packets read from a device per turn.
const BATCH: usize = 64;
/// Maximum number of delayed packets released per turn.
const RELEASE: usize = 256;
/// The largest IP packet.
const PACKET: usize = 65_535;
/// Maximum sleep when nothing is due, in nanoseconds.
const IDLE: i64 = 1_000_000_000;
/// How long a spinning wire keeps its core from others, in nanoseconds. Without it servers in a testbed of two cores waited for 2 to 4 % of the
/// time, and answers over TCP took a third longer.
const YIELD_EVERY: i64 = 20_000;
/// The poll token of the waker.
const WAKER: u64 = u64::MAX;

/// The devices, and the wire between them.
#[derive(Debug)]
pub struct Forwarder {
    wire: Wire,
    devices: Devices,
    buffer: Box<[u8]>,
    pace: Pace,
    /// When it last let others have its core.
    yielded_at: i64,
}

#[derive(Debug)]
struct Devices {
    /// For each host, its queues.
    tuns: Vec<Vec<Tun>>,
    tap: Option<Tap>,
}

/// A forwarder running on its own thread. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    asks: Sender<Ask>,
    waker: UnixStream,
    thread: Option<JoinHandle<io::Result<Forwarder>>>,
}

#[derive(Debug)]
enum Ask {
    Counts(Sender<Counts>),
    Proxy(ProxySettings, ProxyKind, bool),
    Owners(Owners, Sender<Owners>),
    Stop,
}

impl Forwarder {
    /// A forwarder between the devices of the wire's hosts, one or more queues per host, in the same order. Devices of
    /// unknown hosts are ignored.
    pub fn new(wire: Wire, mut tuns: Vec<Vec<Tun>>, precision: Precision, tap: Option<Tap>) -> Self {
        tuns.truncate(wire.hosts());
        Self {
            wire,
            devices: Devices { tuns, tap },
            buffer: vec![0; PACKET].into(),
            pace: Pace::of_traffic(precision),
            yielded_at: 0,
        }
    }

    /// Moves packets once around. `clock` gives monotonic nanoseconds. Returns whether anything moved.
    ///
    /// # Errors
    /// A device is gone.
    pub fn turn(&mut self, clock: &impl Fn() -> i64) -> io::Result<bool> {
        let mut has_moved = false;
        for host in 0..self.devices.tuns.len() {
            for queue in 0..self.devices.tuns[host].len() {
                has_moved |= self.read(host, queue, clock)?;
            }
        }
        Ok(self.release(clock()) || has_moved)
    }

    /// Takes packets from one queue.
    fn read(&mut self, host: usize, queue: usize, clock: &impl Fn() -> i64) -> io::Result<bool> {
        for count in 0..BATCH {
            let Some(length) = self.devices.tuns[host][queue].read(&mut self.buffer)? else { return Ok(count > 0) };
            let now = clock();
            let packet = &mut self.buffer[..length];
            if let Fate::Deliver(to) = self.wire.handle_packet(now, HostId(host as u8), packet)
                && !self.devices.deliver(now, to, packet)
            {
                self.wire.handle_refusal(to, length);
            }
            if self.wire.poll_timeout().is_some_and(|due| due <= now) {
                self.release(now);
            }
        }
        Ok(true)
    }

    /// Releases due packets; returns whether there were any.
    fn release(&mut self, now: i64) -> bool {
        for count in 0..RELEASE {
            let Some(due) = self.wire.poll_transmit(now) else { return count > 0 };
            if !self.devices.deliver(now, due.tag, due.packet) {
                let (to, octets) = (due.tag, due.packet.len());
                self.wire.handle_refusal(to, octets);
            }
        }
        true
    }

    /// When the next packet is due.
    pub fn poll_timeout(&self) -> Option<i64> {
        self.wire.poll_timeout()
    }

    /// The statistics so far.
    pub fn counts(&self) -> Counts {
        self.wire.counts()
    }

    /// Finishes the capture, if any; returns the number of its packets.
    ///
    /// # Errors
    /// A write failed.
    pub fn finish(self) -> io::Result<u64> {
        self.devices.tap.map_or(Ok(0), Tap::finish)
    }

    /// Runs the forwarder on its own thread, pinned to `core` if given.
    ///
    /// # Errors
    /// The process is out of threads or file descriptors.
    pub fn start(mut self, core: Option<usize>) -> io::Result<Running> {
        let (waker, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let (asks, asked) = channel();
        let work = move || {
            // Without the core or the timer slack, delays are only less precise.
            let _ = core.map(pin::pin_to);
            let _ = pin::set_timer_slack(1);
            self.run(&asked, &woken).map(|()| self)
        };
        let thread = thread::Builder::new().name("wire".to_owned()).spawn(work)?;
        Ok(Running { asks, waker, thread: Some(thread) })
    }

    /// Works until told to stop.
    fn run(&mut self, asked: &Receiver<Ask>, woken: &UnixStream) -> io::Result<()> {
        let mut poll = Poll::new()?;
        poll.add(woken, WAKER)?;
        for (tun, number) in self.devices.tuns.iter().flatten().zip(0..) {
            poll.add(tun, number)?;
        }
        loop {
            if self.turn(&clock::monotonic_ns)? {
                self.pace.note_packet(clock::monotonic_ns());
            } else {
                self.rest(&mut poll, woken)?;
            }
            let asked = asked.try_recv();
            if matches!(asked, Err(TryRecvError::Empty)) {
                continue;
            }
            // Packets sent before the request are included.
            self.turn(&clock::monotonic_ns)?;
            match asked {
                // The requester may have gone in the meantime.
                Ok(Ask::Counts(answer)) => drop(answer.send(self.counts())),
                Ok(Ask::Proxy(settings, kind, is_on)) => self.wire.switch_proxy(settings, kind, is_on),
                // The requester frees the table, which may be large.
                Ok(Ask::Owners(owners, before)) => drop(before.send(self.wire.replace_owners(owners))),
                Ok(Ask::Stop) | Err(_) => return Ok(()),
            }
        }
    }

    /// Waits as the pace decides.
    fn rest(&mut self, poll: &mut Poll, woken: &UnixStream) -> io::Result<()> {
        let now = clock::monotonic_ns();
        let due = self.wire.poll_timeout().map_or(now + IDLE, |due| due.min(now + IDLE));
        let Wait::Sleep(ns) = self.pace.wait(now, due) else {
            if now - self.yielded_at >= YIELD_EVERY {
                thread::yield_now();
                self.yielded_at = now;
            }
            return Ok(());
        };
        let (mut ready, mut is_woken) = (0, false);
        for event in poll.wait(ns)? {
            ready += 1;
            is_woken |= event.token == WAKER;
        }
        if ready == 0 {
            self.pace.woke(now + ns, clock::monotonic_ns());
        }
        if is_woken {
            // Emptied, so that it does not wake the next wait; it may already be empty.
            let mut woken = woken;
            let _ = woken.read(&mut [0; 64]);
        }
        Ok(())
    }
}

impl Devices {
    /// Hands a packet to a host; false if the host refused it.
    fn deliver(&mut self, now: i64, to: HostId, packet: &[u8]) -> bool {
        let tun = self.tuns.get(to.index()).and_then(|queues| queues.first());
        if tun.is_none_or(|tun| tun.write(packet).is_err()) {
            return false;
        }
        if let Some(tap) = &mut self.tap {
            tap.write(now, packet);
        }
        true
    }
}

impl Running {
    /// The statistics so far; `None` if the thread has ended with an error, which [`Running::stop`] returns.
    pub fn counts(&self) -> Option<Counts> {
        let (sender, counts) = channel();
        self.ask(Ask::Counts(sender));
        counts.recv().ok()
    }

    /// Switches one of the proxies on or off, before any later request.
    pub fn switch_proxy(&self, settings: ProxySettings, kind: ProxyKind, is_on: bool) {
        self.ask(Ask::Proxy(settings, kind, is_on));
    }

    /// Changes the owners of addresses as [`Wire::replace_owners`] does, for all packets sent after this returns. False if
    /// the thread has ended with an error, which [`Running::stop`] returns.
    pub fn replace_owners(&self, owners: Owners) -> bool {
        let (sender, before) = channel();
        self.ask(Ask::Owners(owners, sender));
        before.recv().is_ok()
    }

    /// Stops the thread; returns the statistics and the number of packets in the capture.
    ///
    /// # Errors
    /// The error that ended the thread or the capture early.
    pub fn stop(mut self) -> io::Result<(Counts, u64)> {
        self.ask(Ask::Stop);
        let Some(thread) = self.thread.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let forwarder = thread.join().unwrap_or_else(|_| Err(io::Error::other("the wire thread panicked")))?;
        let counts = forwarder.counts();
        Ok((counts, forwarder.finish()?))
    }

    fn ask(&self, ask: Ask) {
        // A dead thread is noticed by the missing answer.
        let _ = self.asks.send(ask);
        let _ = (&self.waker).write(&[0]);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.ask(Ask::Stop);
            // Its statistics and errors are no longer needed.
            let _ = thread.join();
        }
    }
}
