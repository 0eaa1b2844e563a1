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

/// What is known of the share of an input that was not read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    /// It is above the first and not above the second.
    Within(f64, f64),
    Unknown,
    /// Known or not: it depends on where the decoder notices.
    Any,
}

/// A damaged input, what must be said of it, and the share of it that was not read.
type Damaged = (&'static str, Vec<u8>, &'static [&'static str], Share);

fn changed(mut octets: Vec<u8>, at: usize, by: &[u8]) -> Vec<u8> {
    octets[at..at + by.len()].copy_from_slice(by);
    octets
}

fn cut(mut octets: Vec<u8>, lacking: usize) -> Vec<u8> {
    octets.truncate(octets.len() - lacking);
    octets
}

fn flipped(octets: Vec<u8>) -> Vec<u8> {
    let at = octets.len() / 2;
    let changed_octet = [octets[at] ^ 0x10];
    changed(octets, at, &changed_octet)
}

/// So much of a pcap that compressed files of it have several blocks; the labels do not compress well.
fn long_pcap() -> Vec<u8> {
    let mut octets = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    let mut random = 1_u64;
    for number in 0..20_000_u32 {
        let mut packet = packet(number as u8);
        for octet in &mut packet[26..30] {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *octet = (random >> 56) as u8;
        }
        octets.extend(words(&[1_700_000_000, number, 61, 61]));
        octets.extend(packet);
    }
    octets
}

fn compressed(content: &[u8]) -> [(&'static str, Vec<u8>); 5] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    let info = lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB).content_checksum(true);
    let mut lz4 = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    for writer in [&mut gzip as &mut dyn Write, &mut xz, &mut lz4, &mut bzip2] {
        writer.write_all(content).unwrap();
    }
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
    zstd.include_checksum(true).unwrap();
    zstd.write_all(content).unwrap();
    [
        ("gzip", gzip.finish().unwrap()),
        ("xz", xz.finish().unwrap()),
        ("lz4", lz4.finish().unwrap()),
        ("bzip2", bzip2.finish().unwrap()),
        ("zstd", zstd.finish().unwrap()),
    ]
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The same queries as Parquet.
fn parquet(tsv: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (text, path) = (folder.path().join("t.tsv"), folder.path().join("t.parquet"));
    std::fs::write(&text, tsv).unwrap();
    let mut source = open(&[Input::File(text)], &OpenOptions::default()).unwrap();
    let mut sink = ldplayer_trace::create(&path, ldplayer_trace::Format::Parquet, false).unwrap();
    let mut batch = Vec::new();
    while source.read(&mut batch).unwrap() {}
    sink.write(&mut batch).unwrap();
    sink.finish().unwrap();
    std::fs::read(path).unwrap()
}

fn damaged_inputs() -> Vec<Damaged> {
    let record = |number: usize| 24 + number * 77;
    let block = |number: usize| 48 + number * 96;
    let tsv = "time\tsrc\tqname\tqtype\n".to_owned() + &"1.5\t192.0.2.1\texample.\tA\n".repeat(99);
    let cdns = {
        let (packed, mut octets) = (file("../../data/clients-20160629.cdns.xz"), Vec::new());
        std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(&packed[..]), &mut octets).unwrap();
        octets
    };
    let dnstap = file("tests/data/compactor-test.dnstap");
    let (parquet, middle, inside) = (parquet(&tsv), cdns.len() / 2, dnstap.len() / 2);
    let text =
        |line: &str, bad: &str| (line.to_owned() + "\n").repeat(49) + bad + "\n" + &(line.to_owned() + "\n").repeat(50);
    vec![
        ("pcap, cut", cut(pcap(), 10), &["truncated_capture"], Share::Unknown),
        ("pcap, cut in a header", cut(pcap(), 70), &["truncated_capture"], Share::Unknown),
        ("pcap, a record", changed(pcap(), record(5) + 8, &[0xff; 8]), &["bad_record"], Share::Within(0.04, 0.06)),
        ("pcapng, cut", cut(pcapng(), 10), &["truncated_capture"], Share::Unknown),
        ("pcapng, a block", changed(pcapng(), block(5) + 4, &[0xfe]), &["bad_block"], Share::Within(0.04, 0.06)),
        ("dnstap, cut", cut(dnstap.clone(), 30), &["truncated_capture"], Share::Unknown),
        (
            "dnstap, frames",
            changed(dnstap, inside, &[0xff; 100]),
            &["bad_frame", "bad_dnstap_message"],
            Share::Within(0.0, 0.9),
        ),
        ("C-DNS, cut", cut(cdns.clone(), 500), &["truncated_capture"], Share::Unknown),
        (
            "C-DNS, a block",
            changed(cdns, middle, &[0xff; 64]),
            &["bad_block", "bad_item", "bad_index", "truncated_capture"],
            Share::Any,
        ),
        ("Parquet, a row group", changed(parquet, 100, &[0xff; 60]), &["damaged_row_group"], Share::Within(0.99, 1.0)),
        ("TSV, cut", cut(tsv.clone().into(), 4), &["wrong_number_of_columns"], Share::Within(0.0, 0.01)),
        ("TSV, a line", tsv.replacen("1.5\t192", "x\t192", 1).into(), &["bad_time"], Share::Within(0.0, 0.011)),
        (
            "LDplayer text",
            text("1.5 192.0.2.1 a. IN A udp", "1.5 192.0.2 a. IN A udp").into(),
            &["bad_address"],
            Share::Within(0.0, 0.011),
        ),
        ("dnsperf", text("a.example A", "a..example A").into(), &["bad_name"], Share::Within(0.0, 0.011)),
    ]
}

#[test]
fn what_of_an_input_could_not_be_read_is_told_for_every_format() {
    for (name, octets, reasons, share) in damaged_inputs() {
        let (count, tally) = read(&octets).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found: Vec<&str> = tally.unread().map(|damage| damage.reason.as_str()).collect();
        assert!(found.iter().all(|reason| reasons.contains(reason)), "{name}: {found:?}");
        assert!(!tally.is_whole() && !found.is_empty(), "{name}");
        // These have one row group and one block.
        assert!(count > 0 || name.starts_with("Parquet") || name.starts_with("C-DNS"), "{name}");
        expect_share(name, &tally, share);
    }
}

fn expect_share(name: &str, tally: &Tally, share: Share) {
    let [input] = &tally.inputs[..] else { panic!("{name}: {:?}", tally.inputs) };
    let found = input.unread_share();
    let fits = match share {
        Share::Within(above, most) => found.is_some_and(|found| found > above && found <= most),
        Share::Unknown => found.is_none(),
        Share::Any => found.is_none_or(|found| found > 0.0 && found < 1.0),
    };
    assert!(fits, "{name}: {found:?}, {input:?}");
}

#[test]
fn what_of_a_compressed_input_could_not_be_read_is_told_for_every_format() {
    let content = long_pcap();
    for (name, whole) in compressed(&content) {
        let (count, tally) = read(&whole).expect("a capture");
        assert!(tally.is_whole() && count == 20_000, "{name}: {tally:?}");
        assert_eq!(tally.inputs[0].unread_share(), Some(0.0), "{name}");
        assert_eq!((tally.inputs[0].stored, tally.inputs[0].reached), (Some(whole.len() as u64), whole.len() as u64));
        let half = whole.len() / 2;
        for (damage, octets, share) in
            [("cut", whole[..half].to_vec(), Share::Unknown), ("flipped", flipped(whole.clone()), Share::Any)]
        {
            let (count, tally) = read(&octets).unwrap_or_else(|error| panic!("{name} {damage}: {error}"));
            assert!(count > 0 && !tally.is_whole(), "{name} {damage}: {count}, {tally:?}");
            expect_share(&format!("{name} {damage}"), &tally, share);
        }
    }
}

#[test]
fn an_input_whose_messages_were_malformed_when_they_were_sent_is_whole() {
    // The message is shorter than a DNS header, and so is another's question.
    let short = changed(pcap(), 24 + 5 * 77 + 16 + 14 + 20 + 4, &[0, 15]);
    let (_, tally) = read(&changed(short, 24 + 7 * 77 + 16 + 42 + 12, &[40])).expect("a capture");
    let reasons: Vec<&str> = tally.damaged.iter().map(|damage| damage.reason.as_str()).collect();
    assert_eq!(reasons, ["short_message", "bad_question"]);
    assert!(tally.is_whole() && tally.inputs[0].unread_share() == Some(0.0));
}
