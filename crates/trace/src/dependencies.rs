//! Dependencies in a recording: queries that were sent because of the answer to an earlier one of their client.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;
use std::str::FromStr;

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_core::compressed::expand;
use ldplayer_core::message::{Question, flag};
use ldplayer_core::name::{MAX_NAME, labels};
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Message, TraceTime, Transaction};
use serde::Serialize;

use crate::retries::FAILURES;

/// A query that comes so long after an answer does not follow from it: programs go on within milliseconds, and people take longer.
const THINK: i64 = NS_PER_S;
/// Answers that take longer are of no lookup that anybody waits for.
const LONGEST_ANSWER: i64 = 30 * NS_PER_S;
/// Names and answers that are remembered at most; of more, the oldest are forgotten.
const MOST: usize = 1 << 20;
/// Names in the data of a response that may be asked for next, at most.
const MOST_TARGETS: usize = 16;
/// The last answers to a client, which its next query waits for, at most.
const MOST_ANSWERS: usize = 16;
const NXDOMAIN: u16 = 3;

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const PTR: u16 = 12;
const MX: u16 = 15;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const DS: u16 = 43;
const DNSKEY: u16 = 48;
const SVCB: u16 = 64;
const HTTPS: u16 = 65;

/// Which queries wait for answers in a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dependencies {
    /// None: each is sent at its time.
    #[default]
    None,
    /// Those that follow from an answer, as [`Evidence`] says.
    Chain,
    /// Each that its client sent after an answer.
    Client,
}

/// A word that says nothing about dependencies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` says nothing about dependencies: use none, chain or client")]
pub struct UnknownDependencies(String);

impl Dependencies {
    const ALL: [(Self, &str); 3] = [(Self::None, "none"), (Self::Chain, "chain"), (Self::Client, "client")];
}

impl FromStr for Dependencies {
    type Err = UnknownDependencies;

    fn from_str(word: &str) -> Result<Self, UnknownDependencies> {
        let known = Self::ALL.iter().find(|(_, name)| *name == word);
        known.map(|(dependencies, _)| *dependencies).ok_or_else(|| UnknownDependencies(word.to_owned()))
    }
}

impl fmt::Display for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL[*self as usize].1)
    }
}

/// What shows that a query follows from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// The answer was a failure or truncated, and the same is asked again.
    Retry,
    /// A CNAME, NS, PTR, MX, SRV, SVCB or HTTPS record of the response names what is asked for.
    Target,
    /// DS and DNSKEY records of one name, or of a zone and its parent.
    Validation,
    /// Another type of the same name: AAAA after A.
    OtherType,
    /// The name has another candidate of the search list behind it, or none, and the one before did not exist (resolv.conf(5)).
    SearchList,
    /// The name has one label more (RFC 9156).
    NextLabel,
    /// It was the last answer to the client before; the others before it must have come, too.
    LastAnswer,
}

impl Evidence {
    /// The word of reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Target => "target",
            Self::Validation => "validation",
            Self::OtherType => "other_type",
            Self::SearchList => "search_list",
            Self::NextLabel => "next_label",
            Self::LastAnswer => "last_answer",
        }
    }
}

/// What a query follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The row of the query whose answer it follows from.
    pub row: u64,
    /// Rows of other queries whose answers its client had before.
    pub also: Vec<u64>,
    /// Nanoseconds from that answer to the query.
    pub think: i64,
    /// What shows it.
    pub evidence: Evidence,
}

/// Finds dependencies in a trace that is in the order of time, in bounded memory. Where several answers may be the cause, the last of them is.
#[derive(Debug)]
pub struct Links {
    wanted: Dependencies,
    /// Answers by client and what may be asked for next.
    by_name: HashMap<(IpAddr, u64), Answered, FixedState>,
    /// The same keys by the time of their queries, to be forgotten.
    order: VecDeque<(TraceTime, (IpAddr, u64))>,
    clients: HashMap<IpAddr, Client, FixedState>,
    /// Clients by the time of their queries, to be forgotten.
    seen: VecDeque<(TraceTime, IpAddr)>,
}

