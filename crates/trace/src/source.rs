//! Where transactions come from: one trait over every input format.

mod dnsperf;
mod ldplayer;
pub(crate) mod parquet;
mod sort;
pub(crate) mod text;
pub(crate) mod tsv;

use std::path::PathBuf;

use ldplayer_core::Transaction;

use crate::{Tally, TraceError};

/// A stream of transactions, sorted by time within a bounded window.
pub trait Source: Send {
    /// Appends the next batch (some hundreds to some thousands) to `batch`; `false` when the input is exhausted.
    ///
    /// # Errors
    /// What makes further reading impossible. What was yielded before stays valid.
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError>;

    /// What was seen so far.
    fn tally(&self) -> &Tally;
}

/// One input as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// `-`: standard input.
    Stdin,
    /// A file, its format known by its content.
    File(PathBuf),
}

impl From<&str> for Input {
    fn from(word: &str) -> Self {
        if word == "-" { Self::Stdin } else { Self::File(word.into()) }
    }
}

/// How captures are read.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Ports that carry DNS; 53 unless told otherwise.
    pub ports: Vec<u16>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { ports: vec![53] }
    }
}
