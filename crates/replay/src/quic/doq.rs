//! DNS over QUIC (RFC 9250): a stream for each query, on it the query and its answer, each behind its length.

use std::ops::Range;

use bytes::Bytes;
use ldplayer_core::Message;
use ldplayer_core::message::HEADER;

use crate::connections::framing;

/// What clients offer to speak (RFC 9250 §4.1.1).
pub const ALPN: &[u8] = b"doq";
/// Why a connection or stream is ended: for no error … (RFC 9250 §4.3)
pub const NO_ERROR: u32 = 0x0;
/// … since the other side broke the protocol …
pub const PROTOCOL_ERROR: u32 = 0x2;
/// … since the answer is not wanted any more.
pub const REQUEST_CANCELLED: u32 = 0x3;

/// Types of queries whose answers may be several messages: IXFR and AXFR.
const TRANSFERS: [u16; 2] = [251, 252];
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
    let length = match keepalive(wire) {
        Some(option) => {
            let mut without = wire.to_vec();
            let length = opt_length(wire).unwrap_or_default() - option.len() as u16;
            if let Some(place) = opt_length_at(wire) {
                without[place..place + 2].copy_from_slice(&length.to_be_bytes());
            }
            without.drain(option);
            framing::append(&mut out, &without, 0, block)
        }
        None => framing::append(&mut out, wire, 0, block),
    };
    (out.into(), length)
}

/// Where the length of the options is, in a message that has some (RFC 6891 §6.1.2).
fn opt_length_at(wire: &[u8]) -> Option<usize> {
    const BEFORE: usize = 9;
    Message::new(wire)?.opt_offset().map(|offset| offset + BEFORE)
}

fn opt_length(wire: &[u8]) -> Option<u16> {
    word_at(wire, opt_length_at(wire)?)
}

/// Where the option edns-tcp-keepalive (RFC 7828 §3.1) is.
fn keepalive(wire: &[u8]) -> Option<Range<usize>> {
    const KEEPALIVE: u16 = 11;
    let mut at = opt_length_at(wire)? + 2;
    let end = (at + usize::from(opt_length(wire)?)).min(wire.len());
    loop {
        let (code, length) = (word_at(wire, at)?, word_at(wire, at + 2)?);
        let behind = at + 4 + usize::from(length);
        if behind > end {
            return None;
        }
        if code == KEEPALIVE {
            return Some(at..behind);
        }
        at = behind;
    }
}

fn word_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]))
}

/// The message on a stream that the server has ended; of several messages of a zone transfer the first.
///
/// # Errors
/// When it is cut, is followed by another one, or has an ID.
pub fn split<'a>(asked: &[u8], mut octets: &'a [u8]) -> Result<&'a [u8], Broken> {
    let message = framing::split(&mut octets).filter(|message| message.len() >= HEADER).ok_or(Broken)?;
    let is_whole = octets.is_empty() || is_transfer(asked);
    if is_whole && message[..2] == [0, 0] { Ok(message) } else { Err(Broken) }
}

/// Whether a query may be sent as early data.
pub fn is_replayable(wire: &[u8]) -> bool {
    wire.get(2).is_some_and(|flags| REPLAYABLE.contains(&(flags >> 3 & 0xf)))
}

fn is_transfer(asked: &[u8]) -> bool {
    Message::new(asked)
        .and_then(|message| message.question())
        .is_some_and(|question| TRANSFERS.contains(&question.qtype))
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
            prop_assert_eq!((&message[..2], &message[2..]), (&[0, 0][..], &wire[2..]));
        }
    }

    #[test]
    fn the_keepalive_of_tcp_is_left_out() {
        let with = |options: &[&[u8]]| {
            let (mut wire, options) = (crate::test::query(0, 0).wire.to_vec(), options.concat());
            wire[11] = 1;
            wire.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\x80\0");
            wire.extend_from_slice(&(options.len() as u16).to_be_bytes());
            wire.extend_from_slice(&options);
            wire[..2].copy_from_slice(&[0, 0]);
            wire
        };
        let (before, behind) = (&b"\0\x0a\0\x02ab"[..], &b"\0\x0c\0\x01\0"[..]);
        for keepalive in [&b"\0\x0b\0\0"[..], b"\0\x0b\0\x02\0\x64"] {
            assert_eq!(compose(&with(&[before, keepalive, behind]), 0).0[2..], with(&[before, behind]));
            assert_eq!(compose(&with(&[keepalive]), 0).0[2..], with(&[]));
        }
        assert_eq!(compose(&with(&[before, behind]), 0).0[2..], with(&[before, behind]));
        let cut = with(&[b"\0\x0b\0\x09"]);
        assert_eq!(compose(&cut, 0).0[2..], cut, "an option that is not all there stays as it is");
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
