//! What the questions of a trace would be answered with.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use crate::commands::reading::Reading;
use anyhow::anyhow;
use ldplayer_core::Transaction;
use ldplayer_core::message::Message;
use ldplayer_core::name::Presentation;
use ldplayer_emulate::serve::counters::rcode_name;
use ldplayer_emulate::serve::forecast::{Expected, Forecaster, Reason};
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_trace::open;
use ldplayer_zone::rtype;
use serde::Serialize;

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
enum Asked {
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
    asked: Asked,
    name: Box<[u8]>,
    qtype: u16,
    qclass: u16,
}

/// Reads traces and asks each of their questions once; `everywhere` when a server with all zones is asked, whatever its address was.
/// Memory grows with the number of different questions.
pub fn of(set: &ZoneSet, traces: &[String], reading: &Reading, everywhere: bool) -> anyhow::Result<Coverage> {
    let (inputs, options) = reading.of(traces);
    let mut source = open(&inputs, &options)?;
    let mut forecaster = Forecaster::new(set);
    let (mut questions, mut unreadable, mut batch) = (HashMap::<Question, u64>::new(), 0, Vec::new());
    loop {
        let more = source.read(&mut batch)?;
        for transaction in batch.drain(..) {
            match question(&transaction, &forecaster, everywhere) {
                Some(question) => *questions.entry(question).or_default() += 1,
                None => unreadable += 1,
            }
        }
        if !more {
            break;
        }
    }
    if questions.is_empty() {
        return Err(anyhow!("{}: no question in it; `ldplayer inspect` tells what is", traces.join(", ")));
    }
    Ok(answered(questions, unreadable, &mut forecaster))
}

fn question(transaction: &Transaction, forecaster: &Forecaster<'_>, everywhere: bool) -> Option<Question> {
    let octets = transaction.query.as_ref().or(transaction.response.as_ref())?;
    let message = Message::new(octets).filter(|message| message.opcode() == 0)?;
    let question = message.question()?;
    let server = transaction.server.ip();
    let asked = match everywhere {
        true => Asked::Everywhere,
        false if forecaster.is_name_server(server) => Asked::Server(server),
        false => Asked::Resolver,
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
            Asked::Server(server) => forecaster.server(Some(server), &name, qtype, qclass),
            Asked::Everywhere => forecaster.server(None, &name, qtype, qclass),
            Asked::Resolver => forecaster.resolver(&name, qtype, qclass),
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

fn words(reason: &Reason, asked: Asked) -> String {
    match (reason, asked) {
        (Reason::NoZone, Asked::Server(server)) => format!("no zone of {server} has it"),
        (Reason::NoZone, _) => "no zone has it".to_owned(),
        (Reason::Delegated(zone), _) => {
            format!("{} delegates it to a zone that is not in the set", Presentation(zone))
        }
        (Reason::AliasOut, _) => "it is an alias of a name that no zone has".to_owned(),
    }
}
