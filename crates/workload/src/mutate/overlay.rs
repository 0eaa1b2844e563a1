//! Multiplies clients by overlaying slices of a trace, as DNS Shotgun does.
//!
//! A client is an address within a slice; the same address in another slice is another client, with an address of its own. So the
//! number of clients grows while each behaves as recorded, which replaying at a higher speed would not achieve.

use std::collections::VecDeque;

use ldplayer_core::random::subkey;
use ldplayer_core::shard::client_hash;
use ldplayer_core::{TraceTime, Transaction};
use ldplayer_trace::{Source, Tally, TraceError};

use super::clients::Numbers;
use super::rules::Population;

/// Transactions in a batch.
const BATCH: usize = 4_096;

/// Opens the same trace once more.
pub type Reopen<'a> = &'a dyn Fn() -> Result<Box<dyn Source>, TraceError>;

/// Why slices cannot be overlaid.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace has fewer slices than layers.
    #[error(
        "the trace spans {span_s:.1} s, which is too short for {times} slices of {slice_s} s: choose a shorter slice"
    )]
    Short {
        /// Seconds from the first transaction to the last one.
        span_s: f64,
        /// Number of layers.
        times: u32,
        /// Length of a slice in seconds.
        slice_s: f64,
    },
}

/// Overlays the slices 0 to n−1 of a trace, then n to 2n−1, and so on. An incomplete group at the end is left out.
pub struct Overlay {
    layers: Vec<Layer>,
    numbers: Numbers,
    population: Population,
    /// The tally of the whole trace, since layers end at different places.
    tally: Tally,
}

/// A reader of every n-th slice.
struct Layer {
    source: Box<dyn Source>,
    number: i64,
    place: Place,
    incoming: Vec<Transaction>,
    waiting: VecDeque<Transaction>,
    ended: bool,
}

/// The positions of slices in the trace and in the output.
#[derive(Clone, Copy)]
struct Place {
    first: TraceTime,
    slice: i64,
    times: i64,
    /// Number of slices used.
    used: i64,
}

impl Overlay {
    /// Reads the trace once to find its end, and then opens it for each layer.
    ///
    /// # Errors
    /// When it cannot be read or is too short.
    pub fn open(reopen: Reopen<'_>, population: Population) -> Result<Self, OverlayError> {
        let mut whole = reopen()?;
        let (first, last) = span(&mut *whole)?;
        let tally = whole.tally().clone();
        let times = i64::from(population.times);
        let slices = (last - first) / population.slice;
        let used = slices - slices % times;
        if used == 0 {
            return Err(OverlayError::Short {
                span_s: (last - first) as f64 / 1e9,
                times: population.times,
                slice_s: population.slice as f64 / 1e9,
            });
        }
        let place = Place { first, slice: population.slice, times, used };
        let layers = (0..times).map(|number| {
            let (incoming, waiting) = (Vec::new(), VecDeque::new());
            Ok(Layer { source: reopen()?, number, place, incoming, waiting, ended: false })
        });
        let layers = layers.collect::<Result<_, TraceError>>()?;
        Ok(Self { layers, numbers: Numbers::new(population.pools), population, tally })
    }

    /// Gives clients of all layers but the first addresses of their own, as well as clients whose address is in the pool.
    fn rename(&mut self, mut row: Transaction, layer: i64) -> Transaction {
        let client = row.client.ip();
        if layer > 0 || self.population.pools.of(client).contains(client) {
            let hash = subkey(client_hash(client), layer as u64);
            // A pool with no address left would merge clients; the default pools have room for 16 million.
            if let Ok(fresh) = self.numbers.address(client, hash) {
                row.client.set_ip(fresh);
            }
        }
        row.stream = row.stream.map(|stream| stream.wrapping_mul(self.layers.len() as u64).wrapping_add(layer as u64));
        row
    }
}

/// The times of the first and of the last transaction.
fn span(source: &mut dyn Source) -> Result<(TraceTime, TraceTime), TraceError> {
    let (mut span, mut batch) = (None, Vec::new());
    loop {
        let more = source.read(&mut batch)?;
        for row in batch.drain(..) {
            let (first, last) = span.get_or_insert((row.time, row.time));
            (*first, *last) = ((*first).min(row.time), (*last).max(row.time));
        }
        if !more {
            return Ok(span.unwrap_or_default());
        }
    }
}

