//! `[generate]`: the trace of all runs made from a model, once for the experiment.

use std::fs;
use std::path::{Path, PathBuf};

use ldplayer_core::time::Span;
use ldplayer_trace::{Format, Source, create};
use ldplayer_workload::generate::{Generator, MAX_CLIENTS, Model, PRESETS};
use ldplayer_workload::spec::{BadSpec, Item};

use crate::error::ExperimentError;

/// Keys that stand beside `spec`; without it, the table is a model itself.
const OVERRIDES: [&str; 6] = ["spec", "clients", "qps", "duration", "queries", "seed"];

/// A trace to be made.
#[derive(Clone, Debug)]
pub struct Generate {
    /// The model and what is laid over it, as they were read: what makes it another one.
    pub text: String,
    model: Model,
}

impl Generate {
    /// Reads the table: a preset or file in `spec` with a few keys over it, or a whole model.
    pub(crate) fn read(item: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<Self, BadSpec> {
        let table = item.table()?;
        let own = item.value()?.to_string();
        let Some(spec) = table.get("spec") else {
            // A model inline, in the words of `ldplayer generate --print`.
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

    /// Writes the trace, unless it is there already.
    ///
    /// # Errors
    /// It cannot be written, or has no query.
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
            return Err(failed("the model ends before its first query: give a longer duration".to_owned()));
        }
        sink.finish().map(drop).map_err(|error| failed(error.to_string()))
    }
}

/// The text of a preset or of a file, and the folder in which its lists are looked for.
fn model_text(spec: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<(String, PathBuf), BadSpec> {
    let word = spec.text()?;
    if let Some((_, text)) = PRESETS.iter().find(|(name, _)| *name == word) {
        return Ok(((*text).to_owned(), PathBuf::new()));
    }
    let path = place(word);
    let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    let text = fs::read_to_string(&path).map_err(|_| {
        spec.bad(format!("`{word}` is neither a file that can be read nor one of {}", names.join(", ")))
    })?;
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
