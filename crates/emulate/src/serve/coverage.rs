//! The coverage report: questions without a zone, and records that were never used.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use ldplayer_core::name::Presentation;
use ldplayer_core::text::{counted, times};
use ldplayer_core::transport::Transport;
use ldplayer_zone::{Zone, rtype};
use serde::Serialize;

use super::counters::{LEVELS, level_of};
use super::marks::Marks;
use super::set::ZoneSet;
use super::sums::Sums;
use super::tcp::ConnectionCounts;
use super::unknown::Unknown;

/// The format version of the report.
const VERSION: u32 = 1;
/// Maximum number of questions shown in the summary.
const SHOWN: usize = 5;

/// The queries and answers of a server.
#[derive(Clone, Debug, Serialize)]
pub struct Coverage {
    version: u32,
    /// Answered queries, including refusals.
    pub queries: u64,
    /// Messages without an answer: responses, and those too short for a query.
    pub ignored: u64,
    /// Queries that faults left without an answer.
    pub dropped: u64,
    /// Answers refused by the kernel.
    pub unsent: u64,
    /// Queries by transport.
    pub transports: BTreeMap<&'static str, u64>,
    /// Queries by response code.
    pub rcodes: BTreeMap<String, u64>,
    /// Queries by level of the answering zone, and by response code.
    pub levels: BTreeMap<&'static str, BTreeMap<String, u64>>,
    /// TCP connections.
    pub tcp: ConnectionCounts,
    /// QUIC connections.
    pub quic: ConnectionCounts,
    /// The zones, including those removed by a reload.
    pub zones: Vec<ZoneCoverage>,
    /// Questions without a zone, most frequent first.
    pub unknown: Vec<UnknownQuestion>,
    /// Such questions beyond the limit of the list.
    pub unknown_unlisted: u64,
    /// Record sets that were never used in an answer, if tracked; without signatures and proofs.
    pub unasked: Option<Vec<Unasked>>,
    /// Faults that were made on purpose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<MadeFault>,
    /// Unreachable zones and delegations, and oddities of zone files.
    pub warnings: Vec<String>,
}

/// A fault, and how often it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadeFault {
    /// Its name in the file.
    pub fault: String,
    /// Queries that it applied to.
    pub queries: u64,
}

/// A zone and its queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneCoverage {
    /// Its apex.
    pub zone: String,
    /// Its level: root, tld, second, deeper.
    pub level: &'static str,
    /// Queries answered by it.
    pub queries: u64,
    /// These by response code.
    pub rcodes: BTreeMap<String, u64>,
}

/// A question without a zone at the queried address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownQuestion {
    /// QNAME.
    pub name: String,
    /// QTYPE.
    #[serde(rename = "type")]
    pub qtype: String,
    /// How often it was queried.
    pub count: u64,
    /// The address of the first query.
    pub address: std::net::IpAddr,
}

/// A record set that was never used in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unasked {
    /// The zone's apex.
    pub zone: String,
    /// The owner.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Number of records.
    pub records: usize,
}

impl Coverage {
    /// The report from these counters.
    pub fn of(set: &ZoneSet, marks: Option<&Marks>, sums: &Sums) -> Self {
        let totals = &sums.totals;
        let mut unknown: Vec<UnknownQuestion> = sums.unknown.values().map(UnknownQuestion::of).collect();
        unknown.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.name, &a.qtype).cmp(&(&b.name, &b.qtype))));
        let levels = LEVELS.into_iter().enumerate().map(|(level, name)| (name, totals.rcodes(Some(level))));
        Self {
            version: VERSION,
            queries: totals.answered(),
            ignored: totals.ignored,
            dropped: totals.dropped,
            unsent: sums.unsent,
            transports: Transport::ALL
                .map(|transport| (transport.as_str(), totals.by_transport(transport)))
                .into_iter()
                .collect(),
            rcodes: totals.rcodes(None),
            levels: levels.collect(),
            tcp: sums.tcp,
            quic: sums.quic,
            zones: totals.zones().map(|(apex, rcodes)| ZoneCoverage::of(apex, rcodes)).collect(),
            unknown,
            unknown_unlisted: sums.unlisted,
            unasked: marks.map(|marks| unasked(set, marks)),
            faults: made(&sums.faults),
            warnings: set.warnings(),
        }
    }

    /// Writes the report as JSON.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

