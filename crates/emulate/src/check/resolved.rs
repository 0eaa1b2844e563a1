//! What clients would get from a stock resolver that has only the set to ask: a sample of a trace's questions, asked in a testbed.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use ldplayer_core::message::{Message, flag};
use ldplayer_core::{Fingerprint, Ignore, Transaction, extended_error};
use ldplayer_zone::harvest::{Question, Settings};
use serde::Serialize;

use super::coverage::words;
use crate::harvest::{HarvestError, ask_each};
use crate::serve::counters::rcode_name;
use crate::serve::forecast::{Expected, Forecaster};
use crate::serve::set::ZoneSet;
use crate::serve::{Options, ServeError, Server};
use crate::stock::{Kind, StockError, StockSettings};
use crate::testbed::{Plan, Testbed, TestbedError};

/// Where the resolver listens.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 53, 0, 2)), 53);
/// How it is asked: once, and for longer than it takes a resolver to give up itself.
const SETTINGS: Settings = Settings { interval: 1_000_000, timeout: 20_000_000_000, tries: 1 };
/// The response code of a resolver that gives up (RFC 1035 §4.1.1).
const SERVFAIL: u16 = 2;
/// Maximum number of different answers to a question that are told apart.
const MOST_SETS: usize = 100;

/// Why no resolver can be asked. The exit status is 3, but for a set without a root zone.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// A resolver begins at the root. Exit status 2.
    #[error("the set has no root zone, where a resolver begins: --resolver needs one")]
    NoRoot,
    /// The testbed cannot be made.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The set cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The resolver does not start.
    #[error(transparent)]
    Stock(#[from] StockError),
    /// The resolver cannot be asked.
    #[error(transparent)]
    Ask(#[from] HarvestError),
}

/// What a response says: its code, and whether it has answer records, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    rcode: u16,
    has_records: bool,
    /// Those records, as a hash.
    records: u64,
}

impl Said {
    fn of(message: &Message<'_>) -> Self {
        let records = Fingerprint::of(message, &Ignore::default()).answer_section();
        Self { rcode: message.rcode(), has_records: message.counts()[1] > 0, records }
    }

    /// Whether both have the same code, and records or none.
    fn is_alike(self, other: Self) -> bool {
        (self.rcode, self.has_records) == (other.rcode, other.has_records)
    }

    fn words(self) -> String {
        let records = match (self.rcode, self.has_records) {
            (0, false) => " without records",
            (1.., true) => " with records",
            _ => "",
        };
        rcode_name(self.rcode) + records
    }
}

/// What the trace has of a question.
#[derive(Debug, Default)]
struct Recorded {
    queries: u64,
    answer: Option<Said>,
    /// The records of its answers, each set once.
    records: Vec<u64>,
}

/// Different questions of a trace, at most so many: those whose hash is least, so that the order of the trace does not matter.
#[derive(Debug)]
pub struct Sample {
    size: usize,
    asked: BTreeMap<(u64, Question), Recorded>,
}

impl Sample {
    /// An empty one of at most `size` questions.
    pub fn new(size: usize) -> Self {
        Self { size, asked: BTreeMap::new() }
    }

    /// Adds the question of a transaction, unless it is not in the sample.
    pub fn add(&mut self, transaction: &Transaction) {
        let Some(query) = transaction.query.as_deref().and_then(Message::new) else { return };
        let Ok(question) = Question::of(&query) else { return };
        let key = (hash(&question), question);
        if self.asked.len() >= self.size && self.asked.last_key_value().is_none_or(|(last, _)| *last < key) {
            return;
        }
        let recorded = self.asked.entry(key).or_default();
        recorded.queries += 1;
        let response = transaction.response.as_deref().and_then(Message::new);
        let whole =
            response.filter(|response| response.has(flag::RA) && !response.is_cut() && response.same_question(&query));
        if let Some(said) = whole.map(|response| Said::of(&response)) {
            recorded.answer.get_or_insert(said);
            if recorded.records.len() < MOST_SETS && !recorded.records.contains(&said.records) {
                recorded.records.push(said.records);
            }
        }
        if self.asked.len() > self.size {
            self.asked.pop_last();
        }
    }
}

fn hash(question: &Question) -> u64 {
    // Its keys are fixed.
    let mut hasher = DefaultHasher::new();
    question.hash(&mut hasher);
    hasher.finish()
}

