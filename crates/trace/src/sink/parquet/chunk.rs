//! Pages of one column, compressed and put behind each other, and what the file's directory says about them.

use std::io::Write;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, EncodingMask, PageType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// Level of zstd: its fastest but for those that hardly compress.
const LEVEL: i32 = 1;

/// Makes one column chunk after the other, in memory that is used again.
pub(super) struct ChunkWriter {
    /// The page as its encoding has it.
    raw: Vec<u8>,
    /// The same, compressed.
    packed: Vec<u8>,
    compressor: zstd::bulk::Compressor<'static>,
    /// The pages so far.
    pages: TrackedWrite<Vec<u8>>,
    sizes: Sizes,
}

/// What is known of the pages of a chunk.
#[derive(Default)]
struct Sizes {
    compressed: usize,
    uncompressed: usize,
    values: usize,
    /// Where the data begins, if a dictionary is before it.
    behind_dictionary: Option<u64>,
    encodings: Vec<PageEncodingStats>,
}

impl ChunkWriter {
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn new() -> Result<Self> {
        Ok(Self {
            raw: Vec::new(),
            packed: Vec::new(),
            compressor: zstd::bulk::Compressor::new(LEVEL)?,
            pages: TrackedWrite::new(Vec::new()),
            sizes: Sizes::default(),
        })
    }

    /// Where the next page is put together, before it is given to [`Self::page`].
    pub fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.raw
    }

    /// Writes the page that [`Self::raw`] holds, as a dictionary of so many entries.
    pub fn dictionary(&mut self, entries: usize) -> Result<()> {
        let page =
            |buf| Page::DictionaryPage { buf, num_values: entries as u32, encoding: Encoding::PLAIN, is_sorted: false };
        self.write(page)?;
        self.sizes.behind_dictionary = Some(self.sizes.compressed as u64);
        Ok(())
    }

    /// Writes the page that [`Self::raw`] holds: the levels and values of so many rows.
    pub fn page(&mut self, rows: usize, encoding: Encoding) -> Result<()> {
        let (def_level_encoding, rep_level_encoding) = (Encoding::RLE, Encoding::RLE);
        let num_values = rows as u32;
        let page = |buf| Page::DataPage {
            buf,
            num_values,
            encoding,
            def_level_encoding,
            rep_level_encoding,
            statistics: None,
        };
        self.write(page)?;
        self.sizes.values += rows;
        Ok(())
    }

    fn write(&mut self, page: impl FnOnce(Bytes) -> Page) -> Result<()> {
        let room = zstd::zstd_safe::compress_bound(self.raw.len());
        self.packed.clear();
        self.packed.reserve(room);
        self.compressor.compress_to_buffer(&self.raw, &mut self.packed)?;
        let buffer = Bytes::from(std::mem::take(&mut self.packed));
        let page = CompressedPage::new(page(buffer.clone()), self.raw.len());
        let (page_type, encoding) = (page.page_type(), page.encoding());
        let written = SerializedPageWriter::new(&mut self.pages).write_page(page)?;
        self.packed = buffer.into();
        self.raw.clear();
        self.sizes.compressed += written.compressed_size;
        self.sizes.uncompressed += written.uncompressed_size;
        self.sizes.count(page_type, encoding);
        Ok(())
    }

    /// Ends the chunk and puts it into the file.
    pub fn end<W: Write + Send>(
        &mut self,
        column: ColumnDescPtr,
        statistics: Statistics,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let sizes = std::mem::take(&mut self.sizes);
        let rows_written = sizes.values as u64;
        let pages = std::mem::replace(&mut self.pages, TrackedWrite::new(Vec::new())).into_inner()?;
        let metadata = sizes.metadata(column, statistics)?;
        let close = ColumnCloseResult {
            bytes_written: pages.len() as u64,
            rows_written,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        let pages = Bytes::from(pages);
        group.append_column(&pages, close)?;
        let mut pages: Vec<u8> = pages.into();
        pages.clear();
        self.pages = TrackedWrite::new(pages);
        Ok(())
    }
}

impl Sizes {
    fn count(&mut self, page_type: PageType, encoding: Encoding) {
        match self.encodings.last_mut() {
            Some(last) if (last.page_type, last.encoding) == (page_type, encoding) => last.count += 1,
            _ => self.encodings.push(PageEncodingStats { page_type, encoding, count: 1 }),
        }
    }

    fn metadata(self, column: ColumnDescPtr, statistics: Statistics) -> Result<ColumnChunkMetaData, ParquetError> {
        let levels = [Encoding::RLE];
        let encodings = self.encodings.iter().map(|pages| &pages.encoding).chain(&levels);
        ColumnChunkMetaData::builder(column)
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_encodings_mask(EncodingMask::new_from_encodings(encodings))
            .set_total_compressed_size(self.compressed as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_num_values(self.values as i64)
            .set_dictionary_page_offset(self.behind_dictionary.map(|_| 0))
            .set_data_page_offset(self.behind_dictionary.unwrap_or(0) as i64)
            .set_page_encoding_stats(self.encodings)
            .set_statistics(statistics)
            .build()
    }
}
