//! A column of words: a key for each row and each word once, laid out for Parquet without looking at a word again.
//!
//! The library's writer hashes and compares the text of every row to find its key. Here the keys are known already,
//! and with many clients that look at the text is one cache miss a row: a quarter of the cost of recording.

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// The key of a row without a word.
pub const NONE: u32 = u32::MAX;

/// Rows looked at together: a block of one value is written as a run, any other bit by bit. A multiple of eight.
const BLOCK: usize = 512;

/// Keys of the rows of one row group, and the words that they stand for.
#[derive(Debug, Default)]
pub struct Words {
    keys: Vec<u32>,
    dictionary: Vec<u8>,
    count: u32,
}

impl Words {
    /// A column that begins with these words, their keys counting from 0.
    pub fn of<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        let mut column = Self::default();
        words.into_iter().for_each(|word| {
            column.add(word.as_bytes());
        });
        column
    }

    /// Adds a word and returns its key.
    pub fn add(&mut self, word: &[u8]) -> u32 {
        self.dictionary.extend((word.len() as u32).to_le_bytes());
        self.dictionary.extend(word);
        self.count += 1;
        self.count - 1
    }

    /// Adds a row that has the word of `key`, or none ([`NONE`]).
    pub fn push(&mut self, key: u32) {
        self.keys.push(key);
    }

    /// Forgets the rows and keeps the words.
    pub fn clear_rows(&mut self) {
        self.keys.clear();
    }

    /// Forgets rows and words.
    pub fn clear(&mut self) {
        self.clear_rows();
        self.dictionary.clear();
        self.count = 0;
    }

    /// Writes the rows as the next column of a row group.
    ///
    /// # Errors
    /// What the file or the library refused.
    pub fn write<W: std::io::Write + Send>(
        &self,
        column: ColumnDescPtr,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let is_nullable = column.max_def_level() > 0;
        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let dictionary = pages.write_page(self.dictionary_page())?;
        let data = pages.write_page(self.data_page(is_nullable))?;
        let octets = Bytes::from(sink.into_inner()?);
        let size = octets.len() as i64;
        let metadata = ColumnChunkMetaData::builder(column)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_num_values(self.keys.len() as i64)
            .set_total_compressed_size(size)
            .set_total_uncompressed_size(size)
            .set_dictionary_page_offset(Some(dictionary.offset as i64))
            .set_data_page_offset(data.offset as i64)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: size as u64,
            rows_written: self.keys.len() as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        group.append_column(&octets, close)
    }

    fn dictionary_page(&self) -> CompressedPage {
        let (buf, size) = (Bytes::copy_from_slice(&self.dictionary), self.dictionary.len());
        let page = Page::DictionaryPage { buf, num_values: self.count, encoding: Encoding::PLAIN, is_sorted: false };
        CompressedPage::new(page, size)
    }

    fn data_page(&self, is_nullable: bool) -> CompressedPage {
        let mut buf = Vec::with_capacity(self.keys.len() / 8 + 64);
        let width = u32::BITS - self.count.saturating_sub(1).max(1).leading_zeros();
        if is_nullable {
            let levels: Vec<u32> = self.keys.iter().map(|&key| u32::from(key != NONE)).collect();
            let some: Vec<u32> = self.keys.iter().copied().filter(|&key| key != NONE).collect();
            buf.extend([0; 4]);
            encode(&levels, 1, &mut buf);
            let length = buf.len() as u32 - 4;
            buf[..4].copy_from_slice(&length.to_le_bytes());
            buf.push(width as u8);
            encode(&some, width, &mut buf);
        } else {
            buf.push(width as u8);
            encode(&self.keys, width, &mut buf);
        }
        let size = buf.len();
        let page = Page::DataPage {
            buf: buf.into(),
            num_values: self.keys.len() as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        CompressedPage::new(page, size)
    }
}

/// Writes `values` as Parquet's hybrid of runs and bit-packed groups (Parquet format, Encodings, RLE).
fn encode(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let mut run = (0_u32, 0_usize);
    for block in values.chunks(BLOCK) {
        let first = block[0];
        if block.iter().any(|&value| value != first) {
            end_run(run, width, out);
            run = (0, 0);
            pack(block, width, out);
        } else if run.0 == first {
            run.1 += block.len();
        } else {
            end_run(run, width, out);
            run = (first, block.len());
        }
    }
    end_run(run, width, out);
}

fn end_run((value, length): (u32, usize), width: u32, out: &mut Vec<u8>) {
    if length > 0 {
        varint((length as u64) << 1, out);
        out.extend(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
    }
}

fn pack(block: &[u32], width: u32, out: &mut Vec<u8>) {
    let groups = block.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let end = out.len() + groups * width as usize;
    let (mut bits, mut held) = (0_u64, 0);
    for &value in block {
        bits |= u64::from(value) << held;
        held += width;
        if held >= 32 {
            out.extend((bits as u32).to_le_bytes());
            bits >>= 32;
            held -= 32;
        }
    }
    out.extend(&bits.to_le_bytes()[..held.div_ceil(8) as usize]);
    out.resize(end, 0);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::RecordBatch;
    use arrow_schema::{DataType, Field, Schema};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use proptest::prelude::*;

    use super::*;

    /// The column as any reader gives it back.
    fn read_back(words: &Words, is_nullable: bool) -> RecordBatch {
        let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let schema = Arc::new(Schema::new(vec![Field::new("word", kind, is_nullable)]));
        let writer = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
        let (mut writer, _) = writer.into_serialized_writer().unwrap();
        let column = writer.schema_descr().columns()[0].clone();
        let mut group = writer.next_row_group().unwrap();
        words.write(column, &mut group).unwrap();
        group.close().unwrap();
        let octets = Bytes::from(writer.into_inner().unwrap());
        let reader = ParquetRecordBatchReaderBuilder::try_new(octets).unwrap();
        reader.with_batch_size(usize::MAX >> 1).build().unwrap().next().unwrap().unwrap()
    }

    fn texts(batch: &RecordBatch) -> Vec<Option<String>> {
        let column = batch.column(0).as_dictionary::<Int32Type>();
        let values = column.values().as_string::<i32>();
        column.keys().iter().map(|key| key.map(|key| values.value(key as usize).to_owned())).collect()
    }

    /// Stretches of one key between stretches of any keys; the number of words.
    fn rows() -> impl Strategy<Value = (u32, Vec<Option<u32>>)> {
        (1_u32..3_000).prop_flat_map(|count| {
            let stretch = prop_oneof![
                (proptest::option::of(0..count), 1_usize..2_000).prop_map(|(key, length)| vec![key; length]),
                proptest::collection::vec(proptest::option::of(0..count), 1..700),
            ];
            let stretches = proptest::collection::vec(stretch, 1..6);
            stretches.prop_map(move |stretches| (count, stretches.concat()))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn rows_read_back_as_they_were((count, keys) in rows(), is_nullable in any::<bool>()) {
            let names: Vec<String> = (0..count).map(|at| format!("word {at}")).collect();
            let mut words = Words::of(names.iter().map(String::as_str));
            let keys: Vec<_> = keys.into_iter().map(|key| if is_nullable { key } else { key.or(Some(0)) }).collect();
            keys.iter().for_each(|key| words.push(key.unwrap_or(NONE)));
            let expected: Vec<_> = keys.iter().map(|key| key.map(|key| names[key as usize].clone())).collect();
            prop_assert_eq!(texts(&read_back(&words, is_nullable)), expected);
        }
    }
}
