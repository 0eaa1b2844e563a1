//! A row group while it is gathered: one column for each part of a transaction.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use ldplayer_core::message::flag;
use ldplayer_core::name::present;
use ldplayer_core::{Message, Transaction, Transport};

use super::column::{Chunk, Column, Number, Numbers, Octets, Truths, Words};
use crate::columns::{Columns, class_name, opcode_name, opcode_of, rcode_name, type_name};

/// Rows of a row group, unless it grows too large before.
const ROWS: usize = 128 * 1024;
/// Octets of a row group at which it is closed.
const OCTETS: usize = 32 * 1024 * 1024;

/// The columns of some rows.
pub(super) struct Group {
    rows: usize,
    time: Column<Numbers>,
    src: Column<Words<Address>>,
    src_port: Column<Numbers>,
    dst: Column<Words<Address>>,
    dst_port: Column<Numbers>,
    transport: Column<Words<Transport>>,
    stream: Column<Numbers>,
    query: Column<Octets>,
    response: Column<Octets>,
    response_delay: Column<Numbers>,
    asked: Asked,
    rcode: Column<Words<u16>>,
    tc: Column<Truths>,
}

/// The readable columns of the query; null where the query was not seen, so that none is made of them on reading.
struct Asked {
    qname: Column<Octets>,
    qtype: Column<Words<u16>>,
    qclass: Column<Words<u16>>,
    rd: Column<Truths>,
    dnssec_ok: Column<Truths>,
    edns_size: Column<Numbers>,
    opcode: Column<Words<u8>>,
    ad: Column<Truths>,
    cd: Column<Truths>,
}

/// An address that is hashed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(IpAddr);

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            IpAddr::V4(address) => state.write_u32(address.to_bits()),
            IpAddr::V6(address) => state.write_u128(address.to_bits()),
        }
    }
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

    /// Whether it is time to write it.
    pub const fn is_full(&self) -> bool {
        self.rows >= ROWS || self.query.octets() + self.response.octets() + self.asked.qname.octets() >= OCTETS
    }

    /// Appends a row.
    pub fn push(&mut self, row: &Transaction) {
        self.time.given().push(row.time.0);
        self.src.given().push(Address(row.client.ip()), |address| address.0);
        self.src_port.given().push(row.client.port().into());
        self.dst.given().push(Address(row.server.ip()), |address| address.0);
        self.dst_port.given().push(row.server.port().into());
        self.transport.given().push(row.transport, Transport::as_str);
        number(&mut self.stream, row.stream.map(|stream| stream as i64));
        octets(&mut self.query, row.query.as_deref());
        octets(&mut self.response, row.response.as_deref());
        number(&mut self.response_delay, row.response_delay);
        self.asked.push(row.query.as_deref().and_then(Message::new).as_ref());
        let response = row.response.as_deref().and_then(Message::new);
        match response {
            Some(response) => {
                self.rcode.given().push(response.rcode(), rcode_name);
                self.tc.given().push(response.has(flag::TC));
            }
            None => {
                self.rcode.null();
                self.tc.null();
            }
        }
        self.rows += 1;
        if self.rows.is_multiple_of(8) {
            self.end_pages();
        }
    }

    fn end_pages(&mut self) {
        for column in [&mut self.query, &mut self.response, &mut self.asked.qname] {
            column.end_page(self.rows);
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
    fn push(&mut self, message: Option<&Message<'_>>) {
        let Some(Columns { question, flags, edns }) = message.map(Columns::of) else { return self.null() };
        match question {
            Some(question) => {
                self.qname.given().push_with(|text| present(question.name, text));
                self.qtype.given().push(question.qtype, type_name);
                self.qclass.given().push(question.qclass, class_name);
            }
            None => self.no_question(),
        }
        self.rd.given().push(flags & flag::RD != 0);
        self.ad.given().push(flags & flag::AD != 0);
        self.cd.given().push(flags & flag::CD != 0);
        self.dnssec_ok.given().push(edns.is_some_and(|(_, dnssec_ok)| dnssec_ok));
        number(&mut self.edns_size, edns.map(|(size, _)| size.into()));
        self.opcode.given().push(opcode_of(flags), opcode_name);
    }

    fn no_question(&mut self) {
        self.qname.null();
        self.qtype.null();
        self.qclass.null();
    }

    fn null(&mut self) {
        self.no_question();
        for truths in [&mut self.rd, &mut self.ad, &mut self.cd, &mut self.dnssec_ok] {
            truths.null();
        }
        self.edns_size.null();
        self.opcode.null();
    }
}

fn number(column: &mut Column<Numbers>, value: Option<i64>) {
    match value {
        Some(value) => column.given().push(value),
        None => column.null(),
    }
}

fn octets(column: &mut Column<Octets>, value: Option<&[u8]>) {
    match value {
        Some(value) => column.given().push(value),
        None => column.null(),
    }
}
