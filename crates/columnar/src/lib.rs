//! The one encoder of Parquet pages, for traces and for rows of runs.
//!
//! ```text
//!   values ──► Column ──► Pages ──► chunk ─┐
//!   values ──► Column ──► Pages ──► chunk ─┼──► EncodedGroup ──► FileWriter ──► directory
//!   values ──► Column ──► Pages ──► chunk ─┘
//!              gathered   encoded and compressed; row groups side by side on several threads
//! ```
//!
//! # Contract
//!
//! - A [`Column`] gathers the values of one column of a row group. [`FileWriter::write_group`] encodes all columns and
//!   appends them; the caller then empties the columns and fills them again, in the same memory.
//! - Who has several cores gives each thread a [`GroupEncoder`] and whole row groups to encode, and appends them in their
//!   order ([`FileWriter::append`]). Threads that share the columns of one group would wait for its largest column.
//! - The octets of a file depend on its values and on the library's version, never on the number of threads.
//! - Nothing is written that stock readers do not read: DuckDB, pyarrow and the Parquet library are asked in tests.
//! - Before a file of others is decoded, [`check_pages`] holds what its pages claim against a limit.
//! - Row groups of one file can be copied into another ([`FileWriter::copy_groups`]) without being decoded.
//!
//! # What is written of Parquet
//!
//! | values | encoding | pages |
//! |---|---|---|
//! | [`Integers`] | DELTA_BINARY_PACKED | one a row group |
//! | [`Booleans`] | PLAIN, a bit each | one a row group |
//! | [`Dictionary`] | PLAIN dictionary, RLE_DICTIONARY indices: runs where 512 rows are alike, else packed bits | dictionary and one |
//! | [`Binary`] | DELTA_LENGTH_BYTE_ARRAY | of half a megabyte |
//!
//! Definition levels are a run where a column has all values or none, else packed bits. Pages are version 1, uncompressed or
//! zstd at level 1. The directory has the least and greatest value of each column chunk but of [`Binary`] and of fixed
//! dictionaries. Headers, schema and directory are written by the Parquet library.
//!
//! # Limitations
//!
//! No nesting, no lists, no floats; no page index, no bloom filters, no checksums of pages. A row group must fit in memory,
//! and its rows into 32 bits.
//!
//! # Why ours
//!
//! The library's writers hash the text of every value of a column with a dictionary. Here whoever gathers values knows which
//! are equal before they are text: an address is 4 or 16 octets, a status is a number. With columns that are laid out so,
//! `generate` and `mutate` take half the processor time that they take over the library's writers, and recording takes a
//! quarter less (docs/benchmarks/decoding.md). We would drop this if the library took dictionaries and their indices as they are, for
//! then nothing but the packing of bits would be left here.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use arrow_schema::{DataType, Field, Schema};
//! use ldplayer_columnar::{Column, Compression, Dictionary, FileOptions, FileWriter, IntegerType, Integers};
//!
//! let schema = Schema::new(vec![
//!     Field::new("time", DataType::Int64, false),
//!     Field::new("transport", DataType::Utf8, true),
//! ]);
//! let options = FileOptions { compression: Compression::Zstd, sorted_by: Some(0) };
//! let mut file = FileWriter::new(Vec::new(), &schema, options)?;
//!
//! let mut times = Column::required(Integers::new(IntegerType::I64));
//! let mut transports = Column::optional(Dictionary::fixed(["udp", "tcp"]));
//! times.extend([10, 20, 30].into_iter(), Integers::push);
//! transports.extend_some([Some(0), None, Some(1)].into_iter(), Dictionary::push);
//! file.write_group(3, &[&times, &transports])?;
//! let octets = file.finish()?;
//! assert!(octets.ends_with(b"PAR1"));
//! # Ok::<(), parquet::errors::ParquetError>(())
//! ```
//!
//! # Files
//!
//! The one encoder of Parquet pages, for traces and for rows of runs: values (`values/`) are gathered in columns, encoded into
//! pages (`group.rs`, on as many threads as the caller has) and put into a file (`file.rs`). Headers and directory are the
//! Parquet library's.

#![forbid(unsafe_code)]

mod bits;
mod chunk;
mod column;
mod encoding;
mod file;
mod group;
mod pages;
mod values;

pub use bits::Bits;
pub use chunk::{Compression, Pages};
pub use column::{Column, Encode, Values};
pub use file::{FileOptions, FileWriter};
pub use group::{EncodedGroup, GroupEncoder};
pub use pages::{MOST_DECODED, check_group, check_pages};
pub use values::{Binary, Booleans, Dictionary, IntegerType, Integers};

/// Threads that encode row groups where nothing is said of them: one a core, four at most, beyond which one thread reads too
/// slowly for them.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4))
}
