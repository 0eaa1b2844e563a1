//! Rebuilds zones from responses (LDplayer paper, §2.3), offline and deterministically.
//!
//! [`Builder::add`] stores each distinct record set once, with the servers that sent it. [`Builder::finish`] determines which servers are
//! authoritative for which zones (`servers`), accepts record sets from those only (`place`), resolves conflicts between responses
//! (`choose`), and adds the records without which zones do not load or cannot be reached from the root (`complete`).

mod choose;
mod classify;
mod complete;
mod history;
mod lame;
mod message;
mod names;
mod of_clients;
mod place;
mod report;
mod seen;
mod servers;
mod stock;
mod suffixes;

use std::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use ldplayer_core::message::{HEADER, Message};
use ldplayer_core::name::Presentation;

pub use choose::Policy;
pub use report::{Conflict, Invention, InventionKind, KeptSet, KeptVersion, Lame, LeftOut, Reason, Report, Version};
pub use stock::{Stock, without_refused};
pub use suffixes::{BadSuffix, Suffixes};

use crate::records::Records;
use crate::rtype;
use classify::Outcome;
use lame::Tries;
use message::Parsed;
use names::{Name, Names};
use seen::{Server, Versions};

/// Maximum number of clients to tell apart; [`Report::resolver_side`] needs no more.
const MOST_CLIENTS: usize = 100_000;

/// A response as it was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// When it was seen, in ns since 1970.
    pub time_ns: i64,
    /// Who asked.
    pub client: IpAddr,
    /// Who answered.
    pub server: IpAddr,
    /// The message in wire format.
    pub message: &'a [u8],
}

/// How zones are built.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Which version to take where responses disagree.
    pub policy: Policy,
    /// Which side of a resolver the responses are from; `None`: as the addresses say.
    pub resolver_side: Option<bool>,
    /// The server that is to load the zones; what it refuses is left out.
    pub server: Option<Stock>,
}

/// A zone that was built.
#[derive(Clone, Debug)]
pub struct BuiltZone {
    /// Its name in wire format.
    pub apex: Vec<u8>,
    /// Its records, the SOA record first, the others in canonical order.
    pub records: Records,
    /// What was made up in it, one line each.
    pub notes: Vec<String>,
    /// What was left out of it, one line each.
    pub left_out: Vec<String>,
}

/// The zones, and a report of how they were built.
#[derive(Clone, Debug, Default)]
pub struct Built {
    /// The zones, parents before their children.
    pub zones: Vec<BuiltZone>,
    /// What was ignored, where responses disagreed, and what was invented.
    pub report: Report,
}

/// The responses hold more than 4 GiB of distinct records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the responses hold more than 4 GiB of distinct records: build zones from parts of the capture")]
pub struct TooMuch;

/// Builds zones from responses.
#[derive(Debug, Default)]
pub struct Builder {
    facts: Facts,
    parsed: Parsed,
    chain: Vec<Name>,
    report: Report,
    clients: HashSet<IpAddr, FixedState>,
    /// Queries without a usable answer; only kept if lame delegations are to stay lame.
    tries: Option<Tries>,
    /// Where zones begin, if the responses are those of a resolver to its clients.
    suffixes: Option<Suffixes>,
}

/// Everything learned from responses.
#[derive(Debug, Default)]
struct Facts {
    names: Names,
    versions: Versions,
    servers: Vec<IpAddr>,
    numbers: HashMap<IpAddr, Server, FixedState>,
    /// Zones that servers claimed in authoritative responses, with counts.
    claims: HashMap<(Name, Server), u32, FixedState>,
    /// What was denied.
    absent: HashMap<(Name, Absent), Denied, FixedState>,
    /// Denials with the SOA record of a zone above the name, and their servers: they rule out a zone cut between the two.
    undivided: HashMap<Undivided, Denied, FixedState>,
}

/// What a denial says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Absent {
    /// The name does not exist (NXDOMAIN).
    Name,
    /// The name has no records of the type (NODATA, RFC 2308 §2.2).
    Data(u16),
}

