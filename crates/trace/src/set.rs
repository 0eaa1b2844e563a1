//! Data sets: folders of Parquet traces by hour and by shard of the clients, made of many inputs.
//!
//! ```text
//! SET/hour=2024-04-09_13/shard=2/PART-0.parquet   rows of one input, of one hour (UTC) and one shard
//! SET/_manifest/PART.json                         what became of that input; written last
//! SET/_unfinished-PART/                           what is being written
//! ```
//!
//! `source/folder.rs` reads it. Spark, DuckDB and Polars read `hour` and `shard` from the names of the folders, and pass over names that begin with `_`.

mod part;

pub use crate::manifest::{Manifest, Part, PartFile, Settings, Span, all_files, files_below};
pub use part::{PartWriter, fingerprint};

use std::path::PathBuf;

use jiff::Timestamp;
use ldplayer_core::TraceTime;

use crate::manifest::HOUR;

/// What the name of the folder of a part begins with that is being written.
const UNFINISHED: &str = "_unfinished-";
/// In nanoseconds.
const HOUR_NS: i64 = 3_600_000_000_000;

/// The number of an hour since 1970.
const fn hour_of(time: TraceTime) -> i64 {
    time.0.div_euclid(HOUR_NS)
}

/// The folder of an hour and a shard: the hour in UTC, so that names sort by time.
fn folder(hour: i64, shard: usize) -> PathBuf {
    let begin = Timestamp::from_nanosecond(i128::from(hour) * i128::from(HOUR_NS)).unwrap_or_default();
    PathBuf::from(format!("{HOUR}{}", begin.strftime("%Y-%m-%d_%H"))).join(format!("shard={shard}"))
}

#[cfg(test)]
mod tests;
