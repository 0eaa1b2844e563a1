//! The TOML form of rules: what each selects (`where`, `share`) and what it changes.

use std::hash::BuildHasher;
use std::path::Path;

use foldhash::quality::FixedState;
use ldplayer_core::Transport;
use ldplayer_core::message::flag;
use ldplayer_core::random::subkey;
use ldplayer_trace::columns::{opcode_flags, parse_opcode, parse_type};

use super::action::{Action, OptionValue};
use super::anonymise::{CryptoPan, parse_key};
use super::clients::{Numbers, Pools, Remap};
use super::expr::Expr;
use super::names::{NameEdit, Template};
use super::share::{Per, Share};
use crate::spec::{BadSpec, Item, Table, read};

/// Maximum number of copies that a rule makes of a query.
const MAX_COPIES: u64 = 1_000;
/// Maximum factor of a population: each copy needs its own reader.
const MAX_TIMES: u64 = 64;

/// Keys beside the rules.
const TOP_KEYS: [&str; 4] = ["seed", "time-scale", "population", "rule"];
/// Keys of a rule that select transactions.
const CHOICE_KEYS: [&str; 5] = ["name", "where", "share", "per", "sample"];
/// Keys of a rule for its actions, in the order in which they are applied.
const ACTION_KEYS: [&str; 35] = [
    "drop",
    "client-anonymise",
    "client-renumber",
    "client-merge",
    "client-split",
    "pool",
    "aa",
    "tc",
    "rd",
    "ra",
    "z",
    "ad",
    "cd",
    "opcode",
    "edns",
    "size",
    "version",
    "do",
    "remove-options",
    "ecs",
    "cookie",
    "nsid",
    "options",
    "qname",
    "qname-prefix",
    "qname-suffix",
    "qname-case",
    "qtype",
    "transport",
    "port",
    "padding",
    "time-shift",
    "time-jitter",
    "duplicate",
    "gap",
];

/// Option codes (IANA "DNS EDNS0 Option Codes").
const NSID: u16 = 3;
const ECS: u16 = 8;
const COOKIE: u16 = 10;

/// A set of rules.
#[derive(Debug, Default)]
pub struct Rules {
    /// The seed, if the file sets one.
    pub seed: Option<u64>,
    /// Factor for all times since the first transaction.
    pub time_scale: Option<f64>,
    /// Multiplication of clients.
    pub population: Option<Population>,
    /// The rules in order.
    pub rules: Vec<Rule>,
}

/// Overlays slices of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Population {
    /// Number of slices overlaid.
    pub times: u32,
    /// Length of a slice in nanoseconds.
    pub slice: i64,
    /// The pool of new addresses.
    pub pools: Pools,
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name, or its place.
    pub name: String,
    /// The input of its draws besides the seed: its name or content, not its position.
    pub key: u64,
    /// The condition on transactions; `None` for all.
    pub filter: Option<Expr>,
    /// The share of selected transactions.
    pub share: Share,
    /// The unit of the share.
    pub per: Per,
    /// Whether those that are not drawn are dropped.
    pub is_sample: bool,
    /// Its actions.
    pub actions: Vec<Action>,
}

