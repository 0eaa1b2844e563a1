//! Files put behind each other, as `cat` does: each is read by its own header, and no packet gets another time than its own.

use std::io::{Read, Write};

use ldplayer_trace::{Input, OpenOptions, Tally, TraceError, open};
use proptest::prelude::*;

/// Ethernet, IPv4, UDP and the query `a. IN A` with this ID.
fn frame(id: u8) -> Vec<u8> {
    [&[0; 12][..], &[8, 0], &packet(id)].concat()
}

fn packet(id: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 47, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1];
    packet.extend_from_slice(&[0x9c, 0x40, 0, 53, 0, 27, 0, 0]);
    packet.extend_from_slice(&[0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1]);
    packet
}

/// A way to write captures.
#[derive(Clone, Copy, Debug)]
struct Form {
    pcapng: bool,
    big_endian: bool,
    nanoseconds: bool,
    /// Link type RAW instead of Ethernet.
    raw: bool,
}

const FORMS: [Form; 6] = [
    Form { pcapng: false, big_endian: false, nanoseconds: false, raw: false },
    Form { pcapng: false, big_endian: true, nanoseconds: false, raw: false },
    Form { pcapng: false, big_endian: false, nanoseconds: true, raw: true },
    Form { pcapng: false, big_endian: true, nanoseconds: true, raw: false },
    Form { pcapng: true, big_endian: false, nanoseconds: false, raw: false },
    Form { pcapng: true, big_endian: true, nanoseconds: false, raw: true },
];

const START: u32 = 1_700_000_000;

impl Form {
    fn words(self, words: &[u32]) -> Vec<u8> {
        let octets = |word: &u32| if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
        words.iter().flat_map(octets).collect()
    }

    fn link(self) -> u32 {
        if self.raw { 101 } else { 1 }
    }

    fn header(self) -> Vec<u8> {
        if self.pcapng {
            // The fields of two octets are turned around with the order.
            let link = if self.big_endian { self.link() << 16 } else { self.link() };
            let version = if self.big_endian { 1 << 16 } else { 1 };
            let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, version, !0, !0, 28];
            return [self.words(&section), self.words(&[1, 20, link, 65_535, 20])].concat();
        }
        let magic = if self.nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let version = if self.big_endian { 0x0002_0004 } else { 0x0004_0002 };
        self.words(&[magic, version, 0, 0, 262_144, self.link()])
    }

    /// A packet half a millisecond after this second.
    fn record(self, second: u32) -> Vec<u8> {
        let octets = if self.raw { packet(second as u8) } else { frame(second as u8) };
        let length = octets.len() as u32;
        if self.pcapng {
            let micros = u64::from(START + second) * 1_000_000 + 500;
            let padded = octets.len().next_multiple_of(4);
            let all = 32 + padded as u32;
            let head = self.words(&[6, all, 0, (micros >> 32) as u32, micros as u32, length, length]);
            let padding = vec![0; padded - octets.len()];
            return [head, octets, padding, self.words(&[all])].concat();
        }
        let fraction = if self.nanoseconds { 500_000 } else { 500 };
        [self.words(&[START + second, fraction, length, length]), octets].concat()
    }

    /// A file with packets at these seconds.
    fn file(self, seconds: std::ops::Range<u32>) -> Vec<u8> {
        seconds.fold(self.header(), |file, second| [file, self.record(second)].concat())
    }
}

/// The times of all transactions, in half milliseconds after the start, and the accounts.
fn read(octets: &[u8]) -> (Vec<i64>, Tally) {
    try_read(octets).expect("a trace")
}

fn try_read(octets: &[u8]) -> Result<(Vec<i64>, Tally), TraceError> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(octets).expect("space");
    let mut source = open(&[Input::File(file.path().to_owned())], &OpenOptions::default())?;
    let mut rows = Vec::new();
    while source.read(&mut rows)? {}
    let after = |time: i64| time - i64::from(START) * 1_000_000_000;
    let times = rows.iter().map(|row| after(row.time.0)).collect();
    Ok((times, source.tally().clone()))
}

/// The times of packets at these seconds.
fn times(seconds: impl IntoIterator<Item = u32>) -> Vec<i64> {
    seconds.into_iter().map(|second| i64::from(second) * 1_000_000_000 + 500_000).collect()
}

fn flaws(tally: &Tally) -> Vec<&'static str> {
    tally.damaged.iter().map(|damage| damage.reason.as_str()).collect()
}

#[test]
fn each_file_is_read_by_its_own_header() {
    for one in FORMS {
        for other in FORMS {
            let all = [one.file(0..3), other.file(10..14), one.file(20..22)].concat();
            let (found, tally) = read(&all);
            assert_eq!(found, times((0..3).chain(10..14).chain(20..22)), "{one:?} {other:?}");
            assert_eq!((tally.packets, flaws(&tally)), (9, vec![]), "{one:?} {other:?}");
            assert_eq!(tally.inputs[0].content, all.len() as u64);
        }
    }
}

