//! The packet path of a worker: frames to be sent and received frames of clients without kernel sockets.
//!
//! ```text
//!  query, QUIC packet, segment ──► put ──► (DelayedFrames) ──► FrameSender ──► flush ──► what has left
//!                       Received ◄── receive ◄── (DelayedFrames) ◄── FrameRings
//! ```
//!
//! It knows no machine and no clock of its own. A port stands for the socket that a query would have had ([`ports`]), so that the
//! machines are the same over either path.

mod delayed;
mod inward;
mod links;
mod neighbours;
pub mod ports;
pub mod streams;
#[cfg(test)]
mod tests_parked;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hashbrown::HashMap;
use ldplayer_core::{Reason, RunTime};
use ldplayer_link::Ends;
use ldplayer_net::packets::{Filter, FrameRings, FrameSender, Interface, PacketError, SenderKind};
use ldplayer_net::tun::Tun;
use ldplayer_stack::frame::{self, QueryTemplate, ip};
use ldplayer_stack::tcp::Config;

pub use self::delayed::LinkCounts;
pub use self::inward::{FrameCounts, Received, ReceivedDatagram};

use self::delayed::DelayedFrames;
use self::inward::{Inward, Scope};
use self::links::Links;
use self::neighbours::Answering;
use self::ports::Ports;
use self::streams::FrameStreams;
use crate::path::{NextHop, Packets};
use crate::quic::Outgoing;
use crate::route::Sources;
use crate::settings::Settings;
use crate::slab::Slot;
use crate::sockets::Carries;
use crate::udp::Transmit;

/// Octets of a ring, for some 20,000 frames that arrive while a worker does something else …
const RING: usize = 32 << 20;
/// … and at least for 2,500, where the window of an unpaced replay bounds what arrives: the kernel writes all of a ring in turn, and what
/// does not fit the caches of the processor costs the server's core a miss for each frame.
const SMALL_RING: usize = 4 << 20;
/// Octets of the ring for each query in flight: four frames, each in a slot above 1,600 octets. A server of TCP sends an acknowledgement and a
/// response, and the response twice more to a worker that was held up for half a second.
const EACH: usize = 4 * 1_664;

/// Queries that may wait for their stamps.
const UNSTAMPED: usize = 4_096;

/// Why the packet path cannot be opened. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum FramesError {
    /// The interface cannot be used.
    #[error(transparent)]
    Packets(#[from] PacketError),
    /// A neighbour has not answered.
    #[error(
        "{address} does not answer on {interface}, asked three times within three seconds: make sure that it is up and on that link; if it is behind a router, give the router's address on the link: --next-hop ADDRESS"
    )]
    NoAnswer {
        /// The server, or the router that leads to it.
        address: IpAddr,
        /// The name of the interface.
        interface: String,
    },
    /// Waiting for neighbour replies failed.
    #[error("cannot wait for neighbours: {0}")]
    Wait(io::Error),
}

/// What a frame on its way out carries.
pub enum Cargo {
    /// A query over UDP, from this port.
    Query(Slot, u16),
    /// A packet of QUIC, from this port.
    Quic(Outgoing, u16),
}

/// Result of queueing a frame.
pub enum Enqueued<T> {
    /// In the batch: [`Frames::flush`] tells when it has left.
    Queued,
    /// On the link, or lost there: for its client it has left, from this port.
    Left(T, u16),
}

/// What became of the first frames of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flushed {
    /// So many have left.
    pub left: usize,
    /// The device had no room for so many behind them, and they are gone.
    pub lost: usize,
}

/// Why a frame was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnqueueError {
    /// The batch is full: flush first.
    Full,
    /// It cannot be sent.
    Never(Reason),
}

/// A TAP device and its queue, which all workers share.
type Tap = (Interface, Arc<Tun>);

