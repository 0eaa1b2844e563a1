//! Statistics of a rule: matches, changes, edits not made, and the first examples.

use std::collections::BTreeMap;

use serde::Serialize;

use super::action::Work;
use super::edit::Kept;
use super::fields::{NAMES, difference, words};
use super::rules::Rule;
use super::share::{Draws, Per};

/// What a rule counts while it works.
#[derive(Debug, Default)]
pub struct Account {
    pub matched: u64,
    pub drawn: u64,
    pub changed: u64,
    pub dropped: u64,
    kept: [u64; Kept::ALL.len()],
    pub examples: Vec<Example>,
}

/// A transaction before and after a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Number of the transaction in the trace, from 0.
    pub index: u64,
    /// Which it is, and each field that differs.
    pub text: String,
}

impl Example {
    /// What became of a transaction that was `before`.
    pub fn of(before: &[String; NAMES.len()], work: &Work<'_>) -> Self {
        let mut text = difference(before, &words(&work.so_far()));
        if work.is_dropped {
            text.push_str(": dropped");
        }
        if let (copies @ 1.., _) = work.copies {
            text.push_str(&format!(", copies {copies}"));
        }
        Self { index: work.number, text }
    }
}

/// What a rule did, for `--explain`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleAccount {
    /// Name of the rule.
    pub name: String,
    /// Transactions seen by all rules.
    pub of: u64,
    /// Those that the rule is for.
    pub matched: u64,
    /// Those that were drawn by its share.
    pub drawn: u64,
    /// Those that it made different.
    pub changed: u64,
    /// `changed` as a share of all transactions, 0 to 1.
    pub share: f64,
    /// Those that it took out.
    pub dropped: u64,
    /// Clients (or queries, with `per = "query"`) that it is for, and those drawn; none without a share.
    pub draws: Option<[u64; 2]>,
    /// What the draws are of: `clients` or `queries`.
    pub per: &'static str,
    /// Edits that were not made, by reason.
    pub kept: BTreeMap<&'static str, u64>,
    /// The first changes.
    pub examples: Vec<Example>,
}

impl Account {
    /// Counts an edit that was not made.
    pub fn keep(&mut self, reason: Kept) {
        self.kept[reason as usize] += 1;
    }

    /// Whether one more example is wanted.
    pub fn wants_example(&self, wanted: usize) -> bool {
        self.examples.len() < wanted
    }

    /// The account after `rows` transactions.
    pub fn report(&self, rule: &Rule, draws: &Draws, rows: u64) -> RuleAccount {
        let kept = Kept::ALL.into_iter().map(|reason| (reason.as_str(), self.kept[reason as usize]));
        let (all, drawn) = draws.counts();
        let changed = self.changed.max(self.dropped);
        RuleAccount {
            name: rule.name.clone(),
            of: rows,
            matched: self.matched,
            drawn: self.drawn,
            changed,
            share: if rows == 0 { 0.0 } else { changed as f64 / rows as f64 },
            dropped: self.dropped,
            draws: (all > 0).then_some([all, drawn]),
            per: match rule.per {
                Per::Client => "clients",
                Per::Query => "queries",
            },
            kept: kept.filter(|&(_, count)| count > 0).collect(),
            examples: self.examples.clone(),
        }
    }
}