#[test]
fn files_without_packets_between_others_are_no_damage() {
    for form in FORMS {
        let (found, tally) = read(&[form.header(), form.header(), form.file(0..1), form.header()].concat());
        assert_eq!((found, flaws(&tally)), (times(0..1), vec![]), "{form:?}");
    }
}

#[test]
fn compressed_files_are_put_together_as_they_are() {
    type Compress = fn(&[u8]) -> Vec<u8>;
    let ways: [(&str, Compress); 5] = [
        ("gzip", |octets| {
            let mut into = Vec::new();
            flate2::read::GzEncoder::new(octets, flate2::Compression::fast()).read_to_end(&mut into).unwrap();
            into
        }),
        ("xz", |octets| {
            let mut into = Vec::new();
            liblzma::read::XzEncoder::new(octets, 1).read_to_end(&mut into).unwrap();
            into
        }),
        ("zstd", |octets| zstd::stream::encode_all(octets, 1).unwrap()),
        ("bzip2", |octets| {
            let mut into = Vec::new();
            bzip2::read::BzEncoder::new(octets, bzip2::Compression::fast()).read_to_end(&mut into).unwrap();
            into
        }),
        ("lz4", |octets| {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(octets).unwrap();
            encoder.finish().unwrap()
        }),
    ];
    for (name, compress) in ways {
        for other in FORMS {
            let all = [compress(&FORMS[0].file(0..3)), compress(&other.file(10..14))].concat();
            let (found, tally) = read(&all);
            assert_eq!((found, flaws(&tally)), (times((0..3).chain(10..14)), vec![]), "{name} {other:?}");
        }
        // One capture, flushed as two.
        let (one, two) = (FORMS[0].file(0..3), FORMS[0].record(3));
        let (found, tally) = read(&[compress(&one[..80]), compress(&[&one[80..], &two].concat())].concat());
        assert_eq!((found, flaws(&tally)), (times(0..4), vec![]), "{name}");
    }
}

#[test]
fn a_file_behind_one_that_was_cut_keeps_its_times() {
    for one in FORMS {
        for other in FORMS {
            let (first, second) = (one.file(0..3), other.file(10..14));
            let records = [one.header().len(), one.record(0).len()];
            for cut in records[0]..first.len() {
                let whole = (cut - records[0]) / records[1];
                let (found, tally) = read(&[&first[..cut], &second].concat());
                let wanted = times((0..whole as u32).chain(10..14));
                let is_sound = (cut - records[0]).is_multiple_of(records[1]);
                assert_eq!(found, wanted, "{one:?} {other:?} cut at {cut}: {tally:?}");
                assert_eq!(tally.is_whole(), is_sound, "{one:?} {other:?} cut at {cut}: {tally:?}");
            }
        }
    }
}

#[test]
fn behind_a_header_that_is_damaged_no_packet_gets_a_wrong_time() {
    let right = times((0..3).chain(10..14).chain(20..22));
    for one in FORMS {
        for other in FORMS {
            let (first, second, third) = (one.file(0..3), other.file(10..14), one.file(20..22));
            for at in 4..other.header().len() {
                let mut damaged = second.clone();
                damaged[at] ^= 0xff;
                let (found, _) = read(&[&first[..], &damaged, &third].concat());
                let is_right = |time: &i64| right.contains(time);
                assert!(found.iter().all(is_right), "{one:?} {other:?} at {at}: {found:?}");
                assert!(found.len() >= 5, "{one:?} {other:?} at {at}: {found:?}");
            }
        }
    }
}

#[test]
fn a_header_cut_at_the_end_is_a_capture_that_is_cut() {
    for one in &FORMS[..4] {
        for cut in 1..24 {
            let (found, tally) = read(&[one.file(0..3), FORMS[1].header()[..cut].to_vec()].concat());
            assert_eq!((found, flaws(&tally)), (times(0..3), vec!["truncated_capture"]), "{one:?} {cut}");
        }
    }
}

/// Second 1,295,823,521 begins, in little-endian order, as a file in big-endian order with nanoseconds does.
#[test]
fn a_packet_of_the_second_that_looks_like_a_header_is_one() {
    let form = FORMS[0];
    let mut octets = form.header();
    for micros in [1_u32, 0x0004_0002] {
        octets.extend(form.words(&[0x4d3c_b2a1, micros, 61, 61]));
        octets.extend(frame(1));
    }
    let (found, tally) = read(&octets);
    assert_eq!((found.len(), flaws(&tally)), (2, vec![]));
    assert_eq!(found[0], (i64::from(0x4d3c_b2a1_u32) - i64::from(START)) * 1_000_000_000 + 1_000);
}

