//! Streams of HTTP/3 from a server: responses and control mean the same however they are cut, and end in a value or a fault.
#![no_main]

use libfuzzer_sys::fuzz_target;

use ldplayer_replay::internals::{http3_control, http3_response};

fuzz_target!(|data: &[u8]| {
    let Some((&cut, octets)) = data.split_first() else { return };
    let size = usize::from(cut % 16) + 1;
    let whole = http3_response([octets]);
    assert_eq!(whole, http3_response(octets.chunks(size)));
    assert!(whole.is_ok_and(|body| body.len() <= octets.len().min(65_535)) || http3_response([octets]).is_err());
    let told = http3_control([(0, octets, false)]);
    let in_pieces = http3_control(octets.chunks(size).map(|piece| (0, piece, false)));
    assert_eq!(told.is_ok(), in_pieces.is_ok());
    if let (Ok(told), Ok(in_pieces)) = (told, in_pieces) {
        assert_eq!(told.last(), in_pieces.last());
        assert!(in_pieces.is_sorted_by(|earlier, later| earlier > later) && in_pieces.iter().all(|id| id % 4 == 0));
    }
    // Several streams at once, some of which end: the first octet of each piece says which.
    let pieces = octets.chunks(size).filter_map(|piece| piece.split_first());
    let _ = http3_control(pieces.map(|(&first, piece)| (u64::from(first & 7), piece, first & 0x80 != 0)));
});
