//! What a comparison leaves out: flags, sections, and records by section, type and owner.

use std::fmt;
use std::str::FromStr;

use domain::base::iana::Rtype;

use super::SECTIONS;
use crate::message::flag;
use crate::name;
use crate::nearest::suggest;

/// Words that are complete rules: flags and sections.
const WORDS: [&str; 7] = ["aa", "tc", "ra", "ad", "answer", "authority", "additional"];
/// The flags among them, in their order.
const FLAGS: [u16; 4] = [flag::AA, flag::TC, flag::RA, flag::AD];
/// The fields of conditions.
const FIELDS: [&str; 3] = ["section", "type", "name"];

/// An invalid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid ignore rule `{rule}`: {what}")]
pub struct BadRule {
    rule: String,
    what: String,
}

/// One rule of what is left out: `ad`, `additional`, `type == SOA`, `section == authority and type in [NS, RRSIG]`, `name under
/// example.org`. The language of conditions is that of rules that change a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoreRule {
    text: String,
    left_out: LeftOut,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LeftOut {
    Flag(u16),
    Section(usize),
    /// Records for which all of this is so.
    Records(Vec<Condition>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    of: Of,
    /// Whether it is to be so or not.
    is: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// The section is one of these.
    Sections(Vec<usize>),
    /// The type is one of these.
    Types(Vec<u16>),
    /// The owner is one of these names, in lower case.
    Names(Vec<Box<[u8]>>),
    /// The owner is one of these or below.
    Under(Vec<Box<[u8]>>),
}

/// All that a comparison leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignore {
    flags: u16,
    sections: [bool; SECTIONS],
    records: Vec<Vec<Condition>>,
    has_names: bool,
}

impl Ignore {
    /// What any of `rules` leaves out.
    pub fn of(rules: &[IgnoreRule]) -> Self {
        let mut all = Self::default();
        for rule in rules {
            match &rule.left_out {
                LeftOut::Flag(bit) => all.flags |= bit,
                LeftOut::Section(at) => all.sections[*at] = true,
                LeftOut::Records(conditions) => {
                    let is_named = |condition: &Condition| matches!(condition.of, Of::Names(_) | Of::Under(_));
                    all.has_names |= conditions.iter().any(is_named);
                    all.records.push(conditions.clone());
                }
            }
        }
        all
    }

    pub(super) const fn flags(&self) -> u16 {
        self.flags
    }

    /// Whether a rule looks at owners.
    pub(super) const fn has_names(&self) -> bool {
        self.has_names
    }

    /// Whether a record is left out; `name` is its owner in lower case, where a rule looks at owners.
    pub(super) fn leaves_out(&self, section: usize, rtype: u16, name: &[u8]) -> bool {
        self.records.iter().any(|all| all.iter().all(|condition| condition.holds(section, rtype, name)))
    }

    /// Sums of sections, without those that are left out.
    pub(super) fn without(&self, mut sums: [u64; SECTIONS]) -> [u64; SECTIONS] {
        sums.iter_mut().zip(self.sections).filter(|(_, is_left_out)| *is_left_out).for_each(|(sum, _)| *sum = 0);
        sums
    }
}

impl Condition {
    fn holds(&self, section: usize, rtype: u16, name: &[u8]) -> bool {
        let found = match &self.of {
            Of::Sections(sections) => sections.contains(&section),
            Of::Types(types) => types.contains(&rtype),
            Of::Names(names) => names.iter().any(|known| **known == *name),
            Of::Under(names) => names.iter().any(|known| is_under(name, known)),
        };
        found == self.is
    }
}

/// Whether a name is `ancestor` or below it, both in lower case.
fn is_under(name: &[u8], ancestor: &[u8]) -> bool {
    let mut at = 0;
    while let Some(rest) = name.get(at..).filter(|rest| rest.len() >= ancestor.len()) {
        if rest == ancestor {
            return true;
        }
        let Some(&length) = rest.first().filter(|&&length| length > 0) else { return false };
        at += 1 + usize::from(length);
    }
    false
}

impl FromStr for IgnoreRule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let left_out = parse(text)
            .map_err(|what| BadRule { rule: text.escape_debug().to_string(), what: what.replace('\n', " ") })?;
        Ok(Self { text: text.trim().to_owned(), left_out })
    }
}

impl fmt::Display for IgnoreRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

crate::serde_as_text!(IgnoreRule);

fn parse(text: &str) -> Result<LeftOut, String> {
    let spaced = text.replace('[', " [ ").replace(']', " ] ").replace(',', " , ").replace("==", " == ");
    let spaced = spaced.replace("!=", " != ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    if let [word] = words[..] {
        return single(word);
    }
    let conditions = words.split(|word| *word == "and").map(condition).collect::<Result<Vec<_>, _>>()?;
    Ok(LeftOut::Records(conditions))
}

fn single(word: &str) -> Result<LeftOut, String> {
    let at = WORDS.iter().position(|known| *known == word).ok_or_else(|| {
        format!("expected a flag, a section or a condition such as `type == SOA`{}", suggest(word, &WORDS))
    })?;
    Ok(FLAGS.get(at).map_or_else(|| LeftOut::Section(at - FLAGS.len()), |&bit| LeftOut::Flag(bit)))
}

fn condition(words: &[&str]) -> Result<Condition, String> {
    let [field, relation, values @ ..] = words else {
        return Err("expected a field, an operator and a value, such as `type == SOA`".to_owned());
    };
    let values = values_of(relation, values)?;
    let is = *relation != "!=";
    let of = match (*field, *relation) {
        ("name", "under") => Of::Under(each(&values, lower_name)?),
        (_, "under") => return Err(format!("`under` applies to `name`, not to `{field}`")),
        ("name", _) => Of::Names(each(&values, lower_name)?),
        ("type", _) => Of::Types(each(&values, rtype)?),
        ("section", _) => Of::Sections(each(&values, section)?),
        _ => {
            return Err(format!("unknown field `{field}`{}", suggest(field, &FIELDS)));
        }
    };
    Ok(Condition { of, is })
}

/// One value, or those between brackets.
fn values_of<'w>(relation: &str, values: &[&'w str]) -> Result<Vec<&'w str>, String> {
    if !["==", "!=", "in", "under"].contains(&relation) {
        return Err(format!("unknown operator `{relation}`: use ==, !=, in or under"));
    }
    match values {
        ["[", list @ .., "]"] => {
            let items = list.split(|word| *word == ",");
            items
                .map(|item| if let [one] = item { Ok(*one) } else { Err("missing comma in the list".into()) })
                .collect()
        }
        [one] if !["[", "]", ","].contains(one) => Ok(vec![one]),
        _ => Err("expected one value, or a list in brackets".to_owned()),
    }
}

fn each<T>(values: &[&str], read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    values.iter().map(|value| read(value)).collect()
}

fn lower_name(text: &str) -> Result<Box<[u8]>, String> {
    let mut wire = Vec::new();
    name::parse(text, &mut wire).map_err(|error| error.to_string())?;
    wire.make_ascii_lowercase();
    Ok(wire.into())
}

fn rtype(text: &str) -> Result<u16, String> {
    let named = text.parse().map(Rtype::to_int).ok();
    text.parse().ok().or(named).ok_or_else(|| format!("unknown record type `{text}`"))
}

fn section(text: &str) -> Result<usize, String> {
    let sections = &WORDS[FLAGS.len()..];
    let found = sections.iter().position(|known| *known == text);
    found.ok_or_else(|| format!("unknown section `{text}`: use {}", sections.join(", ")))
}
