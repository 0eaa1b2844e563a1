//! Reads zone files: directives, owners, TTLs, classes, included files (RFC 1035 §5, RFC 2308 §4, RFC 3597 §5).

mod aliases;
mod generate;
mod include;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::base::iana::Class;

use crate::error::{LoadError, Problem};
use crate::finding::Oddity;
use crate::rdata;
use crate::records::Records;
use crate::rtype;
use crate::scan::{Field, Scanner};
use generate::{Generate, MAX_GENERATED};
use include::{Included, Refusal};
pub use include::{Includes, MAX_INCLUDED_FILES, MAX_INCLUDED_OCTETS};

/// How zone files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The files that may be included.
    pub includes: Includes,
    /// Whether records that no zone may have are findings instead of errors, and are left out: of several aliases at a name all but the first, and
    /// those whose data have a length or content that RFCs rule out.
    pub keep_going: bool,
}

impl From<Includes> for Reading {
    fn from(includes: Includes) -> Self {
        Self { includes, keep_going: false }
    }
}

/// Most files that may be open within one another through `$INCLUDE`.
pub const MAX_INCLUDE_DEPTH: usize = 16;

/// Reads a zone file and what it includes, which must be below its folder.
///
/// Relative names are completed by `origin` (wire format) until `$ORIGIN` gives another. Included files are looked for
/// beside the file that includes them.
///
/// # Errors
/// The first thing that is wrong, with its file and line.
pub fn file(path: &Path, origin: Option<&[u8]>) -> Result<Records, LoadError> {
    file_with(path, origin, Reading::default())
}

/// The same, read in a way of its own.
///
/// # Errors
/// As [`file()`].
pub fn file_with(path: &Path, origin: Option<&[u8]>, reading: impl Into<Reading>) -> Result<Records, LoadError> {
    let reading = reading.into();
    let text = fs::read(path).map_err(|source| LoadError::Read { file: path.to_owned(), source })?;
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    read(&text, path, origin, reading.keep_going, &mut |path, shown, room| {
        include::open(folder, path, shown, reading.includes, room)
    })
}

/// Reads the text of a zone file. `path` names it in errors; `open` gives the text of included files.
///
/// # Errors
/// As [`file()`].
pub fn text_of(
    text: &[u8],
    path: &Path,
    origin: Option<&[u8]>,
    open: &mut dyn FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Result<Records, LoadError> {
    read(text, path, origin, false, &mut |path, _, _| Ok(Included { text: open(path)?, is_outside: false }))
}

/// Reads the data of one record as it stands in zone files, names uncompressed; relative ones are completed by `origin`.
///
/// # Errors
/// What is wrong with it.
pub fn data(rtype: u16, text: &[u8], origin: Option<&[u8]>) -> Result<Vec<u8>, Problem> {
    let (mut scanner, mut data) = (Scanner::new(text), Vec::new());
    scanner.next_entry().ok_or(Problem::Ends("the data of a record"))?;
    rdata::parse(rtype, &mut scanner, origin, &mut data)?;
    if scanner.next_entry().is_some() {
        return Err(Problem::Trailing(scanner.need("the end")?.show()));
    }
    match rdata::judge(rtype, &data) {
        Err(fault) if fault.is_refused => Err(Problem::Content(rtype::name_of(rtype), fault.wrong)),
        _ => Ok(data),
    }
}

/// Opens an included file: its path, how errors name it, and how many octets it may have.
type Open<'a> = dyn FnMut(&Path, &str, u64) -> Result<Included, Refusal> + 'a;

fn read(
    text: &[u8],
    path: &Path,
    origin: Option<&[u8]>,
    keep_going: bool,
    open: &mut Open<'_>,
) -> Result<Records, LoadError> {
    let origin = origin.map(<[u8]>::to_ascii_lowercase);
    let mut loader = Loader {
        records: Records::with_capacity(text.len()),
        class: None,
        keep_going,
        default_ttl: None,
        generated: 0,
        included: 0,
        room: MAX_INCLUDED_OCTETS,
        outside: Vec::new(),
        open,
    };
    loader.read(
        text,
        &mut File { path: path.to_owned(), outer: Vec::new(), origin, owner: None, last_ttl: None, is_outside: false },
    )?;
    if !keep_going {
        aliases::check(&loader.records, &loader.outside)?;
    }
    Ok(loader.records)
}

/// What holds for all files of a zone.
struct Loader<'a> {
    records: Records,
    class: Option<u16>,
    keep_going: bool,
    default_ttl: Option<u32>,
    /// Records of `$GENERATE` so far.
    generated: u64,
    /// Files included so far, and octets that others may have.
    included: usize,
    room: u64,
    /// The numbers of files of which nothing is shown in errors.
    outside: Vec<u16>,
    open: &'a mut Open<'a>,
}

