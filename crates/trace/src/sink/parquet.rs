//! Writes the Parquet trace: one row a transaction, with its messages and their readable columns.

use std::collections::HashSet;
use std::fmt::{Display, Write as _};
use std::hash::{BuildHasher, Hash};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Int64Builder, StringBuilder, TimestampNanosecondBuilder, UInt16Builder,
    UInt64Builder,
};
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt16Type;
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use foldhash::fast::FixedState;
use ldplayer_core::message::flag;
use ldplayer_core::name::Presentation;
use ldplayer_core::{Message, Transaction};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::{Output, Sink, Written};
use crate::TraceError;
use crate::columns::{Columns, class_name, opcode_name, opcode_of, rcode_name, type_name};

/// Rows of a row group, unless it grows too large before.
const GROUP_ROWS: usize = 128 * 1024;
/// Octets of a row group, as compressed, at which it is closed: it lies in memory until then.
const GROUP_OCTETS: usize = 32 * 1024 * 1024;
/// Room for the distinct addresses of a row group.
const DICTIONARY_OCTETS: usize = 4 * 1024 * 1024;
/// Columns of octets or numbers that hardly repeat.
const WITHOUT_DICTIONARY: [&str; 4] = ["time", "query", "response", "response_delay"];
/// Columns that hardly repeat in some traces, and a lot in others.
const MAYBE_WITHOUT: [&str; 2] = ["src_port", "qname"];
/// Rows that tell.
const TELLING: usize = 1_000;
/// Batches on their way to the thread that encodes them.
const WAITING: usize = 4;

/// The columns of the trace, in order.
pub(crate) fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let required = |name: &str, kind: DataType| Field::new(name, kind, false);
    let optional = |name: &str, kind: DataType| Field::new(name, kind, true);
    Arc::new(Schema::new(vec![
        required("time", time),
        required("src", DataType::Utf8),
        required("src_port", DataType::UInt16),
        required("dst", DataType::Utf8),
        required("dst_port", DataType::UInt16),
        required("transport", DataType::Utf8),
        optional("stream", DataType::UInt64),
        optional("query", DataType::Binary),
        optional("response", DataType::Binary),
        optional("response_delay", DataType::Int64),
        optional("qname", DataType::Utf8),
        optional("qtype", DataType::Utf8),
        optional("qclass", DataType::Utf8),
        optional("rcode", DataType::Utf8),
        optional("rd", DataType::Boolean),
        optional("do", DataType::Boolean),
        optional("edns_size", DataType::UInt16),
        optional("tc", DataType::Boolean),
        optional("opcode", DataType::Utf8),
        optional("ad", DataType::Boolean),
        optional("cd", DataType::Boolean),
    ]))
}

/// `first` are the first rows, which tell whether names and ports repeat.
fn properties(first: Option<&RecordBatch>) -> WriterProperties {
    let sorted_by_time = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_dictionary_page_size_limit(DICTIONARY_OCTETS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_sorting_columns(Some(vec![sorted_by_time]));
    let varied = MAYBE_WITHOUT.into_iter().filter(|name| first.is_some_and(|first| is_varied(first, name)));
    for name in WITHOUT_DICTIONARY.into_iter().chain(varied) {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(name), false);
    }
    properties.set_column_encoding(ColumnPath::from("time"), Encoding::DELTA_BINARY_PACKED).build()
}

/// Whether more than half of the first rows have a value of their own in this column.
fn is_varied(first: &RecordBatch, name: &str) -> bool {
    let Some(column) = first.column_by_name(name).filter(|column| column.len() >= TELLING) else { return false };
    let column = column.slice(0, TELLING);
    let texts = column.as_string_opt::<i32>().map(|texts| texts.iter().collect::<HashSet<_>>().len());
    let numbers =
        || column.as_primitive_opt::<UInt16Type>().map(|numbers| numbers.iter().collect::<HashSet<_>>().len());
    texts.or_else(numbers).is_some_and(|distinct| distinct > TELLING / 2)
}

/// Texts of values met before, so that most are not made anew; a place is taken by whoever comes last.
struct Texts<T> {
    places: Vec<(Option<T>, String)>,
}

impl<T: Copy + PartialEq + Hash> Texts<T> {
    /// Remembers up to `places` of them, at least one.
    fn new(places: usize) -> Self {
        Self { places: std::iter::repeat_with(|| (None, String::new())).take(places).collect() }
    }

