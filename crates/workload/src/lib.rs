//! From transactions to queries with due times: traces changed by rules, traces made from models, classes of clients and the
//! schedule of a replay.
//!
//! ```text
//!   trace ──► open_source ──► Mutated ──► Planner ──► ClassDraws ──► Query, in batches
//!             (slices laid    (rules)     (due time)  (how the client
//!              upon each other)                        uses connections)
//!   model ──► Generator ──► transactions          trace ──► Fit ──► model
//! ```
//!
//! [`PlanFeed`] is the first line as a whole: whoever runs a replay takes batches from it. [`mutate`] and [`generate`] are
//! sources of transactions like any trace, so that their output can be written, inspected or replayed.
//!
//! # Contract
//!
//! - Queries come in the order of their due times, which never go back, and the first is due at 0 or later.
//! - The same inputs, rules, classes and seed give the same queries, octet for octet, whatever the number of threads or hosts.
//! - Draws that depend on the order of the trace (shares of rules, classes of clients, random gaps) are made **before** queries
//!   are split over workers and hosts: each host reads the whole trace and leaves out what is not its own. Behind the split they
//!   would be others; the tests in `tests/feed.rs` show both.
//! - The index of a query is its row in the inputs, whatever rules do: what they drop leaves a gap, copies share a row.
//! - Memory does not grow with the trace. It grows with clients: eight octets for each client of a share `per = "client"` or of
//!   classes. Rules that move transactions in time hold back 128 k of them at most.
//! - Nothing here sends, waits or looks at a clock.
//!
//! # Limitations
//!
//! Rules see one transaction at a time: no rule can depend on an earlier answer. A trace whose rules have a `[population]` is
//! read several times at once and so must be a file. Two clients that share a hash of 58 bits have the same class.
//!
//! # Example
//!
//! ```
//! use ldplayer_trace::Input;
//! use ldplayer_workload::{FeedOptions, PlanFeed, PlanOptions, Timing};
//!
//! let folder = tempfile::tempdir()?;
//! let list = folder.path().join("queries.txt");
//! std::fs::write(&list, "example. A\nexample. NS\nwww.example. AAAA\n")?;
//!
//! let plan = PlanOptions { timing: "rate:1k".parse::<Timing>()?, ..PlanOptions::default() };
//! let mut feed = PlanFeed::open(&FeedOptions { plan, ..FeedOptions::of(vec![Input::File(list)]) })?;
//! let mut queries = Vec::new();
//! while feed.next(&mut queries)? {}
//! let due: Vec<i64> = queries.iter().map(|query| query.due.0).collect();
//! assert_eq!(due, [0, 1_000_000, 2_000_000]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//!
//! From transactions to queries with due times. `mutate/` changes transactions by rules, `anonymise.rs` takes their clients out, `generate/` makes them from models and
//! fits models to them, `passes.rs` goes through a trace several times, `plan.rs` turns them into queries, `waits.rs` has some wait for answers to others, `classes.rs` draws
//! what each client is like. Nothing is sent and no time passes.

#![forbid(unsafe_code)]

mod anonymise;
mod classes;
mod feed;
pub mod generate;
pub mod mutate;
mod numbered;
mod open;
mod options;
mod passes;
mod plan;
mod recorded;
mod timing;
mod waits;

pub use anonymise::Anonymiser;
pub use classes::{ClassDraws, ClientClass, check_shares, read_classes};
pub use feed::PlanFeed;
pub use ldplayer_core::spec::{self, BadSpec};
pub use mutate::anonymise::parse_key;
pub use open::{RulesFile, WorkloadError, open_source, read_rules};
pub use options::{BadPasses, FeedOptions, Passes};
pub use plan::{PlanOptions, Planner};
pub use recorded::Recorded;
pub use timing::{BadQps, Qps, Ramp, Timing, UnknownTiming};
