//! The first pass over the rows, in any order: counts of everything, clients, connections.

use std::collections::BTreeMap;

use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt16Type, UInt64Type};
use hashbrown::HashMap;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Reason, Status, Transport, extended_error};

use super::compared::Comparison;
use super::phases::Phases;
use super::read::{Batch, at};
use super::spread;
use crate::error::ResultsError;
use crate::model;

/// Columns that this pass reads.
pub const COLUMNS: [&str; 22] = [
    "client",
    "server",
    "transport",
    "connection",
    "intended_ns",
    "submitted_ns",
    "answered_ns",
    "status",
    "reason",
    "rcode",
    "tc",
    "query_bytes",
    "response_bytes",
    "connect_ns",
    "handshake_ns",
    "first_byte_ns",
    "resumed",
    "answer",
    "resent",
    "fell_back",
    "differs",
    "ede",
];

/// Sources of strays kept apart; the others count as one.
const STRAY_SOURCES: usize = 1_000;
/// What the other sources of strays are called.
const OTHER_SOURCES: &str = "other addresses";

/// Counts over all rows. Memory grows with clients, connections and seconds, not with rows.
#[derive(Default)]
pub struct Accounts {
    query_timeout: i64,
    statuses: [u64; Status::ALL.len()],
    unsent: [u64; Reason::ALL.len()],
    strays: [u64; Reason::ALL.len()],
    failures: [u64; Reason::ALL.len()],
    /// Queries sent again, and those asked again over TCP.
    repeated: [u64; 2],
    transports: [u64; Transport::ALL.len()],
    rcodes: BTreeMap<u16, u64>,
    extended_errors: BTreeMap<u16, u64>,
    answers: Comparison,
    ids: HashMap<String, u32>,
    clients: Vec<Client>,
    connections: HashMap<u64, Connection>,
    phases: Phases,
    stray_sources: HashMap<String, u64>,
    bytes: [u64; 2],
    truncated: u64,
    /// Answers over UDP.
    pub udp: UdpAnswers,
    /// Queries due by second of run time.
    pub due_by_second: BTreeMap<i64, u64>,
    bytes_by_second: BTreeMap<i64, u64>,
    span: Option<(i64, i64)>,
    last_event: i64,
    last_answered: Option<i64>,
}

/// Outcomes of queries over UDP that can reveal response rate limiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpAnswers {
    /// Queries sent.
    pub sent: u64,
    /// Queries without an answer in time.
    pub timed_out: u64,
    /// Answers with TC set that hold no more than the question.
    pub bare_truncated: u64,
}

#[derive(Clone, Copy, Default)]
struct Client {
    queries: u32,
    sent: u32,
    answered: u32,
}

struct Connection {
    first: i64,
    last: i64,
    up: bool,
    resumed: bool,
}

/// What one row says, as far as it matters here.
struct Row {
    status: Status,
    intended: i64,
    submitted: Option<i64>,
    answered: Option<i64>,
}

impl Accounts {
    /// No rows yet, of a run in which an answer was waited for so many nanoseconds.
    pub fn new(query_timeout: i64) -> Self {
        Self { query_timeout, ..Self::default() }
    }

    /// Adds a batch of rows.
    pub fn add(&mut self, batch: &Batch<'_>) -> Result<(), ResultsError> {
        let status = batch.words::<Int8Type, _>("status", status)?;
        let client = batch.words::<Int32Type, _>("client", |address| self.client(address))?;
        let intended = batch.numbers::<Int64Type>("intended_ns")?;
        let submitted = batch.numbers::<Int64Type>("submitted_ns")?;
        let answered = batch.numbers::<Int64Type>("answered_ns")?;
        for row in 0..batch.len() {
            let Some(status) = status.at(row).flatten() else { continue };
            self.statuses[status as usize] += 1;
            let seen = Row {
                status,
                intended: intended.value(row),
                submitted: at(submitted, row),
                answered: at(answered, row),
            };
            if status.is_query() {
                self.count_query(&seen, client.at(row));
            }
        }
        self.add_words(batch)?;
        self.answers.add(batch)?;
        self.add_strays(batch)?;
        self.add_octets(batch)?;
        self.add_connections(batch)
    }

