//! What went over the wire, in a form that can be compared: for each question of the client, what the resolver asked and got.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use domain::base::iana::Rtype;
use domain::base::{Message, ParsedRecord};
use domain::rdata::AllRecordData;
use ldplayer_core::Transaction;
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_trace::{Input, OpenOptions, open};

/// The resolver's addresses.
pub const RESOLVER: [&str; 2] = ["10.53.0.2", "fd53::2"];

/// What followed one question of the client: the answer that it got, and the exchanges of the resolver in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    pub question: String,
    pub answer: String,
    pub upstream: Vec<String>,
}

/// Reads the capture of a run: all questions of the client, in their order.
pub fn read(capture: &Path, set: &ZoneSet) -> Vec<Followed> {
    let mut source = open(&[Input::File(capture.to_owned())], &OpenOptions::default()).unwrap();
    let mut transactions = Vec::new();
    while source.read(&mut transactions).unwrap() {}
    let is_resolver = |address: SocketAddr| RESOLVER.iter().any(|own| own.parse() == Ok(address.ip()));
    let (mut asked, mut upstream): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for transaction in &transactions {
        if is_resolver(transaction.server) {
            asked.push(transaction);
        } else if is_resolver(transaction.client) && transaction.response.is_some() {
            upstream.push(transaction);
        }
    }
    upstream.sort_by_key(|transaction| end(transaction));
    let mut all = Vec::new();
    for (at, transaction) in asked.iter().enumerate() {
        let until = asked.get(at + 1).map_or(i64::MAX, |next| next.time.0);
        let mut seen = BTreeSet::new();
        let own = upstream.iter().filter(|exchange| (transaction.time.0..until).contains(&end(exchange)));
        // What was asked again, as its answer took too long, counts once.
        let exchanges = own.map(|exchange| exchanged(exchange, set)).filter(|exchange| seen.insert(exchange.clone()));
        let query = transaction.query.as_ref().unwrap();
        all.push(Followed {
            question: question(query),
            answer: transaction.response.as_ref().map_or("none".to_owned(), |response| shown(response, false)),
            upstream: exchanges.collect(),
        });
    }
    all
}

fn end(transaction: &Transaction) -> i64 {
    transaction.time.0 + transaction.response_delay.unwrap_or(0)
}

/// An exchange with a name server, the choice among those of the same zones left out.
fn exchanged(exchange: &Transaction, set: &ZoneSet) -> String {
    let response = exchange.response.as_ref().unwrap();
    let zones = zones_of(exchange.server.ip(), set);
    format!("{} over {} at the servers of {zones}\n{}", question(response), exchange.transport, shown(response, true))
}

/// The zones for which this address may have been chosen.
fn zones_of(address: IpAddr, set: &ZoneSet) -> String {
    let group = set.index().group(address).unwrap_or_else(|| panic!("{address} is no name server's"));
    let shown = |&zone: &u32| ldplayer_core::name::Presentation(set.zones()[zone as usize].apex()).to_string();
    let shared: Vec<String> = group.zones().iter().map(shown).collect();
    shared.join(" ")
}

fn question(message: &[u8]) -> String {
    let message = Message::from_octets(message).unwrap();
    let question = message.first_question().unwrap();
    format!("{} {}", question.qname(), question.qtype()).to_ascii_lowercase()
}

/// A response: code, flags, and the records of each section in an order of their own.
fn shown(octets: &[u8], with_ttl: bool) -> String {
    let message = Message::from_octets(octets).unwrap();
    let header = message.header();
    let flags = [(header.aa(), "aa"), (header.tc(), "tc"), (header.ad(), "ad"), (header.ra(), "ra")];
    let flags: Vec<&str> = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    let mut text = format!("{} {}", message.opt_rcode(), flags.join(" "));
    let sections = [message.answer(), message.authority(), message.additional()];
    for (section, name) in sections.into_iter().zip(["answer", "authority", "additional"]) {
        let records = section.unwrap().map(|record| record.unwrap());
        let mut lines: Vec<String> =
            records.filter(|record| record.rtype() != Rtype::OPT).map(|record| line(&record, with_ttl)).collect();
        lines.sort();
        lines.iter().for_each(|line| text += &format!("\n  {name}: {line}"));
    }
    text
}

