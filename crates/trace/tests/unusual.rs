//! Captures of messages that are cut, of odd questions and opcodes, and of servers that begin: what is read of them and what is written.

use std::path::{Path, PathBuf};

use ldplayer_core::{Message, Transaction};
use ldplayer_trace::{Format, Input, OpenOptions, Tally, create, open};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn read(path: &Path) -> (Vec<Transaction>, Tally) {
    let (mut source, mut rows) = (open(&[Input::File(path.to_owned())], &OpenOptions::default()).unwrap(), Vec::new());
    while source.read(&mut rows).unwrap() {}
    (rows, source.tally().clone())
}

fn count(tally: &Tally, reason: &str) -> u64 {
    tally.damaged.iter().filter(|damage| damage.reason.as_str() == reason).map(|damage| damage.count).sum()
}

/// The code and the delay in milliseconds of what each query was answered with.
fn answers(rows: &[Transaction]) -> Vec<Option<(u16, i64)>> {
    let asked = rows.iter().filter(|row| row.query.is_some());
    let answer = |row: &Transaction| {
        let response = Message::new(row.response.as_deref()?)?;
        Some((response.rcode(), row.response_delay? / 1_000_000))
    };
    asked.map(answer).collect()
}

/// They were dropped as a whole, and the queries looked unanswered.
#[test]
fn responses_cut_by_the_snap_length_answer_their_queries() {
    let (rows, tally) = read(&data("snaplen96.pcap"));
    assert_eq!(answers(&rows), [Some((0, 10)), Some((0, 10))]);
    assert_eq!((tally.queries, tally.responses, count(&tally, "truncated_packet")), (2, 3, 4));
    let responses = rows.iter().filter_map(|row| Message::new(row.response.as_deref()?));
    assert!(responses.map(|response| response.is_cut()).eq([true; 3]));
    // What is written of them is cut as well.
    let folder = tempfile::tempdir().unwrap();
    for name in ["written.pcap", "written.parquet"] {
        let path = folder.path().join(name);
        let format = if name.ends_with("pcap") { Format::Pcap } else { Format::Parquet };
        let mut sink = create(&path, format, false).unwrap();
        sink.write(&mut rows.clone()).unwrap();
        sink.finish().unwrap();
        assert_eq!(answers(&read(&path).0), answers(&rows), "{name}");
    }
}

/// A message that claims two questions and has one was not reported.
#[test]
fn questions_that_are_claimed_and_not_there_are_bad() {
    let (rows, tally) = read(&data("qdcount.pcap"));
    assert_eq!((tally.queries, tally.responses, count(&tally, "bad_question")), (12, 3, 2));
    assert_eq!(rows.iter().filter(|row| row.response.is_some()).count(), 3);
}

/// The DSO message of the server was a ninth query, of a client with the server's address.
#[test]
fn what_a_server_begins_over_a_connection_is_no_query_of_a_client() {
    let (rows, tally) = read(&data("opcodes.pcap"));
    let clients: Vec<_> =
        rows.iter().filter(|row| row.query.is_some()).map(|row| row.client.ip().to_string()).collect();
    assert_eq!(clients, ["192.0.2.1"; 8]);
    assert!(rows.iter().all(|row| row.response.is_some()));
    assert_eq!((tally.queries, tally.skipped.get("begun_by_server")), (8, Some(&1)));
}

#[test]
fn what_a_text_cannot_hold_is_left_out_by_reason() {
    let folder = tempfile::tempdir().unwrap();
    let left_out = |capture: &str, format: Format| {
        let mut rows = read(&data(capture)).0;
        let mut sink = create(&folder.path().join(format!("{capture}.{format:?}")), format, false).unwrap();
        sink.write(&mut rows).unwrap();
        let written = sink.finish().unwrap();
        (written.transactions, written.left_out.into_iter().collect::<Vec<_>>())
    };
    let questions = [("bad_question", 1), ("class_not_in", 4), ("no_question", 1), ("several_questions", 2)];
    assert_eq!(left_out("qdcount.pcap", Format::Dnsperf), (4, questions.to_vec()));
    assert_eq!(left_out("qdcount.pcap", Format::Tsv), (9, vec![("bad_question", 1), ("several_questions", 2)]));
    let (written, reasons) = left_out("opcodes.pcap", Format::Dnsperf);
    assert_eq!((written, reasons), (1, vec![("opcode_not_query", 7)]));
    assert_eq!(left_out("opcodes.pcap", Format::Tsv).1, [("has_records", 4)]);
}
