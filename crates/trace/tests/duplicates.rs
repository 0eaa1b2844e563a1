//! Datagrams that a capture has twice are counted, and left out where that is asked for.

use std::path::Path;

use ldplayer_trace::{Input, OpenOptions, Tally, open};

fn read(drop_duplicates: bool) -> (usize, usize, Tally) {
    read_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/seen-twice.pcap"), drop_duplicates)
}

fn read_file(file: &Path, drop_duplicates: bool) -> (usize, usize, Tally) {
    let options = OpenOptions { drop_duplicates, ..OpenOptions::default() };
    let (mut source, mut rows) = (open(&[Input::File(file.to_owned())], &options).unwrap(), Vec::new());
    while source.read(&mut rows).unwrap() {}
    let queries = rows.iter().filter(|row| row.query.is_some()).count();
    (queries, rows.iter().filter(|row| row.response.is_some()).count(), source.tally().clone())
}

/// Three queries, of which one is a repetition after a second, and two responses, each on two interfaces: six and four were read, and
/// nothing said so.
#[test]
fn copies_are_counted_and_left_out_on_demand_and_repetitions_stay() {
    let (queries, responses, tally) = read(false);
    assert_eq!((queries, responses, tally.duplicates, tally.skipped.get("duplicate")), (6, 4, 5, None));
    let (queries, responses, tally) = read(true);
    assert_eq!((queries, responses, tally.duplicates, tally.skipped.get("duplicate")), (3, 2, 5, Some(&5)));
}

/// Octets of an IPv4 datagram from 192.0.2.1:4000 to port 53, in a mirror's GRE with a sequence number (ERSPAN type II).
fn mirrored(sequence: u32, ttl: u8) -> Vec<u8> {
    let query = [0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1];
    let ip = |id: u16, ttl: u8, protocol: u8, payload: &[u8]| {
        let length = 20 + payload.len() as u16;
        let mut packet = vec![0x45, 0];
        [length, id, 0].iter().for_each(|word| packet.extend(word.to_be_bytes()));
        packet.extend([ttl, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 53]);
        [&packet, payload].concat()
    };
    let mut udp = Vec::new();
    [4_000, 53, 8 + query.len() as u16, 0].iter().for_each(|word: &u16| udp.extend(word.to_be_bytes()));
    udp.extend(query);
    let frame = [&[2; 12][..], &[8, 0], &ip(0, ttl, 17, &udp)].concat();
    let erspan = [&[0x10, 0, 0x88, 0xbe][..], &sequence.to_be_bytes(), &[0x10, 1, 0, 5, 0, 0, 0, 0], &frame].concat();
    [&[4; 12][..], &[8, 0], &ip(sequence as u16, 64, 47, &erspan)].concat()
}

/// Each mirrored frame has a sequence number and an identification of the mirror's own: they are no other place.
#[test]
fn a_repetition_in_a_mirror_stays_and_its_copy_behind_a_router_does_not() {
    let mut file: Vec<u8> = Vec::new();
    [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 1].iter().for_each(|word| file.extend(word.to_be_bytes()));
    for (micros, frame) in [(0, mirrored(1, 64)), (300, mirrored(2, 64)), (600, mirrored(3, 63))] {
        let length = frame.len() as u32;
        [1_700_000_000, micros, length, length].iter().for_each(|word| file.extend(word.to_be_bytes()));
        file.extend(frame);
    }
    let scratch = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(scratch.path(), file).unwrap();
    let (queries, _, tally) = read_file(scratch.path(), true);
    assert_eq!((queries, tally.duplicates), (2, 1));
}
