//! CBOR helpers for C-DNS (RFC 8949): the length of an item, and maps with integer keys.

use minicbor::Decoder;
use minicbor::data::Type;
use minicbor::decode::Error;

/// How deep items may be inside of each other; C-DNS needs eight.
const MAX_DEPTH: usize = 16;

/// Why there is no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoItem {
    /// The octets end before it does.
    Cut,
    /// It is no CBOR, or too deep.
    Broken,
}

/// Octets of the first item.
pub(crate) fn extent(octets: &[u8]) -> Result<usize, NoItem> {
    let mut decoder = Decoder::new(octets);
    pass(&mut decoder, MAX_DEPTH)?;
    Ok(decoder.position())
}

/// Passes over the next item. The decoder's own way needs an allocation for some of them.
pub(crate) fn skip(decoder: &mut Decoder<'_>) -> Result<(), Error> {
    pass(decoder, MAX_DEPTH).map_err(|_| Error::message("invalid item"))
}

fn pass(decoder: &mut Decoder<'_>, depth: usize) -> Result<(), NoItem> {
    let depth = depth.checked_sub(1).ok_or(NoItem::Broken)?;
    match decoder.datatype().map_err(reason)? {
        Type::Array | Type::ArrayIndef => {
            let length = decoder.array().map_err(reason)?;
            pass_all(decoder, length, depth)
        }
        Type::Map | Type::MapIndef => {
            let length = decoder.map().map_err(reason)?;
            pass_all(decoder, length.map(|length| length.saturating_mul(2)), depth)
        }
        Type::Tag => {
            decoder.tag().map_err(reason)?;
            pass(decoder, depth)
        }
        Type::Break => Err(NoItem::Broken),
        _ => decoder.skip().map_err(reason),
    }
}

/// Skips this many items, or all up to the break.
fn pass_all(decoder: &mut Decoder<'_>, length: Option<u64>, depth: usize) -> Result<(), NoItem> {
    let mut passed = 0;
    while length != Some(passed) {
        if length.is_none() && is_break(decoder).map_err(reason)? {
            return Ok(());
        }
        pass(decoder, depth)?;
        passed += 1;
    }
    Ok(())
}

#[allow(clippy::needless_pass_by_value)] // It is what `map_err` gives.
fn reason(error: Error) -> NoItem {
    if error.is_end_of_input() { NoItem::Cut } else { NoItem::Broken }
}

/// Whether the break of an indefinite length comes next; it is then consumed.
fn is_break(decoder: &mut Decoder<'_>) -> Result<bool, Error> {
    let is_break = decoder.datatype()? == Type::Break;
    if is_break {
        decoder.skip()?;
    }
    Ok(is_break)
}

/// Reads a map. `field` gets each key and reads its value, or leaves it alone, so that it is passed over: RFC 8618 asks
/// (section 7.1) to ignore unknown keys, those of an implementation being negative.
pub(crate) fn map<'b>(
    decoder: &mut Decoder<'b>,
    mut field: impl FnMut(i64, &mut Decoder<'b>) -> Result<(), Error>,
) -> Result<(), Error> {
    let length = decoder.map()?;
    let mut read = 0;
    while length != Some(read) {
        if length.is_none() && is_break(decoder)? {
            return Ok(());
        }
        let key = decoder.i64()?;
        let start = decoder.position();
        field(key, decoder)?;
        if decoder.position() == start {
            skip(decoder)?;
        }
        read += 1;
    }
    Ok(())
}

/// Appends the entries of an array, up to `most`.
pub(crate) fn array<'b, T>(
    decoder: &mut Decoder<'b>,
    most: usize,
    into: &mut Vec<T>,
    mut entry: impl FnMut(&mut Decoder<'b>) -> Result<T, Error>,
) -> Result<(), Error> {
    let length = decoder.array()?;
    for read in 0.. {
        if length == Some(read) || (length.is_none() && is_break(decoder)?) {
            break;
        }
        if read >= most as u64 {
            return Err(Error::message("too many entries"));
        }
        into.push(entry(decoder)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_item_reaches_to_its_end() {
        let items: [(&[u8], usize); 6] = [
            (&[0x05, 0xff], 1),
            (&[0x82, 0x01, 0x9f, 0x02, 0xff, 0x00], 5),
            (&[0xbf, 0x01, 0xa1, 0x20, 0x41, 0x07, 0xff, 0x00], 7),
            (&[0x5f, 0x41, 0x07, 0xff, 0x00], 4),
            (&[0xc1, 0x1a, 0, 0, 0, 1, 0x00], 6),
            (&[0x80], 1),
        ];
        for (octets, length) in items {
            assert_eq!(extent(octets), Ok(length), "{octets:?}");
            for cut in 0..length {
                assert_eq!(extent(&octets[..cut]), Err(NoItem::Cut), "{octets:?} to {cut}");
            }
        }
    }

    #[test]
    fn depth_and_nonsense_are_refused() {
        assert_eq!(extent(&[0x81; 15].iter().copied().chain([0]).collect::<Vec<_>>()), Ok(16));
        assert_eq!(extent(&[0x81; 1_000_000]), Err(NoItem::Broken));
        assert_eq!(extent(&[0xff]), Err(NoItem::Broken));
        assert_eq!(extent(&[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Err(NoItem::Cut));
    }

    #[test]
    fn what_a_field_leaves_alone_is_passed_over() {
        let octets = [0xbf, 0x20, 0x82, 0x01, 0x02, 0x03, 0x07, 0xff];
        let mut three = None;
        map(&mut Decoder::new(&octets), |key, value| {
            if key == 3 {
                three = Some(value.u64()?);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(three, Some(7));
    }

    proptest! {
        #[test]
        fn any_octets_end_in_an_extent_or_a_reason(octets: Vec<u8>) {
            if let Ok(length) = extent(&octets) {
                prop_assert!(length <= octets.len());
            }
        }
    }
}
