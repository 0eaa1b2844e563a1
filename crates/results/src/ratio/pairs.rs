//! Pairs made of the rows of a run: the first query of a client over UDP with its first one over the other transport, and so on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt16Type, UInt64Type};
use ldplayer_core::{Segments, Status, Transport};

use crate::analysis::read::{Batch, RowFiles, at};
use crate::error::ResultsError;
use crate::store::RunDir;

const COLUMNS: [&str; 19] = [
    "index",
    "client",
    "transport",
    "intended_ns",
    "submitted_ns",
    "answered_ns",
    "status",
    "reason",
    "rcode",
    "tc",
    "response_bytes",
    "connect_ns",
    "handshake_ns",
    "first_byte_ns",
    "resent",
    "segments",
    "retransmits",
    "length_apart",
    "connection",
];

/// One query of a pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// When it was due, in nanoseconds of run time.
    pub due: i64,
    /// How it ended.
    pub status: Status,
    /// Why, where it was not answered; a word of [`ldplayer_core::Reason`].
    pub reason: Option<String>,
    /// From sending to the complete answer, in nanoseconds: with what the connection took.
    pub took: Option<i64>,
    /// What the connection took to come up, in nanoseconds.
    pub connect: Option<i64>,
    /// What its handshake took (TLS, QUIC), in nanoseconds.
    pub handshake: Option<i64>,
    /// From the first octet of the answer to the last, in nanoseconds.
    pub rest: Option<i64>,
    /// Response code.
    pub rcode: Option<u16>,
    /// The answer was truncated.
    pub is_truncated: bool,
    /// Octets of the answer.
    pub response_bytes: u16,
    /// It was sent again on a second connection.
    pub is_resent: bool,
    /// What the kernel counted of its connection.
    pub segments: Option<Segments>,
    /// The length of the answer was read before any of the answer.
    pub length_apart: bool,
}

/// Two queries of a client at about the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The client.
    pub client: IpAddr,
    /// Its query over UDP.
    pub udp: Exchange,
    /// Its query over the other transport.
    pub other: Exchange,
}

/// Queries of a client over a transport, by their place in the trace.
type Exchanges = BTreeMap<(IpAddr, u8), Vec<(u64, Exchange)>>;

/// The pairs of a run whose clients asked once over each transport in each round, by the transport beside UDP. A client's query that
/// has no row, as after a crash, is in no pair, nor is the one that it belongs to.
///
/// # Errors
/// The directory's row files cannot be read.
pub fn read_pairs(run: &Path) -> Result<BTreeMap<Transport, Vec<Pair>>, ResultsError> {
    let mut exchanges = Exchanges::new();
    let files = RowFiles::open(&RunDir::new(run))?;
    files.scan(&COLUMNS, &(i64::MIN..i64::MAX), |batch| add(&mut exchanges, batch))?;
    exchanges.values_mut().for_each(|list| list.sort_by_key(|&(index, _)| index));
    let mut pairs: BTreeMap<Transport, Vec<Pair>> = BTreeMap::new();
    for transport in Transport::ALL.into_iter().filter(|&transport| transport != Transport::Udp) {
        let of = |(client, number): &(IpAddr, u8)| (*number == transport as u8).then_some(*client);
        for client in exchanges.keys().filter_map(of) {
            let list = |transport: Transport| exchanges.get(&(client, transport as u8)).into_iter().flatten();
            let both = list(Transport::Udp).zip(list(transport));
            let pair = |((_, udp), (_, other)): (&(u64, Exchange), &(u64, Exchange))| Pair {
                client,
                udp: udp.clone(),
                other: other.clone(),
            };
            pairs.entry(transport).or_default().extend(both.map(pair));
        }
    }
    Ok(pairs)
}

/// Adds the rows of queries; late and stray responses are none.
fn add(exchanges: &mut Exchanges, batch: &Batch<'_>) -> Result<(), ResultsError> {
    let clients = batch.words::<Int32Type, _>("client", |word| word.parse::<IpAddr>().ok())?;
    let find = |word: &str| Transport::ALL.into_iter().find(|transport| transport.as_str() == word);
    let transports = batch.words::<Int8Type, _>("transport", find)?;
    let find = |word: &str| Status::ALL.into_iter().find(|status| status.as_str() == word);
    let statuses = batch.words::<Int8Type, _>("status", find)?;
    let reasons = batch.words::<Int8Type, _>("reason", |word| word)?;
    let index = batch.numbers::<UInt64Type>("index")?;
    let rcodes = batch.numbers::<UInt16Type>("rcode")?;
    let columns = Columns::of(batch)?;
    for row in 0..batch.len() {
        let key = clients.at(row).flatten().zip(transports.at(row).flatten());
        let (Some((client, transport)), Some(Some(status)), Some(index)) = (key, statuses.at(row), at(index, row))
        else {
            continue;
        };
        if !status.is_query() {
            continue;
        }
        let reason = reasons.at(row).map(str::to_owned);
        let exchange = Exchange { status, reason, rcode: at(rcodes, row), ..columns.exchange(row, status) };
        exchanges.entry((client, transport as u8)).or_default().push((index, exchange));
    }
    Ok(())
}

/// The columns that a query's figures are in.
struct Columns<'a> {
    times: [&'a arrow_array::Int64Array; 6],
    counts: [Option<&'a arrow_array::UInt16Array>; 3],
    bits: [Option<&'a arrow_array::BooleanArray>; 3],
}

impl<'a> Columns<'a> {
    fn of(batch: &'a Batch<'_>) -> Result<Self, ResultsError> {
        let time = |name| batch.numbers::<Int64Type>(name);
        Ok(Self {
            times: [
                time("intended_ns")?,
                time("submitted_ns")?,
                time("answered_ns")?,
                time("connect_ns")?,
                time("handshake_ns")?,
                time("first_byte_ns")?,
            ],
            counts: [
                Some(batch.numbers::<UInt16Type>("response_bytes")?),
                batch.later_numbers::<UInt16Type>("segments")?,
                batch.later_numbers::<UInt16Type>("retransmits")?,
            ],
            bits: [batch.later_bits("tc")?, batch.later_bits("resent")?, batch.later_bits("length_apart")?],
        })
    }

    /// What a row says of its times and of what came.
    fn exchange(&self, row: usize, status: Status) -> Exchange {
        let [due, submitted, answered, connect, handshake, first] = self.times.map(|column| at(column, row));
        let [bytes, arrived, resent] = self.counts.map(|column| column.and_then(|column| at(column, row)));
        let [is_truncated, is_resent, length_apart] =
            self.bits.map(|column| column.is_some_and(|column| column.value(row)));
        let answered = answered.filter(|_| status == Status::Answered);
        let between = |from: Option<i64>, to: Option<i64>| Some(to? - from?);
        Exchange {
            due: due.unwrap_or_default(),
            status,
            reason: None,
            took: between(submitted, answered),
            connect,
            handshake,
            rest: between(first, answered),
            rcode: None,
            is_truncated,
            response_bytes: bytes.unwrap_or_default(),
            is_resent,
            segments: arrived.zip(resent).map(|(arrived, resent)| Segments { arrived, resent }),
            length_apart,
        }
    }
}