fn line(record: &ParsedRecord<'_, &[u8]>, with_ttl: bool) -> String {
    let data = record.to_any_record::<AllRecordData<_, _>>().unwrap();
    let ttl = if with_ttl { record.ttl().as_secs().to_string() } else { String::new() };
    format!("{} {ttl} {} {}", record.owner(), record.rtype(), data.data()).to_ascii_lowercase()
}

/// A run in which the exchanges that begin like this have nothing in their additional section.
pub fn without_additional(run: Vec<Followed>, exchange: &str) -> Vec<Followed> {
    let cut = |text: String| {
        if !text.starts_with(exchange) {
            return text;
        }
        let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("  additional:")).collect();
        kept.join("\n")
    };
    let of = |followed: Followed| Followed { upstream: followed.upstream.into_iter().map(cut).collect(), ..followed };
    run.into_iter().map(of).collect()
}

/// Where two runs differ, in words: in the answers to the client, in the exchanges upstream as a whole, and in their
/// sequence for each question of the client.
pub fn differences(reference: &[Followed], other: &[Followed]) -> Vec<String> {
    assert_eq!(reference.len(), other.len());
    let (all, others) = (exchanges(reference), exchanges(other));
    let mut found: Vec<String> = all.difference(&others).map(|one| format!("only in the reference: {one}")).collect();
    found.extend(others.difference(&all).map(|one| format!("not in the reference: {one}")));
    for (reference, other) in reference.iter().zip(other) {
        assert_eq!(reference.question, other.question);
        if reference.answer != other.answer {
            found.push(format!("{}: answer\n{}\nbut\n{}", reference.question, reference.answer, other.answer));
        }
        let (one, two) = (sequence(reference), sequence(other));
        if one != two {
            found.push(format!("{}: asked\n{}\nbut\n{}", reference.question, one.join("\n"), two.join("\n")));
        }
    }
    found
}

fn exchanges(run: &[Followed]) -> BTreeSet<&str> {
    run.iter().flat_map(|followed| &followed.upstream).map(String::as_str).collect()
}

/// The exchanges of a question whose order is the resolver's plan. Keys, and addresses of name servers, it asks for beside that,
/// several at once, and does not always wait for them before it answers.
fn sequence(followed: &Followed) -> Vec<&str> {
    let is_aside = |exchange: &&str| {
        let question = exchange.lines().next().unwrap().split(" over ").next().unwrap();
        let (name, qtype) = question.split_once(' ').unwrap();
        let first = name.split('.').next().unwrap();
        matches!(qtype, "dnskey" | "ds")
            || (matches!(qtype, "a" | "aaaa") && matches!(first, "a" | "b" | "ns" | "ns1" | "ns2"))
    };
    followed.upstream.iter().map(String::as_str).filter(|exchange| !is_aside(exchange)).collect()
}

/// Where the answers to the client differ: in the response code, in whether it is validated, or in what is answered. What stands
/// beside the answer is the resolver's affair.
pub fn different_answers(reference: &[Followed], other: &[Followed]) -> Vec<String> {
    let differ = reference.iter().zip(other).filter(|(one, other)| answered(&one.answer) != answered(&other.answer));
    let told = differ.map(|(one, other)| format!("{}\n{}\nbut\n{}", one.question, one.answer, other.answer));
    told.collect()
}

/// Response code, flags and the answer section.
fn answered(answer: &str) -> Vec<&str> {
    answer
        .lines()
        .enumerate()
        .filter(|(at, line)| *at == 0 || line.starts_with("  answer:"))
        .map(|(_, line)| line)
        .collect()
}
