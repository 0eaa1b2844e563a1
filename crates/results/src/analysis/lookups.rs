//! What users saw of clients that react: how long lookups took, and what it cost to make them.

use std::collections::BTreeMap;

use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt16Type, UInt64Type};
use hashbrown::HashMap;
use ldplayer_core::Status;
use ldplayer_core::time::NS_PER_S;

use super::accounts::status;
use super::curve::Curve;
use super::figures::{Point, latency_cdf, per_second};
use super::read::{Batch, RowFiles, at};
use super::spread::Censored;
use super::timeline::add;
use crate::error::ResultsError;
use crate::model;
use crate::store::RunDir;

const COLUMNS: [&str; 7] = ["index", "client", "status", "submitted_ns", "answered_ns", "attempts", "gave_up"];
const OF_ATTEMPTS: [&str; 8] =
    ["index", "client", "server", "status", "submitted_ns", "answered_ns", "rcode", "attempt"];

/// A lookup: row of the trace, and a number for the client.
type Key = (u64, u32);

/// Lookups of a run.
#[derive(Default)]
struct Lookups {
    clients: HashMap<String, u32>,
    times: Censored,
    failed: u64,
    /// Attempts of lookups that had more than one, as far as they were sent.
    retried: HashMap<Key, Vec<Attempt>>,
    packets: u64,
    /// How long attempts took, each by itself.
    attempts: Censored,
    /// Attempts by second: first ones, and retries.
    load: [Vec<u64>; 2],
}

/// What is known of lookups.
pub struct LookupFigures {
    /// The figures of `run.json`.
    pub summary: model::Lookups,
    /// Share of lookups, and of attempts, that were answered within a time.
    pub times: Vec<Point>,
    /// First attempts and retries per second.
    pub load: Vec<Point>,
}

/// An attempt that left.
struct Attempt {
    number: u16,
    submitted: i64,
    server: String,
    status: Status,
    answered: Option<i64>,
    rcode: Option<u16>,
}

/// The lookups of a run that begins at `first`; `None` where no client reacts.
pub fn read(dir: &RunDir, queries: &RowFiles, first: i64) -> Result<Option<LookupFigures>, ResultsError> {
    let attempts = RowFiles::open_attempts(dir)?;
    if attempts.is_empty() {
        return Ok(None);
    }
    let mut lookups = Lookups::default();
    let all = i64::MIN..i64::MAX;
    queries.scan(&COLUMNS, &all, |batch| lookups.add(batch))?;
    attempts.scan(&OF_ATTEMPTS, &all, |batch| lookups.add_attempts(batch, first))?;
    let mut times = latency_cdf(&mut lookups.times, Curve::Lookups);
    times.extend(latency_cdf(&mut lookups.attempts, Curve::Attempts));
    let load = lookups.load_per_second();
    Ok(Some(LookupFigures { times, load, summary: lookups.figures() }))
}

impl Lookups {
    fn add(&mut self, batch: &Batch<'_>) -> Result<(), ResultsError> {
        let Some(attempts) = batch.later_numbers::<UInt16Type>("attempts")? else { return Ok(()) };
        let gave_up = batch.bits("gave_up")?;
        let index = batch.numbers::<UInt64Type>("index")?;
        let client = batch.words::<Int32Type, _>("client", |address| self.client(address))?;
        let submitted = batch.numbers::<Int64Type>("submitted_ns")?;
        let answered = batch.numbers::<Int64Type>("answered_ns")?;
        for row in 0..batch.len() {
            // What was not sent was not asked.
            let (Some(attempts), Some(submitted)) = (at(attempts, row), at(submitted, row)) else { continue };
            let answered = at(answered, row).filter(|_| !gave_up.value(row));
            self.times.push(answered.map(|answered| answered - submitted));
            self.failed += u64::from(gave_up.value(row));
            if attempts > 1
                && let (Some(index), Some(client)) = (at(index, row), client.at(row))
            {
                self.retried.insert((index, client), Vec::new());
            }
        }
        Ok(())
    }

    fn add_attempts(&mut self, batch: &Batch<'_>, first: i64) -> Result<(), ResultsError> {
        let index = batch.numbers::<UInt64Type>("index")?;
        let client = batch.words::<Int32Type, _>("client", |address| self.client(address))?;
        let server = batch.words::<Int32Type, _>("server", |address| address)?;
        let status = batch.words::<Int8Type, _>("status", status)?;
        let submitted = batch.numbers::<Int64Type>("submitted_ns")?;
        let answered = batch.numbers::<Int64Type>("answered_ns")?;
        let rcode = batch.numbers::<UInt16Type>("rcode")?;
        let number = batch.numbers::<UInt16Type>("attempt")?;
        for row in 0..batch.len() {
            let Some(status) = status.at(row).flatten().filter(|status| status.is_query()) else { continue };
            self.packets += 1;
            let sent = at(submitted, row);
            self.attempts.push(at(answered, row).zip(sent).map(|(answered, sent)| answered - sent));
            if let (Some(sent), Some(number)) = (sent, at(number, row)) {
                let second = (sent - first).div_euclid(NS_PER_S);
                add(&mut self.load[usize::from(number > 0)], second, 1);
            }
            let (Some(index), Some(client), Some(number)) = (at(index, row), client.at(row), at(number, row)) else {
                continue;
            };
            let Some(attempts) = self.retried.get_mut(&(index, client)) else { continue };
            attempts.push(Attempt {
                number,
                submitted: sent.unwrap_or_default(),
                server: server.at(row).unwrap_or_default().to_owned(),
                status,
                answered: at(answered, row),
                rcode: at(rcode, row),
            });
        }
        Ok(())
    }

    /// Both curves over the whole of the run: one that ends has not gone to zero.
    fn load_per_second(&mut self) -> Vec<Point> {
        let seconds = self.load.iter().map(Vec::len).max().unwrap_or(0);
        let curves = self.load.iter_mut().zip([Curve::FirstAttempts, Curve::Retries]);
        let drawn = curves.flat_map(|(counts, of)| {
            counts.resize(seconds, 0);
            per_second(counts, of)
        });
        drawn.collect()
    }

    fn client(&mut self, address: &str) -> u32 {
        let next = self.clients.len() as u32;
        *self.clients.entry_ref(address).or_insert(next)
    }

    fn figures(mut self) -> model::Lookups {
        let mut retries_by_reason = BTreeMap::new();
        let mut failovers = 0;
        for attempts in self.retried.values_mut() {
            attempts.sort_by_key(|attempt| attempt.number);
            for pair in attempts.windows(2) {
                failovers += u64::from(pair[0].server != pair[1].server);
                *retries_by_reason.entry(pair[0].reason(&pair[1])).or_default() += 1;
            }
        }
        let asked = self.times.len();
        model::Lookups {
            asked,
            failed: self.failed,
            packets: self.packets,
            attempts: if asked == 0 { 0.0 } else { self.packets as f64 / asked as f64 },
            retries: self.packets.saturating_sub(asked),
            retries_by_reason,
            failovers,
            time_ms: self.times.tail(),
        }
    }
}

impl Attempt {
    /// Why the next attempt followed.
    fn reason(&self, next: &Self) -> String {
        let is_seen = self.answered.is_some_and(|answered| answered <= next.submitted);
        match (self.status, self.rcode) {
            (Status::Answered, Some(rcode)) if is_seen => crate::rcode::name(rcode).to_ascii_lowercase(),
            (Status::Answered | Status::Timeout, _) => Status::Timeout.as_str().to_owned(),
            (status, _) => status.as_str().to_owned(),
        }
    }
}
