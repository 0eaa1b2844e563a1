//! The meta-DNS-server: one process that answers for every zone of a set as the zone's own servers would.
//!
//! The destination address of a query selects the zones: those whose name servers have it. So one process on a host that owns all these
//! addresses is the whole hierarchy, without views and without rewriting packets. A [`Server`] has one thread (a worker) per core; each has
//! sockets of its own for the same addresses (SO_REUSEPORT), and its own connections and counters. For a query, nothing is allocated,
//! locked or logged.

pub mod answers;
pub mod counters;
pub mod coverage;
mod encrypted;
pub mod faults;
pub mod forecast;
pub mod history;
pub mod identity;
pub mod index;
pub mod lame;
mod listening;
mod marks;
pub mod notify;
mod options;
mod responder;
pub mod room;
pub mod set;
mod shared;
mod stream;
mod sums;
pub mod tcp;
mod transfer;
mod udp;
pub mod unknown;
pub mod versions;
mod worker;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ldplayer_net::{clock, limits, pin, settings};
pub use ldplayer_zone::UDP_SIZE;
use rustls::ServerConfig;

use crate::stock::StockError;
use answers::{Answers, Chooser, Clock};
use coverage::Coverage;
use encrypted::{Bell, Host};
use faults::{Faults, Maker};
use listening::Listening;
use marks::Marks;
use responder::Responder;
use room::Room;
use set::ZoneSet;
use shared::{Current, Shared};
use worker::Worker;

/// The port of DNS.
pub const PORT: u16 = 53;
/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen on. Unspecified ones mean all addresses of this host.
    pub listen: Vec<SocketAddr>,
    /// Where to listen for encrypted queries.
    pub encrypted: Option<Encrypted>,
    /// Whether every address serves all zones.
    pub everywhere: bool,
    /// Number of threads, at least 1.
    pub workers: usize,
    /// Maximum number of connections over all workers.
    pub connections: usize,
    /// Idle timeout of connections, in nanoseconds.
    pub idle_ns: i64,
    /// Maximum UDP answer size in octets, at least 512. Above [`UDP_SIZE`], answers may be fragmented.
    pub udp_size: u16,
    /// Whether to note which records are never used.
    pub marks: bool,
    /// Faults to make on purpose.
    pub faults: Option<Arc<Faults>>,
    /// Whether zones may be transferred over connections.
    pub transfers: bool,
    /// Which versions of record sets answers have.
    pub answers: Answers,
    /// The seed for the random choice of versions.
    pub seed: u64,
    /// The clock of their recording.
    pub clock: Arc<Clock>,
}

/// Where a server listens for encrypted queries.
#[derive(Clone, Debug)]
pub struct Encrypted {
    /// For TLS (RFC 7858).
    pub dot: Vec<SocketAddr>,
    /// For HTTP/2, and with the same port of UDP for HTTP/3 (RFC 8484).
    pub doh: Vec<SocketAddr>,
    /// For QUIC (RFC 9250).
    pub doq: Vec<SocketAddr>,
    /// The certificate and all else.
    pub config: Arc<ServerConfig>,
}

impl Default for Options {
    /// All addresses, port 53, zones by address, one thread per core.
    fn default() -> Self {
        let workers = pin::allowed_cores().map_or(1, |cores| cores.len().max(1));
        Self {
            listen: everything(PORT),
            encrypted: None,
            everywhere: false,
            workers,
            connections: tcp::CONNECTIONS,
            idle_ns: tcp::IDLE_NS,
            udp_size: UDP_SIZE,
            marks: false,
            faults: None,
            transfers: false,
            answers: Answers::default(),
            seed: 0,
            clock: Arc::default(),
        }
    }
}

/// All addresses of this host, of its address families.
pub fn everything(port: u16) -> Vec<SocketAddr> {
    let v6 = settings::has_ipv6().then_some((Ipv6Addr::UNSPECIFIED, port).into());
    std::iter::once((Ipv4Addr::UNSPECIFIED, port).into()).chain(v6).collect()
}

/// The addresses of this host that no other reaches: 127.0.0.1, and ::1 where the host has it (`disable_ipv6` takes it away).
pub fn loopback(port: u16) -> Vec<SocketAddr> {
    let v6 = std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok().then_some((Ipv6Addr::LOCALHOST, port).into());
    std::iter::once((Ipv4Addr::LOCALHOST, port).into()).chain(v6).collect()
}

/// Why a server cannot start. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process listens on the address.
    #[error("{0}; stop it, or choose another address with --listen ADDRESS:PORT")]
    Taken(StockError),
    /// Listening on the address fails.
    #[error("cannot listen on {address}: {source}{}", advice(source, *address))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread or file descriptor is not available.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
}

fn advice(error: &io::Error, address: SocketAddr) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied if address.port() < 1024 => {
            "; ports below 1024 need root: run as root or in a testbed, or choose another port with --listen"
        }
        io::ErrorKind::AddrNotAvailable => "; no interface has this address: see `ldplayer testbed`",
        _ => "",
    }
}

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    everywhere: bool,
    udp_size: u16,
    transfers: bool,
    /// Which versions answers have, unless those of the zone files.
    chooser: Option<Chooser>,
    /// When it began, in nanoseconds of CLOCK_MONOTONIC.
    begun_ns: i64,
    room: Arc<Room>,
    wakes: Vec<Waker>,
    threads: Vec<JoinHandle<()>>,
    listening: Listening,
}

