//! NOTIFY: tells secondaries that zones may have changed (RFC 1996).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use ldplayer_core::Message;
use ldplayer_core::message::{CLASS_IN, flag};
use ldplayer_zone::{Zone, rtype};

/// The opcode (RFC 1996 §1.1).
const NOTIFY: u16 = 4;
/// Where it is in the flags.
const OPCODE_SHIFT: u16 = 11;
/// How often a secondary is told before it counts as silent.
const TRIES: usize = 3;
/// How long an answer is waited for.
const WAIT: Duration = Duration::from_secs(1);
/// Number of NOTIFY messages that may be unanswered at once.
const AT_ONCE: usize = 100;

/// What a secondary said to the zones that it was told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Zones that it was told of.
    pub zones: usize,
    /// It answered that it takes the word.
    pub accepted: usize,
    /// It answered with an error: it is no secondary of the zone, or refuses the sender.
    pub refused: usize,
}

impl Told {
    /// Zones without an answer.
    pub const fn silent(&self) -> usize {
        self.zones - self.accepted - self.refused
    }
}

/// Tells a secondary of zones.
///
/// # Errors
/// The system has no socket for it.
pub fn tell(secondary: SocketAddr, zones: &[Zone]) -> io::Result<Told> {
    let any: IpAddr = if secondary.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(secondary)?;
    socket.set_read_timeout(Some(WAIT))?;
    let mut told = Told { zones: zones.len(), ..Told::default() };
    for zones in zones.chunks(AT_ONCE) {
        let mut waiting: BTreeMap<u16, Vec<u8>> = (0..).zip(zones).map(|(id, zone)| (id, message(id, zone))).collect();
        for _ in 0..TRIES {
            // What cannot be sent is tried again: the secondary may not listen yet.
            waiting.values().for_each(|message| drop(socket.send(message)));
            take_answers(&socket, &mut waiting, &mut told);
        }
    }
    Ok(told)
}

/// Takes answers until all are there, or none comes for a while.
fn take_answers(socket: &UdpSocket, waiting: &mut BTreeMap<u16, Vec<u8>>, told: &mut Told) {
    let mut octets = [0; 512];
    while !waiting.is_empty() {
        let Ok(length) = socket.recv(&mut octets) else { return };
        let Some(answer) = Message::new(&octets[..length]).filter(|answer| answer.is_response()) else { continue };
        let id = u16::from_be_bytes([octets[0], octets[1]]);
        if u16::from(answer.opcode()) == NOTIFY && waiting.remove(&id).is_some() {
            let count = if answer.rcode() == 0 { &mut told.accepted } else { &mut told.refused };
            *count += 1;
        }
    }
}

fn message(id: u16, zone: &Zone) -> Vec<u8> {
    let header = [id, NOTIFY << OPCODE_SHIFT | flag::AA, 1, 0, 0, 0];
    let question = [rtype::SOA, CLASS_IN];
    let words = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    [words(&header), zone.apex().to_vec(), words(&question)].concat()
}
