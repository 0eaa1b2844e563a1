//! Neighbours on a link with other hosts: asks for next hops before a run, and answers for the clients' addresses while it lasts.
//!
//! A thread answers, not a worker: a worker ends with its own clients, while neighbours still ask for the clients of others.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ldplayer_core::{Cidr, RunTime};
use ldplayer_net::clock;
use ldplayer_net::packets::{BATCH, Filter, Frame, FrameRing, FrameSender, Interface, PacketError, SenderKind};
use ldplayer_net::poll::{Poll, Wake};
use ldplayer_stack::frame::{Arp, Content, Discovery, Mac, Transport};
use ldplayer_stack::neighbours::{Asking, Neighbour, Standing, answer_arp, answer_discovery};

use super::FramesError;
use super::inward::contents;
use crate::path::OnLink;

/// Octets of the rings: for some thousand questions.
const RING: usize = 4 << 20;
/// Number of the VLAN in a tag; 0 stands for none (IEEE 802.1Q).
const VLAN: u16 = 0x0fff;
/// What the answering thread waits for.
const QUESTIONS: u64 = 0;
const END: u64 = 1;
/// Longest wait at once, in nanoseconds.
const LONG: i64 = 3_600_000_000_000;

/// What neighbours say to each other.
enum Said {
    Arp(Arp),
    /// With the MAC address that it came from.
    Discovery(Mac, Discovery),
}

impl Said {
    /// Reads a frame of the link itself, not of a VLAN on it.
    fn read(frame: &Frame<'_>) -> Option<Self> {
        if frame.is_outgoing || frame.vlan.is_some_and(|tag| tag & VLAN != 0) {
            return None;
        }
        let (from, content) = contents(frame).ok()?;
        match content {
            Content::Arp(arp) => Some(Self::Arp(arp)),
            Content::Transport(_, _, Transport::Discovery(message)) => Some(Self::Discovery(from, message)),
            _ => None,
        }
    }

    /// Writes the answer from `mac`, if it asks for an address in these blocks.
    fn answer(&self, mac: Mac, claims: &[Cidr], frame: &mut [u8]) -> Option<usize> {
        let is_ours = |address: IpAddr| claims.iter().any(|block| block.contains(address));
        match self {
            Self::Arp(arp) => answer_arp(arp, mac, None, |target| is_ours(target.into()), frame),
            Self::Discovery(asker, message) => {
                answer_discovery(message, *asker, mac, None, |target| is_ours(target.into()), frame)
            }
        }
    }
}

/// The servers of a link, each with the MAC address of its next hop.
///
/// # Errors
/// The interface cannot be used, or a neighbour does not answer within three seconds.
pub fn find(interface: &Interface, mac: Mac, on_link: &OnLink) -> Result<Vec<(IpAddr, Mac)>, FramesError> {
    let mut asked: Vec<(IpAddr, Neighbour)> = Vec::new();
    for &(_, hop) in &on_link.hops {
        let asker = on_link.askers[usize::from(hop.is_ipv6())];
        if asked.iter().all(|&(address, _)| address != hop) {
            asked.extend(Neighbour::new(hop, asker, mac, Asking::default()).map(|neighbour| (hop, neighbour)));
        }
    }
    ask(interface, &mut asked)?;
    let known = on_link.hops.iter().filter_map(|&(server, hop)| {
        let (_, neighbour) = asked.iter().find(|&&(address, _)| address == hop)?;
        if let Standing::Known(mac) = neighbour.standing() { Some((server, mac)) } else { None }
    });
    Ok(known.collect())
}

/// Asks until all neighbours are known.
fn ask(interface: &Interface, asked: &mut [(IpAddr, Neighbour)]) -> Result<(), FramesError> {
    let mut sender = FrameSender::open(interface, SenderKind::Packet)?;
    let mut ring = FrameRing::open(interface, &Filter::neighbours(), RING)?;
    let mut poll = Poll::new().map_err(FramesError::Wait)?;
    poll.add(&ring, QUESTIONS).map_err(FramesError::Wait)?;
    loop {
        let mut is_waiting = false;
        for (address, neighbour) in asked.iter_mut() {
            put_question(&mut sender, neighbour);
            match neighbour.standing() {
                Standing::Known(_) => {}
                Standing::Failed => {
                    return Err(FramesError::NoAnswer { address: *address, interface: interface.name.clone() });
                }
                Standing::Unknown | Standing::Asking => is_waiting = true,
            }
        }
        if !is_waiting {
            return Ok(());
        }
        // A question that the kernel refuses is one without an answer.
        let _ = flush(&mut sender);
        let next = asked.iter().filter_map(|(_, neighbour)| neighbour.poll_timeout()).min();
        let wait = next.map_or(0, |next| (next.0 - clock::monotonic_ns()).max(0));
        poll.wait(wait).map_err(FramesError::Wait)?.for_each(drop);
        hear(&mut ring, asked);
    }
}

