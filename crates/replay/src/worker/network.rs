//! The network of a worker, behind one face: the kernel's sockets, or frames on an interface.
//!
//! What is sent and what arrived is of the machines in [`Transports`], which are the same over both.

mod frames;
mod refused;
mod sockets;
mod streams;

use std::io;

use ldplayer_core::{Reason, RunTime, Transport};

use super::WorkerEnd;
use super::clock::RunClock;
use super::transports::Transports;
use crate::frames::Frames;
use crate::monitor::Monitor;
use crate::route::Route;
use crate::settings::Settings;
use crate::slab::Slot;
use crate::targets::Targets;
use crate::udp::Udp;

use self::frames::FrameNetwork;
use self::sockets::SocketNetwork;

/// Maximum number of queries of a timed replay sent by one call: it limits the error of their common timestamp to about 15 µs.
pub const TIMED_BATCH: usize = 16;
/// How long a round reads on while a query is due, in nanoseconds: what arrives must not hold the schedule back, and what is due
/// must not keep answers unread.
const READING: i64 = 1_000_000;

/// The network of a worker.
pub enum Network {
    /// The kernel's sockets.
    Sockets(Box<SocketNetwork>),
    /// Frames on an interface: clients have no sockets.
    Frames(Box<FrameNetwork>),
}

/// How long a round may read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    clock: RunClock,
    began: RunTime,
    due: i64,
}

impl Reading {
    /// From now on, with the next query `due` at that run time; `i64::MAX` for none.
    pub fn begin(clock: RunClock, due: i64) -> Self {
        Self { clock, began: clock.now(), due }
    }

    /// Whether it has read for long enough.
    fn is_over(self) -> bool {
        let now = self.clock.now();
        now.0 >= self.due && now - self.began >= READING
    }
}

/// What was read.
struct Arrived {
    /// The number of datagrams or frames, or 1 for something else.
    count: usize,
    /// When the first of the datagrams arrived.
    oldest: RunTime,
}

impl Arrived {
    const NOTHING: Self = Self { count: 0, oldest: RunTime(i64::MAX) };
}

impl Network {
    /// The network of a worker: frames where they have a way, else sockets, which are connected where `targets` are one. An unpaced replay
    /// sends up to `fast_batch` queries over UDP at once. With `stamps`, the kernel timestamps queries over UDP.
    ///
    /// # Errors
    /// The process is out of file descriptors, or frames cannot be stamped.
    pub fn new(
        clock: RunClock,
        settings: &Settings,
        (frames, targets): (Option<Frames>, Targets),
        fast_batch: usize,
        stamps: bool,
    ) -> io::Result<Self> {
        Ok(match frames {
            Some(frames) => Self::Frames(Box::new(FrameNetwork::new(clock, settings, frames, stamps)?)),
            None => Self::Sockets(Box::new(SocketNetwork::new(clock, settings, targets, fast_batch, stamps)?)),
        })
    }

    /// Whether the kernel reports send times socket by socket, in sending order.
    pub const fn stamps_by_socket(&self) -> bool {
        matches!(self, Self::Sockets(_))
    }

    /// Sends queued queries over UDP and returns how many have left. `hold` is called when the next ones are ready to be sent.
    pub fn transmit(&mut self, transports: &mut Transports, hold: impl FnMut()) -> usize {
        match self {
            Self::Sockets(sockets) => sockets.transmit(&mut transports.udp, hold),
            Self::Frames(frames) => frames.transmit(transports, hold),
        }
    }

    /// Carries out actions of connections, and sends their octets. Returns the number of actions and of sends.
    pub fn drive(&mut self, transports: &mut Transports) -> usize {
        match self {
            Self::Sockets(sockets) => sockets.drive(transports),
            Self::Frames(frames) => frames.drive(transports),
        }
    }

