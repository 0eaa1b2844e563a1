//! An answer as records, to be taken from, added to, and written again.

use domain::base::iana::Rtype;
use domain::base::message_builder::HashCompressor;
use domain::base::name::FlattenInto;
use domain::base::record::Record;
use domain::base::{Header, Message, MessageBuilder, Name, Question};
use domain::rdata::AllRecordData;

/// An owner, and a record with its owner and its data in full.
pub type Owner = Name<Vec<u8>>;
pub type Any = Record<Owner, AllRecordData<Vec<u8>, Owner>>;

/// A message with one question.
pub struct Parts {
    header: Header,
    /// What was asked.
    pub question: Question<Owner>,
    /// Answer section.
    pub answers: Vec<Any>,
    /// Authority section.
    pub authorities: Vec<Any>,
    /// Additional section, with OPT.
    pub additionals: Vec<Any>,
}

impl Parts {
    /// The parts of an answer of ours.
    pub fn of(octets: &[u8]) -> Option<Self> {
        let message = Message::from_octets(octets).ok()?;
        let question = message.sole_question().ok()?;
        let question = Question::new(question.qname().try_flatten_into().ok()?, question.qtype(), question.qclass());
        let (_, answers, authorities, additionals) = message.sections().ok()?;
        let [answers, authorities, additionals] = [answers, authorities, additionals].map(|section| {
            let records = section.into_records::<AllRecordData<_, _>>();
            records.map(|record| record.ok()?.try_flatten_into().ok()).collect::<Option<Vec<Any>>>()
        });
        let (answers, authorities, additionals) = (answers?, authorities?, additionals?);
        Some(Self { header: message.header(), question, answers, authorities, additionals })
    }

    /// Replaces `out` by the message, unless that would have more than 65535 octets.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(octets) = self.octets().filter(|octets| octets.len() <= usize::from(u16::MAX)) {
            *out = octets;
        }
    }

    fn octets(&self) -> Option<Vec<u8>> {
        let mut builder = MessageBuilder::from_target(HashCompressor::new(Vec::new())).ok()?;
        *builder.header_mut() = self.header;
        let mut builder = builder.question();
        builder.push(&self.question).ok()?;
        let mut builder = builder.answer();
        self.answers.iter().try_for_each(|record| builder.push(record)).ok()?;
        let mut builder = builder.authority();
        self.authorities.iter().try_for_each(|record| builder.push(record)).ok()?;
        let mut builder = builder.additional();
        self.additionals.iter().try_for_each(|record| builder.push(record)).ok()?;
        Some(builder.finish().into_target())
    }

    /// Keeps the records of all sections for which this is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&Any) -> bool) {
        for section in [&mut self.answers, &mut self.authorities, &mut self.additionals] {
            section.retain(&mut keep);
        }
    }
}

/// Whether a record is of one of these types, or signs such a set.
pub fn is_of(record: &Any, types: &[Rtype]) -> bool {
    match record.data() {
        AllRecordData::Rrsig(signature) => types.contains(&signature.type_covered()),
        _ => types.contains(&record.rtype()),
    }
}