impl Place {
    /// The output time of a transaction of a layer; `None` if it belongs to another layer or is left out.
    fn moved(&self, time: TraceTime, layer: i64) -> Option<TraceTime> {
        let elapsed = (time - self.first).max(0);
        let slice = elapsed / self.slice;
        let is_of_layer = slice < self.used && slice % self.times == layer;
        is_of_layer.then(|| self.first + slice / self.times * self.slice + elapsed % self.slice)
    }

    fn is_behind(&self, time: TraceTime) -> bool {
        (time - self.first) / self.slice >= self.used
    }
}

impl Layer {
    /// Refills the buffer, unless there is no more.
    fn fill(&mut self) -> Result<(), TraceError> {
        while self.waiting.is_empty() && !self.ended {
            self.ended = !self.source.read(&mut self.incoming)?;
            for mut row in self.incoming.drain(..) {
                self.ended |= self.place.is_behind(row.time);
                if let Some(time) = self.place.moved(row.time, self.number) {
                    row.time = time;
                    self.waiting.push_back(row);
                }
            }
        }
        Ok(())
    }
}

impl Source for Overlay {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        self.layers.iter_mut().try_for_each(Layer::fill)?;
        for _ in 0..BATCH {
            let front = |layer: &Layer| layer.waiting.front().map(|row| row.time);
            let waiting = self.layers.iter_mut().filter(|layer| front(layer).is_some());
            let Some(layer) = waiting.min_by_key(|layer| front(layer)) else { return Ok(false) };
            let (row, number) = (layer.waiting.pop_front(), layer.number);
            layer.fill()?;
            batch.extend(row.map(|row| self.rename(row, number)));
        }
        Ok(true)
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::Pools;
    use super::*;
    use std::collections::{HashMap, HashSet};

    /// One query a tenth of a second, of ten clients, for `seconds`.
    struct Trace(std::ops::Range<i64>, Tally);

    impl Source for Trace {
        fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
            let row = |number: i64| Transaction {
                index: 0,
                time: TraceTime(5_000_000_000 + number * 100_000_000),
                client: ([if number % 10 < 9 { 192 } else { 10 }, 0, 2, (number % 10) as u8], 99).into(),
                server: "198.51.100.1:53".parse().unwrap(),
                transport: Default::default(),
                stream: Some(7),
                query: None,
                response: None,
                response_delay: None,
                retry_of: None,
            };
            batch.extend(self.0.by_ref().take(7).map(row));
            Ok(!self.0.is_empty())
        }

        fn tally(&self) -> &Tally {
            &self.1
        }
    }

    fn overlay(seconds: i64, times: u32) -> Result<Vec<Transaction>, OverlayError> {
        let population = Population { times, slice: 2_000_000_000, pools: Pools::default() };
        let reopen = || Ok(Box::new(Trace(0..seconds * 10, Tally::default())) as Box<dyn Source>);
        let (mut overlay, mut batch) = (Overlay::open(&reopen, population)?, Vec::new());
        while overlay.read(&mut batch)? {}
        Ok(batch)
    }

    #[test]
    fn the_population_is_multiplied_and_the_pace_is_kept() {
        let rows = overlay(13, 3).unwrap();
        assert_eq!(rows.len(), 120);
        assert!(rows.is_sorted_by_key(|row| row.time));
        assert_eq!(rows[119].time - rows[0].time, 3_900_000_000);
        let clients: HashSet<_> = rows.iter().map(|row| row.client.ip()).collect();
        assert_eq!(clients.len(), 30);
        let mut times: HashMap<_, Vec<i64>> = HashMap::new();
        rows.iter().for_each(|row| times.entry(row.client.ip()).or_default().push(row.time.0));
        assert!(times.values().all(|times| times.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000_000)));
        let streams: HashSet<_> = rows.iter().map(|row| row.stream).collect();
        assert_eq!(streams.len(), 3);
    }

    #[test]
    fn a_short_trace_is_refused() {
        let refusal = overlay(5, 3).unwrap_err().to_string();
        assert!(refusal.contains("spans 4.9 s") && refusal.contains("shorter slice"), "{refusal}");
    }
}
