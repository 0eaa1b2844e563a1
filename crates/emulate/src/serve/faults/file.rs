//! The file of faults.

use std::io;
use std::path::{Path, PathBuf};

use domain::base::Ttl;
use domain::base::iana::{Class, Rtype};
use domain::base::rdata::UnknownRecordData;
use domain::rdata::AllRecordData;
use ldplayer_core::name::{self, MAX_NAME};
use ldplayer_core::nearest::suggest;
use ldplayer_core::spec::{self, BadSpec, Item, Table};
use ldplayer_link::Rtt;
use ldplayer_zone::{load, rtype};

use super::records::{Any, Owner};
use super::{ANSWERS, Answer, Conditions, Faults, Rule};
use crate::serve::counters::{LEVELS, rcode_name};

/// Why a file of faults cannot be used. One line; exit status 2.
#[derive(Debug, thiserror::Error)]
pub enum FaultsError {
    /// The file cannot be read.
    #[error("{}: {source}; ready-made ones are {}", path.display(), READY.map(|(name, _)| name).join(", "))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It says something that is no rule.
    #[error("{}: {source}", path.display())]
    Rule {
        /// The file.
        path: PathBuf,
        /// The line, and what is wrong with it.
        source: BadSpec,
    },
}

/// The keys of a file, and of a rule.
const OF_FILE: [&str; 2] = ["seed", "fault"];
const OF_RULE: [&str; 19] = [
    "name",
    "zone",
    "level",
    "under",
    "type",
    "server",
    "client",
    "transport",
    "edns",
    "above",
    "share",
    "after",
    "for",
    "answer",
    "count",
    "target",
    "add",
    "delay",
    "pace",
];
/// Answers that have more keys: how many aliases there are before an answer, how many servers a referral names, and those unless they are said. More
/// servers have no room in a datagram of 1232 octets.
const CHAIN: &str = "alias-chain";
const MANY: &str = "many-servers";
const ALIASES: u16 = 20;
const SERVERS: u16 = 40;
/// Octets of a label of theirs, with its length, at most.
const LABEL: usize = 16;
/// Response codes that stand for themselves (RFC 6895 §2.3).
const CODES: std::ops::RangeInclusive<u16> = 0..=10;

/// Files that come along, by their names in data/faults.
const READY: [(&str, &str); 15] = [
    ("alias-chain", include_str!("../../../../../data/faults/alias-chain.toml")),
    ("anycast-switch", include_str!("../../../../../data/faults/anycast-switch.toml")),
    ("cyclic-delegations", include_str!("../../../../../data/faults/cyclic-delegations.toml")),
    ("edns-refused", include_str!("../../../../../data/faults/edns-refused.toml")),
    ("firewall-drops-edns", include_str!("../../../../../data/faults/firewall-drops-edns.toml")),
    ("large-answers-lost", include_str!("../../../../../data/faults/large-answers-lost.toml")),
    ("no-tcp", include_str!("../../../../../data/faults/no-tcp.toml")),
    ("nxns", include_str!("../../../../../data/faults/nxns.toml")),
    ("servfail", include_str!("../../../../../data/faults/servfail.toml")),
    ("slow-tcp", include_str!("../../../../../data/faults/slow-tcp.toml")),
    ("spoofed", include_str!("../../../../../data/faults/spoofed.toml")),
    ("tld-outage", include_str!("../../../../../data/faults/tld-outage.toml")),
    ("tld-signatures-expired", include_str!("../../../../../data/faults/tld-signatures-expired.toml")),
    ("under-attack", include_str!("../../../../../data/faults/under-attack.toml")),
    ("unsigned", include_str!("../../../../../data/faults/unsigned.toml")),
];

