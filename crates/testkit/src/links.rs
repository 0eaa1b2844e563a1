//! Links of Markdown pages: where they lead, and which of them lead nowhere.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use crate::rules::Finding;

/// A link of a page: its line, from 1, and its target as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The line, from 1.
    pub line: usize,
    /// What stands between the parentheses.
    pub target: String,
}

/// The links and images of a page, without those in code.
pub fn links(page: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (line, text) in prose(page) {
        let text = without_code(text);
        let targets = text.match_indices("](").filter_map(|(at, opening)| text[at + opening.len()..].split(')').next());
        found.extend(targets.map(|target| Link { line, target: target.trim().to_owned() }));
    }
    found
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
pub fn anchors(page: &str) -> HashSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = prose(page).filter(|(_, text)| text.starts_with('#'));
    let anchor = |(_, text): (usize, &str)| {
        let base = anchor_of(text.trim_start_matches('#').trim());
        let times = seen.entry(base.clone()).or_default();
        *times += 1;
        if *times == 1 { base } else { format!("{base}-{}", *times - 1) }
    };
    headings.map(anchor).collect()
}

/// Links of `pages`, by their paths from the repository's root, that lead to no file, folder or heading.
pub fn broken(root: &Path, pages: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, text) in pages {
        for Link { line, target } in links(text) {
            let rule = problem(root, pages, name, &target).map(|what| format!("link to `{target}`: {what}"));
            found.extend(rule.map(|rule| Finding { file: name.clone(), line, rule }));
        }
    }
    found
}

/// Pages in the folder of `summary` that it does not list.
pub fn unlisted<'a>(summary: &str, pages: impl IntoIterator<Item = &'a String>) -> Vec<&'a String> {
    let listed: HashSet<String> = links(summary).into_iter().map(|link| link.target).collect();
    pages.into_iter().filter(|page| !listed.contains(*page)).collect()
}

/// What is wrong with a link on the page `from`; nothing with one to another site.
fn problem(root: &Path, pages: &BTreeMap<String, String>, from: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let to = if path.is_empty() { from.to_owned() } else { resolved(from, path) };
    if to.starts_with("..") || !pages.contains_key(&to) && !root.join(&to).exists() {
        return Some("there is no such file");
    }
    let missing = |(page, anchor): (&String, &str)| !anchors(page).contains(anchor);
    pages.get(&to).zip(anchor).is_some_and(missing).then_some("the page has no such heading")
}

/// The path from the root of the repository that `path` on the page `from` means.
fn resolved(from: &str, path: &str) -> String {
    let mut to: Vec<&str> = from.split('/').collect();
    to.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // A link out of the repository stays one, and is found to lead nowhere.
            ".." if to.last().is_none_or(|last| *last == "..") => to.push(".."),
            ".." => drop(to.pop()),
            name => to.push(name),
        }
    }
    to.join("/")
}

/// The numbered lines outside of fenced code.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().filter_map(move |(index, text)| {
        let is_fence = text.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, text))
    })
}

/// The line with blanks in the place of `code`.
fn without_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 0 { part } else { " " }).collect()
}

/// Small letters and digits stay, blanks become hyphens, all else but hyphens and underscores goes.
fn anchor_of(heading: &str) -> String {
    let text: String = strip_links(heading).to_lowercase();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// The heading with the text of its links only.
fn strip_links(heading: &str) -> String {
    let mut text = heading.to_owned();
    while let Some(at) = text.find("](") {
        let Some(end) = text[at..].find(')') else { break };
        text.replace_range(at..=at + end, "");
        if let Some(opening) = text[..at].rfind('[') {
            text.remove(opening);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Top\n\nSee [`a` b](other.md#two-words) and ![p](p.svg), `[no](link)`.\n\n```\n[no](fence)\n# no heading\n```\n## Two words: `--x Y`\n## Top\n[up](../x)\n";

    #[test]
    fn links_are_found_outside_of_code() {
        let found = links(PAGE);
        let targets: Vec<(usize, &str)> = found.iter().map(|link| (link.line, link.target.as_str())).collect();
        assert_eq!(targets, [(3, "other.md#two-words"), (3, "p.svg"), (11, "../x")]);
    }

    #[test]
    fn anchors_are_those_of_the_headings() {
        let expected = ["top", "two-words---x-y", "top-1"].map(str::to_owned);
        assert_eq!(anchors(PAGE), HashSet::from(expected));
        assert!(anchors("## [Find](find.md) it").contains("find-it"));
    }

    #[test]
    fn what_leads_nowhere_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = "# A\n[1](Cargo.toml) [2](none) [3](#a) [4](#b) [5](src/lib.rs#L3) [6](../../x) [7](https://x/)";
        let pages = BTreeMap::from([(String::from("page.md"), page.to_owned())]);
        let found: Vec<String> = broken(root, &pages).into_iter().map(|finding| finding.rule).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].contains("`none`") && found[1].contains("`#b`") && found[2].contains("`../../x`"),
            "{found:?}"
        );
    }

    #[test]
    fn pages_that_are_not_listed_are_found() {
        let pages = ["a.md", "b.md"].map(str::to_owned);
        assert_eq!(unlisted("- [A](a.md)", &pages), [&pages[1]]);
    }
}
