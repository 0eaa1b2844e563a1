//! Capture files as a source: frames become messages, messages become transactions.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ldplayer_core::damage::Flaw;
use ldplayer_core::{Message, TraceTime, Transaction, Transport};

use super::buffer::Buffer;
use super::compressed::Content;
use super::packets::Files;
use super::{BATCH_OCTETS, OpenOptions, Source, note};
use super::{pcap, pcapng};
use crate::packet::defrag::Defrag;
use crate::packet::tcp::{Flow, Reassembly, Segment, Sink, Trouble};
use crate::packet::twice::{self, Sight, Twice};
use crate::packet::unwrap::{Encapsulation, Inner, Outer};
use crate::packet::{Frame, ip, link, tunnel, word};
use crate::pair::{Pairing, Room, Seen};
use crate::refused::{Refused, count_message};
use crate::{Place, Tally, TraceError};

/// Transactions in a batch.
const BATCH: usize = 2_048;
/// Maximum number of packets read for a batch: they may be without DNS.
const PACKETS: usize = 8 * BATCH;

/// Whether a file begins as a capture.
pub(crate) fn is_capture(head: &[u8]) -> bool {
    pcap::is_pcap(head) || pcapng::is_pcapng(head)
}

/// Opens a capture, one of several `inputs`; its transactions are not sorted yet.
///
/// # Errors
/// When the system refuses the input, or its file header is cut off.
pub(crate) fn open(
    path: &Path,
    reader: Content,
    options: &OpenOptions,
    inputs: usize,
) -> Result<Box<dyn Source>, TraceError> {
    let opened = Files::open(Buffer::new(Box::new(reader)));
    let opened = opened.map_err(|source| TraceError::File { path: path.to_owned(), source })?;
    let files = opened.ok_or_else(|| TraceError::Format {
        path: path.to_owned(),
        what: "the pcap file ends within its 24-byte file header".into(),
        remedy: "capture again, or copy the whole file".into(),
    })?;
    Ok(Box::new(Capture::new(path, files, options, inputs)))
}

/// A capture being read.
struct Capture {
    path: PathBuf,
    packets: Files,
    decoder: Decoder,
    /// Whether the file has ended, and only incomplete transactions are left.
    ended: bool,
}

impl Capture {
    fn new(path: &Path, packets: Files, options: &OpenOptions, inputs: usize) -> Self {
        let decoder = Decoder {
            name: path.display().to_string(),
            ports: options.ports.clone(),
            defrag: Defrag::default(),
            tcp: Reassembly::default(),
            pairing: Pairing::one_of(inputs),
            twice: Twice::default(),
            sight: Sight::default(),
            drop_duplicates: options.drop_duplicates,
            taken: [0; Encapsulation::NAMES.len()],
            tally: Tally::default(),
        };
        Self { path: path.to_owned(), packets, decoder, ended: false }
    }

    /// Ends the reading. Damage at the end was counted with its place, unless nothing came before it.
    fn finish(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        self.decoder.finish();
        match self.packets.buffer().error() {
            Some(source) if self.decoder.tally.packets == 0 => {
                Err(TraceError::File { path: self.path.clone(), source })
            }
            _ => Ok(()),
        }
    }
}

impl Capture {
    fn read_batch(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let mut room = Room { rows: BATCH, octets: BATCH_OCTETS };
        for _ in 0..PACKETS {
            let decoder = &mut self.decoder;
            decoder.pairing.drain(batch, &mut room, self.ended);
            if room.rows == 0 || room.octets == 0 {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            match self.packets.next(&mut decoder.tally, &decoder.name) {
                Some(captured) => decoder.frame(&captured.frame, captured.octets),
                None => self.finish()?,
            }
        }
        Ok(true)
    }
}

impl Source for Capture {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let more = self.read_batch(batch);
        note(&mut self.decoder.tally, self.packets.buffer().progress());
        self.decoder.note_taken();
        more
    }

    fn tally(&self) -> &Tally {
        &self.decoder.tally
    }
}

/// The pipeline from frames to transactions.
struct Decoder {
    name: String,
    ports: Vec<u16>,
    defrag: Defrag,
    tcp: Reassembly,
    pairing: Pairing,
    /// Recognises what the capture has twice, by where the packet at hand was seen.
    twice: Twice,
    sight: Sight,
    drop_duplicates: bool,
    /// How often each header was taken off, by the number of its name.
    taken: [u64; Encapsulation::NAMES.len()],
    tally: Tally,
}

/// Ends of a conversation and the frame that carries the part at hand.
struct Carrier<'a> {
    frame: &'a Frame,
    from: SocketAddr,
    to: SocketAddr,
}

impl Decoder {
    fn frame(&mut self, frame: &Frame, octets: &[u8]) {
        self.tally.packets += 1;
        if self.tcp.is_due(frame.time_ns) {
            let mut tcp = std::mem::take(&mut self.tcp);
            tcp.give_up(frame.time_ns, &mut FromTcp(self));
            self.tcp = tcp;
        }
        if let Err(refused) = self.decode(frame, octets) {
            self.refuse(frame, refused);
        }
    }