/// What holds within a file.
struct File {
    path: PathBuf,
    /// The files that include this one.
    outer: Vec<PathBuf>,
    origin: Option<Vec<u8>>,
    owner: Option<Vec<u8>>,
    last_ttl: Option<u32>,
    /// Whether nothing of it is shown in errors.
    is_outside: bool,
}

impl File {
    fn error(&self, scanner: &Scanner<'_>, problem: Problem) -> LoadError {
        let problem = if self.is_outside { Problem::Hidden } else { problem };
        LoadError::Entry { file: self.path.clone(), line: scanner.line(), problem }
    }
}

/// What stands in an entry.
enum Entry<'a> {
    Done,
    Include { path: Field<'a>, origin: Option<Vec<u8>> },
    Generate(Generate),
}

impl Loader<'_> {
    fn read(&mut self, text: &[u8], file: &mut File) -> Result<(), LoadError> {
        let mut scanner = Scanner::new(text);
        let number = self.records.add_file(&file.path);
        if file.is_outside {
            self.outside.push(number);
        }
        while let Some(indented) = scanner.next_entry() {
            let entry = self.entry(&mut scanner, indented, file, number);
            match entry.map_err(|problem| file.error(&scanner, problem))? {
                Entry::Done => {}
                Entry::Include { path, origin } => self.include(path, origin, &scanner, file)?,
                Entry::Generate(generate) => {
                    let generated = self.generate(&generate, scanner.line(), file, number);
                    generated.map_err(|problem| file.error(&scanner, problem))?;
                }
            }
        }
        Ok(())
    }

    fn entry<'t>(
        &mut self,
        scanner: &mut Scanner<'t>,
        indented: bool,
        file: &mut File,
        number: u16,
    ) -> Result<Entry<'t>, Problem> {
        if !indented {
            // An entry that has begun has a field, if only a parenthesis.
            let field = scanner.need("an owner name")?;
            if field.raw.first() == Some(&b'$') && !field.quoted {
                return self.directive(field, scanner, file);
            }
            set_owner(field, file)?;
        }
        self.record(scanner, file, number).map(|()| Entry::Done)
    }

    fn directive<'t>(
        &mut self,
        field: Field<'_>,
        scanner: &mut Scanner<'t>,
        file: &mut File,
    ) -> Result<Entry<'t>, Problem> {
        let mut entry = Entry::Done;
        if field.raw.eq_ignore_ascii_case(b"$ORIGIN") {
            file.origin = Some(name(scanner.need("the origin")?, file)?);
        } else if field.raw.eq_ignore_ascii_case(b"$TTL") {
            self.default_ttl = Some(rdata::ttl(scanner.need("seconds")?)?);
        } else if field.raw.eq_ignore_ascii_case(b"$INCLUDE") {
            let path = scanner.need("the path of a file")?;
            let origin = scanner.field()?.map(|origin| name(origin, file)).transpose()?;
            entry = Entry::Include { path, origin };
        } else if field.raw.eq_ignore_ascii_case(b"$GENERATE") {
            entry = Entry::Generate(Generate::read(scanner)?);
        } else {
            return Err(Problem::Directive(field.show()));
        }
        scanner.end_entry().map(|()| entry)
    }

    /// Reads the lines made by a `$GENERATE`, all of which are at `line`.
    fn generate(&mut self, generate: &Generate, line: u32, file: &mut File, number: u16) -> Result<(), Problem> {
        self.generated += generate.count();
        if self.generated > MAX_GENERATED {
            return Err(Problem::Generated(MAX_GENERATED));
        }
        let mut text = Vec::new();
        for value in generate.numbers() {
            generate.line(value, &mut text)?;
            let mut scanner = Scanner::at_line(&text, line);
            if scanner.next_entry().is_some() {
                set_owner(scanner.need("an owner name")?, file)?;
                self.record(&mut scanner, file, number)?;
            }
        }
        Ok(())
    }

    fn include(
        &mut self,
        path: Field<'_>,
        origin: Option<Vec<u8>>,
        scanner: &Scanner<'_>,
        file: &File,
    ) -> Result<(), LoadError> {
        let shown = path.show();
        let written = PathBuf::from(String::from_utf8_lossy(path.raw).into_owned());
        let inner = file.path.parent().map_or_else(|| written.clone(), |folder| folder.join(&written));
        let mut outer = file.outer.clone();
        outer.push(file.path.clone());
        if outer.contains(&inner) {
            return Err(file.error(scanner, Problem::IncludeCycle(shown)));
        }
        if outer.len() >= MAX_INCLUDE_DEPTH {
            return Err(file.error(scanner, Problem::IncludeDepth(MAX_INCLUDE_DEPTH)));
        }
        self.included += 1;
        if self.included > MAX_INCLUDED_FILES {
            return Err(file.error(scanner, Problem::IncludeFiles(MAX_INCLUDED_FILES)));
        }
        let Included { text, is_outside } =
            (self.open)(&inner, &shown, self.room).map_err(|refusal| match refusal {
                Refusal::Read(source) if !file.is_outside => LoadError::Read { file: inner.clone(), source },
                Refusal::Read(_) => file.error(scanner, Problem::Hidden),
                Refusal::Problem(problem) => file.error(scanner, problem),
            })?;
        self.room = self.room.saturating_sub(text.len() as u64);
        // The including file's origin and owner are as before when the included one ends (RFC 1035 §5.1).
        let origin = origin.or_else(|| file.origin.clone());
        let (owner, last_ttl) = (file.owner.clone(), file.last_ttl);
        self.read(&text, &mut File { path: inner, outer, origin, owner, last_ttl, is_outside })
    }

    #[inline]
    fn record(&mut self, scanner: &mut Scanner<'_>, file: &mut File, number: u16) -> Result<(), Problem> {
        let line = scanner.line();
        let owner = file.owner.as_deref().ok_or(Problem::NoOwner)?;
        let head = Head::read(scanner)?;
        self.check_class(head.class)?;
        if matches!(head.rtype, 0 | rtype::OPT | 128..=255) {
            return Err(Problem::MetaType(rtype::name_of(head.rtype)));
        }
        let start = self.records.begin_data();
        rdata::parse(head.rtype, scanner, file.origin.as_deref(), self.records.octets())?;
        let ttl = head
            .ttl
            .or(self.default_ttl)
            .or(file.last_ttl)
            .or_else(|| soa_minimum(head.rtype, &self.records.octets()[start..]));
        let ttl = ttl.ok_or(Problem::NoTtl)?;
        file.last_ttl = Some(ttl);
        if let Err(fault) = rdata::judge(head.rtype, &self.records.octets()[start..]) {
            let name = rtype::name_of(head.rtype);
            match (fault.is_refused, self.keep_going) {
                (false, _) => self.records.note((number, line), Oddity::Content(name, fault.wrong)),
                (true, false) => return Err(Problem::Content(name, fault.wrong)),
                (true, true) => {
                    self.records.drop_data(start);
                    self.records.note((number, line), Oddity::LeftOut(name, fault.wrong));
                    return Ok(());
                }
            }
        }
        // RFC 2181 §8: a TTL with the top bit set is zero.
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        self.records.finish(owner, head.rtype, ttl, start, (number, line))
    }

    /// All records of a zone have one class (RFC 1035 §5.2).
    fn check_class(&mut self, class: Option<u16>) -> Result<(), Problem> {
        let Some(found) = class else { return Ok(()) };
        let zone = *self.class.get_or_insert(found);
        self.records.set_class(zone);
        if zone == found { Ok(()) } else { Err(Problem::Class { zone, found }) }
    }
}

