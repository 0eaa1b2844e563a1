//! Converts the columns of a Parquet trace from the types that other programs may use.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use bytes::Bytes;
use ldplayer_core::Transport;

/// Stands for a missing number.
const NULL: i64 = i64::MIN;
/// Stands for a fraction in a column of whole numbers; out of range for everything but times.
const NOT_WHOLE: f64 = -1.0;

/// The kind of values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A time.
    Time,
    /// A whole number; programs without nullable integers write floating point.
    Number,
    /// Text with few distinct values, read as a dictionary.
    Word,
    /// Text, mostly distinct.
    Text,
    /// A mnemonic or its number.
    WordOrNumber,
    /// Octets.
    Octets,
    /// True or false.
    Truth,
}

impl Kind {
    /// The type to read a column of type `found` as; `None` if it cannot hold such values.
    pub fn read_as(self, found: &DataType) -> Option<DataType> {
        let word = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        if *found == DataType::Null {
            return Some(DataType::Null); // as some programs write a column without values
        }
        match self {
            Self::Time => (matches!(found, DataType::Timestamp(..)) || is_number(found)).then(|| found.clone()),
            Self::Number => is_number(found).then(|| found.clone()),
            Self::Truth => (*found == DataType::Boolean || is_number(found)).then(|| found.clone()),
            Self::Word => is_octets(found).then(word),
            Self::WordOrNumber if is_number(found) => Some(found.clone()),
            Self::WordOrNumber => is_octets(found).then(word),
            // Views share the page and the dictionary: a value that many rows have is there once.
            Self::Text => is_octets(found).then_some(DataType::Utf8View),
            Self::Octets => is_octets(found).then_some(DataType::BinaryView),
        }
    }

    /// The expected type, for error messages.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Time => "a timestamp",
            Self::Number => "a whole number",
            Self::Word | Self::Text => "text",
            Self::WordOrNumber => "text or a number",
            Self::Octets => "binary",
            Self::Truth => "true or false",
        }
    }
}

fn is_number(found: &DataType) -> bool {
    found.is_integer() || matches!(found, DataType::Float32 | DataType::Float64)
}

fn is_octets(found: &DataType) -> bool {
    match found {
        DataType::Dictionary(_, values) => is_octets(values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        _ => false,
    }
}

/// Whole numbers, possibly missing.
pub(crate) struct Numbers(Vec<i64>);

impl Numbers {
    /// No column.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// The numbers of a column of [`Kind::Number`] or [`Kind::Truth`].
    pub fn of(array: &dyn Array) -> Self {
        Self(match array.data_type() {
            DataType::Int8 => collect::<Int8Type>(array, i64::from),
            DataType::Int16 => collect::<Int16Type>(array, i64::from),
            DataType::Int32 => collect::<Int32Type>(array, i64::from),
            DataType::Int64 => collect::<Int64Type>(array, |value| value),
            DataType::UInt8 => collect::<UInt8Type>(array, i64::from),
            DataType::UInt16 => collect::<UInt16Type>(array, i64::from),
            DataType::UInt32 => collect::<UInt32Type>(array, i64::from),
            DataType::UInt64 => collect::<UInt64Type>(array, |value| value as i64),
            DataType::Float32 => collect::<Float32Type>(array, |value| whole(f64::from(value))),
            DataType::Float64 => collect::<Float64Type>(array, whole),
            DataType::Boolean => array.as_boolean().iter().map(|value| value.map_or(NULL, i64::from)).collect(),
            _ => vec![NULL; array.len()],
        })
    }

    /// Times in nanoseconds since 1970, as are bare numbers. Missing if out of range.
    pub fn times(array: &dyn Array) -> Self {
        let scaled = |scale: i64| move |value: i64| value.checked_mul(scale).unwrap_or(NULL);
        Self(match array.data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, _) => collect::<TimestampNanosecondType>(array, |value| value),
            DataType::Timestamp(TimeUnit::Microsecond, _) => collect::<TimestampMicrosecondType>(array, scaled(1_000)),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                collect::<TimestampMillisecondType>(array, scaled(1_000_000))
            }
            DataType::Timestamp(TimeUnit::Second, _) => collect::<TimestampSecondType>(array, scaled(1_000_000_000)),
            _ => return Self::of(array),
        })
    }

    /// The number of a row.
    pub fn get(&self, row: usize) -> Option<i64> {
        self.0.get(row).copied().filter(|&value| value != NULL)
    }
}

/// `NaN` is how some programs write a missing number.
fn whole(value: f64) -> i64 {
    if value.is_nan() {
        return NULL;
    }
    (if value.fract() == 0.0 { value } else { NOT_WHOLE }) as i64
}

fn collect<T: ArrowPrimitiveType>(array: &dyn Array, convert: impl Fn(T::Native) -> i64) -> Vec<i64> {
    let array: &PrimitiveArray<T> = array.as_primitive();
    if array.null_count() == 0 {
        return array.values().iter().map(|&value| convert(value)).collect();
    }
    array.iter().map(|value| value.map_or(NULL, &convert)).collect()
}

/// Words parsed once per dictionary rather than once per row.
pub(crate) struct Words<T> {
    parse: fn(&str) -> Option<T>,
    /// The dictionary behind `parsed`; held so that its address is not reused.
    values: Option<ArrayRef>,
    parsed: Vec<Cell<T>>,
    /// The cells of the batch, looked up together so that memory accesses overlap.
    cells: Vec<Cell<T>>,
}

