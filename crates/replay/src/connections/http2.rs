//! What versions of HTTP have in common: how clients ask, and the code of strings.

pub mod huffman;
mod request;

pub use self::request::{BadPath, DohMethod, DohSettings, HTTPS_PORT};
