//! Writes captures: IP packets of link type RAW with nanosecond stamps, rebuilt around the recorded messages.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use hashbrown::HashMap;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Transaction, Transport};

use super::{Output, Sink, Written};
use crate::TraceError;

/// Magic number of captures with nanosecond stamps.
const MAGIC_NS: u32 = 0xa1b2_3c4d;
/// Packets begin with their IP header.
const LINKTYPE_RAW: u32 = 101;
const SNAP_LENGTH: u32 = 262_144;
const UDP: u8 = 17;
const TCP: u8 = 6;
/// Longest message in one UDP packet over IPv4 (65,535 less both headers); kept for IPv6 too.
const MAX_UDP: usize = 65_507;
/// Maximum payload of a TCP segment in octets.
const SEGMENT: usize = 1_400;
/// Maximum number of responses held back until their time; beyond that, the earliest is written at once.
const MAX_WAITING: usize = 256 * 1024;
/// Maximum size in octets of the responses held back; the same applies.
const MAX_OCTETS: usize = 32 << 20;
/// Maximum number of connections with sequence numbers; the oldest are forgotten and start again.
const MAX_CONNECTIONS: usize = 64 * 1024;

/// Control bits of TCP (RFC 9293 §3.1).
const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// A capture being written.
pub(crate) struct PcapSink {
    output: Output,
    /// Packets not yet given to the output.
    packets: Vec<u8>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Octets of the responses held back.
    octets: usize,
    given: u64,
    connections: HashMap<Ends, Connection, foldhash::fast::FixedState>,
    /// Connections from the oldest to the newest.
    opened: VecDeque<Ends>,
    written: Written,
}

/// Both ends of a connection, client first.
type Ends = (SocketAddr, SocketAddr);

/// A response held back until its time. The number keeps responses of one time in order.
#[derive(PartialEq, Eq)]
struct Waiting {
    time: i64,
    number: u64,
    response: Sent,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A message with its endpoints.
#[derive(PartialEq, Eq)]
struct Sent {
    ends: Ends,
    from_client: bool,
    transport: Transport,
    stream: Option<u64>,
    message: Bytes,
}

/// Next sequence numbers of both directions.
struct Connection {
    stream: Option<u64>,
    client: u32,
    server: u32,
}

impl PcapSink {
    /// # Errors
    /// When the file header cannot be written.
    pub fn new(mut output: Output) -> Result<Self, TraceError> {
        let mut header = Vec::new();
        header.extend_from_slice(&MAGIC_NS.to_le_bytes());
        header.extend_from_slice(&[2, 0, 4, 0]); // version 2.4
        header.extend_from_slice(&[0; 8]);
        header.extend_from_slice(&SNAP_LENGTH.to_le_bytes());
        header.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        output.write_all(&header).map_err(|error| output.error(error))?;
        Ok(Self {
            output,
            packets: Vec::new(),
            waiting: BinaryHeap::new(),
            octets: 0,
            given: 0,
            connections: HashMap::default(),
            opened: VecDeque::new(),
            written: Written::default(),
        })
    }

    fn write_row(&mut self, row: &Transaction) {
        if let Some(reason) = unfit(row) {
            return self.written.leave_out(reason);
        }
        self.written.transactions += 1;
        self.release(row.time.0);
        if let Some(query) = &row.query {
            self.emit(row.time.0, &Sent::of(row, query.clone(), true));
        }
        let Some(response) = &row.response else { return };
        self.given += 1;
        let time = row.time.0.saturating_add(row.response_delay.unwrap_or(0));
        let response = Sent::of(row, response.clone(), false);
        self.octets += response.message.len();
        self.waiting.push(Reverse(Waiting { time, number: self.given, response }));
        while self.waiting.len() > MAX_WAITING || self.octets > MAX_OCTETS {
            self.emit_earliest();
        }
    }

    /// Writes the responses due by `now`.
    fn release(&mut self, now: i64) {
        while self.waiting.peek().is_some_and(|Reverse(earliest)| earliest.time <= now) {
            self.emit_earliest();
        }
    }