/// A cell of [`Words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell<T> {
    /// Null or empty, or there is no such column.
    Missing,
    /// Not what the column should hold.
    Bad,
    /// The value.
    Given(T),
}

impl<T: Copy> Words<T> {
    /// No column yet; its cells will be read by `parse`.
    pub fn new(parse: fn(&str) -> Option<T>) -> Self {
        Self { parse, values: None, parsed: Vec::new(), cells: Vec::new() }
    }

    /// Takes the next batch of the column, read as [`Kind::Word`].
    pub fn load(&mut self, array: Option<&ArrayRef>) {
        self.cells.clear();
        let Some(words) = array.and_then(|array| array.as_dictionary_opt::<Int32Type>()) else { return };
        if !self.values.as_ref().is_some_and(|held| same(held, words.values())) {
            let values = words.values();
            self.parsed.clear();
            self.parsed.extend((0..values.len()).map(|key| Cell::of(text(values, key), self.parse)));
            self.values = Some(values.clone());
        }
        let cell = |key: i32| self.parsed.get(key as usize).copied().unwrap_or(Cell::Missing);
        match words.keys().null_count() {
            0 => self.cells.extend(words.keys().values().iter().map(|&key| cell(key))),
            _ => self.cells.extend(words.keys().iter().map(|key| key.map_or(Cell::Missing, cell))),
        }
    }

    /// The cell of a row.
    pub fn get(&self, row: usize) -> Cell<T> {
        self.cells.get(row).copied().unwrap_or(Cell::Missing)
    }
}

/// An entry of a dictionary, which holds octets if the file does not declare them as text.
fn text(values: &ArrayRef, key: usize) -> Option<&str> {
    if key >= values.len() || values.is_null(key) {
        return None;
    }
    match values.as_string_opt::<i32>() {
        Some(texts) => Some(texts.value(key)),
        // Octets that are not UTF-8 are bad values, not missing ones.
        None => Some(std::str::from_utf8(values.as_binary_opt::<i32>()?.value(key)).unwrap_or("\u{fffd}")),
    }
}

impl<T> Cell<T> {
    /// The meaning of a word.
    fn of(word: Option<&str>, parse: fn(&str) -> Option<T>) -> Self {
        match word {
            None | Some("") => Self::Missing,
            Some(word) => parse(word).map_or(Self::Bad, Self::Given),
        }
    }

    /// The value, or `default` where it is missing; `None` where it is bad.
    pub fn or(self, default: T) -> Option<T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Missing => Some(default),
            Self::Bad => None,
        }
    }
}

/// Whether two dictionaries share memory.
fn same(a: &ArrayRef, b: &ArrayRef) -> bool {
    a.to_data().ptr_eq(&b.to_data())
}

/// Mnemonics in a dictionary, or numbers.
pub(crate) enum Codes {
    Words(Words<u16>),
    Numbers(Numbers),
}

impl Codes {
    /// No column yet; its words will be read by `parse`.
    pub fn new(parse: fn(&str) -> Option<u16>) -> Self {
        Self::Words(Words::new(parse))
    }

    /// Takes the next batch of the column, read as [`Kind::WordOrNumber`].
    pub fn load(&mut self, array: Option<&ArrayRef>) {
        match (array, &mut *self) {
            (Some(array), _) if is_number(array.data_type()) => *self = Self::Numbers(Numbers::of(array)),
            (array, Self::Words(words)) => words.load(array),
            (_, Self::Numbers(numbers)) => *numbers = Numbers(Vec::new()),
        }
    }

    /// The cell of a row.
    pub fn get(&self, row: usize) -> Cell<u16> {
        match self {
            Self::Words(words) => words.get(row),
            Self::Numbers(numbers) => match numbers.get(row).map(u16::try_from) {
                Some(Ok(code)) => Cell::Given(code),
                Some(Err(_)) => Cell::Bad,
                None => Cell::Missing,
            },
        }
    }
}

/// Messages that share the memory of their column.
#[derive(Default)]
pub(crate) struct Messages(Option<(BinaryViewArray, Vec<Bytes>)>);

impl Messages {
    /// The next batch of a column of [`Kind::Octets`].
    pub fn of(array: Option<&ArrayRef>) -> Self {
        Self(array.and_then(|array| array.as_binary_view_opt()).map(|array| {
            let shared = array.data_buffers().iter().map(|buffer| Bytes::from(buffer.clone())).collect();
            (array.clone(), shared)
        }))
    }

    /// The message of a row, if there is one.
    pub fn get(&self, row: usize) -> Option<Bytes> {
        let (array, shared) = self.0.as_ref()?;
        if array.is_null(row) {
            return None;
        }
        // Four words of 32 bits: the length; then, of up to twelve octets, these, and of more their beginning, a buffer and a place in it.
        let view = array.views()[row];
        let [length, _, buffer, start] = [0, 32, 64, 96].map(|shift| (view >> shift) as u32 as usize);
        match length {
            0 => None,
            1..=12 => Some(Bytes::copy_from_slice(array.value(row))),
            length => Some(shared.get(buffer)?.slice(start..start + length)),
        }
    }
}

/// Reads a transport's word.
pub(crate) fn parse_transport(text: &str) -> Option<Transport> {
    text.parse().ok()
}
