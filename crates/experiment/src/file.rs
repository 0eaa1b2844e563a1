//! The experiment file: TOML with the keys of runs, of their stage, and of the plan.

use std::fs;
use std::path::Path;

use ldplayer_core::time::Span;
use ldplayer_emulate::stock::Role;
use ldplayer_results::Expectation;
use ldplayer_run::RunSpec;
use ldplayer_workload::spec::{BadSpec, Item, Table, read};

use crate::cell::{Around, Cell};
use crate::error::ExperimentError;
use crate::find::Find;
use crate::gate::Gate;
use crate::generate::Generate;
use crate::keys::{OF_PLANS, SERVER, known_keys};
use crate::matrix::{self, Parts};
use crate::servers::ServerTable;
use crate::values::{expectations, place};

/// The version of the file that this release reads.
const VERSION: u64 = 1;
/// Maximum number of repeats.
const MAX_REPEATS: u64 = 10_000;
/// Default number of retries of disturbed runs.
const RETRIES: u32 = 2;
/// The key of expectations, which runs also have.
const EXPECT: &str = "expect";
/// A parsed experiment file.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// The text of the file.
    pub text: String,
    /// How often each cell is run.
    pub repeats: u32,
    /// How much of the trace warms the server up before each run; these queries are not counted.
    pub warm_up: Option<Span>,
    /// How often a disturbed run is repeated.
    pub max_retries: u32,
    /// The model that generates the trace.
    pub generate: Option<Generate>,
    /// The search that replaces repeats.
    pub find: Option<Find>,
    /// Conditions on cells relative to others.
    pub gate: Option<Gate>,
    /// Matrix keys with their values, in file order.
    pub axes: Vec<(String, Vec<String>)>,
    /// The cells, in matrix order; the first key changes slowest.
    pub cells: Vec<Cell>,
}

impl Experiment {
    /// What identifies its runs besides their cells.
    pub(crate) fn around(&self) -> Around<'_> {
        Around { warm_up: self.warm_up, model: self.generate.as_ref().map(|generate| generate.text.as_str()) }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or has an error, with its line.
    pub fn load(file: &Path) -> Result<Self, ExperimentError> {
        let failed = |source| ExperimentError::Read { file: file.to_owned(), source };
        let text = fs::read_to_string(file).map_err(failed)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let name = file.file_stem().map_or_else(|| "experiment".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Self::parse(&text, folder, &name).map_err(|source| ExperimentError::File { file: file.to_owned(), source })
    }

    /// Parses the text of a file. Relative paths refer to `folder`, or else to the current directory.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn parse(text: &str, folder: &Path, name: &str) -> Result<Self, BadSpec> {
        read(text, |root| Self::of(root, text, folder, name))
    }

    fn of(root: Table<'_>, text: &str, folder: &Path, name: &str) -> Result<Self, BadSpec> {
        let mut experiment = Self {
            name: name.to_owned(),
            text: text.to_owned(),
            repeats: 1,
            warm_up: None,
            max_retries: RETRIES,
            generate: None,
            find: None,
            gate: None,
            axes: Vec::new(),
            cells: Vec::new(),
        };
        let mut parts = Parts {
            common: Vec::new(),
            servers: Vec::new(),
            axes: Vec::new(),
            exclude: Vec::new(),
            expect: Vec::new(),
            is_generated: false,
            folder,
        };
        let run_keys = RunSpec::keys();
        let known: Vec<&str> = known_keys(&run_keys);
        for item in root.items(&known)? {
            match item.key {
                key if OF_PLANS.contains(&key) && (key != SERVER || item.is_table()) => {
                    experiment.take(&item, &mut parts)?;
                }
                EXPECT if item.is_table() => parts.expect = expected(&item)?,
                _ => parts.common.push(item),
            }
        }
        parts.is_generated = experiment.generate.is_some();
        parts.check(&run_keys)?;
        parts.add_server_axis(&root)?;
        experiment.axes = parts.axes.iter().map(|axis| (axis.key.to_owned(), axis.labels.clone())).collect();
        experiment.cells = matrix::cells(&parts, &root)?;
        experiment.ensure_searchable(&root)?;
        if let (Some(gate), Some(item)) = (&experiment.gate, root.get("gate")) {
            gate.check(&item, &experiment.axes, &experiment.cells)?;
        }
        Ok(experiment)
    }

    /// Reads a key of the plan.
    fn take<'a>(&mut self, item: &Item<'a>, parts: &mut Parts<'a>) -> Result<(), BadSpec> {
        match item.key {
            "version" => drop(item.integer(VERSION..=VERSION)?),
            "name" => self.name = name(item)?,
            "repeats" => self.repeats = item.integer(1..=MAX_REPEATS)? as u32,
            "warm_up" => self.warm_up = Some(Span::from_ns(item.span()?)).filter(|span| span.ns() > 0),
            "max_retries" => self.max_retries = item.integer(0..=100)? as u32,
            "generate" => self.generate = Some(Generate::read(item, &|word| place(parts.folder, word))?),
            SERVER => parts.servers = servers(item, parts.folder)?,
            "matrix" => parts.axes = matrix::axes(item)?,
            "exclude" => parts.exclude = item.list()?.iter().map(Item::table).collect::<Result<_, _>>()?,
            "gate" => self.gate = Some(Gate::read(item)?),
            _ => self.find = Some(Find::read(item)?),
        }
        Ok(())
    }

    /// Refuses a search that is not possible for a cell, with its line.
    fn ensure_searchable(&self, root: &Table<'_>) -> Result<(), BadSpec> {
        let (Some(find), Some(item)) = (&self.find, root.get("find")) else { return Ok(()) };
        if self.repeats > 1 {
            return Err(item.bad("a search repeats trials itself, up to `duration_sum`: remove `repeats`"));
        }
        let refused = self.cells.iter().find_map(|cell| Some((cell, find.refuses(cell)?)));
        refused.map_or(Ok(()), |(cell, why)| Err(item.bad(format!("cell {}: {why}", cell.name))))
    }
}

/// A name that is valid as a directory.
fn name(item: &Item<'_>) -> Result<String, BadSpec> {
    let name = item.text()?;
    let is_plain = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) || name.len() > 100 {
        return Err(item.bad("the name becomes a directory: use only letters, digits, hyphens, dots and spaces"));
    }
    Ok(name.to_owned())
}

fn expected(item: &Item<'_>) -> Result<Vec<Expectation>, BadSpec> {
    let table = item.table()?;
    table.items(&["all"])?;
    table.get("all").map_or(Ok(Vec::new()), |all| expectations(&all))
}

/// The servers, in file order.
fn servers<'a>(item: &Item<'a>, folder: &Path) -> Result<Vec<(ServerTable, Item<'a>)>, BadSpec> {
    let mut tables = item.entries()?;
    tables.sort_by_key(Item::at);
    let servers = tables.iter().map(|table| Ok((ServerTable::read(table, &|word| place(folder, word))?, *table)));
    let servers: Vec<(ServerTable, Item<'a>)> = servers.collect::<Result<_, BadSpec>>()?;
    for (server, table) in &servers {
        let Some(backend) = &server.backend else { continue };
        let found = servers.iter().find(|(other, _)| other.name == *backend);
        match found.map(|(other, _)| other.role()) {
            None => return Err(table.bad(format!("backend: no table [server.{backend}]"))),
            Some(Role::Authoritative | Role::Resolver) => {}
            Some(_) => return Err(table.bad(format!("backend: server.{backend} is not started by the experiment"))),
        }
    }
    Ok(servers)
}
