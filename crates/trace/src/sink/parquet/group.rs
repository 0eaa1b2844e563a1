//! A row group while it is gathered: one column for each part of a transaction.

use std::fmt::Display;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use ldplayer_core::message::flag;
use ldplayer_core::name::present;
use ldplayer_core::{Message, Transaction};

use super::column::{Chunk, Column, Key, Number, Numbers, Octets, Truths, Words};
use crate::columns::{Columns, class_name, opcode_name, opcode_of, rcode_name, type_name};

/// Rows of a row group, unless it grows too large before.
const ROWS: usize = 128 * 1024;
/// Octets of a row group at which it is closed.
const OCTETS: usize = 32 * 1024 * 1024;

/// Rows that are appended together: few enough to stay in the nearest cache.
const STEP: usize = 64;

/// The columns of some rows.
pub(super) struct Group {
    rows: usize,
    time: Column<Numbers>,
    src: Column<Words>,
    src_port: Column<Numbers>,
    dst: Column<Words>,
    dst_port: Column<Numbers>,
    transport: Column<Words>,
    stream: Column<Numbers>,
    query: Column<Octets>,
    response: Column<Octets>,
    response_delay: Column<Numbers>,
    asked: Asked,
    rcode: Column<Words>,
    tc: Column<Truths>,
}

/// The readable columns of the query; null where the query was not seen, so that none is made of them on reading.
struct Asked {
    qname: Column<Octets>,
    qtype: Column<Words>,
    qclass: Column<Words>,
    rd: Column<Truths>,
    dnssec_ok: Column<Truths>,
    edns_size: Column<Numbers>,
    opcode: Column<Words>,
    ad: Column<Truths>,
    cd: Column<Truths>,
}

impl Group {
    pub fn new() -> Self {
        Self {
            rows: 0,
            time: Column::required(Numbers::new(Number::I64)),
            src: Column::required(Words::default()),
            src_port: Column::required(Numbers::new(Number::U16)),
            dst: Column::required(Words::default()),
            dst_port: Column::required(Numbers::new(Number::U16)),
            transport: Column::required(Words::default()),
            stream: Column::optional(Numbers::new(Number::U64)),
            query: Column::optional(Octets::default()),
            response: Column::optional(Octets::default()),
            response_delay: Column::optional(Numbers::new(Number::I64)),
            asked: Asked {
                qname: Column::optional(Octets::default()),
                qtype: Column::optional(Words::default()),
                qclass: Column::optional(Words::default()),
                rd: Column::optional(Truths::default()),
                dnssec_ok: Column::optional(Truths::default()),
                edns_size: Column::optional(Numbers::new(Number::U16)),
                opcode: Column::optional(Words::default()),
                ad: Column::optional(Truths::default()),
                cd: Column::optional(Truths::default()),
            },
            rcode: Column::optional(Words::default()),
            tc: Column::optional(Truths::default()),
        }
    }

    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that can be pushed at once: up to the next place where a page or the group may end, which is the same however the rows come.
    pub const fn room(&self) -> usize {
        STEP - self.rows % STEP
    }

    /// Whether it is time to write it.
    pub const fn is_full(&self) -> bool {
        let octets = self.query.octets() + self.response.octets() + self.asked.qname.octets();
        self.rows.is_multiple_of(STEP) && (self.rows >= ROWS || octets >= OCTETS)
    }

    /// Appends rows, not more than there is room for. Column after column, since processors look up several addresses at once if nothing
    /// else is between.
    pub fn push(&mut self, rows: &[Transaction]) {
        self.time.extend(rows.iter().map(|row| row.time.0), Numbers::push);
        self.src.extend(rows.iter().map(|row| row.client.ip()), push_address);
        self.src_port.extend(rows.iter().map(|row| row.client.port().into()), Numbers::push);
        self.dst.extend(rows.iter().map(|row| row.server.ip()), push_address);
        self.dst_port.extend(rows.iter().map(|row| row.server.port().into()), Numbers::push);
        let transports = rows.iter().map(|row| row.transport);
        self.transport.extend(transports, |words, transport| push(words, transport as u32, || transport.as_str()));
        self.stream.extend_some(rows.iter().map(|row| row.stream.map(|stream| stream as i64)), Numbers::push);
        self.query.extend_some(rows.iter().map(|row| row.query.as_deref()), Octets::push);
        self.response.extend_some(rows.iter().map(|row| row.response.as_deref()), Octets::push);
        self.response_delay.extend_some(rows.iter().map(|row| row.response_delay), Numbers::push);
        self.asked.push(rows);
        let responses = || rows.iter().map(|row| row.response.as_deref().and_then(Message::new));
        let push_rcode = |words: &mut Words, rcode| push(words, rcode, || rcode_name(rcode));
        self.rcode.extend_some(responses().map(|response| Some(response?.rcode())), push_rcode);
        self.tc.extend_some(responses().map(|response| Some(response?.has(flag::TC))), Truths::push);
        self.rows += rows.len();
        if self.rows.is_multiple_of(STEP) {
            for column in [&mut self.query, &mut self.response, &mut self.asked.qname] {
                column.end_page(self.rows);
            }
        }
    }

