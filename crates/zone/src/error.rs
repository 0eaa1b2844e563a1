//! What can be wrong with a zone file, and where.

use std::path::PathBuf;

/// A zone that cannot be loaded. One line: the file, the line, what is wrong.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file that cannot be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An entry that is none.
    #[error("{}:{line}: {problem}", file.display())]
    Entry {
        /// The file, or an included one.
        file: PathBuf,
        /// The line, from 1.
        line: u32,
        /// What is wrong there.
        problem: Problem,
    },
    /// A zone that cannot be served, with all entries in order.
    #[error("{}: {problem}", file.display())]
    Zone {
        /// The zone's file.
        file: PathBuf,
        /// What is wrong with the whole.
        problem: Problem,
    },
}

/// What is wrong with an entry or with a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A field that cannot be read as what stands at its place.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// What stands at this place.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// An entry that ends before its last field.
    #[error("the entry ends where {0} is expected")]
    Ends(&'static str),
    /// More fields than the type has.
    #[error("`{0}` is more than the record has fields")]
    Trailing(String),
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] ldplayer_core::name::BadName),
    /// A relative name, or `@`, without an origin.
    #[error("relative name `{0}` without $ORIGIN: give the origin of the zone")]
    NoOrigin(String),
    /// A first entry that starts with a blank.
    #[error("the entry starts with a blank, and no owner name stands before it")]
    NoOwner,
    /// A record before any TTL.
    #[error("the record has no TTL: give one, or $TTL before it")]
    NoTtl,
    /// Two classes in a file (RFC 1035 §5.2).
    #[error("class {found} in a zone of class {zone} (RFC 1035 5.2)")]
    Class {
        /// The class of the zone.
        zone: u16,
        /// The class found.
        found: u16,
    },
    /// A type without a grammar for its data.
    #[error("{0} is known by its number only: write its data as \\# LENGTH HEX (RFC 3597)")]
    NoGrammar(String),
    /// A type that no zone holds, such as OPT and ANY.
    #[error("{0} is no type for a zone")]
    MetaType(String),
    /// Data in the form of RFC 3597 whose length is another one.
    #[error("the data has {found} octets, its length says {said} (RFC 3597 5)")]
    Length {
        /// The length given.
        said: usize,
        /// The length of the data.
        found: usize,
    },
    /// Octets that are no data of the type.
    #[error("the octets are no data of type {0}")]
    Data(String),
    /// Data longer than a record can hold.
    #[error("the data has {0} octets; a record holds 65535")]
    Long(usize),
    /// A character string longer than 255 octets.
    #[error("a character string has {0} octets; it holds 255 (RFC 1035 3.3)")]
    LongString(usize),
    /// A parenthesis that is not closed, or closed twice.
    #[error("a parenthesis that does not match another")]
    Parenthesis,
    /// A string without its closing quote.
    #[error("a quoted string is not closed")]
    Quote,
    /// An unknown directive.
    #[error("unknown directive `{0}`: there are $ORIGIN, $TTL, $INCLUDE and $GENERATE")]
    Directive(String),
    /// A file that includes itself, directly or through others.
    #[error("`{0}` includes itself")]
    IncludeCycle(String),
    /// More records than `$GENERATE` may make.
    #[error("$GENERATE makes more than {0} records of this zone: write a zone file of them")]
    Generated(u64),
    /// An included file that is out of the folder of the zone file; the path as it is written.
    #[error(
        "`{0}` is out of the folder of the zone file: only files below it are included (serve, zones check, zones sign and zones views have --include-anywhere)"
    )]
    IncludeOutside(String),
    /// An included device, folder or pipe.
    #[error("`{0}` is no regular file: it is not included")]
    IncludeKind(String),
    /// More included files than are read.
    #[error("more than {0} files are included: put their records into fewer")]
    IncludeFiles(usize),
    /// More octets of included files than are read.
    #[error("included files have more than {0} octets together")]
    IncludeOctets(u64),
    /// Something that is wrong in a file out of the zone's folder, which is not quoted.
    #[error("something is wrong here, and nothing of a file out of the zone's folder is shown")]
    Hidden,
    /// Files included too deeply.
    #[error("more than {0} files include one another")]
    IncludeDepth(usize),
    /// A zone file without an SOA record.
    #[error("no SOA record: this is no whole zone (RFC 1035 5.2)")]
    NoSoa,
    /// SOA records at two names.
    #[error("SOA records at `{0}` and at `{1}`: one file is one zone")]
    TwoApexes(String, String),
    /// Two different SOA records at one name (RFC 1035 §5.2).
    #[error("two SOA records at `{0}`: a zone has one (RFC 1035 5.2)")]
    TwoSoas(String),
    /// A zone of more than the store can number.
    #[error("the zone is larger than 4 GiB")]
    TooLarge,
}
