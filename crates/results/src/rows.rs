//! Outcomes to Parquet: the columns of one worker and the file they go to.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowDictionaryKeyType, Int8Type, Int32Type, Int64Type, UInt16Type, UInt64Type};
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, SchemaRef};
use hashbrown::HashMap;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Answer, Outcome, Reason, Status, Transport};
use parquet::arrow::ArrowWriter;

use crate::error::ResultsError;
use crate::schema::{self, ROW_GROUP_ROWS};

/// A file is closed after this much run time, so that a crash loses no more than that.
const PERIOD_NS: i64 = 60 * NS_PER_S;
/// Distinct addresses remembered by a worker's columns before they are forgotten.
const MAX_ADDRESSES: usize = 1 << 20;
/// Index of a row that belongs to no query of the trace.
const NO_INDEX: u64 = u64::MAX;
/// Suffix of a file that has no footer yet.
pub const PART: &str = "part";

/// The rows of one worker: columns in memory, then row groups in a file, then the next file.
pub struct RowWriter {
    folder: PathBuf,
    worker: usize,
    period: u32,
    period_ends: i64,
    columns: Columns,
    open: Option<OpenFile>,
}

struct OpenFile {
    path: PathBuf,
    writer: ArrowWriter<File>,
}

impl RowWriter {
    /// Rows of `worker`, to be written to files in `folder`.
    pub fn new(folder: &Path, worker: usize) -> Self {
        Self {
            folder: folder.to_owned(),
            worker,
            period: 0,
            period_ends: PERIOD_NS,
            columns: Columns::new(),
            open: None,
        }
    }

    /// Adds rows; writes a row group whenever one is full and ends the file when its period is over.
    pub fn add(&mut self, outcomes: &[Outcome]) -> Result<(), ResultsError> {
        let mut rest = outcomes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(ROW_GROUP_ROWS - self.columns.rows));
            now.iter().for_each(|outcome| self.columns.push(outcome));
            if self.columns.rows == ROW_GROUP_ROWS {
                self.write_row_group()?;
            }
            rest = later;
        }
        match outcomes.last() {
            Some(last) if last_event(last) >= self.period_ends => self.end_period(last_event(last)),
            _ => Ok(()),
        }
    }

    /// Writes what is left and closes the file.
    pub fn close(&mut self) -> Result<(), ResultsError> {
        if self.columns.rows > 0 {
            self.write_row_group()?;
        }
        let Some(open) = self.open.take() else { return Ok(()) };
        open.writer.close().map_err(ResultsError::parquet(&open.path))?;
        let whole = open.path.with_extension("");
        fs::rename(&open.path, &whole).map_err(ResultsError::file(&whole))?;
        self.period += 1;
        Ok(())
    }

    /// After a write error: closes the file with the row groups that are whole. Rows still in memory are given up.
    ///
    /// Returns how many rows are lost at least (those in memory).
    pub fn salvage(&mut self) -> u64 {
        let lost = self.columns.rows as u64;
        self.columns.clear();
        if let Some(open) = &self.open
            && open.writer.flushed_row_groups().is_empty()
        {
            // Nothing in it is whole, so the file is only in the way.
            let path = open.path.clone();
            self.open = None;
            fs::remove_file(path).ok();
        }
        // A footer that cannot be written leaves the part file, which the reader passes over.
        self.close().ok();
        lost
    }

    fn end_period(&mut self, now: i64) -> Result<(), ResultsError> {
        self.period_ends = now.saturating_add(PERIOD_NS);
        self.close()
    }

    fn write_row_group(&mut self) -> Result<(), ResultsError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => OpenFile::create(&self.folder, self.worker, self.period, self.columns.schema.clone())?,
        };
        let batch = self.columns.finish();
        let written = batch.map_err(Into::into).and_then(|batch| {
            open.writer.write(&batch)?;
            open.writer.flush()
        });
        let path = open.path.clone();
        self.open = Some(open);
        written.map_err(ResultsError::parquet(&path))
    }
}

