//! Which names, types, zones and clients stand out, in run.json.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What stands out of the queries of a run, by what was asked and who asked. Names are those of the trace after rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Names {
    /// Queries whose question is known.
    pub joined: u64,
    /// Answers slower than a percentile of the run.
    pub slow: StandOut,
    /// Answers with an RCODE other than NOERROR and NXDOMAIN, and queries that failed otherwise than by a timeout.
    pub failing: StandOut,
    /// Queries without an answer in time.
    pub timed_out: StandOut,
    /// What slow answers are slower than.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than: Option<Threshold>,
}

/// From where on an answer is slow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The percentile of answered queries, by its name in run.json.
    pub percentile: String,
    /// Its value in milliseconds.
    pub ms: f64,
}

/// Queries with something in common that is worth a look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StandOut {
    /// How many they are, of those with a known question.
    pub queries: u64,
    /// By `name`, `domain` (two labels), `tld` (one label), `type` and `client`: those with most of them, the first first.
    pub by: BTreeMap<String, Vec<Top>>,
}

/// A name, type, zone or client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Top {
    /// Which.
    pub value: String,
    /// Its queries of this kind.
    pub queries: u64,
    /// Their share of all queries of this kind, from 0 to 1.
    pub share: f64,
    /// All of its queries.
    pub of: u64,
    /// Its slowest answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowest_ms: Option<f64>,
}

/// A file of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceFile {
    /// Where it was.
    pub file: PathBuf,
    /// Its size in octets.
    pub octets: u64,
    /// SHA-256 of its octets in hexadecimal digits; `null` of a file that is too large to be read for it alone.
    pub sha256: Option<String>,
}