/// What answers a client has had, and is to have.
#[derive(Debug, Default)]
struct Client {
    asked: TraceTime,
    /// Times and rows of answers that have not come yet.
    to_come: BTreeSet<(TraceTime, u64)>,
    /// The last that have come, the newest first.
    had: VecDeque<(TraceTime, u64)>,
}

/// An answer from which queries may follow.
#[derive(Clone, Debug)]
struct Answered {
    row: u64,
    asked: TraceTime,
    at: TraceTime,
    rcode: u16,
    is_cut: bool,
    /// The query message, for its question.
    query: Bytes,
}

/// What a name is to an answer, in its key.
#[derive(Clone, Copy)]
enum Role {
    Asked = 0,
    Target = 1,
    First = 2,
}

/// Finds chains.
impl Default for Links {
    fn default() -> Self {
        Self::new(Dependencies::Chain)
    }
}

impl Links {
    /// Finds those that are wanted.
    pub fn new(wanted: Dependencies) -> Self {
        Self {
            wanted,
            by_name: HashMap::default(),
            order: VecDeque::new(),
            clients: HashMap::default(),
            seen: VecDeque::new(),
        }
    }

    /// What a query follows from; `None` of the first of a chain, and of a response alone. Rows are numbered by the caller.
    pub fn see(&mut self, row: &Transaction, number: u64) -> Option<Followed> {
        match self.wanted {
            Dependencies::None => None,
            Dependencies::Chain => self.see_in_chain(row, number),
            Dependencies::Client => self.see_of_client(row, number),
        }
    }

    // ---- Chains.

    fn see_in_chain(&mut self, row: &Transaction, number: u64) -> Option<Followed> {
        let message = row.query.as_deref().and_then(Message::new)?;
        let question = message.question()?;
        self.forget(row.time);
        let found = self.cause(row, &question);
        if let Some(answered) = Answered::of(row, number) {
            self.remember(row, &question, &answered);
        }
        found
    }

    /// The last answer from which a query follows.
    fn cause(&self, row: &Transaction, question: &Question<'_>) -> Option<Followed> {
        let name = lower(question.name);
        let name = name.get(..question.name.len())?;
        let rest = labels(name).next().and_then(|first| name.get(1 + first.len()..));
        let roles = [
            Some((Role::Asked, name)),
            Some((Role::Target, name)),
            labels(name).next().map(|first| (Role::First, first)),
            rest.map(|rest| (Role::Asked, rest)),
        ];
        let client = row.client.ip();
        let answers = roles.into_iter().flatten().filter_map(|(role, octets)| {
            let answered = self.by_name.get(&(client, key(role, octets)))?;
            (0..=THINK).contains(&(row.time - answered.at)).then_some((role, answered))
        });
        let causes = answers.filter_map(|(role, answered)| Some((answered, answered.evidence(role, question)?)));
        let (answered, evidence) =
            causes.max_by_key(|(answered, evidence)| (answered.at, std::cmp::Reverse(*evidence)))?;
        Some(Followed { row: answered.row, also: Vec::new(), think: row.time - answered.at, evidence })
    }

    fn remember(&mut self, row: &Transaction, question: &Question<'_>, answered: &Answered) {
        let name = lower(question.name);
        let Some(name) = name.get(..question.name.len()) else { return };
        let client = row.client.ip();
        self.insert((client, key(Role::Asked, name)), answered.clone());
        if let Some(first) = labels(name).next().filter(|_| answered.rcode == NXDOMAIN) {
            self.insert((client, key(Role::First, first)), answered.clone());
        }
        let response = row.response.as_deref().and_then(Message::new);
        for target in response.iter().flat_map(targets) {
            self.insert((client, target), answered.clone());
        }
    }

    fn insert(&mut self, key: (IpAddr, u64), answered: Answered) {
        self.order.push_back((answered.asked, key));
        self.by_name.insert(key, answered);
    }

