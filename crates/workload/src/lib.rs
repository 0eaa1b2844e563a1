//! From transactions to queries with due times: traces changed by rules, traces made from models, classes of clients and the
//! schedule of a replay.

#![forbid(unsafe_code)]

mod classes;
pub mod generate;
pub mod mutate;
mod nearest;
mod plan;
mod spec;

pub use classes::{ClassDraws, ClientClass, Habits, TlsVersion, check_shares, read_classes};
pub use plan::{PlanOptions, Planner, Timing, UnknownTiming};
pub use spec::BadSpec;
