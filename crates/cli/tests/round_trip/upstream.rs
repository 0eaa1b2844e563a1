//! What a resolver asked of authoritative servers, and what those said, from a capture of its upstream side.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use domain::base::Message;
use domain::base::iana::Rtype;
use ldplayer_trace::{Input, OpenOptions, open};

/// A question: name in lower case, and type.
pub type Asked = (String, Rtype);

/// Questions upstream of a resolver.
#[derive(Default)]
pub struct Upstream {
    /// The different questions.
    pub questions: BTreeSet<Asked>,
    /// What each server said to each.
    pub answers: BTreeMap<(IpAddr, Asked), String>,
}

impl Upstream {
    /// Reads a capture.
    pub fn of(capture: &Path) -> Self {
        let inputs = [Input::from(capture.to_str().unwrap())];
        let mut source = open(&inputs, &OpenOptions::default()).unwrap();
        let (mut upstream, mut batch) = (Self::default(), Vec::new());
        loop {
            let more = source.read(&mut batch).unwrap();
            for transaction in batch.drain(..) {
                let Some(asked) = transaction.query.as_deref().map(question) else { continue };
                upstream.questions.insert(asked.clone());
                if let Some(response) = transaction.response.as_deref() {
                    upstream.answers.insert((transaction.server.ip(), asked), said(response));
                }
            }
            if !more {
                return upstream;
            }
        }
    }
}

fn question(message: &[u8]) -> Asked {
    let question = Message::from_octets(message).unwrap().first_question().unwrap();
    (question.qname().to_string().to_ascii_lowercase(), question.qtype())
}

/// What kind of response it is, and of which zone: code, AA, and who owns the records of the authority section.
fn said(message: &[u8]) -> String {
    let message = Message::from_octets(message).unwrap();
    let (header, counts) = (message.header(), message.header_counts());
    let authority = message.authority().unwrap().map(|record| record.unwrap());
    let kept = authority.filter(|record| matches!(record.rtype(), Rtype::NS | Rtype::SOA | Rtype::DS));
    let owners: BTreeSet<String> = kept.map(|record| format!("{} {}", record.owner(), record.rtype())).collect();
    let zones = owners.into_iter().collect::<Vec<_>>().join(", ").to_ascii_lowercase();
    format!("{} aa {} answers {}: {zones}", header.rcode(), header.aa(), counts.ancount())
}