/// A denial with the SOA record of a zone above the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Undivided {
    apex: Name,
    name: Name,
    what: Absent,
    server: Server,
}

impl Undivided {
    /// The names that are not zone cuts, from the denied name up to the last one below the apex. A denied DS record proves nothing about
    /// its owner: a zone also denies those of its children.
    fn names(self, names: &Names) -> impl Iterator<Item = Name> {
        let lowest = if self.what == Absent::Data(rtype::DS) { names.parent(self.name) } else { self.name };
        let depth = names.depth(self.apex);
        let is_within = names.is_within(lowest, self.apex);
        names.upward(lowest).take_while(move |&name| is_within && names.depth(name) > depth)
    }
}

/// When something was denied, and which server did so first.
#[derive(Clone, Copy, Debug)]
struct Denied {
    server: Server,
    first: i64,
    last: i64,
    count: u32,
}

impl Builder {
    /// A builder that keeps lame delegations lame: it invents no address for name servers without one, and [`Report::lame`] lists the
    /// servers that never answered for a zone delegated to them.
    pub fn keeping_lame() -> Self {
        Self { tries: Some(Tries::default()), ..Self::default() }
    }

    /// From now on notes when each version of a record set was seen, and by whom: [`Report::kept`].
    pub fn keep_versions(&mut self) {
        self.facts.versions.keep_history();
    }

    /// Adds an unanswered query, which is evidence of a lame delegation.
    pub fn unanswered(&mut self, server: IpAddr, query: &[u8]) {
        if let Some(tries) = &mut self.tries {
            tries.failed(&mut self.facts.names, server, query);
        }
    }

    /// Adds a response. Unusable ones are counted by reason.
    ///
    /// # Errors
    /// The limit on distinct records is reached.
    pub fn add(&mut self, response: &Response<'_>) -> Result<(), TooMuch> {
        self.report.responses += 1;
        if self.suffixes.is_some() {
            return self.add_of_client(response);
        }
        if let Err(reason) = self.read(response) {
            self.unanswered(response.server, response.message);
            self.report.ignore(reason);
            return Ok(());
        }
        let server = self.facts.number(response.server);
        if let Some(history) = self.facts.versions.history_mut() {
            let subnet = Message::new(response.message).and_then(|message| message.client_subnet());
            history.begin(response.client, subnet.map(|subnet| subnet.answered()), response.time_ns);
        }
        if self.clients.len() < MOST_CLIENTS {
            self.clients.insert(response.client);
        }
        match classify::outcome(&self.parsed, response.message, &mut self.facts.names, &mut self.chain) {
            Ok(outcome) => {
                if let Some(tries) = &mut self.tries {
                    let question = (self.parsed.qname, self.parsed.qtype);
                    tries.answered(&self.facts.names, response.server, question, &outcome);
                }
                self.take(&outcome, server, response.time_ns)
            }
            Err(reason) => {
                self.unanswered(response.server, response.message);
                self.report.ignore(reason);
                Ok(())
            }
        }
    }

    /// Parses a message into [`Self::parsed`], unless its header rules it out.
    fn read(&mut self, response: &Response<'_>) -> Result<(), Reason> {
        let message = Message::new(response.message).ok_or(Reason::Malformed)?;
        classify::check_header(&message)?;
        debug_assert!(response.message.len() >= HEADER);
        self.parsed.read(&message, &mut self.facts.names)?;
        for (owner, rtype, wrong) in &self.parsed.invalid {
            self.report.ignore(Reason::InvalidRecord);
            self.report.leave_out(&LeftOut::new(self.facts.names.wire(*owner), *rtype, wrong.to_string()));
        }
        Ok(())
    }

    fn take(&mut self, outcome: &Outcome, server: Server, time: i64) -> Result<(), TooMuch> {
        let mut intake = classify::Intake { facts: &mut self.facts, report: &mut self.report, server, time };
        intake.claims(outcome, &self.parsed, &self.chain);
        intake.denial(outcome);
        self.parsed.sort();
        intake.sets(outcome, &self.parsed, &self.chain).ok_or(TooMuch)
    }

