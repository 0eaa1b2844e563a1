//! DNS over QUIC (RFC 9250): one stream per query, with length-prefixed query and answer.

use bytes::Bytes;
use ldplayer_core::Message;
use ldplayer_core::message::HEADER;

use crate::connections::framing;
use crate::padding::Options;

/// What clients offer to speak (RFC 9250 §4.1.1).
pub const ALPN: &[u8] = b"doq";
/// Why a connection or stream is ended: for no error … (RFC 9250 §4.3)
pub const NO_ERROR: u32 = 0x0;
/// … since the other side broke the protocol …
pub const PROTOCOL_ERROR: u32 = 0x2;
/// … since the answer is not wanted any more.
pub const REQUEST_CANCELLED: u32 = 0x3;
/// … since the other side makes too much work.
pub const EXCESSIVE_LOAD: u32 = 0x4;

/// Operations that may go as early data, since they do no harm when they are replayed: queries and notifications (RFC 9250
/// §4.5).
const REPLAYABLE: [u8; 2] = [0, 4];

/// The server broke the protocol: the connection is to be ended with [`PROTOCOL_ERROR`] (RFC 9250 §4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// What goes on the stream of a query, padded to a multiple of `block` octets, and the length of the message: its ID must be
/// 0 (RFC 9250 §4.2.1), and it must not have the option edns-tcp-keepalive (§5.5.2), as queries recorded over TCP may.
pub fn compose(wire: &[u8], block: u16) -> (Bytes, u16) {
    let mut out = Vec::with_capacity(2 + wire.len() + usize::from(block));
    let length = match without_keepalive(wire) {
        Some(without) => framing::append(&mut out, &without, 0, block),
        None => framing::append(&mut out, wire, 0, block),
    };
    (out.into(), length)
}

/// Code of the option edns-tcp-keepalive (RFC 7828 §3.1).
const KEEPALIVE: u16 = 11;

/// A message that has the option edns-tcp-keepalive, without it, however often it is there. What stands behind an option that
/// is not whole stays as it is.
fn without_keepalive(wire: &[u8]) -> Option<Vec<u8>> {
    let (start, options) = options(wire)?;
    if !has_option(options, KEEPALIVE) {
        return None;
    }
    let mut out = wire[..start].to_vec();
    let mut whole = 0;
    for (code, option) in Options(options) {
        whole += option.len();
        out.extend_from_slice(if code == KEEPALIVE { &[] } else { option });
    }
    out.extend_from_slice(&options[whole..]);
    let length = (out.len() - start) as u16;
    out[start - 2..start].copy_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&wire[start + options.len()..]);
    Some(out)
}

/// Where the options of the OPT record begin, and their octets (RFC 6891 §6.1.2).
fn options(wire: &[u8]) -> Option<(usize, &[u8])> {
    /// Octets of an OPT record before the length of its options.
    const BEFORE: usize = 9;
    let at = Message::new(wire)?.opt_offset()? + BEFORE;
    let (start, length) = (at + 2, usize::from(word_at(wire, at)?));
    Some((start, wire.get(start..(start + length).min(wire.len()))?))
}

fn has_option(options: &[u8], code: u16) -> bool {
    Options(options).any(|(of, _)| of == code)
}

fn word_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]))
}

/// The message on a stream that the server has ended; of several messages of a zone transfer the first.
///
/// # Errors
/// When it is cut, is followed by another one, has an ID, or has the option edns-tcp-keepalive (§5.5.2).
pub fn split<'a>(asked: &[u8], mut octets: &'a [u8]) -> Result<&'a [u8], Broken> {
    let message = framing::split(&mut octets).filter(|message| message.len() >= HEADER).ok_or(Broken)?;
    let is_whole = octets.is_empty() || is_transfer(asked);
    let has_keepalive = || options(message).is_some_and(|(_, options)| has_option(options, KEEPALIVE));
    if is_whole && message[..2] == [0, 0] && !has_keepalive() { Ok(message) } else { Err(Broken) }
}

/// Whether a query may be sent as early data.
pub fn is_replayable(wire: &[u8]) -> bool {
    wire.get(2).is_some_and(|flags| REPLAYABLE.contains(&(flags >> 3 & 0xf)))
}