    fn refuse(&mut self, frame: &Frame, refused: Refused) {
        let refused = match refused {
            Refused::Damaged(reason) if frame.cut => Refused::Damaged(as_cut(reason)),
            refused => refused,
        };
        let name = &self.name;
        let place = || Place { file: name.clone(), packet: frame.number, offset: frame.offset };
        refused.count(&mut self.tally, 0, place);
    }

    fn decode(&mut self, frame: &Frame, octets: &[u8]) -> Result<(), Refused> {
        let mut outer = Outer::default();
        self.sight.place = twice::place(frame, octets);
        let decoded = link::inner(frame.link, octets).and_then(|inner| self.inner(frame, &mut outer, inner));
        outer.taken().for_each(|name| self.taken[name as usize] += 1);
        decoded
    }

    /// Goes on with what a header carried. Each calls the next one at most [`unwrap::MAX_DEPTH`](crate::packet::unwrap) times.
    fn inner(&mut self, frame: &Frame, outer: &mut Outer, inner: Inner<'_>) -> Result<(), Refused> {
        let network = outer.network(inner)?;
        let packet = ip::parse(network)?;
        self.sight = Sight::of(self.sight.place, outer.identity(), network);
        let Some(fragment) = packet.fragment else {
            return self.payload(frame, outer, &packet, packet.payload);
        };
        let whole = self.defrag.add(&packet, fragment, frame, outer.identity());
        self.refuse_abandoned();
        let whole = whole.ok_or(Refused::Foreign("fragment"))?;
        let (protocol, payload) = ip::whole(&packet, &whole).ok_or(Refused::Damaged(Flaw::BadIpHeader))?;
        self.payload(frame, outer, &ip::Packet { missing: 0, protocol, ..packet }, payload)
    }

    /// Notes in the tally which headers were taken off.
    fn note_taken(&mut self) {
        let taken = Encapsulation::NAMES.iter().copied().map(Cow::Borrowed).zip(self.taken);
        self.tally.encapsulations.extend(taken.filter(|(_, count)| *count > 0));
    }

    /// Counts the datagrams that could not be reassembled, each at its first fragment.
    fn refuse_abandoned(&mut self) {
        for (frame, flaw) in std::mem::take(&mut self.defrag.abandoned) {
            self.refuse(&frame, Refused::Damaged(flaw));
        }
    }

    fn payload(
        &mut self,
        frame: &Frame,
        outer: &mut Outer,
        packet: &ip::Packet<'_>,
        payload: &[u8],
    ) -> Result<(), Refused> {
        let ends = |source, destination| Carrier {
            frame,
            from: SocketAddr::new(packet.source.to_canonical(), source),
            to: SocketAddr::new(packet.destination.to_canonical(), destination),
        };
        // A length that the packet itself does not have is no cut of the capture.
        let missing = if frame.cut { packet.missing } else { 0 };
        match packet.protocol {
            ip::UDP => {
                let ports = word(payload, 0).zip(word(payload, 2)).ok_or(Refused::Damaged(Flaw::ShortPacket))?;
                let wanted = self.wanted(ports.0, ports.1);
                if let Some(inner) = tunnel::datagram(outer, packet, payload, wanted.is_ok())? {
                    return self.inner(frame, outer, inner);
                }
                wanted?;
                if packet.missing > missing {
                    return Err(Refused::Damaged(Flaw::TruncatedPacket));
                }
                let message = udp_payload(payload, missing > 0)?;
                self.datagram(&ends(ports.0, ports.1), message)
            }
            ip::TCP => {
                let segment = Segment::parse(payload, missing).ok_or(Refused::Damaged(Flaw::ShortPacket))?;
                self.wanted(segment.source, segment.destination)?;
                self.segment(&ends(segment.source, segment.destination), &segment)
            }
            _ => {
                let inner = tunnel::protocol(outer, packet, payload)?;
                self.inner(frame, outer, inner)
            }
        }
    }

    /// A message over UDP, which the capture may have twice.
    fn datagram(&mut self, carrier: &Carrier<'_>, payload: Payload<'_>) -> Result<(), Refused> {
        let message = match payload {
            Payload::Whole(message) => message,
            Payload::Cut(beginning) => return self.cut(carrier, Transport::Udp, None, beginning),
        };
        if self.twice.is_copy(carrier.frame.time_ns, (carrier.from, carrier.to), message, self.sight) {
            self.tally.duplicates += 1;
            if self.drop_duplicates {
                return Err(Refused::Foreign("duplicate"));
            }
        }
        self.message(carrier, Transport::Udp, None, message)
    }