    /// Determines which zone each record set belongs to, and who serves it.
    fn place(&mut self, resolver_side: Option<bool>) -> (servers::Authority, Vec<place::Placed>) {
        let report = &mut self.report;
        if let Some(suffixes) = &self.suffixes {
            (report.servers, report.resolver_side, report.of_clients) = (self.clients.len(), true, true);
            return of_clients::plan(&mut self.facts, suffixes, report);
        }
        report.servers = self.facts.servers.len();
        report.resolver_side = resolver_side.unwrap_or(self.clients.len() <= self.facts.servers.len());
        let authority = servers::Authority::find(&self.facts, report);
        let placed = place::place(&self.facts, &authority, report);
        (authority, placed)
    }

    /// The number of responses added so far.
    pub const fn responses(&self) -> u64 {
        self.report.responses
    }

    /// Builds the zones.
    ///
    /// # Errors
    /// A zone has too many records to number.
    pub fn finish(mut self, options: Options) -> Result<Built, TooMuch> {
        let (authority, placed) = self.place(options.resolver_side);
        let chosen = choose::choose(&self.facts, placed, options.policy, &mut self.report);
        self.report.keeps_lame = self.tries.is_some();
        let mut zones = complete::zones(&mut self.facts, &authority, chosen, &mut self.report)?;
        stock::assign(&mut zones, &mut self.report);
        if let Some(server) = options.server {
            stock::refine(&mut zones, server, &mut self.report)?;
        }
        if let Some(tries) = &self.tries {
            self.report.lame = lame(&self.facts, tries, &authority, &zones);
        }
        let shown = |zone: &BuiltZone| Presentation(&zone.apex).to_string();
        let names: HashSet<String, FixedState> = zones.iter().map(shown).collect();
        self.report.unverified.retain(|zone| names.contains(zone));
        keep_present(&mut self.report, &zones);
        Ok(Built { zones, report: self.report })
    }
}

/// Leaves out versions of sets that did not come into a zone: beside an alias, or refused by a server.
fn keep_present(report: &mut Report, zones: &[BuiltZone]) {
    if report.kept.is_empty() {
        return;
    }
    let sets = |zone: &BuiltZone| zone.records.iter().map(|record| (record.owner.to_vec(), record.rtype)).collect();
    let present: HashMap<&[u8], HashSet<(Vec<u8>, u16)>> = zones.iter().map(|zone| (&*zone.apex, sets(zone))).collect();
    let is_present = |set: &KeptSet| {
        let of_zone = present.get(&*set.zone);
        of_zone.is_some_and(|of_zone| of_zone.contains(&(set.owner.clone(), set.rtype)))
    };
    report.kept.retain(is_present);
}

/// The servers that are lame for the zones that were built.
fn lame(facts: &Facts, tries: &Tries, authority: &servers::Authority, zones: &[BuiltZone]) -> Vec<Lame> {
    let names: Vec<Name> = zones.iter().filter_map(|zone| facts.names.find(&zone.apex)).collect();
    let lame = tries.lame(facts, authority, &names);
    let of_zone = |(zone, servers): (Name, std::collections::BTreeSet<IpAddr>)| Lame {
        zone: Presentation(facts.names.wire(zone)).to_string(),
        servers: servers.into_iter().collect(),
    };
    lame.into_iter().map(of_zone).collect()
}

impl Denied {
    /// One more denial by the same server.
    fn again(&mut self, time: i64) {
        self.count = self.count.saturating_add(1);
        (self.first, self.last) = (self.first.min(time), self.last.max(time));
    }
}

impl Facts {
    fn number(&mut self, address: IpAddr) -> Server {
        let next = self.servers.len() as Server;
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            self.servers.push(address);
        }
        number
    }
}

#[cfg(test)]
mod tests;
