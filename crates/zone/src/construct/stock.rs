//! Leaves out the records that a stock server refuses a whole zone for, and tells which.

use std::collections::HashSet;
use std::fmt;

use ldplayer_core::name::Presentation;

use super::report::{LeftOut, Report};
use super::{BuiltZone, TooMuch};
use crate::rdata::name_length;
use crate::records::{Record, Records};
use crate::rtype;

const CDS: u16 = 59;
const CDNSKEY: u16 = 60;
/// The only hash of NSEC3 (RFC 5155 §11).
const SHA1: u8 = 1;

/// A server that zones are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stock {
    /// BIND 9.
    Bind,
    /// NSD.
    Nsd,
    /// Knot DNS.
    Knot,
}

impl Stock {
    /// All servers.
    pub const ALL: [Self; 3] = [Self::Bind, Self::Nsd, Self::Knot];

    /// Its name in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Nsd => "nsd",
            Self::Knot => "knot",
        }
    }

    /// Whether it reads a type by its name; types without one are written by number, which all read.
    fn reads(self, rtype: u16) -> bool {
        match self {
            Self::Bind => true,
            // GPOS, HIP, AMTRELAY, TA.
            Self::Nsd => !matches!(rtype, 27 | 55 | 260 | 32768),
            Self::Knot => KNOT.contains(&rtype) || rtype::name_of(rtype) == format!("TYPE{rtype}"),
        }
    }
}

impl fmt::Display for Stock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names the zone of each record that was left out of responses: the deepest that holds its owner; for DS records, one above it.
pub(super) fn assign(zones: &mut [BuiltZone], report: &mut Report) {
    for one in &mut report.left_out {
        let holds = |zone: &&mut BuiltZone| {
            one.owner.ends_with(&zone.apex)
                && is_suffix(&one.owner, zone.apex.len())
                && !(one.is_ds && one.owner == zone.apex)
        };
        if let Some(zone) = zones.iter_mut().filter(holds).max_by_key(|zone| zone.apex.len()) {
            one.zone = Presentation(&zone.apex).to_string();
            zone.left_out.push(one.to_string());
        }
    }
}

/// Whether the last octets of a name begin with a label.
fn is_suffix(name: &[u8], octets: usize) -> bool {
    let start = name.len() - octets;
    let mut at = 0;
    while at < start {
        at += usize::from(name[at]) + 1;
    }
    at == start
}

/// Leaves out the zones and records that this server refuses.
///
/// # Errors
/// A zone has too many records to number.
pub(super) fn refine(zones: &mut Vec<BuiltZone>, server: Stock, report: &mut Report) -> Result<(), TooMuch> {
    zones.retain(|zone| {
        let is_refused = server == Stock::Bind && zone.apex.starts_with(WILDCARD);
        if is_refused {
            let reason = format!("{server}: a zone whose apex is a wildcard (RFC 4592 4.2); it is left out as a whole");
            let name = Presentation(&zone.apex).to_string();
            report.leave_out(&LeftOut { zone: name, ..LeftOut::new(&zone.apex, rtype::SOA, reason) });
        }
        !is_refused
    });
    for zone in zones {
        let Some((kept, left_out)) = without_refused(&zone.apex, &zone.records, server)? else { continue };
        for mut one in left_out {
            one.zone = Presentation(&zone.apex).to_string();
            if report.leave_out(&one) {
                zone.left_out.push(one.to_string());
            }
        }
        zone.records = kept;
    }
    Ok(())
}

/// The records of a zone that this server takes, and the records left out; `None` where it takes all.
///
/// # Errors
/// There are too many records to number.
pub fn without_refused(
    apex: &[u8],
    records: &Records,
    server: Stock,
) -> Result<Option<(Records, Vec<LeftOut>)>, TooMuch> {
    let reasons = refused(apex, records, server);
    if reasons.iter().all(Option::is_none) {
        return Ok(None);
    }
    let (mut kept, mut left_out) = (Records::default(), Vec::new());
    for (record, reason) in records.iter().zip(reasons) {
        match reason {
            None => kept.push(record.owner, record.rtype, record.ttl, record.data).map_err(|_| TooMuch)?,
            Some(reason) => left_out.push(LeftOut::new(record.owner, record.rtype, format!("{server}: {reason}"))),
        }
    }
    Ok(Some((kept, left_out)))
}