    fn count_query(&mut self, row: &Row, client: Option<u32>) {
        *self.due_by_second.entry(row.intended.div_euclid(NS_PER_S)).or_default() += 1;
        let (first, last) = self.span.unwrap_or((row.intended, row.intended));
        self.span = Some((first.min(row.intended), last.max(row.intended)));
        // What was not sent has no time of its own: an interrupted run did not last until its last query was due. A failure has
        // only the time of its sending in the row.
        let waited = if row.status == Status::Timeout { self.query_timeout } else { 0 };
        let end = row.answered.or(row.submitted.map(|at| at.saturating_add(waited)));
        self.last_event = self.last_event.max(end.unwrap_or(i64::MIN));
        self.last_answered = self.last_answered.max(row.answered);
        if let Some(client) = client.and_then(|id| self.clients.get_mut(id as usize)) {
            client.queries += 1;
            client.sent += u32::from(row.status != Status::NotSent);
            client.answered += u32::from(row.status == Status::Answered);
        }
    }

    /// Reasons, transports, response codes and comparisons.
    fn add_words(&mut self, batch: &Batch<'_>) -> Result<(), ResultsError> {
        let status = batch.words::<Int8Type, _>("status", status)?;
        let reason = batch.words::<Int8Type, _>("reason", reason)?;
        let transport = batch.words::<Int8Type, _>("transport", |word| word.parse::<Transport>().ok())?;
        let rcode = batch.numbers::<UInt16Type>("rcode")?;
        let error = batch.later_numbers::<UInt16Type>("ede")?;
        for row in 0..batch.len() {
            let (status, reason) = (status.at(row).flatten(), reason.at(row).flatten());
            match (status, reason) {
                (Some(Status::NotSent), Some(reason)) => self.unsent[reason as usize] += 1,
                (Some(Status::Stray), Some(reason)) => self.strays[reason as usize] += 1,
                (Some(status), Some(reason)) if status.is_failed() => self.failures[reason as usize] += 1,
                _ => {}
            }
            if status.is_some_and(|status| status.is_query() && status != Status::NotSent)
                && let Some(transport) = transport.at(row).flatten()
            {
                self.transports[transport as usize] += 1;
            }
            if status == Some(Status::Answered) {
                at(rcode, row).into_iter().for_each(|rcode| *self.rcodes.entry(rcode).or_default() += 1);
                let error = error.and_then(|error| at(error, row));
                error.into_iter().for_each(|error| *self.extended_errors.entry(error).or_default() += 1);
            }
        }
        Ok(())
    }

    /// Where responses that belong to no query came from.
    fn add_strays(&mut self, batch: &Batch<'_>) -> Result<(), ResultsError> {
        let status = batch.words::<Int8Type, _>("status", |word| word == Status::Stray.as_str())?;
        let server = batch.words::<Int32Type, _>("server", |word| word)?;
        for source in (0..batch.len()).filter(|&row| status.at(row) == Some(true)).filter_map(|row| server.at(row)) {
            let is_kept = self.stray_sources.len() < STRAY_SOURCES || self.stray_sources.contains_key(source);
            let source = if is_kept { source } else { OTHER_SOURCES };
            *self.stray_sources.entry_ref(source).or_default() += 1;
        }
        Ok(())
    }