/// The packet path of one worker.
pub struct Frames {
    sender: FrameSender,
    /// Contents of the queued frames, in order; `None` for segments, which report nothing.
    cargo: VecDeque<Option<Cargo>>,
    /// Queries that have left and wait for the kernel's stamp, each with the number of its frame and when it was submitted; `None` where
    /// stamps are not asked for.
    unstamped: Option<Unstamped>,
    rings: FrameRings,
    /// The kernel holds frames that it refused to send because the interface is down, and they cannot be taken back: no more are sent.
    is_stuck: bool,
    outward: Outward,
    inward: Inward,
    /// The emulated link to the servers, if there is one.
    delayed: Option<Box<DelayedFrames>>,
    /// Connections over TCP.
    pub streams: FrameStreams,
    /// Answers neighbours while any worker's packet path is open.
    _answering: Option<Arc<Answering>>,
}

/// Queries without a stamp, in the order in which they left. More than the kernel keeps stamps are forgotten.
#[derive(Debug, Default)]
struct Unstamped {
    /// Frames that have left.
    left: u32,
    waiting: VecDeque<(u32, Slot, RunTime)>,
}

impl Unstamped {
    fn note(&mut self, query: Option<(Slot, RunTime)>) {
        if let Some((slot, submitted)) = query {
            if self.waiting.len() == UNSTAMPED {
                self.waiting.pop_front();
            }
            self.waiting.push_back((self.left, slot, submitted));
        }
        self.left = self.left.wrapping_add(1);
    }

    /// The query in the frame with this number. Stamps come in order, so that earlier ones are lost.
    fn take(&mut self, number: u32) -> Option<(Slot, RunTime)> {
        while let Some(&(first, slot, submitted)) = self.waiting.front() {
            // Numbers begin anew behind the last one.
            match number.wrapping_sub(first).cast_signed() {
                ..0 => return None,
                ahead => {
                    self.waiting.pop_front();
                    if ahead == 0 {
                        return Some((slot, submitted));
                    }
                }
            }
        }
        None
    }
}

/// What frames are made of.
struct Outward {
    links: Links,
    nobody: [IpAddr; 2],
    ports: Ports,
    templates: HashMap<SocketAddr, QueryTemplate, foldhash::fast::FixedState>,
}

impl Frames {
    /// Opens the packet path of one worker.
    ///
    /// # Errors
    /// The interface cannot be used.
    fn open(
        (interface, packets, tap): (&Interface, &Packets, Option<&Tap>),
        worker: usize,
        settings: &Settings,
        (links, answering): (Links, Option<Arc<Answering>>),
    ) -> Result<Self, FramesError> {
        // There are at most 256 workers, so the numbers fit.
        let [worker, workers] = [worker, settings.workers].map(|number| number as u16);
        // Where clients share the addresses of a pool, one parked connection could not be told from another by the client alone.
        let most_resting = (settings.sources == Sources::Original).then_some(streams::RESTING);
        let (ports, filter) = (Ports::of_worker(worker, workers), Filter::of_worker(worker, workers));
        Ok(Self {
            sender: match tap {
                Some((device, queue)) => FrameSender::open_tap(device, queue.clone())?,
                None => FrameSender::open(interface, packets.sender)?,
            },
            cargo: VecDeque::new(),
            unstamped: None,
            is_stuck: false,
            rings: FrameRings::open(interface, packets.answers.as_deref(), &filter, ring_octets(settings))?,
            outward: Outward { links, nobody: packets.nobody, ports, templates: HashMap::default() },
            inward: Inward::new(ports, packets.on_link().map(Scope::new)),
            delayed: packets.link.as_deref().cloned().map(|link| Box::new(DelayedFrames::new(link, settings.seed))),
            streams: FrameStreams::new(tcp_config(interface, worker, workers, settings), packets.nobody, most_resting),
            _answering: answering,
        })
    }

    /// Opens the packet path of each worker; empty if clients have sockets. On a link with other hosts, neighbours are asked for, which
    /// takes three seconds if one does not answer, and answered from now on.
    ///
    /// # Errors
    /// The interface cannot be used, or a neighbour does not answer.
    pub fn open_all(settings: &Settings) -> Result<Vec<Self>, FramesError> {
        let Some(packets) = settings.path.packets() else { return Ok(Vec::new()) };
        let interface = Interface::find(&packets.interface)?;
        let (links, answering) = meet_neighbours(&interface, packets)?;
        let tap = open_tap(packets);
        let with = (&interface, packets, tap.as_ref());
        let open = |worker| Self::open(with, worker, settings, (links.clone(), answering.clone()));
        (0..settings.workers).map(open).collect()
    }

