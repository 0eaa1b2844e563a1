//! The keys of a run as options, made from two tables: the keys of runs, and the connection policy.

use clap::{Arg, ArgAction, ArgMatches, Command, Error};
use ldplayer_core::PolicyOverrides;
use ldplayer_core::policy;
use ldplayer_run::RunSpec;
use ldplayer_run::keys::{Arity, KEYS, Key, heading};

/// What most users ask for of the connection policy, in the words of the short help.
const COMMON: [(&str, &str); 2] = [
    ("idle_timeout", "Close connections that are idle for this long"),
    ("queries_per_connection", "Close connections after this many queries"),
];

/// The keys that were given as options, with their words.
#[derive(Clone, Debug, Default)]
pub struct KeyArgs {
    given: Vec<(&'static Key, Vec<String>)>,
    policy: PolicyOverrides,
}

impl KeyArgs {
    /// Whether a key was given.
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(key, _)| key.name() == name)
    }

    /// Lays the given keys over a specification. One takes the place of those that it cannot be beside.
    pub fn lay_over(&self, spec: &mut RunSpec) -> Result<(), String> {
        for rival in self.given.iter().flat_map(|(key, _)| key.rivals()) {
            rival.reset(spec);
        }
        if self.has("transport") || self.has("transport_shares") {
            spec.class.clear();
        }
        for (key, words) in &self.given {
            let value = match key.arity {
                Arity::Switch => true.into(),
                Arity::One => words.concat().into(),
                Arity::Many => words.as_slice().into(),
            };
            key.set(spec, value).map_err(|error| format!("--{}: {error}", key.option()))?;
        }
        spec.policy = self.policy.or(spec.policy);
        Ok(())
    }
}

impl clap::Args for KeyArgs {
    fn augment_args(command: Command) -> Command {
        // The policy is about connections, too; the keys of TLS follow.
        let tls = KEYS.iter().position(|key| key.facts.heading == heading::TLS).unwrap_or(KEYS.len());
        let (before, after) = KEYS.split_at(tls);
        command
            .args(before.iter().map(option))
            .args(policy::KEYS.iter().map(option_of_policy))
            .args(after.iter().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for KeyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = Self::default();
        given.update_from_arg_matches(matches).map(|()| given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for key in KEYS {
            let words = match key.arity {
                Arity::Switch if !matches.get_flag(key.name()) => None,
                Arity::Switch => Some(Vec::new()),
                Arity::One | Arity::Many => {
                    matches.get_many::<String>(key.name()).map(|words| words.cloned().collect())
                }
            };
            self.given.extend(words.map(|words| (key, words)));
        }
        for key in policy::KEYS {
            if let Some(value) = matches.get_one::<policy::Value>(key.name) {
                // The parser of the option has checked it.
                let _ = self.policy.set(key, &value.to_string());
            }
        }
        Ok(())
    }
}

fn option(key: &'static Key) -> Arg {
    let (facts, paragraphs) = (&key.facts, key.paragraphs());
    let with_default = |text: String| match (key.default(), text.strip_suffix('.')) {
        (Some(default), Some(sentence)) => format!("{sentence} [default: {default}]."),
        (Some(default), None) => format!("{text} [default: {default}]"),
        (None, _) => text,
    };
    let short = if paragraphs.len() == 1 { with_default(key.sentence()) } else { key.sentence() };
    let arg = Arg::new(key.name()).help(short).long_help(with_default(paragraphs.join("\n\n")));
    let arg = arg.hide_short_help(!facts.is_common).conflicts_with_all(key.rivals().map(Key::name));
    let value = if facts.value.is_empty() { key.name().to_uppercase() } else { facts.value.to_owned() };
    let arg = match key.arity {
        Arity::Switch => arg.action(ArgAction::SetTrue),
        Arity::One => arg.value_name(value).value_parser(|word: &str| key.check(word).map(|()| word.to_owned())),
        Arity::Many => {
            let arg = arg.value_name(value).action(ArgAction::Append);
            arg.value_parser(|word: &str| key.check(word).map(|()| word.to_owned()))
        }
    };
    let arg = if facts.is_split { arg.value_delimiter(',') } else { arg };
    let arg = if facts.requires.is_empty() { arg } else { arg.requires(facts.requires) };
    if facts.heading.is_empty() { arg.num_args(0..) } else { arg.long(key.option()).help_heading(facts.heading) }
}

/// The line of the short help.
fn short_of_policy(key: &policy::Key) -> String {
    let words = COMMON.iter().find(|(name, _)| *name == key.name).map_or(key.help, |(_, words)| words);
    format!("{words} [default: {}]", key.default())
}

fn option_of_policy(key: &'static policy::Key) -> Arg {
    Arg::new(key.name)
        .long(key.option())
        .value_name(key.kind.placeholder())
        .help(short_of_policy(key))
        .long_help(format!("{} [default: {}]", key.help, key.default()))
        .help_heading(heading::CONNECTIONS)
        .hide_short_help(!COMMON.iter().any(|(name, _)| *name == key.name))
        .value_parser(|text: &str| key.kind.parse(text))
}
