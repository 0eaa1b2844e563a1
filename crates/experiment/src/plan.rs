//! The plan: the order of the runs, and the time and disk space they need.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ldplayer_core::Transport;
use ldplayer_core::time::Span;
use ldplayer_run::{Load, RunSpec, TransportChoice, load};

use crate::cell::Cell;
use crate::contents::{Contents, digest};
use crate::error::ExperimentError;
use crate::file::Experiment;
use crate::find::Find;

/// More runs than this need a confirmation.
pub const MANY_RUNS: usize = 1_000;
/// Seconds of overhead per run: server start, wait for the last answers, analysis and report.
const OVERHEAD_S: f64 = 3.0;
/// Octets of disk space per query, measured on captures of root servers.
const ROW_OCTETS: u64 = 40;
/// Octets of a run's other files: report, telemetry, run.json.
const REST_OCTETS: u64 = 700_000;
/// Octets of memory of the replay itself.
const MEMORY_BASE: u64 = 60 << 20;
/// Octets of memory per client, without and with connections.
const MEMORY_CLIENT: (u64, u64) = (400, 6_000);

/// A run to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The index of the cell.
    pub cell: usize,
    /// The repeat, from 1.
    pub repeat: u32,
}

/// Estimated cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Queries to be sent.
    pub queries: u64,
    /// Seconds; `None` for an unpaced replay, whose duration depends on the server.
    pub seconds: Option<f64>,
    /// Octets of disk space.
    pub disk: u64,
    /// Peak octets of memory, without the servers'.
    pub memory: u64,
}

/// An experiment with the order and cost of its runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment.
    pub experiment: Experiment,
    /// The output directory.
    pub directory: PathBuf,
    /// The digest of each cell's meaning.
    pub digests: Vec<String>,
    /// The cost of one run of each cell.
    pub estimates: Vec<Estimate>,
    /// The runs, in order.
    pub slots: Vec<Slot>,
}

impl Plan {
    /// Makes the plan: writes the generated trace into the folder `traces`, if any, and reads each trace once.
    ///
    /// # Errors
    /// A trace cannot be made or read.
    pub fn make(mut experiment: Experiment, directory: &Path, traces: &Path) -> Result<Self, ExperimentError> {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        // Digests come before the generated trace has a path, which is not part of a cell's meaning.
        let mut contents = Contents::default();
        let digests = experiment.cells.iter().map(|cell| cell.digest(&experiment.around(), &mut contents)).collect();
        generate(&mut experiment, traces)?;
        let mut known: HashMap<String, [Load; 2]> = HashMap::new();
        let mut estimates = Vec::with_capacity(experiment.cells.len());
        for cell in &experiment.cells {
            let key = without_server(&cell.spec).to_toml();
            // The trials of a search repeat the trace as needed, whatever the warm-up.
            let warm_up = experiment.warm_up.filter(|_| experiment.find.is_none());
            let read = known.get(&key).copied().map_or_else(|| read_load(cell, warm_up), Ok)?;
            if let Some(find) = experiment.find.as_ref().filter(|_| !known.contains_key(&key)) {
                can_begin(find, cell)?;
            }
            let of_search =
                experiment.find.as_ref().map(|find| estimate_search(find, cell, &read[0], experiment.warm_up));
            estimates.push(of_search.unwrap_or_else(|| estimate(cell, &read, &experiment)));
            known.insert(key, read);
        }
        // A search chooses its runs as it goes.
        let repeats = if experiment.find.is_some() { 0 } else { experiment.repeats };
        let slots = order(experiment.cells.len(), repeats);
        Ok(Self { experiment, directory, digests, estimates, slots })
    }

    /// Adds repeats of each cell.
    pub fn repeat(&mut self, more: u32) {
        self.experiment.repeats += more;
        self.slots = order(self.experiment.cells.len(), self.experiment.repeats);
    }

    /// All planned runs; in a search, one entry per cell.
    pub fn all(&self) -> impl Iterator<Item = Slot> {
        let searches = if self.experiment.find.is_some() { order(self.experiment.cells.len(), 1) } else { Vec::new() };
        self.slots.iter().copied().chain(searches)
    }

    /// The total cost of the runs at these positions.
    pub fn total(&self, slots: impl Iterator<Item = Slot>) -> Estimate {
        slots.map(|slot| self.estimates[slot.cell]).fold(
            Estimate { seconds: Some(0.0), ..Estimate::default() },
            |sum, one| Estimate {
                queries: sum.queries + one.queries,
                seconds: sum.seconds.zip(one.seconds).map(|(sum, one)| sum + one),
                disk: sum.disk + one.disk,
                memory: sum.memory.max(one.memory),
            },
        )
    }
}