impl Faults {
    /// The names of files that come along.
    pub fn ready() -> impl Iterator<Item = &'static str> {
        READY.iter().map(|(name, _)| *name)
    }

    /// Reads a file of rules, or the one of that name that comes along.
    ///
    /// # Errors
    /// The file cannot be read, or a rule is wrong.
    pub fn read(path: &Path) -> Result<Self, FaultsError> {
        let ready = READY.iter().find(|(name, _)| path.as_os_str() == *name).filter(|_| !path.exists());
        let text = match ready {
            Some((_, text)) => (*text).to_owned(),
            None => {
                std::fs::read_to_string(path).map_err(|source| FaultsError::File { path: path.to_owned(), source })?
            }
        };
        Self::parse(&text).map_err(|source| FaultsError::Rule { path: path.to_owned(), source })
    }

    /// The rules of a text.
    ///
    /// # Errors
    /// A rule is wrong, or there is none.
    pub fn parse(text: &str) -> Result<Self, BadSpec> {
        spec::read(text, |file| {
            file.items(&OF_FILE)?;
            let seed = file.get("seed").map_or(Ok(0), |seed| seed.integer(0..=u64::MAX))?;
            let rules = file.get("fault").ok_or_else(|| file.bad("no rule: begin one with [[fault]]"))?.list()?;
            let rules = rules.iter().enumerate().map(|(at, rule)| Rule::of(at + 1, rule.table()?));
            Ok(Self { rules: rules.collect::<Result<_, _>>()?, seed })
        })
    }
}

impl Rule {
    fn of(number: usize, table: Table<'_>) -> Result<Self, BadSpec> {
        table.items(&OF_RULE)?;
        let text = |key| table.get(key).map(|item| item.text()).transpose();
        let name = text("name")?.map_or_else(|| format!("fault {number}"), str::to_owned);
        let answer = table.get("answer").map(|item| answer(&item, &table)).transpose()?;
        let delay = table.get("delay").map(|item| delay(&item)).transpose()?;
        let pace_ns = table.get("pace").map(|item| pace(&item)).transpose()?;
        let add = all(&table, "add", |item| item.parsed(record))?;
        if let Some(problem) = contradiction(answer.as_ref(), delay.is_some(), pace_ns.is_some(), !add.is_empty()) {
            return Err(table.bad(format!("{name}: {problem}")));
        }
        for key in ["count", "target"].into_iter().filter(|key| table.get(key).is_some()) {
            if !matches!((&answer, key), (Some(Answer::ManyServers { .. }), _) | (Some(Answer::AliasChain(_)), "count"))
            {
                return Err(table.bad(format!("{name}: no answer of this rule has `{key}`")));
            }
        }
        let span = |key| table.get(key).map(|item| item.span()).transpose();
        let after_ns = span("after")?.unwrap_or(0);
        let when = Conditions {
            zones: all(&table, "zone", |item| item.parsed(wire))?,
            level: table.get("level").map(|item| item.parsed(level)).transpose()?,
            under: all(&table, "under", |item| item.parsed(wire))?,
            types: all(&table, "type", |item| item.parsed(qtype))?,
            servers: all(&table, "server", |item| item.parsed(str::parse))?,
            clients: all(&table, "client", |item| item.parsed(str::parse))?,
            transport: table.get("transport").map(|item| item.parsed(str::parse)).transpose()?,
            edns: table.get("edns").map(|item| item.truth()).transpose()?,
            above: table.get("above").map_or(Ok(0), |item| item.integer(1..=65_535))? as usize,
            share: table.get("share").map_or(Ok(1.0), |item| item.parsed(share))?,
            after_ns,
            until_ns: span("for")?.map_or(i64::MAX, |length| after_ns.saturating_add(length)),
        };
        Ok(Self { name, when, answer, add, delay, pace_ns })
    }
}

/// Why the faults of a rule cannot be made together, or that there is none.
fn contradiction(answer: Option<&Answer>, is_late: bool, is_slow: bool, adds: bool) -> Option<&'static str> {
    match answer {
        None if !(is_late || is_slow || adds) => Some("no fault: add `answer`, `add`, `delay` or `pace`"),
        Some(Answer::None | Answer::Reset) if is_late || is_slow => Some("what is not answered cannot be late"),
        Some(Answer::None | Answer::Reset) if adds => Some("what is not answered has no records"),
        Some(Answer::WrongPort) if is_late || is_slow || adds => Some("`wrong-port` is a fault alone"),
        _ if is_late && is_slow => Some("`delay` and `pace` are two rules"),
        _ => None,
    }
}

/// The values of a key that is one value or a list of them.
fn all<T>(table: &Table<'_>, key: &str, each: impl Fn(&Item<'_>) -> Result<T, BadSpec>) -> Result<Vec<T>, BadSpec> {
    match table.get(key) {
        None => Ok(Vec::new()),
        Some(item) if item.is_list() => item.list()?.iter().map(each).collect(),
        Some(item) => Ok(vec![each(&item)?]),
    }
}

