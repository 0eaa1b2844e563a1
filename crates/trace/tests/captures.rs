//! Real captures: what is counted equals what tshark counts, or the difference has a reason.
//!
//! The small captures of the repository are always read. Where a larger collection lies beside the repository, all of
//! it is read, too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ldplayer_core::Transaction;
use ldplayer_trace::{Input, OpenOptions, Tally, TraceError, open};

/// Queries and responses.
type Counts = (u64, u64);

/// Captures in which we count other messages than tshark does: our counts, and why.
const EXPLAINED: [(&str, Counts, &str); 18] = [
    ("nsd-live.raw.pcap.xz", (10_432, 10_432), "tshark counts 24 responses quoted in ICMP errors"),
    ("icmp-dest-unreachable-1-packet-dns-payload.pcap", (0, 0), "the only message is quoted in an ICMP error"),
    ("CacheFlushSimulator_E2_test_appendix.pcap", (75, 62), "13 queries are quoted in ICMP errors"),
    ("snaplen96.pcap", (2, 3), "a query that was cut cannot be sent again"),
    ("opcodes.pcap", (8, 8), "the DSO message of the server is no query of a client"),
    ("dns-edns-ecs-bad.pcap", (0, 3), "one datagram claims more octets than its packet has"),
    ("padding.pcap", (0, 0), "both datagrams claim more octets than their packets have"),
    ("missing_payload.pcap", (0, 0), "both datagrams claim more octets than their packets have"),
    ("v4_frag_nomf_udp.pcap", (0, 0), "the first fragment says that none follow, so the message is cut"),
    ("v6_frag_nomf_udp.pcap", (0, 0), "the first fragment says that none follow, so the message is cut"),
    ("v4_frag_timeout_udp.pcap", (0, 0), "its fragments are more than 30 s apart"),
    ("v6_frag_timeout_udp.pcap", (0, 0), "its fragments are more than 30 s apart"),
    ("badpackets.pcap", (0, 0), "only first fragments were captured; tshark dissects their beginnings"),
    (
        "tcp-stream-continued.pcap.gz",
        (19, 12),
        "it begins within a message, where tshark loses the framing of the responses and we find it again",
    ),
    ("malformed.pcap.xz", (12, 11), "one query is shorter than a header"),
    ("korving-doh_tunnel_file_transfer.pcap.xz", (41, 41), "tshark also counts DNS inside of HTTP"),
    ("doq.pcapng", (0, 0), "tshark counts DNS over QUIC by its port"),
    ("dns_over_https.pcap", (0, 0), "tshark counts DNS inside of HTTP"),
];

fn read(path: &Path) -> Result<(Vec<Transaction>, Tally), TraceError> {
    let mut source = open(&[Input::File(path.to_owned())], &OpenOptions::default())?;
    let mut transactions = Vec::new();
    while source.read(&mut transactions)? {}
    Ok((transactions, source.tally().clone()))
}

/// Reads a capture and checks that its accounts add up.
fn count(path: &Path) -> Counts {
    let (transactions, tally) = read(path).unwrap_or_else(|error| panic!("{error}"));
    let queries = transactions.iter().filter(|transaction| transaction.query.is_some()).count() as u64;
    let responses = transactions.iter().filter(|transaction| transaction.response.is_some()).count() as u64;
    assert_eq!((queries, responses), (tally.queries, tally.responses), "{}", path.display());
    assert_eq!(queries + responses, tally.dns_messages, "{}", path.display());
    assert!(transactions.is_sorted_by_key(|transaction| transaction.time), "{}", path.display());
    (tally.queries, tally.responses)
}

/// The captures of a PROVENANCE.md with tshark's counts (0 where it names none).
fn listed(folder: &Path) -> Vec<(PathBuf, Counts)> {
    let table = std::fs::read_to_string(folder.join("PROVENANCE.md")).unwrap();
    let rows = table.lines().filter_map(|line| {
        let name = line.split('|').nth(1)?.trim();
        let is_capture = name.contains(".pcap") && folder.join(name).is_file();
        is_capture.then(|| (folder.join(name), counts_in(line)))
    });
    rows.collect()
}

/// `… (q 10 / r 9 …`, or the last two columns of the table in this repository.
fn counts_in(line: &str) -> Counts {
    let number = |text: &str| text.trim().split([' ', ',', ')']).next()?.parse::<u64>().ok();
    if let Some((_, rest)) = line.split_once("(q ") {
        let (queries, responses) = rest.split_once("/ r ").unwrap();
        return (number(queries).unwrap(), number(responses).unwrap());
    }
    let columns: Vec<Option<u64>> = line.split('|').map(|column| column.trim().parse().ok()).collect();
    match columns[..] {
        [.., Some(queries), Some(responses), _] => (queries, responses),
        _ => (0, 0),
    }
}

/// Compares every listed capture of the folders; all differences are told at once.
fn compare(folders: &[PathBuf]) {
    let explained: BTreeMap<&str, Counts> = EXPLAINED.iter().map(|&(name, counts, _)| (name, counts)).collect();
    let mut different = Vec::new();
    let mut read = 0;
    for (path, tshark) in folders.iter().flat_map(|folder| listed(folder)) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let expected = *explained.get(name).unwrap_or(&tshark);
        let counted = count(&path);
        read += 1;
        if counted != expected {
            different.push(format!("{}: counted {counted:?}, expected {expected:?}", path.display()));
        }
    }
    assert!(different.is_empty(), "{} of {read} differ:\n{}", different.len(), different.join("\n"));
    assert!(read >= 15, "only {read} captures found");
}

#[test]
fn the_captures_of_the_repository_are_counted_as_tshark_does() {
    compare(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")]);
}

#[test]
fn the_bundled_root_server_traffic_is_paired_whole() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/l-root-20161006.pcap.xz");
    let (transactions, tally) = read(&capture).unwrap();
    assert_eq!((tally.queries, tally.responses, transactions.len()), (10_432, 10_432, 10_432));
    assert!(transactions.iter().all(|transaction| transaction.response_delay >= Some(0)));
    let tcp = transactions.iter().filter(|transaction| transaction.stream.is_some()).count();
    assert_eq!(tcp, 106);
}

/// Beside the repository there may be a collection of some two hundred captures.
#[test]
fn the_captures_of_the_collection_are_counted_as_tshark_does() {
    let collection = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")];
    let mut open = vec![collection];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        open.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
        if folder.join("PROVENANCE.md").is_file() {
            folders.push(folder);
        }
    }
    compare(&folders);
}

/// Every octet changed, and every length cut: errors and damage, but no panic.
#[test]
fn damaged_captures_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let scratch = tempfile::NamedTempFile::new().unwrap();
    for name in ["time_2107.pcapng", "sll2.pcap", "1qtcpnosyn.pcap", "pcapng-multi-interface.pcapng"] {
        let whole = std::fs::read(folder.join(name)).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            for content in [&changed, &whole[..at]] {
                std::fs::write(scratch.path(), content).unwrap();
                // Which error or count comes of it is for other tests to say.
                let _ = read(scratch.path());
            }
        }
    }
}
