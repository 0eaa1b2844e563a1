//! Length-prefixed messages in a stream (RFC 1035 §4.2.2).

use crate::padding;

/// Length of the prefix.
pub const LENGTH: usize = 2;

/// Types of queries whose answers may be several messages: IXFR and AXFR.
pub const TRANSFERS: [u16; 2] = [251, 252];

/// Takes the first complete message off `octets`; `None` if it is incomplete.
pub fn split<'a>(octets: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = octets.split_first_chunk::<LENGTH>()?;
    let (message, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *octets = rest;
    Some(message)
}

/// Appends `wire` with the ID `id` and a length prefix, padded to a multiple of `block` octets (0: unpadded), and returns its
/// length. Callers ensure that the length fits into the prefix.
pub fn append(out: &mut Vec<u8>, wire: &[u8], id: u16, block: u16) -> u16 {
    let start = out.len() + LENGTH;
    out.extend_from_slice(&[0; LENGTH]);
    padding::append(out, &wire[..wire.len().min(usize::from(u16::MAX))], block);
    let length = (out.len() - start) as u16;
    out[start - LENGTH..start].copy_from_slice(&length.to_be_bytes());
    ldplayer_core::message::set_id(&mut out[start..], id);
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_survive_any_cut_of_the_stream(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 2..300), 0..8),
            cut in 1usize..40,
        ) {
            let mut stream = Vec::new();
            for message in &messages {
                append(&mut stream, message, 7, 0);
            }
            let (mut got, mut kept) = (Vec::new(), Vec::new());
            for segment in stream.chunks(cut) {
                kept.extend_from_slice(segment);
                let mut rest = kept.as_slice();
                while let Some(message) = split(&mut rest) {
                    got.push(message.to_vec());
                }
                kept = rest.to_vec();
            }
            prop_assert!(kept.is_empty());
            let expected: Vec<Vec<u8>> = messages.iter().map(|message| [&[0, 7], &message[2..]].concat()).collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn any_octets_end_in_messages_or_the_wish_for_more(octets in prop::collection::vec(any::<u8>(), 0..600)) {
            let mut rest = octets.as_slice();
            while split(&mut rest).is_some() {}
            prop_assert!(rest.len() <= octets.len());
        }
    }
}