    fn add_octets(&mut self, batch: &Batch<'_>) -> Result<(), ResultsError> {
        let status = batch.words::<Int8Type, _>("status", status)?;
        let answered = batch.numbers::<Int64Type>("answered_ns")?;
        let query = batch.numbers::<UInt16Type>("query_bytes")?;
        let response = batch.numbers::<UInt16Type>("response_bytes")?;
        let tc = batch.bits("tc")?;
        let transport = batch.words::<Int8Type, _>("transport", |word| word == Transport::Udp.as_str())?;
        for row in 0..batch.len() {
            let Some(status) = status.at(row).flatten() else { continue };
            if status.is_query() && status != Status::NotSent {
                self.bytes[0] += u64::from(query.value(row));
                if transport.at(row) == Some(true) {
                    let bare = status == Status::Answered && tc.value(row) && response.value(row) <= query.value(row);
                    self.udp.sent += 1;
                    self.udp.timed_out += u64::from(status == Status::Timeout);
                    self.udp.bare_truncated += u64::from(bare);
                }
            }
            if status == Status::Answered {
                let octets = u64::from(response.value(row));
                self.bytes[1] += octets;
                self.truncated += u64::from(tc.value(row));
                let second = at(answered, row).unwrap_or_default().div_euclid(NS_PER_S);
                *self.bytes_by_second.entry(second).or_default() += octets;
            }
        }
        Ok(())
    }

    /// Queries that took a second attempt.
    fn add_repeated(&mut self, batch: &Batch<'_>) -> Result<(), ResultsError> {
        let status = batch.words::<Int8Type, _>("status", status)?;
        for (count, column) in self.repeated.iter_mut().zip(["resent", "fell_back"]) {
            let Some(bits) = batch.later_bits(column)? else { continue };
            let is_query = |row: usize| status.at(row).flatten().is_some_and(Status::is_query);
            *count += (0..batch.len()).filter(|&row| bits.value(row) && is_query(row)).count() as u64;
        }
        Ok(())
    }

    fn add_connections(&mut self, batch: &Batch<'_>) -> Result<(), ResultsError> {
        let connection = batch.numbers::<UInt64Type>("connection")?;
        if arrow_array::Array::null_count(connection) == batch.len() {
            return Ok(());
        }
        self.add_repeated(batch)?;
        self.phases.add(batch)?;
        let status = batch.words::<Int8Type, _>("status", status)?;
        let submitted = batch.numbers::<Int64Type>("submitted_ns")?;
        let answered = batch.numbers::<Int64Type>("answered_ns")?;
        let resumed = batch.bits("resumed")?;
        for row in 0..batch.len() {
            let (Some(id), Some(start)) = (at(connection, row), at(submitted, row)) else { continue };
            let end = at(answered, row).unwrap_or(start);
            let up = !matches!(status.at(row).flatten(), Some(Status::ConnectFailed | Status::TlsFailed));
            let seen =
                self.connections.entry(id).or_insert(Connection { first: start, last: end, up: false, resumed: false });
            seen.first = seen.first.min(start);
            seen.last = seen.last.max(end);
            seen.up |= up;
            seen.resumed |= resumed.value(row);
        }
        Ok(())
    }

    /// What the parts of answered queries over connections took.
    pub fn phases(&mut self) -> BTreeMap<String, model::Tail> {
        self.phases.tails()
    }

    fn client(&mut self, address: &str) -> u32 {
        if let Some(&id) = self.ids.get(address) {
            return id;
        }
        let id = self.clients.len() as u32;
        self.ids.insert(address.to_owned(), id);
        self.clients.push(Client::default());
        id
    }

    /// First and last intended time of the queries.
    pub fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    /// Rows of queries that were not sent although this run should have sent them.
    pub fn unsent_without_design(&self) -> u64 {
        let by_design: u64 = UNSENT_BY_DESIGN.iter().map(|&reason| self.unsent[reason as usize]).sum();
        self.count(Status::NotSent) - by_design
    }

    fn count(&self, status: Status) -> u64 {
        self.statuses[status as usize]
    }