impl fmt::Display for Coverage {
    /// The summary as text, without a final line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.zones.iter().filter(|zone| zone.queries > 0).count();
        let of = |counts: &BTreeMap<String, u64>| {
            let each: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            each.join(", ")
        };
        let queries = counted(self.queries, "query", "queries");
        write!(f, "{queries} ({}): {}", self.by_transport(), of(&self.rcodes))?;
        for (level, counts) in self.levels.iter().filter(|(_, counts)| !counts.is_empty()) {
            write!(f, "\n  {level}: {}", of(counts))?;
        }
        write!(f, "\nzones queried: {asked} of {}", self.zones.len())?;
        if let Some(unasked) = &self.unasked {
            write!(f, "; record sets not in any answer: {}", unasked.len())?;
        }
        for MadeFault { fault, queries } in &self.faults {
            write!(f, "\nfault {fault}: {}", counted(*queries, "query", "queries"))?;
        }
        let unlisted = if self.unknown_unlisted > 0 { " or more" } else { "" };
        write!(f, "\nquestions without a zone: {}{unlisted}", self.unknown.len())?;
        for unknown in self.unknown.iter().take(SHOWN) {
            write!(f, "\n  {} {}, {}, at {}", unknown.name, unknown.qtype, times(unknown.count), unknown.address)?;
        }
        Ok(())
    }
}

impl Coverage {
    /// Queries over UDP and TCP, and over all else that some came over.
    fn by_transport(&self) -> String {
        let counts = Transport::ALL.into_iter().map(|transport| (transport, self.transports[transport.as_str()]));
        let shown = counts.filter(|(transport, count)| !transport.is_encrypted() || *count > 0);
        let each = shown.map(|(transport, count)| format!("{} {count}", transport.as_str().to_uppercase()));
        each.collect::<Vec<_>>().join(", ")
    }
}

impl ZoneCoverage {
    fn of(apex: &[u8], rcodes: BTreeMap<String, u64>) -> Self {
        let level = LEVELS[level_of(apex)];
        Self { zone: Presentation(apex).to_string(), level, queries: rcodes.values().sum(), rcodes }
    }
}

impl UnknownQuestion {
    fn of(unknown: &Unknown) -> Self {
        let Unknown { name, qtype, count, address } = unknown;
        Self { name: Presentation(name).to_string(), qtype: rtype::name_of(*qtype), count: *count, address: *address }
    }
}

/// The faults, also those of rules before a reload.
fn made(faults: &[(String, u64)]) -> Vec<MadeFault> {
    faults.iter().map(|(fault, queries)| MadeFault { fault: fault.clone(), queries: *queries }).collect()
}

fn unasked(set: &ZoneSet, marks: &Marks) -> Vec<Unasked> {
    let of_zone = |zone: &Zone| -> Vec<Unasked> {
        let missed =
            zone.iter_rrsets().filter(|(at, rrset)| is_asked_for(rrset.rtype) && !marks.has(zone.number(), *at));
        let apex = Presentation(zone.apex()).to_string();
        let shown = |rrset: ldplayer_zone::store::RrSet<'_>| Unasked {
            zone: apex.clone(),
            name: Presentation(rrset.owner).to_string(),
            rtype: rtype::name_of(rrset.rtype),
            records: rrset.records,
        };
        missed.map(|(_, rrset)| shown(rrset)).collect()
    };
    set.zones().iter().flat_map(of_zone).collect()
}

/// Whether records of this type are queried directly: signatures and proofs only accompany others.
const fn is_asked_for(rtype: u16) -> bool {
    !matches!(rtype, rtype::RRSIG | rtype::NSEC | rtype::NSEC3 | rtype::NSEC3PARAM)
}