impl Server {
    /// Opens the sockets in the network namespace of the calling thread, and starts the workers.
    ///
    /// # Errors
    /// An address cannot be listened on, or is in use.
    pub fn start(set: ZoneSet, options: &Options) -> Result<Self, ServeError> {
        // Connections need descriptors; the limit is raised as far as allowed.
        let _ = limits::raise_nofile();
        let marks = options.marks.then(|| Arc::new(Marks::new(&set)));
        let workers = options.workers.max(1);
        let (sockets, listening) = listening::open(options, workers)?;
        let current = Current { set: Arc::new(set), marks, faults: options.faults.clone() };
        let shared = Arc::new(Shared::new(current));
        let begun_ns = clock::monotonic_ns();
        let Options { answers, seed, .. } = *options;
        let chooser = Chooser { answers, seed, clock: Arc::clone(&options.clock), begun_ns };
        let mut server = Self {
            shared,
            everywhere: options.everywhere,
            udp_size: options.udp_size,
            transfers: options.transfers,
            chooser: Some(chooser).filter(|_| answers != Answers::Fixed),
            begun_ns,
            room: Arc::new(Room::new(options.connections)),
            wakes: Vec::new(),
            threads: Vec::new(),
            listening,
        };
        for sockets in sockets.workers {
            server.start_worker(sockets, options.idle_ns).map_err(ServeError::Worker)?;
        }
        if let Some((sockets, config)) = sockets.encrypted {
            server.start_encrypted(sockets, config, options.idle_ns).map_err(ServeError::Worker)?;
        }
        Ok(server)
    }

    fn start_worker(&mut self, sockets: worker::Sockets, idle_ns: i64) -> io::Result<()> {
        let (responder, shared) = (self.responder(), Arc::clone(&self.shared));
        let (mut worker, wake) = Worker::new(sockets, &self.room, idle_ns, responder, shared)?;
        self.start_thread(wake, move || worker.run())
    }

    /// Starts the thread of HTTP and QUIC.
    fn start_encrypted(
        &mut self,
        sockets: encrypted::Sockets,
        config: Arc<ServerConfig>,
        idle_ns: i64,
    ) -> io::Result<()> {
        let (room, shared, bell) = (Arc::clone(&self.room), Arc::clone(&self.shared), Arc::<Bell>::default());
        let (responder, epoch, wake) = (self.responder(), shared.epoch(), Arc::clone(&bell).into());
        let idle = Duration::from_nanos(idle_ns.unsigned_abs());
        let host = Host { room, bell, idle, responder, shared, epoch };
        self.start_thread(wake, move || encrypted::run(sockets, &config, host))
    }

    /// What answers in the next thread.
    fn responder(&self) -> Responder {
        let maker = |faults| Maker::new(faults, self.threads.len(), self.begun_ns);
        let current = self.shared.current();
        Responder::new(current.clone(), self.everywhere, self.udp_size)
            .with_faults(current.faults.clone().map(maker))
            .with_answers(self.chooser.clone())
            .with_transfers(self.transfers)
    }

    fn start_thread(&mut self, wake: Waker, run: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        shared.begin();
        let run = move || {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            shared.end(match ended {
                Ok(ended) => ended.err().map(|error| error.to_string()),
                Err(_) => Some("it panicked".to_owned()),
            });
        };
        let name = format!("serve-{}", self.threads.len());
        self.threads.push(thread::Builder::new().name(name).spawn(run)?);
        self.wakes.push(wake);
        Ok(())
    }

    /// The addresses that it listens on, with ports.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening.plain
    }

    /// What encrypted queries come over, with the addresses that it listens on for them.
    pub fn listening_encrypted(&self) -> impl Iterator<Item = (&'static str, &[SocketAddr])> {
        let Listening { dot, doh, doq, .. } = &self.listening;
        let all = [("TLS", &dot[..]), ("HTTPS", &doh[..]), ("QUIC", &doq[..])];
        all.into_iter().filter(|(_, addresses)| !addresses.is_empty())
    }

    /// The zones that it currently serves.
    pub fn set(&self) -> Arc<ZoneSet> {
        self.shared.current().set
    }

    /// Replaces the zones, and the faults if others are given; a server that began without any makes none. Waiting queries are answered by the old
    /// or the new set. Returns when all workers have the new one.
    pub fn replace(&self, mut set: ZoneSet, faults: Option<Arc<Faults>>) {
        let current = self.shared.current();
        if self.transfers {
            set.remember(&current.set);
        }
        let set = Arc::new(set);
        let marks = current.marks.map(|_| Arc::new(Marks::new(&set)));
        let faults = faults.or(current.faults);
        let old = self.shared.replace(Current { set: Arc::clone(&set), marks: marks.clone(), faults });
        self.call();
        // No worker uses the old marks any more.
        if let (Some(marks), Some(before)) = (marks, old.marks) {
            marks.take_over(&set, &before, &old.set);
        }
    }

    /// The counters so far.
    pub fn coverage(&self) -> Coverage {
        self.call();
        self.report()
    }

    /// Why a worker has ended by itself, if one has.
    pub fn failure(&self) -> Option<String> {
        self.shared.sums().failure.clone()
    }

    /// Stops the server and returns the final report.
    pub fn stop(mut self) -> Coverage {
        self.end();
        self.report()
    }

    /// The coverage report so far.
    fn report(&self) -> Coverage {
        let current = self.shared.current();
        Coverage::of(&current.set, current.marks.as_deref(), &self.shared.sums())
    }

    fn call(&self) {
        self.shared.call(|| self.wakes.iter().for_each(Waker::wake_by_ref));
    }

    fn end(&mut self) {
        self.shared.stop();
        self.wakes.iter().for_each(Waker::wake_by_ref);
        // A panic has already been reported.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