    /// Waits up to `timeout` nanoseconds for something to read, and returns the number of ready sockets. A ring is looked at without a
    /// system call.
    ///
    /// # Errors
    /// The error of the wait itself.
    pub fn wait(&mut self, timeout: i64) -> io::Result<usize> {
        match self {
            Self::Sockets(sockets) => sockets.wait(timeout),
            Self::Frames(frames) => Ok(frames.wait(timeout)),
        }
    }

    /// Reads up to `most` datagrams or frames from what [`Self::wait`] found `ready`. Returns their number.
    pub fn receive(&mut self, transports: &mut Transports, ready: usize, most: usize, reading: Reading) -> usize {
        match self {
            Self::Sockets(sockets) => sockets.receive(transports, ready, most, reading),
            Self::Frames(frames) => frames.receive(transports, most),
        }
    }

    /// Reads everything that had arrived by `until`, as long as there is time; later arrivals do not prolong it. Returns how much that was,
    /// and whether it was all.
    ///
    /// # Errors
    /// The error of the wait itself.
    pub fn receive_until(
        &mut self,
        transports: &mut Transports,
        until: RunTime,
        reading: Reading,
    ) -> io::Result<(usize, bool)> {
        match self {
            Self::Sockets(sockets) => sockets.receive_until(transports, until, reading),
            Self::Frames(frames) => Ok(frames.receive_until(transports, until, reading)),
        }
    }

    /// When the network has something to do next, whatever arrives, in nanoseconds of run time.
    pub fn deadline(&self, now: RunTime) -> i64 {
        match self {
            Self::Sockets(_) => i64::MAX,
            Self::Frames(frames) => frames.deadline(now),
        }
    }

    /// Whether a query waits to leave that the machine does not know to be queued.
    pub fn is_sending(&self) -> bool {
        match self {
            Self::Sockets(_) => false,
            Self::Frames(frames) => frames.is_sending(),
        }
    }

    /// Whether there is more to read of connections, which is not signalled again.
    pub fn has_unread(&self) -> bool {
        match self {
            Self::Sockets(sockets) => sockets.has_unread(),
            Self::Frames(_) => false,
        }
    }

    /// Whether what arrives must be answered by this thread soon: the kernel acknowledges for its sockets, and nobody else for clients
    /// without any.
    pub fn is_acknowledging(&self) -> bool {
        match self {
            Self::Sockets(_) => false,
            Self::Frames(frames) => frames.is_acknowledging(),
        }
    }

    /// Whether it can be looked at what arrived without a system call.
    pub const fn is_ring(&self) -> bool {
        matches!(self, Self::Frames(_))
    }

    /// Whether sent frames first cross a link that this process emulates.
    pub fn is_delaying(&self) -> bool {
        match self {
            Self::Sockets(_) => false,
            Self::Frames(frames) => frames.is_delaying(),
        }
    }

    /// Opens the socket of a new client in advance, where clients have any.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn open(&mut self, route: &Route, transport: Transport) -> io::Result<()> {
        match self {
            Self::Sockets(sockets) => sockets.open(route, transport),
            Self::Frames(_) => Ok(()),
        }
    }

    /// Closes all connections towards their servers, as the kernel does when a process ends, and writes their counts into `end`.
    /// What is lost while connections are closed is no loss of the run's.
    pub fn close(mut self, transports: &mut Transports, monitor: &Monitor, end: &mut WorkerEnd) {
        match &mut self {
            Self::Sockets(sockets) => {
                sockets.note_end(end);
                sockets.close(transports);
            }
            Self::Frames(frames) => {
                frames.note_losses(end);
                frames.close(transports, monitor);
                frames.note_end(end);
            }
        }
    }
}

/// Ends a query that the kernel does not send. One without a route to its server has failed, as it would over TCP.
fn refuse(udp: &mut Udp, slot: Slot, reason: Reason, now: RunTime) {
    if reason == Reason::Unreachable {
        udp.handle_unreachable(slot, now);
    } else {
        udp.handle_unsent(slot, reason);
    }
}
