//! Reads the Parquet trace: any subset of its columns, as written by ldplayer or by another program.

mod cells;
mod guard;
mod whole;

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, cast::AsArray};
use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::{Field, Schema};
use bytes::Bytes;
use ldplayer_columnar::check_group;
use ldplayer_core::damage::{Ending, Flaw};
use ldplayer_core::message::{CLASS_IN, Question, flag};
use ldplayer_core::{Message, TraceTime, Transaction, Transport};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use self::cells::{Codes, Kind, Messages, Numbers, Words, parse_transport};
use self::guard::guarded;
use super::tsv::{DNS_PORT, unknown_server};
use super::{BATCH_OCTETS, note};
use crate::columns::{
    Columns, Composer, opcode_flags, parse_address, parse_class, parse_name, parse_opcode, parse_type,
};
use crate::{Place, Source, Tally, TraceError};

/// The first octets of a file, and its last.
pub(super) const MAGIC: &[u8] = b"PAR1";
/// Rows in a batch, unless they are large.
const BATCH: usize = 4_096;
/// Maximum number of rows in a row group: a damaged file may claim any number.
const GROUP_ROWS: u64 = 1 << 40;
/// EDNS UDP payload size of a query that has DO but no size.
const EDNS_SIZE: u16 = 1_232;

/// Columns used for every transaction.
const OUTER: [(&str, Kind); 10] = [
    ("time", Kind::Time),
    ("src", Kind::Word),
    ("src_port", Kind::Number),
    ("dst", Kind::Word),
    ("dst_port", Kind::Number),
    ("transport", Kind::Word),
    ("stream", Kind::Number),
    ("query", Kind::Octets),
    ("response", Kind::Octets),
    ("response_delay", Kind::Number),
];

/// The column of files whose rows are numbered; see [`crate::create_numbered`].
const INDEX: &str = "index";

/// Columns from which a query is composed if its message is missing.
const ASKED: [(&str, Kind); 9] = [
    ("qname", Kind::Text),
    ("qtype", Kind::WordOrNumber),
    ("qclass", Kind::WordOrNumber),
    ("rd", Kind::Truth),
    ("do", Kind::Truth),
    ("edns_size", Kind::Number),
    ("opcode", Kind::WordOrNumber),
    ("ad", Kind::Truth),
    ("cd", Kind::Truth),
];

/// Reads row group after row group, each with only the columns that it needs.
pub(crate) struct ParquetSource {
    path: PathBuf,
    file: File,
    metadata: ArrowReaderMetadata,
    /// The next row group.
    group: usize,
    reader: Option<ParquetRecordBatchReader>,
    /// Rows of this group not yet read.
    left: u64,
    /// Octets of the row groups read or lost.
    content: u64,
    rows: Rows,
    /// Whether transactions have the numbers of the column `index`.
    is_numbered: bool,
    tally: Tally,
}

