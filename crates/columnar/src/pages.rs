//! Decoded sizes of pages, as their headers claim them (`PageHeader` of `parquet.thrift`, in Thrift's compact protocol): a few kilobytes may
//! claim gigabytes, and the decoder believes them.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

/// Octets read of a header at first, and at most: statistics may hold whole values.
const HEADER: usize = 4 * 1_024;
const LONGEST_HEADER: usize = 16 << 20;
/// Maximum depth of structures in a header that are skipped: as deep as the decoder goes.
const MAX_DEPTH: u32 = 64;

/// The most that the largest pages of all columns of a row group may take together, decoded, in octets.
pub const MOST_DECODED: u64 = 256 << 20;

/// Checks every row group of a file ([`check_group`]).
///
/// # Errors
/// A row group claims more than [`MOST_DECODED`].
pub fn check_pages(file: &File, metadata: &ParquetMetaData) -> Result<(), ParquetError> {
    metadata.row_groups().iter().try_for_each(|group| check_group(file, group, |_| true))
}

/// Checks that the pages of a row group can be decoded in [`MOST_DECODED`]: one page at a time of each column that is read, by number.
///
/// # Errors
/// They claim more.
pub fn check_group(file: &File, group: &RowGroupMetaData, is_read: impl Fn(usize) -> bool) -> Result<(), ParquetError> {
    let read = group.columns().iter().enumerate().filter(|(number, _)| is_read(*number));
    let largest = read.map(|(_, column)| column).map(|column| (largest(file, place(column)), column));
    let (mut all, mut worst) = (0_u64, (0, String::new()));
    for (decoded, column) in largest {
        all = all.saturating_add(decoded);
        if decoded > worst.0 {
            worst = (decoded, column.column_path().string().replace(char::is_control, " "));
        }
    }
    if all <= MOST_DECODED {
        return Ok(());
    }
    let (megabytes, most) = (all >> 20, MOST_DECODED >> 20);
    Err(ParquetError::General(format!(
        "a row group has pages of {megabytes} MB, most of it in the column `{}`; the limit is {most} MB",
        worst.1
    )))
}

/// Where the pages of a column lie, if the metadata are plausible.
fn place(column: &ColumnChunkMetaData) -> Range<u64> {
    let first = column.dictionary_page_offset().filter(|&at| at > 0).unwrap_or(i64::MAX).min(column.data_page_offset());
    let start = u64::try_from(first).unwrap_or(0);
    start..start.saturating_add(u64::try_from(column.compressed_size()).unwrap_or(0))
}

/// The decoded size of the largest page among these octets of a file. Pages behind a damaged header are not decoded, and do not count.
fn largest(file: &File, place: Range<u64>) -> u64 {
    let (mut at, mut largest) = (place.start, 0);
    while at < place.end
        && let Some(page) = header(file, at, place.end)
    {
        largest = largest.max(page.decoded);
        at = at.saturating_add(page.header).saturating_add(page.stored);
    }
    largest
}

/// The sizes of a page in octets.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    header: u64,
    stored: u64,
    decoded: u64,
}

fn header(file: &File, at: u64, end: u64) -> Option<Page> {
    let left = usize::try_from(end - at).unwrap_or(usize::MAX);
    [HEADER, LONGEST_HEADER].into_iter().find_map(|most| {
        let mut octets = vec![0; most.min(left)];
        file.read_exact_at(&mut octets, at).ok()?;
        let mut reader = Reader { octets: &octets, sizes: [None; 2] };
        reader.structure(0)?;
        let [decoded, stored] = reader.sizes;
        let header = (octets.len() - reader.octets.len()) as u64;
        Some(Page { header, stored: stored?, decoded: decoded? })
    })
}

/// Reads a structure, and keeps the fields 2 and 3 of the outermost: `uncompressed_page_size` and `compressed_page_size`.
struct Reader<'a> {
    octets: &'a [u8],
    sizes: [Option<u64>; 2],
}

/// Types of fields.
mod field {
    pub const STOP: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const UUID: u8 = 13;
}

