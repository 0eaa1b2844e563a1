//! Messages written octet by octet, and captures of them.
#![allow(dead_code, reason = "every test uses another part")]

use std::fs;
use std::path::Path;

pub const A: u16 = 1;
pub const NS: u16 = 2;

/// A name in wire format.
pub fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    ldplayer_core::name::parse(name, &mut wire).unwrap();
    wire
}

pub fn record(owner: &str, rtype: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u16).to_be_bytes();
    [&wire(owner), &rtype.to_be_bytes()[..], &[0, 1], &ttl.to_be_bytes(), &length, data].concat()
}

/// A message with a question and the records of its sections.
pub fn message(flags: u16, (qname, qtype): (&str, u16), sections: [&[Vec<u8>]; 3]) -> Vec<u8> {
    let counts = sections.map(|section| section.len() as u16);
    let header: Vec<u8> =
        [7, flags, 1, counts[0], counts[1], counts[2]].into_iter().flat_map(u16::to_be_bytes).collect();
    let question = [wire(qname), qtype.to_be_bytes().to_vec(), vec![0, 1]].concat();
    [header, question, sections.concat().concat()].concat()
}

/// A query, and what a server said: seconds since 1970, the server's address, the messages.
pub struct Exchange {
    pub time: f64,
    pub server: [u8; 4],
    pub query: Vec<u8>,
    pub response: Vec<u8>,
}

/// Writes a capture of one client, 10.0.0.1, that asks servers: a pcap file of raw IP packets.
pub fn capture(file: &Path, exchanges: &[Exchange]) {
    const CLIENT: [u8; 4] = [10, 0, 0, 1];
    let packet = |ports: [u16; 2], [from, to]: [[u8; 4]; 2], payload: &[u8]| {
        let length = |more: usize| ((payload.len() + more) as u16).to_be_bytes();
        let ip = [&[0x45, 0][..], &length(28), &[0, 0, 0, 0, 64, 17, 0, 0], &from, &to].concat();
        let udp = [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), &length(8), &[0, 0]].concat();
        [&ip, &udp, payload].concat()
    };
    let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101];
    let mut octets: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    for (port, Exchange { time, server, query, response }) in (5_001..).zip(exchanges) {
        for packet in [packet([port, 53], [CLIENT, *server], query), packet([53, port], [*server, CLIENT], response)] {
            let (micros, length) = ((time.fract() * 1e6).round() as u32, packet.len() as u32);
            octets.extend([*time as u32, micros, length, length].into_iter().flat_map(u32::to_le_bytes));
            octets.extend(packet);
        }
    }
    fs::write(file, octets).unwrap();
}