    /// Makes it empty. Its memory stays.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.columns().into_iter().for_each(Chunk::clear);
    }

    /// The columns in the order of the schema.
    pub fn columns(&mut self) -> [&mut dyn Chunk; 21] {
        [
            &mut self.time,
            &mut self.src,
            &mut self.src_port,
            &mut self.dst,
            &mut self.dst_port,
            &mut self.transport,
            &mut self.stream,
            &mut self.query,
            &mut self.response,
            &mut self.response_delay,
            &mut self.asked.qname,
            &mut self.asked.qtype,
            &mut self.asked.qclass,
            &mut self.rcode,
            &mut self.asked.rd,
            &mut self.asked.dnssec_ok,
            &mut self.asked.edns_size,
            &mut self.tc,
            &mut self.asked.opcode,
            &mut self.asked.ad,
            &mut self.asked.cd,
        ]
    }
}

impl Asked {
    fn push(&mut self, rows: &[Transaction]) {
        let mut read = [None; STEP];
        for (read, row) in read.iter_mut().zip(rows) {
            *read = row.query.as_deref().and_then(Message::new).map(|query| Columns::of(&query));
        }
        let read = || read.iter().take(rows.len());
        let questions = || read().map(|read| read.and_then(|read| read.question));
        let push_name = |names: &mut Octets, name| names.push_with(|text| present(name, text));
        let push_type = |words: &mut Words, qtype| push(words, qtype, || type_name(qtype));
        let push_class = |words: &mut Words, qclass| push(words, qclass, || class_name(qclass));
        let push_opcode = |words: &mut Words, opcode| push(words, opcode, || opcode_name(opcode));
        self.qname.extend_some(questions().map(|asked| Some(asked?.name)), push_name);
        self.qtype.extend_some(questions().map(|asked| Some(asked?.qtype)), push_type);
        self.qclass.extend_some(questions().map(|asked| Some(asked?.qclass)), push_class);
        let flags = || read().map(|read| Some(read.as_ref()?.flags));
        for (column, bit) in [(&mut self.rd, flag::RD), (&mut self.ad, flag::AD), (&mut self.cd, flag::CD)] {
            column.extend_some(flags(), |truths, flags| truths.push(flags & bit != 0));
        }
        self.opcode.extend_some(flags().map(|flags| Some(opcode_of(flags?))), push_opcode);
        let edns = || read().map(|read| Some(read.as_ref()?.edns));
        self.dnssec_ok.extend_some(edns(), |truths, edns| truths.push(edns.is_some_and(|(_, dnssec_ok)| dnssec_ok)));
        self.edns_size.extend_some(edns().map(|edns| Some(edns??.0.into())), Numbers::push);
    }
}

/// Appends a number by what `name` shows.
fn push<D: Display>(words: &mut Words, number: impl Into<u32>, name: impl FnOnce() -> D) {
    words.push(Key::Short(number.into()), |text| show(name(), text));
}

fn push_address(words: &mut Words, address: IpAddr) {
    match address {
        IpAddr::V4(address) => words.push(Key::Short(address.to_bits()), |text| show_v4(address, text)),
        IpAddr::V6(address) => words.push(Key::Long(address.to_bits()), |text| show(address, text)),
    }
}

/// Appends what a value shows.
fn show(value: impl Display, text: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = write!(text, "{value}");
}

/// Appends an address without the machinery of formatting: every third row of a large trace may have a new one.
fn show_v4(address: Ipv4Addr, text: &mut Vec<u8>) {
    for (place, octet) in address.octets().into_iter().enumerate() {
        if place > 0 {
            text.push(b'.');
        }
        if octet >= 100 {
            text.push(b'0' + octet / 100);
        }
        if octet >= 10 {
            text.push(b'0' + octet / 10 % 10);
        }
        text.push(b'0' + octet % 10);
    }
}