impl ParquetSource {
    /// Opens a Parquet trace.
    ///
    /// # Errors
    /// The system refuses the file, or it is not a Parquet trace.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|source| TraceError::File { path: path.to_owned(), source })?;
        let format = |what: String, remedy: &str| {
            // Column names are untrusted, and an error is one line.
            let what = what.replace(char::is_control, " ");
            TraceError::Format { path: path.to_owned(), what, remedy: remedy.into() }
        };
        let damaged = |error| format(format!("damaged Parquet file ({error})"), "check that it was written completely");
        let undecodable = || ParquetError::General("its footer cannot be decoded".into());
        let found = guarded(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()))
            .unwrap_or_else(|| Err(undecodable()))
            .map_err(damaged)?;
        if whole::has_another_before(&file, found.metadata()) {
            return Err(format(
                "several Parquet files put behind each other".into(),
                "give them apart: they are merged",
            ));
        }
        if let Some(codec) = foreign_codec(&found) {
            return Err(format(
                format!("unsupported compression {codec}"),
                "write it with zstd, snappy, gzip, lz4 or uncompressed",
            ));
        }
        let wanted = wanted_schema(found.schema()).map_err(|what| {
            format(what, "a trace needs time, src, and either qname and qtype or query; see docs/trace-format.md")
        })?;
        let options = ArrowReaderOptions::new().with_schema(Arc::new(wanted));
        let metadata = ArrowReaderMetadata::try_new(found.metadata().clone(), options).map_err(damaged)?;
        let path = path.to_owned();
        Ok(Self {
            path,
            file,
            metadata,
            group: 0,
            reader: None,
            left: 0,
            content: 0,
            rows: Rows::new(),
            is_numbered: false,
            tally: Tally::default(),
        })
    }

    /// Sets the [`Transaction::index`] of transactions from the column `index`.
    pub const fn numbered(mut self) -> Self {
        self.is_numbered = true;
        self
    }

    /// Whether the metadata declare every row group sorted by time, and later than the one before.
    pub fn says_sorted(&self) -> bool {
        let time = self.metadata.schema().index_of("time").ok();
        self.metadata.metadata().row_groups().iter().all(|group| {
            let first = group.sorting_columns().and_then(|columns| columns.first());
            first.is_some_and(|first| !first.descending && usize::try_from(first.column_idx).ok() == time)
        })
    }

    /// Begins the next row group; `false` if there are no more.
    fn next_group(&mut self) -> Result<bool, TraceError> {
        let Some(group) = self.metadata.metadata().row_groups().get(self.group) else { return Ok(false) };
        self.left = rows_of(group);
        self.content = self.content.saturating_add(octets_of(group));
        let mask = self.mask(group);
        check_group(&self.file, group, |column| mask.leaf_included(column)).map_err(|error| TraceError::Format {
            path: self.path.clone(),
            what: error.to_string(),
            remedy: "write it with smaller pages and row groups".into(),
        })?;
        let file = self.file.try_clone().map_err(|source| TraceError::File { path: self.path.clone(), source })?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(vec![self.group])
            .with_projection(mask)
            .with_batch_size(batch_rows(group));
        let reader = guarded(|| builder.build());
        self.group += 1;
        match reader {
            Some(Ok(reader)) => self.reader = Some(reader),
            Some(Err(_)) | None => self.lose_group(),
        }
        Ok(true)
    }

    /// The columns to read of a row group: the decoded ones only if messages may be missing, and none that are entirely
    /// null.
    fn mask(&self, group: &RowGroupMetaData) -> ProjectionMask {
        let asked = if nulls(group, "query") == Some(0) { &[][..] } else { &ASKED[..] };
        let rows = u64::try_from(group.num_rows()).ok();
        let number = self.is_numbered.then_some(INDEX);
        let names = OUTER.iter().chain(asked).map(|(name, _)| *name).chain(number);
        let filled = names.filter(|&name| name == "time" || nulls(group, name).is_none_or(|nulls| Some(nulls) != rows));
        let roots = filled.filter_map(|name| self.metadata.schema().index_of(name).ok());
        ProjectionMask::roots(self.metadata.parquet_schema(), roots)
    }

    /// Counts the rest of a row group as damaged; reading resumes with the next one.
    fn lose_group(&mut self) {
        self.reader = None;
        let (file, packet) = (self.path.display().to_string(), self.rows.read + 1);
        let group = &self.metadata.metadata().row_groups()[self.group - 1];
        let offset = group.columns().first().map_or(0, start_of);
        let lost = octets_of_rows(group, self.left);
        self.tally.damage(Flaw::DamagedRowGroup, lost, || Place { file, packet, offset });
        *self.tally.skipped.entry("row_in_damaged_group".into()).or_default() += self.left;
        self.tally.packets += self.left;
        self.rows.read += self.left;
        self.left = 0;
    }

    fn take_batch(&mut self, columns: &RecordBatch, batch: &mut Vec<Transaction>) {
        self.rows.load(columns);
        batch.reserve(columns.num_rows());
        self.left = self.left.saturating_sub(columns.num_rows() as u64);
        for at in 0..columns.num_rows() {
            let row = self.rows.read(at);
            self.count(&row);
            batch.extend(row.ok());
        }
    }

    fn count(&mut self, row: &Result<Transaction, Flaw>) {
        self.tally.packets += 1;
        match row {
            Ok(row) => {
                let (query, response) = (u64::from(row.query.is_some()), u64::from(row.response.is_some()));
                self.tally.queries += query;
                self.tally.responses += response;
                self.tally.dns_messages += query + response;
            }
            Err(flaw) => {
                let (path, packet) = (&self.path, self.rows.read);
                let lost = octets_of_rows(&self.metadata.metadata().row_groups()[self.group - 1], 1);
                self.tally.damage(*flaw, lost, || Place { file: path.display().to_string(), packet, offset: 0 });
            }
        }
    }
}