fn wire(text: &str) -> Result<Vec<u8>, String> {
    let mut wire = Vec::new();
    name::parse(text, &mut wire).map_err(|error| format!("`{text}` is no name: {error}"))?;
    // Lengths of labels are no letters.
    wire.make_ascii_lowercase();
    Ok(wire)
}

/// A name that another label has room before.
fn victim(text: &str) -> Result<Vec<u8>, String> {
    let name = wire(text)?;
    if name.len() + LABEL <= MAX_NAME {
        Ok(name)
    } else {
        Err(format!("`{text}` is too long: names are put before it"))
    }
}

fn qtype(text: &str) -> Result<u16, String> {
    rtype::parse(text.as_bytes()).ok_or_else(|| format!("`{text}` is no type: give it as A, DNSKEY or TYPE65"))
}

/// A share from 0 to 1, written as `30 %` or `0.3`.
fn share(text: &str) -> Result<f64, String> {
    let (number, size) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().ok().map(|number| number / size);
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| format!("`{text}` is no share: 30 % or 0.3"))
}

fn answer(item: &Item<'_>, rule: &Table<'_>) -> Result<Answer, BadSpec> {
    let word = item.text()?;
    let count = |default: u16, most: u64| match rule.get("count") {
        Some(count) => count.integer(1..=most).map(|count: u64| count as u16),
        None => Ok(default),
    };
    if word == CHAIN {
        return Ok(Answer::AliasChain(count(ALIASES, 1000)?));
    }
    if word == MANY {
        let target = rule.get("target").ok_or_else(|| item.bad(format!("`{MANY}` needs `target`, a name")))?;
        return Ok(Answer::ManyServers { count: count(SERVERS, SERVERS.into())?, target: target.parsed(victim)? });
    }
    if let Some((_, answer)) = ANSWERS.iter().find(|(known, _)| *known == word) {
        return Ok(answer.clone());
    }
    let codes: Vec<String> = CODES.map(|code| rcode_name(code).to_lowercase()).collect();
    if let Some(code) = codes.iter().position(|known| known == word) {
        return Ok(Answer::Code(code as u16));
    }
    let known: Vec<&str> =
        ANSWERS.iter().map(|(known, _)| *known).chain([CHAIN, MANY]).chain(codes.iter().map(String::as_str)).collect();
    Err(item.bad(format!("`{word}` is none of {}{}", known.join(", "), suggest(word, &known))))
}

fn level(text: &str) -> Result<usize, String> {
    let known = &LEVELS[..LEVELS.len() - 1];
    known.iter().position(|level| *level == text).ok_or_else(|| format!("`{text}` is none of {}", known.join(", ")))
}

/// Nanoseconds from octet to octet.
fn pace(item: &Item<'_>) -> Result<i64, BadSpec> {
    let ns = item.span()?;
    if ns > 0 { Ok(ns) } else { Err(item.bad("expected a time above 0, as 10ms")) }
}

/// A record as in a zone file, its names in full.
fn record(text: &str) -> Result<Any, String> {
    let mut none = |_: &Path| Err(io::ErrorKind::NotFound.into());
    let line = format!("{text}\n");
    let records = load::text_of(line.as_bytes(), Path::new("add"), Some(&[0]), &mut none);
    let records = records.map_err(|error| format!("`{text}` is no record: {error}"))?;
    let mut all = records.iter();
    let (Some(record), None) = (all.next(), all.next()) else {
        return Err(format!("`{text}` is no record: expected one, as www.example. 60 A 192.0.2.1"));
    };
    let data = UnknownRecordData::from_octets(Rtype::from_int(record.rtype), record.data.to_vec());
    let data = data.map_err(|error| format!("`{text}`: {error}"))?;
    let owner = Owner::from_octets(record.owner.to_vec()).map_err(|error| format!("`{text}`: {error}"))?;
    Ok(Any::new(owner, Class::IN, Ttl::from_secs(record.ttl), AllRecordData::Unknown(data)))
}

fn delay(item: &Item<'_>) -> Result<Rtt, BadSpec> {
    let delay = item.parsed(str::parse::<Rtt>)?;
    if matches!(delay, Rtt::Prefixes(_)) {
        return Err(item.bad("a table by client is no delay: give a time, or a distribution such as normal:100ms,20ms"));
    }
    Ok(delay)
}
