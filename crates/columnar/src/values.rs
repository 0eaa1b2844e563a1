//! What the values of a column can be.

mod binary;
mod booleans;
mod dictionary;
mod integers;

pub use binary::Binary;
pub use booleans::Booleans;
pub use dictionary::Dictionary;
pub use integers::{IntegerType, Integers};
