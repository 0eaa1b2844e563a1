//! Figures of a run while it lasts, for Prometheus: a small HTTP endpoint and what it says.
//!
//! ```text
//! engine's counts ──► snapshot ──► text ──► GET /metrics
//! rows (recorder) ──► latencies ──┘
//! ```
//!
//! The endpoint asks for a [`Snapshot`] only when somebody asks it. Whoever connects has [`PATIENCE`] to ask and to read, and at most
//! [`CLIENTS`] are served at once: a client that says nothing or reads nothing holds neither the others nor the run.

mod text;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ldplayer_core::histogram::Histogram;
use ldplayer_core::{Outcome, Status};
use serde::{Deserialize, Serialize};

/// How long a client may take from connecting to having read its answer.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Clients served at once; those above are closed at once.
pub const CLIENTS: usize = 8;
/// Octets of a request that are read at most.
const REQUEST: usize = 8 << 10;
/// How often the endpoint looks for clients.
const LOOK: Duration = Duration::from_millis(20);
/// Octets written between two looks at the clock.
const CHUNK: usize = 16 << 10;

/// The figures at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Seconds since run time 0.
    pub run_s: f64,
    /// Queries read from the trace.
    pub read: u64,
    /// The accounts of each worker.
    pub workers: Vec<WorkerFigures>,
    /// The agent of each worker; empty on one host.
    #[serde(default)]
    pub agents: Vec<String>,
    /// Connections of all workers.
    pub connections: ConnectionFigures,
}

/// The accounts of one worker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the words of run.json")]
pub struct WorkerFigures {
    pub sent: u64,
    pub answered: u64,
    pub timed_out: u64,
    pub failed: u64,
    pub not_sent: u64,
    pub late: u64,
    pub stray: u64,
    /// The greatest lateness of its last period, in seconds.
    pub lag_s: f64,
}

/// The accounts of connections so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the words of run.json")]
pub struct ConnectionFigures {
    pub open: u64,
    pub opened: u64,
    pub failed: u64,
    pub resumed: u64,
    pub closed_by_client: u64,
    pub closed_by_server: u64,
    /// Queries sent again on a new connection.
    pub resent: u64,
}

impl Snapshot {
    /// Adds what the workers of an agent did.
    pub fn add(&mut self, agent: &str, of: &Self) {
        self.agents.extend(of.workers.iter().map(|_| agent.to_owned()));
        self.workers.extend(&of.workers);
        let (sum, more) = (&mut self.connections, &of.connections);
        for (sum, count) in [
            (&mut sum.open, more.open),
            (&mut sum.opened, more.opened),
            (&mut sum.failed, more.failed),
            (&mut sum.resumed, more.resumed),
            (&mut sum.closed_by_client, more.closed_by_client),
            (&mut sum.closed_by_server, more.closed_by_server),
            (&mut sum.resent, more.resent),
        ] {
            *sum += count;
        }
    }
}

/// Upper bounds of the buckets of latency, in microseconds; above the last there is one without a bound.
const BUCKETS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000,
];

/// Latencies of answered queries, from sent, and attempts of clients that react, counted by whoever sees the rows.
#[derive(Debug, Default)]
pub struct Latencies {
    /// Attempts that have ended: the first ones of their lookups, and retries.
    attempts: [AtomicU64; 2],
    /// Not cumulative; the last one is without a bound.
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_ns: AtomicU64,
    /// The same, finer. One thread counts, and another asks once a second.
    fine: Mutex<Histogram>,
}

/// Latencies so far, as they travel from the host that counts them to the one that adds up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCounts {
    /// Attempts that have ended: the first ones of their lookups, and retries.
    #[serde(default)]
    pub attempts: [u64; 2],
    /// As the endpoint has them, not cumulative.
    pub buckets: Vec<u64>,
    /// The sum of all.
    pub sum_ns: u64,
    /// An HDR histogram in its V2 format.
    pub hdr: Vec<u8>,
}

