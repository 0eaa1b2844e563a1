//! The columns of the rows of one shard, from outcomes to a row group.

use std::hash::Hash;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use hashbrown::HashMap;
use ldplayer_columnar::{Bits, Booleans, Column, Dictionary, Encode, IntegerType, Integers, Pages, Values};
use ldplayer_core::{Answer, Differs, Outcome, Reason, RunTime, Status, Transport};
use parquet::errors::Result;
use parquet::file::statistics::Statistics;

/// Distinct addresses that a column remembers before it forgets them.
const MAX_ADDRESSES: usize = 1 << 20;
/// Index of a row that belongs to no query of the trace.
const NO_INDEX: u64 = u64::MAX;
/// How many columns a row has.
const COLUMNS: usize = 38;

/// Rows in memory, column by column.
pub struct Columns {
    rows: usize,
    index: Column<Integers>,
    client: Column<Addresses<IpAddr>>,
    client_port: Column<Integers>,
    server: Column<Addresses<SocketAddr>>,
    transport: Column<Dictionary>,
    intended: Column<Integers>,
    submitted: Column<Integers>,
    answered: Column<Integers>,
    status: Column<Dictionary>,
    reason: Column<Dictionary>,
    rcode: Column<Integers>,
    tc: Column<Booleans>,
    ad: Column<Booleans>,
    aa: Column<Booleans>,
    query_bytes: Column<Integers>,
    response_bytes: Column<Integers>,
    rare: Rare,
}

impl Columns {
    /// No rows, of clients of classes with these names.
    pub fn new(classes: &[String]) -> Self {
        Self {
            rows: 0,
            index: Column::optional(Integers::new(IntegerType::U64)),
            client: Column::required(Addresses::new()),
            client_port: Column::required(Integers::new(IntegerType::U16)),
            server: Column::required(Addresses::new()),
            transport: Column::required(Dictionary::fixed(Transport::ALL.map(Transport::as_str))),
            intended: Column::required(Integers::new(IntegerType::I64)),
            submitted: times(),
            answered: times(),
            status: Column::required(Dictionary::fixed(Status::ALL.map(Status::as_str))),
            reason: Column::optional(Dictionary::fixed(Reason::ALL.map(Reason::as_str))),
            rcode: Column::optional(Integers::new(IntegerType::U16)),
            tc: bits(),
            ad: bits(),
            aa: bits(),
            query_bytes: Column::required(Integers::new(IntegerType::U16)),
            response_bytes: Column::required(Integers::new(IntegerType::U16)),
            rare: Rare::new(classes),
        }
    }

    /// Rows held.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows.
    pub fn extend(&mut self, rows: &[Outcome]) {
        let index = |row: &Outcome| (row.index != NO_INDEX).then_some(row.index as i64);
        self.rows += rows.len();
        self.index.extend_some(rows.iter().map(index), Integers::push);
        self.client.extend(rows.iter().map(|row| row.client), Addresses::push);
        self.client_port.extend(rows.iter().map(|row| row.client_port.into()), Integers::push);
        self.server.extend(rows.iter().map(|row| row.server), Addresses::push);
        self.transport.extend(rows.iter().map(|row| row.transport as u32), Dictionary::push);
        self.intended.extend(rows.iter().map(|row| row.intended.0), Integers::push);
        self.submitted.extend_some(rows.iter().map(|row| ns(row.submitted)), Integers::push);
        self.answered.extend_some(rows.iter().map(|row| ns(row.answered)), Integers::push);
        self.status.extend(rows.iter().map(|row| row.status as u32), Dictionary::push);
        self.reason.extend_some(rows.iter().map(|row| row.reason.map(|reason| reason as u32)), Dictionary::push);
        self.rcode.extend_some(rows.iter().map(|row| row.rcode.map(i64::from)), Integers::push);
        self.tc.extend(rows.iter().map(|row| row.tc), Booleans::push);
        self.ad.extend(rows.iter().map(|row| row.ad), Booleans::push);
        self.aa.extend(rows.iter().map(|row| row.aa), Booleans::push);
        self.query_bytes.extend(rows.iter().map(|row| row.query_bytes.into()), Integers::push);
        self.response_bytes.extend(rows.iter().map(|row| row.response_bytes.into()), Integers::push);
        self.rare.extend(rows);
    }

