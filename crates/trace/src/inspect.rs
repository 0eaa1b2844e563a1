//! The statistics that `ldplayer inspect` prints, gathered while the trace streams by.

use std::collections::BTreeMap;
use std::fmt;

use ldplayer_core::damage::Counts;
use ldplayer_core::message::Edns;
use ldplayer_core::printable::Printable;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Message, TraceTime, Transaction, Transport};
use serde::Serialize;

use crate::columns::{opcode_name, rcode_name, type_name};
use crate::dependencies::{DependencyCounts, Links};
use crate::distinct::Distinct;
use crate::hint::hidden;
use crate::retries::{Retries, RetryCounts};
use crate::{Damage, Tally};

/// Number of seconds with open counters; later rows are added to the oldest one.
const OPEN_SECONDS: usize = 1_024;
/// Maximum number of entries printed of a table; the rest are added up.
const SHOWN: usize = 12;

/// Collects the statistics, in bounded memory.
#[derive(Debug, Default)]
pub struct Inspector {
    transactions: u64,
    queries: u64,
    unanswered: u64,
    unasked: u64,
    clients: Distinct,
    servers: Distinct,
    qnames: Distinct,
    first: Option<TraceTime>,
    last: Option<TraceTime>,
    rate: PeakRate,
    transports: [u64; Transport::ALL.len()],
    families: Families,
    qtypes: BTreeMap<u16, u64>,
    rcodes: BTreeMap<u16, u64>,
    opcodes: BTreeMap<u8, u64>,
    edns: u64,
    dnssec_ok: u64,
    tc: u64,
    retries: Retries,
    retried: RetryCounts,
    links: Links,
    dependent: DependencyCounts,
}

/// The statistics, with the keys of `inspect --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Packets, rows or lines read.
    pub packets: u64,
    /// DNS messages in them.
    pub dns_messages: u64,
    /// Messages with QR=0.
    pub queries: u64,
    /// Messages with QR=1.
    pub responses: u64,
    /// Transactions: queries with or without response, and responses alone.
    pub transactions: u64,
    /// Queries without response.
    pub unanswered: u64,
    /// Responses without query.
    pub unasked: u64,
    /// Distinct client addresses.
    pub clients: u64,
    /// Distinct server addresses.
    pub servers: u64,
    /// Time of the first transaction, RFC 3339 with nanoseconds.
    pub first: String,
    /// Time of the last transaction.
    pub last: String,
    /// Seconds between them.
    pub span_s: f64,
    /// Mean queries per second; 0 if the span is 0.
    pub qps_mean: f64,
    /// Maximum number of queries in a second, with seconds counted from the first transaction.
    pub qps_peak: u64,
    /// Transactions by transport.
    pub transports: BTreeMap<String, u64>,
    /// Transactions by the family of the client's address.
    pub families: Families,
    /// Queries by type.
    pub qtypes: BTreeMap<String, u64>,
    /// Responses by response code, extended bits included.
    pub rcodes: BTreeMap<String, u64>,
    /// Queries by opcode.
    pub opcodes: BTreeMap<String, u64>,
    /// Queries with EDNS.
    pub edns: u64,
    /// Queries with the DO bit.
    #[serde(rename = "do")]
    pub dnssec_ok: u64,
    /// Responses with the TC bit.
    pub tc: u64,
    /// Distinct query names, ignoring case.
    pub unique_qnames: u64,
    /// The distinct counts that are estimates (within 2.5 %) because they exceed a million.
    pub estimated: Vec<&'static str>,
    /// Headers around the IP packets of captures that were taken off, by name.
    pub encapsulations: Counts,
    /// Messages that a capture has twice.
    pub duplicates: Duplicates,
    /// Queries that a client sent again because an earlier one had no answer.
    pub retries: RetryCounts,
    /// Queries that follow from the answer to an earlier one: those that wait for it with `--dependencies chain`.
    pub dependencies: DependencyCounts,
    /// Foreign or unusable packets by reason.
    pub skipped: Counts,
    /// Messages by kind, in formats that distinguish kinds.
    pub kinds: Counts,
    /// Fields that the format did not keep, with the number of transactions that got a default.
    pub lost: Counts,
    /// Damage by reason, with the first place.
    pub damaged: Vec<Damage>,
}

