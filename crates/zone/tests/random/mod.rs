//! Zones made at random, the same for the same seed: data, wildcards, empty non-terminals, aliases, DNAMEs, delegations with a DS
//! record and without, all at names of few labels so that they meet.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Labels of names: few, so that names share ancestors; some that are odd.
const LABELS: [&str; 9] = ["a", "b", "c", "*", "only", "\\000", "x-1", "\\255z", "_u"];

/// SplitMix64.
pub struct Draw(pub u64);

impl Draw {
    /// A number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ value >> 31) % bound as u64) as usize
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// What a name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Data,
    Alias,
    Redirect,
    /// A delegation without a DS record.
    Insecure,
    /// A delegation to a zone that is signed.
    Secure,
    /// A delegation without a DS record, to a zone that nobody has.
    Lame,
    /// An address below a delegation.
    Glue,
}

/// Names relative to the apex, the last label first, with what they have.
pub struct RandomZone(pub BTreeMap<Vec<&'static str>, Role>);

impl RandomZone {
    /// Some `names` names and fewer: those that cannot stand beside the others are not there.
    pub fn draw(draw: &mut Draw, names: usize) -> Self {
        let mut made = Self(BTreeMap::from([(vec!["www"], Role::Data)]));
        for _ in 0..names {
            let depth = 1 + draw.below(4);
            let name: Vec<&str> = (0..depth).map(|_| draw.of(&LABELS)).collect();
            let role = match draw.below(12) {
                0..=4 => Role::Data,
                5 => Role::Alias,
                6 => Role::Redirect,
                7 | 8 => Role::Insecure,
                9 => Role::Secure,
                _ => Role::Lame,
            };
            made.add(name, role);
        }
        made
    }

    fn add(&mut self, name: Vec<&'static str>, mut role: Role) {
        let hides = |role| !matches!(role, Role::Data | Role::Alias | Role::Glue);
        let has_below = self.0.keys().any(|other| other.len() > name.len() && other.starts_with(&name));
        // What a wildcard that delegates or redirects means is not defined (RFC 4592 §4).
        if hides(role) && (has_below || name.last() == Some(&"*")) {
            return;
        }
        for length in 1..name.len() {
            match self.0.get(&name[..length]) {
                Some(Role::Redirect) => return,
                Some(&above) if hides(above) => role = Role::Glue,
                _ => {}
            }
        }
        // A server of the delegated zone may have more than its apex, and would then answer otherwise than the glue says.
        self.0.entry(name).or_insert(role);
    }

    /// The names of a role, absolute.
    pub fn of_role(&self, apex: &str, wanted: Role) -> Vec<String> {
        self.0.iter().filter(|(_, role)| **role == wanted).map(|(name, _)| absolute(name, apex)).collect()
    }

    /// The names `*`, absolute, that have no records and are there for names below them.
    #[allow(dead_code, reason = "one of the tests that share this needs it")]
    pub fn empty_wildcards(&self, apex: &str) -> Vec<String> {
        let above = self.0.keys().flat_map(|name| (1..name.len()).map(|length| &name[..length]));
        let empty = above.filter(|name| name.last() == Some(&"*") && !self.0.contains_key(*name));
        empty.map(|name| absolute(name, apex)).collect()
    }

    /// The zone file: `server` is its name server and `below` that of the zones that it delegates to; aliases lead to one of `targets`.
    pub fn text(&self, draw: &mut Draw, apex: &str, [server, below]: [&str; 2], targets: &[&str]) -> String {
        let mut text = head(apex, server);
        for (name, role) in &self.0 {
            let owner = absolute(name, apex);
            // Writing to a string cannot fail.
            let _ = match role {
                Role::Data => data(draw, &owner, &mut text),
                Role::Alias => writeln!(text, "{owner} CNAME {}", draw.of(targets)),
                Role::Redirect => writeln!(text, "{owner} DNAME {}", draw.of(targets)),
                Role::Insecure | Role::Secure => writeln!(text, "{owner} NS {below}"),
                Role::Lame => writeln!(text, "{owner} NS ns.nowhere.test."),
                Role::Glue => writeln!(text, "{owner} A 192.0.2.99"),
            };
        }
        text
    }
}

/// What each zone begins with.
pub fn head(apex: &str, server: &str) -> String {
    let below = apex.trim_start_matches('.');
    format!("$TTL 3600\n{apex} SOA {server} hostmaster.{below} 1 3600 900 604800 300\n{apex} NS {server}\n")
}

fn data(draw: &mut Draw, owner: &str, text: &mut String) -> std::fmt::Result {
    for line in ["A 192.0.2.80", "AAAA 2001:db8::80", "TXT \"x\"", "MX 10 mail.test.", "TYPE65280 \\# 2 0102"] {
        if draw.below(3) == 0 {
            writeln!(text, "{owner} {line}")?;
        }
    }
    writeln!(text, "{owner} TXT \"{}\"", draw.below(100))
}

fn absolute(name: &[&str], apex: &str) -> String {
    name.iter().rev().map(|label| format!("{label}.")).collect::<String>() + apex.trim_start_matches('.')
}