    /// The columns in the order of the schema.
    pub fn all(&self) -> [&dyn Encode; COLUMNS] {
        [
            &self.index,
            &self.client,
            &self.client_port,
            &self.server,
            &self.transport,
            &self.rare.connection,
            &self.intended,
            &self.submitted,
            &self.rare.sent,
            &self.answered,
            &self.status,
            &self.reason,
            &self.rcode,
            &self.tc,
            &self.ad,
            &self.aa,
            &self.query_bytes,
            &self.response_bytes,
            &self.rare.connect,
            &self.rare.handshake,
            &self.rare.first_byte,
            &self.rare.reused,
            &self.rare.resumed,
            &self.rare.early_data,
            &self.rare.answer,
            &self.rare.resent,
            &self.rare.fell_back,
            &self.rare.class,
            &self.rare.segments,
            &self.rare.retransmits,
            &self.rare.length_apart,
            &self.rare.differs,
            &self.rare.extended_error,
            &self.rare.attempts,
            &self.rare.gave_up,
            &self.rare.attempt,
            &self.rare.follows,
            &self.rare.scheduled,
        ]
    }

    /// Forgets the rows. Their memory stays.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.all_mut().into_iter().for_each(Encode::clear);
    }

    fn all_mut(&mut self) -> [&mut dyn Encode; COLUMNS] {
        [
            &mut self.index,
            &mut self.client,
            &mut self.client_port,
            &mut self.server,
            &mut self.transport,
            &mut self.rare.connection,
            &mut self.intended,
            &mut self.submitted,
            &mut self.rare.sent,
            &mut self.answered,
            &mut self.status,
            &mut self.reason,
            &mut self.rcode,
            &mut self.tc,
            &mut self.ad,
            &mut self.aa,
            &mut self.query_bytes,
            &mut self.response_bytes,
            &mut self.rare.connect,
            &mut self.rare.handshake,
            &mut self.rare.first_byte,
            &mut self.rare.reused,
            &mut self.rare.resumed,
            &mut self.rare.early_data,
            &mut self.rare.answer,
            &mut self.rare.resent,
            &mut self.rare.fell_back,
            &mut self.rare.class,
            &mut self.rare.segments,
            &mut self.rare.retransmits,
            &mut self.rare.length_apart,
            &mut self.rare.differs,
            &mut self.rare.extended_error,
            &mut self.rare.attempts,
            &mut self.rare.gave_up,
            &mut self.rare.attempt,
            &mut self.rare.follows,
            &mut self.rare.scheduled,
        ]
    }
}

/// Columns that only connections, comparisons and unlucky servers fill: most batches of rows have nothing in them.
struct Rare {
    connection: Column<Integers>,
    sent: Column<Integers>,
    connect: Column<Integers>,
    handshake: Column<Integers>,
    first_byte: Column<Integers>,
    reused: Column<Booleans>,
    resumed: Column<Booleans>,
    early_data: Column<Booleans>,
    answer: Column<Dictionary>,
    resent: Column<Booleans>,
    fell_back: Column<Booleans>,
    class: Column<Dictionary>,
    segments: Column<Integers>,
    retransmits: Column<Integers>,
    length_apart: Column<Booleans>,
    differs: Column<Dictionary>,
    extended_error: Column<Integers>,
    attempts: Column<Integers>,
    gave_up: Column<Booleans>,
    attempt: Column<Integers>,
    follows: Column<Integers>,
    scheduled: Column<Integers>,
}