/// The TTL that RFC 1035 gives a zone whose SOA has none: its MINIMUM field.
fn soa_minimum(rtype: u16, data: &[u8]) -> Option<u32> {
    (rtype == rtype::SOA).then(|| data.last_chunk().map(|&octets| u32::from_be_bytes(octets))).flatten()
}

fn name(field: Field<'_>, file: &File) -> Result<Vec<u8>, Problem> {
    let mut wire = Vec::with_capacity(64);
    rdata::name(field, file.origin.as_deref(), &mut wire)?;
    Ok(wire)
}

/// Takes an owner name into the buffer of the last one.
#[inline]
fn set_owner(field: Field<'_>, file: &mut File) -> Result<(), Problem> {
    let mut wire = file.owner.take().unwrap_or_default();
    wire.clear();
    rdata::name(field, file.origin.as_deref(), &mut wire)?;
    wire.make_ascii_lowercase();
    file.owner = Some(wire);
    Ok(())
}

/// TTL and class in any order, both optional, and the type.
struct Head {
    ttl: Option<u32>,
    class: Option<u16>,
    rtype: u16,
}

impl Head {
    #[inline]
    fn read(scanner: &mut Scanner<'_>) -> Result<Self, Problem> {
        let (mut seconds, mut class) = (None, None);
        loop {
            let field = scanner.need("a record type")?;
            if seconds.is_none() && field.raw.first().is_some_and(u8::is_ascii_digit) {
                seconds = Some(rdata::ttl(field)?);
            } else if class.is_none()
                && let Some(found) = class_of(field.raw)
            {
                class = Some(found);
            } else if let Some(rtype) = rtype::parse(field.raw) {
                return Ok(Self { ttl: seconds, class, rtype });
            } else {
                return Err(Problem::Expected { expected: "a TTL, a class or a record type", found: field.show() });
            }
        }
    }
}