/// Whether a query asks for a zone.
pub fn is_transfer(asked: &[u8]) -> bool {
    Message::new(asked)
        .and_then(|message| message.question())
        .is_some_and(|question| framing::TRANSFERS.contains(&question.qtype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_octets_are_a_message_or_broken(octets in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(message) = split(&[], &octets) {
                prop_assert_eq!(message, &octets[2..]);
            }
        }

        #[test]
        fn what_is_composed_is_split_again(wire in prop::collection::vec(any::<u8>(), HEADER..600)) {
            let composed = compose(&wire, 0).0;
            let message = split(&wire, &composed).unwrap();
            let expected = without_keepalive(&wire).unwrap_or(wire);
            prop_assert_eq!((&message[..2], &message[2..]), (&[0, 0][..], &expected[2..]));
        }
    }

    /// A query whose OPT record has these options, and `behind` it other records.
    fn with(options: &[&[u8]], behind: &[u8]) -> Vec<u8> {
        let (mut wire, options) = (crate::test::query(0, 0).wire.to_vec(), options.concat());
        wire[11] = 1 + u8::from(!behind.is_empty());
        wire.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\x80\0");
        wire.extend_from_slice(&(options.len() as u16).to_be_bytes());
        wire.extend_from_slice(&options);
        wire.extend_from_slice(behind);
        wire[..2].copy_from_slice(&[0, 0]);
        wire
    }

    #[test]
    fn every_keepalive_of_tcp_is_left_out_wherever_it_stands() {
        let (before, after) = (&b"\0\x0a\0\x02ab"[..], &b"\0\x0c\0\x01\0"[..]);
        let record = b"\0\0\x10\0\x01\0\0\0\0\0\x02\x01a";
        for keepalive in [&b"\0\x0b\0\0"[..], b"\0\x0b\0\x02\0\x64", b"\0\x0b\0\x05abcde"] {
            for behind in [&[][..], record] {
                let left = |options: &[&[u8]]| compose(&with(options, behind), 0).0[2..].to_vec();
                assert_eq!(left(&[before, keepalive, after]), with(&[before, after], behind));
                assert_eq!(left(&[keepalive]), with(&[], behind));
                assert_eq!(
                    left(&[keepalive, before, keepalive, keepalive, after, keepalive]),
                    with(&[before, after], behind)
                );
                assert_eq!(left(&[before, after]), with(&[before, after], behind));
            }
        }
        let cut = [&b"\0\x0b\0\x09"[..]];
        assert_eq!(
            compose(&with(&cut, &[]), 0).0[2..],
            with(&cut, &[]),
            "an option that is not all there stays as it is"
        );
    }

    #[test]
    fn a_keepalive_of_tcp_in_an_answer_breaks_the_protocol() {
        let framed = |message: &[u8]| [&(message.len() as u16).to_be_bytes(), message].concat();
        let (cookie, keepalive) = (&b"\0\x0a\0\x02ab"[..], &b"\0\x0b\0\0"[..]);
        let (good, bad) = (with(&[cookie], &[]), with(&[cookie, keepalive], &[]));
        assert_eq!(split(&good, &framed(&good)), Ok(&good[..]));
        assert_eq!(split(&good, &framed(&bad)), Err(Broken));
    }

    #[test]
    fn queries_and_notifications_may_be_replayed_and_a_transfer_may_have_several_messages() {
        let with_opcode = |opcode: u8| [0, 0, opcode << 3 | 1];
        let allowed: Vec<u8> = (0..16).filter(|&opcode| is_replayable(&with_opcode(opcode))).collect();
        assert_eq!(allowed, REPLAYABLE);
        let query = crate::test::query(0, 0).wire;
        let mut transfer = query.to_vec();
        let qtype = transfer.len() - 4;
        transfer[qtype..qtype + 2].copy_from_slice(&252_u16.to_be_bytes());
        let twice = [compose(&query, 0).0, compose(&query, 0).0].concat();
        assert_eq!((split(&query, &twice).is_err(), split(&transfer, &twice).is_ok()), (true, true));
    }
}