/// Messages over UDP that a capture has twice: copies of one that came within a millisecond before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Duplicates {
    /// How many there are, whether they were left out or not.
    pub n: u64,
    /// Their share of all messages that the capture has, from 0 to 1.
    pub share: f64,
}

impl Duplicates {
    fn of(tally: &Tally) -> Self {
        let left_out = tally.skipped.get("duplicate").copied().unwrap_or(0);
        let all = tally.dns_messages + left_out;
        let share = if all == 0 { 0.0 } else { tally.duplicates as f64 / all as f64 };
        Self { n: tally.duplicates, share }
    }
}

/// Transactions by address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Families {
    /// Over IPv4.
    pub ipv4: u64,
    /// Over IPv6.
    pub ipv6: u64,
}

impl Inspector {
    /// Counts a batch.
    pub fn add(&mut self, batch: &[Transaction]) {
        batch.iter().for_each(|row| self.add_row(row));
    }

    /// The number of transactions counted.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    fn add_row(&mut self, row: &Transaction) {
        self.transactions += 1;
        self.first = Some(self.first.map_or(row.time, |first| first.min(row.time)));
        self.last = self.last.max(Some(row.time));
        self.clients.insert(row.client.ip());
        self.servers.insert(row.server.ip());
        self.transports[row.transport as usize] += 1;
        match row.client.is_ipv4() {
            true => self.families.ipv4 += 1,
            false => self.families.ipv6 += 1,
        }
        self.unasked += u64::from(row.query.is_none());
        if let Some(query) = &row.query {
            self.queries += 1;
            self.unanswered += u64::from(row.response.is_none());
            self.rate.count(row.time);
            self.add_query(query);
            self.retries.see(row, self.queries).into_iter().for_each(|retry| self.retried.add(retry));
            self.links.see(row, self.queries).into_iter().for_each(|followed| self.dependent.add(followed.evidence));
        }
        if let Some(response) = row.response.as_deref().and_then(Message::new) {
            *self.rcodes.entry(response.rcode()).or_default() += 1;
            self.tc += u64::from(response.has(ldplayer_core::message::flag::TC));
        }
    }

    fn add_query(&mut self, query: &[u8]) {
        let Some(message) = Message::new(query) else { return };
        *self.opcodes.entry(message.opcode()).or_default() += 1;
        if let Some(question) = message.question() {
            *self.qtypes.entry(question.qtype).or_default() += 1;
            self.qnames.insert_caseless(question.name);
        }
        if let Some(Edns { dnssec_ok, .. }) = message.edns() {
            self.edns += 1;
            self.dnssec_ok += u64::from(dnssec_ok);
        }
    }

    /// The statistics, combined with the reader's tally.
    pub fn summary(&self, tally: &Tally) -> Summary {
        let (first, last) = (self.first.unwrap_or_default(), self.last.unwrap_or_default());
        let span_s = (last - first) as f64 / NS_PER_S as f64;
        let named = |transport: Transport| (transport.to_string(), self.transports[transport as usize]);
        Summary {
            packets: tally.packets,
            dns_messages: tally.dns_messages,
            queries: tally.queries,
            responses: tally.responses,
            transactions: self.transactions,
            unanswered: self.unanswered,
            unasked: self.unasked,
            clients: self.clients.count(),
            servers: self.servers.count(),
            first: first.to_string(),
            last: last.to_string(),
            span_s,
            qps_mean: if span_s > 0.0 { self.queries as f64 / span_s } else { 0.0 },
            qps_peak: self.rate.peak(),
            transports: Transport::ALL.into_iter().map(named).filter(|(_, count)| *count > 0).collect(),
            families: self.families,
            qtypes: self.qtypes.iter().map(|(&code, &count)| (type_name(code).to_string(), count)).collect(),
            rcodes: self.rcodes.iter().map(|(&code, &count)| (rcode_name(code).to_string(), count)).collect(),
            opcodes: self.opcodes.iter().map(|(&code, &count)| (opcode_name(code).to_string(), count)).collect(),
            edns: self.edns,
            dnssec_ok: self.dnssec_ok,
            tc: self.tc,
            unique_qnames: self.qnames.count(),
            estimated: self.estimated(),
            encapsulations: tally.encapsulations.clone(),
            duplicates: Duplicates::of(tally),
            retries: self.retried.of(self.queries),
            dependencies: self.dependent.of(self.queries),
            skipped: tally.skipped.clone(),
            kinds: tally.kinds.clone(),
            lost: tally.lost.clone(),
            damaged: tally.damaged.clone(),
        }
    }

    fn estimated(&self) -> Vec<&'static str> {
        let counts = [("clients", &self.clients), ("servers", &self.servers), ("unique_qnames", &self.qnames)];
        counts.into_iter().filter(|(_, count)| !count.is_exact()).map(|(name, _)| name).collect()
    }
}