    /// Appends the text of `value`, which `show` makes.
    fn append<D: Display>(&mut self, builder: &mut StringBuilder, value: T, show: impl FnOnce(T) -> D) {
        let place = FixedState::with_seed(0).hash_one(value) as usize % self.places.len();
        let (known, text) = &mut self.places[place];
        if *known != Some(value) {
            *known = Some(value);
            text.clear();
            // Writing to a string cannot fail.
            let _ = write!(text, "{}", show(value));
        }
        builder.append_value(text);
    }

    fn append_option<D: Display>(&mut self, builder: &mut StringBuilder, value: Option<T>, show: impl FnOnce(T) -> D) {
        match value {
            Some(value) => self.append(builder, value, show),
            None => builder.append_null(),
        }
    }
}

/// The texts of each column that repeats.
struct Words {
    clients: Texts<IpAddr>,
    servers: Texts<IpAddr>,
    types: Texts<u16>,
    classes: Texts<u16>,
    rcodes: Texts<u16>,
    opcodes: Texts<u8>,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            clients: Texts::new(16 * 1024),
            servers: Texts::new(1_024),
            types: Texts::new(256),
            classes: Texts::new(16),
            rcodes: Texts::new(64),
            opcodes: Texts::new(16),
        }
    }
}

/// A Parquet file being written: rows become columns here, and columns become pages on a thread of its own, since that is
/// most of the work.
pub(crate) struct ParquetSink {
    words: Words,
    /// `None` once it has failed.
    encoder: Option<Encoder>,
    path: PathBuf,
    schema: SchemaRef,
    written: Written,
}

/// The thread that writes.
struct Encoder {
    batches: SyncSender<RecordBatch>,
    thread: JoinHandle<Result<Output, ParquetError>>,
}

impl Encoder {
    fn start(output: Output, schema: SchemaRef) -> io::Result<Self> {
        let (batches, waiting) = sync_channel(WAITING);
        let thread = thread::Builder::new().name("parquet".to_owned());
        Ok(Self { batches, thread: thread.spawn(move || encode(output, schema, &waiting))? })
    }

