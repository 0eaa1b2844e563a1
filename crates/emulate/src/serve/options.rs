//! EDNS options of answers over encrypted connections: padding (RFC 7830, RFC 8467) and keepalive (RFC 7828).

use ldplayer_core::message::Message;

/// Codes of the options.
pub const KEEPALIVE: u16 = 11;
const PADDING: u16 = 12;
/// Answers are padded to multiples of so many octets (RFC 8467 §4.1).
const BLOCK: usize = 468;
/// Octets of an option without a value.
const HEAD: usize = 4;
/// Octets of the OPT record before its data, its owner included.
const FIXED: usize = 11;

/// Adds the options that the query asks for to its answer, whose last record is the OPT record: how long an idle connection stays open, in units of
/// 100 ms, where the transport has that, and padding. An answer without EDNS stays as it is.
pub fn complete(query: &[u8], idle_ns: Option<i64>, answer: &mut Vec<u8>) {
    let Some(asked) = Message::new(query) else { return };
    let Some(at) = Message::new(answer).and_then(|message| message.opt_offset()) else { return };
    if let Some(idle_ns) = idle_ns
        && asked.option(KEEPALIVE).is_some_and(<[u8]>::is_empty)
    {
        let units = u16::try_from(idle_ns / 100_000_000).unwrap_or(u16::MAX);
        push(answer, KEEPALIVE, &units.to_be_bytes());
    }
    if asked.option(PADDING).is_some() {
        let padded = (answer.len() + HEAD).next_multiple_of(BLOCK).min(usize::from(u16::MAX));
        let zeros = padded.saturating_sub(answer.len() + HEAD);
        push(answer, PADDING, &[0; BLOCK][..zeros.min(BLOCK)]);
    }
    let length = (answer.len() - at - FIXED) as u16;
    answer[at + FIXED - 2..at + FIXED].copy_from_slice(&length.to_be_bytes());
}

fn push(answer: &mut Vec<u8>, code: u16, value: &[u8]) {
    if answer.len() + HEAD + value.len() <= usize::from(u16::MAX) {
        answer.extend([code, value.len() as u16].map(u16::to_be_bytes).as_flattened());
        answer.extend(value);
    }
}

#[cfg(test)]
mod tests {
    use ldplayer_core::message::QueryParts;

    use super::*;

    fn message(options: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        QueryParts { id: 1, flags: 0, name: b"\x07example\0", qtype: 1, qclass: 1, edns: Some((1232, false)) }
            .compose(&mut message);
        let length = message.len();
        message[length - 1] = options.len() as u8;
        message.extend(options);
        message
    }

    #[test]
    fn an_answer_has_the_options_that_were_asked_for() {
        let mut answer = message(&[]);
        complete(&message(&[0, 11, 0, 0, 0, 12, 0, 3, 0, 0, 0]), Some(10_000_000_000), &mut answer);
        let said = Message::new(&answer).unwrap();
        assert_eq!((answer.len(), said.keepalive()), (BLOCK, Some(100)));
        assert!(said.option(PADDING).unwrap().iter().all(|&octet| octet == 0));
        let (mut plain, mut none) = (message(&[]), message(&[]));
        complete(&message(&[]), Some(10_000_000_000), &mut plain);
        assert_eq!(plain, message(&[]));
        none.truncate(none.len() - FIXED);
        none[11] = 0;
        let before = none.clone();
        complete(&message(&[0, 12, 0, 0]), Some(0), &mut none);
        assert_eq!(none, before, "without EDNS there is no place for an option");
        complete(&message(&[0, 11, 0, 0]), None, &mut plain);
        assert_eq!(plain, message(&[]), "over HTTP and QUIC");
    }
}
