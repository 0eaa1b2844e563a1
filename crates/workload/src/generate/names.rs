//! The names of a model: a stock with its popularity, nonexistent names, and names used only once.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use ldplayer_core::name::{self, MAX_LABEL, MAX_NAME};
use ldplayer_core::random::{draw, subkey, unit};
use ldplayer_trace::columns::parse_type;

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
    /// A list.
    Many { list: List, popularity: Weighted },
}

/// Names, each with a type of its own where it has one.
#[derive(Debug)]
struct List {
    /// In wire format, one behind the other.
    wire: Vec<u8>,
    /// Where each begins, and where the last ends.
    starts: Vec<u32>,
    types: Vec<Option<u16>>,
}

impl Names {
    /// Reads or generates the stock.
    pub fn new(names: &model::Names, key: u64) -> Result<Self, GenerateError> {
        let stock = match &names.stock {
            Stock::One(template) => Pile::One(template.clone()),
            Stock::File(path) => pile(read_list(path)?, names),
            Stock::Made(count, suffix) => pile(make_list(*count, suffix), names),
            Stock::Zones(zones) => pile(zones.iter().fold(List::default(), |list, zone| list.with(zone, None)), names),
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

    /// Writes the name of a query to `name`, in wire format. Returns the type where it comes with the name.
    pub fn make(&self, origin: &Origin, name: &mut Vec<u8>) -> Option<u16> {
        let random = |part: u64| draw(subkey(self.key, part), origin.number);
        name.clear();
        if self.absent_share > 0.0 && unit(random(1)) < self.absent_share {
            fill(&self.absent, &[0], origin, name);
            return None;
        }
        match &self.stock {
            Pile::One(template) => fill(template, &[0], origin, name),
            Pile::Many { list, popularity } => {
                let number = popularity.pick(random(2));
                let stock = list.name(number);
                if self.fresh_share > 0.0 && unit(random(3)) < self.fresh_share && stock.len() < MAX_NAME - 22 {
                    fill(&self.fresh, stock, origin, name);
                    return None;
                }
                name.extend_from_slice(stock);
                return list.types[number];
            }
        }
        None
    }
}

/// Applies a template; the root if it yields no valid name.
fn fill(template: &Template, recorded: &[u8], origin: &Origin, name: &mut Vec<u8>) {
    if template.make(recorded, origin, name).is_err() || name.len() > MAX_NAME {
        name.clear();
        name.push(0);
    }
}

impl Default for List {
    fn default() -> Self {
        Self { wire: Vec::new(), starts: vec![0], types: Vec::new() }
    }
}

impl List {
    /// With one more, in wire format.
    fn with(mut self, name: &[u8], qtype: Option<u16>) -> Self {
        self.wire.extend_from_slice(name);
        self.end(qtype);
        self
    }

    /// Ends the name at the end of the octets.
    fn end(&mut self, qtype: Option<u16>) {
        self.starts.push(self.wire.len() as u32);
        self.types.push(qtype);
    }

    fn name(&self, number: usize) -> &[u8] {
        &self.wire[self.starts[number] as usize..self.starts[number + 1] as usize]
    }
}

fn pile(list: List, names: &model::Names) -> Pile {
    let popularity = Weighted::new(&names.popularity.weights(list.types.len()));
    Pile::Many { list, popularity }
}

/// The names of a file, each the first word of a line that is neither empty nor a comment (`#` or `;`), with the type that is the
/// second word, if it is one.
fn read_list(path: &Path) -> Result<List, GenerateError> {
    let file_error = |source| GenerateError::List { path: path.to_owned(), source };
    let mut list = List::default();
    for (number, line) in BufReader::new(File::open(path).map_err(file_error)?).lines().enumerate() {
        let line = line.map_err(file_error)?;
        let mut words = line.split_whitespace();
        let Some(word) = words.next().filter(|word| !word.starts_with(['#', ';'])) else { continue };
        let bad_name = |source| GenerateError::Name { path: path.to_owned(), line: number + 1, source };
        name::parse(word, &mut list.wire).map_err(bad_name)?;
        // A number there is a rank, as lists of popular names have it.
        list.end(words.next().filter(|word| word.starts_with(char::is_alphabetic)).and_then(parse_type));
        if list.types.len() as u64 >= MAX_NAMES {
            break;
        }
    }
    match list.types.is_empty() {
        true => Err(GenerateError::EmptyList { path: path.to_owned() }),
        false => Ok(list),
    }
}

/// Names `n0`, `n1` and so on below a valid suffix.
fn make_list(count: u32, suffix: &str) -> List {
    let mut end = Vec::new();
    if name::parse(suffix, &mut end).is_err() {
        end = vec![0];
    }
    let mut list = List::default();
    for number in 0..count {
        let label = format!("n{number}");
        debug_assert!(label.len() <= MAX_LABEL);
        list.wire.push(label.len() as u8);
        list.wire.extend_from_slice(label.as_bytes());
        list.wire.extend_from_slice(&end);
        list.end(None);
    }
    list
}
