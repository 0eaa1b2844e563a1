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
        assert_eq!((tally.damaged[0].reason.as_str(), tally.damaged[0].first.packet), ("truncated_capture", 20));
    }
}

/// Long enough that no search with a bound finds what is behind it.
const ZONE: usize = 5 << 20;

/// Octets of 20 packets of the captures above, and where the eleventh begins.
fn halves(octets: &[u8]) -> (&[u8], &[u8]) {
    let record = if octets.len() == pcap().len() { 77 } else { 96 };
    octets.split_at(octets.len() - 10 * record)
}

#[test]
fn a_zone_of_damage_of_any_length_is_left_behind() {
    let noise =
        |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d) as u8;
    let zones: [Vec<u8>; 3] = [vec![0; ZONE], vec![0xff; ZONE], (0..ZONE).map(noise).collect()];
    for (octets, reason) in [(pcap(), "bad_record"), (pcapng(), "bad_block")] {
        let (before, behind) = halves(&octets);
        for zone in &zones {
            let (count, tally) = read(&[before, zone, behind].concat()).expect("a capture");
            assert_eq!((count, tally.packets), (20, 20), "{:?}", tally.damaged);
            assert_eq!((tally.damaged.len(), tally.damaged[0].count), (1, 1), "{:?}", tally.damaged);
            let first = &tally.damaged[0].first;
            assert_eq!((tally.damaged[0].reason.as_str(), first.packet), (reason, 11));
            assert_eq!(first.offset, before.len() as u64);
        }
    }
}

#[test]
fn a_zone_that_overwrites_packets_costs_only_them() {
    for mut octets in [pcap(), pcapng()] {
        let (before, record) = (octets.len() - 10 * 77, 30);
        octets[before..before + record].fill(0);
        let (count, tally) = read(&octets).expect("a capture");
        assert!((18..20).contains(&count), "{count}");
        assert!(!tally.damaged.is_empty());
    }
}

#[test]
fn a_wrong_length_costs_its_packet_only() {
    // Too long but within reason, too long for the rest of the file, too short.
    for length in [200_u32, 60_000, 200_000, 20] {
        let mut octets = pcap();
        let at = 24 + 5 * 77;
        octets[at + 8..at + 12].copy_from_slice(&length.to_le_bytes());
        let (count, tally) = read(&octets).expect("a capture");
        assert_eq!((count, tally.damaged[0].reason.as_str()), (19, "bad_record"), "{length}");
        assert_eq!((tally.damaged[0].first.packet, tally.damaged[0].first.offset), (6, at as u64));
        let mut octets = pcapng();
        let at = 48 + 5 * 96;
        octets[at + 4..at + 8].copy_from_slice(&length.next_multiple_of(4).to_le_bytes());
        let (count, tally) = read(&octets).expect("a capture");
        assert_eq!((count, tally.damaged[0].reason.as_str()), (19, "bad_block"), "{length}");
        assert_eq!((tally.damaged[0].first.packet, tally.damaged[0].first.offset), (6, at as u64));
    }
}

#[test]
fn a_rest_that_cannot_be_decompressed_is_located() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(&pcap()).expect("memory");
    let mut packed = gzip.finish().expect("memory");
    // The check sum behind the content.
    let at = packed.len() - 8;
    packed[at] ^= 1;
    let (count, tally) = read(&packed).expect("a capture");
    let (reason, first) = (tally.damaged[0].reason.as_str(), &tally.damaged[0].first);
    assert_eq!((count, reason, first.packet, first.offset), (20, "unreadable_rest", 21, pcap().len() as u64));
}

#[test]
fn fragments_that_lack_are_told_by_the_first_of_them() {
    let mut octets = pcap();
    // The fourth and the sixth packet become first fragments of datagrams that are never whole.
    for number in [3, 5] {
        octets[24 + number * 77 + 16 + 14 + 6] = 0x20;
    }
    let (count, tally) = read(&octets).expect("a capture");
    assert_eq!((count, tally.damaged[0].reason.as_str(), tally.damaged[0].count), (18, "fragments_lack", 1));
    assert_eq!((tally.damaged[0].first.packet, tally.damaged[0].first.offset), (4, 24 + 3 * 77));
}

#[test]
fn a_bad_record_header_costs_its_packet_only() {
    let mut octets = pcap();
    let at = 24 + 5 * 77;
    octets[at + 8..at + 12].fill(0xff);
    let (count, tally) = read(&octets).expect("a capture");
    assert_eq!(count, 19);
    assert_eq!((tally.damaged[0].reason.as_str(), tally.damaged[0].first.offset), ("bad_record", at as u64));
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
