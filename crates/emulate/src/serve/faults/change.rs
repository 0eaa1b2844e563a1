//! What a fault makes of an answer.

use ldplayer_core::Message;
use ldplayer_core::message::{HEADER, OPT, flag};

use ldplayer_core::transport::Transport;
use ldplayer_zone::UDP_SIZE;
use ldplayer_zone::rtype::{self, RRSIG};

use super::{Answer, Answering, Asked, edits, invented};

/// Response codes (RFC 6895 §2.3).
const FORMERR: u16 = 1;
const SERVFAIL: u16 = 2;
const BADVERS: u16 = 16;
/// Octets of an answer over UDP to a query without EDNS (RFC 1035 §4.2.1).
const WITHOUT_EDNS: usize = 512;
/// Where the flags of EDNS are in an OPT record, from its name on (RFC 6891 §6.1.2).
const EDNS_FLAGS: usize = 7;

/// Where the times of a signature are in the data of its record, its signer's name, and how far other times are (RFC 4034 §3.1), in seconds.
const EXPIRATION: usize = 8;
const INCEPTION: usize = 12;
const SIGNER: usize = 18;
const FAR: u32 = 10 * 365 * 86_400;

/// Whether an answer is possible to a query.
pub const fn can(answer: &Answer, asked: &Asked<'_>) -> bool {
    match answer {
        Answer::NoEdns | Answer::BadVersion | Answer::EdnsIgnored | Answer::Unsigned => asked.edns,
        Answer::WrongPort => matches!(asked.transport, Transport::Udp),
        _ => true,
    }
}

/// What a change may need to know.
pub struct Case<'a> {
    /// The query, as rules see it.
    pub asked: &'a Asked<'a>,
    /// Its octets.
    pub query: &'a [u8],
    /// Another number each time.
    pub chance: u64,
}

/// Changes the answer to a query in `out`. `other` is room for another query, which `again` answers.
pub fn change(answer: &Answer, case: &Case<'_>, other: &mut Vec<u8>, out: &mut Vec<u8>, again: Answering<'_>) {
    let (name, apex) = (case.asked.name, case.asked.zone.unwrap_or(&[]));
    match answer {
        // They leave the answer as it is.
        Answer::None | Answer::Reset | Answer::WrongPort => {}
        Answer::Code(code) => only_question(out, *code, 0),
        Answer::Truncated => only_question(out, 0, flag::TC),
        Answer::Lame => {
            only_question(out, 0, 0);
            clear(out, flag::AA);
        }
        Answer::NoEdns => {
            only_question(out, FORMERR, 0);
            if let Some(plain) = Message::new(out).and_then(|message| message.without_edns()) {
                *out = plain;
            }
        }
        Answer::BadVersion => only_question(out, BADVERS, 0),
        Answer::WrongId => out[0] ^= 0xff,
        Answer::WrongQuestion => ask_another(out),
        Answer::WithoutGlue => without_additional(out),
        Answer::WrongGlue => other_addresses(out),
        Answer::WithoutOptions => without_options(out),
        Answer::WithoutDs => edits::without_ds(out),
        Answer::WithoutDenial => edits::without_denial(out),
        Answer::FewerServers => edits::fewer_servers(out),
        Answer::WrongDenial => deny_another(case, other, out, again),
        Answer::AliasLoop => or_failure(invented::alias_loop(name, out), out),
        Answer::AliasChain(length) => or_failure(invented::alias_chain(name, *length, case.query, out, again), out),
        Answer::DelegationLoop => drop(invented::delegation_loop(name, apex, out)),
        Answer::ManyServers { count, target } => {
            invented::many_servers((name, apex), (*count, target), case.chance, out);
        }
        Answer::Expired => signatures(out, |data| earlier(data, FAR)),
        Answer::NotYetValid => signatures(out, |data| earlier(data, FAR.wrapping_neg())),
        Answer::Bogus => signatures(out, |data| {
            if let Some(last) = data.last_mut() {
                *last ^= 1;
            }
        }),
        Answer::EdnsIgnored | Answer::Unsigned => {
            other.clear();
            match (answer, Message::new(case.query).and_then(|query| query.without_edns())) {
                (Answer::EdnsIgnored, Some(plain)) => other.extend(plain),
                _ => without_do(case.query, other),
            }
            out.clear();
            again(other, out);
        }
    }
}

/// Truncates an answer over UDP that has become longer than it was, and than any client takes.
pub fn fit(asked: &Asked<'_>, before: usize, out: &mut Vec<u8>) {
    let most = if asked.edns { usize::from(UDP_SIZE) } else { WITHOUT_EDNS };
    if asked.transport == Transport::Udp && out.len() > before.max(most) {
        only_question(out, 0, flag::TC);
    }
}

/// Names of an invented answer do not become too long; where one would, the answer is SERVFAIL.
fn or_failure(is_made: bool, out: &mut Vec<u8>) {
    if !is_made {
        only_question(out, SERVFAIL, 0);
    }
}

