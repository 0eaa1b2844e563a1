//! Tests that the Parquet library reads what is written, for any values in any order.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt16Type, UInt64Type};
use bytes::Bytes;
use ldplayer_core::message::QueryParts;
use ldplayer_core::{TraceTime, Transport};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;

use super::*;
use crate::sink::{Format, create};
use crate::{Input, OpenOptions, open};

fn write(path: &Path, rows: &[Transaction], batch: usize) {
    let mut sink = create(path, Format::Parquet, true).unwrap();
    rows.chunks(batch).for_each(|batch| sink.write(&mut batch.to_vec()).unwrap());
    assert_eq!(sink.finish().unwrap().transactions, rows.len() as u64);
}

/// The file as the library reads it, in one batch.
fn columns(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let batches: Vec<RecordBatch> = reader.with_batch_size(1 << 20).build().unwrap().map(Result::unwrap).collect();
    batches.into_iter().next().unwrap()
}

fn row(number: u64) -> Transaction {
    let random = ldplayer_core::random::draw(1, number);
    let label = format!("{random:x}{:0width$}", 0, width = random as usize % 40 + 1);
    let name = [&[label.len() as u8], label.as_bytes(), b"\x02a.\0"].concat();
    let mut wire = Vec::new();
    let edns = (!random.is_multiple_of(3)).then_some((1232, random % 3 == 1));
    QueryParts { id: 5, flags: 0x100, name: &name, qtype: (random % 300) as u16, qclass: 1, edns }.compose(&mut wire);
    let query = Some(Bytes::from(wire)).filter(|_| !random.is_multiple_of(11));
    let response =
        Some(Bytes::from(vec![7; 12 + random as usize % 500])).filter(|_| random.is_multiple_of(5) || query.is_none());
    let address: IpAddr = match random % 4 {
        0 => Ipv6Addr::from_bits(u128::from(random % 7_000)).into(),
        _ => Ipv4Addr::from_bits(random as u32 % 70_000).into(),
    };
    Transaction {
        index: 0,
        time: TraceTime(1_000 * number as i64),
        client: (address, random as u16).into(),
        server: ([192, 0, 2, (number % 2) as u8], 53).into(),
        transport: if random.is_multiple_of(9) { Transport::Doq } else { Transport::Udp },
        stream: random.is_multiple_of(9).then_some(random),
        response_delay: response.as_ref().map(|_| random as i64),
        retry_of: None,
        query,
        response,
    }
}

#[test]
fn rows_of_several_groups_and_pages_come_back() {
    let rows: Vec<Transaction> = (0..300_003).map(row).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &rows, 4_096);
    let (mut source, mut found) = (open(&[Input::File(path.clone())], &OpenOptions::default()).unwrap(), Vec::new());
    while source.read(&mut found).unwrap() {}
    assert!(source.tally().damaged.is_empty(), "{:?}", source.tally());
    assert!(found == rows);
    let groups = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    assert!(groups.metadata().num_row_groups() > 2);
    let other = folder.path().join("b.parquet");
    write(&other, &rows, 1_001);
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&other).unwrap());
}

#[test]
fn a_trace_of_nothing_has_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &[], 1);
    let found = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    assert_eq!((found.schema().fields(), found.metadata().num_row_groups()), (schema(None).fields(), 0));
}

#[test]
fn the_directory_says_what_is_in_a_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &(0..5_000).map(row).collect::<Vec<_>>(), 1_000);
    let found = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    let group = found.metadata().row_group(0);
    let statistics = |name: &str| {
        let column = group.columns().iter().find(|column| column.column_path().string() == name).unwrap();
        column.statistics().unwrap().clone()
    };
    assert_eq!(
        statistics("time"),
        parquet::file::statistics::Statistics::int64(Some(0), Some(4_999_000), None, Some(0), false)
    );
    assert_eq!(statistics("transport").min_bytes_opt(), Some(&b"doq"[..]));
    assert_eq!(statistics("transport").max_bytes_opt(), Some(&b"udp"[..]));
    let nulls = columns(&path).column_by_name("query").unwrap().logical_null_count() as u64;
    assert_eq!(statistics("query").null_count_opt(), Some(nulls));
    assert_eq!(group.num_rows(), 5_000);
}

prop_compose! {
    /// Numbers of any size, among which nulls and small steps are.
    fn numbers()(seed: i64, width in 0..64_u32, any in prop::collection::vec(any::<Option<i64>>(), 1..700)) -> Vec<Option<i64>> {
        any.into_iter().map(|number| number.map(|number| seed.wrapping_add(number >> width))).collect()
    }
}

proptest! {
    #[test]
    fn any_numbers_come_back(numbers in numbers()) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let made = |(at, number): (usize, &Option<i64>)| Transaction {
            time: TraceTime(number.unwrap_or(at as i64)),
            client: ([192, 0, 2, 1], number.unwrap_or(0) as u16).into(),
            stream: number.map(|number| number as u64),
            response_delay: *number,
            retry_of: None,
            ..row(at as u64)
        };
        let rows: Vec<Transaction> = numbers.iter().enumerate().map(made).collect();
        write(file.path(), &rows, 97);
        let found = columns(file.path());
        let column = |name| found.column_by_name(name).unwrap();
        prop_assert!(column("stream").as_primitive::<UInt64Type>().iter().eq(rows.iter().map(|row| row.stream)));
        prop_assert!(column("response_delay").as_primitive::<Int64Type>().iter().eq(numbers));
        let times = column("time").as_primitive::<TimestampNanosecondType>();
        prop_assert!(times.values().iter().copied().eq(rows.iter().map(|row| row.time.0)));
        let ports = column("src_port").as_primitive::<UInt16Type>();
        prop_assert!(ports.values().iter().copied().eq(rows.iter().map(|row| row.client.port())));
    }
}