impl Rare {
    fn new(classes: &[String]) -> Self {
        let differences = (0..Differs::COMBINATIONS).filter_map(Differs::from_bits).map(|differs| differs.to_string());
        let differences: Vec<String> = differences.collect();
        Self {
            connection: Column::optional(Integers::new(IntegerType::U64)),
            sent: times(),
            connect: times(),
            handshake: times(),
            first_byte: times(),
            reused: bits(),
            resumed: bits(),
            early_data: bits(),
            answer: Column::optional(Dictionary::fixed(Answer::ALL.map(Answer::as_str))),
            resent: bits(),
            fell_back: bits(),
            class: Column::optional(Dictionary::fixed(classes.iter().map(String::as_str))),
            segments: Column::optional(Integers::new(IntegerType::U16)),
            retransmits: Column::optional(Integers::new(IntegerType::U16)),
            length_apart: bits(),
            differs: Column::optional(Dictionary::fixed(differences.iter().map(String::as_str))),
            extended_error: Column::optional(Integers::new(IntegerType::U16)),
            attempts: Column::optional(Integers::new(IntegerType::U16)),
            gave_up: bits(),
            attempt: Column::optional(Integers::new(IntegerType::U16)),
            follows: Column::optional(Integers::new(IntegerType::U64)),
            scheduled: times(),
        }
    }

    fn extend(&mut self, rows: &[Outcome]) {
        let is_rare = |row: &Outcome| {
            row.connection.is_some()
                || row.sent.is_some()
                || row.answer.is_some()
                || row.fell_back
                || row.class.is_some()
                || row.extended_error.is_some()
                || row.attempts > 0
                || row.attempt.is_some()
                || row.follows.is_some()
        };
        if rows.iter().any(is_rare) { self.push(rows) } else { self.push_none(rows.len()) }
    }

    fn push(&mut self, rows: &[Outcome]) {
        self.connection.extend_some(rows.iter().map(|row| row.connection.map(|number| number as i64)), Integers::push);
        self.sent.extend_some(rows.iter().map(|row| ns(row.sent)), Integers::push);
        self.connect.extend_some(rows.iter().map(|row| row.connect_ns), Integers::push);
        self.handshake.extend_some(rows.iter().map(|row| row.handshake_ns), Integers::push);
        self.first_byte.extend_some(rows.iter().map(|row| ns(row.first_byte)), Integers::push);
        self.reused.extend(rows.iter().map(|row| row.reused), Booleans::push);
        self.resumed.extend(rows.iter().map(|row| row.resumed), Booleans::push);
        self.early_data.extend(rows.iter().map(|row| row.early_data), Booleans::push);
        self.answer.extend_some(rows.iter().map(|row| row.answer.map(|answer| answer as u32)), Dictionary::push);
        self.resent.extend(rows.iter().map(|row| row.resent), Booleans::push);
        self.fell_back.extend(rows.iter().map(|row| row.fell_back), Booleans::push);
        self.class.extend_some(rows.iter().map(|row| row.class.map(u32::from)), Dictionary::push);
        let counts = || rows.iter().map(|row| row.segments);
        self.segments.extend_some(counts().map(|of| of.map(|of| i64::from(of.arrived))), Integers::push);
        self.retransmits.extend_some(counts().map(|of| of.map(|of| i64::from(of.resent))), Integers::push);
        self.length_apart.extend(rows.iter().map(|row| row.length_apart), Booleans::push);
        let differs = |row: &Outcome| (row.differs != Differs::NOTHING).then(|| u32::from(row.differs.bits()));
        self.differs.extend_some(rows.iter().map(differs), Dictionary::push);
        self.extended_error.extend_some(rows.iter().map(|row| row.extended_error.map(i64::from)), Integers::push);
        let attempts = |row: &Outcome| (row.attempts > 0).then(|| row.attempts.into());
        self.attempts.extend_some(rows.iter().map(attempts), Integers::push);
        self.gave_up.extend(rows.iter().map(|row| row.gave_up), Booleans::push);
        self.attempt.extend_some(rows.iter().map(|row| row.attempt.map(i64::from)), Integers::push);
        let follows = || rows.iter().map(|row| row.follows);
        self.follows.extend_some(follows().map(|of| of.map(|of| of.index as i64)), Integers::push);
        self.scheduled.extend_some(follows().map(|of| of.map(|of| of.scheduled.0)), Integers::push);
    }

