//! Findings grouped by kind, with their names and the number of zones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ldplayer_emulate::check::{Finding, Severity};

/// What kinds of findings are called, by words that all of a kind have. Others go by the words that they have in common.
const TITLES: [(&str, &str); 8] = [
    ("expired or not yet valid", "signatures expired or not yet valid"),
    ("the delegation of ", "unreachable delegations"),
    ("resolvers cannot find it", "zones that their parent zone does not delegate"),
    ("is unreachable: none of its name servers", "zones without a reachable name server"),
    ("` is not signed", "record sets without a signature"),
    ("has a signature, but the zone has no keys", "signatures in zones without keys"),
    ("has neither NSEC nor NSEC3 records", "signed zones without NSEC and NSEC3 records"),
    ("the chain of trust is broken in a parent zone", "zones below a broken one"),
];
/// What stands for names, types and numbers, which differ within a kind.
const ANY: &str = "…";

/// Findings of one kind.
pub struct Sum<'a> {
    /// What they are called.
    pub title: String,
    /// All of them, in their order.
    pub findings: Vec<&'a Finding>,
    /// How many files have some.
    pub files: usize,
}

/// Sums findings, in the order of the first ones.
pub fn sum(findings: &[Finding]) -> Vec<Sum<'_>> {
    let mut places: BTreeMap<(bool, &str, String), usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for finding in findings {
        let key = (finding.severity == Severity::Error, finding.check, title(&finding.text));
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(finding);
    }
    groups.into_iter().map(sum_of).collect()
}

fn sum_of(findings: Vec<&Finding>) -> Sum<'_> {
    let files: BTreeSet<&Path> = findings.iter().map(|finding| finding.file.as_path()).collect();
    let title = findings.first().map(|first| title(&first.text)).unwrap_or_default();
    Sum { title, files: files.len(), findings }
}

fn title(text: &str) -> String {
    let known = TITLES.iter().find(|(words, _)| text.contains(words)).map(|&(_, title)| title.to_owned());
    known.unwrap_or_else(|| in_common(text))
}

/// The text without names, types and numbers.
fn in_common(text: &str) -> String {
    let text = text.split_once(" (RFC ").map_or(text, |(before, _)| before);
    let quoted = text.split('`').enumerate().map(|(place, part)| if place % 2 == 0 { part } else { ANY });
    let words = quoted.collect::<String>();
    let mut kept: Vec<&str> = words.split(' ').map(|word| if is_variable(word) { ANY } else { word }).collect();
    kept.dedup_by(|a, b| *a == ANY && *b == ANY);
    kept.join(" ")
}

fn is_variable(word: &str) -> bool {
    let bare = word.trim_end_matches([':', ',', ';', ')']).trim_start_matches('(');
    let is_type = !bare.is_empty() && bare.chars().all(|one| one.is_ascii_uppercase());
    is_type || bare.contains(ANY) || bare.contains(|one: char| one.is_ascii_digit() || matches!(one, '.' | '/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(file: &str, text: &str) -> Finding {
        Finding::warning("load", file.into(), 1, text.to_owned())
    }

    #[test]
    fn findings_of_one_kind_are_summed() {
        let findings = [
            warning(
                "a",
                "the A records of `x.example.` have different TTLs: the lowest is used for all (RFC 2181 5.2)",
            ),
            warning("b", "the delegation of x. is unreachable: none of its name servers has an address in the set"),
            warning("b", "the AAAA records of `y` have different TTLs: the lowest is used for all (RFC 2181 5.2)"),
            warning("b", "the MX records of `z`/`z` have different TTLs: the lowest is used for all (RFC 2181 5.2)"),
        ];
        let sums = sum(&findings);
        let of = |sum: &Sum<'_>| (sum.title.clone(), sum.findings.len(), sum.files);
        let common = "the … records of … have different TTLs: the lowest is used for all".to_owned();
        assert_eq!(of(&sums[0]), (common, 3, 2));
        assert_eq!(of(&sums[1]), ("unreachable delegations".into(), 1, 1));
        assert_eq!(sums.len(), 2);
    }

    #[test]
    fn findings_of_several_kinds_or_severities_are_kept_apart() {
        let error = Finding::error("load", "a".into(), 1, "the delegation of x. is odd".into());
        let other = Finding { check: "nsd", ..error.clone() };
        let findings = [error, other, warning("a", "the delegation of y. is odd"), warning("a", "it is even")];
        assert_eq!(sum(&findings).len(), 4);
    }
}