/// Adds the question for a neighbour, if one is due.
fn put_question(sender: &mut FrameSender, neighbour: &mut Neighbour) {
    let now = RunTime(clock::monotonic_ns());
    neighbour.want(now);
    if sender.queued() == BATCH {
        let _ = flush(sender);
    }
    if let Some(frame) = sender.room()
        && let Some(length) = neighbour.poll_transmit(now, frame, None)
    {
        sender.commit(length);
    }
}

/// Reads the replies of neighbours, and notes their addresses.
fn hear(ring: &mut FrameRing, asked: &mut [(IpAddr, Neighbour)]) {
    // Errors of the ring, such as that the interface went down, show in that there are no answers.
    let _ = ring.take_error();
    let now = RunTime(clock::monotonic_ns());
    ring.read(BATCH, |frame| {
        let Some(said) = Said::read(&frame) else { return };
        for (_, neighbour) in asked.iter_mut() {
            match &said {
                Said::Arp(arp) => neighbour.handle_arp(now, arp),
                Said::Discovery(_, message) => neighbour.handle_discovery(now, message),
            }
        }
    });
}

/// Sends what waits, as long as the kernel takes any of it.
fn flush(sender: &mut FrameSender) -> std::io::Result<()> {
    while sender.queued() > 0 && sender.flush()? > 0 {}
    Ok(())
}

/// Answers for the clients' addresses on a thread of its own, until it is dropped.
pub struct Answering {
    end: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// Answers from `mac` for all addresses in these blocks; `None` if there are none.
    ///
    /// # Errors
    /// The interface cannot be used, or the process is out of descriptors or threads.
    pub fn start(interface: &Interface, mac: Mac, claims: &[Cidr]) -> Result<Option<Self>, FramesError> {
        if claims.is_empty() {
            return Ok(None);
        }
        let answerer = Answerer::open(interface, mac, claims)?;
        let end = Arc::new(Wake::new().map_err(FramesError::Wait)?);
        let poll = Poll::new().map_err(FramesError::Wait)?;
        poll.add(&answerer.ring, QUESTIONS).and_then(|()| poll.add(&*end, END)).map_err(FramesError::Wait)?;
        let thread = thread::Builder::new().name("neighbours".to_owned()).spawn(move || answerer.run(poll));
        Ok(Some(Self { end, thread: Some(thread.map_err(FramesError::Wait)?) }))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.end.wake();
        // If it panicked, it has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

/// Reads questions and sends answers.
struct Answerer {
    sender: FrameSender,
    ring: FrameRing,
    mac: Mac,
    claims: Vec<Cidr>,
}

impl Answerer {
    fn open(interface: &Interface, mac: Mac, claims: &[Cidr]) -> Result<Self, PacketError> {
        let ring = FrameRing::open(interface, &Filter::neighbours(), RING)?;
        if claims.iter().any(|block| !block.is_ipv4()) {
            ring.join_all_groups(interface)?;
        }
        let sender = FrameSender::open(interface, SenderKind::Packet)?;
        Ok(Self { sender, ring, mac, claims: claims.to_vec() })
    }

    fn run(mut self, mut poll: Poll) {
        loop {
            let Ok(ready) = poll.wait(LONG) else { return };
            let mut has_error = false;
            for ready in ready {
                if ready.token == END {
                    return;
                }
                has_error |= ready.error;
            }
            if has_error {
                // Until it is fetched, the ring counts as ready.
                let _ = self.ring.take_error();
            }
            while self.answer_some() == BATCH {}
        }
    }

    /// Answers at most a batch of questions. Returns the number of frames read.
    fn answer_some(&mut self) -> usize {
        let Self { sender, ring, mac, claims } = self;
        let count = ring.read(BATCH, |frame| {
            let Some(said) = Said::read(&frame) else { return };
            // Where there is no room, as the kernel takes nothing, neighbours ask again.
            if let Some(room) = sender.room()
                && let Some(length) = said.answer(*mac, claims, room)
            {
                sender.commit(length);
            }
        });
        // So they do where it refuses an answer.
        let _ = flush(sender);
        count
    }
}