    /// Waits until all is written.
    fn end(self) -> Result<Output, ParquetError> {
        drop(self.batches);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn encode(output: Output, schema: SchemaRef, waiting: &Receiver<RecordBatch>) -> Result<Output, ParquetError> {
    let first = waiting.recv().ok();
    let mut writer = ArrowWriter::try_new(output, schema, Some(properties(first.as_ref())))?;
    for rows in first.into_iter().chain(waiting) {
        writer.write(&rows)?;
        if writer.in_progress_size() > GROUP_OCTETS {
            writer.flush()?;
        }
    }
    writer.into_inner()
}

impl ParquetSink {
    /// # Errors
    /// When the system gives no thread.
    pub fn new(output: Output) -> Result<Self, TraceError> {
        let (schema, path) = (schema(), output.path().to_owned());
        let encoder = Encoder::start(output, schema.clone()).map_err(|error| super::write_error(&path, error))?;
        Ok(Self { words: Words::default(), encoder: Some(encoder), path, schema, written: Written::default() })
    }

    fn end(&mut self) -> Result<Output, TraceError> {
        let failed_before = || ParquetError::General("writing has failed before".to_owned());
        let ended = self.encoder.take().ok_or_else(failed_before).and_then(Encoder::end);
        ended.map_err(|error| refusal(&self.path, error))
    }
}

impl Sink for ParquetSink {
    fn write(&mut self, batch: &[Transaction]) -> Result<(), TraceError> {
        let mut builders = Builders::default();
        batch.iter().for_each(|row| builders.append(row, &mut self.words));
        let rows = RecordBatch::try_new(self.schema.clone(), builders.finish());
        let rows = rows.map_err(|error| refusal(&self.path, error.into()))?;
        let is_taken = self.encoder.as_ref().is_some_and(|encoder| encoder.batches.send(rows).is_ok());
        if !is_taken {
            // The thread ends before it is told to for an error only, which is told here.
            self.end()?;
        }
        self.written.transactions += batch.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Written, TraceError> {
        self.end()?.finish()?;
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for ParquetSink {
    /// What is not finished is gone when this returns.
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.end();
    }
}

/// The system's error inside that of the library, which is what the user can act upon.
fn refusal(path: &std::path::Path, error: ParquetError) -> TraceError {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    super::write_error(path, source)
}

/// One builder a column.
#[derive(Default)]
struct Builders {
    time: TimestampNanosecondBuilder,
    src: StringBuilder,
    src_port: UInt16Builder,
    dst: StringBuilder,
    dst_port: UInt16Builder,
    transport: StringBuilder,
    stream: UInt64Builder,
    query: BinaryBuilder,
    response: BinaryBuilder,
    response_delay: Int64Builder,
    asked: Asked,
    rcode: StringBuilder,
    tc: BooleanBuilder,
}

/// The readable columns of the query; null where the query was not seen, so that none is made of them on reading.
#[derive(Default)]
struct Asked {
    qname: StringBuilder,
    qtype: StringBuilder,
    qclass: StringBuilder,
    rd: BooleanBuilder,
    dnssec_ok: BooleanBuilder,
    edns_size: UInt16Builder,
    opcode: StringBuilder,
    ad: BooleanBuilder,
    cd: BooleanBuilder,
}

impl Builders {
    fn append(&mut self, row: &Transaction, words: &mut Words) {
        self.time.append_value(row.time.0);
        words.clients.append(&mut self.src, row.client.ip(), |address| address);
        self.src_port.append_value(row.client.port());
        words.servers.append(&mut self.dst, row.server.ip(), |address| address);
        self.dst_port.append_value(row.server.port());
        self.transport.append_value(row.transport.as_str());
        self.stream.append_option(row.stream);
        self.query.append_option(row.query.as_deref());
        self.response.append_option(row.response.as_deref());
        self.response_delay.append_option(row.response_delay);
        self.asked.append(row.query.as_deref().and_then(Message::new).as_ref(), words);
        let response = row.response.as_deref().and_then(Message::new);
        words.rcodes.append_option(&mut self.rcode, response.map(|response| response.rcode()), rcode_name);
        self.tc.append_option(response.map(|response| response.has(flag::TC)));
    }

    fn finish(mut self) -> Vec<ArrayRef> {
        let time = self.time.finish().with_timezone("UTC");
        vec![
            Arc::new(time),
            Arc::new(self.src.finish()),
            Arc::new(self.src_port.finish()),
            Arc::new(self.dst.finish()),
            Arc::new(self.dst_port.finish()),
            Arc::new(self.transport.finish()),
            Arc::new(self.stream.finish()),
            Arc::new(self.query.finish()),
            Arc::new(self.response.finish()),
            Arc::new(self.response_delay.finish()),
            Arc::new(self.asked.qname.finish()),
            Arc::new(self.asked.qtype.finish()),
            Arc::new(self.asked.qclass.finish()),
            Arc::new(self.rcode.finish()),
            Arc::new(self.asked.rd.finish()),
            Arc::new(self.asked.dnssec_ok.finish()),
            Arc::new(self.asked.edns_size.finish()),
            Arc::new(self.tc.finish()),
            Arc::new(self.asked.opcode.finish()),
            Arc::new(self.asked.ad.finish()),
            Arc::new(self.asked.cd.finish()),
        ]
    }
}

impl Asked {
    fn append(&mut self, message: Option<&Message<'_>>, words: &mut Words) {
        let columns = message.map(Columns::of);
        let question = columns.and_then(|columns| columns.question);
        append_text(&mut self.qname, question.map(|asked| Presentation(asked.name)));
        words.types.append_option(&mut self.qtype, question.map(|asked| asked.qtype), type_name);
        words.classes.append_option(&mut self.qclass, question.map(|asked| asked.qclass), class_name);
        let has = |bit: u16| columns.map(|columns| columns.flags & bit != 0);
        self.rd.append_option(has(flag::RD));
        self.ad.append_option(has(flag::AD));
        self.cd.append_option(has(flag::CD));
        let edns = columns.and_then(|columns| columns.edns);
        self.dnssec_ok.append_option(columns.map(|_| edns.is_some_and(|(_, dnssec_ok)| dnssec_ok)));
        self.edns_size.append_option(edns.map(|(size, _)| size));
        words.opcodes.append_option(&mut self.opcode, columns.map(|columns| opcode_of(columns.flags)), opcode_name);
    }
}

/// Appends what `value` shows, or null.
fn append_text(builder: &mut StringBuilder, value: Option<impl Display>) {
    match value {
        Some(value) => {
            // Writing to a builder cannot fail.
            let _ = write!(builder, "{value}");
            builder.append_value("");
        }
        None => builder.append_null(),
    }
}
