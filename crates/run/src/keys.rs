//! The keys of a run: one table, from which specifications, options, files and documentation follow.
//!
//! A key is declared once, in `keys/table.rs`: its help, name, type, default and [`Facts`]. [`RunSpec`] has a field for each key, and
//! [`KEYS`] lists them all; those of the connection policy are in [`ldplayer_core::policy`].

#[cfg(test)]
mod python;
mod table;
mod value;

use ldplayer_core::policy::{self, Scope};
use serde_json::Value;

pub use table::{KEYS, RunSpec};
pub use value::Arity;

/// Headings of keys in help texts.
pub mod heading {
    #![allow(missing_docs, reason = "they say what they are")]
    pub const TARGET: &str = "Target";
    pub const CLIENTS: &str = "Clients";
    pub const TIMING: &str = "Timing";
    pub const CONNECTIONS: &str = "Connections";
    pub const TLS: &str = "TLS and HTTPS";
    pub const OUTPUT: &str = "Output";
    pub const ADVANCED: &str = "Advanced";
}

/// Keys that exclude each other: one that is given replaces the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// When queries are due.
    Schedule,
    /// Over which transport.
    Transport,
    /// Whom to watch.
    Watched,
    /// Whom to trust.
    Trust,
}

/// What is known of a key besides its name, type, default and help.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The name if it differs from the field's.
    pub name: &'static str,
    /// A second name in files; empty for none.
    pub alias: &'static str,
    /// The heading in help texts; empty for the argument without a name.
    pub heading: &'static str,
    /// What stands for the value in help texts; empty for the name.
    pub value: &'static str,
    /// Whether the short help has it.
    pub is_common: bool,
    /// Whether an option takes several values at commas.
    pub is_split: bool,
    /// The keys beside which it cannot be given.
    pub choice: Option<Choice>,
    /// The key without which it means nothing.
    pub requires: &'static str,
    /// The transports that it concerns; all if there are none.
    pub scope: Option<Scope>,
    /// The numbers that are allowed.
    pub range: Option<(u64, u64)>,
    /// What holds where the key is not given, if its default does not say it.
    pub default: &'static str,
    /// The page of the documentation that has more.
    pub page: &'static str,
}

impl Facts {
    /// The facts of a key that states none.
    pub(crate) const NONE: Self = Self {
        name: "",
        alias: "",
        heading: "",
        value: "",
        is_common: false,
        is_split: false,
        choice: None,
        requires: "",
        scope: None,
        range: None,
        default: "",
        page: "",
    };
}

/// A key of the table.
#[derive(Debug)]
pub struct Key {
    /// The help text, line by line.
    lines: &'static [&'static str],
    field: &'static str,
    /// What else is known of it.
    pub facts: Facts,
    /// How many values it has.
    pub arity: Arity,
    read: fn(&mut RunSpec, Value) -> Result<(), String>,
    write: fn(&RunSpec) -> Option<Value>,
    reset: fn(&mut RunSpec),
}

impl Key {
    /// The key of this name in files.
    pub fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name() == name || (!key.facts.alias.is_empty() && key.facts.alias == name))
    }

    /// The name in files and in run.json.
    pub fn name(&self) -> &'static str {
        if self.facts.name.is_empty() { self.field } else { self.facts.name }
    }

    /// The name of the option, without dashes.
    pub fn option(&self) -> String {
        self.name().replace('_', "-")
    }

    /// The help text in one sentence.
    pub fn sentence(&self) -> String {
        self.paragraphs().swap_remove(0)
    }

    /// The paragraphs of the help text. The first is one sentence.
    pub fn paragraphs(&self) -> Vec<String> {
        let paragraph = |lines: &[&str]| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        self.lines.split(|line| line.is_empty()).map(paragraph).collect()
    }

    /// What holds where the key is not given; `None` where that is nothing.
    pub fn default(&self) -> Option<String> {
        if !self.facts.default.is_empty() {
            return Some(self.facts.default.to_owned());
        }
        match self.value(&RunSpec::default())? {
            Value::Bool(_) => None,
            Value::Array(values) => {
                Some(values.iter().filter_map(|value| word(value).ok()).collect::<Vec<_>>().join(", "))
            }
            value => word(&value).ok(),
        }
    }

    /// The value in a specification; `None` where it has none.
    pub fn value(&self, spec: &RunSpec) -> Option<Value> {
        (self.write)(spec)
    }

    /// Whether a specification has a value other than the default.
    pub fn is_given(&self, spec: &RunSpec) -> bool {
        self.value(spec) != self.value(&RunSpec::default())
    }

    /// Gives the key a value: a text, a number, true or false, or a list of them. A text may be a list, as the option's is, where the option
    /// splits it at commas.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn set(&self, spec: &mut RunSpec, value: Value) -> Result<(), String> {
        let value = match &value {
            Value::String(text) if self.facts.is_split && text.contains(',') => {
                text.split(',').map(str::trim).collect()
            }
            _ => value,
        };
        if let Some((from, to)) = self.facts.range {
            ranged(&value, from, to)?;
        }
        (self.read)(spec, value)
    }

    /// Gives the key its default.
    pub fn reset(&self, spec: &mut RunSpec) {
        (self.reset)(spec);
    }

    /// Refuses a word that is no value of the key.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, word: &str) -> Result<(), String> {
        self.set(&mut RunSpec::default(), word.into())
    }

    /// The keys beside which it cannot be given.
    pub fn rivals(&self) -> impl Iterator<Item = &'static Self> {
        let is_rival = |key: &&Self| self.facts.choice.is_some() && key.facts.choice == self.facts.choice;
        KEYS.iter().filter(is_rival).filter(|key| key.name() != self.name())
    }
}

