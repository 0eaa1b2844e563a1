//! The keys as arguments of a Python function, with its documentation: `python/ldplayer/_keys.py`.

use ldplayer_core::policy;

use super::{Arity, KEYS, Key};

/// Names that Python keeps for itself.
const WORDS: [&str; 2] = ["class", "for"];
/// What every replay takes that is no key of a run.
const OWN: [(&str, &str, &str); 5] = [
    ("output", "Optional[PathLike] = None", "Run directory [default: below `runs`, by the time of day]"),
    ("force", "bool = False", "Replace the run in that directory"),
    ("spec", "Optional[PathLike] = None", "File with keys of a run; arguments come before it"),
    ("again", "Optional[PathLike] = None", "Repeat the run of this directory; arguments come before it"),
    ("progress", "Optional[bool] = None", "Show progress [default: on a terminal and in a notebook]"),
];

const HEAD: &str = r#""""The keys of a run as arguments of `replay`. Made from their table: `cargo test -p ldplayer-run --lib keys` prints it where it differs."""

import os
from typing import Optional, Sequence, Union

from ._results import PathLike, Run

Word = Union[str, int, float, "os.PathLike[str]"]
Words = Union[Word, Sequence[Word]]

"#;

/// An argument: its name, its type with its default, and what it says.
struct Argument {
    name: String,
    kind: &'static str,
    says: String,
}

fn named(key: &str) -> String {
    if WORDS.contains(&key) { format!("{key}_") } else { key.to_owned() }
}

fn of(key: &Key) -> Argument {
    let kind = match key.arity {
        Arity::Switch => "bool = False",
        Arity::One => "Optional[Word] = None",
        Arity::Many => "Optional[Words] = None",
    };
    let default = key.default().map_or(String::new(), |default| format!(" [default: {default}]"));
    Argument { name: named(key.name()), kind, says: key.sentence() + &default }
}

fn arguments() -> Vec<Argument> {
    let keys = KEYS.iter().filter(|key| key.name() != "trace").map(of);
    let policy = policy::KEYS.iter().map(|key| Argument {
        name: named(key.name),
        kind: "Optional[Word] = None",
        says: format!("{}: {} [default: {}]", key.help, key.kind.placeholder(), key.default()),
    });
    let own = OWN.map(|(name, kind, says)| Argument { name: name.to_owned(), kind, says: says.to_owned() });
    own.into_iter().chain(keys).chain(policy).collect()
}

/// The module.
fn module() -> String {
    let all = arguments();
    let mut text = HEAD.to_owned() + "\ndef replay(\n    trace: Words = (),\n    *,\n";
    all.iter().for_each(|argument| text += &format!("    {}: {},\n", argument.name, argument.kind));
    text +=
        ") -> Run:\n    r\"\"\"Replays a trace against a server, and returns the run, whatever its verdicts are.\n\n";
    let trace = Key::find("trace").map(Key::sentence).unwrap_or_default();
    let trace = Argument { name: "trace".to_owned(), kind: "", says: trace };
    for argument in std::iter::once(&trace).chain(&all) {
        text += &format!("    {}: {}\n", argument.name, argument.says);
    }
    text + "    \"\"\"\n    given = dict(locals())\n    from ._commands import start_replay\n\n    return start_replay(given)\n"
}

/// Prints the module, to be put there, where the package has another.
#[test]
fn the_python_package_has_the_keys() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/ldplayer/_keys.py");
    let made = module();
    assert!(
        std::fs::read_to_string(file).is_ok_and(|has| has == made),
        "put this in python/ldplayer/_keys.py:\n{made}"
    );
}
