//! Statistics of a rule: matches, changes, edits not made, and the first examples.

use std::collections::BTreeMap;

use serde::Serialize;

use super::action::Work;
use super::edit::EditError;
use super::fields::{NAMES, difference, words};
use super::rules::Rule;
use super::share::{Draws, Per};

/// The counters of a rule.
#[derive(Debug, Default)]
pub struct Account {
    pub matched: u64,
    pub drawn: u64,
    pub changed: u64,
    pub dropped: u64,
    kept: [u64; EditError::ALL.len()],
    pub examples: Vec<Example>,
}

/// A transaction before and after a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Number of the transaction in the trace, from 0.
    pub index: u64,
    /// Its name and type, and each field that differs.
    pub text: String,
}

impl Example {
    /// The change of a transaction from `before`.
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

/// The statistics of a rule, for `--explain`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleAccount {
    /// Name of the rule.
    pub name: String,
    /// Transactions seen by all rules.
    pub of: u64,
    /// Those selected by the rule.
    pub matched: u64,
    /// Those drawn by its share.
    pub drawn: u64,
    /// Those changed.
    pub changed: u64,
    /// `changed` as a share of all transactions, 0 to 1.
    pub share: f64,
    /// Those dropped.
    pub dropped: u64,
    /// Clients (or queries, with `per = "query"`) selected, and those drawn; `None` without a share.
    pub draws: Option<[u64; 2]>,
    /// The unit of draws: `clients` or `queries`.
    pub per: &'static str,
    /// Edits that were not made, by reason.
    pub kept: BTreeMap<&'static str, u64>,
    /// The first changes.
    pub examples: Vec<Example>,
}

impl Account {
    /// Counts an edit that was not made.
    pub fn keep(&mut self, reason: EditError) {
        self.kept[reason as usize] += 1;
    }

    /// Whether to keep one more example.
    pub fn wants_example(&self, wanted: usize) -> bool {
        self.examples.len() < wanted
    }

    /// The account after `rows` transactions.
    pub fn report(&self, rule: &Rule, draws: &Draws, rows: u64) -> RuleAccount {
        let kept = EditError::ALL.into_iter().map(|reason| (reason.as_str(), self.kept[reason as usize]));
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