/// Queries per second; of seconds long past only the maximum is kept.
#[derive(Clone, Debug, Default)]
struct PeakRate {
    start: Option<TraceTime>,
    open: BTreeMap<i64, u64>,
    closed_peak: u64,
}

impl PeakRate {
    fn count(&mut self, time: TraceTime) {
        let start = *self.start.get_or_insert(time);
        *self.open.entry((time - start).div_euclid(NS_PER_S)).or_default() += 1;
        if self.open.len() > OPEN_SECONDS
            && let Some((_, count)) = self.open.pop_first()
        {
            self.closed_peak = self.closed_peak.max(count);
        }
    }

    fn peak(&self) -> u64 {
        self.open.values().copied().max().unwrap_or(0).max(self.closed_peak)
    }
}

/// Formats the statistics for people: aligned, sorted by frequency, with the places of damage.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, dns_messages, queries, responses, transactions, unanswered, unasked, .. } = self;
        line(f, "packets", format_args!("{packets}, DNS messages {dns_messages}"))?;
        line(f, "messages", format_args!("queries {queries}, responses {responses}"))?;
        line(f, "transactions", format_args!("{transactions}, unanswered {unanswered}, unasked {unasked}"))?;
        line(f, "clients", format_args!("{}{}, servers {}", self.about("clients"), self.clients, self.servers))?;
        line(f, "time", format_args!("{} to {}", self.first, self.last))?;
        let Self { span_s, qps_mean, qps_peak, .. } = self;
        line(f, "rate", format_args!("{span_s:.3} s, mean {qps_mean:.1} q/s, peak {qps_peak} q/s"))?;
        let Self { edns, dnssec_ok, tc, unique_qnames, .. } = self;
        line(f, "EDNS", format_args!("queries with EDNS {edns}, with DO {dnssec_ok}; responses with TC {tc}"))?;
        line(f, "names", format_args!("{}{unique_qnames} distinct", self.about("unique_qnames")))?;
        let families = [("ipv4".to_owned(), self.families.ipv4), ("ipv6".to_owned(), self.families.ipv6)];
        table(f, "transports", &self.transports)?;
        table(f, "families", &families.into())?;
        table(f, "types", &self.qtypes)?;
        table(f, "rcodes", &self.rcodes)?;
        table(f, "opcodes", &self.opcodes)?;
        let words = [("kinds", &self.kinds), ("encapsulated", &self.encapsulations), ("skipped", &self.skipped)];
        for (label, words) in words {
            table(f, label, &words.iter().map(|(word, count)| (word.to_string(), *count)).collect())?;
        }
        let Duplicates { n, share } = self.duplicates;
        if n > 0 {
            let percent = share * 100.0;
            let left_out =
                if self.skipped.contains_key("duplicate") { "left out" } else { "--drop-duplicates leaves them out" };
            line(f, "duplicates", format_args!("{n} messages ({percent:.1} %) are copies of others; {left_out}"))?;
        }
        self.show_retries(f)?;
        self.show_dependencies(f)?;
        for (reason, hint) in hidden(&self.skipped) {
            line(f, "hint", format_args!("{reason}: {hint}"))?;
        }
        let lost: Vec<String> = self.lost.iter().map(|(what, count)| format!("{what} {count}")).collect();
        if !lost.is_empty() {
            line(f, "not kept", format_args!("{}", lost.join(", ")))?;
        }
        self.damaged.iter().try_for_each(|damage| damage_line(f, damage))
    }
}

