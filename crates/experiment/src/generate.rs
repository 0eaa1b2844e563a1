//! `[generate]`: makes the trace of all runs from a model, once per experiment.

use std::fs;
use std::path::{Path, PathBuf};

use ldplayer_core::time::Span;
use ldplayer_trace::{Format, Source, create};
use ldplayer_workload::generate::{Generator, MAX_CLIENTS, Model, PRESETS};
use ldplayer_workload::spec::{BadSpec, Item};

use crate::error::ExperimentError;

/// Keys allowed beside `spec`; without it, the table is a model itself.
const OVERRIDES: [&str; 6] = ["spec", "clients", "qps", "duration", "queries", "seed"];

/// A trace to be generated.
#[derive(Clone, Debug)]
pub struct Generate {
    /// The text of the model and of its overrides, which identifies the trace.
    pub text: String,
    model: Model,
}

impl Generate {
    /// Reads the table: a preset or file in `spec` with overrides, or a whole model.
    pub(crate) fn read(item: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<Self, BadSpec> {
        let table = item.table()?;
        let own = item.value()?.to_string();
        let Some(spec) = table.get("spec") else {
            // An inline model, as printed by `ldplayer generate --print`.
            let text = item.value()?;
            let text = toml::to_string(&text).unwrap_or_default();
            let model = Model::parse(&text, &place(".")).map_err(|error| item.bad(error.what))?;
            return Ok(Self { text, model });
        };
        let (text, folder) = model_text(&spec, place)?;
        let mut model = Model::parse(&text, &folder).map_err(|error| spec.bad(error))?;
        for given in table.items(&OVERRIDES)? {
            lay_over(&mut model, &given)?;
        }
        Ok(Self { text: format!("{text}\n{own}"), model })
    }

    /// Writes the trace, unless it exists.
    ///
    /// # Errors
    /// The trace cannot be written, or is empty.
    pub fn write(&self, file: &Path) -> Result<(), ExperimentError> {
        if file.exists() {
            return Ok(());
        }
        let failed = |what: String| ExperimentError::Trace { file: file.to_owned(), what };
        let mut generator = Generator::new(&self.model).map_err(|error| failed(error.to_string()))?;
        let mut sink = create(file, Format::Parquet, true).map_err(|error| failed(error.to_string()))?;
        let (mut batch, mut more, mut count) = (Vec::new(), true, 0);
        while more {
            more = generator.read(&mut batch).map_err(|error| failed(error.to_string()))?;
            count += batch.len();
            sink.write(&mut batch).map_err(|error| failed(error.to_string()))?;
            batch.clear();
        }
        if count == 0 {
            return Err(failed("the model ends before its first query: use a longer duration".to_owned()));
        }
        sink.finish().map(drop).map_err(|error| failed(error.to_string()))
    }
}

/// The text of a preset or file, and the folder of its lists.
fn model_text(spec: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<(String, PathBuf), BadSpec> {
    let word = spec.text()?;
    if let Some((_, text)) = PRESETS.iter().find(|(name, _)| *name == word) {
        return Ok(((*text).to_owned(), PathBuf::new()));
    }
    let path = place(word);
    let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    let text = fs::read_to_string(&path)
        .map_err(|_| spec.bad(format!("`{word}` is neither a readable file nor one of {}", names.join(", "))))?;
    Ok((text, path.parent().map(Path::to_owned).unwrap_or_default()))
}

fn lay_over(model: &mut Model, given: &Item<'_>) -> Result<(), BadSpec> {
    match given.key {
        "clients" => model.clients.count = given.integer(1..=MAX_CLIENTS)? as u32,
        "qps" => model.rate = model.rate.clone().scaled_to(given.positive()?),
        "duration" => model.duration = Some(given.parsed(str::parse::<Span>)?.ns()),
        "queries" => model.queries = Some(given.integer(1..=u64::MAX)?),
        "seed" => model.seed = given.integer(0..=u64::MAX)?,
        _ => {}
    }
    Ok(())
}
