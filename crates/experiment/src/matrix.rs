//! The matrix: keys with values, expanded to cells.

use std::collections::BTreeSet;
use std::path::Path;

use ldplayer_core::Transport;
use ldplayer_core::nearest::suggest;
use ldplayer_emulate::stock::HTTPS;
use ldplayer_results::Expectation;
use ldplayer_run::{RunSpec, Server, embed};
use ldplayer_trace::Input;
use ldplayer_workload::spec::{BadSpec, Item, Table};

use crate::cell::{self, Cell};
use crate::keys::SERVER;
use crate::servers::ServerTable;
use crate::stage::{self, Stage};
use crate::transports;
use crate::values::place;
use ldplayer_emulate::stock::Role;

/// Maximum number of cells.
const MAX_CELLS: usize = 100_000;
/// The port of DNS over TLS (RFC 7858).
const DOT_PORT: u16 = 853;

/// A matrix key with its values.
pub(crate) struct Axis<'a> {
    pub key: &'a str,
    pub item: Item<'a>,
    pub values: Vec<Item<'a>>,
    /// The values as labels.
    pub labels: Vec<String>,
}

/// Reads `[matrix]`, in file order.
pub(crate) fn axes<'a>(item: &Item<'a>) -> Result<Vec<Axis<'a>>, BadSpec> {
    let mut items = item.entries()?;
    items.sort_by_key(Item::at);
    items.into_iter().map(axis).collect()
}

fn axis(item: Item<'_>) -> Result<Axis<'_>, BadSpec> {
    let values = if item.is_list() { item.list()? } else { vec![item] };
    if values.is_empty() {
        return Err(item.bad("no values, so the matrix has no cells: add at least one value, or remove the key"));
    }
    let labels: Vec<String> = values.iter().map(|value| Ok(label(&value.value()?))).collect::<Result<_, BadSpec>>()?;
    let mut seen = BTreeSet::new();
    match labels.iter().find(|label| !seen.insert(*label)) {
        Some(twice) => Err(item.bad(format!("`{twice}` is listed twice"))),
        None => Ok(Axis { key: item.key, item, values, labels }),
    }
}

/// The label of a value: strings without quotes, and the elements of a list joined.
fn label(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => values.iter().map(label).collect::<Vec<_>>().join("+"),
        other => other.to_string(),
    }
}

impl Axis<'_> {
    /// Refuses a key that is neither a run key nor a stage key.
    pub(crate) fn ensure_known(&self, run_keys: &[String]) -> Result<(), BadSpec> {
        let mut known: Vec<&str> = run_keys.iter().map(String::as_str).collect();
        known.extend(stage::keys());
        if known.contains(&self.key) {
            return Ok(());
        }
        let what = format!("unknown key `{}`{}", self.key, suggest(self.key, &known));
        Err(BadSpec { line: self.item.line(), what })
    }
}

/// Refuses a value that is invalid for a run.
pub(crate) fn check_run_key(item: &Item<'_>) -> Result<(), BadSpec> {
    let mut table = toml::Table::new();
    table.insert(item.key.to_owned(), item.value()?);
    RunSpec::parse(&as_text(&table)).map(drop).map_err(|error| match error.what.contains(item.key) {
        true => BadSpec { line: item.line(), what: error.what },
        false => item.bad(error.what),
    })
}

/// Serialises a table that was parsed from TOML.
fn as_text(table: &toml::Table) -> String {
    // All keys and values come from TOML.
    toml::to_string(table).unwrap_or_default()
}

/// The parsed file before its cells are made.
pub(crate) struct Parts<'a> {
    /// Run and stage keys common to all cells.
    pub common: Vec<Item<'a>>,
    pub servers: Vec<(ServerTable, Item<'a>)>,
    pub axes: Vec<Axis<'a>>,
    pub exclude: Vec<Table<'a>>,
    pub expect: Vec<Expectation>,
    pub is_generated: bool,
    /// The folder of relative paths.
    pub folder: &'a Path,
}

