//! Predicts the answers to the questions of a trace.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ldplayer_core::Transaction;
use ldplayer_core::message::{Message, flag};
use ldplayer_core::name::Presentation;
use ldplayer_zone::rtype;
use serde::Serialize;

use crate::serve::counters::rcode_name;
use crate::serve::forecast::{Expected, Forecaster, Reason};
use crate::serve::set::ZoneSet;

/// The response code of a referral.
const NOERROR: u16 = 0;
/// Maximum number of listed questions without an answer.
const LISTED: usize = 10_000;

/// The predicted answers to the questions of a trace.
#[derive(Debug, Serialize)]
pub struct Coverage {
    /// Queries with a question.
    pub queries: u64,
    /// Transactions without a readable question.
    pub unreadable: u64,
    /// Distinct questions.
    pub questions: u64,
    /// Queries for recursion that a server of all zones only refers, to servers that the client does not ask.
    pub referred: u64,
    /// Queries answered by zones of the set, by response code; referrals that a client expects are among them.
    pub rcodes: BTreeMap<String, u64>,
    /// Queries that no zone of the set answers.
    pub unknown_queries: u64,
    /// Distinct questions among them.
    pub unknown_questions: u64,
    /// These questions, most frequent first, at most 10 000.
    pub unknown: Vec<Unknown>,
}

impl Coverage {
    /// Queries that get an answer.
    pub fn answered(&self) -> u64 {
        self.rcodes.values().sum()
    }
}

/// A question that the set cannot answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// QNAME.
    pub name: String,
    /// QTYPE.
    #[serde(rename = "type")]
    pub qtype: String,
    /// How often it was queried.
    pub queries: u64,
    /// The reason.
    pub reason: String,
}

/// The server that was queried.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Whom {
    /// A resolver: any address that is not a name server of the set.
    Resolver,
    /// A name server of the set, by address.
    Server(IpAddr),
    /// A server that serves all zones, by a client that asks for recursion (RD) or does not.
    Everywhere {
        /// RD.
        recursion: bool,
    },
}

impl Whom {
    fn server(self) -> Option<IpAddr> {
        if let Self::Server(server) = self { Some(server) } else { None }
    }
}

/// A question: server, lower-case name, type and class.
#[derive(PartialEq, Eq, Hash)]
struct Question {
    asked: Whom,
    name: Box<[u8]>,
    qtype: u16,
    qclass: u16,
}

/// Collects the questions of transactions and answers each once. Memory grows with the number of distinct questions.
pub struct Asked<'a> {
    forecaster: Forecaster<'a>,
    everywhere: bool,
    questions: HashMap<Question, u64>,
    unreadable: u64,
}

impl<'a> Asked<'a> {
    /// For a set; with `everywhere`, every address serves all zones.
    pub fn new(set: &'a ZoneSet, everywhere: bool) -> Self {
        Self { forecaster: Forecaster::new(set), everywhere, questions: HashMap::new(), unreadable: 0 }
    }

    /// Adds the question of a transaction.
    pub fn add(&mut self, transaction: &Transaction) {
        match question(transaction, &self.forecaster, self.everywhere) {
            Some(question) => *self.questions.entry(question).or_default() += 1,
            None => self.unreadable += 1,
        }
    }

    /// The predicted answers; `None` without any question.
    pub fn coverage(mut self) -> Option<Coverage> {
        (!self.questions.is_empty()).then(|| answered(self.questions, self.unreadable, &mut self.forecaster))
    }
}

fn question(transaction: &Transaction, forecaster: &Forecaster<'_>, everywhere: bool) -> Option<Question> {
    let octets = transaction.query.as_ref().or(transaction.response.as_ref())?;
    let message = Message::new(octets).filter(|message| message.opcode() == 0)?;
    let question = message.question()?;
    let server = transaction.server.ip();
    let asked = match everywhere {
        true => Whom::Everywhere { recursion: message.has(flag::RD) },
        false if forecaster.is_name_server(server) => Whom::Server(server),
        false => Whom::Resolver,
    };
    let name = question.name.to_ascii_lowercase().into();
    Some(Question { asked, name, qtype: question.qtype, qclass: question.qclass })
}

fn answered(questions: HashMap<Question, u64>, unreadable: u64, forecaster: &mut Forecaster<'_>) -> Coverage {
    let mut coverage = Coverage {
        queries: questions.values().sum(),
        unreadable,
        questions: questions.len() as u64,
        referred: 0,
        rcodes: BTreeMap::new(),
        unknown_queries: 0,
        unknown_questions: 0,
        unknown: Vec::new(),
    };
    for (question, queries) in questions {
        let Question { asked, name, qtype, qclass } = question;
        let expected = match asked {
            Whom::Server(server) => forecaster.server(Some(server), &name, qtype, qclass),
            Whom::Everywhere { .. } => forecaster.server(None, &name, qtype, qclass),
            Whom::Resolver => forecaster.resolver(&name, qtype, qclass),
        };
        match expected {
            Expected::Referral if asked == (Whom::Everywhere { recursion: true }) => coverage.referred += queries,
            Expected::Referral => *coverage.rcodes.entry(rcode_name(NOERROR)).or_default() += queries,
            Expected::Answer(rcode) => *coverage.rcodes.entry(rcode_name(rcode)).or_default() += queries,
            Expected::Unknown(reason) => {
                coverage.unknown_queries += queries;
                let (name, qtype) = (Presentation(&name).to_string(), rtype::name_of(qtype));
                coverage.unknown.push(Unknown { name, qtype, queries, reason: words(&reason, asked.server()) });
            }
        }
    }
    coverage.unknown_questions = coverage.unknown.len() as u64;
    coverage
        .unknown
        .sort_by(|a, b| b.queries.cmp(&a.queries).then_with(|| (&a.name, &a.qtype).cmp(&(&b.name, &b.qtype))));
    coverage.unknown.truncate(LISTED);
    coverage
}

/// Why a question has no answer from a server at an address, or from anybody.
pub(super) fn words(reason: &Reason, server: Option<IpAddr>) -> String {
    match (reason, server) {
        (Reason::NoZone, Some(server)) => format!("no zone served at {server} holds it"),
        (Reason::NoZone, _) => "no zone holds it".to_owned(),
        (Reason::Delegated(zone), _) => {
            format!("{} delegates it to a zone outside the set", Presentation(zone))
        }
        (Reason::AliasOut, _) => "it is an alias of a name that no zone holds".to_owned(),
    }
}