    fn wanted(&self, source: u16, destination: u16) -> Result<(), Refused> {
        let wanted = self.ports.contains(&destination) || self.ports.contains(&source);
        if wanted { Ok(()) } else { Err(Refused::Foreign("not_dns_port")) }
    }

    fn segment(&mut self, carrier: &Carrier<'_>, segment: &Segment<'_>) -> Result<(), Refused> {
        let mut tcp = std::mem::take(&mut self.tcp);
        tcp.add(carrier.from, carrier.to, segment, carrier.frame, &mut FromTcp(self));
        self.tcp = tcp;
        Ok(())
    }

    fn message(
        &mut self,
        carrier: &Carrier<'_>,
        transport: Transport,
        stream: Option<u64>,
        octets: &[u8],
    ) -> Result<(), Refused> {
        let message = Message::new(octets).ok_or(Refused::Damaged(Flaw::ShortMessage))?;
        let time = TraceTime(carrier.frame.time_ns);
        let seen = Seen { time, from: carrier.from, to: carrier.to, transport, stream, octets };
        self.pairing.add(&seen, &message);
        count_message(&mut self.tally, &message)
    }

    /// Takes the beginning of a message that the capture cut. A response still tells that the query was answered, when, and with which code. A
    /// query is of no use, since it cannot be sent again.
    fn cut(
        &mut self,
        carrier: &Carrier<'_>,
        transport: Transport,
        stream: Option<u64>,
        beginning: &[u8],
    ) -> Result<(), Refused> {
        if Message::new(beginning).is_some_and(|message| message.is_response()) {
            // That its question is cut, too, is no further damage.
            let _ = self.message(carrier, transport, stream, beginning);
        }
        Err(Refused::Damaged(Flaw::TruncatedPacket))
    }

    /// Whether a message over a connection goes the wrong way: a query from the server (DSO, RFC 8490 §3) or a response to one. The client
    /// is who opened the connection; where the capture does not show it, who is not at a DNS port.
    fn is_backward(&self, flow: &Flow, message: &[u8]) -> bool {
        let Some(message) = Message::new(message) else { return false };
        let is_server = |end: SocketAddr| self.ports.contains(&end.port());
        let by_port = || (is_server(flow.from) != is_server(flow.to)).then(|| is_server(flow.to));
        flow.from_opener.or_else(by_port).is_some_and(|from_client| from_client == message.is_response())
    }

    fn finish(&mut self) {
        let mut tcp = std::mem::take(&mut self.tcp);
        tcp.finish(&mut FromTcp(self));
        self.defrag.finish();
        self.refuse_abandoned();
    }
}

/// Passes messages of connections to pairing.
struct FromTcp<'a>(&'a mut Decoder);

impl Sink for FromTcp<'_> {
    fn message(&mut self, flow: &Flow, message: &[u8]) {
        let carrier = Carrier { frame: &flow.frame, from: flow.from, to: flow.to };
        let used = match self.0.is_backward(flow, message) {
            true => Err(Refused::Foreign("begun_by_server")),
            false => self.0.message(&carrier, Transport::Tcp, Some(flow.stream), message),
        };
        if let Err(refused) = used {
            self.0.refuse(&flow.frame, refused);
        }
    }

    fn cut(&mut self, flow: &Flow, beginning: &[u8]) {
        let carrier = Carrier { frame: &flow.frame, from: flow.from, to: flow.to };
        if let Err(refused) = self.0.cut(&carrier, Transport::Tcp, Some(flow.stream), beginning) {
            self.0.refuse(&flow.frame, refused);
        }
    }

    fn trouble(&mut self, flow: &Flow, trouble: Trouble) {
        self.0.refuse(&flow.frame, Refused::Damaged(trouble.flaw()));
    }
}

/// The error for a frame that is unusable because its end was not captured.
fn as_cut(reason: Flaw) -> Flaw {
    match reason {
        Flaw::ShortFrame | Flaw::ShortPacket | Flaw::BadIpHeader => Flaw::TruncatedPacket,
        other => other,
    }
}

/// The payload of a datagram.
enum Payload<'a> {
    Whole(&'a [u8]),
    /// Its beginning: the rest was not captured.
    Cut(&'a [u8]),
}

/// The payload of a UDP datagram (RFC 768), without what follows it in the packet.
fn udp_payload(datagram: &[u8], cut: bool) -> Result<Payload<'_>, Refused> {
    let length = usize::from(word(datagram, 4).ok_or(Refused::Damaged(Flaw::ShortPacket))?);
    // A length of 0 is a jumbogram (RFC 2675) or left to the network card: then all of the packet counts.
    let length = if length == 0 { datagram.len() } else { length };
    if length > datagram.len() && !cut {
        return Err(Refused::Damaged(Flaw::TruncatedPacket));
    }
    if cut {
        return Ok(Payload::Cut(datagram.get(8..).unwrap_or_default()));
    }
    datagram.get(8..length).map(Payload::Whole).ok_or(Refused::Damaged(Flaw::ShortPacket))
}
