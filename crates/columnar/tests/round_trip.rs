//! What is written is what the Parquet library reads, whatever the values, and however many threads wrote it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt16Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use ldplayer_columnar::{
    Binary, Booleans, Column, Compression, Dictionary, Encode, FileOptions, FileWriter, IntegerType, Integers,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;

/// A value of each kind of column.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    signed: Option<i64>,
    unsigned: u64,
    short: u16,
    truth: Option<bool>,
    octets: Option<Vec<u8>>,
    text: Option<u32>,
    word: u32,
}

/// Words of a dictionary that is the same for all row groups.
const WORDS: [&str; 3] = ["udp", "tcp", "dot"];

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("signed", DataType::Int64, true),
        Field::new("unsigned", DataType::UInt64, false),
        Field::new("short", DataType::UInt16, false),
        Field::new("truth", DataType::Boolean, true),
        Field::new("octets", DataType::Binary, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("word", DataType::Utf8, false),
    ])
}

/// The columns of one row group.
fn columns(rows: &[Row]) -> Vec<Box<dyn Encode>> {
    let mut signed = Column::optional(Integers::new(IntegerType::I64));
    signed.extend_some(rows.iter().map(|row| row.signed), Integers::push);
    let mut unsigned = Column::required(Integers::new(IntegerType::U64));
    unsigned.extend(rows.iter().map(|row| row.unsigned as i64), Integers::push);
    let mut short = Column::required(Integers::new(IntegerType::U16));
    short.extend(rows.iter().map(|row| i64::from(row.short)), Integers::push);
    let mut truth = Column::optional(Booleans::default());
    truth.extend_some(rows.iter().map(|row| row.truth), Booleans::push);
    let mut octets = Column::optional(Binary::default());
    for (number, row) in rows.iter().enumerate() {
        octets.extend_some([row.octets.as_deref()].into_iter(), Binary::push);
        if (number + 1).is_multiple_of(8) {
            octets.end_page(number + 1);
        }
    }
    let mut text = Column::optional(Dictionary::default());
    let mut known: Vec<u32> = Vec::new();
    for row in rows {
        text.extend_some([row.text].into_iter(), |texts: &mut Dictionary, number| {
            let index = known.iter().position(|&known| known == number).unwrap_or_else(|| {
                known.push(number);
                texts.add(|plain| plain.extend_from_slice(format!("text {number}").as_bytes())) as usize
            });
            texts.push(index as u32);
        });
    }
    let mut word = Column::required(Dictionary::fixed(WORDS));
    word.extend(rows.iter().map(|row| row.word), Dictionary::push);
    vec![
        Box::new(signed),
        Box::new(unsigned),
        Box::new(short),
        Box::new(truth),
        Box::new(octets),
        Box::new(text),
        Box::new(word),
    ]
}

fn write(groups: &[&[Row]], compression: Compression) -> Vec<u8> {
    let options = FileOptions { compression, sorted_by: None };
    let mut file = FileWriter::new(Vec::new(), &schema(), options).unwrap();
    for rows in groups {
        let columns = columns(rows);
        let columns: Vec<&dyn Encode> = columns.iter().map(|column| &**column).collect();
        file.write_group(rows.len(), &columns).unwrap();
    }
    file.finish().unwrap()
}

