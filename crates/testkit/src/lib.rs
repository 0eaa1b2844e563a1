//! Rules of the source that the compiler does not check; `tests/tidy.rs` applies them to every file.

#![forbid(unsafe_code)]

pub mod mask;
pub mod rules;