fn bundled(name: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("a bundled file")
}

#[test]
fn streams_of_dnstap_follow_one_another() {
    let one = bundled("tests/data/mapped-dual-stack.dnstap");
    let (found, tally) = read(&one);
    let (twice, together) = read(&[&one[..], &one].concat());
    assert_eq!((twice.len(), together.queries, flaws(&together)), (2 * found.len(), 2 * tally.queries, vec![]));
}

#[test]
fn files_of_cdns_follow_one_another() {
    let mut one = Vec::new();
    let compressed = bundled("../../data/clients-20160629.cdns.xz");
    liblzma::read::XzDecoder::new(&compressed[..]).read_to_end(&mut one).unwrap();
    let (found, _) = read(&one);
    let (twice, together) = read(&[&one[..], &one].concat());
    assert_eq!((twice.len(), flaws(&together)), (2 * found.len(), vec![]));
    assert_eq!(together.inputs[0].content, 2 * one.len() as u64);
    let (twice, together) = read(&[&compressed[..], &compressed].concat());
    assert_eq!((twice.len(), flaws(&together)), (2 * found.len(), vec![]));
    // Something else behind a file is not read, and is not passed over in silence.
    let (once, together) = read(&[&one[..], b"and more"].concat());
    assert_eq!((once.len(), flaws(&together)), (found.len(), vec!["bad_block"]));
    assert!(!together.is_whole());
}

#[test]
fn text_traces_follow_one_another_whatever_their_columns() {
    let head = i64::from(START);
    let rows = |columns: &str, row: &str| format!("{columns}\n{row}\n");
    let first = rows("time\tsrc\tqname\tqtype", &format!("{head}\t192.0.2.1\ta.\tA"));
    let second = rows("qname\tqtype\ttime\tsrc", &format!("b.\tNS\t{}\t192.0.2.2", head + 1));
    let third = rows("#fsdb -F t time srcip qname qtype", &format!("{}\t192.0.2.3\tc.\tA", head + 2));
    let (found, tally) = read(&[first.as_bytes(), second.as_bytes(), third.as_bytes(), first.as_bytes()].concat());
    assert_eq!((found, flaws(&tally)), (vec![0, 0, 1_000_000_000, 2_000_000_000], vec![]));
    // The first ends without a line feed, and the second has a byte order mark.
    let third = format!("time\tqname\tqtype\tsrc\n{}\td.\tA\t192.0.2.4\n", head + 3);
    let (found, tally) = read(format!("{}{third}\u{feff}{second}", first.trim_end()).as_bytes());
    assert_eq!((found, flaws(&tally)), (vec![0, 1_000_000_000, 3_000_000_000], vec![]));
    let (found, tally) = read(b"a. A\n\xef\xbb\xbfb. A\n");
    assert_eq!((found.len(), flaws(&tally)), (2, vec![]));
}

/// The offsets of the second file are those from its own beginning, where now the first one lies.
#[test]
fn parquet_files_put_together_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.parquet");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&FORMS[0].file(0..3)).unwrap();
    let mut source = open(&[Input::File(file.path().to_owned())], &OpenOptions::default()).unwrap();
    let mut sink = ldplayer_trace::create(&path, ldplayer_trace::Format::of_path(&path).unwrap(), true).unwrap();
    let mut rows = Vec::new();
    while source.read(&mut rows).unwrap() {}
    sink.write(&mut rows).unwrap();
    sink.finish().unwrap();
    let one = std::fs::read(&path).unwrap();
    assert_eq!(read(&one).0, times(0..3));
    let error = try_read(&[&one[..], &one].concat()).err().unwrap().to_string();
    assert!(
        error.ends_with("several Parquet files put behind each other; give them apart: they are merged"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn octets_changed_anywhere_never_panic_and_what_was_read_is_accounted_for(
        forms in prop::collection::vec(0..FORMS.len(), 2..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut all: Vec<u8> = forms.iter().flat_map(|&form| FORMS[form].file(0..3)).collect();
        for (place, octet) in changes {
            let at = place.index(all.len());
            all[at] = octet;
        }
        all.truncate(cut.index(all.len()) + 1);
        if let Ok((found, tally)) = try_read(&all) {
            prop_assert!(found.len() as u64 <= tally.packets);
            prop_assert!(tally.inputs[0].content <= all.len() as u64);
            let skipped: u64 = tally.unread().map(|damage| damage.octets).sum();
            prop_assert!(skipped <= all.len() as u64, "{:?}", tally.damaged);
        }
    }
}