/// What clients would get: counts are of the trace's queries that have the questions asked.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The resolver.
    pub resolver: &'static str,
    /// Different questions asked.
    pub questions: u64,
    /// Queries of the trace that have them.
    pub queries: u64,
    /// Answers by response code.
    pub rcodes: BTreeMap<String, u64>,
    /// No answer came in time.
    pub silent: u64,
    /// Those that a resolver answered in the trace, too (RA): what a name server answers, such as a referral, is not what its clients get.
    pub compared: u64,
    /// Those of them with the recorded response code, and with answer records if, and only if, the recorded answer has some.
    pub as_recorded: u64,
    /// Those of these that have the very records of one of the recorded answers, whatever their order and TTLs.
    pub same_records: u64,
    /// The others, as `recorded, now`.
    pub differ: BTreeMap<String, u64>,
    /// SERVFAIL, by cause.
    pub servfail: BTreeMap<String, u64>,
}

impl Resolved {
    /// Queries that get an answer other than SERVFAIL.
    pub fn answered(&self) -> u64 {
        let failed: u64 = self.servfail.values().sum();
        self.rcodes.values().sum::<u64>() - failed
    }

    fn note(&mut self, recorded: &Recorded, said: Option<Said>, cause: impl FnOnce() -> String) {
        let Recorded { queries, answer, .. } = *recorded;
        self.questions += 1;
        self.queries += queries;
        match said {
            Some(said) => *self.rcodes.entry(rcode_name(said.rcode)).or_default() += queries,
            None => self.silent += queries,
        }
        if said.is_some_and(|said| said.rcode == SERVFAIL) {
            *self.servfail.entry(cause()).or_default() += queries;
        }
        let Some(before) = answer else { return };
        self.compared += queries;
        match said.filter(|said| said.is_alike(before)) {
            Some(said) => {
                self.as_recorded += queries;
                self.same_records += if recorded.records.contains(&said.records) { queries } else { 0 };
            }
            None => {
                let now = said.map_or_else(|| "no answer".to_owned(), Said::words);
                *self.differ.entry(format!("{}, now {now}", before.words())).or_default() += queries;
            }
        }
    }
}

/// Serves the set in a testbed with a resolver that starts with an empty cache and does not validate, and asks it the questions of the sample;
/// calls `progress` with the number settled and that of all. What was not asked when `stop` is set is left out.
///
/// # Errors
/// The set has no root zone, or server, resolver or testbed cannot be started.
pub fn resolve(
    set: ZoneSet,
    kind: Kind,
    sample: Sample,
    stop: &AtomicBool,
    progress: impl FnMut(usize, usize) + Send,
) -> Result<Resolved, ResolveError> {
    if set.zone(&[0]).is_none() {
        return Err(ResolveError::NoRoot);
    }
    let (questions, recorded): (Vec<Question>, Vec<Recorded>) =
        sample.asked.into_iter().map(|((_, question), recorded)| (question, recorded)).unzip();
    let lacking = lacking(&set, &questions);
    let said = ask_in_testbed(set, kind, &questions, stop, progress)?;
    let mut resolved = Resolved { resolver: kind.name(), ..Resolved::default() };
    for (number, said) in said {
        let (said, error) = said.map_or((None, None), |(said, error)| (Some(said), error));
        let unknown =
            || error.unwrap_or_else(|| "the resolver gives no reason, and the set holds the answer".to_owned());
        resolved.note(&recorded[number], said, || lacking[number].clone().unwrap_or_else(unknown));
    }
    Ok(resolved)
}

/// What the set lacks to answer each question.
fn lacking(set: &ZoneSet, questions: &[Question]) -> Vec<Option<String>> {
    let mut forecaster = Forecaster::new(set);
    let lacking = |question: &Question| match forecaster.resolver(&question.name, question.qtype, 1) {
        Expected::Unknown(reason) => Some(words(&reason, None)),
        Expected::Answer(_) | Expected::Referral => None,
    };
    questions.iter().map(lacking).collect()
}

/// An answer, and what the resolver says of its failure (RFC 8914); nothing where it did not come.
type Settled = Option<(Said, Option<String>)>;

/// What became of each question, by its number.
fn ask_in_testbed(
    set: ZoneSet,
    kind: Kind,
    questions: &[Question],
    stop: &AtomicBool,
    mut progress: impl FnMut(usize, usize) + Send,
) -> Result<Vec<(usize, Settled)>, ResolveError> {
    let testbed = Testbed::up(&Plan::of(&set))?;
    let server = testbed.run("internet", || Server::start(set, &Options::default()))??;
    let mut settled = Vec::with_capacity(questions.len());
    let ask = || {
        ask_each(LISTEN, questions, SETTINGS, stop, |number, octets| {
            settled.push((number, octets.and_then(Message::new).map(|message| (Said::of(&message), cause(&message)))));
            progress(settled.len(), questions.len());
            Ok(())
        })
    };
    testbed.run("resolver", || -> Result<(), ResolveError> {
        let _started = kind.with(StockSettings::default()).start(&[LISTEN])?;
        Ok(testbed.run("clients", ask)??)
    })??;
    server.stop();
    testbed.down()?;
    Ok(settled)
}

