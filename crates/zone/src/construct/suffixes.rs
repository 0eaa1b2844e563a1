//! Public suffixes: names below which registries register names, as the list of publicsuffix.org has them.

use std::collections::HashSet;

use ldplayer_core::name;

use super::names::{Name, Names, ROOT};

/// Where the part of the list ends that registries have.
const END: &str = "===END ICANN DOMAINS===";
const COMMENT: &str = "//";
const WILDCARD: &str = "*.";
const EXCEPTION: &str = "!";

/// The suffixes of a list.
#[derive(Clone, Debug, Default)]
pub struct Suffixes {
    /// Names in wire format.
    names: HashSet<Vec<u8>>,
    /// Names below which every label is a suffix.
    wildcards: HashSet<Vec<u8>>,
    /// Names below those that are none.
    exceptions: HashSet<Vec<u8>>,
}

/// A line that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{text}` is no public suffix (https://publicsuffix.org/list/): {why}")]
pub struct BadSuffix {
    line: usize,
    text: String,
    why: String,
}

impl Suffixes {
    /// Reads a list: a rule a line, up to the first blank; `*.` before a name means every label below it, `!` that it is none. What comes after the
    /// part of registries is ignored, and so are rules in other scripts than that of host names.
    ///
    /// # Errors
    /// The first line that is no rule.
    pub fn parse(text: &str) -> Result<Self, BadSuffix> {
        let mut suffixes = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            if text.contains(END) {
                break;
            }
            let rule = text.split_whitespace().next().unwrap_or_default();
            if !rule.is_empty() && !rule.starts_with(COMMENT) && rule.is_ascii() {
                suffixes.add(rule).map_err(|why| BadSuffix { line, text: text.to_owned(), why })?;
            }
        }
        Ok(suffixes)
    }

    fn add(&mut self, rule: &str) -> Result<(), String> {
        let rules = [(WILDCARD, &mut self.wildcards), (EXCEPTION, &mut self.exceptions), ("", &mut self.names)];
        for (mark, names) in rules {
            if let Some(text) = rule.strip_prefix(mark) {
                let mut wire = Vec::new();
                name::parse(text, &mut wire).map_err(|error| error.to_string())?;
                wire.make_ascii_lowercase();
                names.insert(wire);
                break;
            }
        }
        Ok(())
    }

    /// Whether a name is a public suffix; where no rule says so, a top-level domain is.
    pub(super) fn contains(&self, names: &Names, name: Name) -> bool {
        if name == ROOT {
            return false;
        }
        let wire = names.wire(name);
        let is_below_wildcard = || self.wildcards.contains(names.wire(names.parent(name)));
        !self.exceptions.contains(wire) && (self.names.contains(wire) || is_below_wildcard() || names.depth(name) == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_say_what_a_suffix_is() {
        let text = "// a comment\nuk\nco.uk  since 1996\n\nck\n*.ck\n!www.ck\n公司.cn\n// ===END ICANN DOMAINS===\ngithub.io\n";
        let (suffixes, mut names) = (Suffixes::parse(text).unwrap(), Names::default());
        let mut is_suffix = |text: &str| {
            let mut wire = Vec::new();
            name::parse(text, &mut wire).unwrap();
            let name = names.intern(&wire);
            suffixes.contains(&names, name)
        };
        let (yes, no) = (
            ["uk", "co.uk", "ck", "any.ck", "test"],
            [".", "a.uk", "a.co.uk", "www.ck", "a.any.ck", "github.io", "a.test"],
        );
        assert!(yes.into_iter().all(&mut is_suffix) && !no.into_iter().any(&mut is_suffix));
    }

    #[test]
    fn a_line_that_is_no_rule_is_told() {
        let error = Suffixes::parse("com\n\na..b\n").unwrap_err().to_string();
        assert!(error.starts_with("line 3: `a..b` is no public suffix"), "{error}");
    }
}