fn ranged(value: &Value, from: u64, to: u64) -> Result<(), String> {
    let word = word(value)?;
    let up_to = if to == u64::MAX { String::new() } else { format!(" to {to}") };
    let is_in = word.parse().is_ok_and(|number: u64| (from..=to).contains(&number));
    if is_in { Ok(()) } else { Err(format!("`{word}` is not a whole number from {from}{up_to}")) }
}

/// A text, a number, or true or false, as text.
pub(crate) fn word(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err("give a string, a number, true or false".to_owned()),
    }
}

impl RunSpec {
    /// A key that means nothing without another one, which is not given, in a line. An experiment may give the other one's part itself.
    pub fn lacking(&self) -> Option<String> {
        KEYS.iter().filter(|key| key.is_given(self)).find_map(|key| {
            let required = Key::find(key.facts.requires).filter(|required| !required.is_given(self))?;
            Some(format!("--{}: needs --{} {}", key.option(), required.option(), required.facts.value))
        })
    }
}

/// The names of all keys of a specification, including the connection policy's.
pub(crate) fn names() -> Vec<String> {
    let own = KEYS.iter().map(Key::name).chain(["version", "class"]);
    own.chain(policy::KEYS.iter().map(|key| key.name)).map(str::to_owned).collect()
}

/// The keys as rows of a table in Markdown: first the runs', then the connection policy's.
pub fn table() -> String {
    let mut rows = "| key | what it says | default |\n|---|---|---|\n".to_owned();
    let mut row = |names: &str, what: &str, default: &str| rows += &format!("| {names} | {what} | {default} |\n");
    for key in KEYS {
        let alias = if key.facts.alias.is_empty() { String::new() } else { format!(" (or `{}`)", key.facts.alias) };
        let page = if key.facts.page.is_empty() { String::new() } else { format!(" ([more]({}))", key.facts.page) };
        let default = key.default().unwrap_or_default();
        row(&format!("`{}`{alias}", key.name()), &(key.sentence() + &page).replace('|', "\\|"), &default);
    }
    for key in policy::KEYS {
        row(
            &format!("`{}`", key.name),
            &format!("{}: {}", key.help, key.kind.placeholder()).replace('|', "\\|"),
            &key.default(),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_reads_back_what_it_writes() {
        for key in KEYS {
            let mut spec = RunSpec::default();
            if let Some(value) = key.value(&spec) {
                key.set(&mut spec, value).unwrap_or_else(|error| panic!("{}: {error}", key.name()));
            }
            assert_eq!(spec, RunSpec::default(), "{}", key.name());
        }
    }

    #[test]
    fn every_key_has_a_sentence_and_a_name_of_its_own() {
        for key in KEYS {
            assert!(!key.sentence().is_empty() && !key.sentence().ends_with('.'), "{}", key.name());
            assert_eq!(Key::find(key.name()).map(|found| found.field), Some(key.field));
            assert!(key.facts.requires.is_empty() || Key::find(key.facts.requires).is_some(), "{}", key.name());
            assert!(policy::Key::find(key.name()).is_none(), "{}", key.name());
        }
    }

    #[test]
    fn the_documentation_has_the_table() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run-spec.md");
        let page = std::fs::read_to_string(file).unwrap();
        let begin = page.find("| key |").unwrap();
        let end = begin + page[begin..].find("\n\n").unwrap() + 1;
        assert!(page[begin..end] == table(), "put this in its place in docs/run-spec.md:\n{}", table());
    }

    /// A quota in a file without a server to start was told of a server that had none.
    #[test]
    fn a_key_without_the_one_that_it_needs_is_told() {
        let mut spec = RunSpec { server_cpu: "20%".parse().ok(), ..RunSpec::default() };
        assert_eq!(spec.lacking().as_deref(), Some("--server-cpu: needs --start-server COMMAND"));
        spec.start_server = Some("nsd -d".to_owned());
        assert_eq!((spec.lacking(), RunSpec::default().lacking()), (None, None));
    }

    /// `server_cpus = "0,2"` was refused, which docs/experiments.md gives.
    #[test]
    fn a_list_in_one_text_is_split_as_the_options_is() {
        let spec =
            RunSpec::parse("start_server = 'nsd -d'\nserver_cpus = '0, 2'\nserver = '::1,192.0.2.1'\ncores = '1'")
                .unwrap();
        assert_eq!((spec.server_cpus, spec.server.len(), spec.cores), (vec![0, 2], 2, vec![1]));
        let refused = RunSpec::parse("server_cpus = '0-2'").unwrap_err().to_string();
        assert_eq!(refused, "line 1: `server_cpus`: `0-2` is not a whole number from 0 to 18446744073709551615");
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let clients = Key::find("clients").unwrap();
        assert_eq!(clients.check("0"), Err("`0` is not a whole number from 1".to_owned()));
        let workers = Key::find("workers").unwrap();
        assert_eq!(workers.check("257"), Err("`257` is not a whole number from 1 to 256".to_owned()));
        assert_eq!((workers.check("256"), clients.check("7")), (Ok(()), Ok(())));
    }
}