impl OpenFile {
    fn create(folder: &Path, worker: usize, period: u32, schema: SchemaRef) -> Result<Self, ResultsError> {
        let path = folder.join(format!("worker-{worker}-{period:03}.parquet.{PART}"));
        let file = File::create(&path).map_err(ResultsError::file(&path))?;
        let writer = ArrowWriter::try_new(file, schema, Some(schema::properties()));
        Ok(Self { writer: writer.map_err(ResultsError::parquet(&path))?, path })
    }
}

/// The latest moment that a row speaks of, which is about when it was recorded.
fn last_event(outcome: &Outcome) -> i64 {
    let times = [Some(outcome.intended), outcome.submitted, outcome.answered];
    times.into_iter().flatten().map(|time| time.0).max().unwrap_or_default()
}

/// Arrow builders, one per column.
struct Columns {
    schema: SchemaRef,
    words: Words,
    rows: usize,
    index: PrimitiveBuilder<UInt64Type>,
    client: Addresses<IpAddr>,
    client_port: PrimitiveBuilder<UInt16Type>,
    server: Addresses<SocketAddr>,
    transport: PrimitiveBuilder<Int8Type>,
    connection: PrimitiveBuilder<UInt64Type>,
    intended: PrimitiveBuilder<Int64Type>,
    submitted: PrimitiveBuilder<Int64Type>,
    sent: PrimitiveBuilder<Int64Type>,
    answered: PrimitiveBuilder<Int64Type>,
    status: PrimitiveBuilder<Int8Type>,
    reason: PrimitiveBuilder<Int8Type>,
    rcode: PrimitiveBuilder<UInt16Type>,
    header_bits: [BooleanBuilder; 3],
    query_bytes: PrimitiveBuilder<UInt16Type>,
    response_bytes: PrimitiveBuilder<UInt16Type>,
    connect: PrimitiveBuilder<Int64Type>,
    handshake: PrimitiveBuilder<Int64Type>,
    connection_bits: [BooleanBuilder; 3],
    answer: PrimitiveBuilder<Int8Type>,
}

impl Columns {
    fn new() -> Self {
        Self {
            schema: schema::schema(),
            words: Words::new(),
            rows: 0,
            index: numbers(),
            client: Addresses::new(),
            client_port: numbers(),
            server: Addresses::new(),
            transport: numbers(),
            connection: numbers(),
            intended: numbers(),
            submitted: numbers(),
            sent: numbers(),
            answered: numbers(),
            status: numbers(),
            reason: numbers(),
            rcode: numbers(),
            header_bits: bits(),
            query_bytes: numbers(),
            response_bytes: numbers(),
            connect: numbers(),
            handshake: numbers(),
            connection_bits: bits(),
            answer: numbers(),
        }
    }

    fn push(&mut self, row: &Outcome) {
        self.rows += 1;
        self.index.append_option((row.index != NO_INDEX).then_some(row.index));
        self.client.push(row.client);
        self.client_port.append_value(row.client_port);
        self.server.push(row.server);
        self.transport.append_value(row.transport as i8);
        self.connection.append_option(row.connection);
        self.intended.append_value(row.intended.0);
        self.submitted.append_option(row.submitted.map(|time| time.0));
        self.sent.append_option(row.sent.map(|time| time.0));
        self.answered.append_option(row.answered.map(|time| time.0));
        self.status.append_value(row.status as i8);
        self.reason.append_option(row.reason.map(|reason| reason as i8));
        self.rcode.append_option(row.rcode);
        append_bits(&mut self.header_bits, [row.tc, row.ad, row.aa]);
        self.query_bytes.append_value(row.query_bytes);
        self.response_bytes.append_value(row.response_bytes);
        self.connect.append_option(row.connect_ns);
        self.handshake.append_option(row.handshake_ns);
        append_bits(&mut self.connection_bits, [row.reused, row.resumed, row.early_data]);
        self.answer.append_option(row.answer.map(|answer| answer as i8));
    }