    fn emit_earliest(&mut self) {
        if let Some(Reverse(earliest)) = self.waiting.pop() {
            self.octets -= earliest.response.message.len();
            self.emit(earliest.time, &earliest.response);
        }
    }

    fn emit(&mut self, time: i64, sent: &Sent) {
        if sent.message.len() > MAX_UDP && sent.transport == Transport::Udp {
            return self.written.leave_out("message_too_long_for_udp");
        }
        if !(0..=i64::from(u32::MAX)).contains(&time.div_euclid(NS_PER_S)) {
            return self.written.leave_out("time_outside_1970_to_2106");
        }
        if sent.transport == Transport::Tcp {
            return self.emit_tcp(time, sent);
        }
        let (from, to) = sent.direction();
        let mut datagram = Vec::with_capacity(8 + sent.message.len());
        datagram.extend_from_slice(&from.port().to_be_bytes());
        datagram.extend_from_slice(&to.port().to_be_bytes());
        datagram.extend_from_slice(&(8 + sent.message.len() as u16).to_be_bytes());
        datagram.extend_from_slice(&[0; 2]);
        datagram.extend_from_slice(&sent.message);
        let sum = match checksum(from.ip(), to.ip(), UDP, &datagram) {
            0 => 0xffff, // zero would say that there is none (RFC 768)
            sum => sum,
        };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        write_packet(&mut self.packets, time, from.ip(), to.ip(), UDP, &datagram);
    }

    fn emit_tcp(&mut self, time: i64, sent: &Sent) {
        self.connect(time, sent);
        let Some(connection) = self.connections.get_mut(&sent.ends) else { return };
        let mut stream = (sent.message.len() as u16).to_be_bytes().to_vec();
        stream.extend_from_slice(&sent.message);
        for octets in stream.chunks(SEGMENT) {
            let next = octets.len() as u32;
            let numbers = if sent.from_client {
                (connection.client, connection.server)
            } else {
                (connection.server, connection.client)
            };
            write_segment(&mut self.packets, time, sent.direction(), numbers, PSH | ACK, octets);
            let mine = if sent.from_client { &mut connection.client } else { &mut connection.server };
            *mine = mine.wrapping_add(next);
        }
    }

    /// Opens the connection by a handshake unless it is open already. Connections are never closed.
    fn connect(&mut self, time: i64, sent: &Sent) {
        match self.connections.get(&sent.ends) {
            Some(open) if open.stream == sent.stream => return,
            Some(_) => {}
            None => self.opened.push_back(sent.ends),
        }
        // A clock of four microseconds separates successive connections between the same ports (RFC 9293 §3.4.1).
        let first = (time / 4_000) as u32;
        let (client, server) = (first, first ^ 0x8000_0000);
        let (there, back) = (sent.ends, (sent.ends.1, sent.ends.0));
        let next = (client.wrapping_add(1), server.wrapping_add(1));
        write_segment(&mut self.packets, time, there, (client, 0), SYN, &[]);
        write_segment(&mut self.packets, time, back, (server, next.0), SYN | ACK, &[]);
        write_segment(&mut self.packets, time, there, next, ACK, &[]);
        self.connections.insert(sent.ends, Connection { stream: sent.stream, client: next.0, server: next.1 });
        if self.opened.len() > MAX_CONNECTIONS
            && let Some(oldest) = self.opened.pop_front()
        {
            self.connections.remove(&oldest);
        }
    }

    fn drain(&mut self) -> Result<(), TraceError> {
        self.output.write_all(&self.packets).map_err(|error| self.output.error(error))?;
        self.packets.clear();
        Ok(())
    }
}

impl Sink for PcapSink {
    fn write(&mut self, batch: &mut Vec<Transaction>) -> Result<(), TraceError> {
        batch.drain(..).for_each(|row| self.write_row(&row));
        self.drain()
    }

    fn finish(mut self: Box<Self>) -> Result<Written, TraceError> {
        self.release(i64::MAX);
        self.drain()?;
        self.output.finish()?;
        Ok(self.written)
    }
}

impl Sent {
    fn of(row: &Transaction, message: Bytes, from_client: bool) -> Self {
        let Transaction { client, server, transport, stream, .. } = *row;
        Self { ends: (client, server), from_client, transport, stream, message }
    }

