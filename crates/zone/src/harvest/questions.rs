//! The distinct questions of a trace.

use std::collections::{BTreeMap, HashSet};

use ldplayer_core::message::CLASS_IN;
use ldplayer_core::{Message, Transaction};

/// QTYPEs that ask for no data of a zone: OPT, TKEY, TSIG, IXFR and AXFR.
const META: [u16; 5] = [41, 249, 250, 251, 252];

/// A question; its class is IN.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// The name in wire format, in lower case.
    pub name: Vec<u8>,
    /// QTYPE.
    pub qtype: u16,
}

/// The questions in the order in which they were first asked.
#[derive(Debug, Default)]
pub struct Questions {
    /// Each once.
    pub all: Vec<Question>,
    seen: HashSet<Question>,
    /// Queries that are not asked, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
}

impl Questions {
    /// Adds the question of a transaction's query, unless it is there or cannot be asked. Memory grows with the different questions.
    pub fn take(&mut self, transaction: &Transaction) {
        let Some(query) = transaction.query.as_deref().and_then(Message::new) else { return };
        if let Err(reason) = Question::of(&query).map(|question| self.add(question)) {
            *self.skipped.entry(reason).or_default() += 1;
        }
    }

    /// Adds a question unless it is there.
    pub fn add(&mut self, question: Question) {
        if self.seen.insert(question.clone()) {
            self.all.push(question);
        }
    }
}

impl Question {
    /// That of a query.
    ///
    /// # Errors
    /// Why it cannot be asked of a resolver, in a word.
    pub fn of(query: &Message<'_>) -> Result<Self, &'static str> {
        let question = query.question().ok_or("no_question")?;
        match (query.opcode(), question.qclass, question.qtype) {
            (1.., _, _) => Err("other_opcode"),
            (_, class, _) if class != CLASS_IN => Err("other_class"),
            (_, _, qtype) if META.contains(&qtype) => Err("meta_type"),
            (_, _, qtype) => Ok(Self { name: question.name.to_ascii_lowercase(), qtype }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::message::QueryParts;

    #[test]
    fn each_question_is_taken_once_and_what_is_none_is_counted() {
        let mut questions = Questions::default();
        let name = |text: &str| {
            let mut wire = Vec::new();
            ldplayer_core::name::parse(text, &mut wire).unwrap();
            wire
        };
        for (text, qtype, qclass, flags) in [
            ("a.example", 1, 1, 0x0100),
            ("A.EXAMPLE", 1, 1, 0),
            ("a.example", 28, 1, 0),
            ("a.example", 1, 3, 0),
            ("a.example", 252, 1, 0),
            ("a.example", 6, 1, 0x2000),
        ] {
            let mut wire = Vec::new();
            QueryParts { id: 1, flags, name: &name(text), qtype, qclass, edns: None }.compose(&mut wire);
            let ends = ("192.0.2.1:1".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
            questions.take(&Transaction {
                index: 0,
                time: Default::default(),
                client: ends.0,
                server: ends.1,
                transport: Default::default(),
                stream: None,
                query: Some(wire.into()),
                response: None,
                response_delay: None,
                retry_of: None,
            });
        }
        let asked = |qtype| Question { name: name("a.example"), qtype };
        assert_eq!(questions.all, [asked(1), asked(28)]);
        assert_eq!(questions.skipped, [("meta_type", 1), ("other_class", 1), ("other_opcode", 1)].into());
    }
}
