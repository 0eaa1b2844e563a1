//! Rows of a run, chosen by a condition, with the columns that are wanted: `ldplayer rows`.

mod condition;
mod view;

use std::path::{Path, PathBuf};

use ldplayer_core::expr::{self, BadExpr, Expr};
use ldplayer_core::nearest::suggest;

use crate::analysis::read::RowFiles;
use crate::error::ResultsError;
use crate::questions::Questions;
use crate::schema;
use crate::store::RunDir;
use condition::{Comparison, compare};
pub use view::Cell;
use view::Views;

/// Columns that are computed from others: each with the time it ends with and the one it begins with.
const COMPUTED: [(&str, &str, &str); 2] =
    [("late_ns", "submitted_ns", "intended_ns"), ("latency_ns", "answered_ns", "submitted_ns")];

/// Columns that the trace has: rows are joined with it by these.
pub(crate) const JOINED: [&str; 2] = ["qname", "qtype"];
/// What rows are joined by.
const JOINED_BY: [&str; 2] = ["index", "intended_ns"];

/// The columns that are shown where none are named: what happened to a query, and how long it took.
const SHOWN: [&str; 11] = [
    "index",
    "client",
    "server",
    "transport",
    "intended_ns",
    "late_ns",
    "latency_ns",
    "status",
    "reason",
    "rcode",
    "response_bytes",
];

/// What is wanted of the rows of a run.
#[derive(Clone, Debug)]
pub struct Selection {
    condition: Option<Expr<Comparison>>,
    columns: Vec<&'static str>,
}

/// A selection that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSelection {
    /// The condition is wrong.
    #[error("--where: {0}")]
    Condition(#[from] BadExpr),
    /// There is no such column.
    #[error("--columns: unknown column `{name}`{near}")]
    Column {
        /// What was asked for.
        name: String,
        /// What was meant, perhaps.
        near: String,
    },
}

impl Selection {
    /// Rows for which the condition holds (all without one), with these columns; without any those that tell most, and with `all` every one.
    ///
    /// # Errors
    /// What is wrong with the condition, or a column that there is not.
    pub fn new(condition: Option<&str>, columns: &[String]) -> Result<Self, BadSelection> {
        let condition = condition.map(|text| expr::parse(text, &compare)).transpose()?;
        let columns = match columns {
            [] => SHOWN.to_vec(),
            [all] if all == "all" => known(),
            named => named.iter().map(|name| column(name)).collect::<Result<_, _>>()?,
        };
        Ok(Self { condition, columns })
    }

    /// The names of the columns, in their order.
    pub fn columns(&self) -> &[&'static str] {
        &self.columns
    }

    /// Whether rows are wanted with what only the trace has.
    pub fn needs_questions(&self) -> bool {
        self.wanted().iter().any(|column| JOINED.contains(column))
    }

    /// Passes on the cells of each selected row of a run, worker by worker, in the order of the ends of queries. Returns the damaged files,
    /// whose rows are missing. Without `questions`, rows have no name and no type.
    ///
    /// # Errors
    /// The directory is no run, a file cannot be read, or whatever `each` fails with.
    pub fn of<E: From<ResultsError>>(
        &self,
        run: &Path,
        questions: Option<&Questions>,
        mut each: impl FnMut(&mut dyn Iterator<Item = Cell<'_>>) -> Result<(), E>,
    ) -> Result<Vec<PathBuf>, E> {
        let directory = RunDir::new(run);
        // Whatever else has no rows is no run without any.
        directory.read::<serde_json::Value>()?;
        let files = RowFiles::open(&directory)?;
        let needed = self.needed();
        let mut failed = None;
        let scanned = files.scan(&needed, &(i64::MIN..i64::MAX), |batch| {
            let views = Views::of(batch, &needed, questions)?;
            for row in 0..batch.len() {
                let holds = |condition: &Expr<Comparison>| condition.holds(&|comparison| comparison.holds(&views, row));
                if failed.is_none() && self.condition.as_ref().is_none_or(holds) {
                    failed = each(&mut self.columns.iter().map(|column| views.cell(column, row))).err();
                }
            }
            // There is nobody to give more to.
            if failed.is_some() { Err(ResultsError::KeeperEnded) } else { Ok(()) }
        });
        match (failed, scanned) {
            (Some(error), _) => Err(error),
            (None, scanned) => scanned.map(|()| files.unreadable).map_err(E::from),
        }
    }

    /// The columns that are shown or compared.
    fn wanted(&self) -> Vec<&'static str> {
        let mut wanted: Vec<&'static str> = self.columns.clone();
        if let Some(condition) = &self.condition {
            collect(condition, &mut wanted);
        }
        wanted
    }

    /// The columns of the files that have to be read.
    fn needed(&self) -> Vec<&'static str> {
        let stored = |name: &'static str| match COMPUTED.iter().find(|(computed, ..)| *computed == name) {
            Some((_, end, begin)) => vec![*end, *begin],
            None if JOINED.contains(&name) => JOINED_BY.to_vec(),
            None => vec![name],
        };
        let mut needed: Vec<&'static str> = self.wanted().into_iter().flat_map(stored).collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }
}

/// Every column that a condition asks for.
fn collect(condition: &Expr<Comparison>, wanted: &mut Vec<&'static str>) {
    match condition {
        Expr::And(a, b) | Expr::Or(a, b) => [a, b].into_iter().for_each(|part| collect(part, wanted)),
        Expr::Not(inner) => collect(inner, wanted),
        Expr::Is(comparison) => wanted.push(comparison.column()),
    }
}

/// All columns, the files' first.
fn known() -> Vec<&'static str> {
    let stored = schema::NAMES.iter().copied();
    stored.chain(COMPUTED.iter().map(|(name, ..)| *name)).collect()
}

fn column(name: &str) -> Result<&'static str, BadSelection> {
    let known: Vec<&'static str> = known().into_iter().chain(JOINED).collect();
    // Durations go by their name alone, too, as in conditions.
    let found = known.iter().find(|known| **known == name || known.strip_suffix("_ns") == Some(name)).copied();
    found.ok_or_else(|| BadSelection::Column { name: name.to_owned(), near: suggest(name, &known) })
}
