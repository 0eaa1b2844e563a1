//! The compressed pages of one column, and their metadata for the footer.

use bytes::Bytes;
use parquet::basic::{self, Encoding, EncodingMask, PageType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// Level of zstd: its fastest but for those that hardly compress.
const LEVEL: i32 = 1;

/// How pages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// With zstd at its level 1.
    Zstd,
}

/// Makes the pages of one column chunk after the other, in memory that is used again.
pub struct Pages {
    /// The page as its encoding has it.
    raw: Vec<u8>,
    /// The same, compressed.
    packed: Vec<u8>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    /// The pages so far.
    pages: TrackedWrite<Vec<u8>>,
    sizes: Sizes,
}

/// What is known of the pages of a chunk.
#[derive(Default)]
struct Sizes {
    compressed: usize,
    uncompressed: usize,
    rows: usize,
    /// Where the data begins, if a dictionary is before it.
    behind_dictionary: Option<u64>,
    encodings: Vec<PageEncodingStats>,
}

/// All pages of a column chunk, ready to be put into a file.
pub(crate) struct EncodedChunk {
    pub pages: Bytes,
    pub close: ColumnCloseResult,
}

impl Pages {
    /// # Errors
    /// When there is no memory for the compressor.
    pub(crate) fn new(compression: Compression) -> Result<Self> {
        let compressor = match compression {
            Compression::None => None,
            Compression::Zstd => Some(zstd::bulk::Compressor::new(LEVEL)?),
        };
        let pages = TrackedWrite::new(Vec::new());
        Ok(Self { raw: Vec::new(), packed: Vec::new(), compressor, pages, sizes: Sizes::default() })
    }

    /// Makes a chunk of the pages that `encode` writes for a column.
    pub(crate) fn chunk(
        &mut self,
        description: ColumnDescPtr,
        encode: impl FnOnce(&mut Self) -> Result<Statistics>,
    ) -> Result<EncodedChunk> {
        self.sizes = Sizes::default();
        self.raw.clear();
        let statistics = encode(self)?;
        let pages = std::mem::replace(&mut self.pages, TrackedWrite::new(Vec::new())).into_inner()?;
        let sizes = std::mem::take(&mut self.sizes);
        let close = ColumnCloseResult {
            bytes_written: pages.len() as u64,
            rows_written: sizes.rows as u64,
            metadata: sizes.metadata(description, statistics, self.compressor.is_some())?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok(EncodedChunk { pages: pages.into(), close })
    }

    /// Where the next page is put together, before it is given to [`Self::page`].
    pub fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.raw
    }

    /// Writes the page in [`Self::raw`], as a dictionary of this many entries.
    ///
    /// # Errors
    /// When it cannot be compressed.
    pub fn dictionary(&mut self, entries: usize) -> Result<()> {
        let page =
            |buf| Page::DictionaryPage { buf, num_values: entries as u32, encoding: Encoding::PLAIN, is_sorted: false };
        self.write(page)?;
        self.sizes.behind_dictionary = Some(self.sizes.compressed as u64);
        Ok(())
    }

    /// Writes the page in [`Self::raw`]: the levels and values of this many rows.
    ///
    /// # Errors
    /// When it cannot be compressed.
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
        self.sizes.rows += rows;
        Ok(())
    }

    fn write(&mut self, page: impl FnOnce(Bytes) -> Page) -> Result<()> {
        let length = self.raw.len();
        let content = self.compressed()?;
        let page = CompressedPage::new(page(content.clone()), length);
        let (page_type, encoding) = (page.page_type(), page.encoding());
        let written = SerializedPageWriter::new(&mut self.pages).write_page(page)?;
        match self.compressor {
            Some(_) => self.packed = content.into(),
            None => self.raw = content.into(),
        }
        self.raw.clear();
        self.sizes.compressed += written.compressed_size;
        self.sizes.uncompressed += written.uncompressed_size;
        self.sizes.count(page_type, encoding);
        Ok(())
    }

    /// The page as it is stored. Its memory is given back when the page is written.
    fn compressed(&mut self) -> Result<Bytes> {
        let Some(compressor) = &mut self.compressor else { return Ok(std::mem::take(&mut self.raw).into()) };
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        compressor.compress_to_buffer(&self.raw, &mut self.packed)?;
        Ok(std::mem::take(&mut self.packed).into())
    }
}

impl Sizes {
    fn count(&mut self, page_type: PageType, encoding: Encoding) {
        match self.encodings.last_mut() {
            Some(last) if (last.page_type, last.encoding) == (page_type, encoding) => last.count += 1,
            _ => self.encodings.push(PageEncodingStats { page_type, encoding, count: 1 }),
        }
    }

    fn metadata(
        self,
        column: ColumnDescPtr,
        statistics: Statistics,
        is_zstd: bool,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        let levels = [Encoding::RLE];
        let encodings = self.encodings.iter().map(|pages| &pages.encoding).chain(&levels);
        let zstd = basic::Compression::ZSTD(ZstdLevel::default());
        ColumnChunkMetaData::builder(column)
            .set_compression(if is_zstd { zstd } else { basic::Compression::UNCOMPRESSED })
            .set_encodings_mask(EncodingMask::new_from_encodings(encodings))
            .set_total_compressed_size(self.compressed as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_num_values(self.rows as i64)
            .set_dictionary_page_offset(self.behind_dictionary.map(|_| 0))
            .set_data_page_offset(self.behind_dictionary.unwrap_or(0) as i64)
            .set_page_encoding_stats(self.encodings)
            .set_statistics(statistics)
            .build()
    }
}
