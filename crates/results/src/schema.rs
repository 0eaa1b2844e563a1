//! The columns of `queries/*.parquet` and how they are laid out on disk.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// Rows of a row group: large enough to compress, small enough to hold in memory for every worker.
pub const ROW_GROUP_ROWS: usize = 128 * 1024;

/// The names of the columns, in their order.
pub const NAMES: [&str; 38] = [
    "index",
    "client",
    "client_port",
    "server",
    "transport",
    "connection",
    "intended_ns",
    "submitted_ns",
    "sent_ns",
    "answered_ns",
    "status",
    "reason",
    "rcode",
    "tc",
    "ad",
    "aa",
    "query_bytes",
    "response_bytes",
    "connect_ns",
    "handshake_ns",
    "first_byte_ns",
    "reused",
    "resumed",
    "early_data",
    "answer",
    "resent",
    "fell_back",
    "class",
    "segments",
    "retransmits",
    "length_apart",
    "differs",
    "ede",
    "attempts",
    "gave_up",
    "attempt",
    "follows",
    "scheduled_ns",
];

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
        maybe("segments", UInt16),
        maybe("retransmits", UInt16),
        some("length_apart", Boolean),
        maybe("differs", words(Int8)),
        maybe("ede", UInt16),
        maybe("attempts", UInt16),
        some("gave_up", Boolean),
        maybe("attempt", UInt16),
        maybe("follows", UInt64),
        maybe("scheduled_ns", Int64),
    ]))
}

/// Compression for files that are written once and read by other tools.
pub fn small_file_properties() -> WriterProperties {
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_column_has_its_name() {
        let schema = super::schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, super::NAMES);
    }
}