    /// The rows so far as a batch; the columns are empty afterwards.
    fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        self.rows = 0;
        let [tc, ad, aa] = self.header_bits.each_mut().map(|bits| Arc::new(bits.finish()) as ArrayRef);
        let [reused, resumed, early_data] =
            self.connection_bits.each_mut().map(|bits| Arc::new(bits.finish()) as ArrayRef);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.index.finish()),
            self.client.finish()?,
            Arc::new(self.client_port.finish()),
            self.server.finish()?,
            dictionary(&mut self.transport, &self.words.transport)?,
            Arc::new(self.connection.finish()),
            Arc::new(self.intended.finish()),
            Arc::new(self.submitted.finish()),
            Arc::new(self.sent.finish()),
            Arc::new(self.answered.finish()),
            dictionary(&mut self.status, &self.words.status)?,
            dictionary(&mut self.reason, &self.words.reason)?,
            Arc::new(self.rcode.finish()),
            tc,
            ad,
            aa,
            Arc::new(self.query_bytes.finish()),
            Arc::new(self.response_bytes.finish()),
            Arc::new(self.connect.finish()),
            Arc::new(self.handshake.finish()),
            reused,
            resumed,
            early_data,
            dictionary(&mut self.answer, &self.words.answer)?,
        ];
        RecordBatch::try_new(self.schema.clone(), columns)
    }

    fn clear(&mut self) {
        *self = Self::new();
    }
}

/// The words behind the small dictionaries, in the order of the discriminants.
struct Words {
    transport: Arc<StringArray>,
    status: Arc<StringArray>,
    reason: Arc<StringArray>,
    answer: Arc<StringArray>,
}

impl Words {
    fn new() -> Self {
        let answers = [Answer::Match, Answer::Better, Answer::Worse, Answer::Changed];
        Self {
            transport: words(Transport::ALL.map(Transport::as_str)),
            status: words(Status::ALL.map(Status::as_str)),
            reason: words(Reason::ALL.map(Reason::as_str)),
            answer: words(answers.map(Answer::as_str)),
        }
    }
}

/// A column of addresses: ids per row, and each address as text once.
struct Addresses<A> {
    ids: HashMap<A, i32, foldhash::fast::FixedState>,
    last: Option<(A, i32)>,
    texts: Vec<String>,
    dictionary: Arc<StringArray>,
    keys: PrimitiveBuilder<Int32Type>,
}

impl<A: Copy + Eq + std::hash::Hash + ToString> Addresses<A> {
    fn new() -> Self {
        Self {
            ids: HashMap::default(),
            last: None,
            texts: Vec::new(),
            dictionary: words::<[&str; 0]>([]),
            keys: numbers(),
        }
    }

    fn push(&mut self, address: A) {
        let id = match self.last {
            Some((last, id)) if last == address => id,
            _ => self.id(address),
        };
        self.last = Some((address, id));
        self.keys.append_value(id);
    }

    fn id(&mut self, address: A) -> i32 {
        *self.ids.entry(address).or_insert_with(|| {
            self.texts.push(address.to_string());
            self.texts.len() as i32 - 1
        })
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        if self.dictionary_is_old() {
            self.dictionary = Arc::new(StringArray::from_iter_values(&self.texts));
        }
        let column = DictionaryArray::try_new(self.keys.finish(), self.dictionary.clone())?;
        if self.texts.len() > MAX_ADDRESSES {
            *self = Self::new();
        }
        Ok(Arc::new(column))
    }

    fn dictionary_is_old(&self) -> bool {
        arrow_array::Array::len(self.dictionary.as_ref()) != self.texts.len()
    }
}

fn numbers<T: arrow_array::ArrowPrimitiveType>() -> PrimitiveBuilder<T> {
    PrimitiveBuilder::new()
}

fn bits() -> [BooleanBuilder; 3] {
    std::array::from_fn(|_| BooleanBuilder::new())
}

fn append_bits(builders: &mut [BooleanBuilder; 3], values: [bool; 3]) {
    builders.iter_mut().zip(values).for_each(|(builder, value)| builder.append_value(value));
}

fn words<W: IntoIterator<Item = &'static str>>(words: W) -> Arc<StringArray> {
    Arc::new(StringArray::from_iter_values(words))
}

fn dictionary<K: ArrowDictionaryKeyType>(
    keys: &mut PrimitiveBuilder<K>,
    words: &Arc<StringArray>,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(DictionaryArray::try_new(keys.finish(), words.clone())?))
}