impl Source for ParquetSource {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        loop {
            let Some(reader) = self.reader.as_mut() else {
                if self.next_group()? {
                    continue;
                }
                note(&mut self.tally, (self.content, Ending::Whole));
                return Ok(false);
            };
            match guarded(|| reader.next()) {
                Some(Some(Ok(columns))) => {
                    self.take_batch(&columns, batch);
                    note(&mut self.tally, (self.content, Ending::Open));
                    return Ok(true);
                }
                Some(None) => self.reader = None,
                Some(Some(Err(_))) | None => self.lose_group(),
            }
        }
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// The rows of a row group, if the metadata are plausible.
fn rows_of(group: &RowGroupMetaData) -> u64 {
    u64::try_from(group.num_rows()).unwrap_or(0).min(GROUP_ROWS)
}

/// The octets of a row group in the file, if the metadata are plausible.
fn octets_of(group: &RowGroupMetaData) -> u64 {
    let sizes = group.columns().iter().map(|column| u64::try_from(column.compressed_size()).unwrap_or(0));
    sizes.fold(0, u64::saturating_add)
}

/// The octets of a row group attributed to some of its rows.
fn octets_of_rows(group: &RowGroupMetaData, rows: u64) -> u64 {
    let share = u128::from(octets_of(group)) * u128::from(rows) / u128::from(rows_of(group).max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The null count of a column, if the file declares it.
fn nulls(group: &RowGroupMetaData, name: &str) -> Option<u64> {
    let column = group.columns().iter().find(|column| column.column_path().string() == name)?;
    column.statistics()?.null_count_opt()
}

/// The offset of a column in the file, if the metadata are plausible.
fn start_of(column: &ColumnChunkMetaData) -> u64 {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    u64::try_from(start).unwrap_or(0)
}

/// Number of rows to read at once: fewer if messages are large.
fn batch_rows(group: &RowGroupMetaData) -> usize {
    let sizes = group.columns().iter().map(|column| column.uncompressed_size().max(0));
    let octets = sizes.fold(0, i64::saturating_add);
    let row = usize::try_from(octets / group.num_rows().max(1)).unwrap_or(usize::MAX).max(1);
    (BATCH_OCTETS / row).clamp(1, BATCH)
}

/// An unsupported compression used by the file, if any.
fn foreign_codec(metadata: &ArrowReaderMetadata) -> Option<Compression> {
    let groups = metadata.metadata().row_groups().iter();
    let mut codecs = groups.flat_map(|group| group.columns()).map(|column| column.compression());
    codecs.find(|codec| matches!(codec, Compression::BROTLI(_) | Compression::LZO))
}

/// The schema to read the file by: our types for our columns, and the others as they are.
fn wanted_schema(found: &Schema) -> Result<Schema, String> {
    let has = |name: &str| found.index_of(name).is_ok();
    let needed: &[&str] = if has("query") { &["time", "src"] } else { &["time", "src", "qname", "qtype"] };
    if let Some(missing) = needed.iter().find(|name| !has(name)) {
        return Err(format!("the column `{missing}` is missing"));
    }
    let fields: Result<Vec<Field>, String> = found.fields().iter().map(|field| wanted_field(field)).collect();
    Ok(Schema::new_with_metadata(fields?, found.metadata().clone()))
}

fn wanted_field(field: &Field) -> Result<Field, String> {
    let kind = OUTER.iter().chain(&ASKED).find(|(name, _)| name == field.name()).map(|&(_, kind)| kind);
    let Some(kind) = kind else { return Ok(field.clone()) };
    let found = field.data_type();
    let Some(wanted) = kind.read_as(found) else {
        return Err(format!("the column `{}` has type {found}, expected {}", field.name(), kind.expected()));
    };
    Ok(field.clone().with_data_type(wanted))
}

/// One batch of rows by their columns.
struct Rows {
    /// Rows read from the file so far.
    read: u64,
    time: Numbers,
    src: Words<IpAddr>,
    src_port: Option<Numbers>,
    dst: Words<IpAddr>,
    dst_port: Option<Numbers>,
    transport: Words<Transport>,
    stream: Option<Numbers>,
    query: Messages,
    response: Messages,
    response_delay: Option<Numbers>,
    index: Option<Numbers>,
    asked: Asked,
    composer: Composer,
    name: Vec<u8>,
}

/// The decoded columns.
struct Asked {
    qname: Option<StringViewArray>,
    qtype: Codes,
    qclass: Codes,
    opcode: Codes,
    rd: Option<Numbers>,
    dnssec_ok: Option<Numbers>,
    edns_size: Option<Numbers>,
    ad: Option<Numbers>,
    cd: Option<Numbers>,
}

impl Rows {
    fn new() -> Self {
        Self {
            read: 0,
            time: Numbers::none(),
            src: Words::new(parse_address),
            src_port: None,
            dst: Words::new(parse_address),
            dst_port: None,
            transport: Words::new(parse_transport),
            stream: None,
            query: Messages::default(),
            response: Messages::default(),
            response_delay: None,
            index: None,
            asked: Asked::new(),
            composer: Composer::default(),
            name: Vec::new(),
        }
    }

    fn load(&mut self, batch: &RecordBatch) {
        let numbers = |name: &str| batch.column_by_name(name).map(|array| Numbers::of(array));
        self.time = batch.column_by_name("time").map_or(Numbers::none(), |array| Numbers::times(array));
        self.src.load(batch.column_by_name("src"));
        self.src_port = numbers("src_port");
        self.dst.load(batch.column_by_name("dst"));
        self.dst_port = numbers("dst_port");
        self.transport.load(batch.column_by_name("transport"));
        self.stream = numbers("stream");
        self.query = Messages::of(batch.column_by_name("query"));
        self.response = Messages::of(batch.column_by_name("response"));
        self.response_delay = numbers("response_delay");
        self.index = numbers(INDEX);
        self.asked.load(|name| batch.column_by_name(name));
    }

    fn read(&mut self, at: usize) -> Result<Transaction, Flaw> {
        self.read += 1;
        let time = self.time.get(at).map(TraceTime).ok_or(Flaw::BadTime)?;
        let cells::Cell::Given(client) = self.src.get(at) else { return Err(Flaw::BadAddress) };
        let server = self.dst.get(at).or(unknown_server(client)).ok_or(Flaw::BadAddress)?;
        let transport = self.transport.get(at).or(Transport::Udp).ok_or(Flaw::BadTransport)?;
        let response = self.response.get(at);
        let query = match self.query.get(at) {
            Some(query) => Some(query),
            None => self.build_query(at, response.as_ref())?,
        };
        Ok(Transaction {
            index: cell(&self.index, at).map_or(0, |number| number as u64),
            time,
            client: SocketAddr::new(client, port(&self.src_port, at, 0)?),
            server: SocketAddr::new(server, port(&self.dst_port, at, DNS_PORT)?),
            transport,
            stream: cell(&self.stream, at).map(|number| number as u64),
            query,
            response,
            response_delay: cell(&self.response_delay, at),
            retry_of: None,
        })
    }

    /// The query composed from the decoded columns; `None` for a response without a query.
    fn build_query(&mut self, at: usize, response: Option<&Bytes>) -> Result<Option<Bytes>, Flaw> {
        let response_id = response.and_then(|response| Message::new(response)).map(|response| response.id());
        let Some(columns) = self.asked.columns(at, &mut self.name)? else {
            return if response.is_some() { Ok(None) } else { Err(Flaw::NoMessage) };
        };
        Ok(Some(self.composer.compose(&columns, response_id.unwrap_or(self.read as u16))))
    }
}

impl Asked {
    fn new() -> Self {
        let opcode = |word: &str| parse_opcode(word).map(u16::from);
        Self {
            qname: None,
            qtype: Codes::new(parse_type),
            qclass: Codes::new(parse_class),
            opcode: Codes::new(opcode),
            rd: None,
            dnssec_ok: None,
            edns_size: None,
            ad: None,
            cd: None,
        }
    }

    fn load<'b>(&mut self, column: impl Fn(&str) -> Option<&'b ArrayRef>) {
        let numbers = |name: &str| column(name).map(|array| Numbers::of(array));
        self.qname = column("qname").and_then(|array| array.as_string_view_opt().cloned());
        self.qtype.load(column("qtype"));
        self.qclass.load(column("qclass"));
        self.opcode.load(column("opcode"));
        self.rd = numbers("rd");
        self.dnssec_ok = numbers("do");
        self.edns_size = numbers("edns_size");
        self.ad = numbers("ad");
        self.cd = numbers("cd");
    }

    /// The decoded columns; `None` without a name.
    fn columns<'n>(&self, at: usize, name: &'n mut Vec<u8>) -> Result<Option<Columns<'n>>, Flaw> {
        let Some(text) = self.qname.as_ref().filter(|names| names.is_valid(at)).map(|names| names.value(at)) else {
            return Ok(None);
        };
        parse_name(text, name).map_err(|_| Flaw::BadName)?;
        let cells::Cell::Given(qtype) = self.qtype.get(at) else { return Err(Flaw::BadType) };
        let qclass = self.qclass.get(at).or(CLASS_IN).ok_or(Flaw::BadClass)?;
        let opcode = self.opcode.get(at).or(0).filter(|opcode| *opcode <= 15).ok_or(Flaw::BadOpcode)?;
        let bit = |column: &Option<Numbers>, bit: u16, default: bool| {
            if cell(column, at).map_or(default, |value| value != 0) { bit } else { 0 }
        };
        let flags = bit(&self.rd, flag::RD, true) | bit(&self.ad, flag::AD, false) | bit(&self.cd, flag::CD, false);
        let question = Some(Question { name, qtype, qclass });
        Ok(Some(Columns { question, flags: flags | opcode_flags(opcode as u8), edns: self.edns(at)? }))
    }

    fn edns(&self, at: usize) -> Result<Option<(u16, bool)>, Flaw> {
        let dnssec_ok = cell(&self.dnssec_ok, at).is_some_and(|value| value != 0);
        match cell(&self.edns_size, at) {
            Some(size) => u16::try_from(size).map(|size| Some((size, dnssec_ok))).map_err(|_| Flaw::BadEdns),
            None => Ok(dnssec_ok.then_some((EDNS_SIZE, true))),
        }
    }
}

fn cell(column: &Option<Numbers>, at: usize) -> Option<i64> {
    column.as_ref().and_then(|column| column.get(at))
}

fn port(column: &Option<Numbers>, at: usize, default: u16) -> Result<u16, Flaw> {
    cell(column, at).map_or(Ok(default), |port| u16::try_from(port).map_err(|_| Flaw::BadPort))
}

#[cfg(test)]
mod tests;
