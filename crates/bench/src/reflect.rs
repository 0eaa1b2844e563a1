//! A responder without a socket: what arrives at an interface goes back as its own answer.
//!
//! It knows UDP over IPv4 without options. The kernel sees the queries as well: they should go to a MAC address that the interface does not
//! have, so that it drops them at once instead of refusing them.

use anyhow::Context;
use ldplayer_net::packets::{BATCH, Checksum, Filter, FrameRings, FrameSender, Interface, SenderKind};

use crate::responder::{LOOK, Stay};

/// Looks at an empty ring before it sleeps, and pauses of the processor between two of them: some hundred microseconds in all. To wake it
/// for each burst would cost the core that sends to it more than the frames do, and no fast server sleeps while it is asked.
const LOOKS: u32 = 200;
const PAUSES: u32 = 40;
/// Octets of the ring, which stay in the caches of the processor.
const RING: usize = 4 << 20;
/// Frames that are looked through between two looks at whether to end.
const TURNS: usize = 1_000;

// Where fields are in a frame with a message over UDP over IPv4 without options (RFC 791 §3.1, RFC 768).
const ETHERTYPE: usize = 12;
const VERSION: usize = 14;
const FRAGMENT: usize = 20;
const PROTOCOL: usize = 23;
const SOURCE: usize = 26;
const DESTINATION: usize = 30;
const SOURCE_PORT: usize = 34;
const DESTINATION_PORT: usize = 36;
const CHECKSUM: usize = 40;
/// The first octet of the message's flags: QR is its highest bit (RFC 1035 §4.1.1).
const FLAGS: usize = 44;
/// Octets up to the end of the message's header.
const SHORTEST: usize = 54;

/// Options of `reflect`.
#[derive(clap::Args)]
pub struct Args {
    /// Interface to answer on
    #[arg(long)]
    interface: String,
    /// Another interface by which queries come; answers leave by the first
    #[arg(long)]
    also: Option<String>,
    /// Port to answer on, whatever the address
    #[arg(long, default_value = "5300")]
    port: u16,
    /// Send by AF_XDP instead of AF_PACKET
    #[arg(long)]
    xdp: bool,
    #[command(flatten)]
    stay: Stay,
}

/// Answers until `end` is set.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.stay.pin()?;
    let mut reflector = Reflector::open(args)?;
    println!("listening on {}", args.interface);
    let term = args.stay.begin()?;
    while !term.is_over() {
        for _ in 0..TURNS {
            if !reflector.turn().with_context(|| format!("reflect: {}", args.interface))? {
                break;
            }
        }
    }
    Ok(())
}

/// The responder: its interface and the answers on their way.
struct Reflector {
    port: u16,
    rings: FrameRings,
    sender: FrameSender,
    /// Looks in a row that found nothing.
    idle: u32,
}

impl Reflector {
    fn open(args: &Args) -> anyhow::Result<Self> {
        let interface = Interface::find(&args.interface)?;
        let rings = FrameRings::open(&interface, args.also.as_deref(), &Filter::all(), RING)?;
        let kind = if args.xdp { SenderKind::Xdp } else { SenderKind::Packet };
        Ok(Self { port: args.port, rings, sender: FrameSender::open(&interface, kind)?, idle: 0 })
    }