impl Summary {
    fn show_retries(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RetryCounts { n, share, crossed, failovers, by_interval } = &self.retries;
        if *n == 0 {
            return Ok(());
        }
        let percent = share * 100.0;
        line(
            f,
            "retries",
            format_args!("{n} queries ({percent:.1} %), crossed an answer {crossed}, asked another server {failovers}"),
        )?;
        table(f, "retried after", by_interval)
    }

    fn show_dependencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DependencyCounts { n, share, by_evidence } = &self.dependencies;
        if *n == 0 {
            return Ok(());
        }
        let percent = share * 100.0;
        line(f, "dependencies", format_args!("{n} queries ({percent:.1} %) follow from an answer to their client"))?;
        let words = by_evidence.iter().map(|(word, count)| ((*word).to_owned(), *count));
        table(f, "follow by", &words.collect())
    }

    fn about(&self, key: &str) -> &'static str {
        if self.estimated.contains(&key) { "about " } else { "" }
    }
}

fn line(f: &mut fmt::Formatter<'_>, label: &str, text: fmt::Arguments<'_>) -> fmt::Result {
    writeln!(f, "{label:<14}{text}")
}

/// A line of counts with their shares, the largest first.
fn table(f: &mut fmt::Formatter<'_>, label: &str, counts: &BTreeMap<String, u64>) -> fmt::Result {
    let mut counts: Vec<(&str, u64)> = counts.iter().map(|(name, &count)| (name.as_str(), count)).collect();
    counts.retain(|&(_, count)| count > 0);
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let all: u64 = counts.iter().map(|&(_, count)| count).sum();
    let rest: u64 = counts.iter().skip(SHOWN).map(|&(_, count)| count).sum();
    let rest = (rest > 0).then_some(("others", rest));
    let shown = counts.iter().copied().take(SHOWN).chain(rest);
    let share = |count: u64| 100.0 * count as f64 / all as f64;
    let texts: Vec<String> = shown.map(|(name, count)| format!("{name} {count} ({:.1} %)", share(count))).collect();
    if texts.is_empty() {
        return Ok(());
    }
    line(f, label, format_args!("{}", texts.join(", ")))
}