/// All cells, the first key changing slowest.
pub(crate) fn cells(parts: &Parts<'_>, root: &Table<'_>) -> Result<Vec<Cell>, BadSpec> {
    let lengths = parts.axes.iter().map(|axis| axis.values.len());
    let count = lengths.clone().try_fold(1_usize, usize::checked_mul).filter(|count| *count <= MAX_CELLS);
    let Some(count) = count else {
        let product: Vec<String> = lengths.map(|length| length.to_string()).collect();
        let product = product.join(" x ");
        return Err(root.bad(format!("the matrix has {product} cells, the maximum is {MAX_CELLS}")));
    };
    let exclude = parts.exclude.iter().map(|table| excluded(parts, table)).collect::<Result<Vec<_>, _>>()?;
    let mut cells = Vec::new();
    for number in 0..count {
        let choice = choice(parts, number);
        let is_out = |out: &Vec<(usize, String)>| {
            out.iter().all(|(axis, value)| parts.axes[*axis].labels[choice[*axis]] == *value)
        };
        if !exclude.iter().any(is_out) {
            cells.push(Builder { parts, choice: &choice, root }.cell()?);
        }
    }
    if cells.is_empty() {
        return Err(root.bad("`exclude` removes all cells of the matrix: there is nothing to run"));
    }
    Ok(cells)
}

/// The index of each key's value in the cell of this number.
fn choice(parts: &Parts<'_>, mut number: usize) -> Vec<usize> {
    let mut choice = vec![0; parts.axes.len()];
    for (at, axis) in parts.axes.iter().enumerate().rev() {
        choice[at] = number % axis.values.len();
        number /= axis.values.len();
    }
    choice
}

/// An entry of `exclude`, by index of the key.
fn excluded(parts: &Parts<'_>, table: &Table<'_>) -> Result<Vec<(usize, String)>, BadSpec> {
    let known: Vec<&str> = parts.axes.iter().map(|axis| axis.key).collect();
    let entry = |item: &Item<'_>| {
        let axis = known.iter().position(|key| *key == item.key).unwrap_or_default();
        let value = label(&item.value()?);
        if parts.axes[axis].labels.contains(&value) {
            return Ok((axis, value));
        }
        let values: Vec<&str> = parts.axes[axis].labels.iter().map(String::as_str).collect();
        Err(item.bad(format!("`{value}` is not one of its values in the matrix{}", suggest(&value, &values))))
    };
    table.items(&known)?.iter().map(entry).collect()
}

impl<'a> Parts<'a> {
    /// Adds the servers as the first axis, unless the matrix has one.
    pub(crate) fn add_server_axis(&mut self, root: &Table<'a>) -> Result<(), BadSpec> {
        if self.servers.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.servers.iter().map(|(server, _)| server.name.as_str()).collect();
        if let Some(axis) = self.axes.iter().find(|axis| axis.key == SERVER) {
            let unknown = axis.labels.iter().zip(&axis.values).find(|(label, _)| !names.contains(&label.as_str()));
            return match unknown {
                Some((label, item)) => Err(item.bad(format!("no table [server.{label}]{}", suggest(label, &names)))),
                None => Ok(()),
            };
        }
        let is_backend = |name: &str| self.servers.iter().any(|(other, _)| other.backend.as_deref() == Some(name));
        let asked = self.servers.iter().filter(|(server, _)| !is_backend(&server.name));
        let (labels, values): (Vec<_>, Vec<_>) = asked.map(|(server, item)| (server.name.clone(), *item)).unzip();
        let Some(item) = root.get(SERVER) else { return Ok(()) };
        self.axes.insert(0, Axis { key: SERVER, item, values, labels });
        Ok(())
    }
}

/// Makes one cell.
struct Builder<'a> {
    parts: &'a Parts<'a>,
    choice: &'a [usize],
    root: &'a Table<'a>,
}