/// Writes the generated trace for all cells.
fn generate(experiment: &mut Experiment, traces: &Path) -> Result<(), ExperimentError> {
    let Some(generate) = &experiment.generate else { return Ok(()) };
    let failed = |source| ExperimentError::Output { path: traces.to_owned(), source };
    std::fs::create_dir_all(traces).map_err(failed)?;
    let file = traces.join(format!("{}.parquet", digest(generate.text.as_bytes())));
    generate.write(&file)?;
    let word = std::path::absolute(&file).unwrap_or(file).to_string_lossy().into_owned();
    experiment.cells.iter_mut().for_each(|cell| cell.spec.trace = vec![word.clone()]);
    Ok(())
}

/// The queries and duration of a run of a cell, with and without warm-up.
fn read_load(cell: &Cell, warm_up: Option<Span>) -> Result<[Load; 2], ExperimentError> {
    let failed = |source| ExperimentError::Cell { cell: cell.name.clone(), source };
    let all = load(cell.spec.clone()).map_err(failed)?.unwrap_or_default();
    let Some(warm_up) = warm_up else { return Ok([all, all]) };
    let start = Span::from_ns(cell.spec.start.map_or(0, Span::ns) + warm_up.ns());
    let rest = load(RunSpec { start: Some(start), ..cell.spec.clone() });
    let failed = |error| ExperimentError::WarmUp { cell: cell.name.clone(), warm_up, source: Box::new(error) };
    Ok([all, rest.map_err(failed)?.unwrap_or_default()])
}

/// Refuses a search whose first load the trace cannot make.
fn can_begin(find: &Find, cell: &Cell) -> Result<(), ExperimentError> {
    if find.what.is_rate() {
        return Ok(());
    }
    let failed = |source| ExperimentError::Cell { cell: cell.name.clone(), source };
    // What can be read only once, or has no end but by the clock, is known only when it is tried.
    let Some(trace) = load(find.longest(&cell.spec)).map_err(failed)? else { return Ok(()) };
    if trace.clients >= find.start {
        return Ok(());
    }
    Err(ExperimentError::TooFewClients { cell: cell.name.clone(), clients: trace.clients, start: find.start })
}

/// The order of the runs: each cell once, then each once more, so that drift of the machine does not look like a difference of servers.
pub fn order(cells: usize, repeats: u32) -> Vec<Slot> {
    (1..=repeats).flat_map(|repeat| (0..cells).map(move |cell| Slot { cell, repeat })).collect()
}

/// The keys of a specification that determine the length of its trace.
fn without_server(spec: &RunSpec) -> RunSpec {
    RunSpec {
        server: Vec::new(),
        transport: TransportChoice::AsRecorded,
        policy: Default::default(),
        class: Vec::new(),
        expect: Vec::new(),
        tls_port: None,
        tls_ca: None,
        tls_insecure: false,
        tls_name: None,
        ..spec.clone()
    }
}

/// The estimated cost of a cell's search. The server's capacity is unknown, so a small multiple of the first load is assumed.
fn estimate_search(find: &Find, cell: &Cell, trace: &Load, warm_up: Option<Span>) -> Estimate {
    let (trials, seconds) = find.estimate(OVERHEAD_S + warm_up.map_or(0.0, |span| span.ns() as f64 / 1e9 + OVERHEAD_S));
    Estimate {
        queries: 0,
        seconds: Some(seconds.min(find.max_time_s)),
        disk: u64::from(trials) * REST_OCTETS,
        memory: MEMORY_BASE + trace.clients * of_client(cell),
    }
}

/// Octets of memory per client of a cell.
fn of_client(cell: &Cell) -> u64 {
    let has_connections = crate::transports::certain(&cell.spec).iter().any(|transport| *transport != Transport::Udp);
    if has_connections { MEMORY_CLIENT.1 } else { MEMORY_CLIENT.0 }
}

fn estimate(cell: &Cell, [all, load]: &[Load; 2], experiment: &Experiment) -> Estimate {
    let span = all.span_ns.map(|span| span as f64 / 1e9);
    let warm_up = experiment.warm_up.map_or(0.0, |_| OVERHEAD_S);
    Estimate {
        queries: load.queries,
        seconds: span.map(|span| span + warm_up + OVERHEAD_S),
        disk: load.queries * ROW_OCTETS + REST_OCTETS,
        memory: MEMORY_BASE + load.clients * of_client(cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_interleaved() {
        let order: Vec<(usize, u32)> = order(2, 3).iter().map(|slot| (slot.cell, slot.repeat)).collect();
        assert_eq!(order, [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)]);
    }
}