    /// Answers the queries that have arrived, or waits for one. Returns whether there were any.
    fn turn(&mut self) -> anyhow::Result<bool> {
        let (port, sender) = (self.port, &mut self.sender);
        let count = self.rings.read(BATCH - sender.queued(), |frame| {
            // A device that is still busy with all buffers loses the answer.
            if let Some(room) = sender.room()
                && let Some(length) = answer(frame.octets, frame.checksum, port, room)
            {
                sender.commit(length);
            }
        });
        self.sender.flush()?;
        let is_idle = count == 0 && self.sender.queued() == 0;
        self.idle = if is_idle { self.idle + 1 } else { 0 };
        if self.idle > LOOKS {
            self.idle = 0;
            self.rings.wait(LOOK)?;
            return Ok(false);
        }
        if is_idle {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        Ok(true)
    }
}

/// Writes the answer to a query, and returns its length; `None` if the frame is no query to this port.
fn answer(query: &[u8], checksum: Checksum, port: u16, answer: &mut [u8]) -> Option<usize> {
    if query.len() < SHORTEST || !is_query(query, port) {
        return None;
    }
    let answer = answer.get_mut(..query.len())?;
    answer.copy_from_slice(query);
    swap(answer, 0, 6, 6);
    swap(answer, SOURCE, DESTINATION, 4);
    swap(answer, SOURCE_PORT, DESTINATION_PORT, 2);
    answer[FLAGS] |= 0x80;
    let sum = match checksum {
        // Which is none, and allowed (RFC 768).
        Checksum::NotReady => 0,
        _ => with_qr(u16::from_be_bytes([query[CHECKSUM], query[CHECKSUM + 1]])),
    };
    answer[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    Some(query.len())
}

fn is_query(frame: &[u8], port: u16) -> bool {
    frame[ETHERTYPE..VERSION] == [0x08, 0x00]
        && frame[VERSION] == 0x45
        // Neither a fragment nor followed by one.
        && frame[FRAGMENT] & 0x3f == 0
        && frame[FRAGMENT + 1] == 0
        && frame[PROTOCOL] == 17
        && frame[DESTINATION_PORT..][..2] == port.to_be_bytes()
        && frame[FLAGS] & 0x80 == 0
}

/// Exchanges two fields of the same length, which are not above each other.
fn swap(octets: &mut [u8], first: usize, second: usize, length: usize) {
    let (before, behind) = octets.split_at_mut(second);
    before[first..first + length].swap_with_slice(&mut behind[..length]);
}

/// The checksum after QR was set; swapping addresses and ports does not change it (RFC 1624 §3).
const fn with_qr(checksum: u16) -> u16 {
    if checksum == 0 {
        return 0;
    }
    let (sum, carry) = (!checksum).overflowing_add(0x8000);
    match !(sum + carry as u16) {
        0 => 0xffff,
        checksum => checksum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make;
    use ldplayer_stack::frame::{Check, Content, Ethernet, Link, Transport, udp};

    const PORT: u16 = 53;

    fn query(number: u64) -> Vec<u8> {
        let mut frame = vec![0; 200];
        let link = Link::new([2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 9], None);
        let (from, to) = (([10, 0, 0, 1].into(), 4_000), ([192, 0, 2, 53].into(), PORT));
        let length = udp::write(&mut frame, &link, from, to, &make::message(number)).unwrap();
        frame.truncate(length);
        frame
    }

    fn answer_of(query: &[u8], checksum: Checksum) -> Option<Vec<u8>> {
        let mut room = [0xaa; 200];
        answer(query, checksum, PORT, &mut room).map(|length| room[..length].to_vec())
    }

    #[test]
    fn an_answer_goes_back_to_the_client_with_a_right_checksum() {
        for (number, checksum) in (0..1_000).zip([Checksum::Unknown, Checksum::NotReady].into_iter().cycle()) {
            let frame = answer_of(&query(number), checksum).unwrap();
            let ethernet = Ethernet::read(&frame).unwrap();
            assert_eq!((ethernet.destination, ethernet.source), ([2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 9]));
            let content = Content::read(ethernet.ethertype, ethernet.payload, Check::Verify).unwrap();
            let Content::Transport(from, to, Transport::Udp(datagram)) = content else { panic!("{content:?}") };
            assert_eq!((from, to), ([192, 0, 2, 53].into(), [10, 0, 0, 1].into()));
            assert_eq!((datagram.source_port, datagram.destination_port), (PORT, 4_000));
            let mut expected = make::message(number);
            expected[2] |= 0x80;
            assert_eq!(datagram.payload, expected);
            assert_eq!(answer_of(&frame, checksum), None, "an answer is not answered");
        }
    }

    #[test]
    fn a_checksum_that_becomes_zero_is_written_as_ones_and_none_stays_none() {
        assert_eq!((with_qr(0), with_qr(0x8000), with_qr(0x7fff)), (0, 0xffff, 0xfffe));
    }

    #[test]
    fn what_is_no_whole_query_to_the_port_is_left_alone() {
        let frame = query(1);
        for (at, octet) in [
            (ETHERTYPE, 0x86),
            (VERSION, 0x46),
            (FRAGMENT, 0x20),
            (FRAGMENT + 1, 1),
            (PROTOCOL, 6),
            (DESTINATION_PORT + 1, 54),
        ] {
            let mut other = frame.clone();
            other[at] = octet;
            assert_eq!(answer_of(&other, Checksum::Unknown), None, "octet {at}");
        }
        assert!((0..SHORTEST).all(|length| answer_of(&frame[..length], Checksum::Unknown).is_none()));
        assert_eq!(answer(&frame, Checksum::Unknown, PORT, &mut [0; 60]), None, "it has no room");
    }
}