impl<'a> Builder<'a> {
    fn cell(&self) -> Result<Cell, BadSpec> {
        let has_servers = !self.parts.servers.is_empty();
        let chosen = self.parts.axes.iter().zip(self.choice);
        let keys: Vec<(String, String)> =
            chosen.map(|(axis, &at)| (axis.key.to_owned(), axis.labels[at].clone())).collect();
        let given: Vec<Item<'a>> = self.given().filter(|item| !(has_servers && item.key == SERVER)).collect();
        let (around, of_run): (Vec<_>, Vec<_>) =
            given.into_iter().partition(|item| stage::keys().any(|key| key == item.key));
        let mut stage = self.stage();
        let at_place = |word: &str| place(self.parts.folder, word);
        stage.take(&around, &at_place)?;
        let mut spec = self.spec(&of_run)?;
        if spec.path.is_packets() {
            stage.lend_link(&mut spec);
        }
        spec.expect.extend(&self.parts.expect);
        self.aim(&mut spec, &stage)?;
        let spec = embed(spec).map_err(|error| self.root.bad(error.to_string()))?;
        self.ensure_possible(&spec, &stage)?;
        let limited = [("server_cpu", spec.server_cpu.is_some()), ("server_cpus", !spec.server_cpus.is_empty())];
        let starts_none = spec.start_server.is_none() && !stage.is_ours();
        if let Some((key, _)) = limited.into_iter().find(|(_, is_given)| *is_given && starts_none) {
            return Err(self.root.bad(format!(
                "{key}: needs a server started by the experiment: add a [server.NAME] table with a kind"
            )));
        }
        Ok(Cell { name: cell::directory_name(&keys), keys, spec, stage })
    }