    /// Waits up to `timeout` nanoseconds for a frame, and returns whether there is one. What the ring tells of its interface ends the wait, and the
    /// next call to send says it, too.
    pub fn wait(&self, timeout: i64) -> bool {
        self.rings.wait(timeout).unwrap_or(false)
    }

    /// Frames that wait for [`Self::flush`].
    pub fn queued(&self) -> usize {
        if self.is_stuck { 0 } else { self.sender.queued() }
    }

    /// Whether frames cross an emulated link to the servers.
    pub const fn is_delaying(&self) -> bool {
        self.delayed.is_some()
    }

    /// Whether no frame is on its way to a server, but for those in the batch.
    pub fn is_idle(&self) -> bool {
        self.delayed.as_ref().is_none_or(|delayed| delayed.is_idle())
    }

    /// When a frame has crossed the link next, so that there is something to flush or to receive.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        self.delayed.as_ref().and_then(|delayed| delayed.poll_timeout())
    }

    /// Adds the frame of a query at `now`.
    ///
    /// # Errors
    /// The batch is full, or it cannot be sent.
    pub fn put_query(
        &mut self,
        now: RunTime,
        slot: Slot,
        transmit: &Transmit<'_>,
    ) -> Result<Enqueued<Slot>, EnqueueError> {
        self.check_sender()?;
        let frame = self.sender.room().ok_or(EnqueueError::Full)?;
        let outward = &mut self.outward;
        let source = outward.source(transmit.source, transmit.server)?;
        let port = outward.ports.of(transmit.socket, Carries::Dns).ok_or(EnqueueError::Never(Reason::NoSource))?;
        let message = (transmit.id.to_be_bytes(), &transmit.wire[2..]);
        let length = outward.template(transmit.server).write(frame, source, port, message);
        let length = length.ok_or(EnqueueError::Never(Reason::BadMessage))?;
        if let Some(delayed) = &mut self.delayed {
            delayed.handle_frame(now, &ends_of_datagram(source, port, transmit.server), &frame[..length]);
            return Ok(Enqueued::Left(slot, port));
        }
        self.sender.commit(length);
        self.cargo.push_back(Some(Cargo::Query(slot, port)));
        Ok(Enqueued::Queued)
    }

    /// Adds the frame of a QUIC packet at `now`.
    ///
    /// # Errors
    /// The packet, with why it was not added.
    pub fn put_quic(
        &mut self,
        now: RunTime,
        outgoing: Outgoing,
    ) -> Result<Enqueued<Outgoing>, (Outgoing, EnqueueError)> {
        match self.write_quic(now, &outgoing) {
            Ok((Some(length), port)) => {
                self.sender.commit(length);
                self.cargo.push_back(Some(Cargo::Quic(outgoing, port)));
                Ok(Enqueued::Queued)
            }
            Ok((None, port)) => Ok(Enqueued::Left(outgoing, port)),
            Err(why) => Err((outgoing, why)),
        }
    }

    const fn check_sender(&self) -> Result<(), EnqueueError> {
        if self.is_stuck { Err(EnqueueError::Never(Reason::Unreachable)) } else { Ok(()) }
    }

    /// Writes a QUIC packet into the batch's room; returns its length, unless the link has taken it, and its port.
    fn write_quic(&mut self, now: RunTime, outgoing: &Outgoing) -> Result<(Option<usize>, u16), EnqueueError> {
        self.check_sender()?;
        let frame = self.sender.room().ok_or(EnqueueError::Full)?;
        let (outward, server) = (&self.outward, outgoing.server);
        let source = outward.source(outgoing.source, server)?;
        let carries = Carries::Quic(server.port());
        let port = outward.ports.of(outgoing.socket, carries).ok_or(EnqueueError::Never(Reason::NoSource))?;
        let (from, to) = ((source, port), (server.ip(), server.port()));
        let length = frame::udp::write(frame, outward.links.to(server.ip()), from, to, &outgoing.octets);
        let length = length.ok_or(EnqueueError::Never(Reason::BadMessage))?;
        let Some(delayed) = &mut self.delayed else { return Ok((Some(length), port)) };
        delayed.handle_frame(now, &ends_of_datagram(source, port, server), &frame[..length]);
        Ok((None, port))
    }

    /// Sends what was added, and what has crossed the link at `now`, by one system call, and returns what became of the first frames.
    ///
    /// # Errors
    /// What the kernel said to the first frame, which is given up, and all others with it if [`Self::given_up`] says so.
    pub fn flush(&mut self, now: RunTime) -> io::Result<Flushed> {
        if let Some(delayed) = &mut self.delayed {
            let count = delayed.transmit(now, &mut self.sender);
            self.cargo.extend((0..count).map(|_| None));
        }
        if self.queued() == 0 {
            return Ok(Flushed::default());
        }
        let drops = self.sender.drops();
        let result = self.sender.flush();
        let lost = (self.sender.drops() - drops) as usize;
        // AF_PACKET has given up the frame that was refused; of AF_XDP the kernel has all.
        self.is_stuck = result.is_err() && lost == 0;
        Ok(Flushed { left: result?, lost })
    }

    /// How many frames are given up when the kernel has refused one.
    pub fn given_up(&self) -> usize {
        if self.is_stuck { self.cargo.len() } else { 1 }
    }

    /// What the first frame carried that has left or was given up; once for each.
    pub fn take_cargo(&mut self) -> Option<Cargo> {
        self.cargo.pop_front().flatten()
    }

    /// Has the kernel stamp queries from now on as it hands them to the device.
    ///
    /// # Errors
    /// Senders of AF_XDP have no stamps.
    pub fn stamp_sends(&mut self) -> io::Result<()> {
        self.sender.stamp_sends()?;
        self.unstamped = Some(Unstamped::default());
        Ok(())
    }

    /// A frame has left; one with the query in `slot` was submitted at `at`.
    pub fn note_left(&mut self, query: Option<(Slot, RunTime)>) {
        if let Some(unstamped) = &mut self.unstamped {
            unstamped.note(query);
        }
    }

    /// Hands over the stamps that are there: each with a query's slot, when it was submitted, and the wall clock in nanoseconds.
    pub fn read_stamps(&mut self, mut take: impl FnMut(Slot, RunTime, i64)) {
        let Some(unstamped) = &mut self.unstamped else { return };
        // An error means that there are none, and queries without one have none in their rows.
        let _ = self.sender.read_stamps(|number, stamp_ns| {
            if let Some((slot, submitted)) = unstamped.take(number) {
                take(slot, submitted, stamp_ns);
            }
        });
    }

    /// Reads up to `most` frames that arrived, and hands what is in them to `take`, with when it arrived: `time` gives that for a stamp
    /// of the wall clock. What has a link to cross arrives when it has, if that is not later than `now`. Returns the number of frames.
    pub fn receive(
        &mut self,
        now: RunTime,
        most: usize,
        time: impl Fn(i64) -> RunTime,
        mut take: impl FnMut(&mut FrameStreams, RunTime, Received<'_>),
    ) -> usize {
        let Self { rings, inward, streams, delayed, .. } = self;
        let count = rings.read(most, |frame| {
            let at = time(frame.stamp_ns);
            if let Some(delayed) = delayed
                && let Some(ends) = inward.ends(&frame)
            {
                delayed.handle_arrival(at, &ends, &frame);
            } else {
                inward.read(&frame, at, |received| take(streams, at, received));
            }
        });
        let Some(delayed) = delayed else { return count };
        count + delayed.deliver(now, |at, frame| inward.read(frame, at, |received| take(streams, at, received)))
    }

    /// Frames that the kernel dropped because the ring was full.
    pub fn drops(&mut self) -> u64 {
        self.rings.drops()
    }

    /// What became of frames on the link, if there is one.
    pub fn link_counts(&self) -> Option<&LinkCounts> {
        self.delayed.as_ref().map(|delayed| delayed.counts())
    }

    /// Frames that were of no use.
    pub const fn counts(&self) -> &FrameCounts {
        self.inward.counts()
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("queued", &self.queued()).finish_non_exhaustive()
    }
}

