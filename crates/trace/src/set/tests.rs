//! Data sets are written whole or not at all, and read in the order of time.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use ldplayer_core::damage::Tally;
use ldplayer_core::{TraceTime, Transaction, Transport};
use proptest::prelude::*;

use super::*;
use crate::manifest::MANIFEST;
use crate::{Input, OpenOptions};

const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53)), 53);

fn settings(shards: usize) -> Settings {
    Settings { capture_ports: vec![53], roles: Vec::new(), drop_duplicates: false, shards }
}

fn row(time: i64, client: u8) -> Transaction {
    Transaction {
        index: 0,
        time: TraceTime(time),
        client: (Ipv4Addr::new(198, 51, 100, client), 4_000).into(),
        server: SERVER,
        transport: Transport::Tcp,
        stream: Some(client.into()),
        query: Some(vec![client; 12].into()),
        response: None,
        response_delay: None,
        retry_of: None,
    }
}

fn write(set: &Path, fingerprint: &str, rows: &[Transaction], shards: usize) -> Part {
    let mut part = PartWriter::new(set, Path::new(fingerprint), fingerprint.into(), settings(shards)).unwrap();
    for batch in rows.chunks(7) {
        part.write(&mut batch.to_vec()).unwrap();
    }
    part.finish(&Tally::default()).unwrap()
}

fn is_unfinished(set: &Path) -> bool {
    fs::read_dir(set).unwrap().any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with(UNFINISHED))
}

fn times(set: &Path) -> Vec<i64> {
    let mut source = crate::open(&[Input::File(set.to_owned())], &OpenOptions::default()).unwrap();
    let mut rows = Vec::new();
    while source.read(&mut rows).unwrap() {}
    rows.iter().map(|row| row.time.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_set_is_all_rows_of_its_inputs_in_the_order_of_time(
        inputs in prop::collection::vec(prop::collection::vec((0..6 * HOUR_NS / 1_000_000, any::<u8>()), 1..60), 1..5),
        shards in 1_usize..4,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for (number, input) in inputs.iter().enumerate() {
            let mut rows: Vec<_> = input.iter().map(|&(ms, client)| row(ms * 1_000_000, client)).collect();
            rows.sort_by_key(|row| row.time);
            let part = write(folder.path(), &format!("{number:024x}"), &rows, shards);
            prop_assert_eq!(part.transactions, part.files.iter().map(|file| file.rows).sum::<u64>());
            all.extend(rows.iter().map(|row| row.time.0));
        }
        all.sort_unstable();
        prop_assert_eq!(times(folder.path()), all);
        prop_assert!(!is_unfinished(folder.path()));
    }
}

#[test]
fn a_row_of_an_hour_that_has_ended_gets_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<_> = [0, 1, 2, 3, 0].iter().map(|hour| row(hour * HOUR_NS, 1)).collect();
    let part = write(folder.path(), &"a".repeat(24), &rows, 1);
    let of_first: Vec<_> = part.files.iter().filter(|file| file.path.starts_with("hour=1970-01-01_00")).collect();
    assert_eq!((of_first.len(), part.transactions), (2, 5));
    assert_eq!(times(folder.path()), [0, 0, HOUR_NS, 2 * HOUR_NS, 3 * HOUR_NS]);
}

#[test]
fn what_a_part_that_was_cut_has_left_is_not_read_and_goes_with_the_next_try() {
    let (folder, id) = (tempfile::tempdir().unwrap(), "b".repeat(24));
    write(folder.path(), &"a".repeat(24), &[row(0, 1)], 1);
    let left = folder.path().join("hour=1970-01-01_00/shard=0").join(format!("{id}-0.parquet"));
    fs::write(&left, "half").unwrap();
    let unfinished = folder.path().join(format!("{UNFINISHED}{id}"));
    fs::create_dir_all(&unfinished).unwrap();
    fs::write(unfinished.join("x"), "half").unwrap();
    assert_eq!(times(folder.path()), [0]);
    write(folder.path(), &id, &[row(5, 1)], 1);
    assert_eq!(times(folder.path()), [0, 5]);
    assert!(!unfinished.exists());
    // One that is dropped leaves nothing.
    let mut part = PartWriter::new(folder.path(), Path::new("c"), "c".repeat(24), settings(1)).unwrap();
    part.write(&mut vec![row(9, 1)]).unwrap();
    drop(part);
    assert_eq!((times(folder.path()), is_unfinished(folder.path())), (vec![0, 5], false));
}

