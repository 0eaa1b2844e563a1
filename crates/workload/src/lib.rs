//! From transactions to queries with due times: traces changed by rules, traces made from models, classes of clients and the
//! schedule of a replay.

#![forbid(unsafe_code)]

mod classes;
mod feed;
pub mod generate;
pub mod mutate;
mod nearest;
mod open;
mod plan;
mod spec;

pub use classes::{ClassDraws, ClientClass, check_shares, read_classes};
pub use feed::{FeedOptions, PlanFeed};
pub use open::{WorkloadError, open_source, read_rules};
pub use plan::{PlanOptions, Planner, Timing, UnknownTiming};
pub use spec::BadSpec;