    fn push_none(&mut self, rows: usize) {
        for column in [
            &mut self.connection,
            &mut self.sent,
            &mut self.connect,
            &mut self.handshake,
            &mut self.first_byte,
            &mut self.segments,
            &mut self.retransmits,
            &mut self.extended_error,
            &mut self.attempts,
            &mut self.attempt,
            &mut self.follows,
            &mut self.scheduled,
        ] {
            column.extend_nulls(rows);
        }
        for column in [
            &mut self.reused,
            &mut self.resumed,
            &mut self.early_data,
            &mut self.resent,
            &mut self.fell_back,
            &mut self.length_apart,
            &mut self.gave_up,
        ] {
            column.values_mut().push_many(false, rows);
        }
        for column in [&mut self.answer, &mut self.class, &mut self.differs] {
            column.extend_nulls(rows);
        }
    }
}

/// Addresses: each as text once in memory, and once in each row group with the address.
struct Addresses<A> {
    ids: HashMap<A, u32, foldhash::fast::FixedState>,
    known: Vec<Known>,
    texts: Vec<u8>,
    group: u32,
    last: Option<(A, u32)>,
    dictionary: Dictionary,
}

/// An address seen: where its text begins, and its index in the last row group that had it.
struct Known {
    text: u32,
    length: u8,
    group: u32,
    index: u32,
}

impl<A: Copy + Eq + Hash + std::fmt::Display> Addresses<A> {
    fn new() -> Self {
        Self {
            ids: HashMap::default(),
            known: Vec::new(),
            texts: Vec::new(),
            group: 0,
            last: None,
            dictionary: Dictionary::default(),
        }
    }

    fn push(&mut self, address: A) {
        let index = match self.last {
            Some((last, index)) if last == address => index,
            _ => self.index(address),
        };
        self.last = Some((address, index));
        self.dictionary.push(index);
    }

    fn index(&mut self, address: A) -> u32 {
        let id = *self.ids.entry(address).or_insert_with(|| {
            let text = self.texts.len();
            // Writing to a Vec does not fail.
            let _ = write!(self.texts, "{address}");
            let length = (self.texts.len() - text) as u8;
            self.known.push(Known { text: text as u32, length, group: u32::MAX, index: 0 });
            self.known.len() as u32 - 1
        });
        let known = &mut self.known[id as usize];
        if known.group != self.group {
            let text = known.text as usize;
            let text = &self.texts[text..text + usize::from(known.length)];
            known.index = self.dictionary.add(|plain| plain.extend_from_slice(text));
            known.group = self.group;
        }
        known.index
    }
}

impl<A: Copy + Eq + Hash + std::fmt::Display + Sync> Values for Addresses<A> {
    fn encode(&self, rows: usize, present: Option<&Bits>, pages: &mut Pages) -> Result<()> {
        self.dictionary.encode(rows, present, pages)
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        self.dictionary.statistics(nulls)
    }

    fn octets(&self) -> usize {
        self.dictionary.octets()
    }

    /// Begins a row group: texts that are known already are kept, unless there are too many.
    fn clear(&mut self) {
        self.dictionary.clear();
        self.last = None;
        self.group += 1;
        if self.known.len() > MAX_ADDRESSES {
            *self = Self::new();
        }
    }
}

fn ns(time: Option<RunTime>) -> Option<i64> {
    time.map(|time| time.0)
}

fn times() -> Column<Integers> {
    Column::optional(Integers::new(IntegerType::I64))
}

fn bits() -> Column<Booleans> {
    Column::required(Booleans::default())
}
