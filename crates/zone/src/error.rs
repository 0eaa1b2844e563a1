//! Errors in zone files, with file and line.

use std::path::PathBuf;

/// A zone that cannot be loaded. One line: the file, the line, the problem.
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
    /// An invalid entry.
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
        /// The problem.
        problem: Problem,
    },
}

/// What is wrong with the content of a record's data; references are to RFCs and their sections.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A field whose length follows from another one.
    #[error("the length of the {what} is {found} instead of {wanted} bytes ({reference})")]
    Length {
        /// The field.
        what: &'static str,
        /// Its octets, as the other field says.
        wanted: usize,
        /// Its octets.
        found: usize,
        /// Where this is written.
        reference: &'static str,
    },
    /// A field that is too short.
    #[error("the length of the {what} is {found} bytes, the minimum is {least} ({reference})")]
    Short {
        /// The field.
        what: &'static str,
        /// Octets that it has at least.
        least: usize,
        /// Its octets.
        found: usize,
        /// Where this is written.
        reference: &'static str,
    },
    /// Anything else.
    #[error("{what} ({reference})")]
    Rule {
        /// What is wrong.
        what: &'static str,
        /// Where this is written.
        reference: &'static str,
    },
}

/// What is wrong with an entry or with a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A field of the wrong form.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// What should be there.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// An entry that ends before its last field.
    #[error("unexpected end of the entry, expected {0}")]
    Ends(&'static str),
    /// More fields than the type has.
    #[error("unexpected field `{0}` after the end of the record data")]
    Trailing(String),
    /// An invalid name.
    #[error(transparent)]
    Name(#[from] ldplayer_core::name::BadName),
    /// A relative name, or `@`, without an origin.
    #[error("relative name `{0}` without an origin: add $ORIGIN, or give the origin of the zone")]
    NoOrigin(String),
    /// A first entry that starts with a blank.
    #[error("the first entry has no owner name")]
    NoOwner,
    /// A record before any TTL.
    #[error("the record has no TTL: add one, or a $TTL directive above it")]
    NoTtl,
    /// Two classes in a file (RFC 1035 §5.2).
    #[error("record of class {found} in a zone of class {zone} (RFC 1035 5.2)")]
    Class {
        /// The class of the zone.
        zone: u16,
        /// The class found.
        found: u16,
    },
    /// A type whose data has no known text format.
    #[error("the data format of {0} is unknown: write the data as \\# LENGTH HEX (RFC 3597)")]
    NoGrammar(String),
    /// A type that no zone holds, such as OPT and ANY.
    #[error("type {0} is not allowed in a zone")]
    MetaType(String),
    /// Data in the form of RFC 3597 that does not have the length given.
    #[error("length {said} does not match the data, which has {found} bytes (RFC 3597 5)")]
    Length {
        /// The length given.
        said: usize,
        /// The length of the data.
        found: usize,
    },
    /// Data that is invalid for the type.
    #[error("invalid data for type {0}")]
    Data(String),
    /// Data of the right form whose content RFCs rule out: the type, and the fault.
    #[error("invalid {0} record: {1}")]
    Content(String, Wrong),
    /// Data longer than a record can hold.
    #[error("the data has {0} bytes, the maximum is 65535")]
    Long(usize),
    /// A character string longer than 255 octets.
    #[error("a character string has {0} bytes, the maximum is 255 (RFC 1035 3.3)")]
    LongString(usize),
    /// A parenthesis that is not closed, or closed twice.
    #[error("unbalanced parenthesis")]
    Parenthesis,
    /// A string without its closing quote.
    #[error("missing closing quote")]
    Quote,
    /// An unknown directive.
    #[error("unknown directive `{0}`: use $ORIGIN, $TTL, $INCLUDE or $GENERATE")]
    Directive(String),
    /// A file that includes itself, directly or through others.
    #[error("`{0}` includes itself")]
    IncludeCycle(String),
    /// More records than `$GENERATE` may make.
    #[error("$GENERATE would make more than {0} records in this zone: write them into a zone file instead")]
    Generated(u64),
    /// An included file outside the folder of the zone file; the path as written.
    #[error(
        "`{0}` is outside the folder of the zone file, and only files in that folder are included (see --include-anywhere of serve, zones check, zones sign and zones views)"
    )]
    IncludeOutside(String),
    /// An included device, folder or pipe.
    #[error("`{0}` is not a regular file and is not included")]
    IncludeKind(String),
    /// Too many included files.
    #[error("more than {0} included files: put the records into fewer files")]
    IncludeFiles(usize),
    /// Included files that are too large in total.
    #[error("the included files are larger than {0} bytes in total")]
    IncludeOctets(u64),
    /// An error in a file outside the folder of the zone file, whose content is not shown.
    #[error("syntax error; details are not shown for files outside the folder of the zone file")]
    Hidden,
    /// Files included too deeply.
    #[error("$INCLUDE is nested more than {0} files deep")]
    IncludeDepth(usize),
    /// A zone file without an SOA record.
    #[error("no SOA record: the zone is incomplete (RFC 1035 5.2)")]
    NoSoa,
    /// SOA records at two names.
    #[error("SOA records at `{0}` and `{1}`: a file must hold one zone")]
    TwoApexes(String, String),
    /// Two different SOA records at one name (RFC 1035 §5.2).
    #[error("two SOA records at `{0}`: a zone must have exactly one (RFC 1035 5.2)")]
    TwoSoas(String),
    /// A second alias at a name (RFC 2181 §10.1, RFC 6672 §2.4): owner and type.
    #[error(
        "a second, different {1} record at `{0}`: a name has one at most (RFC 2181 10.1, RFC 6672 2.4); with --keep-going, serve and testbed up serve the first"
    )]
    SecondAlias(String, String),
    /// A zone above the limit of the store.
    #[error("the zone is larger than 4 GiB")]
    TooLarge,
}