    /// The accounts of the summary; how many queries the trace has is not known here.
    pub fn queries(&self) -> model::Queries {
        let failed: Vec<Status> = Status::ALL.into_iter().filter(|status| status.is_failed()).collect();
        let (answered, timed_out) = (self.count(Status::Answered), self.count(Status::Timeout));
        let failures: u64 = failed.iter().map(|&status| self.count(status)).sum();
        model::Queries {
            trace: None,
            sent: answered + timed_out + failures,
            answered,
            timed_out,
            failed: failures,
            not_sent: self.count(Status::NotSent),
            failed_by_status: named(failed.iter().map(|&status| (status.as_str(), self.count(status)))),
            failed_by_reason: named(Reason::ALL.map(Reason::as_str).into_iter().zip(self.failures)),
            resent: self.repeated[0],
            fell_back: self.repeated[1],
            lost: 0,
            lost_by_reason: BTreeMap::new(),
            not_sent_by_reason: named(Reason::ALL.map(Reason::as_str).into_iter().zip(self.unsent)),
            late: self.count(Status::Late),
            stray: self.count(Status::Stray),
            stray_by_reason: named(Reason::ALL.map(Reason::as_str).into_iter().zip(self.strays)),
            stray_unlisted: BTreeMap::new(),
            sent_by_transport: named(Transport::ALL.map(Transport::as_str).into_iter().zip(self.transports)),
        }
    }

    /// First due query to the last outcome, in seconds; failures end when they were sent, as far as is known here.
    pub fn elapsed_s(&self) -> f64 {
        self.span.map_or(0.0, |(first, _)| self.last_event.saturating_sub(first).max(0) as f64 / NS_PER_S as f64)
    }

    /// When the last answer came that was in time.
    pub const fn last_answered(&self) -> Option<i64> {
        self.last_answered
    }

    /// Responses by their code.
    pub const fn codes(&self) -> &BTreeMap<u16, u64> {
        &self.rcodes
    }

    /// Responses by the name of their code.
    pub fn rcodes(&self) -> BTreeMap<String, u64> {
        self.rcodes.iter().map(|(&code, &count)| (crate::rcode::name(code), count)).collect()
    }

    /// Responses with an extended error by its name.
    pub fn extended_errors(&self) -> BTreeMap<String, u64> {
        self.extended_errors.iter().map(|(&code, &count)| (extended_error::name(code), count)).collect()
    }

    /// Comparisons with the expected answers.
    pub const fn answers(&self) -> &Comparison {
        &self.answers
    }

    /// Octets and their rate.
    pub fn responses(&self) -> model::Responses {
        let mbps = |octets: u64| octets as f64 * 8.0 / 1e6;
        let whole = self.octets_of_seconds();
        model::Responses {
            bytes: self.bytes[1],
            query_bytes: self.bytes[0],
            mbps_p50: whole.quantile(0.5).map(mbps),
            mbps_p99: whole.quantile(0.99).map(mbps),
            mbps_max: self.bytes_by_second.values().max().copied().map(mbps),
            truncated: self.truncated,
            receive_drops: None,
            kept: None,
        }
    }

    /// The octets of each second from the first due query on that the run lasted to the end of.
    fn octets_of_seconds(&self) -> Seconds {
        let (first, _) = self.span.unwrap_or_default();
        let seconds = first.div_euclid(NS_PER_S)..self.last_event.div_euclid(NS_PER_S);
        let known = self.bytes_by_second.iter().filter(|(second, _)| seconds.contains(second));
        let mut octets: Vec<u64> = known.map(|(_, &octets)| octets).collect();
        octets.sort_unstable();
        let all = seconds.end.saturating_sub(seconds.start).max(0) as u64;
        Seconds { without: all.saturating_sub(octets.len() as u64), octets }
    }

    /// Where responses that belong to no query came from, the most frequent first.
    pub fn stray_sources(&self) -> Vec<(String, u64)> {
        let mut sources: Vec<(String, u64)> = self.stray_sources.iter().map(|(name, &n)| (name.clone(), n)).collect();
        sources.sort_unstable_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        sources
    }