/// Why a server would refuse each record of a zone, or the zone for it; `None` for those that it takes.
fn refused(apex: &[u8], records: &Records, server: Stock) -> Vec<Option<&'static str>> {
    let about = About::of(apex, records);
    let mut reasons: Vec<_> = records.iter().map(|record| about.reason(&record, server)).collect();
    let changed: Vec<(&[u8], u16)> = records
        .iter()
        .zip(&reasons)
        .filter(|(_, reason)| reason.is_some())
        .map(|(record, _)| (record.owner, record.rtype))
        .collect();
    for (record, reason) in records.iter().zip(&mut reasons) {
        if reason.is_none() && is_signature_of(&record, &changed) {
            *reason = Some("it signs records that are left out");
        }
    }
    reasons
}

fn is_signature_of(record: &Record<'_>, sets: &[(&[u8], u16)]) -> bool {
    let &[high, low, ..] = record.data else { return false };
    record.rtype == rtype::RRSIG && sets.contains(&(record.owner, u16::from_be_bytes([high, low])))
}

/// What decides about several records of a zone.
struct About<'a> {
    apex: &'a [u8],
    /// The algorithms of its keys.
    algorithms: Vec<u8>,
    /// Types that have more than one record at the apex.
    several: [(u16, bool); 2],
    /// Whether one of its NSEC3PARAM records has a hash that servers know.
    knows_hash: bool,
    /// The names that have a CNAME record.
    aliases: HashSet<&'a [u8]>,
}

impl<'a> About<'a> {
    fn of(apex: &'a [u8], records: &'a Records) -> Self {
        let at_apex = |rtype: u16| records.iter().filter(move |one| one.rtype == rtype && one.owner == apex);
        Self {
            apex,
            algorithms: at_apex(rtype::DNSKEY).filter_map(|key| key.data.get(3).copied()).collect(),
            several: [CDS, CDNSKEY].map(|rtype| (rtype, at_apex(rtype).count() > 1)),
            knows_hash: at_apex(rtype::NSEC3PARAM).any(|one| one.data.first() == Some(&SHA1)),
            aliases: records.iter().filter(|one| one.rtype == rtype::CNAME).map(|one| one.owner).collect(),
        }
    }

