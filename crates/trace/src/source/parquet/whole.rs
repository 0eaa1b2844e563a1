//! Whether a Parquet file is one: of files put behind each other only the last has a footer that is found, and its offsets are those of
//! that file alone.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::file::metadata::ParquetMetaData;

use super::MAGIC;

/// Octets behind the metadata: their length and the magic number.
const TAIL: u64 = 8;

/// Whether another file lies before the one whose `metadata` were read.
pub(super) fn has_another_before(file: &File, metadata: &ParquetMetaData) -> bool {
    before(file, metadata).is_some_and(|at| at > 0 && begins(file, at) && begins(file, at - MAGIC.len() as u64))
}

/// Octets before the file: those beyond its data and its footer.
fn before(file: &File, metadata: &ParquetMetaData) -> Option<u64> {
    let length = file.metadata().ok()?.len();
    let mut tail = [0; TAIL as usize];
    file.read_exact_at(&mut tail, length.checked_sub(TAIL)?).ok()?;
    let footer = u64::from(u32::from_le_bytes(*tail.first_chunk()?)) + TAIL;
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let ends = columns.flat_map(|column| {
        let (start, length) = (
            column.data_page_offset().min(column.dictionary_page_offset().unwrap_or(i64::MAX)),
            column.compressed_size(),
        );
        let index = |start: Option<i64>, length: Option<i32>| Some(start?.saturating_add(i64::from(length?)));
        [
            Some(start.saturating_add(length)),
            index(column.column_index_offset(), column.column_index_length()),
            index(column.offset_index_offset(), column.offset_index_length()),
            index(column.bloom_filter_offset(), column.bloom_filter_length()),
        ]
    });
    // A file without rows has its magic number only.
    let end = ends.flatten().max().unwrap_or(MAGIC.len() as i64);
    length.checked_sub(footer)?.checked_sub(u64::try_from(end).ok()?)
}

/// Whether the magic number stands here.
fn begins(file: &File, at: u64) -> bool {
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, at).is_ok() && magic == *MAGIC
}