/// Leaves header, question and OPT, with this code and these flags.
pub fn only_question(out: &mut Vec<u8>, code: u16, flags: u16) {
    let Some(message) = Message::new(out) else { return };
    let Some(end) = message.behind_questions() else { return };
    let opt = message.opt_offset().and_then(|at| Some(at..message.record_at(at)?.0));
    let kept = (message.flags() & !0xf) | (code & 0xf) | flags;
    let length = opt.as_ref().map_or(0, ExactSizeIterator::len);
    if let Some(opt) = opt {
        out.copy_within(opt, end);
        // The upper bits of the code begin the TTL, behind name, type and class.
        out[end + 5] = (code >> 4) as u8;
    }
    out.truncate(end + length);
    out[2..4].copy_from_slice(&kept.to_be_bytes());
    out[6..HEADER].fill(0);
    out[HEADER - 1] = u8::from(length > 0);
}

/// Clears flags.
pub fn clear(out: &mut [u8], flags: u16) {
    let kept = u16::from_be_bytes([out[2], out[3]]) & !flags;
    out[2..4].copy_from_slice(&kept.to_be_bytes());
}

/// Another name in the question, or for the root another type.
fn ask_another(out: &mut [u8]) {
    let Some(question) = Message::new(out).and_then(|message| message.question()) else { return };
    let at = if question.name.len() > 1 { HEADER + 1 } else { HEADER + 2 };
    out[at] ^= 1;
}

/// Takes away the additional section, but for OPT.
fn without_additional(out: &mut Vec<u8>) {
    let Some(message) = Message::new(out) else { return };
    let [_, answers, authorities, additionals] = message.counts();
    let records = u32::from(answers) + u32::from(authorities);
    let begin =
        message.behind_questions().and_then(|at| (0..records).try_fold(at, |at, _| Some(message.record_at(at)?.0)));
    let Some(begin) = begin else { return };
    let (mut at, mut opt) = (begin, None);
    for _ in 0..additionals {
        let Some((next, rtype)) = message.record_at(at) else { return };
        if rtype == OPT {
            opt = Some(at..next);
        }
        at = next;
    }
    let length = opt.as_ref().map_or(0, ExactSizeIterator::len);
    if let Some(opt) = opt {
        out.copy_within(opt, begin);
    }
    out.truncate(begin + length);
    out[10..HEADER].copy_from_slice(&u16::from(length > 0).to_be_bytes());
}

/// Takes away the options of OPT.
fn without_options(out: &mut Vec<u8>) {
    let Some(message) = Message::new(out) else { return };
    let found = message.opt_offset().and_then(|at| Some((message.rdata_at(at)?, message.record_at(at)?.0)));
    let Some((data, end)) = found else { return };
    out.drain(data..end);
    out[data - 2..data].fill(0);
}

/// Other addresses in the additional section: all bits of the last octet are flipped.
fn other_addresses(out: &mut [u8]) {
    let Some([_, answers, authorities, _]) = Message::new(out).map(|message| message.counts()) else { return };
    let mut before = u32::from(answers) + u32::from(authorities);
    records(out, |rtype, data| {
        if before > 0 {
            before -= 1;
        } else if let (rtype::A | rtype::AAAA, Some(last)) = (rtype, data.last_mut()) {
            *last ^= 0xff;
        }
    });
}

/// The answer to a query for another name of the zone, as long as the one that was asked; names at the apex are answered.
fn deny_another(case: &Case<'_>, other: &mut Vec<u8>, out: &mut Vec<u8>, again: Answering<'_>) {
    let name = case.asked.name;
    if case.asked.zone.and_then(|apex| invented::cut_of(name, apex)).is_none() {
        return;
    }
    other.clear();
    other.extend(case.query);
    other[HEADER + 1..][..usize::from(name[0])].fill(b'~');
    out.clear();
    again(other, out);
    if let Some(question) = out.get_mut(HEADER..HEADER + name.len()) {
        question.copy_from_slice(name);
    }
}

/// Changes the data of each signature.
fn signatures(out: &mut [u8], change: impl Fn(&mut [u8])) {
    records(out, |rtype, data| {
        if rtype == RRSIG && data.len() > SIGNER {
            change(data);
        }
    });
}

/// Changes the data of each record.
fn records(out: &mut [u8], mut change: impl FnMut(u16, &mut [u8])) {
    let Some(message) = Message::new(out) else { return };
    let [_, records @ ..] = message.counts();
    let count: u32 = records.into_iter().map(u32::from).sum();
    let Some(mut at) = message.behind_questions() else { return };
    for _ in 0..count {
        let Some(message) = Message::new(out) else { return };
        let (Some((next, rtype)), Some(data)) = (message.record_at(at), message.rdata_at(at)) else { return };
        change(rtype, &mut out[data..next]);
        at = next;
    }
}

/// Both times of a signature so many seconds earlier, around the end of 32 bits (RFC 1982).
fn earlier(data: &mut [u8], seconds: u32) {
    for at in [EXPIRATION, INCEPTION] {
        if let Some(time) = data[at..].first_chunk_mut() {
            *time = u32::from_be_bytes(*time).wrapping_sub(seconds).to_be_bytes();
        }
    }
}

/// The query without the wish for signatures.
fn without_do(query: &[u8], other: &mut Vec<u8>) {
    other.extend(query);
    if let Some(at) = Message::new(query).and_then(|query| query.opt_offset()) {
        other[at + EDNS_FLAGS] &= !((flag::DO >> 8) as u8);
    }
}
