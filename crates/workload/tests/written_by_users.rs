//! What users write, rules with their expressions, models and classes, with parts changed, left out and put elsewhere: it ends in
//! a value or in an error of one line that names a line of the file.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ldplayer_workload::generate::Model;
use ldplayer_workload::mutate::Rules;
use ldplayer_workload::{BadSpec, read_classes};
use proptest::prelude::*;
use proptest::sample::Index;

/// What is put in: parts of TOML, of expressions, and of what the files are about.
const PARTS: [&str; 24] = [
    "[[rule]]",
    "[[class]]",
    "[names]",
    "where = ",
    "'",
    "\"",
    "\n",
    "= 1",
    "-1",
    "1e400",
    "'130 %'",
    "qname under '",
    "not (",
    ")",
    " and ",
    "file('",
    "rcode == ",
    "\u{0}",
    "\u{202e}",
    "ü",
    "99999999999999999999",
    "{",
    "]",
    "share = ",
];

/// A rule with something of everything, since the examples are short.
const RULE: &str = "time-scale = 2\n\n[[rule]]\nname = 'one'\nwhere = \"qtype == A and not (qname under 'example.' or tc)\"\n\
    share = '50 %'\nper = 'client'\ndo = true\ntransport = 'tcp'\nedns = true\n";

static RULES: LazyLock<Vec<String>> = LazyLock::new(|| [texts("../../data/rules"), vec![RULE.to_owned()]].concat());
static MODELS: LazyLock<Vec<String>> = LazyLock::new(|| texts("presets"));
static CLASSES: LazyLock<Vec<String>> = LazyLock::new(|| texts("../../data/classes"));

/// The texts of a folder of this repository.
fn texts(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// A text of which parts were cut out and others put in.
fn changed(texts: &[String], file: Index, changes: &[(Index, usize, usize)]) -> String {
    let mut letters: Vec<char> = file.get(texts).chars().collect();
    for (at, cut, part) in changes {
        let from = at.index(letters.len() + 1);
        let to = (from + cut).min(letters.len());
        letters.splice(from..to, PARTS[*part].chars());
    }
    letters.into_iter().collect()
}

fn check<T>(parsed: Result<T, BadSpec>, text: &str) -> Result<(), TestCaseError> {
    let Err(error) = parsed else { return Ok(()) };
    let lines = text.bytes().filter(|&octet| octet == b'\n').count() + 1;
    prop_assert!((1..=lines).contains(&error.line), "{error:?} of {lines} in {text:?}");
    prop_assert!(!error.what.contains('\n'), "{error:?} in {text:?}");
    Ok(())
}

fn changes() -> impl Strategy<Value = Vec<(Index, usize, usize)>> {
    prop::collection::vec((any::<Index>(), 0_usize..30, 0..PARTS.len()), 0..6)
}

#[test]
fn what_is_changed_is_sound_before() {
    for text in &*RULES {
        assert!(Rules::parse(text).is_ok(), "{:?}", Rules::parse(text).err());
    }
    assert!(CLASSES.iter().all(|text| read_classes(text).is_ok()));
    assert!(MODELS.iter().any(|text| Model::parse(text, Path::new("/nowhere")).is_ok()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rules_are_read_or_refused_in_one_line(file in any::<Index>(), changes in changes()) {
        let text = changed(&RULES, file, &changes);
        check(Rules::parse(&text), &text)?;
    }

    #[test]
    fn models_are_read_or_refused_in_one_line(file in any::<Index>(), changes in changes()) {
        let text = changed(&MODELS, file, &changes);
        check(Model::parse(&text, Path::new("/nowhere")), &text)?;
    }

    #[test]
    fn classes_are_read_or_refused_in_one_line(file in any::<Index>(), changes in changes()) {
        let text = changed(&CLASSES, file, &changes);
        check(read_classes(&text), &text)?;
    }
}
