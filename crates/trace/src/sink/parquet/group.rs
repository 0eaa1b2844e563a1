//! A row group being filled: one column for each part of a transaction.

use std::fmt::Display;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use ldplayer_columnar::{Binary, Booleans, Column, Encode, IntegerType, Integers};
use ldplayer_core::message::flag;
use ldplayer_core::name::present;
use ldplayer_core::{Message, Transaction};

use super::Extra;
use super::texts::{Key, Texts};
use crate::columns::{Columns, class_name, opcode_name, opcode_of, rcode_name, type_name};

/// Number of rows appended at a time: few enough for the first-level cache.
const STEP: usize = 64;

/// The columns of a row group.
pub(crate) struct Group {
    rows: usize,
    time: Column<Integers>,
    src: Column<Texts>,
    src_port: Column<Integers>,
    dst: Column<Texts>,
    dst_port: Column<Integers>,
    transport: Column<Texts>,
    stream: Column<Integers>,
    query: Column<Binary>,
    response: Column<Binary>,
    response_delay: Column<Integers>,
    asked: Asked,
    rcode: Column<Texts>,
    tc: Column<Booleans>,
    extra: Option<(Extra, Column<Integers>)>,
}

/// The decoded columns of the query; null without a query, so that readers do not compose one.
struct Asked {
    qname: Column<Binary>,
    qtype: Column<Texts>,
    qclass: Column<Texts>,
    rd: Column<Booleans>,
    dnssec_ok: Column<Booleans>,
    edns_size: Column<Integers>,
    opcode: Column<Texts>,
    ad: Column<Booleans>,
    cd: Column<Booleans>,
}

impl Group {
    /// An empty group, with the column behind the others that is asked for.
    pub fn new(extra: Option<Extra>) -> Self {
        let column = |extra| match extra {
            Extra::Index => Column::required(Integers::new(IntegerType::U64)),
            Extra::RetryOf => Column::optional(Integers::new(IntegerType::U64)),
        };
        Self {
            rows: 0,
            extra: extra.map(|extra| (extra, column(extra))),
            time: Column::required(Integers::new(IntegerType::I64)),
            src: Column::required(Texts::default()),
            src_port: Column::required(Integers::new(IntegerType::U16)),
            dst: Column::required(Texts::default()),
            dst_port: Column::required(Integers::new(IntegerType::U16)),
            transport: Column::required(Texts::default()),
            stream: Column::optional(Integers::new(IntegerType::U64)),
            query: Column::optional(Binary::default()),
            response: Column::optional(Binary::default()),
            response_delay: Column::optional(Integers::new(IntegerType::I64)),
            asked: Asked {
                qname: Column::optional(Binary::default()),
                qtype: Column::optional(Texts::default()),
                qclass: Column::optional(Texts::default()),
                rd: Column::optional(Booleans::default()),
                dnssec_ok: Column::optional(Booleans::default()),
                edns_size: Column::optional(Integers::new(IntegerType::U16)),
                opcode: Column::optional(Texts::default()),
                ad: Column::optional(Booleans::default()),
                cd: Column::optional(Booleans::default()),
            },
            rcode: Column::optional(Texts::default()),
            tc: Column::optional(Booleans::default()),
        }
    }

    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows.
    pub fn extend(&mut self, mut rows: &[Transaction]) {
        // Steps end at the same rows for any batch size, since pages end there, too.
        while let (step @ [_, ..], behind) = rows.split_at(rows.len().min(STEP - self.rows % STEP)) {
            self.push(step);
            rows = behind;
        }
    }

