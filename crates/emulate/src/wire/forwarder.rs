//! Moves packets between TUN devices as the wire says: one thread, packet by packet, and asleep when there is nothing to do.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use ldplayer_net::pace::{Pace, Wait};
use ldplayer_net::poll::Poll;
use ldplayer_net::tun::Tun;
use ldplayer_net::{clock, pin};

use super::{Counts, Fate, HostId, Owners, Precision, ProxyKind, ProxySettings, Tap, Wire};

/// Packets read from one device before the next has its turn.
const BATCH: usize = 64;
/// Packets let go before the devices are looked at again.
const RELEASE: usize = 256;
/// The largest IP packet.
const PACKET: usize = 65_535;
/// Without anything due, the forwarder sleeps so long at most, in nanoseconds.
const IDLE: i64 = 1_000_000_000;
/// The number of the waker among what is waited for.
const WAKER: u64 = u64::MAX;

/// The devices, and the wire between them.
#[derive(Debug)]
pub struct Forwarder {
    wire: Wire,
    devices: Devices,
    buffer: Box<[u8]>,
    pace: Pace,
}

#[derive(Debug)]
struct Devices {
    /// For each host, its queues.
    tuns: Vec<Vec<Tun>>,
    tap: Option<Tap>,
}

/// A forwarder at work on a thread of its own. Dropping it ends it.
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
    /// A forwarder between the devices of the wire's hosts, one or more queues for each, in the same order. Devices of
    /// hosts that the wire does not know are left out.
    pub fn new(wire: Wire, mut tuns: Vec<Vec<Tun>>, precision: Precision, tap: Option<Tap>) -> Self {
        tuns.truncate(wire.hosts());
        Self { wire, devices: Devices { tuns, tap }, buffer: vec![0; PACKET].into(), pace: Pace::of_traffic(precision) }
    }

    /// Moves what there is to be moved, once around. `clock` gives nanoseconds that never go back. Whether anything moved.
    ///
    /// # Errors
    /// When a device is gone.
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

    /// Lets go what is due; whether anything was.
    fn release(&mut self, now: i64) -> bool {
        for count in 0..RELEASE {
            let Some(due) = self.wire.poll_transmit(now) else { return count > 0 };
            if !self.devices.deliver(now, due.to, due.packet) {
                let (to, octets) = (due.to, due.packet.len());
                self.wire.handle_refusal(to, octets);
            }
        }
        true
    }

    /// When the next packet is due.
    pub fn poll_timeout(&self) -> Option<i64> {
        self.wire.poll_timeout()
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.wire.counts()
    }

    /// Ends the capture, if there is one; the number of packets in it.
    ///
    /// # Errors
    /// The write that failed.
    pub fn finish(self) -> io::Result<u64> {
        self.devices.tap.map_or(Ok(0), Tap::finish)
    }

    /// Puts the forwarder to work on a thread of its own, bound to `core` if one is given.
    ///
    /// # Errors
    /// When the process is out of threads or file descriptors.
    pub fn start(mut self, core: Option<usize>) -> io::Result<Running> {
        let (waker, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let (asks, asked) = channel();
        let work = move || {
            // Where the core is not to be had, or the slack stays, the delays are less precise and nothing else.
            let _ = core.map(pin::pin_to);
            let _ = pin::set_timer_slack(1);
            self.run(&asked, &woken).map(|()| self)
        };
        let thread = thread::Builder::new().name("wire".to_owned()).spawn(work)?;
        Ok(Running { asks, waker, thread: Some(thread) })
    }

    /// Works until it is told to stop.
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
            // What was sent before somebody asked is counted.
            self.turn(&clock::monotonic_ns)?;
            match asked {
                // Who asked may have gone in the meantime.
                Ok(Ask::Counts(answer)) => drop(answer.send(self.counts())),
                Ok(Ask::Proxy(settings, kind, is_on)) => self.wire.switch_proxy(settings, kind, is_on),
                // Who asked frees the table, which may be large.
                Ok(Ask::Owners(owners, before)) => drop(before.send(self.wire.replace_owners(owners))),
                Ok(Ask::Stop) | Err(_) => return Ok(()),
            }
        }
    }

    /// Waits as the pace says.
    fn rest(&mut self, poll: &mut Poll, woken: &UnixStream) -> io::Result<()> {
        let now = clock::monotonic_ns();
        let due = self.wire.poll_timeout().map_or(now + IDLE, |due| due.min(now + IDLE));
        let Wait::Sleep(ns) = self.pace.wait(now, due) else {
            std::hint::spin_loop();
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
            // Emptied, so that it does not wake the next time, too. Whether it was empty already does not matter.
            let mut woken = woken;
            let _ = woken.read(&mut [0; 64]);
        }
        Ok(())
    }
}

impl Devices {
    /// Hands a packet to a host; false when it refused it.
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
    /// What was done so far; `None` when the thread has ended with an error, which [`Running::stop`] tells.
    pub fn counts(&self) -> Option<Counts> {
        let (sender, counts) = channel();
        self.ask(Ask::Counts(sender));
        counts.recv().ok()
    }

    /// Lets one of the proxies work, or rest, before anything that is asked later.
    pub fn switch_proxy(&self, settings: ProxySettings, kind: ProxyKind, is_on: bool) {
        self.ask(Ask::Proxy(settings, kind, is_on));
    }

    /// Changes who owns what, as [`Wire::replace_owners`] says, for all packets that are sent after this returned. False when
    /// the thread has ended with an error, which [`Running::stop`] tells.
    pub fn replace_owners(&self, owners: Owners) -> bool {
        let (sender, before) = channel();
        self.ask(Ask::Owners(owners, sender));
        before.recv().is_ok()
    }

    /// Ends the work; the counts of all of it, and the number of packets in the capture.
    ///
    /// # Errors
    /// What made the thread or the capture end early.
    pub fn stop(mut self) -> io::Result<(Counts, u64)> {
        self.ask(Ask::Stop);
        let Some(thread) = self.thread.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let forwarder = thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of the wire panicked")))?;
        let counts = forwarder.counts();
        Ok((counts, forwarder.finish()?))
    }

    fn ask(&self, ask: Ask) {
        // A thread that is gone is noticed by the missing answer.
        let _ = self.asks.send(ask);
        let _ = (&self.waker).write(&[0]);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.ask(Ask::Stop);
            // Its counts and errors are of no use to anybody any more.
            let _ = thread.join();
        }
    }
}