    /// Forgets answers that are long past, and the oldest of too many.
    fn forget(&mut self, now: TraceTime) {
        while let Some(&(asked, key)) = self.order.front() {
            if now - asked <= LONGEST_ANSWER + THINK && self.order.len() <= MOST {
                return;
            }
            self.order.pop_front();
            if self.by_name.get(&key).is_some_and(|answered| answered.asked <= asked) {
                self.by_name.remove(&key);
            }
        }
    }

    // ---- Clients.

    fn see_of_client(&mut self, row: &Transaction, number: u64) -> Option<Followed> {
        row.query.as_ref()?;
        self.forget_clients(row.time);
        self.seen.push_back((row.time, row.client.ip()));
        let client = self.clients.entry(row.client.ip()).or_default();
        client.asked = row.time;
        while let Some(&answer) = client.to_come.first().filter(|(at, _)| *at <= row.time) {
            client.to_come.pop_first();
            client.had.truncate(MOST_ANSWERS - 1);
            client.had.push_front(answer);
        }
        if let Some(answered) = Answered::of(row, number) {
            client.to_come.insert((answered.at, number));
        }
        let (at, of) = *client.had.front()?;
        let also = client.had.iter().skip(1).map(|(_, row)| *row).collect();
        Some(Followed { row: of, also, think: row.time - at, evidence: Evidence::LastAnswer })
    }

    fn forget_clients(&mut self, now: TraceTime) {
        while let Some(&(time, address)) = self.seen.front() {
            if now - time <= LONGEST_ANSWER && self.seen.len() <= MOST {
                return;
            }
            self.seen.pop_front();
            if self.clients.get(&address).is_some_and(|client| client.asked <= time) {
                self.clients.remove(&address);
            }
        }
    }
}

impl Answered {
    /// The answer to a row, if it came in a reasonable time.
    fn of(row: &Transaction, number: u64) -> Option<Self> {
        let response = row.response.as_deref().and_then(Message::new)?;
        let delay = row.response_delay.filter(|delay| (0..=LONGEST_ANSWER).contains(delay))?;
        Some(Self {
            row: number,
            asked: row.time,
            at: row.time + delay,
            rcode: response.rcode(),
            is_cut: response.has(flag::TC),
            query: row.query.clone()?,
        })
    }

    /// What shows that a query follows from this answer, which was found by what has this role in it.
    fn evidence(&self, role: Role, next: &Question<'_>) -> Option<Evidence> {
        let message = Message::new(&self.query)?;
        let before = message.question()?;
        let is_same_name = before.name.eq_ignore_ascii_case(next.name);
        let has_type = |types: &[u16]| types.contains(&before.qtype) && types.contains(&next.qtype);
        match role {
            Role::Target => Some(Evidence::Target),
            Role::First => {
                let is_next = before.qtype == next.qtype && is_next_candidate(before.name, next.name);
                is_next.then_some(Evidence::SearchList)
            }
            Role::Asked if is_same_name && before.qtype == next.qtype => {
                (self.is_cut || FAILURES.contains(&self.rcode)).then_some(Evidence::Retry)
            }
            Role::Asked if has_type(&[DS, DNSKEY]) => Some(Evidence::Validation),
            Role::Asked if is_same_name => Some(Evidence::OtherType),
            // Resolvers ask for A or NS until they are there (RFC 9156 §2.1). What is below the root is asked for in any case.
            Role::Asked => {
                let is_asked_so = [A, NS, AAAA].contains(&before.qtype) && before.name.len() > 1;
                (is_asked_so && self.rcode == 0).then_some(Evidence::NextLabel)
            }
        }
    }
}

fn key(role: Role, octets: &[u8]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u8(role as u8);
    hasher.write(octets);
    hasher.finish()
}

/// A name in lower case, with zeros behind it.
fn lower(name: &[u8]) -> [u8; MAX_NAME] {
    let mut lower = [0; MAX_NAME];
    lower.iter_mut().zip(name).for_each(|(to, octet)| *to = octet.to_ascii_lowercase());
    lower
}

