//! Messages in a stream: each behind its length in two octets (RFC 1035 §4.2.2).

/// Octets of a length.
const LENGTH: usize = 2;

/// Takes the first whole message off `octets`; `None` while it is not all there.
pub fn split<'a>(octets: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = octets.split_first_chunk::<LENGTH>()?;
    let (message, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *octets = rest;
    Some(message)
}

/// Appends `wire` under the ID `id`, behind its length. Longer messages than a length can tell are cut, which the callers
/// rule out.
pub fn append(out: &mut Vec<u8>, wire: &[u8], id: u16) {
    let length = wire.len().min(usize::from(u16::MAX));
    out.extend_from_slice(&(length as u16).to_be_bytes());
    let start = out.len();
    out.extend_from_slice(&wire[..length]);
    ldplayer_core::message::set_id(&mut out[start..], id);
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
            messages.iter().for_each(|message| append(&mut stream, message, 7));
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