    /// Source and destination.
    fn direction(&self) -> Ends {
        let (client, server) = self.ends;
        if self.from_client { (client, server) } else { (server, client) }
    }
}

/// Why a capture cannot hold a transaction.
fn unfit(row: &Transaction) -> Option<&'static str> {
    if row.query.is_none() && row.response.is_none() {
        return Some("no_message");
    }
    if !matches!(row.transport, Transport::Udp | Transport::Tcp) {
        return Some("encrypted_transport");
    }
    (row.client.is_ipv4() != row.server.is_ipv4()).then_some("mixed_address_families")
}

/// Sequence and acknowledgement number.
type Numbers = (u32, u32);

fn write_segment(out: &mut Vec<u8>, time: i64, (from, to): Ends, (seq, ack): Numbers, control: u8, octets: &[u8]) {
    let mut segment = Vec::with_capacity(20 + octets.len());
    segment.extend_from_slice(&from.port().to_be_bytes());
    segment.extend_from_slice(&to.port().to_be_bytes());
    segment.extend_from_slice(&seq.to_be_bytes());
    segment.extend_from_slice(&ack.to_be_bytes());
    segment.extend_from_slice(&[5 << 4, control, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend_from_slice(octets);
    let sum = checksum(from.ip(), to.ip(), TCP, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    write_packet(out, time, from.ip(), to.ip(), TCP, &segment);
}

/// Appends a packet with its record header. The time is within the range of the format.
fn write_packet(out: &mut Vec<u8>, time: i64, from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) {
    let header = ip_header(from, to, protocol, payload.len());
    let length = (header.len() + payload.len()) as u32;
    let (seconds, fraction) = (time.div_euclid(NS_PER_S) as u32, time.rem_euclid(NS_PER_S) as u32);
    for word in [seconds, fraction, length, length] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
}

/// The header of IPv4 (RFC 791 §3.1) or IPv6 (RFC 8200 §3). The families are equal.
fn ip_header(from: IpAddr, to: IpAddr, protocol: u8, payload: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(40);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header.extend_from_slice(&[0x45, 0]);
            header.extend_from_slice(&((20 + payload) as u16).to_be_bytes());
            header.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
            header.extend_from_slice(&from.octets());
            header.extend_from_slice(&to.octets());
            let sum = fold(sum_words(0, &header));
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {
            header.extend_from_slice(&[0x60, 0, 0, 0]);
            header.extend_from_slice(&(payload as u16).to_be_bytes());
            header.extend_from_slice(&[protocol, 64]);
            [from, to].into_iter().for_each(|address| push_address(&mut header, address));
        }
    }
    header
}

/// The checksum of UDP and TCP with their pseudo header (RFC 768, RFC 9293 §3.1, RFC 8200 §8.1).
fn checksum(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> u16 {
    let mut addresses = Vec::with_capacity(32);
    [from, to].into_iter().for_each(|address| push_address(&mut addresses, address));
    let pseudo = u64::from(protocol) + payload.len() as u64;
    fold(sum_words(sum_words(pseudo, &addresses), payload))
}

fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

/// Adds 16-bit words; an odd octet counts as if a zero followed.
fn sum_words(start: u64, octets: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    octets.chunks(2).fold(start, |sum, pair| sum + word(pair))
}

/// The one's complement of the one's complement sum (RFC 1071).
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::{Format, create};
    use ldplayer_core::TraceTime;

    fn row(time: i64, transport: Transport, v6: bool, delay: Option<i64>, length: usize) -> Transaction {
        let (client, server) = match v6 {
            true => ("[2001:db8::1]:1024", "[2001:db8::53]:53"),
            false => ("192.0.2.1:1024", "198.51.100.53:53"),
        };
        Transaction {
            index: 0,
            time: TraceTime(time),
            client: client.parse().unwrap(),
            server: server.parse().unwrap(),
            transport,
            stream: None,
            query: Some(Bytes::from(vec![1; 17])),
            response: delay.map(|_| Bytes::from(vec![2; length])),
            response_delay: delay,
            retry_of: None,
        }
    }

    /// The records of a capture with these rows: time in nanoseconds and packet.
    fn packets(rows: &[Transaction]) -> (Vec<(u64, Vec<u8>)>, Written) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcap");
        let mut sink = create(&path, Format::Pcap, false).unwrap();
        sink.write(&mut rows.to_vec()).unwrap();
        let written = sink.finish().unwrap();
        let octets = std::fs::read(path).unwrap();
        assert_eq!(octets[..4], [0x4d, 0x3c, 0xb2, 0xa1]);
        let (mut rest, mut packets) = (&octets[24..], Vec::new());
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            let (time, length) = (u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)), word(8) as usize);
            packets.push((time, rest[16..16 + length].to_vec()));
            rest = &rest[16 + length..];
        }
        (packets, written)
    }

    /// The payload of a packet whose lengths and checksums are right.
    fn verified(packet: &[u8]) -> &[u8] {
        let v4 = packet[0] >> 4 == 4;
        let (header, protocol) = if v4 { (20, packet[9]) } else { (40, packet[6]) };
        let length = u16::from_be_bytes(if v4 { [packet[2], packet[3]] } else { [packet[4], packet[5]] });
        assert_eq!(usize::from(length), if v4 { packet.len() } else { packet.len() - 40 });
        assert!(!v4 || fold(sum_words(0, &packet[..20])) == 0, "IPv4 header");
        let (addresses, payload) = (&packet[if v4 { 12 } else { 8 }..header], &packet[header..]);
        let pseudo = sum_words(u64::from(protocol) + payload.len() as u64, addresses);
        assert_eq!(fold(sum_words(pseudo, payload)), 0, "protocol {protocol}");
        payload
    }

    #[test]
    fn responses_go_out_at_their_own_moment() {
        let rows = [row(10, Transport::Udp, false, Some(25), 20), row(20, Transport::Udp, true, Some(5), 21)];
        let (packets, written) = packets(&rows);
        let seen: Vec<(u64, usize)> =
            packets.iter().map(|(time, packet)| (*time, verified(packet).len() - 8)).collect();
        assert_eq!(seen, [(10, 17), (20, 17), (25, 21), (35, 20)]);
        assert_eq!((written.transactions, written.left_out.len()), (2, 0));
    }

    #[test]
    fn a_connection_is_opened_once_and_its_numbers_follow() {
        let rows = [row(10, Transport::Tcp, true, Some(1), 3_000), row(20, Transport::Tcp, true, None, 0)];
        let (packets, _) = packets(&rows);
        let segments: Vec<&[u8]> = packets.iter().map(|(_, packet)| verified(packet)).collect();
        let control: Vec<u8> = segments.iter().map(|segment| segment[13]).collect();
        let data = PSH | ACK;
        assert_eq!(control, [SYN, SYN | ACK, ACK, data, data, data, data, data]);
        let number = |segment: &[u8], at: usize| u32::from_be_bytes(segment[at..at + 4].try_into().unwrap());
        let last = segments[7];
        assert_eq!(number(last, 4), number(segments[3], 4) + 2 + 17);
        assert_eq!(number(last, 8), number(segments[4], 4) + 2 + 3_000);
        assert_eq!(segments[3][20..22], [0, 17], "the length before the message");
    }

    #[test]
    fn what_a_capture_cannot_hold_is_left_out_by_reason() {
        let mut mixed = row(1, Transport::Udp, false, None, 0);
        mixed.server = "[2001:db8::53]:53".parse().unwrap();
        let long = row(2, Transport::Udp, false, Some(1), 65_530);
        let rows = [row(0, Transport::Dot, false, None, 0), mixed, long, row(-5, Transport::Udp, false, None, 0)];
        let (packets, written) = packets(&rows);
        assert_eq!(packets.len(), 1);
        let reasons: Vec<&str> = written.left_out.keys().copied().collect();
        let wanted =
            ["encrypted_transport", "message_too_long_for_udp", "mixed_address_families", "time_outside_1970_to_2106"];
        assert_eq!(reasons, wanted);
    }
}