impl Reader<'_> {
    fn structure(&mut self, depth: u32) -> Option<()> {
        let mut number = 0;
        loop {
            let head = self.octet()?;
            let kind = head & 0xf;
            if kind == field::STOP {
                return Some(());
            }
            number = match head >> 4 {
                0 => unzigzag(self.varint()?),
                delta => number.wrapping_add(delta.into()),
            };
            if depth == 0 && kind == field::I32 && (2..=3).contains(&number) {
                // A size below zero is none.
                self.sizes[number as usize - 2] = u64::try_from(unzigzag(self.varint()?)).ok();
            } else {
                self.skip(kind, depth)?;
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            field::TRUE | field::FALSE => Some(()),
            field::BYTE => self.octet().map(drop),
            field::I16 | field::I32 | field::I64 => self.varint().map(drop),
            field::DOUBLE => self.take(8),
            field::BINARY => {
                let length = self.varint()?;
                self.take(usize::try_from(length).ok()?)
            }
            field::LIST | field::SET => {
                let head = self.octet()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                (0..count).try_for_each(|_| self.entry(head & 0xf, depth))
            }
            field::MAP => {
                let count = self.varint()?;
                let kinds = if count > 0 { self.octet()? } else { 0 };
                (0..count).try_for_each(|_| self.entry(kinds >> 4, depth).and_then(|()| self.entry(kinds & 0xf, depth)))
            }
            field::UUID => self.take(16),
            field::STRUCT => self.deeper(kind, depth),
            _ => None,
        }
    }

    fn deeper(&mut self, kind: u8, depth: u32) -> Option<()> {
        if depth >= MAX_DEPTH {
            return None;
        }
        if kind == field::STRUCT { self.structure(depth + 1) } else { self.skip(kind, depth + 1) }
    }

    /// Skips an entry of a list or map, in which a truth value takes an octet.
    fn entry(&mut self, kind: u8, depth: u32) -> Option<()> {
        self.deeper(if kind <= field::FALSE { field::BYTE } else { kind }, depth)
    }

    fn octet(&mut self) -> Option<u8> {
        let (&first, rest) = self.octets.split_first()?;
        self.octets = rest;
        Some(first)
    }

    fn take(&mut self, length: usize) -> Option<()> {
        self.octets = self.octets.get(length..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let octet = self.octet()?;
            value |= u64::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;
    use proptest::prelude::*;

    /// A file with a column of numbers and a column of octets. The longest value of octets has this length.
    fn file(longest: usize, is_dictionary: bool) -> File {
        let values = [vec![1_u8; 20], vec![0; longest], vec![2; 30]];
        let octets =
            BinaryArray::from_iter_values((0..1_000).map(|row| &values[if row == 500 { 1 } else { row % 2 * 2 }]));
        let numbers = Int64Array::from_iter_values(0..1_000);
        let columns = [("a", Arc::new(numbers) as ArrayRef), ("b", Arc::new(octets) as ArrayRef)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(Default::default()))
            .set_dictionary_enabled(is_dictionary)
            .build();
        let file = tempfile::tempfile().unwrap();
        let mut writer = ArrowWriter::try_new(file.try_clone().unwrap(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file
    }

    fn metadata(file: &File) -> ArrowReaderMetadata {
        ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).unwrap()
    }

    #[test]
    fn the_largest_page_is_found_behind_dictionaries_and_statistics() {
        for is_dictionary in [false, true] {
            let file = file(3_000_000, is_dictionary);
            let found = metadata(&file);
            let group = found.metadata().row_group(0);
            let sizes: Vec<u64> = group.columns().iter().map(|column| largest(&file, place(column))).collect();
            assert!(sizes[0] < 20_000 && (3_000_000..3_100_000).contains(&sizes[1]), "{sizes:?}");
            check_pages(&file, found.metadata()).unwrap();
        }
    }

    #[test]
    fn more_than_the_limit_is_refused_by_the_name_of_the_column() {
        let file = file(300 << 20, false);
        let said = check_pages(&file, metadata(&file).metadata()).unwrap_err().to_string();
        check_group(&file, metadata(&file).metadata().row_group(0), |column| column == 0).unwrap();
        assert!(said.contains("pages of 300 MB, most of it in the column `b`; the limit is 256 MB"), "{said}");
    }

    /// An unknown field in a header hid the rest, and with it the size.
    #[test]
    fn unknown_fields_of_any_kind_are_passed_over() {
        let unknown: [&[u8]; 9] = [
            &[0x11],
            &[0x13, 7],
            &[0x16, 0xff, 1],
            &[0x17, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x18, 2, b'a', b'b'],
            &[0x19, 0x21, 1, 2],
            &[0x1b, 1, 0x8b, 1, b'k', 0],
            &[0x1c, 0x15, 2, 0],
            &[0x1d, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        ];
        for field in unknown {
            // A field of number 1, then the two sizes (200 and 100), then the end.
            let octets = [field, &[0x15, 0x90, 3, 0x15, 0xc8, 1, 0]].concat();
            let mut reader = Reader { octets: &octets, sizes: [None; 2] };
            assert_eq!((reader.structure(0), reader.sizes), (Some(()), [Some(200), Some(100)]), "{field:?}");
        }
        let far = [0x05, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0x15, 0, 0];
        let mut reader = Reader { octets: &far, sizes: [None; 2] };
        assert_eq!(reader.structure(0), Some(()), "a number beyond the last");
    }

    proptest! {
        #[test]
        fn no_octets_make_it_panic(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            use std::io::Write;
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&octets).unwrap();
            largest(&file, 0..octets.len() as u64);
            let mut reader = Reader { octets: &octets, sizes: [None; 2] };
            let _ = reader.structure(0);
        }
    }
}
