//! Waits for sockets with nanosecond timeouts (epoll_pwait2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::Timespec;

pub use crate::ready::{Interest, Ready};

/// Events taken from the kernel by one wait.
pub const EVENTS: usize = 256;

/// A set of sockets waited for together. Each is known by a number of the caller's.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

// SAFETY: the events hold numbers of the caller's. That the kernel's union could hold a pointer instead is all that speaks
// against moving them.
unsafe impl Send for Poll {}

impl Poll {
    /// An empty set.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Waits for `socket` to become readable from now on, level triggered.
    ///
    /// # Errors
    /// When the kernel refuses it, for example over `fs.epoll.max_user_watches`.
    pub fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// Waits for `socket` to become readable or writable, told once each time that it becomes so (edge triggered): the caller
    /// reads and writes until the kernel has no more.
    ///
    /// # Errors
    /// When the kernel refuses it, for example over `fs.epoll.max_user_watches`.
    pub fn add_edge(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), flags)?)
    }

    /// Waits for `socket`, which is in the set already, as `interest` says from now on.
    ///
    /// # Errors
    /// When it is not in the set.
    pub fn change(&self, socket: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let flags = match interest {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::Both => EventFlags::IN | EventFlags::OUT,
            Interest::Nothing => EventFlags::empty(),
        };
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(token), flags)?)
    }

    /// Stops waiting for `socket`.
    ///
    /// # Errors
    /// When it is not in the set.
    pub fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Waits up to `timeout_ns` (0: not at all) and then yields the ready sockets. A signal ends the wait early.
    ///
    /// # Errors
    /// Never in a correct program; what the kernel says otherwise.
    pub fn wait(&mut self, timeout_ns: i64) -> io::Result<impl Iterator<Item = Ready>> {
        let timeout = Timespec { tv_sec: timeout_ns / 1_000_000_000, tv_nsec: timeout_ns % 1_000_000_000 };
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // The events are packed: fields are copied out before use.
        Ok(self.events.iter().map(|&epoll::Event { flags, data }| Ready {
            token: data.u64(),
            error: flags.contains(EventFlags::ERR),
            readable: flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP),
            writable: flags.contains(EventFlags::OUT),
            hung_up: flags.intersects(EventFlags::RDHUP | EventFlags::HUP),
        }))
    }
}

/// Wakes a thread that waits in [`Poll::wait`].
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    /// One that has not been used; to be added to the set of the thread.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Ends the wait of the thread, or its next one.
    pub fn wake(&self) {
        // It fails only when it was used 2^64 times without a look, and then the thread is awake.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Lets the next wait be one.
    pub fn clear(&self) {
        // If nobody has woken it, there is nothing to read.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl task::Wake for Wake {
    fn wake(self: Arc<Self>) {
        Self::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Self::wake(self);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_readable_socket_is_told_by_its_number() {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut poll = Poll::new().unwrap();
        poll.add(&a, 7).unwrap();
        assert_eq!(poll.wait(0).unwrap().count(), 0);
        b.send_to(b"x", a.local_addr().unwrap()).unwrap();
        let ready: Vec<_> = poll.wait(1_000_000_000).unwrap().collect();
        assert_eq!(ready, [Ready { token: 7, error: false, readable: true, writable: false, hung_up: false }]);
        poll.change(&a, 8, Interest::Both).unwrap();
        assert_eq!(poll.wait(0).unwrap().next().map(|ready| ready.token), Some(8));
        a.recv(&mut [0]).unwrap();
        poll.change(&a, 8, Interest::Read).unwrap();
        assert_eq!(poll.wait(0).unwrap().count(), 0);
        poll.change(&a, 8, Interest::Write).unwrap();
        assert_eq!(poll.wait(0).unwrap().count(), 1);
        poll.remove(&a).unwrap();
        assert_eq!(poll.wait(0).unwrap().count(), 0);
    }

    #[test]
    fn an_edge_is_told_once() {
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut poll = Poll::new().unwrap();
        poll.add_edge(&a, 5).unwrap();
        let ready = |poll: &mut Poll| poll.wait(0).unwrap().next().map(|ready| (ready.readable, ready.hung_up));
        assert_eq!(ready(&mut poll), Some((false, false)));
        assert_eq!(ready(&mut poll), None);
        std::io::Write::write_all(&mut &b, b"x").unwrap();
        assert_eq!(ready(&mut poll), Some((true, false)));
        assert_eq!(ready(&mut poll), None);
        drop(b);
        assert_eq!(ready(&mut poll), Some((true, true)));
    }

    #[test]
    fn a_waiting_thread_is_woken() {
        let (mut poll, wake) = (Poll::new().unwrap(), Wake::new().unwrap());
        poll.add(&wake, 3).unwrap();
        assert_eq!(poll.wait(0).unwrap().count(), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| wake.wake());
            let woken = poll.wait(20_000_000_000).unwrap().next();
            assert_eq!(woken, Some(Ready { token: 3, error: false, readable: true, writable: false, hung_up: false }));
        });
        wake.clear();
        assert_eq!(poll.wait(0).unwrap().count(), 0);
    }
}
