//! The columns of the rows of one worker, from outcomes to a row group.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BooleanBuilder, PrimitiveBuilder};
use arrow_array::types::{Int64Type, UInt16Type, UInt64Type};
use arrow_schema::FieldRef;
use hashbrown::HashMap;
use ldplayer_core::{Answer, Outcome, Reason, Status, Transport};
use parquet::arrow::arrow_writer::{ArrowColumnWriter, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;

use crate::words::{NONE, Words};

/// Distinct addresses that a column remembers before it forgets them.
const MAX_ADDRESSES: usize = 1 << 20;
/// Index of a row that belongs to no query of the trace.
const NO_INDEX: u64 = u64::MAX;

/// Rows in memory, one builder a column.
pub struct Columns {
    classes: Arc<[String]>,
    rows: usize,
    index: PrimitiveBuilder<UInt64Type>,
    client: Addresses<IpAddr>,
    client_port: PrimitiveBuilder<UInt16Type>,
    server: Addresses<SocketAddr>,
    transport: Words,
    intended: PrimitiveBuilder<Int64Type>,
    submitted: PrimitiveBuilder<Int64Type>,
    answered: PrimitiveBuilder<Int64Type>,
    status: Words,
    reason: Words,
    rcode: PrimitiveBuilder<UInt16Type>,
    header_bits: [BooleanBuilder; 3],
    query_bytes: PrimitiveBuilder<UInt16Type>,
    response_bytes: PrimitiveBuilder<UInt16Type>,
    rare: Rare,
}

impl Columns {
    /// No rows, of clients of classes with these names.
    pub fn new(classes: Arc<[String]>) -> Self {
        Self {
            rows: 0,
            index: PrimitiveBuilder::new(),
            client: Addresses::new(),
            client_port: PrimitiveBuilder::new(),
            server: Addresses::new(),
            transport: Words::of(Transport::ALL.map(Transport::as_str)),
            intended: PrimitiveBuilder::new(),
            submitted: PrimitiveBuilder::new(),
            answered: PrimitiveBuilder::new(),
            status: Words::of(Status::ALL.map(Status::as_str)),
            reason: Words::of(Reason::ALL.map(Reason::as_str)),
            rcode: PrimitiveBuilder::new(),
            header_bits: bits(),
            query_bytes: PrimitiveBuilder::new(),
            response_bytes: PrimitiveBuilder::new(),
            rare: Rare::new(&classes),
            classes,
        }
    }

    /// Rows held.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows.
    pub fn extend(&mut self, rows: &[Outcome]) {
        self.rows += rows.len();
        rows.iter().for_each(|row| self.push(row));
        self.rare.extend(rows);
    }

    fn push(&mut self, row: &Outcome) {
        self.index.append_option((row.index != NO_INDEX).then_some(row.index));
        self.client.push(row.client);
        self.client_port.append_value(row.client_port);
        self.server.push(row.server);
        self.transport.push(row.transport as u32);
        self.intended.append_value(row.intended.0);
        self.submitted.append_option(row.submitted.map(|time| time.0));
        self.answered.append_option(row.answered.map(|time| time.0));
        self.status.push(row.status as u32);
        self.reason.push(row.reason.map_or(NONE, |reason| reason as u32));
        self.rcode.append_option(row.rcode);
        append_bits(&mut self.header_bits, [row.tc, row.ad, row.aa]);
        self.query_bytes.append_value(row.query_bytes);
        self.response_bytes.append_value(row.response_bytes);
    }

    /// Writes the rows as a row group; there are none afterwards.
    ///
    /// # Errors
    /// What the file or the library refused; the rows are given up then.
    pub fn write<W: Write + Send>(
        &mut self,
        places: Vec<Place>,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        self.rows = 0;
        let [tc, ad, aa] = finish_bits(&mut self.header_bits);
        let [reused, resumed, early_data, resent, fell_back] = finish_bits(&mut self.rare.connection_bits);
        let mut out = Chunks { places: places.into_iter(), group };
        out.array(Arc::new(self.index.finish()))?;
        out.words(&mut self.client.words)?;
        out.array(Arc::new(self.client_port.finish()))?;
        out.words(&mut self.server.words)?;
        out.words(&mut self.transport)?;
        out.array(Arc::new(self.rare.connection.finish()))?;
        out.array(Arc::new(self.intended.finish()))?;
        out.array(Arc::new(self.submitted.finish()))?;
        out.array(Arc::new(self.rare.sent.finish()))?;
        out.array(Arc::new(self.answered.finish()))?;
        out.words(&mut self.status)?;
        out.words(&mut self.reason)?;
        out.array(Arc::new(self.rcode.finish()))?;
        [tc, ad, aa].into_iter().try_for_each(|bits| out.array(bits))?;
        out.array(Arc::new(self.query_bytes.finish()))?;
        out.array(Arc::new(self.response_bytes.finish()))?;
        out.array(Arc::new(self.rare.connect.finish()))?;
        out.array(Arc::new(self.rare.handshake.finish()))?;
        out.array(Arc::new(self.rare.first_byte.finish()))?;
        [reused, resumed, early_data].into_iter().try_for_each(|bits| out.array(bits))?;
        out.words(&mut self.rare.answer)?;
        [resent, fell_back].into_iter().try_for_each(|bits| out.array(bits))?;
        out.words(&mut self.rare.class)?;
        self.client.next_group();
        self.server.next_group();
        Ok(())
    }

    /// Gives the rows up.
    pub fn clear(&mut self) {
        *self = Self::new(Arc::clone(&self.classes));
    }
}

/// The columns of a row group as they are written, in the order of the schema.
struct Chunks<'a, 'w, W: Write + Send> {
    places: std::vec::IntoIter<Place>,
    group: &'a mut SerializedRowGroupWriter<'w, W>,
}

/// What a column is to be written with.
pub type Place = (FieldRef, ColumnDescPtr, ArrowColumnWriter);

impl<W: Write + Send> Chunks<'_, '_, W> {
    fn array(&mut self, array: ArrayRef) -> Result<(), ParquetError> {
        let (field, _, mut writer) = self.next()?;
        for leaf in compute_leaves(&field, &array)? {
            writer.write(&leaf)?;
        }
        writer.close()?.append_to_row_group(self.group)
    }

    fn words(&mut self, words: &mut Words) -> Result<(), ParquetError> {
        let (_, column, _) = self.next()?;
        let written = words.write(column, self.group);
        words.clear_rows();
        written
    }

    fn next(&mut self) -> Result<Place, ParquetError> {
        self.places.next().ok_or_else(|| ParquetError::General("more columns than the schema has".to_owned()))
    }
}

/// Columns that only connections and comparisons fill: most batches of rows have nothing in them.
struct Rare {
    connection: PrimitiveBuilder<UInt64Type>,
    sent: PrimitiveBuilder<Int64Type>,
    connect: PrimitiveBuilder<Int64Type>,
    handshake: PrimitiveBuilder<Int64Type>,
    first_byte: PrimitiveBuilder<Int64Type>,
    connection_bits: [BooleanBuilder; 5],
    answer: Words,
    class: Words,
}

impl Rare {
    fn new(classes: &[String]) -> Self {
        let answers = [Answer::Match, Answer::Better, Answer::Worse, Answer::Changed];
        Self {
            connection: PrimitiveBuilder::new(),
            sent: PrimitiveBuilder::new(),
            connect: PrimitiveBuilder::new(),
            handshake: PrimitiveBuilder::new(),
            first_byte: PrimitiveBuilder::new(),
            connection_bits: bits(),
            answer: Words::of(answers.map(Answer::as_str)),
            class: Words::of(classes.iter().map(String::as_str)),
        }
    }

    fn extend(&mut self, rows: &[Outcome]) {
        let is_rare = |row: &Outcome| {
            row.connection.is_some()
                || row.sent.is_some()
                || row.answer.is_some()
                || row.fell_back
                || row.class.is_some()
        };
        if rows.iter().any(is_rare) {
            rows.iter().for_each(|row| self.push(row));
        } else {
            self.push_none(rows.len());
        }
    }

    fn push(&mut self, row: &Outcome) {
        self.connection.append_option(row.connection);
        self.sent.append_option(row.sent.map(|time| time.0));
        self.connect.append_option(row.connect_ns);
        self.handshake.append_option(row.handshake_ns);
        self.first_byte.append_option(row.first_byte.map(|time| time.0));
        let bits = [row.reused, row.resumed, row.early_data, row.resent, row.fell_back];
        append_bits(&mut self.connection_bits, bits);
        self.answer.push(row.answer.map_or(NONE, |answer| answer as u32));
        self.class.push(row.class.map_or(NONE, u32::from));
    }

    fn push_none(&mut self, rows: usize) {
        self.connection.append_nulls(rows);
        [&mut self.sent, &mut self.connect, &mut self.handshake, &mut self.first_byte]
            .into_iter()
            .for_each(|times| times.append_nulls(rows));
        self.connection_bits.iter_mut().for_each(|bits| bits.append_n(rows, false));
        [&mut self.answer, &mut self.class].into_iter().for_each(|words| (0..rows).for_each(|_| words.push(NONE)));
    }
}

/// A column of addresses: each as text once in memory, and once in each row group that has it.
struct Addresses<A> {
    ids: HashMap<A, u32, foldhash::fast::FixedState>,
    known: Vec<Known>,
    texts: Vec<u8>,
    group: u32,
    last: Option<(A, u32)>,
    words: Words,
}

/// An address seen: where its text begins, and its key in the last row group that had it.
struct Known {
    text: u32,
    length: u8,
    group: u32,
    key: u32,
}

impl<A: Copy + Eq + std::hash::Hash + std::fmt::Display> Addresses<A> {
    fn new() -> Self {
        Self {
            ids: HashMap::default(),
            known: Vec::new(),
            texts: Vec::new(),
            group: 0,
            last: None,
            words: Words::default(),
        }
    }

    fn push(&mut self, address: A) {
        let key = match self.last {
            Some((last, key)) if last == address => key,
            _ => self.key(address),
        };
        self.last = Some((address, key));
        self.words.push(key);
    }

    fn key(&mut self, address: A) -> u32 {
        let id = *self.ids.entry(address).or_insert_with(|| {
            let text = self.texts.len();
            // Writing to a Vec does not fail.
            let _ = write!(self.texts, "{address}");
            let length = (self.texts.len() - text) as u8;
            self.known.push(Known { text: text as u32, length, group: u32::MAX, key: 0 });
            self.known.len() as u32 - 1
        });
        let known = &mut self.known[id as usize];
        if known.group != self.group {
            let text = known.text as usize;
            known.key = self.words.add(&self.texts[text..text + usize::from(known.length)]);
            known.group = self.group;
        }
        known.key
    }

    /// Begins a row group.
    fn next_group(&mut self) {
        self.words.clear();
        self.last = None;
        self.group += 1;
        if self.known.len() > MAX_ADDRESSES {
            *self = Self::new();
        }
    }
}

fn bits<const N: usize>() -> [BooleanBuilder; N] {
    std::array::from_fn(|_| BooleanBuilder::new())
}

fn append_bits<const N: usize>(builders: &mut [BooleanBuilder; N], values: [bool; N]) {
    builders.iter_mut().zip(values).for_each(|(builder, value)| builder.append_value(value));
}

fn finish_bits<const N: usize>(builders: &mut [BooleanBuilder; N]) -> [ArrayRef; N] {
    builders.each_mut().map(|bits| Arc::new(bits.finish()) as ArrayRef)
}