impl Outward {
    /// The address to send from.
    fn source(&self, source: Option<IpAddr>, server: SocketAddr) -> Result<IpAddr, EnqueueError> {
        usable(source.unwrap_or(self.nobody[usize::from(server.is_ipv6())])).map_err(EnqueueError::Never)
    }

    fn template(&mut self, server: SocketAddr) -> &QueryTemplate {
        let links = &self.links;
        let template = || QueryTemplate::new(links.to(server.ip()), server.ip(), server.port());
        self.templates.entry(server).or_insert_with(template)
    }
}

fn ends_of_datagram(source: IpAddr, port: u16, server: SocketAddr) -> Ends {
    Ends { from: (source, port), to: (server.ip(), server.port()), protocol: ip::UDP }
}

/// Opens the queue of the TAP device through which frames may leave; `None` if another program has it, or this one lacks the right.
fn open_tap(packets: &Packets) -> Option<Tap> {
    let name = packets.queries.as_deref().filter(|_| packets.sender == SenderKind::Packet)?;
    Some((Interface::find(name).ok()?, Arc::new(Tun::open_tap(name).ok()?)))
}

/// Finds the next hops of servers, and begins to answer for clients.
fn meet_neighbours(interface: &Interface, packets: &Packets) -> Result<(Links, Option<Arc<Answering>>), FramesError> {
    let mac = packets.mac;
    match &packets.next_hop {
        NextHop::Mac(next_hop) => Ok((Links::one(mac, *next_hop), None)),
        NextHop::Asked(on_link) => {
            // A neighbour may ask back before it answers.
            let answering = Answering::start(interface, mac, &on_link.claims)?.map(Arc::new);
            let servers = neighbours::find(interface, mac, on_link)?;
            Ok((Links::each(mac, &servers), answering))
        }
    }
}