fn cause(message: &Message<'_>) -> Option<String> {
    let (code, text) = message.extended_error()?;
    let (name, text) = (extended_error::name(code), String::from_utf8_lossy(text));
    let error = format!("extended error {code} ({name})");
    Some(if text.is_empty() { error } else { format!("{error}: {text}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::message::{CLASS_IN, QueryParts};
    use ldplayer_core::{TraceTime, Transport, name};

    fn transaction(text: &str, answer: Option<(u8, u8)>) -> Transaction {
        let (mut wire, mut query) = (Vec::new(), Vec::new());
        name::parse(text, &mut wire).unwrap();
        QueryParts { id: 1, flags: flag::RD, name: &wire, qtype: 1, qclass: CLASS_IN, edns: None }.compose(&mut query);
        let response = answer.map(|(rcode, records)| {
            let mut response = query.clone();
            (response[2], response[3], response[7]) = (0x81, 0x80 | rcode, records);
            // A pointer to the question's name, A, IN, TTL and address.
            let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1];
            (0..records).for_each(|_| response.extend_from_slice(&record));
            response.into()
        });
        let address = "192.0.2.1:53".parse().unwrap();
        Transaction {
            index: 0,
            time: TraceTime(0),
            client: address,
            server: address,
            transport: Transport::Udp,
            stream: None,
            query: Some(query.into()),
            response,
            response_delay: None,
            retry_of: None,
        }
    }

    #[test]
    fn a_sample_is_the_same_in_any_order_and_counts_all_queries_of_its_questions() {
        let names: Vec<String> = (0..200).map(|number| format!("n{}.example.", number % 100)).collect();
        let (mut one, mut other) = (Sample::new(10), Sample::new(10));
        names.iter().for_each(|name| one.add(&transaction(name, None)));
        names.iter().rev().for_each(|name| other.add(&transaction(name, None)));
        let of = |sample: &Sample| {
            sample
                .asked
                .iter()
                .map(|((_, question), recorded)| (question.name.clone(), recorded.queries))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&one), of(&other));
        assert_eq!((of(&one).len(), of(&one).iter().all(|(_, queries)| *queries == 2)), (10, true));
    }

    /// Captures at resolvers have answers of name servers: most are referrals, NOERROR without records.
    #[test]
    fn answers_of_name_servers_are_not_those_of_resolvers() {
        let mut referred = transaction("a.example.", Some((0, 0)));
        let mut response = referred.response.take().unwrap().to_vec();
        response[3] &= 0x7f;
        referred.response = Some(response.into());
        let mut sample = Sample::new(1);
        sample.add(&referred);
        assert!(sample.asked.values().all(|recorded| recorded.answer.is_none()));
    }

    #[test]
    fn answers_are_as_recorded_by_code_and_records() {
        let mut sample = Sample::new(10);
        [Some((0, 1)), None, Some((3, 0))]
            .into_iter()
            .for_each(|answer| sample.add(&transaction("a.example.", answer)));
        let recorded = sample.asked.values().next().unwrap();
        let said = |rcode, has_records| Some(Said { rcode, has_records, records: 7 });
        let mut resolved = Resolved::default();
        for now in [said(0, true), said(0, false), said(SERVFAIL, false), None] {
            resolved.note(recorded, now, || "why".to_owned());
        }
        assert_eq!((resolved.questions, resolved.queries, resolved.compared, resolved.as_recorded), (4, 12, 12, 3));
        assert_eq!((resolved.silent, resolved.answered(), resolved.same_records), (3, 6, 0));
        let differ: Vec<(&str, u64)> =
            resolved.differ.iter().map(|(what, queries)| (what.as_str(), *queries)).collect();
        assert_eq!(
            differ,
            [("NOERROR, now NOERROR without records", 3), ("NOERROR, now SERVFAIL", 3), ("NOERROR, now no answer", 3)]
        );
        // An alias that leads nowhere is NXDOMAIN with a CNAME record.
        let [alias, none] = [true, false].map(|has_records| Said { rcode: 3, has_records, records: 0 }.words());
        assert_eq!([alias.as_str(), none.as_str()], ["NXDOMAIN with records", "NXDOMAIN"]);
        assert_eq!(resolved.servfail, BTreeMap::from([("why".to_owned(), 3)]));
    }
}