#[test]
fn a_part_whose_times_jump_has_no_more_files_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let mut part = PartWriter::new(folder.path(), Path::new("a.pcap"), "a".repeat(24), settings(1)).unwrap();
    let mut ended = Ok(());
    for hour in (0..12_000).map(|number| number * 3 % 9_000) {
        ended = part.write(&mut vec![row(hour * HOUR_NS, 1)]);
        if ended.is_err() {
            break;
        }
    }
    let line = ended.unwrap_err().to_string();
    assert!(line.starts_with("a.pcap: its times jump"), "{line}");
}

#[test]
fn holes_and_overlaps_are_between_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let second = 1_000_000_000;
    for (number, (first, last)) in [(0, 10), (10, 20), (15, 18), (30, 40), (41, 50)].into_iter().enumerate() {
        write(folder.path(), &format!("{number:024x}"), &[row(first * second, 1), row(last * second, 1)], 1);
    }
    let manifest = Manifest::of(folder.path()).unwrap();
    let hole = Span { first: TraceTime(20 * second), last: TraceTime(30 * second) };
    assert_eq!((manifest.holes(), manifest.overlaps()), (vec![hole], 1));
}

#[test]
fn a_manifest_that_cannot_be_read_is_named_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &"a".repeat(24), &[row(0, 1)], 1);
    let manifest = folder.path().join(MANIFEST).join(format!("{}.json", "a".repeat(24)));
    let text = fs::read_to_string(&manifest).unwrap();
    for bad in ["{", "null", &text.replace("\"version\": 1", "\"version\": 7")] {
        fs::write(&manifest, bad).unwrap();
        let line = Manifest::of(folder.path()).unwrap_err().to_string();
        assert!(line.contains("no manifest of a part") && !line.contains('\n'), "{line}");
    }
}

#[test]
fn a_path_in_a_manifest_stays_in_the_set() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &"a".repeat(24), &[row(0, 1)], 1);
    let manifest = folder.path().join(MANIFEST).join(format!("{}.json", "a".repeat(24)));
    let text = fs::read_to_string(&manifest).unwrap();
    for elsewhere in ["/etc/passwd", "hour=1/../../x"] {
        let path = &Manifest::of(folder.path()).unwrap().parts[0].files[0].path.display().to_string();
        fs::write(&manifest, text.replace(path, elsewhere)).unwrap();
        let line = Manifest::of(folder.path()).unwrap_err().to_string();
        assert!(line.contains("outside"), "{line}");
        fs::write(&manifest, &text).unwrap();
    }
}

#[test]
fn an_input_is_known_by_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let long = vec![7; 3 << 20];
    let mut other = long.clone();
    *other.last_mut().unwrap() = 8;
    for (name, octets) in [("a", &long[..]), ("b", &long[..]), ("c", &other[..]), ("d", &long[1..]), ("e", b"")] {
        fs::write(path(name), octets).unwrap();
    }
    let of = |name: &str| fingerprint(&path(name)).unwrap();
    assert_eq!((of("a"), of("a").len()), (of("b"), 24));
    assert!(["c", "d", "e"].iter().all(|name| of(name) != of("a")));
    assert!(fingerprint(&path("none")).unwrap_err().to_string().contains("none: "));
}

#[test]
fn nothing_is_written_through_a_link_in_a_set() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in [MANIFEST, "hour=1970-01-01_00"] {
        let set = folder.path().join(name).with_extension("set");
        fs::create_dir(&set).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), set.join(name)).unwrap();
        let part = PartWriter::new(&set, Path::new("a"), "a".repeat(24), settings(1));
        let ended =
            part.and_then(|mut part| part.write(&mut vec![row(0, 1)]).and_then(|()| part.finish(&Tally::default())));
        let line = ended.unwrap_err().to_string();
        assert!(line.contains("is no folder"), "{line}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