    /// The items of this cell. A value of a list has the key of the list; a value of a server table has its own.
    fn given(&self) -> impl Iterator<Item = Item<'a>> {
        let has_servers = !self.parts.servers.is_empty();
        let axes =
            self.parts.axes.iter().zip(self.choice).filter(move |(axis, _)| !(has_servers && axis.key == SERVER));
        self.parts.common.iter().copied().chain(axes.map(|(axis, &at)| axis.values[at]))
    }

    fn stage(&self) -> Stage {
        let at = self.parts.axes.iter().zip(self.choice).find(|(axis, _)| axis.key == SERVER);
        let table = |name: &str| -> Option<ServerTable> {
            self.parts.servers.iter().map(|(server, _)| server).find(|server| server.name == name).cloned()
        };
        let server = at.and_then(|(axis, &at)| table(&axis.labels[at]));
        let backend = server.as_ref().and_then(|server| table(server.backend.as_deref()?));
        Stage { server, backend, ..Stage::default() }
    }

    fn spec(&self, given: &[Item<'_>]) -> Result<RunSpec, BadSpec> {
        let mut table = toml::Table::new();
        for item in given {
            table.insert(item.key.to_owned(), item.value()?);
        }
        let mut spec = RunSpec::parse(&as_text(&table)).map_err(|error| self.root.bad(error.what))?;
        let at_place = |path: &std::path::Path| place(self.parts.folder, &path.to_string_lossy());
        for word in &mut spec.trace {
            if let Input::File(file) = Input::from(word.as_str()) {
                *word = at_place(&file).to_string_lossy().into_owned();
            }
        }
        spec.rules.iter_mut().for_each(|rules| rules.file = at_place(&rules.file));
        spec.transport_shares = spec.transport_shares.as_deref().map(at_place);
        spec.tls_ca = spec.tls_ca.as_deref().map(at_place);
        Ok(spec)
    }

    /// Sets the server of the run.
    fn aim(&self, spec: &mut RunSpec, stage: &Stage) -> Result<(), BadSpec> {
        if spec.trace.is_empty() && !self.parts.is_generated {
            return Err(self
                .root
                .bad("no trace: add trace = \"FILE\" at the top level or in the matrix, or a [generate] table"));
        }
        if spec.trace.iter().any(|word| !matches!(Input::from(word.as_str()), Input::File(_))) {
            return Err(self
                .root
                .bad("`trace`: standard input and sockets can be read only once, but an experiment has several runs: use a file"));
        }
        match &stage.server {
            Some(server) if server.role() == Role::Foreign => spec.server.clone_from(&server.address),
            Some(_) if spec.start_server.is_some() => {
                return Err(self.root.bad("`start_server`: an experiment starts its own servers: remove it"));
            }
            // The address is set when the server is started; a run without one would be refused.
            Some(_) => spec.server = vec![Server::Recorded],
            None if spec.server.is_empty() => {
                return Err(self.root.bad("no server: add a [server.NAME] table with a kind, or server = \"ADDR\""));
            }
            None => {}
        }
        if stage.is_ours() {
            spec.tls_port = spec.tls_port.or(Some(DOT_PORT));
            spec.doh_port = spec.doh_port.or(Some(HTTPS));
        }
        Ok(())
    }

    /// Refuses what a server does not support, with the line of its table.
    fn ensure_possible(&self, spec: &RunSpec, stage: &Stage) -> Result<(), BadSpec> {
        let Some(server) = &stage.server else { return Ok(()) };
        let table = self.parts.servers.iter().find(|(other, _)| other.name == server.name);
        let bad = |what: String| table.map_or_else(|| self.root.bad(what.clone()), |(_, item)| item.bad(what.clone()));
        for server in stage.backend.iter().chain([server]) {
            let needs_zones = matches!(server.role(), Role::Authoritative | Role::Resolver);
            if needs_zones && server.zones.is_none() {
                let what = "no zones: add zones = \"DIR\", the zones that it serves, or, for a resolver, those of the emulated Internet";
                return Err(bad(what.to_owned()));
            }
        }
        let speechless = transports::certain(spec).into_iter().find(|&transport| !server.can_speak(transport));
        speechless.map_or(Ok(()), |transport| Err(bad(self.explain_silence(server, transport))))
    }

    fn explain_silence(&self, server: &ServerTable, transport: Transport) -> String {
        let (kind, name) = (server.kind_name(), &server.name);
        let is_chosen = self.parts.axes.iter().any(|axis| axis.key == "transport");
        let exclude = format!("exclude = [{{ server = \"{name}\", transport = \"{transport}\" }}]");
        let ways = match (is_chosen, server.role() == Role::Proxy || !transport.is_encrypted()) {
            (true, true) => format!("remove these cells with {exclude}"),
            (true, false) => format!("add front = \"dnsdist\", or remove these cells with {exclude}"),
            (false, _) => "choose another transport".to_owned(),
        };
        format!("kind {kind} does not speak {transport}: {ways}; for a build that does, add speaks = [...]")
    }
}

impl Parts<'_> {
    /// Refuses keys that are set twice, and keys with invalid values.
    pub(crate) fn check(&self, run_keys: &[String]) -> Result<(), BadSpec> {
        let is_common = |key: &str| self.common.iter().any(|item| item.key == key);
        for axis in &self.axes {
            if is_common(axis.key) {
                return Err(axis.item.bad("is also set at the top level: set it in one place only"));
            }
            if axis.key != SERVER || self.servers.is_empty() {
                axis.ensure_known(run_keys)?;
            }
        }
        let values = self.axes.iter().flat_map(|axis| axis.values.iter()).chain(&self.common);
        // Those of links are read by the stage, whoever makes the link.
        let is_of_runs =
            |key: &str| run_keys.iter().any(|of_runs| of_runs == key) && stage::keys().all(|other| other != key);
        let of_runs = values.filter(|item| is_of_runs(item.key));
        of_runs.filter(|item| item.key != SERVER || self.servers.is_empty()).try_for_each(check_run_key)?;
        let trace = self.axes.iter().map(|axis| axis.item).chain(self.common.iter().copied());
        match trace.into_iter().find(|item| item.key == "trace") {
            Some(trace) if self.is_generated => Err(trace.bad("conflicts with [generate]: remove one of the two")),
            _ => Ok(()),
        }
    }
}