/// A class that zones have: `IN`, `CH`, `HS`, `CLASSn`. `ANY` and `NONE` are none, and `ANY` is a type here.
#[inline]
fn class_of(raw: &[u8]) -> Option<u16> {
    if raw.eq_ignore_ascii_case(b"IN") {
        return Some(1);
    }
    if !matches!(raw.first()?.to_ascii_uppercase(), b'C' | b'H') {
        return None;
    }
    std::str::from_utf8(raw).ok()?.parse().map(Class::to_int).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Records, LoadError> {
        let mut open = |path: &Path| match path.to_str() {
            Some("zones/inner") => Ok(b"inner 5 A 192.0.2.5\n$ORIGIN deep\nx A 192.0.2.6\n".to_vec()),
            Some("zones/loop") => Ok(b"$INCLUDE main\n".to_vec()),
            Some("zones/bad") => Ok(b"\n\nx A nothing\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        text_of(text.as_bytes(), Path::new("zones/main"), Some(b"\x07example\0"), &mut open)
    }

    fn lines(text: &str) -> Vec<String> {
        load(text).unwrap().iter().map(|record| record.to_string()).collect()
    }

    #[test]
    fn directives_and_defaults_hold_for_what_follows() {
        let found =
            lines("$TTL 1h\n@ IN A 192.0.2.1\n  300 A 192.0.2.2\n$ORIGIN sub\nWWW A 192.0.2.3\nx. IN 60 A 192.0.2.4\n");
        assert_eq!(
            found,
            [
                "example. 3600 A \\# 4 c0000201",
                "example. 300 A \\# 4 c0000202",
                "www.sub.example. 3600 A \\# 4 c0000203",
                "x. 60 A \\# 4 c0000204",
            ]
        );
    }

    #[test]
    fn an_included_file_leaves_origin_and_owner_alone() {
        let found = lines("$TTL 1\na A 192.0.2.1\n$INCLUDE inner sub\n A 192.0.2.2\nb A 192.0.2.3\n");
        assert_eq!(
            found,
            [
                "a.example. 1 A \\# 4 c0000201",
                "inner.sub.example. 5 A \\# 4 c0000205",
                "x.deep.sub.example. 1 A \\# 4 c0000206",
                "a.example. 1 A \\# 4 c0000202",
                "b.example. 1 A \\# 4 c0000203",
            ]
        );
    }

    #[test]
    fn the_last_ttl_or_the_soa_is_the_default() {
        let found = lines("@ SOA a b 1 2 3 4 77\nx 5 A 192.0.2.1\ny A 192.0.2.2\n");
        let ttls: Vec<_> = found.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(ttls, ["77", "5", "5"]);
    }

    #[test]
    fn errors_have_file_line_and_reason() {
        for (text, message) in [
            ("\n\nx 1 A 1.2.3\n", "zones/main:3: expected an IPv4 address, found `1.2.3`"),
            ("x 1 MX (\n 1\n)\n", "zones/main:3: unexpected end of the entry, expected a domain name"),
            ("x A 192.0.2.1\n", "zones/main:1: the record has no TTL: add one, or a $TTL directive above it"),
            (" A 192.0.2.1\n", "zones/main:1: the first entry has no owner name"),
            ("$TTL 1\nx FOO 1\n", "zones/main:2: expected a TTL, a class or a record type, found `FOO`"),
            (
                "x 1 IN A 192.0.2.1\nx 1 CH A 192.0.2.1\n",
                "zones/main:2: record of class 3 in a zone of class 1 (RFC 1035 5.2)",
            ),
            ("$FOO\n", "zones/main:1: unknown directive `$FOO`: use $ORIGIN, $TTL, $INCLUDE or $GENERATE"),
            ("\n$INCLUDE loop\n", "zones/loop:1: `main` includes itself"),
            ("$TTL 1\n$INCLUDE bad\n", "zones/bad:3: expected an IPv4 address, found `nothing`"),
            ("x 1 ANY a\n", "zones/main:1: type ANY is not allowed in a zone"),
        ] {
            assert_eq!(load(text).unwrap_err().to_string(), message, "{text}");
        }
        assert!(matches!(load("$INCLUDE none"), Err(LoadError::Read { .. })));
    }

    proptest::proptest! {
        #[test]
        fn any_text_ends_in_records_or_an_error(text in "[a-z0-9 .()\"\\\\;@$\n\t]{0,80}", octets in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)) {
            let _ = load(&text);
            let _ = text_of(&octets, Path::new("x"), None, &mut |_| Err(io::ErrorKind::NotFound.into()));
        }

        #[test]
        fn any_generate_line_ends_in_records_or_an_error(
            range in "[0-9]{1,2}-[0-9]{1,3}(/[0-9])?", template in "[a-zA $1{},.\\\\\"xoXnN-]{0,30}",
        ) {
            let _ = load(&format!("$TTL 1\n$GENERATE {range} {template}\n"));
            let _ = load(&format!("$TTL 1\n$GENERATE {range} x$ TXT {template}\n"));
        }

        #[test]
        fn any_fields_of_any_type_end_in_data_or_an_error(rtype in 0_u16..300, fields in "([0-9a-zA-Z:./=,\"\\\\#-]{0,12} ){0,8}") {
            let _ = load(&format!("x 1 TYPE{rtype} {fields}\n"));
        }
    }
}