/// The keys of the names in the data of a response's answers and authorities.
fn targets(response: &Message<'_>) -> Vec<u64> {
    let [_, answers, authorities, _] = response.counts();
    let mut at = response.behind_questions();
    let mut found = Vec::new();
    for _ in 0..u32::from(answers) + u32::from(authorities) {
        let Some((begin, (next, rtype))) = at.and_then(|at| Some((at, response.record_at(at)?))) else { break };
        found.extend(target(response, begin, rtype).filter(|_| found.len() < MOST_TARGETS));
        at = Some(next);
    }
    found
}

/// The key of the name in the data of the record at an offset.
fn target(response: &Message<'_>, at: usize, rtype: u16) -> Option<u64> {
    let before_name = match rtype {
        CNAME | NS | PTR => 0,
        MX | SVCB | HTTPS => 2,
        SRV => 6,
        _ => return None,
    };
    let mut name = [0; MAX_NAME];
    let length = expand(response.octets(), response.rdata_at(at)? + before_name, &mut name)?;
    // The root stands for none, or for the owner (RFC 9460 §2.5).
    (length > 1).then(|| key(Role::Target, &name[..length]))
}

/// Whether a name is above another one.
fn is_ancestor(above: &[u8], below: &[u8]) -> bool {
    let Some(begin) = below.len().checked_sub(above.len()).filter(|begin| *begin > 0) else { return false };
    let mut at = 0;
    let is_boundary = labels(below).any(|label| {
        at += 1 + label.len();
        at == begin
    });
    is_boundary && below[begin..].eq_ignore_ascii_case(above)
}

/// Whether two names have the same beginning, and what is behind it in one of them is above, or below, what is in the other.
fn is_next_candidate(before: &[u8], next: &[u8]) -> bool {
    let same = labels(before).zip(labels(next)).take_while(|(a, b)| a.eq_ignore_ascii_case(b));
    let begin: usize = same.map(|(label, _)| 1 + label.len()).sum();
    let (Some(a), Some(b)) = (before.get(begin..), next.get(begin..)) else { return false };
    begin > 0 && (is_ancestor(a, b) || is_ancestor(b, a))
}

/// Dependencies of a trace, with the keys of `inspect --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DependencyCounts {
    /// Queries that follow from an answer.
    pub n: u64,
    /// Their share of all queries, from 0 to 1.
    pub share: f64,
    /// Queries by what shows it.
    pub by_evidence: BTreeMap<&'static str, u64>,
}

impl DependencyCounts {
    /// Counts a query that follows from an answer.
    pub fn add(&mut self, evidence: Evidence) {
        self.n += 1;
        *self.by_evidence.entry(evidence.as_str()).or_default() += 1;
    }