    /// Appends rows up to the end of a step, column by column, so that the memory accesses of a column overlap.
    fn push(&mut self, rows: &[Transaction]) {
        self.time.extend(rows.iter().map(|row| row.time.0), Integers::push);
        self.src.extend(rows.iter().map(|row| row.client.ip()), push_address);
        self.src_port.extend(rows.iter().map(|row| row.client.port().into()), Integers::push);
        self.dst.extend(rows.iter().map(|row| row.server.ip()), push_address);
        self.dst_port.extend(rows.iter().map(|row| row.server.port().into()), Integers::push);
        let transports = rows.iter().map(|row| row.transport);
        self.transport.extend(transports, |texts, transport| push(texts, transport as u32, || transport.as_str()));
        self.stream.extend_some(rows.iter().map(|row| row.stream.map(|stream| stream as i64)), Integers::push);
        self.query.extend_some(rows.iter().map(|row| row.query.as_deref()), Binary::push);
        self.response.extend_some(rows.iter().map(|row| row.response.as_deref()), Binary::push);
        self.response_delay.extend_some(rows.iter().map(|row| row.response_delay), Integers::push);
        self.asked.push(rows);
        let responses = || rows.iter().map(|row| row.response.as_deref().and_then(Message::new));
        let push_rcode = |texts: &mut Texts, rcode| push(texts, rcode, || rcode_name(rcode));
        self.rcode.extend_some(responses().map(|response| Some(response?.rcode())), push_rcode);
        self.tc.extend_some(responses().map(|response| Some(response?.has(flag::TC))), Booleans::push);
        match &mut self.extra {
            Some((Extra::Index, column)) => column.extend(rows.iter().map(|row| row.index as i64), Integers::push),
            Some((Extra::RetryOf, column)) => {
                column.extend_some(rows.iter().map(|row| row.retry_of.map(|first| first as i64)), Integers::push);
            }
            None => {}
        }
        self.rows += rows.len();
        if self.rows.is_multiple_of(STEP) {
            for column in [&mut self.query, &mut self.response, &mut self.asked.qname] {
                column.end_page(self.rows);
            }
        }
    }

    /// Clears it, keeping its memory.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.columns_mut().into_iter().for_each(Encode::clear);
    }

    /// The columns in the order of the schema.
    pub fn columns(&self) -> Vec<&dyn Encode> {
        let own: [&dyn Encode; 21] = [
            &self.time,
            &self.src,
            &self.src_port,
            &self.dst,
            &self.dst_port,
            &self.transport,
            &self.stream,
            &self.query,
            &self.response,
            &self.response_delay,
            &self.asked.qname,
            &self.asked.qtype,
            &self.asked.qclass,
            &self.rcode,
            &self.asked.rd,
            &self.asked.dnssec_ok,
            &self.asked.edns_size,
            &self.tc,
            &self.asked.opcode,
            &self.asked.ad,
            &self.asked.cd,
        ];
        let extra = self.extra.iter().map(|(_, column)| column as &dyn Encode);
        own.into_iter().chain(extra).collect()
    }

    /// The same, to be changed.
    fn columns_mut(&mut self) -> Vec<&mut dyn Encode> {
        let own: [&mut dyn Encode; 21] = [
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
        ];
        let extra = self.extra.iter_mut().map(|(_, column)| column as &mut dyn Encode);
        own.into_iter().chain(extra).collect()
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
        let push_name = |names: &mut Binary, name| names.push_with(|text| present(name, text));
        let push_type = |texts: &mut Texts, qtype| push(texts, qtype, || type_name(qtype));
        let push_class = |texts: &mut Texts, qclass| push(texts, qclass, || class_name(qclass));
        let push_opcode = |texts: &mut Texts, opcode| push(texts, opcode, || opcode_name(opcode));
        self.qname.extend_some(questions().map(|asked| Some(asked?.name)), push_name);
        self.qtype.extend_some(questions().map(|asked| Some(asked?.qtype)), push_type);
        self.qclass.extend_some(questions().map(|asked| Some(asked?.qclass)), push_class);
        let flags = || read().map(|read| Some(read.as_ref()?.flags));
        for (column, bit) in [(&mut self.rd, flag::RD), (&mut self.ad, flag::AD), (&mut self.cd, flag::CD)] {
            column.extend_some(flags(), |bits, flags| bits.push(flags & bit != 0));
        }
        self.opcode.extend_some(flags().map(|flags| Some(opcode_of(flags?))), push_opcode);
        let edns = || read().map(|read| Some(read.as_ref()?.edns));
        self.dnssec_ok.extend_some(edns(), |bits, edns| bits.push(edns.is_some_and(|(_, dnssec_ok)| dnssec_ok)));
        self.edns_size.extend_some(edns().map(|edns| Some(edns??.0.into())), Integers::push);
    }
}

/// Appends a number by what `name` shows.
fn push<D: Display>(texts: &mut Texts, number: impl Into<u32>, name: impl FnOnce() -> D) {
    texts.push(Key::Short(number.into()), |text| show(name(), text));
}

fn push_address(texts: &mut Texts, address: IpAddr) {
    match address {
        IpAddr::V4(address) => texts.push(Key::Short(address.to_bits()), |text| show_v4(address, text)),
        IpAddr::V6(address) => texts.push(Key::Long(address.to_bits()), |text| show(address, text)),
    }
}

/// Appends the text of a value.
fn show(value: impl Display, text: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = write!(text, "{value}");
}

/// Appends an address without `fmt`, for speed: up to a third of the rows have a new one.
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
