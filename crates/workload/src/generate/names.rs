//! The names of a model: a stock with its popularity, nonexistent names, and names used only once.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use ldplayer_core::name::{self, MAX_LABEL, MAX_NAME};
use ldplayer_core::random::{draw, subkey, unit};

use super::GenerateError;
use super::model::{self, MAX_NAMES, Stock};
use super::weighted::Weighted;
use crate::mutate::{Origin, Template};

/// Generates the names of queries.
#[derive(Debug)]
pub struct Names {
    stock: Pile,
    absent_share: f64,
    absent: Template,
    fresh_share: f64,
    fresh: Template,
    key: u64,
}

/// Names to choose from.
#[derive(Debug)]
enum Pile {
    /// A template.
    One(Template),
    /// Concatenated wire names, and their offsets.
    Many { wire: Vec<u8>, starts: Vec<u32>, popularity: Weighted },
}

impl Names {
    /// Reads or generates the stock.
    pub fn new(names: &model::Names, key: u64) -> Result<Self, GenerateError> {
        let stock = match &names.stock {
            Stock::One(template) => Pile::One(template.clone()),
            Stock::File(path) => pile(read_list(path)?, names),
            Stock::Made(count, suffix) => pile(make_list(*count, suffix), names),
        };
        // The label is the query's number, which is unique.
        let fresh = Template::fresh();
        Ok(Self {
            stock,
            absent_share: names.absent_share,
            absent: names.absent.clone(),
            fresh_share: names.fresh_share,
            fresh,
            key,
        })
    }

    /// Writes the name of a query to `name`, in wire format.
    pub fn make(&self, origin: &Origin, name: &mut Vec<u8>) {
        let random = |part: u64| draw(subkey(self.key, part), origin.number);
        name.clear();
        if self.absent_share > 0.0 && unit(random(1)) < self.absent_share {
            return fill(&self.absent, &[0], origin, name);
        }
        match &self.stock {
            Pile::One(template) => fill(template, &[0], origin, name),
            Pile::Many { wire, starts, popularity } => {
                let number = popularity.pick(random(2));
                let stock = &wire[starts[number] as usize..starts[number + 1] as usize];
                if self.fresh_share > 0.0 && unit(random(3)) < self.fresh_share && stock.len() < MAX_NAME - 22 {
                    return fill(&self.fresh, stock, origin, name);
                }
                name.extend_from_slice(stock);
            }
        }
    }
}

/// Applies a template; the root if it yields no valid name.
fn fill(template: &Template, recorded: &[u8], origin: &Origin, name: &mut Vec<u8>) {
    if template.make(recorded, origin, name).is_err() || name.len() > MAX_NAME {
        name.clear();
        name.push(0);
    }
}

fn pile((wire, starts): (Vec<u8>, Vec<u32>), names: &model::Names) -> Pile {
    let popularity = Weighted::new(&names.popularity.weights(starts.len() - 1));
    Pile::Many { wire, starts, popularity }
}

/// The names of a file, each the first word of a line that is neither empty nor a comment (`#` or `;`).
fn read_list(path: &Path) -> Result<(Vec<u8>, Vec<u32>), GenerateError> {
    let file_error = |source| GenerateError::List { path: path.to_owned(), source };
    let (mut wire, mut starts) = (Vec::new(), vec![0]);
    for (number, line) in BufReader::new(File::open(path).map_err(file_error)?).lines().enumerate() {
        let line = line.map_err(file_error)?;
        let Some(word) = line.split_whitespace().next().filter(|word| !word.starts_with(['#', ';'])) else { continue };
        let bad_name = |source| GenerateError::Name { path: path.to_owned(), line: number + 1, source };
        name::parse(word, &mut wire).map_err(bad_name)?;
        starts.push(wire.len() as u32);
        if starts.len() as u64 > MAX_NAMES {
            break;
        }
    }
    match starts.len() {
        1 => Err(GenerateError::EmptyList { path: path.to_owned() }),
        _ => Ok((wire, starts)),
    }
}

/// Names `n0`, `n1` and so on below a valid suffix.
fn make_list(count: u32, suffix: &str) -> (Vec<u8>, Vec<u32>) {
    let mut end = Vec::new();
    if name::parse(suffix, &mut end).is_err() {
        end = vec![0];
    }
    let (mut wire, mut starts) = (Vec::new(), vec![0]);
    for number in 0..count {
        let label = format!("n{number}");
        debug_assert!(label.len() <= MAX_LABEL);
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
        wire.extend_from_slice(&end);
        starts.push(wire.len() as u32);
    }
    (wire, starts)
}