impl Latencies {
    /// Counts the answered queries and the attempts among these rows.
    pub fn observe(&self, rows: &[Outcome]) {
        for number in rows.iter().filter_map(|row| row.attempt) {
            self.attempts[usize::from(number > 0)].fetch_add(1, Ordering::Relaxed);
        }
        let answered = rows.iter().filter(|row| row.status == Status::Answered && row.attempt.is_none());
        let mut fine = self.fine.lock().unwrap_or_else(PoisonError::into_inner);
        for (sent, came) in answered.filter_map(|row| row.sent.or(row.submitted).zip(row.answered)) {
            let ns = (came - sent).max(0) as u64;
            let bucket = BUCKETS_US.partition_point(|&bound| bound * 1_000 < ns);
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
            self.sum_ns.fetch_add(ns, Ordering::Relaxed);
            fine.record(ns as i64);
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> LatencyCounts {
        LatencyCounts {
            attempts: [0, 1].map(|which: usize| self.attempts[which].load(Ordering::Relaxed)),
            buckets: self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
            hdr: self.fine.lock().unwrap_or_else(PoisonError::into_inner).to_bytes(),
        }
    }

    /// The latencies so far, with three significant digits.
    pub fn fine(&self) -> Histogram {
        self.fine.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows what several hosts have counted so far, in place of what was shown before. Returns the histogram of all.
    pub fn show<'a>(&self, counted: impl Iterator<Item = &'a LatencyCounts>) -> Histogram {
        let (mut buckets, mut sum_ns, mut fine) = ([0; BUCKETS_US.len() + 1], 0, Histogram::new());
        let mut attempts = [0; 2];
        for counts in counted {
            attempts.iter_mut().zip(counts.attempts).for_each(|(sum, count)| *sum += count);
            buckets.iter_mut().zip(&counts.buckets).for_each(|(sum, count)| *sum += count);
            sum_ns += counts.sum_ns;
            Histogram::from_bytes(&counts.hdr).iter().for_each(|of_host| fine.merge(of_host));
        }
        self.buckets.iter().zip(buckets).for_each(|(bucket, sum)| bucket.store(sum, Ordering::Relaxed));
        self.attempts.iter().zip(attempts).for_each(|(shown, sum)| shown.store(sum, Ordering::Relaxed));
        self.sum_ns.store(sum_ns, Ordering::Relaxed);
        fine
    }
}

/// A socket that will serve figures. Bound early, since a run may enter a namespace in which nobody could ask it.
#[derive(Debug)]
pub struct Listener(TcpListener);

/// Serves figures until it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens on an address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is taken, or not one of this host.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves what `snapshot` says, with the latencies seen, in threads of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn serve(
        self,
        latencies: Arc<Latencies>,
        snapshot: impl Fn() -> Snapshot + Send + Sync + 'static,
    ) -> io::Result<Endpoint> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, page) = (Arc::clone(&stop), Arc::new(move || text::exposition(&snapshot(), &latencies)));
        let thread = thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || accept(&self.0, &stopped, &page))?;
        Ok(Endpoint { stop, thread: Some(thread) })
    }
}

impl Drop for Endpoint {
    /// Takes no more clients. Those that are being served have their answer by [`PATIENCE`] or lose it.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has nothing left to end.
        self.thread.take().map(JoinHandle::join);
    }
}

fn accept<P: Fn() -> String + Send + Sync + 'static>(listener: &TcpListener, stop: &AtomicBool, page: &Arc<P>) {
    let served = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((client, _)) if served.load(Ordering::Relaxed) < CLIENTS => {
                let (place, page) = (Place::take(&served), Arc::clone(page));
                let thread = thread::Builder::new().name("metrics-client".to_owned());
                // Without a thread the client goes unserved, and may ask again.
                let _ = thread.spawn(move || {
                    let _place = place;
                    // What a client does to itself is its own affair.
                    let _ = serve(client, Instant::now() + PATIENCE, &*page);
                });
            }
            Ok(_) => {}
            // Nobody there, or nobody any more.
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// One of the places for clients; dropping it gives it back.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(served: &Arc<AtomicUsize>) -> Self {
        served.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(served))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads one request and answers it, both before `until`.
fn serve(mut client: TcpStream, until: Instant, page: &impl Fn() -> String) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let request = read_head(&mut client, until)?;
    let mut words = request.split(|&octet| octet == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|&octet| octet == b'?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        (b"GET", b"/metrics") => ("200 OK", page()),
        (b"GET", _) => ("404 Not Found", "the figures are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    for chunk in [head.as_bytes()].into_iter().chain(body.as_bytes().chunks(CHUNK)) {
        write_until(&mut client, chunk, until)?;
    }
    Ok(())
}

/// The head of a request, up to the empty line.
fn read_head(client: &mut TcpStream, until: Instant) -> io::Result<Vec<u8>> {
    let (mut head, mut octets) = (Vec::new(), [0; 1_024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        client.set_read_timeout(Some(left(until)?))?;
        match client.read(&mut octets)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count if head.len() + count > REQUEST => return Err(io::ErrorKind::InvalidData.into()),
            count => head.extend_from_slice(&octets[..count]),
        }
    }
    Ok(head)
}

fn write_until(client: &mut TcpStream, mut octets: &[u8], until: Instant) -> io::Result<()> {
    while !octets.is_empty() {
        client.set_write_timeout(Some(left(until)?))?;
        match client.write(octets)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => octets = &octets[count..],
        }
    }
    Ok(())
}

/// The time that is left; never the zero that would mean for ever.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
