//! The kinds of column values.

mod binary;
mod booleans;
mod dictionary;
mod integers;

pub use binary::Binary;
pub use booleans::Booleans;
pub use dictionary::Dictionary;
pub use integers::{IntegerType, Integers};
