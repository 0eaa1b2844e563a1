//! What the questions of a trace would be answered with.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ldplayer_core::Transaction;
use ldplayer_core::message::Message;
use ldplayer_core::name::Presentation;
use ldplayer_zone::rtype;
use serde::Serialize;

use crate::serve::counters::rcode_name;
use crate::serve::forecast::{Expected, Forecaster, Reason};
use crate::serve::set::ZoneSet;

/// Questions without an answer that are listed at most.
const LISTED: usize = 10_000;

/// What the questions of a trace would be answered with.
#[derive(Debug, Serialize)]
pub struct Coverage {
    /// Queries with a question.
    pub queries: u64,
    /// Transactions without a question that can be read.
    pub unreadable: u64,
    /// Different questions.
    pub questions: u64,
    /// Queries that zones of the set answer, by response code.
    pub rcodes: BTreeMap<String, u64>,
    /// Queries that no zone of the set answers.
    pub unknown_queries: u64,
    /// Different questions among them.
    pub unknown_questions: u64,
    /// These questions, the most frequent first, 10 000 at most.
    pub unknown: Vec<Unknown>,
}

/// A question that the set does not know the answer to.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// QNAME.
    pub name: String,
    /// QTYPE.
    #[serde(rename = "type")]
    pub qtype: String,
    /// How often it was asked.
    pub queries: u64,
    /// Why.
    pub reason: String,
}

/// Who was asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Whom {
    /// A resolver: whoever is no name server of the set.
    Resolver,
    /// A name server of the set, by its address.
    Server(IpAddr),
    /// A server that has all zones.
    Everywhere,
}

/// A question: who was asked, the name in lower case, type and class.
#[derive(PartialEq, Eq, Hash)]
struct Question {
    asked: Whom,
    name: Box<[u8]>,
    qtype: u16,
    qclass: u16,
}

/// Collects the questions of transactions and asks each once. Memory grows with the number of different questions.
pub struct Asked<'a> {
    forecaster: Forecaster<'a>,
    everywhere: bool,
    questions: HashMap<Question, u64>,
    unreadable: u64,
}

impl<'a> Asked<'a> {
    /// Of a set; `everywhere` when a server with all zones is asked, whatever its address was.
    pub fn new(set: &'a ZoneSet, everywhere: bool) -> Self {
        Self { forecaster: Forecaster::new(set), everywhere, questions: HashMap::new(), unreadable: 0 }
    }

    /// Takes the question of a transaction.
    pub fn add(&mut self, transaction: &Transaction) {
        match question(transaction, &self.forecaster, self.everywhere) {
            Some(question) => *self.questions.entry(question).or_default() += 1,
            None => self.unreadable += 1,
        }
    }

    /// What all of them would be answered with; `None` without a question.
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
        true => Whom::Everywhere,
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
        rcodes: BTreeMap::new(),
        unknown_queries: 0,
        unknown_questions: 0,
        unknown: Vec::new(),
    };
    for (question, queries) in questions {
        let Question { asked, name, qtype, qclass } = question;
        let expected = match asked {
            Whom::Server(server) => forecaster.server(Some(server), &name, qtype, qclass),
            Whom::Everywhere => forecaster.server(None, &name, qtype, qclass),
            Whom::Resolver => forecaster.resolver(&name, qtype, qclass),
        };
        match expected {
            Expected::Answer(rcode) => *coverage.rcodes.entry(rcode_name(rcode)).or_default() += queries,
            Expected::Unknown(reason) => {
                coverage.unknown_queries += queries;
                let (name, qtype) = (Presentation(&name).to_string(), rtype::name_of(qtype));
                coverage.unknown.push(Unknown { name, qtype, queries, reason: words(&reason, asked) });
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

fn words(reason: &Reason, asked: Whom) -> String {
    match (reason, asked) {
        (Reason::NoZone, Whom::Server(server)) => format!("no zone of {server} has it"),
        (Reason::NoZone, _) => "no zone has it".to_owned(),
        (Reason::Delegated(zone), _) => {
            format!("{} delegates it to a zone that is not in the set", Presentation(zone))
        }
        (Reason::AliasOut, _) => "it is an alias of a name that no zone has".to_owned(),
    }
}
