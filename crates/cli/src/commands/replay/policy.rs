//! The options of the connection policy, made from its table.

use clap::{Arg, ArgMatches, Command, Error};
use ldplayer_core::PolicyOverrides;
use ldplayer_core::policy::{KEYS, Key, Value};

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

fn option(key: &'static Key) -> Arg {
    Arg::new(key.name)
        .long(key.option())
        .value_name(key.kind.placeholder())
        .help(format!("{} [default: {}]", key.help, key.default()))
        .value_parser(|text: &str| key.kind.parse(text))
}
