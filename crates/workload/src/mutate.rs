//! Changes a stream of transactions by rules; the same seed gives the same result.
//!
//! Rules select transactions as they were read, never as changed by other rules: neither selection nor draws depend on the
//! order of rules. Changes are applied in the order of rules.

mod account;
mod action;
pub(crate) mod anonymise;
mod clients;
mod diff;
mod edit;
mod expr;
mod fields;
mod names;
mod overlay;
mod reorder;
mod rules;
mod share;

use std::net::IpAddr;

use bytes::{Bytes, BytesMut};
use ldplayer_core::damage::Flaw;
use ldplayer_core::{TraceTime, Transaction};
use ldplayer_trace::{Place, Source, Tally, TraceError};

pub use account::{Example, RuleAccount};
pub use clients::Pools;
pub use diff::{Difference, Pairing, compare};
pub use expr::BadExpr;
pub use names::Template;
pub use overlay::{Overlay, OverlayError, Reopen};
pub use rules::{Population, Rules};
pub(crate) use share::Even;
pub use share::{BadShare, Share};

use account::Account;
use action::{Action, Work};
use edit::Editor;
use expr::Seen;
use reorder::Reorder;
use rules::Rule;
use share::Draws;

/// The inputs of generated values.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Number of the transaction in the trace, from 0.
    pub number: u64,
    /// Key of the rule's draws.
    pub key: u64,
    /// Address of the client.
    pub client: IpAddr,
}

/// Applies rules to transactions.
#[derive(Debug)]
pub struct Mutator {
    rulings: Vec<Ruling>,
    scale: Option<f64>,
    first: Option<TraceTime>,
    rows: u64,
    /// Shift of all transactions in nanoseconds.
    common_shift: i64,
    /// Maximum time in nanoseconds by which a transaction may overtake an earlier one.
    back: i64,
    reorder: Option<Reorder>,
    editor: Editor,
    name: Vec<u8>,
    arena: Arena,
    /// Number of examples to keep per rule.
    examples: usize,
}

/// A rule with its state.
#[derive(Debug)]
struct Ruling {
    rule: Rule,
    key: u64,
    draws: Draws,
    account: Account,
}

impl Mutator {
    /// Applies `rules` with all draws from `seed`. Of each rule the first `examples` changes are kept to show.
    pub fn new(rules: Rules, seed: u64, examples: usize) -> Self {
        let rulings: Vec<Ruling> = rules.rules.into_iter().map(|rule| Ruling::new(rule, seed)).collect();
        let moves = Moves::of(&rulings);
        Self {
            rulings,
            scale: rules.time_scale,
            first: None,
            rows: 0,
            common_shift: moves.common,
            back: moves.back,
            reorder: moves.disorders.then(Reorder::default),
            editor: Editor::default(),
            name: Vec::new(),
            arena: Arena::default(),
            examples,
        }
    }

    /// Drains transactions, sorted by time, from `batch`, and appends the results to `out`, sorted by time.
    pub fn apply(&mut self, batch: &mut Vec<Transaction>, out: &mut Vec<Transaction>) {
        if self.rulings.is_empty() && self.scale.is_none() {
            self.rows += batch.len() as u64;
            return out.append(batch);
        }
        out.reserve(batch.len());
        for row in batch.drain(..) {
            let first = *self.first.get_or_insert(row.time);
            let scaled = self.scaled(row.time, first);
            let earliest = scaled + self.common_shift + -self.back;
            self.apply_one(row, first, scaled, out);
            self.rows += 1;
            if let Some(reorder) = &mut self.reorder {
                reorder.release(earliest, out);
            }
        }
    }

    /// Appends the transactions held back for sorting.
    pub fn finish(&mut self, out: &mut Vec<Transaction>) {
        if let Some(reorder) = &mut self.reorder {
            reorder.finish(out);
        }
    }

    /// Transactions seen so far.
    pub const fn transactions(&self) -> u64 {
        self.rows
    }

    /// What each rule did so far.
    pub fn accounts(&self) -> Vec<RuleAccount> {
        self.rulings.iter().map(|ruling| ruling.account.report(&ruling.rule, &ruling.draws, self.rows)).collect()
    }

    /// Transactions emitted out of order, since too many would have had to be held back.
    pub fn late(&self) -> u64 {
        self.reorder.as_ref().map_or(0, Reorder::late)
    }

    fn scaled(&self, time: TraceTime, first: TraceTime) -> TraceTime {
        match self.scale {
            Some(scale) => first + ((time - first) as f64 * scale).round() as i64,
            None => time,
        }
    }