/// The size of the ring of a worker.
fn ring_octets(settings: &Settings) -> usize {
    if settings.fast { settings.window.saturating_mul(EACH).clamp(SMALL_RING, RING) } else { RING }
}

/// The settings of TCP; clients have the kernel's defaults.
fn tcp_config(interface: &Interface, worker: u16, workers: u16, settings: &Settings) -> Config {
    let (mtu, seed) = (interface.mtu, settings.seed);
    // The machine of the connections bounds those that are open; tuples in TIME_WAIT come to them.
    let max_connections = u32::MAX >> 2;
    // Linux acknowledges the first 16 segments of a connection at once, too; later ones wait for data to ride on, up to 40 ms, for which a
    // server that uses Nagle's algorithm would wait.
    let delayed_ack_ns = 0;
    Config { mtu, seed, worker, workers, max_connections, delayed_ack_ns, ..Config::default() }
}

/// Refuses an address that no packet on a link may come from: "this network", loopback, multicast and broadcast (RFC 1122
/// §3.2.1.3, RFC 4291 §2.5.3 and §2.7). The kernel drops such packets.
fn usable(source: IpAddr) -> Result<IpAddr, Reason> {
    let is_usable = match source {
        IpAddr::V4(v4) => !matches!(v4.octets()[0], 0 | 127) && !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_loopback() && !v6.is_multicast(),
    };
    is_usable.then_some(source).ok_or(Reason::ClientAddress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_of_the_query_in_its_frame_and_later_ones_are_not_touched() {
        let mut unstamped = Unstamped { left: u32::MAX, ..Unstamped::default() };
        for query in [Some((7, RunTime(1))), None, Some((8, RunTime(2))), Some((9, RunTime(3)))] {
            unstamped.note(query);
        }
        assert_eq!(unstamped.take(u32::MAX), Some((7, RunTime(1))));
        assert_eq!(unstamped.take(0), None, "a segment, of which nobody wants to know");
        assert_eq!(unstamped.take(2), Some((9, RunTime(3))), "the stamp before it is lost");
        assert_eq!((unstamped.take(1), unstamped.take(3)), (None, None));
    }

    #[test]
    fn clients_have_addresses_that_packets_may_come_from() {
        for (address, expected) in [
            ("192.0.2.1", true),
            ("240.0.0.1", true),
            ("0.1.2.3", false),
            ("127.0.0.1", false),
            ("::1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2001:db8::1", true),
            ("::", false),
            ("ff02::1", false),
        ] {
            assert_eq!(usable(address.parse().unwrap()).is_ok(), expected, "{address}");
        }
    }
}
