//! The options of the connection policy, made from its table.

use clap::{Arg, ArgMatches, Command, Error};
use ldplayer_core::PolicyOverrides;
use ldplayer_core::policy::{KEYS, Key, Value};

/// What most users ask for, in the words of the short help.
const COMMON: [(&str, &str); 2] = [
    ("idle_timeout", "Close connections that are idle for this long"),
    ("queries_per_connection", "Close connections after this many queries"),
];

/// The keys of the connection policy that were given as options.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyArgs(pub PolicyOverrides);

impl clap::Args for PolicyArgs {
    fn augment_args(command: Command) -> Command {
        command.args(KEYS.iter().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for PolicyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = Self::default();
        given.update_from_arg_matches(matches).map(|()| given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for key in KEYS {
            if let Some(value) = matches.get_one::<Value>(key.name) {
                // The parser of the option has checked it.
                let _ = self.0.set(key, &value.to_string());
            }
        }
        Ok(())
    }
}

/// The line of the short help.
fn short(key: &Key) -> String {
    let words = COMMON.iter().find(|(name, _)| *name == key.name).map_or(key.help, |(_, words)| words);
    format!("{words} [default: {}]", key.default())
}

fn option(key: &'static Key) -> Arg {
    Arg::new(key.name)
        .long(key.option())
        .value_name(key.kind.placeholder())
        .help(short(key))
        .long_help(format!("{} [default: {}]", key.help, key.default()))
        .help_heading("Connections")
        .hide_short_help(!COMMON.iter().any(|(name, _)| *name == key.name))
        .value_parser(|text: &str| key.kind.parse(text))
}
