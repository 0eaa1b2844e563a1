//! Circles of modules: what a module of a crate depends on must not depend on the module.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::mask::is_word;

/// The first names of paths in the code of a module.
type Names<'a> = BTreeSet<&'a str>;

/// The modules directly below a crate's root that depend on each other in a circle, each circle once. `files` have paths
/// within `src/` and code without comments, literals and tests.
pub fn circles(files: &[(&str, String)]) -> Vec<String> {
    let graph = graph(files);
    let mut reported = BTreeSet::new();
    let found = graph.keys().filter_map(|&module| {
        let circle = way_back(&graph, module)?;
        let is_new = circle.iter().all(|&module| reported.insert(module));
        is_new.then(|| circle.join(" → ") + " → " + module)
    });
    found.collect()
}

/// What each module depends on.
fn graph<'a>(files: &'a [(&str, String)]) -> BTreeMap<&'a str, Names<'a>> {
    let is_root = |path: &str| matches!(path, "lib.rs" | "main.rs");
    let root = files.iter().filter(|(path, _)| is_root(path)).flat_map(|(_, code)| given_on(code));
    let origins: BTreeMap<&str, &str> = root.collect();
    let mut graph: BTreeMap<&str, Names<'_>> = BTreeMap::new();
    for (path, code) in files.iter().filter(|(path, _)| !is_root(path)) {
        let module = word(path);
        let names = heads(code).into_iter().map(|name| origins.get(name).copied().unwrap_or(name));
        graph.entry(module).or_default().extend(names.filter(|&name| name != module));
    }
    graph
}

/// The names that a root gives on (`pub use module::{A, B};`), each with its module.
fn given_on(code: &str) -> Vec<(&str, &str)> {
    let mut names = Vec::new();
    for statement in code.split(';').filter(|statement| statement.trim_start().starts_with("pub")) {
        let Some((module, rest)) = statement.split_once("use ").and_then(|(_, path)| path.split_once("::")) else {
            continue;
        };
        let words = rest.split(|character| !is_word(character)).filter(|name| !name.is_empty());
        names.extend(words.map(|name| (name, module)));
    }
    names
}

/// The names behind `crate::`, also of a group in braces.
fn heads(code: &str) -> Vec<&str> {
    const ROOT: &str = "crate::";
    let paths = code.match_indices(ROOT).map(|(at, _)| &code[at + ROOT.len()..]);
    paths.flat_map(|path| path.strip_prefix('{').map_or_else(|| vec![word(path)], members)).collect()
}

/// The first name of each path of a group, behind its opening brace.
fn members(group: &str) -> Vec<&str> {
    let mut names = vec![word(group.trim_start())];
    let mut depth = 0;
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(word(group[at + 1..].trim_start())),
            _ => {}
        }
    }
    names
}

fn word(text: &str) -> &str {
    &text[..text.find(|character| !is_word(character)).unwrap_or(text.len())]
}

/// The shortest way from a module back to it, if there is one.
fn way_back<'a>(graph: &BTreeMap<&'a str, Names<'a>>, module: &'a str) -> Option<Vec<&'a str>> {
    let mut ways = VecDeque::from([vec![module]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for &next in way.last().and_then(|last| graph.get(last)).into_iter().flatten() {
            if next == module {
                return Some(way);
            }
            if seen.insert(next) {
                ways.push_back([way.as_slice(), &[next]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<String> {
        circles(&files.iter().map(|&(path, code)| (path, code.to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn a_circle_is_found_once_however_the_modules_are_named() {
        let direct = [("a.rs", "use crate::b::B;"), ("b/deep.rs", "fn f() { crate::a::g() }")];
        assert_eq!(of(&direct), ["a → b → a"]);
        let group =
            [("a.rs", "use crate::{c::{self, X}, b};"), ("b.rs", "use crate::c::Y;"), ("c.rs", "use crate::a;")];
        assert_eq!(of(&group), ["a → c → a"]);
        let given_on =
            [("lib.rs", "mod a; pub use a::{A, F}; pub mod b;"), ("a.rs", "use crate::b;"), ("b.rs", "use crate::F;")];
        assert_eq!(of(&given_on), ["a → b → a"]);
    }

    #[test]
    fn what_only_leads_downward_is_no_circle() {
        let files =
            [("a.rs", "use crate::b;"), ("a/inner.rs", "use crate::a::X;"), ("b.rs", "use crate::c;"), ("c.rs", "")];
        assert!(of(&files).is_empty());
        assert!(of(&[("main.rs", "use crate::a;"), ("a.rs", "")]).is_empty());
    }
}