fn damage_line(f: &mut fmt::Formatter<'_>, damage: &Damage) -> fmt::Result {
    let Damage { reason, count, first, .. } = damage;
    let place = format_args!("{}, packet or line {}, offset {}", Printable(&first.file), first.packet, first.offset);
    line(f, "damaged", format_args!("{reason} {count}, first in {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Columns, Composer, opcode_flags};
    use bytes::Bytes;
    use ldplayer_core::message::{Question, flag};

    fn row(
        ms: i64,
        client: &str,
        name: &[u8],
        edns: Option<(u16, bool)>,
        response: Option<&'static [u8]>,
    ) -> Transaction {
        let question = Some(Question { name, qtype: 28, qclass: 1 });
        Transaction {
            index: 0,
            time: TraceTime(ms * 1_000_000),
            client: client.parse().unwrap(),
            server: "192.0.2.53:53".parse().unwrap(),
            transport: Transport::Udp,
            stream: None,
            query: Some(Composer::default().compose(&Columns { question, flags: flag::RD, edns }, 1)),
            response: response.map(Bytes::from_static),
            response_delay: None,
            retry_of: None,
        }
    }

    const NXDOMAIN_TC: &[u8] = &[0, 1, 0x82, 3, 0, 0, 0, 0, 0, 0, 0, 0];

    fn three() -> Inspector {
        let mut inspector = Inspector::default();
        let mut unasked = row(2_600, "[2001:db8::1]:5", b"\x01x\0", None, Some(NXDOMAIN_TC));
        unasked.query = None;
        unasked.transport = Transport::Tcp;
        inspector.add(&[
            row(0, "192.0.2.1:1", b"\x01a\0", Some((1232, true)), Some(NXDOMAIN_TC)),
            row(999, "192.0.2.1:2", b"\x01A\0", Some((1232, false)), None),
            row(1_000, "192.0.2.2:2", b"\x01b\0", None, None),
            unasked,
        ]);
        inspector
    }

    #[test]
    fn every_figure_is_counted_as_documented() {
        let summary = three().summary(&Tally { packets: 9, queries: 3, responses: 2, ..Tally::default() });
        assert_eq!((summary.transactions, summary.unanswered, summary.unasked), (4, 2, 1));
        assert_eq!((summary.clients, summary.servers, summary.unique_qnames), (3, 1, 2));
        assert_eq!((summary.edns, summary.dnssec_ok, summary.tc), (2, 1, 2));
        assert_eq!((summary.span_s, summary.qps_peak), (2.6, 2));
        assert!((summary.qps_mean - 3.0 / 2.6).abs() < 1e-9);
        assert_eq!(summary.families, Families { ipv4: 3, ipv6: 1 });
        assert_eq!((summary.qtypes["AAAA"], summary.rcodes["NXDOMAIN"], summary.opcodes["QUERY"]), (3, 2, 3));
        assert_eq!((summary.transports["udp"], summary.transports["tcp"]), (3, 1));
    }

    #[test]
    fn json_has_exactly_the_keys_of_the_interface() {
        let json = serde_json::to_value(three().summary(&Tally::default())).unwrap();
        let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut wanted = "packets dns_messages queries responses transactions unanswered unasked clients servers first last \
            span_s qps_mean qps_peak transports families qtypes rcodes opcodes edns do tc unique_qnames estimated encapsulations duplicates retries dependencies skipped \
            kinds lost damaged"
            .split_whitespace()
            .collect::<Vec<_>>();
        keys.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(keys, wanted);
        assert_eq!(json["first"], "1970-01-01T00:00:00.000000000Z");
    }

    #[test]
    fn the_text_names_damage_and_its_place() {
        let mut tally = Tally::default();
        tally.damage(ldplayer_core::damage::Flaw::BadType, 0, || crate::Place {
            file: "t.tsv".into(),
            packet: 7,
            offset: 90,
        });
        tally.lose("client_port");
        let text = three().summary(&tally).to_string();
        assert!(text.contains("not kept      client_port 1\n") && !text.contains("hint"), "{text}");
        tally.encapsulations = [("vxlan".into(), 3)].into();
        tally.skipped = [("esp".into(), 2), ("not_dns_port".into(), 5)].into();
        let text = three().summary(&tally).to_string();
        assert!(text.contains("encapsulated  vxlan 3 (100.0 %)\n"), "{text}");
        assert!(
            text.contains("\nhint          esp: the packets are encrypted") && !text.contains("--capture"),
            "{text}"
        );
        assert!(text.contains("damaged       bad_type 1, first in t.tsv, packet or line 7, offset 90"), "{text}");
        assert!(text.contains("types         AAAA 3 (100.0 %)"), "{text}");
    }

    #[test]
    fn opcodes_have_names() {
        let mut inspector = Inspector::default();
        let mut notify = row(0, "192.0.2.1:1", b"\0", None, None);
        let columns = Columns { question: None, flags: opcode_flags(4), edns: None };
        notify.query = Some(Composer::default().compose(&columns, 1));
        inspector.add(&[notify]);
        let summary = inspector.summary(&Tally::default());
        assert_eq!((summary.opcodes["NOTIFY"], summary.qtypes.len(), summary.qps_mean), (1, 0, 0.0));
    }

    #[test]
    fn the_peak_of_a_long_trace_is_kept() {
        let mut rate = PeakRate::default();
        (0..5).for_each(|_| rate.count(TraceTime(0)));
        (1..5_000).for_each(|second| rate.count(TraceTime(second * NS_PER_S)));
        assert!(rate.open.len() <= OPEN_SECONDS);
        assert_eq!(rate.peak(), 5);
    }
}
