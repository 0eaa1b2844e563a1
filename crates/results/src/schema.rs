//! The columns of `queries/*.parquet` and how they are laid out on disk.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

/// Rows of a row group: large enough to compress, small enough to hold in memory for every worker.
pub const ROW_GROUP_ROWS: usize = 128 * 1024;

/// Columns that grow slowly, so that differences are small.
const SLOW_GROWING: [&str; 6] = ["index", "intended_ns", "submitted_ns", "sent_ns", "answered_ns", "first_byte_ns"];

/// The columns in the order of the run directory's description.
pub fn schema() -> SchemaRef {
    use DataType::{Boolean, Int8, Int32, Int64, UInt16, UInt64};
    let words = |key: DataType| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
    let some = |name: &str, kind: DataType| Field::new(name, kind, false);
    let maybe = |name: &str, kind: DataType| Field::new(name, kind, true);
    Arc::new(Schema::new(vec![
        maybe("index", UInt64),
        some("client", words(Int32)),
        some("client_port", UInt16),
        some("server", words(Int32)),
        some("transport", words(Int8)),
        maybe("connection", UInt64),
        some("intended_ns", Int64),
        maybe("submitted_ns", Int64),
        maybe("sent_ns", Int64),
        maybe("answered_ns", Int64),
        some("status", words(Int8)),
        maybe("reason", words(Int8)),
        maybe("rcode", UInt16),
        some("tc", Boolean),
        some("ad", Boolean),
        some("aa", Boolean),
        some("query_bytes", UInt16),
        some("response_bytes", UInt16),
        maybe("connect_ns", Int64),
        maybe("handshake_ns", Int64),
        maybe("first_byte_ns", Int64),
        some("reused", Boolean),
        some("resumed", Boolean),
        some("early_data", Boolean),
        maybe("answer", words(Int8)),
        some("resent", Boolean),
        some("fell_back", Boolean),
        maybe("class", words(Int8)),
    ]))
}

/// How the rows are written: fast first, since the writer shares a core with the generator.
///
/// Statistics are kept only where reading back by time needs them.
pub fn properties() -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from("intended_ns"), EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        // Addresses of one row group fit, so that the column never falls back to plain text.
        .set_dictionary_page_size_limit(8 << 20)
        .set_compression(Compression::UNCOMPRESSED);
    for name in SLOW_GROWING {
        let column = ColumnPath::from(name);
        builder = builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    for name in ["client_port", "connect_ns", "handshake_ns", "connection"] {
        builder = builder.set_column_dictionary_enabled(ColumnPath::from(name), false);
    }
    builder.build()
}

/// Compression of what is written once and read by people's tools.
pub fn small_file_properties() -> WriterProperties {
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build()
}
