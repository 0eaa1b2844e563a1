//! Two runs whose responses are given, whatever they were replayed with.

use std::fs;
use std::sync::Arc;

use arrow_array::{BinaryArray, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use ldplayer_core::message::{CLASS_IN, QueryParts, flag};
use parquet::arrow::ArrowWriter;

use super::*;

/// A query for a name with one label, and the response to it with an address, if there is one.
type Said = (u64, u8, Option<u8>);

fn message(label: u8, flags: u16, address: Option<u8>) -> Vec<u8> {
    let mut wire = Vec::new();
    let name = [1, label, 0];
    QueryParts { id: 1, flags, name: &name, qtype: 1, qclass: CLASS_IN, edns: None }.compose(&mut wire);
    if let Some(last) = address {
        wire[7] = 1;
        wire.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, last, 0, 4, 192, 0, 2, last]);
    }
    wire
}

/// A run that has kept these responses.
fn run(rows: &[Said]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let field = |name: &str, kind: DataType| Field::new(name, kind, true);
    let schema = [("index", DataType::UInt64), ("query", DataType::Binary), ("response", DataType::Binary)];
    let schema = Arc::new(Schema::new(schema.map(|(name, kind)| field(name, kind)).to_vec()));
    let index = UInt64Array::from_iter_values(rows.iter().map(|row| row.0));
    let query = BinaryArray::from_iter_values(rows.iter().map(|row| message(row.1, flag::RD, None)));
    let said = |row: &Said| row.2.map(|last| message(row.1.to_ascii_lowercase(), flag::QR | flag::RD, Some(last)));
    let response = BinaryArray::from_iter(rows.iter().map(said));
    let batch =
        RecordBatch::try_new(schema.clone(), vec![Arc::new(index), Arc::new(query), Arc::new(response)]).unwrap();
    let file = fs::File::create(folder.path().join(RESPONSES)).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    folder
}

fn compared(a: &[Said], b: &[Said]) -> AnswersCompared {
    compare_runs(run(a).path(), run(b).path(), &Ignore::default()).unwrap().unwrap()
}

#[test]
fn queries_are_paired_by_their_row_whatever_the_order() {
    let a = [(0, b'a', Some(1)), (1, b'b', Some(2)), (2, b'c', Some(3)), (3, b'd', Some(4)), (4, b'e', None)];
    let b = [(4, b'e', Some(5)), (2, b'c', Some(9)), (0, b'A', Some(1)), (3, b'd', None), (1, b'b', Some(2))];
    let found = compared(&a, &b);
    assert_eq!((found.compared, found.matching, found.changed, found.worse, found.unanswered), (4, 2, 1, 1, 1));
    assert_eq!(found.by_field, [("answer".to_owned(), 1)].into());
    assert_eq!(found.not_comparable_by_reason, [("no_reference".to_owned(), 1)].into());
    let same = compared(&a, &a);
    assert_eq!((same.compared, same.matching, same.not_comparable), (4, 4, 1));
}

#[test]
fn what_only_one_run_asked_or_asked_otherwise_is_not_compared() {
    let found = compared(
        &[(0, b'a', Some(1)), (1, b'b', Some(2)), (2, b'c', Some(3))],
        &[(1, b'x', Some(2)), (2, b'c', Some(3))],
    );
    assert_eq!((found.compared, found.matching, found.not_comparable), (1, 1, 3));
    let reasons = [("only_in_a".to_owned(), 2), ("only_in_b".to_owned(), 1)];
    assert_eq!(found.not_comparable_by_reason, reasons.into());
}

#[test]
fn copies_of_a_query_are_paired_in_their_order() {
    let found = compared(&[(0, b'a', Some(1)), (0, b'a', Some(2))], &[(0, b'a', Some(1)), (0, b'a', Some(2))]);
    assert_eq!((found.matching, found.changed), (2, 0));
    let found = compared(&[(0, b'a', Some(1)), (0, b'a', Some(2))], &[(0, b'a', Some(2))]);
    assert_eq!((found.changed, found.not_comparable), (1, 1));
}

#[test]
fn rules_hold_for_two_runs_as_well() {
    let (a, b) = (run(&[(0, b'a', Some(1))]), run(&[(0, b'a', Some(2))]));
    let ignore = Ignore::of(&["type == A".parse().unwrap()]);
    let found = compare_runs(a.path(), b.path(), &ignore).unwrap().unwrap();
    assert_eq!((found.matching, found.changed), (1, 0));
}

#[test]
fn runs_that_kept_nothing_are_not_compared() {
    let (a, nothing) = (run(&[(0, b'a', Some(1))]), tempfile::tempdir().unwrap());
    for (a, b) in [(a.path(), nothing.path()), (nothing.path(), a.path())] {
        assert_eq!(compare_runs(a, b, &Ignore::default()).unwrap(), None);
    }
}

#[test]
fn runs_in_another_order_take_bounded_memory_and_tell_what_was_left() {
    let rows: Vec<Said> = (0..20_000).map(|index| (index, b'a', Some(1))).collect();
    let reversed: Vec<Said> = rows.iter().rev().copied().collect();
    let (a, b) = (run(&rows), run(&reversed));
    let found = compare_within(a.path(), b.path(), &Ignore::default(), 5_000, &mut Counts::default()).unwrap().unwrap();
    assert!(found.not_comparable_by_reason["out_of_step"] > 0, "{found:?}");
    assert_eq!(2 * found.compared + found.not_comparable, 40_000);
    let found =
        compare_within(a.path(), b.path(), &Ignore::default(), 40_000, &mut Counts::default()).unwrap().unwrap();
    assert_eq!((found.matching, found.not_comparable), (20_000, 0));
}

#[test]
fn a_file_that_is_no_trace_of_a_run_is_an_error() {
    let (a, other) = (run(&[(0, b'a', Some(1))]), tempfile::tempdir().unwrap());
    fs::write(other.path().join(RESPONSES), "not Parquet").unwrap();
    assert!(compare_runs(a.path(), other.path(), &Ignore::default()).is_err());
}
