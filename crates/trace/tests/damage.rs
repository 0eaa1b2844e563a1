//! Captures with octets changed, cut off or made up are read to their end without a panic, and damage is counted.

use std::io::Write;

use ldplayer_trace::{Input, OpenOptions, Tally, TraceError, open};
use proptest::prelude::*;

/// Ethernet, IPv4, UDP and the query `a. IN A` with this ID.
fn packet(id: u8) -> Vec<u8> {
    let mut packet = vec![0; 12];
    packet.extend_from_slice(&[8, 0, 0x45, 0, 0, 47, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
    packet.extend_from_slice(&[0x9c, 0x40, 0, 53, 0, 27, 0, 0]);
    packet.extend_from_slice(&[0, id, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1]);
    packet
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pcap() -> Vec<u8> {
    let mut octets = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for id in 0..20 {
        octets.extend(words(&[1_700_000_000, u32::from(id), 61, 61]));
        octets.extend(packet(id));
    }
    octets
}

fn pcapng() -> Vec<u8> {
    let mut octets = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, !0, !0, 28]);
    octets.extend(words(&[1, 20, 1, 65_535, 20]));
    for id in 0..20 {
        octets.extend(words(&[6, 96, 0, 0x0006_0a24, u32::from(id), 61, 61]));
        octets.extend(packet(id));
        octets.extend([0; 3]);
        octets.extend(words(&[96]));
    }
    octets
}

fn read(octets: &[u8]) -> Result<(u64, Tally), TraceError> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(octets).expect("space");
    let mut source = open(&[Input::File(file.path().to_owned())], &OpenOptions::default())?;
    let (mut batch, mut count) = (Vec::new(), 0);
    loop {
        let more = source.read(&mut batch)?;
        count += batch.len() as u64;
        batch.clear();
        if !more {
            return Ok((count, source.tally().clone()));
        }
    }
}

#[test]
fn whole_captures_give_every_query() {
    for octets in [pcap(), pcapng()] {
        let (count, tally) = read(&octets).expect("a capture");
        assert_eq!((count, tally.packets, tally.queries), (20, 20, 20));
        assert!(tally.damaged.is_empty(), "{:?}", tally.damaged);
    }
}

#[test]
fn a_capture_cut_off_keeps_what_came_before() {
    for octets in [pcap(), pcapng()] {
        let (count, tally) = read(&octets[..octets.len() - 10]).expect("a capture");
        assert_eq!(count, 19);
        assert_eq!(tally.damaged.len(), 1);
        assert_eq!((tally.damaged[0].reason, tally.damaged[0].first.packet), ("truncated_capture", 20));
    }
}

#[test]
fn a_bad_record_header_costs_its_packet_only() {
    let mut octets = pcap();
    let at = 24 + 5 * 77;
    octets[at + 8..at + 12].fill(0xff);
    let (count, tally) = read(&octets).expect("a capture");
    assert_eq!(count, 19);
    assert_eq!((tally.damaged[0].reason, tally.damaged[0].first.offset), ("bad_record", at as u64));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_octets_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        ng: bool,
    ) {
        let mut octets = if ng { pcapng() } else { pcap() };
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        if let Ok((count, tally)) = read(&octets) {
            prop_assert!(count <= tally.packets.max(tally.dns_messages));
        }
    }

    #[test]
    fn made_up_frames_never_panic(octets in prop::collection::vec(any::<u8>(), 0..600), link in 0..300_u32) {
        let length = octets.len() as u32;
        let mut capture = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link, 1, 1, length, length]);
        capture.extend(octets);
        let (_, tally) = read(&capture).expect("a capture");
        prop_assert_eq!(tally.packets, 1);
    }
}