fn read(file: Vec<u8>) -> Vec<Row> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)).unwrap().with_batch_size(1_000);
    reader.build().unwrap().flat_map(|batch| rows_of(&batch.unwrap())).collect()
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let column = |at: usize| Arc::clone(batch.column(at));
    let [signed, unsigned, short, truth, octets, text, word] = std::array::from_fn(column);
    let word_of = |name: &str| WORDS.iter().position(|word| *word == name).unwrap() as u32;
    let some = |array: &dyn Array, row: usize| array.is_valid(row).then_some(row);
    let row = |at: usize| Row {
        signed: some(&signed, at).map(|at| signed.as_primitive::<Int64Type>().value(at)),
        unsigned: unsigned.as_primitive::<UInt64Type>().value(at),
        short: short.as_primitive::<UInt16Type>().value(at),
        truth: some(&truth, at).map(|at| truth.as_boolean().value(at)),
        octets: some(&octets, at).map(|at| octets.as_binary::<i32>().value(at).to_vec()),
        text: some(&text, at).map(|at| text.as_string::<i32>().value(at)["text ".len()..].parse().unwrap()),
        word: word_of(word.as_string::<i32>().value(at)),
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Rows that are alike over long stretches, and others.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let octets = prop::option::of(prop::collection::vec(any::<u8>(), 0..60));
    let row = (
        any::<Option<i64>>(),
        any::<u64>(),
        any::<u16>(),
        any::<Option<bool>>(),
        octets,
        any::<Option<u32>>(),
        0..3_u32,
    );
    let row = row.prop_map(|(signed, unsigned, short, truth, octets, text, word)| Row {
        signed,
        unsigned,
        short,
        truth,
        octets,
        text: text.map(|text| text % 300),
        word,
    });
    let stretch = prop_oneof![
        (row.clone(), 1_usize..1_500).prop_map(|(row, length)| vec![row; length]),
        prop::collection::vec(row, 1..300),
    ];
    prop::collection::vec(stretch, 1..5).prop_map(|stretches| stretches.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_rows_come_back(rows in rows(), more in rows(), is_packed: bool) {
        let compression = if is_packed { Compression::Zstd } else { Compression::None };
        let written = write(&[&rows, &more], compression);
        prop_assert_eq!(read(written), [rows, more].concat());
    }
}

fn row(number: u64) -> Row {
    Row {
        signed: (!number.is_multiple_of(3)).then_some(number as i64 * -1_000),
        unsigned: u64::MAX - number,
        short: number as u16,
        truth: None,
        octets: Some(vec![number as u8; number as usize % 90]),
        text: Some(number as u32 % 200),
        word: (number / 5_000) as u32 % 3,
    }
}

#[test]
fn groups_encoded_elsewhere_make_the_same_file() {
    let rows: Vec<Row> = (0..40_000).map(row).collect();
    let (first, second) = rows.split_at(25_001);
    let options = FileOptions { compression: Compression::Zstd, sorted_by: None };
    let mut file = FileWriter::new(Vec::new(), &schema(), options).unwrap();
    let encode = |rows: &[Row]| {
        let (columns, mut encoder) = (columns(rows), file.encoder().unwrap());
        encoder.encode(rows.len(), &columns.iter().map(|column| &**column).collect::<Vec<_>>()).unwrap()
    };
    let groups = std::thread::scope(|scope| {
        // The later one is begun first.
        let later = scope.spawn(|| encode(second));
        [encode(first), later.join().unwrap()]
    });
    groups.into_iter().for_each(|group| file.append(group).unwrap());
    assert_eq!(file.finish().unwrap(), write(&[first, second], Compression::Zstd));
    assert_eq!(read(write(&[first, second], Compression::Zstd)), rows);
}

#[test]
fn row_groups_are_copied_as_they_are() {
    let rows: Vec<Row> = (0..9_000).map(row).collect();
    let groups: Vec<&[Row]> = rows.chunks(3_000).collect();
    let whole = Bytes::from(write(&groups, Compression::None));
    let directory = ParquetRecordBatchReaderBuilder::try_new(whole.clone()).unwrap().metadata().clone();
    let options = FileOptions { compression: Compression::None, sorted_by: None };
    let mut copy = FileWriter::new(Vec::new(), &schema(), options).unwrap();
    copy.copy_groups(&whole, &directory.row_groups()[..2]).unwrap();
    let columns = columns(groups[2]);
    copy.write_group(3_000, &columns.iter().map(|column| &**column).collect::<Vec<_>>()).unwrap();
    assert_eq!(read(copy.finish().unwrap()), rows);
}

#[test]
fn a_file_and_its_columns_must_fit() {
    let columns = columns(&[row(1)]);
    let options = FileOptions { compression: Compression::None, sorted_by: None };
    let mut file = FileWriter::new(Vec::new(), &schema(), options).unwrap();
    assert!(file.write_group(1, &[&*columns[0]]).unwrap_err().to_string().contains("1 columns for a file of 7"));
}

#[test]
fn an_output_that_is_full_is_an_error() {
    let options = FileOptions { compression: Compression::None, sorted_by: None };
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let written = FileWriter::new(full, &schema(), options).and_then(|mut file| {
        let columns = columns(&(0..5_000).map(row).collect::<Vec<_>>());
        file.write_group(5_000, &columns.iter().map(|column| &**column).collect::<Vec<_>>())?;
        file.finish().map(drop)
    });
    assert!(written.is_err());
}