    fn reason(&self, record: &Record<'_>, server: Stock) -> Option<&'static str> {
        if !server.reads(record.rtype) {
            return Some("it does not know the type");
        }
        if !matches!(record.rtype, rtype::CNAME | rtype::RRSIG | rtype::NSEC | KEY)
            && self.aliases.contains(record.owner)
        {
            return Some("beside a CNAME record (RFC 1034 3.6.2)");
        }
        match server {
            Stock::Bind => self.by_bind(record),
            Stock::Nsd => by_nsd(record),
            Stock::Knot => by_knot(record),
        }
    }

    /// What BIND checks when it loads a zone, beyond single records.
    fn by_bind(&self, record: &Record<'_>) -> Option<&'static str> {
        let is_apex = record.owner == self.apex;
        match record.rtype {
            CDS | CDNSKEY if is_apex => self.without_key(record),
            rtype::NS if record.owner.starts_with(WILDCARD) => Some("name servers of a wildcard (RFC 4592 4.2)"),
            IPSECKEY if record.data.get(2) == Some(&0) => Some("no algorithm (RFC 4025 2.4)"),
            SVCB | HTTPS if has_key(record.data, |key, _| key > DOHPATH) => Some(UNKNOWN_KEY),
            rtype::NSEC3PARAM if is_apex && !self.knows_hash => Some("no hash that it knows (RFC 5155 4.1.1)"),
            _ => None,
        }
    }

    /// A key or digest for the parent whose algorithm no key of the zone has; the mark that deletes is alone (RFC 8078 §4).
    fn without_key(&self, record: &Record<'_>) -> Option<&'static str> {
        let (deletes, algorithm): (&[u8], _) = match record.rtype {
            CDS => (&[0; 5], record.data.get(2)),
            _ => (&[0, 0, 3, 0, 0], record.data.get(3)),
        };
        if record.data == deletes {
            return self.several.contains(&(record.rtype, true)).then_some("a deletion beside others (RFC 8078 4)");
        }
        let is_known = algorithm.is_some_and(|one| self.algorithms.contains(one));
        (!is_known).then_some("no key of the zone has its algorithm (RFC 7344 4.1)")
    }
}

/// How the wire form of a wildcard begins.
const WILDCARD: &[u8] = b"\x01*";
const KEY: u16 = 25;
const SSHFP: u16 = 44;
const IPSECKEY: u16 = 45;
const SVCB: u16 = 64;
const HTTPS: u16 = 65;
const CAA: u16 = 257;
/// Keys of SVCB records: `ech`; `dohpath`, from which on servers differ in what they know (RFC 9460 §14.3.2).
const ECH: u16 = 5;
const DOHPATH: u16 = 7;

/// Contents that NSD refuses and others take.
fn by_nsd(record: &Record<'_>) -> Option<&'static str> {
    match record.rtype {
        CAA if record.data.get(1).is_some_and(|&length| length > 15) => {
            Some("a tag of more than 15 bytes (RFC 6844 5.1)")
        }
        KEY if record.data.len() == 4 => Some("no key (RFC 2535 3.1.2)"),
        SSHFP if record.data.len() == 2 => Some("no fingerprint (RFC 4255 3.1.3)"),
        SVCB | HTTPS if has_key(record.data, |key, _| key > DOHPATH) => Some(UNKNOWN_KEY),
        _ => None,
    }
}

/// Contents that Knot DNS refuses and others take.
fn by_knot(record: &Record<'_>) -> Option<&'static str> {
    match record.rtype {
        KEY if record.data.len() == 4 => Some("no key (RFC 2535 3.1.2)"),
        SSHFP if record.data.len() == 2 => Some("no fingerprint (RFC 4255 3.1.3)"),
        SVCB | HTTPS if has_key(record.data, |key, value| key >= DOHPATH || key == ECH && value.is_empty()) => {
            Some(UNKNOWN_KEY)
        }
        _ => None,
    }
}

/// Why SVCB and HTTPS records are refused by servers that read only the first keys.
const UNKNOWN_KEY: &str = "a key or value that it does not know (RFC 9460 14.3.2)";

/// Whether an SVCB or HTTPS record has such a key with such a value; keys without a name of their own are read by all.
fn has_key(data: &[u8], is_such: impl Fn(u16, &[u8]) -> bool) -> bool {
    /// The last key with a name.
    const NAMED: u16 = 9;
    let target = data.get(2..).and_then(name_length).unwrap_or(0);
    let mut rest = data.get(2 + target..).unwrap_or_default();
    while let &[high, low, more, length, ref behind @ ..] = rest {
        let (key, length) = (u16::from_be_bytes([high, low]), usize::from(u16::from_be_bytes([more, length])));
        if key <= NAMED && is_such(key, behind.get(..length).unwrap_or_default()) {
            return true;
        }
        rest = behind.get(length..).unwrap_or_default();
    }
    false
}

/// Types that Knot DNS reads by name.
const KNOT: &[u16] = &[
    1, 2, 5, 6, 12, 13, 14, 15, 16, 17, 18, 21, 25, 28, 29, 33, 35, 36, 37, 39, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51,
    52, 53, 59, 60, 61, 62, 63, 64, 65, 99, 104, 105, 106, 107, 108, 109, 256, 257,
];