impl Rules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn parse(text: &str) -> Result<Self, BadSpec> {
        read(text, Self::of)
    }

    /// Parses settings `KEY=VALUE` as one more rule, or as keys beside the rules. An unquoted value that is no other TOML value is
    /// a string.
    ///
    /// # Errors
    /// The first error; the line is the number of the setting.
    pub fn parse_settings(settings: &[String]) -> Result<Self, BadSpec> {
        let (mut top, mut rule) = (String::new(), String::new());
        for (number, setting) in settings.iter().enumerate() {
            let bad = |what: String| BadSpec { line: number + 1, what };
            let (key, value) = setting.split_once('=').ok_or_else(|| bad(format!("`{setting}` is not KEY=VALUE")))?;
            let (key, value) = (key.trim(), value.trim());
            let line = [format!("{key} = {value}\n"), format!("{key} = {}\n", quoted(value))]
                .into_iter()
                .find(|line| read(line, |_| Ok(())).is_ok())
                .ok_or_else(|| bad(format!("`{setting}` is not KEY=VALUE")))?;
            let is_top = TOP_KEYS.contains(&key.split('.').next().unwrap_or(key));
            if is_top { &mut top } else { &mut rule }.push_str(&line);
        }
        let rule = if rule.is_empty() { rule } else { format!("[[rule]]\n{rule}") };
        Self::parse(&format!("{top}{rule}"))
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.time_scale.is_none() && self.population.is_none()
    }

    /// Merges other rules: they are appended, and their settings take precedence.
    pub fn append(&mut self, others: Self) {
        self.seed = others.seed.or(self.seed);
        self.time_scale = others.time_scale.or(self.time_scale);
        self.population = others.population.or(self.population);
        let start = self.rules.len();
        self.rules.extend(others.rules);
        for (number, rule) in self.rules.iter_mut().enumerate().skip(start) {
            if rule.name.starts_with("rule ") {
                rule.name = format!("rule {}", number + 1);
            }
        }
    }

    fn of(root: Table<'_>) -> Result<Self, BadSpec> {
        let mut rules = Self::default();
        for item in root.items(&TOP_KEYS)? {
            match item.key {
                "seed" => rules.seed = Some(item.integer(0..=u64::MAX)?),
                "time-scale" => rules.time_scale = Some(item.positive()?),
                "population" => rules.population = Some(population(item.table()?)?),
                _ => {
                    for (number, rule) in item.list()?.iter().enumerate() {
                        rules.rules.push(Rule::of(rule.table()?, number + 1)?);
                    }
                }
            }
        }
        Ok(rules)
    }
}

/// A text as a quoted TOML string.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn population(table: Table<'_>) -> Result<Population, BadSpec> {
    let mut population = Population { times: 0, slice: 0, pools: Pools::default() };
    for item in table.items(&["times", "slice", "pool"])? {
        match item.key {
            "times" => population.times = item.integer(2..=MAX_TIMES)? as u32,
            "slice" => population.slice = item.span()?,
            _ => population.pools = pools(&item)?,
        }
    }
    match population {
        Population { times: 0, .. } => {
            Err(table.bad("[population] needs `times`, for example 3 for three times as many clients"))
        }
        Population { slice: 0, .. } => Err(table.bad("[population] needs `slice`, for example \"60s\"")),
        _ => Ok(population),
    }
}

/// A pool of each family: one block or two.
fn pools(item: &Item<'_>) -> Result<Pools, BadSpec> {
    Pools::parse(item.text()?).map_err(|error| item.bad(error))
}

impl Rule {
    fn of(table: Table<'_>, number: usize) -> Result<Self, BadSpec> {
        let known: Vec<&str> = CHOICE_KEYS.iter().chain(&ACTION_KEYS).copied().collect();
        let items = table.items(&known)?;
        let name = table.get("name").map(|item| item.text()).transpose()?;
        let identity = name.map_or_else(|| table.canonical(), str::to_owned);
        let mut rule = Self {
            name: name.map_or_else(|| format!("rule {number}"), str::to_owned),
            key: FixedState::with_seed(0).hash_one(identity),
            filter: None,
            share: Share::ALL,
            per: Per::Client,
            is_sample: false,
            actions: Vec::new(),
        };
        items.iter().try_for_each(|item| rule.choose(item))?;
        if table.get("share").is_some() && table.get("sample").is_some() {
            return Err(table.bad("`sample` and `share` cannot be combined: remove `share`, or use two rules"));
        }
        for key in ACTION_KEYS {
            if let Some(item) = table.get(key) {
                rule.act(&item, &table)?;
            }
        }
        if rule.actions.is_empty() && !rule.is_sample {
            return Err(table.bad(format!("`{}` has no action: add one, for example do = true", rule.name)));
        }
        Ok(rule)
    }

    /// Whether it applies to every transaction.
    pub fn is_for_all(&self) -> bool {
        self.filter.is_none() && self.share == Share::ALL
    }

