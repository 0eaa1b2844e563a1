//! Servers that come as files of `data/servers`: commands that a `kind` may name. `build.rs` lists them.

/// Each with its name and the keys of a server, as a file has them.
const ALL: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/ready_made.rs"));

/// The keys of a server.
pub(crate) fn find(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names of all.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}
