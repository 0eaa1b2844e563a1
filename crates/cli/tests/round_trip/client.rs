//! A stub that keeps some questions outstanding, and its answers in a form that can be compared.

use std::collections::HashMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use domain::base::iana::Rtype;
use domain::base::{Message, ParsedRecord};
use domain::rdata::AllRecordData;

use super::hierarchy::Question;

/// Questions without an answer at a time.
const OUTSTANDING: usize = 24;
/// When a question is asked again.
const RETRY: Duration = Duration::from_secs(4);
/// How often a question is asked at most.
const ATTEMPTS: u32 = 8;

/// A question on its way.
struct Pending {
    at: usize,
    since: Instant,
    attempts: u32,
}

/// Asks all questions in their order, and gives the answers in that order.
pub fn ask(resolver: &str, questions: &[Question]) -> Vec<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket.connect(resolver).unwrap();
    let mut answers = vec![String::new(); questions.len()];
    let (mut pending, mut next): (HashMap<u16, Pending>, usize) = (HashMap::new(), 0);
    let mut buffer = [0; 8_192];
    while next < questions.len() || !pending.is_empty() {
        while pending.len() < OUTSTANDING && next < questions.len() {
            let id = (next % 65_521) as u16;
            socket.send(&query(id, &questions[next])).unwrap();
            pending.insert(id, Pending { at: next, since: Instant::now(), attempts: 1 });
            next += 1;
        }
        if let Ok(length) = socket.recv(&mut buffer) {
            let id = u16::from_be_bytes([buffer[0], buffer[1]]);
            if let Some(done) = pending.remove(&id) {
                answers[done.at] = shown(&buffer[..length]);
            }
        }
        ask_again(&socket, questions, &mut pending);
    }
    answers
}

fn ask_again(socket: &UdpSocket, questions: &[Question], pending: &mut HashMap<u16, Pending>) {
    pending.retain(|_, one| one.attempts < ATTEMPTS || one.since.elapsed() < RETRY);
    for (id, one) in pending.iter_mut().filter(|(_, one)| one.since.elapsed() >= RETRY) {
        socket.send(&query(*id, &questions[one.at])).unwrap();
        (one.since, one.attempts) = (Instant::now(), one.attempts + 1);
    }
}

/// A query with RD, EDNS and DO.
fn query(id: u16, (name, qtype): &Question) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    ldplayer_core::name::parse(name, &mut message).unwrap();
    message.extend_from_slice(&qtype.to_be_bytes());
    message.extend_from_slice(&[0, 1, 0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0]);
    message
}

/// Code, flags, and what is answered. The authority section is left out: a resolver adds to it what its cache happens to hold.
fn shown(octets: &[u8]) -> String {
    let message = Message::from_octets(octets).unwrap();
    let header = message.header();
    let flags = [(header.tc(), "tc"), (header.ad(), "ad")];
    let flags: Vec<&str> = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    let records = message.answer().unwrap().map(|record| record.unwrap());
    let mut lines: Vec<String> =
        records.filter(|record| record.rtype() != Rtype::OPT).map(|record| line(&record)).collect();
    lines.sort();
    format!("{} {}\n{}", message.opt_rcode(), flags.join(" "), lines.join("\n"))
}

/// A record without its TTL, of which time has been taken.
fn line(record: &ParsedRecord<'_, &[u8]>) -> String {
    let data = record.to_any_record::<AllRecordData<_, _>>().unwrap();
    format!("{} {} {}", record.owner(), record.rtype(), data.data()).to_ascii_lowercase()
}