    fn choose(&mut self, item: &Item<'_>) -> Result<(), BadSpec> {
        match item.key {
            "where" => self.filter = Some(item.text()?.parse().map_err(|error| item.bad(error))?),
            "share" => self.share = item.parsed(str::parse)?,
            "sample" => (self.share, self.is_sample) = (item.parsed(str::parse)?, true),
            "per" => {
                self.per = match item.text()? {
                    "client" => Per::Client,
                    "query" => Per::Query,
                    other => return Err(item.bad(format!("expected client or query, not `{other}`"))),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn act(&mut self, item: &Item<'_>, table: &Table<'_>) -> Result<(), BadSpec> {
        let action = match item.key {
            "gap" | "pool" => return Ok(()),
            "drop" if !item.truth()? => return Ok(()),
            "drop" => Action::Drop,
            "qtype" => Action::Qtype(item.parsed(|word| parse_type(word).ok_or("no such type"))?),
            "transport" => Action::Transport(item.parsed(str::parse::<Transport>)?),
            "port" => Action::ServerPort(item.integer(1..=65_535)? as u16),
            "time-shift" => Action::Shift(item.signed_span()?),
            "time-jitter" => Action::Jitter(item.span()?),
            "duplicate" => Action::Duplicate(item.integer(1..=MAX_COPIES)? as u32, gap(table)?),
            key if key.starts_with("client-") => Action::Client(remap(item, table)?),
            key if key.starts_with("qname") => Action::Name(name_edit(item)?),
            _ => return self.edit(item),
        };
        self.actions.push(action);
        Ok(())
    }

    /// Edits of the header and of EDNS.
    fn edit(&mut self, item: &Item<'_>) -> Result<(), BadSpec> {
        let action = match item.key {
            "opcode" => {
                let opcode = item.parsed(|word| parse_opcode(word).ok_or("no such opcode"))?;
                Action::Flags(opcode_flags(15), opcode_flags(opcode))
            }
            "edns" => Action::Edns(item.truth()?),
            "size" => Action::Size(item.integer(0..=65_535)? as u16),
            "version" => Action::Version(item.integer(0..=255)? as u8),
            "do" => Action::Do(item.truth()?),
            "padding" if item.is_truth() && !item.truth()? => Action::RemoveOption(super::edit::PADDING),
            "padding" => Action::Pad(item.integer(1..=4_096)? as u16),
            "nsid" | "ecs" | "cookie" => option(item)?,
            "remove-options" => {
                for code in item.list()? {
                    self.actions.push(Action::RemoveOption(code.integer(0..=65_535)? as u16));
                }
                return Ok(());
            }
            "options" => return self.options(item),
            flag => {
                let bit = flag_bit(flag);
                Action::Flags(bit, if item.truth()? { bit } else { 0 })
            }
        };
        self.actions.push(action);
        Ok(())
    }

    /// Options by their codes, as hexadecimal digits.
    fn options(&mut self, item: &Item<'_>) -> Result<(), BadSpec> {
        for entry in item.entries()? {
            let code = entry.key.parse().map_err(|_| entry.bad("an option code is a number from 0 to 65535"))?;
            let octets =
                entry.parsed(|word| hex(word).ok_or("an option value is an even number of hexadecimal digits"))?;
            self.actions.push(Action::Option(code, OptionValue::Octets(octets)));
        }
        Ok(())
    }
}

fn flag_bit(word: &str) -> u16 {
    match word {
        "aa" => flag::AA,
        "tc" => flag::TC,
        "rd" => flag::RD,
        "ra" => flag::RA,
        "z" => flag::Z,
        "ad" => flag::AD,
        _ => flag::CD,
    }
}

/// An option by name: present, with its own value, or absent.
fn option(item: &Item<'_>) -> Result<Action, BadSpec> {
    let code = match item.key {
        "nsid" => NSID,
        "ecs" => ECS,
        _ => COOKIE,
    };
    if item.is_truth() && !item.truth()? {
        return Ok(Action::RemoveOption(code));
    }
    let value = match item.key {
        "nsid" => item.truth().map(|_| OptionValue::Octets(Box::default()))?,
        "ecs" if item.is_truth() => OptionValue::Subnet(24, 56), // RFC 7871 §11.1
        "ecs" => subnet(item)?,
        _ if item.is_truth() => OptionValue::Cookie,
        _ => OptionValue::Octets(item.parsed(|word| {
            // A client cookie, with a server cookie of 8 to 32 octets or without (RFC 7873 §4).
            hex(word)
                .filter(|octets| matches!(octets.len(), 8 | 16..=40))
                .ok_or("a cookie has 8, or 16 to 40, bytes in hexadecimal")
        })?),
    };
    Ok(Action::Option(code, value))
}

/// Prefix lengths for both families, as in `"24/56"`.
fn subnet(item: &Item<'_>) -> Result<OptionValue, BadSpec> {
    item.parsed(|word| {
        let lengths = word.split_once('/').and_then(|(v4, v6)| Some((v4.parse().ok()?, v6.parse().ok()?)));
        match lengths {
            Some((v4 @ 0..=32, v6 @ 0..=128)) => Ok(OptionValue::Subnet(v4, v6)),
            _ => Err("expected the prefix lengths for IPv4 and IPv6 such as \"24/56\", or true"),
        }
    })
}

fn gap(table: &Table<'_>) -> Result<i64, BadSpec> {
    table.get("gap").map_or(Ok(0), |item| item.span())
}

fn remap(item: &Item<'_>, table: &Table<'_>) -> Result<Remap, BadSpec> {
    let pools = table.get("pool").map_or(Ok(Pools::default()), |item| pools(&item))?;
    Ok(match item.key {
        "client-merge" => Remap::Merge(item.integer(1..=1 << 24)? as u32, pools),
        "client-split" => Remap::Split(item.integer(2..=1 << 16)? as u32, Numbers::new(pools)),
        "client-renumber" => match item.truth()? {
            true => Remap::Renumber(Numbers::new(pools)),
            false => return Err(item.bad("remove it instead")),
        },
        _ => {
            let text = item.text()?;
            let key = match text.strip_prefix("file:") {
                Some(path) => {
                    std::fs::read_to_string(Path::new(path)).map_err(|error| item.bad(format!("{path}: {error}")))?
                }
                None => text.to_owned(),
            };
            let key = parse_key(&key)
                .ok_or_else(|| item.bad("a key has 64 hexadecimal digits: make one with openssl rand -hex 32"))?;
            Remap::Anonymise(Box::new(CryptoPan::new(key)))
        }
    })
}

fn name_edit(item: &Item<'_>) -> Result<NameEdit, BadSpec> {
    let wire = |item: &Item<'_>| {
        let mut wire = Vec::new();
        ldplayer_core::name::parse(item.text()?, &mut wire).map_err(|error| item.bad(error))?;
        Ok::<_, BadSpec>(wire)
    };
    Ok(match item.key {
        "qname" => NameEdit::Template(item.parsed(Template::parse)?),
        "qname-prefix" => NameEdit::Template(item.parsed(|prefix| Template::parse(&format!("{prefix}.{{qname}}")))?),
        "qname-case" => match item.text()? {
            "lower" => NameEdit::Lower,
            "0x20" => NameEdit::Mixed,
            other => return Err(item.bad(format!("expected lower or 0x20, not `{other}`"))),
        },
        _ => {
            let table = item.table()?;
            let items = table.items(&["from", "to"])?;
            let [from, to] = &items[..] else {
                return Err(item.bad("expected { from = \"example.com\", to = \"test\" }"));
            };
            NameEdit::Suffix(wire(from)?.to_ascii_lowercase().into(), wire(to)?.into())
        }
    })
}

fn hex(text: &str) -> Option<Box<[u8]>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

impl Rule {
    /// The key of this rule's draws under a seed.
    pub fn draws_key(&self, seed: u64) -> u64 {
        subkey(seed, self.key)
    }
}