    fn apply_one(&mut self, row: Transaction, first: TraceTime, scaled: TraceTime, out: &mut Vec<Transaction>) {
        self.editor.reset();
        let mut work = Work {
            row: &row,
            number: self.rows,
            editor: &mut self.editor,
            name: &mut self.name,
            time: scaled.0,
            client: row.client,
            server: row.server,
            transport: row.transport,
            stream: row.stream,
            is_dropped: false,
            copies: (0, 0),
            is_other_question: false,
        };
        let seen = Seen::of(&row, first);
        for ruling in &mut self.rulings {
            ruling.apply(&seen, &mut work, self.examples);
        }
        if work.is_dropped {
            return;
        }
        let Work { time, client, server, transport, stream, copies, is_other_question, .. } = work;
        let query = match self.editor.changed() {
            Some(wire) => Some(self.arena.keep(wire)),
            None => row.query,
        };
        let (response, response_delay) =
            if is_other_question { (None, None) } else { (row.response, row.response_delay) };
        let time = TraceTime(time);
        let (index, retry_of) = (row.index, row.retry_of);
        let changed =
            Transaction { index, time, client, server, transport, stream, query, response, response_delay, retry_of };
        self.give(changed, copies, out);
    }

    /// Emits a transaction and its copies, at once or at their time.
    fn give(&mut self, row: Transaction, (copies, gap): (u32, i64), out: &mut Vec<Transaction>) {
        let mut give = |row| match &mut self.reorder {
            None => out.push(row),
            Some(reorder) => reorder.push(row),
        };
        if copies == 0 {
            return give(row);
        }
        let copy = |number: u32| Transaction { time: row.time + gap.saturating_mul(i64::from(number)), ..row.clone() };
        (0..=copies).map(copy).for_each(give);
    }
}

impl Ruling {
    fn new(rule: Rule, seed: u64) -> Self {
        let key = rule.draws_key(seed);
        let draws = Draws::new(rule.share, rule.per, key);
        Self { rule, key, draws, account: Account::default() }
    }

    fn apply(&mut self, seen: &Seen<'_>, work: &mut Work<'_>, examples: usize) {
        if self.rule.filter.as_ref().is_some_and(|filter| !filter.holds(seen)) {
            return;
        }
        self.account.matched += 1;
        if !self.draws.next(seen.row.client.ip()) {
            if self.rule.is_sample {
                work.is_dropped = true;
                self.account.dropped += 1;
            }
            return;
        }
        self.account.drawn += 1;
        let before = self.account.wants_example(examples).then(|| fields::words(&work.so_far()));
        let was_dropped = work.is_dropped;
        let mut changed = false;
        for action in &mut self.rule.actions {
            match action.apply(work, self.key) {
                Ok(did) => changed |= did,
                Err(kept) => self.account.keep(kept),
            }
        }
        self.account.dropped += u64::from(work.is_dropped && !was_dropped);
        self.account.changed += u64::from(changed);
        if changed && let Some(before) = before {
            self.account.examples.push(Example::of(&before, work));
        }
    }
}

/// How rules shift transactions in time.
#[derive(Debug, Default)]
struct Moves {
    common: i64,
    back: i64,
    disorders: bool,
}

impl Moves {
    fn of(rulings: &[Ruling]) -> Self {
        let mut moves = Self::default();
        for Ruling { rule, .. } in rulings {
            for action in &rule.actions {
                match action {
                    Action::Shift(shift) if rule.is_for_all() => moves.common = moves.common.saturating_add(*shift),
                    Action::Shift(shift) => moves.disorder((-shift).max(0)),
                    Action::Jitter(jitter) => moves.disorder(*jitter),
                    Action::Duplicate(_, gap) if *gap > 0 => moves.disorder(0),
                    _ => {}
                }
            }
        }
        moves
    }

    fn disorder(&mut self, back: i64) {
        self.back = self.back.saturating_add(back);
        self.disorders = true;
    }
}

/// Shared memory for messages, to save allocations.
#[derive(Debug, Default)]
struct Arena(BytesMut);

impl Arena {
    const OCTETS: usize = 64 * 1024;

    fn keep(&mut self, octets: &[u8]) -> Bytes {
        if self.0.capacity() < octets.len() {
            self.0 = BytesMut::with_capacity(Self::OCTETS.max(octets.len()));
        }
        self.0.extend_from_slice(octets);
        self.0.split().freeze()
    }
}

/// A source whose transactions are changed by rules.
pub struct Mutated {
    inner: Box<dyn Source>,
    mutator: Mutator,
    incoming: Vec<Transaction>,
    tally: Tally,
}

impl Mutated {
    /// Applies `mutator` to what `inner` yields.
    pub fn new(inner: Box<dyn Source>, mutator: Mutator) -> Self {
        Self { inner, mutator, incoming: Vec::new(), tally: Tally::default() }
    }

    /// The rules with what they did so far.
    pub fn mutator(&self) -> &Mutator {
        &self.mutator
    }
}

impl Source for Mutated {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let more = self.inner.read(&mut self.incoming)?;
        self.mutator.apply(&mut self.incoming, batch);
        if !more {
            self.mutator.finish(batch);
        }
        self.tally.clone_from(self.inner.tally());
        for _ in 0..self.mutator.late() {
            self.tally.damage(Flaw::OutOfOrder, 0, || Place { file: "the rules' output".into(), packet: 0, offset: 0 });
        }
        Ok(more)
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn is_list(&self) -> bool {
        self.inner.is_list()
    }
}

#[cfg(test)]
mod tests;
