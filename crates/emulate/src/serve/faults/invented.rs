//! Aliases and delegations that no zone has: loops, chains, and referrals to very many servers.

use domain::base::{Name, Question, Record};
use ldplayer_core::Message;
use ldplayer_core::message::{HEADER, flag};
use ldplayer_core::name::MAX_NAME;
use ldplayer_zone::rtype::NS;

use super::Answering;
use super::change::{clear, only_question};
use super::records::Parts;

/// TTL of these records, in seconds.
const TTL: u32 = 60;
const CNAME: u16 = 5;
const IN: u16 = 1;
/// Octets between the owner of a record and its data.
const FIXED: usize = 10;
/// The first label of every other name of a loop of aliases, with its length.
const LOOP: &[u8] = b"\x04loop";
/// What makes the name of the other zone of a loop of delegations.
const OTHER: &[u8] = b"loop-";
/// Sections, as places of their counts.
const ANSWER: usize = 6;
const AUTHORITY: usize = 8;

/// A name and its alias, which has the first as its alias. Returns false where the alias would be too long.
pub fn alias_loop(name: &[u8], out: &mut Vec<u8>) -> bool {
    if name.get(..LOOP.len()).is_some_and(|label| label.eq_ignore_ascii_case(LOOP)) {
        return alias(out, &name[LOOP.len()..]);
    }
    alias(out, &[LOOP, name].concat())
}

/// A chain of so many aliases from a name on, whose end has what the name itself has. Returns false where a name would be too long.
pub fn alias_chain(name: &[u8], length: u16, query: &[u8], out: &mut Vec<u8>, again: Answering<'_>) -> bool {
    let (step, end) = match step_of(name) {
        Some((step, rest)) => (step, rest),
        None => (0, name),
    };
    if step < length {
        let label = (step + 1).to_string();
        return alias(out, &[&[label.len() as u8], label.as_bytes(), end].concat());
    }
    let length = HEADER + name.len();
    let asked = [&query[..HEADER], end, &query[length..]].concat();
    out.clear();
    again(&asked, out);
    // The answer was for the name itself: its question and its owner become the last name of the chain.
    let Some(mut parts) = Parts::of(out) else { return true };
    let Ok(owner) = Name::from_octets(name.to_vec()) else { return true };
    let before = parts.question.qname().clone();
    let (qtype, qclass) = (parts.question.qtype(), parts.question.qclass());
    parts.question = Question::new(owner.clone(), qtype, qclass);
    for record in &mut parts.answers {
        if *record.owner() == before {
            let (class, ttl, data) = (record.class(), record.ttl(), record.data().clone());
            *record = Record::new(owner.clone(), class, ttl, data);
        }
    }
    parts.write(out);
    true
}

/// The number that is the first label of a name, and what is behind it.
fn step_of(name: &[u8]) -> Option<(u16, &[u8])> {
    let (&length, rest) = name.split_first()?;
    let (label, rest) = rest.split_at_checked(length.into())?;
    Some((std::str::from_utf8(label).ok()?.parse().ok()?, rest))
}

/// The question with one CNAME record.
fn alias(out: &mut Vec<u8>, target: &[u8]) -> bool {
    if target.len() > MAX_NAME {
        return false;
    }
    only_question(out, 0, 0);
    insert(out, ANSWER, 1, |out| record(out, &[0xc0, HEADER as u8], CNAME, target));
    true
}

/// A referral of the name below the apex to a server below another zone, which is referred to a server below this one; neither has an address.
/// Returns false for the apex itself.
pub fn delegation_loop(name: &[u8], apex: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(cut) = cut_of(name, apex) else { return false };
    let label = &cut[1..=usize::from(cut[0])];
    let other = match label.get(..OTHER.len()).filter(|start| start.eq_ignore_ascii_case(OTHER)) {
        Some(_) => label[OTHER.len()..].to_vec(),
        None => [OTHER, label].concat(),
    };
    let server = [b"\x02ns", &[other.len() as u8][..], &other, apex].concat();
    if other.is_empty() || other.len() > 63 || server.len() > MAX_NAME {
        return false;
    }
    refer(out, name, cut, 1, |_, _| server.clone())
}

/// A referral of the name below the apex to so many servers, whose names are different ones below `target` each time. Returns false for the apex
/// itself.
pub fn many_servers(
    (name, apex): (&[u8], &[u8]),
    (count, target): (u16, &[u8]),
    chance: u64,
    out: &mut Vec<u8>,
) -> bool {
    let Some(cut) = cut_of(name, apex) else { return false };
    let mut first = None;
    refer(out, name, cut, count, |number, at| {
        let label = format!("n{number}-{:06x}", chance & 0xff_ffff);
        // Compressed, or else so many have no room in a datagram.
        let pointer = first.map(|at: usize| (0xc000 | at as u16).to_be_bytes());
        first.get_or_insert(at + 1 + label.len());
        [&[label.len() as u8][..], label.as_bytes(), pointer.as_ref().map_or(target, <[u8; 2]>::as_slice)].concat()
    })
}

/// The part of a name that is one label below the apex.
pub fn cut_of<'a>(mut name: &'a [u8], apex: &[u8]) -> Option<&'a [u8]> {
    loop {
        let rest = name.get(usize::from(*name.first()?) + 1..)?;
        if rest.eq_ignore_ascii_case(apex) {
            return Some(name);
        }
        name = rest;
    }
}

/// The question with a referral without glue to servers by their numbers and the places of their names.
fn refer(
    out: &mut Vec<u8>,
    name: &[u8],
    cut: &[u8],
    count: u16,
    mut server: impl FnMut(u16, usize) -> Vec<u8>,
) -> bool {
    only_question(out, 0, 0);
    clear(out, flag::AA);
    let owner = (0xc000 | (HEADER + name.len() - cut.len()) as u16).to_be_bytes();
    insert(out, AUTHORITY, count, |out| {
        for number in 0..count {
            let at = out.len() + owner.len() + FIXED;
            record(out, &owner, NS, &server(number, at));
        }
    });
    true
}

/// Adds records before OPT to a message with nothing but a question.
fn insert(out: &mut Vec<u8>, section: usize, count: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let Some(end) = Message::new(out).and_then(|message| message.behind_questions()) else { return };
    let opt = out.split_off(end);
    write(out);
    out.extend(opt);
    out[section..section + 2].copy_from_slice(&count.to_be_bytes());
}

fn record(out: &mut Vec<u8>, owner: &[u8], rtype: u16, data: &[u8]) {
    out.extend(owner);
    out.extend([rtype, IN].map(u16::to_be_bytes).as_flattened());
    out.extend(TTL.to_be_bytes());
    out.extend((data.len() as u16).to_be_bytes());
    out.extend(data);
}