    /// Connections and the most open at a time.
    pub fn connections(&self) -> model::Connections {
        let up: Vec<&Connection> = self.connections.values().filter(|connection| connection.up).collect();
        let mut events: Vec<(i64, i64)> = up.iter().flat_map(|seen| [(seen.first, 1), (seen.last + 1, -1)]).collect();
        events.sort_unstable();
        let open = events.iter().scan(0, |open, (_, change)| {
            *open += change;
            Some(*open)
        });
        model::Connections {
            opened: up.len() as u64,
            failed: (self.connections.len() - up.len()) as u64,
            resumed: up.iter().filter(|connection| connection.resumed).count() as u64,
            peak_open: open.max().unwrap_or(0) as u64,
            ..model::Connections::default()
        }
    }

    /// The clients of the summary, and how busy each of them is. Afterwards there are no clients here.
    pub fn clients(&mut self) -> (model::Clients, Activity) {
        let mut order: Vec<(&String, &u32)> = self.ids.iter().collect();
        let queries = |id: u32| self.clients[id as usize].queries;
        order.retain(|&(_, &id)| queries(id) > 0);
        // Ties are broken by address, so that the classes are the same whenever the rows are read.
        order.sort_unstable_by(|(a, x), (b, y)| queries(**y).cmp(&queries(**x)).then(a.cmp(b)));
        let busy = &order[..order.len().div_ceil(100)];
        let complete = |client: &&Client| client.sent > 0 && client.answered == client.sent;
        let summary = model::Clients {
            total: order.len() as u64,
            answered_all: self.clients.iter().filter(complete).count() as u64,
            busiest_1_percent_from: busy.last().map_or(0, |&(_, &id)| u64::from(queries(id))),
            ..model::Clients::default()
        };
        let busy: hashbrown::HashSet<u32> = busy.iter().map(|&(_, &id)| id).collect();
        let clients = std::mem::take(&mut self.clients);
        let classes = std::mem::take(&mut self.ids).into_iter().map(|(address, id)| {
            let volume = Activity::volume(clients[id as usize].queries);
            (address, ActivityClass { rank: u8::from(!busy.contains(&id)), volume })
        });
        (summary, Activity(classes.collect()))
    }
}

/// Seconds by the octets that came in them.
struct Seconds {
    /// How many had none.
    without: u64,
    /// What the others had, sorted.
    octets: Vec<u64>,
}

impl Seconds {
    fn quantile(&self, quantile: f64) -> Option<u64> {
        let rank = spread::rank(quantile, self.without + self.octets.len() as u64);
        match rank.checked_sub(1)?.checked_sub(self.without) {
            None => Some(0),
            Some(at) => self.octets.get(at as usize).copied(),
        }
    }
}

/// How busy each client is.
pub struct Activity(HashMap<String, ActivityClass>);

/// How busy one client is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityClass {
    /// Among all clients, an index of [`Activity::RANKS`].
    pub rank: u8,
    /// By its queries, an index of [`Activity::VOLUMES`].
    pub volume: u8,
}

impl Activity {
    /// The busiest clients and the others, as keys of the summary.
    pub const RANKS: [&str; 2] = ["busiest_1_percent", "rest"];
    /// Clients by the number of their queries, as keys of the summary.
    pub const VOLUMES: [&str; 4] = ["1", "2_to_10", "11_to_100", "over_100"];

    /// The class of a client. One that has no queries, and so no row that matters, is taken for the least busy.
    pub fn class(&self, address: &str) -> ActivityClass {
        self.0.get(address).copied().unwrap_or_default()
    }

    fn volume(queries: u32) -> u8 {
        [1, 10, 100].into_iter().filter(|&most| queries > most).count() as u8
    }
}

/// Reasons that are the trace's, the user's or the clients' doing, not a fault of the run.
pub const UNSENT_BY_DESIGN: [Reason; 3] = [Reason::Transport, Reason::Interrupted, Reason::NothingToFollow];

/// The status of its word.
pub fn status(word: &str) -> Option<Status> {
    Status::ALL.into_iter().find(|status| status.as_str() == word)
}

/// The reason of its word.
pub fn reason(word: &str) -> Option<Reason> {
    Reason::ALL.into_iter().find(|reason| reason.as_str() == word)
}

fn named<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    counts.filter(|&(_, count)| count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}
