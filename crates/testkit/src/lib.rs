//! Rules of the source and of the pages that the compiler does not check; `tests/` applies them to every file.

#![forbid(unsafe_code)]

pub mod circles;
pub mod links;
pub mod mask;
pub mod rules;