    /// With the share of so many queries.
    pub fn of(&self, queries: u64) -> Self {
        let share = if queries == 0 { 0.0 } else { self.n as f64 / queries as f64 };
        Self { share, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::Transport;
    use ldplayer_core::message::{CLASS_IN, QueryParts};
    use ldplayer_core::name;
    use proptest::prelude::*;

    /// A query at a time in milliseconds, answered after so many with a code and with a record that names another name.
    struct Asked {
        at_ms: i64,
        name: &'static str,
        qtype: u16,
        answer: Option<(i64, u16)>,
        target: Option<(u16, &'static str)>,
    }

    const FIRST: Asked = Asked { at_ms: 0, name: "www.example.org", qtype: A, answer: Some((20, 0)), target: None };

    fn row(asked: &Asked) -> Transaction {
        let (mut wire, mut query) = (Vec::new(), Vec::new());
        name::parse(asked.name, &mut wire).unwrap();
        let parts = QueryParts { id: 7, flags: 0, name: &wire, qtype: asked.qtype, qclass: CLASS_IN, edns: None };
        parts.compose(&mut query);
        let response = asked.answer.map(|(_, rcode)| response(&query, rcode as u8, asked.target).into());
        Transaction {
            index: 0,
            time: TraceTime(asked.at_ms * 1_000_000),
            client: ([192, 0, 2, 1], 4_000).into(),
            server: ([198, 51, 100, 1], 53).into(),
            transport: Transport::Udp,
            stream: None,
            query: Some(query.into()),
            response,
            response_delay: asked.answer.map(|(after, _)| after * 1_000_000),
            retry_of: None,
        }
    }

    fn response(query: &[u8], rcode: u8, target: Option<(u16, &str)>) -> Vec<u8> {
        let mut response = query.to_vec();
        (response[2], response[3]) = (0x80, rcode);
        let Some((rtype, target)) = target else { return response };
        response[7] = 1;
        let mut name = Vec::new();
        name::parse(target, &mut name).unwrap();
        let skipped: &[u8] = if rtype == SRV { &[0; 6] } else { &[] };
        let length = (skipped.len() + name.len()) as u16;
        // The owner is the name that is asked for, by a pointer to it.
        response.extend_from_slice(&[0xc0, 12]);
        response.extend_from_slice(&[rtype.to_be_bytes(), [0, 1], [0, 0], [0, 60], length.to_be_bytes()].concat());
        response.extend_from_slice(skipped);
        response.extend_from_slice(&name);
        response
    }

    /// What each of these queries is: `-` for the first of a chain, or the row and the evidence of what it follows from.
    fn found(wanted: Dependencies, all: &[Asked]) -> String {
        let mut links = Links::new(wanted);
        let word = |(number, asked): (usize, &Asked)| match links.see(&row(asked), number as u64) {
            None => "-".to_owned(),
            Some(Followed { row, also, think, evidence }) => {
                let also: String = also.iter().map(|row| format!("&{row}")).collect();
                format!("{row}{also}+{}:{}", think / 1_000_000, evidence.as_str())
            }
        };
        all.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
    }

    fn in_chain(all: &[Asked]) -> String {
        found(Dependencies::Chain, all)
    }

    #[test]
    fn names_in_an_answer_are_asked_for_next() {
        let alias = || Asked { target: Some((CNAME, "web.example.net")), ..FIRST };
        let next = |at_ms: i64| Asked { at_ms, name: "Web.Example.NET", ..FIRST };
        assert_eq!(in_chain(&[alias(), next(25)]), "- 0+5:target");
        assert_eq!(in_chain(&[alias(), next(19)]), "- -", "before the answer");
        assert_eq!(in_chain(&[alias(), next(1_500)]), "- -", "long after it");
        let service = Asked { name: "_xmpp._tcp.example", qtype: SRV, target: Some((SRV, "im.example.com")), ..FIRST };
        assert_eq!(in_chain(&[service, Asked { at_ms: 21, name: "im.example.com", ..FIRST }]), "- 0+1:target");
    }

    #[test]
    fn another_type_of_the_name_and_the_same_after_a_failure_follow_and_a_repetition_does_not() {
        let of = |at_ms: i64, qtype: u16| Asked { at_ms, qtype, ..FIRST };
        assert_eq!(in_chain(&[FIRST, of(22, AAAA), of(60, HTTPS)]), "- 0+2:other_type 1+18:other_type");
        assert_eq!(in_chain(&[FIRST, of(1, AAAA)]), "- -", "asked at the same time");
        assert_eq!(in_chain(&[FIRST, of(22, A)]), "- -", "asked again for another reason");
        let failed = Asked { answer: Some((20, 2)), ..FIRST };
        assert_eq!(in_chain(&[failed, of(22, A)]), "- 0+2:retry");
    }

    #[test]
    fn a_search_list_goes_on_after_a_name_that_does_not_exist() {
        let names = ["db.shop.svc.local", "db.svc.local", "db.local", "db"];
        let asked =
            |(at, name): (usize, &'static str)| Asked { at_ms: 30 * at as i64, name, answer: Some((20, 3)), ..FIRST };
        let all: Vec<Asked> = names.into_iter().enumerate().map(asked).collect();
        assert_eq!(in_chain(&all), "- 0+10:search_list 1+10:search_list 2+10:search_list");
        let absolute_first = [asked((0, "db.shop")), asked((1, "db.shop.svc.local"))];
        assert_eq!(in_chain(&absolute_first), "- 0+10:search_list");
        assert_eq!(in_chain(&[asked((0, "www.example.org")), asked((1, "www.other.net"))]), "- -");
        let exists = Asked { name: "db.svc.local", ..FIRST };
        assert_eq!(in_chain(&[exists, asked((1, "db.local"))]), "- -", "no reason to go on");
    }

    #[test]
    fn minimising_and_validating_resolvers_go_from_name_to_name() {
        let ns = |at_ms: i64, name: &'static str| Asked { at_ms, name, qtype: NS, ..FIRST };
        assert_eq!(in_chain(&[ns(0, "org"), ns(25, "example.org"), FIRST.at(50)]), "- 0+5:next_label 1+5:next_label");
        assert_eq!(in_chain(&[ns(0, "."), ns(25, "org")]), "- -", "everything is below the root");
        let of = |at_ms: i64, name: &'static str, qtype: u16| Asked { at_ms, name, qtype, ..FIRST };
        let keys = [of(0, "org", DNSKEY), of(25, "example.org", DS), of(50, "example.org", DNSKEY)];
        assert_eq!(in_chain(&keys), "- 0+5:validation 1+5:validation");
    }

    #[test]
    fn a_client_waits_for_the_answers_that_it_had_and_without_answers_nothing_follows() {
        let of = |at_ms: i64, name: &'static str, after: i64| Asked { at_ms, name, answer: Some((after, 0)), ..FIRST };
        let all = [of(0, "a.example", 50), of(10, "b.example", 10), of(30, "c.example", 5), of(60, "d.example", 5)];
        assert_eq!(found(Dependencies::Client, &all), "- - 1+10:last_answer 0&2&1+10:last_answer");
        let silent = |at_ms: i64| Asked { at_ms, answer: None, ..FIRST };
        assert_eq!(found(Dependencies::Client, &[silent(0), silent(30)]), "- -");
        assert_eq!(in_chain(&[silent(0), Asked { qtype: AAAA, ..silent(30) }]), "- -");
        assert_eq!(found(Dependencies::None, &all), "- - - -");
    }

    impl Asked {
        fn at(self, at_ms: i64) -> Self {
            Self { at_ms, ..self }
        }
    }

    proptest! {
        /// Whatever comes, a query follows from an earlier row whose answer had come.
        #[test]
        fn a_query_follows_from_an_answer_that_its_client_had(
            asked in prop::collection::vec((0..9_000_i64, 0..4_usize, 0..3_usize, prop::option::of((0..900_i64, 0..6_u16)), 0..3_usize), 1..60)
        ) {
            const NAMES: [&str; 4] = ["a.example", "b.a.example", "A.example", "example"];
            const TARGETS: [Option<(u16, &str)>; 3] = [None, Some((CNAME, "b.a.example")), Some((NS, "a.example"))];
            let mut all: Vec<Asked> = asked.into_iter().map(|(at_ms, name, qtype, answer, target)| Asked {
                at_ms, name: NAMES[name], qtype: [A, AAAA, DS][qtype], answer, target: TARGETS[target],
            }).collect();
            all.sort_by_key(|asked| asked.at_ms);
            for wanted in [Dependencies::Chain, Dependencies::Client] {
                let mut links = Links::new(wanted);
                for (number, asked) in all.iter().enumerate() {
                    if let Some(followed) = links.see(&row(asked), number as u64) {
                        for row in &followed.also {
                            let other = &all[*row as usize];
                            prop_assert!(*row != followed.row && other.at_ms + other.answer.unwrap().0 <= asked.at_ms);
                        }
                        let first = &all[followed.row as usize];
                        prop_assert!(followed.row < number as u64 && followed.think >= 0);
                        let answered = first.at_ms + first.answer.unwrap().0;
                        prop_assert_eq!(asked.at_ms - answered, followed.think / 1_000_000);
                    }
                }
            }
        }
    }
}
