//! Generates traces from models; the same seed gives the same trace.

mod arrivals;
mod fit;
mod model;
mod names;
mod population;
mod presets;
mod weighted;

use std::net::SocketAddr;
use std::path::PathBuf;

use ldplayer_core::message::{CLASS_IN, Question, flag};
use ldplayer_core::name::BadName;
use ldplayer_core::random::{draw, subkey, unit};
use ldplayer_core::{TraceTime, Transaction, Transport};
use ldplayer_trace::columns::{Columns, Composer};
use ldplayer_trace::{DNS_PORT, Source, Tally, TraceError, unknown_server};

pub use fit::{Fit, Fitted};
pub use model::{MAX_CLIENTS, Model, Stock};
pub use presets::PRESETS;

use arrivals::Arrivals;
use names::Names;
use population::{Client, Population};
use weighted::Weighted;

use crate::mutate::Origin;

/// Queries in a batch.
const BATCH: u64 = 4_096;

/// Number of queries whose clients are chosen at a time.
const AHEAD: u64 = 64;

/// Why a model cannot generate traffic.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The list of names cannot be read.
    #[error("{}: {source}", path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of the list is not a name.
    #[error("{}: line {line}: {source}", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: BadName,
    },
    /// The list has no names.
    #[error("{}: the list has no names", path.display())]
    EmptyList {
        /// The file.
        path: PathBuf,
    },
}

/// The queries of a model.
pub struct Generator {
    arrivals: Arrivals,
    population: Population,
    /// The clients chosen for the next queries, up to the next multiple of [`AHEAD`], and their numbers.
    clients: (Vec<Client>, Vec<usize>),
    names: Names,
    types: (Vec<u16>, Weighted),
    transports: (Vec<Transport>, Weighted),
    sizes: Vec<u16>,
    rd: f64,
    cd: f64,
    start: TraceTime,
    duration: i64,
    queries: u64,
    count: u64,
    keys: [u64; 6],
    composer: Composer,
    name: Vec<u8>,
    tally: Tally,
}

impl Generator {
    /// A generator for a model.
    ///
    /// # Errors
    /// When the list of names cannot be read.
    pub fn new(model: &Model) -> Result<Self, GenerateError> {
        let key = |part: u64| subkey(model.seed, part);
        let query = &model.query;
        Ok(Self {
            arrivals: Arrivals::new(model.rate.clone(), model.is_even, key(1)),
            population: Population::new(&model.clients, query, key(2)),
            clients: Default::default(),
            names: Names::new(&model.names, key(3))?,
            types: split(&model.types),
            transports: split(&query.transports),
            sizes: query.sizes.iter().map(|(size, _)| *size).collect(),
            rd: query.rd,
            cd: query.cd,
            start: model.start,
            duration: model.duration.unwrap_or(i64::MAX),
            queries: model.queries.unwrap_or(u64::MAX),
            count: 0,
            keys: [4, 5, 6, 7, 8, 9].map(key),
            composer: Composer::default(),
            name: Vec::new(),
            tally: Tally::default(),
        })
    }

    /// The next query; `None` after the end of the model.
    fn next(&mut self) -> Option<Transaction> {
        let number = self.count;
        let elapsed = self.arrivals.next();
        if number >= self.queries || elapsed >= self.duration {
            return None;
        }
        self.count += 1;
        let random = |part: usize| draw(self.keys[part], number);
        let (clients, numbers) = &mut self.clients;
        if number.is_multiple_of(AHEAD) {
            let random = (number..number + AHEAD).map(|number| draw(self.keys[0], number));
            self.population.pick(random, numbers, clients);
        }
        let client = clients[(number % AHEAD) as usize];
        let own = self.names.make(&Origin { number, key: self.keys[1], client: client.address }, &mut self.name);
        let qtype = own.unwrap_or_else(|| self.types.0[self.types.1.pick(random(2))]);
        let transport = self.transports.0[self.transports.1.pick(random(3))];
        let bits = random(4);
        let chance = |share: f64, part: u64| {
            if share >= 1.0 || share > 0.0 && unit(subkey(bits, part)) < share { u16::MAX } else { 0 }
        };
        let columns = Columns {
            question: Some(Question { name: &self.name, qtype, qclass: CLASS_IN }),
            flags: flag::RD & chance(self.rd, 1) | flag::CD & chance(self.cd, 2),
            edns: client.edns.then(|| (self.sizes[client.size], client.dnssec_ok)),
        };
        let query = self.composer.compose(&columns, bits as u16);
        let port = 1_024 + (random(5) % (65_536 - 1_024)) as u16;
        Some(Transaction {
            index: 0,
            time: self.start + elapsed,
            client: SocketAddr::new(client.address, port),
            server: SocketAddr::new(unknown_server(client.address), DNS_PORT),
            transport,
            stream: None,
            query: Some(query),
            response: None,
            response_delay: None,
            retry_of: None,
        })
    }
}

/// Splits weighted items into a list and a sampler.
fn split<T: Copy>(weights: &[(T, f64)]) -> (Vec<T>, Weighted) {
    let (things, weights): (Vec<T>, Vec<f64>) = weights.iter().copied().unzip();
    let weighted = Weighted::new(&weights);
    (things, weighted)
}

impl Source for Generator {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        for _ in 0..BATCH {
            let Some(query) = self.next() else { return Ok(false) };
            batch.push(query);
            self.tally.packets += 1;
            self.tally.dns_messages += 1;
            self.tally.queries += 1;
        }
        Ok(true)
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

#[cfg(test)]
mod tests;
